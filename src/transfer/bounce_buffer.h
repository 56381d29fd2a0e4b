/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a bounce buffer, shared by its two sides; bounce.h describes the protocol. */
#ifndef NXR_TRANSFER_BOUNCE_BUFFER_H
#define NXR_TRANSFER_BOUNCE_BUFFER_H

#include "core/control.h"

#define NXR_BOUNCE_CHUNKS 8

enum nxr_bounce_state {
    NXR_BOUNCE_FREE,
    NXR_BOUNCE_POSTED,
    NXR_BOUNCE_SERVING,
    NXR_BOUNCE_DONE,
    NXR_BOUNCE_REVOKED,
};

struct nxr_bounce_chunk {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t state; /* enum nxr_bounce_state */
    uint32_t is_put;
    int32_t status; /* owner: the outcome */
    uint32_t id;    /* of the owner's region */
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
};

struct nxr_bounce_buffer {
    _Alignas(NXR_LINE_NBYTES) _Atomic uint32_t owner_sleeps;
    struct nxr_bounce_chunk chunks[NXR_BOUNCE_CHUNKS];
};

/* The data of the chunks lies behind the descriptors, page aligned. */
#define NXR_BOUNCE_HEAD_NBYTES 4096
_Static_assert(sizeof(struct nxr_bounce_buffer) <= NXR_BOUNCE_HEAD_NBYTES, "the head is a page");

static inline void *nxr_bounce_data(struct nxr_bounce_buffer *buffer, unsigned index,
                                    uint64_t chunk_nbytes)
{
    return (char *)buffer + NXR_BOUNCE_HEAD_NBYTES + index * chunk_nbytes;
}

#endif
