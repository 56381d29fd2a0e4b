/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of one size that are kept for their next use, since many of them live at a time: then
 * malloc() and free() leave the cache of the thread, and take some hundred instructions each. Any
 * thread may take and give. Builds with AddressSanitizer keep none, so that it sees every use.
 *
 * Lock: nxr_spares.lock, a leaf.
 */
#ifndef NXR_UTIL_SPARE_H
#define NXR_UTIL_SPARE_H

#include "util/lock.h"

#include <stddef.h>
#include <stdlib.h>

#define NXR_MAX_SPARES 64

struct nxr_spares {
    struct nxr_spin lock;
    unsigned n;
    void *blocks[NXR_MAX_SPARES];
};

/* A block, whose bytes are anything; NULL: no memory. */
static inline void *nxr_spare_take(struct nxr_spares *spares, size_t nbytes)
{
    void *block = NULL;

    nxr_spin_lock(&spares->lock);
    if (spares->n > 0) {
        block = spares->blocks[--spares->n];
    }
    nxr_spin_unlock(&spares->lock);
    return block != NULL ? block : malloc(nbytes);
}

static inline void nxr_spare_give(struct nxr_spares *spares, void *block)
{
#ifdef __SANITIZE_ADDRESS__
    (void)spares;
#else
    nxr_spin_lock(&spares->lock);
    if (spares->n < NXR_MAX_SPARES) {
        spares->blocks[spares->n++] = block;
        block = NULL;
    }
    nxr_spin_unlock(&spares->lock);
#endif
    free(block);
}

#endif
