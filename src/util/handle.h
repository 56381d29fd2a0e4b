/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches of handles with type-stable memory. A retired handle is not freed: it is reused for a
 * handle of the same type, and only after n_kept others have been retired after it. So a call on a
 * retired handle can still read it, and finds that it is not open.
 *
 * Lock: the caller of each function holds the owner's lock.
 */
#ifndef NXR_UTIL_HANDLE_H
#define NXR_UTIL_HANDLE_H

#include "util/list.h"

struct nxr_handle_cache {
    struct nxr_list retired; /* oldest first */
    unsigned n_retired;
    unsigned n_kept; /* how many retired ones are held back from reuse */
    size_t nbytes;   /* of a handle, a multiple of its alignment */
    size_t alignment;
    size_t link_offset; /* of a struct nxr_list in it, which the cache uses while it is retired */
};

/* The initial value of a cache called `_name`. */
#define NXR_HANDLE_CACHE(_name, _type, _link, _n_kept)                                             \
    {                                                                                              \
        .retired = {&(_name).retired, &(_name).retired}, .n_kept = (_n_kept),                      \
        .nbytes = sizeof(_type), .alignment = _Alignof(_type),                                     \
        .link_offset = offsetof(_type, _link),                                                     \
    }

/*
 * Take a handle: a retired one, unchanged except for its link, or a new one, all zeros. NULL: no
 * memory.
 */
void *nxr_handle_take(struct nxr_handle_cache *cache);

/* Retire a handle; its link must be in no list. */
void nxr_handle_retire(struct nxr_handle_cache *cache, void *handle);

/* Free all retired handles. No call may use one any more. */
void nxr_handles_free(struct nxr_handle_cache *cache);

#endif
