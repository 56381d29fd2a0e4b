/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a bounce buffer: staging memory that two processes of a host map, the path to
 * registered memory of the other if the kernel forbids process_vm calls, and to storage. The
 * initiator creates it at first use, a sealed memfd with some chunks: for each (initiator, owner)
 * pair one buffer for memory and one for storage, whose devices want many requests at once. The
 * owner's service thread copies between the chunks and its region, so the owner's user threads are
 * free to compute. Each chunk by itself goes through
 *     FREE -> POSTED (initiator: a put's bytes are in it, or a get's are wanted) -> SERVING (owner)
 *          -> DONE (owner) -> FREE (initiator, after it took status and bytes)
 *     POSTED -> FREE (initiator takes it back: the owner has not touched it)
 * Each step is an atomic exchange or release store that pairs with the other side's acquire load.
 */
#ifndef NXR_TRANSFER_STAGING_BUFFER_H
#define NXR_TRANSFER_STAGING_BUFFER_H

#include "core/control.h"
#include "transfer/staging.h"

enum nxr_bounce_state {
    NXR_BOUNCE_FREE,
    NXR_BOUNCE_POSTED,
    NXR_BOUNCE_SERVING,
    NXR_BOUNCE_DONE,
};

struct nxr_bounce_chunk {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t state; /* enum nxr_bounce_state */
    uint32_t is_put;
    int32_t status; /* owner: the outcome */
    uint32_t id;    /* of the owner's region */
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
    _Atomic uint32_t must_stop; /* 1: the initiator has given it up while it is served; 2: seen */
};

#define NXR_BOUNCE_MEMORY_CHUNKS  8
#define NXR_BOUNCE_STORAGE_CHUNKS 32 /* the most that a buffer may have */

struct nxr_bounce_buffer {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t owner_sleeps;
    _Atomic uint32_t is_refused; /* the owner could not map it, and serves nothing of it */
    struct nxr_bounce_chunk chunks[NXR_BOUNCE_STORAGE_CHUNKS]; /* as many as were offered */
};

/* The data of the chunks lies behind the descriptors, page aligned. */
#define NXR_BOUNCE_HEAD_NBYTES 4096
_Static_assert(sizeof(struct nxr_bounce_buffer) <= NXR_BOUNCE_HEAD_NBYTES, "the head is a page");

#endif
