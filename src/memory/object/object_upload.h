/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An upload, shared by the files that let it go on (object_upload.c) and that know what waits for
 * uploads (object_wait.c). Lock: set->lock, which all callers hold.
 */
#ifndef NXR_OBJECT_UPLOAD_H
#define NXR_OBJECT_UPLOAD_H

#include "memory/object/object.h"
#include "memory/object/object_part.h"

enum part_state {
    PART_COLLECTING,
    PART_QUEUED, /* all bytes are there; the upload has no name yet */
    PART_SENDING,
    PART_SENT,
};

struct object_part {
    struct nxr_object_io io;
    struct object_upload *upload;
    enum part_state state;
    char *buffer; /* in which its bytes are collected; NULL: none, or they lie at the caller's */
    struct object_spans spans;
    struct object_copy *waiter; /* is told when it is sent; of the last one, when all is done */
};

struct object_upload {
    struct nxr_list link, by_object;
    struct nxr_object_set *set;
    uint64_t number, object;
    uint64_t origin;
    int64_t touched_ns;
    uint64_t toucher;  /* the number of the copy that put the latest bytes */
    unsigned n_unsent; /* parts that are not PART_SENT */
    unsigned n_ios;    /* requests under way */
    bool is_creating, is_named, is_failed, is_over;
    bool is_open;            /* it counts in set->n_open */
    bool is_ending;          /* it is open, and ends by itself; it counts in set->n_ending */
    bool is_waiting;         /* for its turn to be created; it counts in set->n_waiting */
    unsigned n_shut_then;    /* uploads that were not open any more when CREATE was submitted */
    uint64_t nbytes_come;    /* of its bytes */
    atomic_bool is_canceled; /* whoever waits for it gives it up */
    struct object_copy *last_waiter;
    struct nxr_object_io io;      /* CREATE, COMPLETE, ABORT */
    struct nxr_object_part *sent; /* what the store has said of the parts */
    char name[NXR_OBJECT_UPLOAD_NBYTES];
    char key[NXR_OBJECT_KEY_MAX + 1];
    struct object_part parts[];
};

static inline uint64_t nxr_object_upload_part_nbytes(const struct nxr_object_set *set,
                                                     unsigned part)
{
    uint64_t begin = part * set->part_nbytes, left = set->object_nbytes - begin;

    return left < set->part_nbytes ? left : set->part_nbytes;
}

/* End the SYNCs that have waited for what is over now. */
void nxr_object_syncs_check(struct nxr_object_set *set, struct nxr_object_io **list_p);

/*
 * May its CREATE be submitted? Then it counts as open. False: it waits for its turn, until
 * nxr_object_upload_admitted() returns it.
 */
bool nxr_object_upload_may_open(struct object_upload *upload);

/*
 * Has its CREATE ended for want of a descriptor, of which another upload will give one back, or has
 * meanwhile? Then it is no failure.
 */
bool nxr_object_upload_is_short(struct object_upload *upload, const struct nxr_object_io *io);

/* A request of it has ended: it is not open any more, unless it has a name. */
void nxr_object_upload_shut(struct object_upload *upload);

/* More of its bytes have come, or it has failed: it may end by itself now. */
void nxr_object_upload_note(struct object_upload *upload);

/* The next one whose turn has come, which does not wait any more; NULL: none. */
struct object_upload *nxr_object_upload_admitted(struct nxr_object_set *set);

/*
 * A request of some upload has ended: let those of all directories go on that wait for descriptors,
 * by calling admit(), which may add to the list. Holds no lock; what is in the list is submitted
 * without one.
 */
void nxr_object_sets_admit(void (*admit)(struct nxr_object_set *set, struct nxr_object_io **list_p),
                           struct nxr_object_io **list_p);

void nxr_object_upload_waits(struct object_upload *upload, bool does_wait);

#endif
