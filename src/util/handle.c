/* SPDX-License-Identifier: Apache-2.0 */
/* Caches of handles: see handle.h. No state of its own. */
#include "config.h"

#include "util/handle.h"

#include <stdlib.h>
#include <string.h>

static void *handle_of_link(const struct nxr_handle_cache *cache, struct nxr_list *link)
{
    return (char *)link - cache->link_offset;
}

void *nxr_handle_take(struct nxr_handle_cache *cache)
{
    void *handle;

    if (cache->n_retired > cache->n_kept) {
        cache->n_retired--;
        return handle_of_link(cache, nxr_list_pop(&cache->retired));
    }
    handle = aligned_alloc(cache->alignment, cache->nbytes);
    if (handle != NULL) {
        memset(handle, 0, cache->nbytes);
    }
    return handle;
}

void nxr_handle_retire(struct nxr_handle_cache *cache, void *handle)
{
    nxr_list_append(&cache->retired, (void *)((char *)handle + cache->link_offset));
    cache->n_retired++;
}

void nxr_handles_free(struct nxr_handle_cache *cache)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&cache->retired)) != NULL) {
        free(handle_of_link(cache, link));
    }
    cache->n_retired = 0;
}
