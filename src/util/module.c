/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading modules. No state. Lock: loading_lock, for one load at a time; the dynamic
 * loader's own lock is taken inside it.
 */
#include "config.h"

#include "util/module.h"
#include "util/env.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Where a module should be: beside this library, wherever it was moved; else as configured. The
 * check beside the library is for the module itself, not for its folder: if the library is linked
 * into a program, "beside" is the program's folder, which may well contain a nixlrun.
 */
static void module_path(const char *name, char path[PATH_MAX])
{
    Dl_info info;
    const char *slash = NULL;

    if (nxr_env.module_dir != NULL && nxr_env.module_dir[0] != '\0') {
        snprintf(path, PATH_MAX, "%s/nixlrun_%s.so", nxr_env.module_dir, name);
        return;
    }
    if (dladdr(&nxr_env, &info) != 0 && info.dli_fname != NULL) {
        slash = strrchr(info.dli_fname, '/');
    }
    if (slash != NULL) {
        snprintf(path, PATH_MAX, "%.*s/nixlrun/nixlrun_%s.so", (int)(slash - info.dli_fname),
                 info.dli_fname, name);
        if (access(path, R_OK) == 0) {
            return;
        }
    }
    snprintf(path, PATH_MAX, "%s/nixlrun_%s.so", NXR_MODULE_DIR, name);
}

static pthread_mutex_t loading_lock = PTHREAD_MUTEX_INITIALIZER;

/* The search for an object that contains an address and was loaded after another one. */
struct module_search {
    uintptr_t last; /* where the other one lies */
    uintptr_t address;
    bool is_past, is_found;
};

/* Called for each object, under the loader's lock: in the order in which they were loaded. */
static int module_visit(struct dl_phdr_info *info, size_t nbytes, void *arg)
{
    struct module_search *search = arg;

    (void)nbytes;
    for (int i = 0; search->is_past && i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

        search->is_found |= info->dlpi_phdr[i].p_type == PT_LOAD &&
                            search->address - begin < info->dlpi_phdr[i].p_memsz;
    }
    search->is_past |= info->dlpi_addr == search->last;
    return 0;
}

static int module_visit_last(struct dl_phdr_info *info, size_t nbytes, void *arg)
{
    (void)nbytes;
    *(uintptr_t *)arg = info->dlpi_addr;
    return 0;
}

/* Is the handler part of something that was loaded after the object at `last`? */
static bool module_is_handler_new(const struct sigaction *action, uintptr_t last)
{
    struct module_search search = {.last = last, .address = (uintptr_t)action->sa_handler};

    dl_iterate_phdr(module_visit, &search);
    return search.is_found;
}

/*
 * Load a library. The program's signal handlers are preserved, whatever the library does when it
 * is loaded: UCX takes SIGSEGV and its like to print a backtrace, and SIGHUP for a debugger, and so
 * do libraries below libfabric. Only their own handlers are undone: another thread of the program
 * may install some meanwhile.
 */
static void *load_library(const char *path)
{
    struct sigaction before[NSIG], after;
    bool is_known[NSIG];
    uintptr_t last = 0;
    void *library;

    pthread_mutex_lock(&loading_lock);
    dl_iterate_phdr(module_visit_last, &last);
    for (int number = 1; number < NSIG; number++) {
        is_known[number] = sigaction(number, NULL, &before[number]) == 0;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (int number = 1; number < NSIG; number++) {
        if (is_known[number] && sigaction(number, NULL, &after) == 0 &&
            after.sa_handler != before[number].sa_handler && module_is_handler_new(&after, last)) {
            sigaction(number, &before[number], NULL);
        }
    }
    pthread_mutex_unlock(&loading_lock);
    return library;
}

void *nxr_module_load(const char *name, const char *symbol, void **library_p, char *why,
                      size_t why_nbytes)
{
    char path[PATH_MAX];
    void *found;

    *library_p = NULL;
    module_path(name, path);
    if (access(path, R_OK) != 0) {
        snprintf(why, why_nbytes, "not built, or not installed as %.150s", path);
        return NULL;
    }
    *library_p = load_library(path);
    if (*library_p == NULL) {
        snprintf(why, why_nbytes, "%s", dlerror());
        return NULL;
    }
    found = dlsym(*library_p, symbol);
    if (found == NULL) {
        nxr_module_is_of_other_version(name, why, why_nbytes);
    }
    return found;
}

void nxr_module_is_of_other_version(const char *name, char *why, size_t why_nbytes)
{
    char path[PATH_MAX];

    module_path(name, path);
    snprintf(why, why_nbytes, "%.160s is of another version of nixlrun", path);
}
