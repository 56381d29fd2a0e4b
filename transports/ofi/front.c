/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module that the core opens. It is separate from the module that is linked with libfabric
 * because libraries below libfabric (those of PSM) install handlers for six signals as soon as they
 * are loaded, replacing the user's own. This module loads the other one and restores the handlers.
 * It can also be opened everywhere, and so can report in words that libfabric is missing.
 */
#include "config.h"

#include "transports/network.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define N_SIGNALS 32 /* the standard ones */

static int ofi_front_probe(char *why, size_t why_nbytes);

extern struct nxr_network nxr_network_ofi;

/* Constant once ofi_front_probe() has filled in the other functions. */
__attribute__((visibility("default"))) struct nxr_network nxr_network_ofi = {
    .abi = NXR_NETWORK_ABI,
    .name = "ofi",
    .probe = ofi_front_probe,
};

/* Load a library, and undo what it does to signal handlers. */
static void *load_quietly(const char *path)
{
    struct sigaction kept[N_SIGNALS];
    void *library;

    for (int i = 1; i < N_SIGNALS; i++) {
        sigaction(i, NULL, &kept[i]);
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (int i = 1; i < N_SIGNALS; i++) {
        struct sigaction now;

        if (sigaction(i, NULL, &now) == 0 && now.sa_handler != kept[i].sa_handler) {
            sigaction(i, &kept[i], NULL);
        }
    }
    return library;
}

static int ofi_front_probe(char *why, size_t why_nbytes)
{
    const struct nxr_network *inner;
    const char *slash;
    char path[4096];
    Dl_info info;
    void *library;

    if (nxr_network_ofi.open != NULL) {
        return nxr_network_ofi.probe(why, why_nbytes);
    }
    if (dladdr(&nxr_network_ofi, &info) == 0 || (slash = strrchr(info.dli_fname, '/')) == NULL) {
        snprintf(why, why_nbytes, "the folder of its module is not known");
        return NIXL_E_UNSUPPORTED;
    }
    snprintf(path, sizeof(path), "%.*s/nixlrun_ofi_libfabric.so", (int)(slash - info.dli_fname),
             info.dli_fname);
    library = load_quietly(path);
    inner = library != NULL ? dlsym(library, "nxr_network_ofi_libfabric") : NULL;
    if (inner == NULL || inner->abi != NXR_NETWORK_ABI) {
        snprintf(why, why_nbytes, "%s", library == NULL ? dlerror() : "it is of another version");
        return NIXL_E_UNSUPPORTED;
    }
    nxr_network_ofi = *inner;
    return nxr_network_ofi.probe(why, why_nbytes);
}
