/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches of handles, whose memory is type-stable. A handle that was given back is not freed: it is
 * used again for a handle of the same type, and only after n_kept others were given back after it.
 * So a call on a handle that was given back can read it, and finds that it is not open.
 *
 * Lock: the owner's, which each call needs.
 */
#ifndef NXR_UTIL_HANDLE_H
#define NXR_UTIL_HANDLE_H

#include "util/list.h"

struct nxr_handle_cache {
    struct nxr_list retired; /* oldest first */
    unsigned n_retired;
    unsigned n_kept; /* retired ones that are not used again yet */
    size_t nbytes;   /* of a handle, a multiple of its alignment */
    size_t alignment;
    size_t link_offset; /* of a struct nxr_list in it, which is free while it is retired */
};

/* The value that a cache called `_name` begins with. */
#define NXR_HANDLE_CACHE(_name, _type, _link, _n_kept)                                             \
    {                                                                                              \
        .retired = {&(_name).retired, &(_name).retired}, .n_kept = (_n_kept),                      \
        .nbytes = sizeof(_type), .alignment = _Alignof(_type),                                     \
        .link_offset = offsetof(_type, _link),                                                     \
    }

/*
 * A handle for use: a retired one, as it was left but for its link, or a new one, all zeros. NULL:
 * no memory.
 */
void *nxr_handle_take(struct nxr_handle_cache *cache);

/* A handle is given back; its link is in no list. */
void nxr_handle_retire(struct nxr_handle_cache *cache, void *handle);

/* Free all that are retired: nobody calls with one any more. */
void nxr_handles_free(struct nxr_handle_cache *cache);

#endif
