/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the dynamic loader's list of objects. Its last object is kept loaded while it is
 * watched, and until nxr_loader_forget(), since other threads read its link without a lock. Where
 * it cannot be kept, there are always news. Lock: `lock`; the loader's own one is taken inside.
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void **kept; /* handles */
static size_t n_kept;

struct search {
    const char *name;
    char *path; /* of the object that is looked for */
    size_t path_nbytes;
    bool is_found;
    char last[PATH_MAX]; /* of the last object */
};

/* The loader changes nothing meanwhile. */
static int visit(struct dl_phdr_info *info, size_t nbytes, void *arg)
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

/* Watch the object with that name; "" is the program itself. Under the lock. */
static void watch(const char *name)
{
    void *handle = dlopen(name[0] != '\0' ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    void **more = handle != NULL ? realloc(kept, (n_kept + 1) * sizeof(*kept)) : NULL;
    struct link_map *map = &always;

    if (more != NULL) {
        kept = more;
        kept[n_kept++] = handle;
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

    pthread_mutex_lock(&lock);
    dl_iterate_phdr(visit, &search);
    if (nxr_loader_has_news()) {
        watch(search.last);
    }
    pthread_mutex_unlock(&lock);
    return search.is_found;
}

void nxr_loader_forget(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&nxr_loader_last, &always);
    while (n_kept > 0) {
        dlclose(kept[--n_kept]);
    }
    free(kept);
    kept = NULL;
    pthread_mutex_unlock(&lock);
}
