/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that the dynamic loader has loaded into this process. A check for new ones costs two
 * memory reads: it is needed before each use of a user's pointer, which may belong to a driver that
 * was loaded a moment ago.
 */
#ifndef NXR_UTIL_LOADER_H
#define NXR_UTIL_LOADER_H

#include "util/symbol.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The last object that nxr_loader_find() has seen; the loader appends new ones after it. */
extern NXR_HIDDEN struct link_map *_Atomic nxr_loader_last;

/* Has something been loaded since the last nxr_loader_find()? True before the first one. */
static inline bool nxr_loader_has_news(void)
{
    struct link_map *last = atomic_load_explicit(&nxr_loader_last, memory_order_acquire);

    return __atomic_load_n(&last->l_next, __ATOMIC_ACQUIRE) != NULL;
}

/*
 * Is an object loaded whose file name begins with `name`, such as "libcuda.so"? Its path, which
 * must fit, is stored in `path`. Loads nothing and does not access the disk. Threads: any.
 */
bool nxr_loader_find(const char *name, char *path, size_t path_nbytes);

/* Release the objects that are kept loaded. No other thread may be in the library. */
void nxr_loader_forget(void);

#endif
