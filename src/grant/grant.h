/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants: what owners and users of blocks share. The README of the folder says how they meet.
 *
 * Everything is built on one region of host memory of each owner, with a record for each grant and
 * pages for the pieces of those that have many.
 */
#ifndef NXR_GRANT_GRANT_H
#define NXR_GRANT_GRANT_H

#include "core/request.h"
#include "core/token.h"
#include "grant/grant_word.h"
#include "sync/granted.h"
#include "transfer/xfer.h"
#include "util/symbol.h"

/* ---- the table as users read it -------------------------------------------------------------- */

/* The table of each rank; preceded by NXR_REGION_INTERNAL. */
#define NXR_GRANT_TABLE   "\1grants"
#define NXR_GRANT_N_SLOTS 4096u
#define NXR_GRANT_N_PAGES 2048u

#define NXR_GRANT_N_PLACES    31u /* users at one moment */
#define NXR_GRANT_N_OWN       9u  /* pieces that a record itself has room for */
#define NXR_GRANT_PAGE_PIECES 255u

/* Bytes from start to end, exclusive. */
struct nxr_grant_piece {
    uint64_t start, end;
};

struct nxr_grant_record {
    _Atomic uint64_t word; /* grant_word.h */
    _Atomic uint64_t places[NXR_GRANT_N_PLACES];
    unsigned char nonce[NXR_TOKEN_NONCE_NBYTES];
    uint64_t nbytes; /* of all blocks, in all extents */
    uint32_t rights; /* of enum nixl_grant_right */
    uint32_t first_extent;
    uint32_t n_extents; /* pieces are offsets in each of these; 0: in the whole region */
    uint32_t n_pieces;
    uint32_t first_page; /* of the pieces, if the record has no room */
    uint32_t unused;
    char name[NIXL_NAME_MAX + 1]; /* of the region */
    struct nxr_grant_piece own[NXR_GRANT_N_OWN];
};
_Static_assert(sizeof(struct nxr_grant_record) == 704, "read by other ranks, in whole lines");

struct nxr_grant_page {
    uint32_t next;
    uint32_t unused[3];
    struct nxr_grant_piece pieces[NXR_GRANT_PAGE_PIECES];
};
_Static_assert(sizeof(struct nxr_grant_page) == 4096, "read by other ranks");

struct nxr_grant_table {
    struct nxr_grant_record records[NXR_GRANT_N_SLOTS];
    struct nxr_grant_page pages[NXR_GRANT_N_PAGES];
};

/* ---- pieces (grant_pieces.c) ----------------------------------------------------------------- */

/* Pieces in rising order, of which no two touch. */
struct nxr_grant_pieces {
    uint32_t first_extent, n_extents; /* as in the record */
    uint32_t n;
    struct nxr_grant_piece *list;
};

/*
 * What the blocks of an entry make, which have been found to lie in their memory; list is to be
 * freed. NIXL_OK; NIXL_E_NO_MEMORY; NIXL_E_LIMIT: more than NIXL_GRANT_PIECES_MAX.
 */
int nxr_grant_pieces_make(const struct nxr_blocks *blocks, struct nxr_grant_pieces *pieces);

/*
 * Are these bytes of a region among them? `extents`: those of the region there, or NULL. No bytes
 * always are.
 */
bool nxr_grant_pieces_have(const struct nxr_grant_pieces *pieces, const struct nxr_extents *extents,
                           uint64_t offset, uint64_t nbytes);

/* Are all blocks of that entry, whose memory has been found? If not, *at_p is where one begins. */
bool nxr_grant_pieces_have_blocks(const struct nxr_grant_pieces *pieces,
                                  const struct nxr_blocks *blocks, uint64_t *at_p);

/* ---- what this rank has lent ----------------------------------------------------------------- */

/* What an owner keeps of a slot. All but the table's memory: lent_lock. */
struct nxr_lent {
    struct nxr_list link;             /* of those that are lent, or free */
    struct nixl_req *req;             /* NULL: the grant has ended, and nobody uses its blocks */
    const struct nixl_region *region; /* NULL: it was closed meanwhile */
    uint32_t turn;
    uint32_t uses; /* as it was made */
    uint32_t n_pages, first_page;
    int64_t expires_at;
    unsigned char nonce[NXR_TOKEN_NONCE_NBYTES];
};

/* Inside job.lock. */
extern NXR_HIDDEN pthread_mutex_t nxr_lent_lock;

/* What follows is for holders of the lock (grant_table.c). */
extern NXR_HIDDEN struct nxr_list nxr_lent_list;

/* The record of a slot in use; and the slot of a token, whatever is in it now. NULL: no table. */
struct nxr_grant_record *nxr_lent_record(const struct nxr_lent *lent);
struct nxr_lent *nxr_lent_at(uint32_t slot);

/* The slot and its pages are free again; its word stays, for users that come late. */
void nxr_lent_give(struct nxr_lent *lent);

/* The last finalize: forget the table, which is closed with all regions. Takes the lock. */
void nxr_lent_drop(void);

/* ---- ends (grant_end.c) ---------------------------------------------------------------------- */

/* Shut the door, unless that has been done. Caller holds the lock. */
void nxr_lent_shut(struct nxr_lent *lent, enum nixl_grant_state state);

/*
 * End the request if the door is shut and nobody is inside. True: the door is shut, and somebody
 * is. Caller holds the lock.
 */
bool nxr_lent_look(struct nxr_lent *lent);
void nxr_lent_look_all(void); /* takes the lock */

/* What nxr_lent_look() has returned: have all looked at again from time to time. */
void nxr_lent_watch(bool must);

/* The owner's number of a user that is inside; -1: nobody is. Caller holds the lock. */
int nxr_lent_user(const struct nxr_lent *lent, uint32_t *n_users_p);

/* The lifetime ends at that time: have it noticed. Caller holds the lock. True: kick the service
 * thread when the lock is released. */
bool nxr_lent_expires(struct nxr_lent *lent, int64_t at);

extern const struct nxr_req_owner nxr_lent_owner;

/* ---- tokens that this rank has looked up (grant_open.c) -------------------------------------- */

struct nxr_grant_opened {
    _Atomic unsigned n_users;
    char text[NXR_TOKEN_NBYTES];
    struct nxr_token token;
    int rank;
    uint32_t rights;
    _Atomic uint64_t word; /* as it was last seen */
    char name[NIXL_NAME_MAX + 1];
    struct nxr_grant_pieces pieces;
};

/*
 * Look a token up, which is of that rank. NIXL_OK, and it must be given back; or the failure of
 * `operation`, recorded.
 */
int nxr_grant_open(const char *operation, const char *text, int rank,
                   struct nxr_grant_opened **opened_p);
void nxr_grant_give(struct nxr_grant_opened *opened);

/* The owner's table. NIXL_OK, or the failure of `operation`, recorded. */
int nxr_grant_table_of(const char *operation, int rank, struct nxr_segment **table_p);

/* Refuse a use because of the state: NIXL_E_STALE, recorded. 0: the grant is forgotten. */
const char *nxr_grant_why_ended(int state);
int nxr_grant_refuse(const char *operation, int rank, int state);

/* The last finalize. */
void nxr_grants_forget(void);

/* ---- users (grant_use.c, grant_enter.c, grant_lease.c) --------------------------------------- */

enum nxr_lease_step {
    NXR_LEASE_PLACE, /* take a place */
    NXR_LEASE_USE,   /* take a use; from now on the lease has its place */
    NXR_LEASE_MOVE,  /* the operation */
    NXR_LEASE_LEAVE, /* give the place back */
};

/* A use of a grant, from the place on until that is given back. */
struct nxr_lease {
    struct nxr_follower follower; /* of `under_way` */
    struct nxr_list link;
    const char *operation;
    struct nxr_granted what;
    struct nxr_grant_opened *opened;
    struct nxr_segment *table;
    uint32_t place, n_tried;    /* places that others have */
    uint64_t word;              /* of the grant, as it is taken to be */
    uint64_t fetched;           /* the former word of what the step changes */
    const char *why;            /* the grant cannot be entered; NULL: the status says it */
    struct nixl_req *under_way; /* of the step */
    _Atomic bool is_told;       /* it may have ended */

    /* leases_lock; `req` is constant while a thread drives the lease. */
    struct nixl_req *req; /* the caller's, made beforehand; NULL: it was stopped, and has ended */
    enum nxr_lease_step step;
    bool is_driven;      /* a thread continues the lease */
    bool must_stop;      /* what has not begun does not */
    unsigned n_stoppers; /* threads that stop `under_way` */
};

/* Begin with the first place. NIXL_E_AGAIN: make nxr_lease_change(); NIXL_E_STALE, and why. */
int nxr_lease_begin(struct nxr_lease *lease);

/* The change of the word that the step takes, or gives back. */
struct nxr_atomic nxr_lease_change(const struct nxr_lease *lease);

/*
 * What the change of a step that enters has found. NIXL_OK: a use is taken; NIXL_E_AGAIN: make the
 * next change; or the failure, not recorded.
 */
int nxr_lease_judge(struct nxr_lease *lease, uint64_t seen);

/*
 * Take a place and a use of a grant whose words are mapped here, within the call. NIXL_OK, or the
 * failure, recorded.
 */
int nxr_lease_enter(struct nxr_lease *lease);

/* Record why a lease fails. */
int nxr_lease_fail(const struct nxr_lease *lease, int status);

/*
 * Give the place back after an operation that has failed: nobody needs to know how that ends. Any
 * thread.
 */
void nxr_lease_abort(struct nxr_lease *lease);

/*
 * Take a place and a use, and then all further steps, as answers come: a word that was sent may
 * change whenever the owner goes on, and only the lease's request follows that to its end, however
 * long the caller waits. NIXL_OK; NIXL_INPROGRESS and
 * the caller's request; or the failure, recorded. Either way the lease and its request are no
 * longer the caller's.
 */
int nxr_lease_start(struct nxr_lease *lease, struct nixl_req **req_p);

/* Continue a lease with its step under way: *req_p is the caller's request. */
void nxr_lease_continue(struct nxr_lease *lease, enum nxr_lease_step step,
                        struct nixl_req *under_way, struct nixl_req **req_p);

/*
 * Give the place back after an operation that has succeeded. NIXL_OK; NIXL_INPROGRESS, and the
 * request that does it; NIXL_E_STALE: the grant has ended since, and the bytes must not be used.
 * Not recorded.
 */
int nxr_lease_leave(struct nxr_lease *lease, struct nixl_req **leaving_p);

void nxr_lease_free(struct nxr_lease *lease);

/* The last finalize: free the lease that is kept. */
void nxr_lease_drop_spare(void);

/* Why a grant that was left is stale. */
extern const char nxr_lease_why_stale[];

extern const struct nxr_req_owner nxr_lease_owner;

/* Continue what can be continued. Any thread, without locks. Has anything moved? */
bool nxr_leases_progress(void);
void nxr_leases_stop(void);

/* The last finalize: forget those that a peer has not answered. */
void nxr_leases_forget(void);

/* ---- the calls (grant_calls.c) --------------------------------------------------------------- */

void nxr_grant_register(void); /* in grant_use.c: for sync, and the messages */
void nxr_grant_register_messages(void);

extern const struct nxr_subsystem nxr_grant_subsystem;

#endif
