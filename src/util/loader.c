/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the dynamic loader's list of objects. Its last object is kept loaded while it is
 * watched, and until nxr_loader_forget(), since other threads read its link without a lock. If it
 * cannot be kept, nxr_loader_has_news() is always true. Lock: loader_lock; the loader's own lock is
 * taken inside it.
 */
#define _GNU_SOURCE
#include "config.h"

#include "util/loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct link_map always = {.l_next = &always};
struct link_map *_Atomic nxr_loader_last = &always;

static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;
static void **loader_kept; /* handles */
static size_t loader_n_kept;

struct search {
    const char *name;
    char *path; /* output: of the object found */
    size_t path_nbytes;
    bool is_found;
    char last[PATH_MAX]; /* of the last object */
};

/* Called for each object, under the loader's lock: the list does not change meanwhile. */
static int loader_visit(struct dl_phdr_info *info, size_t nbytes, void *arg)
{
    struct search *search = arg;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;
    size_t length = strlen(info->dlpi_name);

    (void)nbytes;
    if (!search->is_found && strncmp(file, search->name, strlen(search->name)) == 0 &&
        length < search->path_nbytes) {
        memcpy(search->path, info->dlpi_name, length + 1);
        search->is_found = true;
    }
    search->last[0] = '\0';
    if (length < sizeof(search->last)) {
        memcpy(search->last, info->dlpi_name, length + 1);
    }
    return 0;
}

/* Watch the object with that name; "" is the program itself. Caller holds loader_lock. */
static void loader_watch(const char *name)
{
    void *handle = dlopen(name[0] != '\0' ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    void **more =
        handle != NULL ? realloc(loader_kept, (loader_n_kept + 1) * sizeof(*loader_kept)) : NULL;
    struct link_map *map = &always;

    if (more != NULL) {
        loader_kept = more;
        loader_kept[loader_n_kept++] = handle;
        if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
            map = &always;
        }
    } else if (handle != NULL) {
        dlclose(handle);
    }
    atomic_store_explicit(&nxr_loader_last, map, memory_order_release);
}

bool nxr_loader_find(const char *name, char *path, size_t path_nbytes)
{
    struct search search = {.name = name, .path = path, .path_nbytes = path_nbytes};

    pthread_mutex_lock(&loader_lock);
    dl_iterate_phdr(loader_visit, &search);
    if (nxr_loader_has_news()) {
        loader_watch(search.last);
    }
    pthread_mutex_unlock(&loader_lock);
    return search.is_found;
}

void nxr_loader_forget(void)
{
    pthread_mutex_lock(&loader_lock);
    atomic_store(&nxr_loader_last, &always);
    while (loader_n_kept > 0) {
        dlclose(loader_kept[--loader_n_kept]);
    }
    free(loader_kept);
    loader_kept = NULL;
    pthread_mutex_unlock(&loader_lock);
}
