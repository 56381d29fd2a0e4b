/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the dynamic loader has brought into this process, for those who must know when something
 * new has come, at no more than two reads of memory: a pointer may belong to a driver that was
 * loaded a moment ago.
 */
#ifndef NXR_UTIL_LOADER_H
#define NXR_UTIL_LOADER_H

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The last object that nxr_loader_find() has seen; the loader appends new ones behind it. */
extern struct link_map *_Atomic nxr_loader_last;

/* Has something been loaded since the last nxr_loader_find()? True before the first one. */
static inline bool nxr_loader_has_news(void)
{
    struct link_map *last = atomic_load_explicit(&nxr_loader_last, memory_order_acquire);

    return __atomic_load_n(&last->l_next, __ATOMIC_ACQUIRE) != NULL;
}

/*
 * Is an object loaded whose file name begins with `name`, such as "libcuda.so"? Its path, which
 * must fit, is stored in `path`. Loads nothing and looks at no disk. Threads: any.
 */
bool nxr_loader_find(const char *name, char *path, size_t path_nbytes);

/* Keep no object any longer. No other thread is in the library. */
void nxr_loader_forget(void);

#endif
