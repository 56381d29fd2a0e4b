/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles to the regions of other ranks, by name, for buffers that they expose. They are kept, so
 * that the next buffer of a region does not have to look it up again; to make room, the oldest
 * unused one is closed. Also the one handle to the tables of all ranks. Lock: handles_lock, taken
 * inside job.lock; no lock is taken inside it.
 */
#include "config.h"

#include "pair/pair.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KEPT 64 /* more than these are kept only while they are used */

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nixl_region *pair_handle_tables; /* the handle to the tables of all */
static struct nxr_list pair_handle_kept = {&pair_handle_kept,
                                           &pair_handle_kept}; /* the longest unused first */
static unsigned pair_handle_n_kept;

/* Caller holds the lock. */
static struct nxr_pair_handle *find_kept(const char *name)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &pair_handle_kept) {
        struct nxr_pair_handle *handle = nxr_list_entry(link, struct nxr_pair_handle, link);

        if (strcmp(handle->region->name, name) == 0) {
            return handle;
        }
    }
    return NULL;
}

/* Take an unused one out, if there are too many. Caller holds the lock. */
static struct nxr_pair_handle *find_spare(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &pair_handle_kept) {
        struct nxr_pair_handle *handle = nxr_list_entry(link, struct nxr_pair_handle, link);

        if (pair_handle_n_kept > MAX_KEPT && handle->n_users == 0) {
            nxr_list_remove(link);
            pair_handle_n_kept--;
            return handle;
        }
    }
    return NULL;
}

struct nxr_pair_handle *nxr_pair_handle_take(const char *name)
{
    struct nxr_pair_handle *handle = NULL, *spare;
    struct nixl_region *region;

    pthread_mutex_lock(&handles_lock);
    handle = find_kept(name);
    if (handle != NULL) {
        nxr_list_remove(&handle->link);
        nxr_list_append(&pair_handle_kept, &handle->link);
        handle->n_users++;
    }
    pthread_mutex_unlock(&handles_lock);
    if (handle != NULL) {
        return handle;
    }
    handle = malloc(sizeof(*handle));
    if (handle == NULL || nxr_region_open_internal(name, &region) != NIXL_OK) {
        free(handle);
        return NULL;
    }
    *handle = (struct nxr_pair_handle){.region = region, .n_users = 1};
    pthread_mutex_lock(&handles_lock);
    nxr_list_append(&pair_handle_kept,
                    &handle->link); /* another thread may have made one, too: harmless */
    pair_handle_n_kept++;
    spare = find_spare();
    pthread_mutex_unlock(&handles_lock);
    if (spare != NULL) {
        (void)nixl_region_close(spare->region, NIXL_FOREVER); /* no part of ours: does not wait */
        free(spare);
    }
    return handle;
}

void nxr_pair_handle_give(struct nxr_pair_handle *handle)
{
    pthread_mutex_lock(&handles_lock);
    handle->n_users--;
    pthread_mutex_unlock(&handles_lock);
}

int nxr_pair_handle_tables(const char *operation, struct nixl_region **tables_p)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&handles_lock);
    *tables_p = pair_handle_tables;
    pthread_mutex_unlock(&handles_lock);
    if (*tables_p != NULL) {
        return NIXL_OK;
    }
    status = nxr_region_open_internal(NXR_PAIR_TABLE, tables_p);
    if (status != NIXL_OK) {
        return nxr_fail_inner(status, operation, -1);
    }
    pthread_mutex_lock(&handles_lock);
    /* If two threads made one, the first stays; the other handle is closed with all others. */
    if (pair_handle_tables == NULL) {
        pair_handle_tables = *tables_p;
    }
    *tables_p = pair_handle_tables;
    pthread_mutex_unlock(&handles_lock);
    return NIXL_OK;
}

void nxr_pair_handles_drop(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&handles_lock);
    while ((link = nxr_list_pop(&pair_handle_kept)) != NULL) {
        free(nxr_list_entry(link, struct nxr_pair_handle, link));
    }
    pair_handle_n_kept = 0;
    pair_handle_tables = NULL;
    pthread_mutex_unlock(&handles_lock);
}
