/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paired operations: a rank exposes a buffer for one use; a partner claims it and moves its data.
 *
 * Everything is built on regions and words. An exposer has a table, a region of host memory, with a
 * slot for each buffer: its description, and one word with its state. The word has a turn, which
 * grows each time the slot is reused. It is changed by compare and swap only, so that exactly one
 * wins: one of several partners, or a partner or the end of the lifetime. Whoever was too late
 * finds another word and has touched nothing.
 *
 *     OPEN -> BEGUN by a partner -> ENDED with its outcome
 *     OPEN -> ENDED by the exposer: canceled, expired, or the designated partner has died
 *     BEGUN -> ENDED by the exposer: the partner has died
 *
 * A partner that ends a buffer raises the word as a signal, after the bytes: that wakes the
 * exposer.
 */
#ifndef NXR_PAIR_PAIR_H
#define NXR_PAIR_PAIR_H

#include "core/request.h"
#include "core/token.h"
#include "region/region.h"
#include "util/symbol.h"

struct nxr_exposed_buffer;

/* The table of each rank; preceded by NXR_REGION_INTERNAL. */
#define NXR_PAIR_TABLE   "\1pair"
#define NXR_PAIR_N_SLOTS 4096

/* The word: turn << 40 | the exposer's number of the process that has begun << 8 | state. */
#define NXR_PAIR_TURNS 0xffffffu

enum nxr_pair_state {
    NXR_PAIR_OPEN = 1,
    NXR_PAIR_BEGUN = 2,
    NXR_PAIR_TOUCHED = 0x40, /* with ENDED: bytes may have moved */
    NXR_PAIR_ENDED = 0x80,   /* | the status that it has ended with, negated */
};
#define NXR_PAIR_STATUS_MASK 0x3fu

/* A slot of the table, as partners read it. */
struct nxr_pair_slot {
    _Atomic uint64_t word;
    unsigned char nonce[NXR_TOKEN_NONCE_NBYTES];
    uint64_t nbytes;
    uint64_t offset; /* in the region */
    uint64_t generation;
    uint32_t use; /* enum nixl_pair_use */
    int32_t rank; /* the rank that may use it, or NIXL_ANY_RANK */
    char name[NIXL_NAME_MAX + 1];
    char unused[8];
};
_Static_assert(sizeof(struct nxr_pair_slot) == 320, "read by other ranks, in whole lines");

static inline uint64_t nxr_pair_word(uint32_t turn, int rank, unsigned state)
{
    return (uint64_t)(turn & NXR_PAIR_TURNS) << 40 | (uint64_t)(uint32_t)rank << 8 | state;
}

static inline unsigned nxr_pair_word_state(uint64_t word)
{
    return (unsigned)(word & 0xff);
}

static inline int nxr_pair_word_rank(uint64_t word)
{
    return (int)(uint32_t)(word >> 8);
}

static inline uint32_t nxr_pair_word_turn(uint64_t word)
{
    return (uint32_t)(word >> 40);
}

/* Encode a status in a word that is ENDED, and decode it. */
static inline unsigned nxr_pair_ended(int status, bool is_touched)
{
    return NXR_PAIR_ENDED | (is_touched ? NXR_PAIR_TOUCHED : 0u) | (unsigned)-status;
}

static inline int nxr_pair_status(uint64_t word)
{
    return -(int)(word & NXR_PAIR_STATUS_MASK);
}

/* ---- what this rank exposes (pair_exposed.c) ------------------------------------------------- */

/* A buffer to be exposed. */
struct nxr_offer {
    struct nixl_region *region;
    uint64_t offset;
    int64_t expires_at;
    int rank;
};

/* Of the requests of exposed buffers. */
extern NXR_HIDDEN const struct nxr_req_owner nxr_exposed_owner;

/* Make the table, unless it is there. NIXL_OK, or the failure of `operation`, recorded. */
int nxr_exposed_need_table(const char *operation);

/*
 * Take a slot for the request, and fill in the rest of the token. NIXL_OK, or the failure of
 * `operation`, recorded: NIXL_E_LIMIT, NIXL_E_INTERNAL.
 */
int nxr_exposed_add(const char *operation, const struct nxr_offer *offer, struct nixl_req *req,
                    struct nxr_token *token);

/* ---- handles to the regions of others (pair_handle.c) ---------------------------------------- */

struct nxr_pair_handle {
    struct nxr_list link;
    struct nixl_region *region;
    unsigned n_users;
};

/* The handle to regions of that name; must be given back. NULL: no memory. */
struct nxr_pair_handle *nxr_pair_handle_take(const char *name);
void nxr_pair_handle_give(struct nxr_pair_handle *handle);

/* The handle to the tables. NIXL_OK, or the failure of `operation`, recorded. */
int nxr_pair_handle_tables(const char *operation, struct nixl_region **tables_p);

/* The last finalize, when nothing is under way: the regions are closed together with all others. */
void nxr_pair_handles_drop(void);

extern const struct nxr_subsystem nxr_pair_subsystem;

#endif
