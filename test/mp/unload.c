/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plug-in: the program does not know the library, which is loaded, used and unloaded, several
 * times. Its threads and those of PMIx may still run in it, so it must stay where it is.
 */
#include "config.h"

#include "nixlrun.h"

#include <dlfcn.h>
#include <stdio.h>

enum { N_LOADS = 10 };

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "unload: %s: %s\n", what, why != NULL ? why : "it does not say why");
    return 1;
}

static int load_and_unload(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    int (*init)(const struct nixl_init_params *), (*finalize)(void);

    if (library == NULL) {
        return fail("dlopen", dlerror());
    }
    *(void **)&init = dlsym(library, "nixl_init");
    *(void **)&finalize = dlsym(library, "nixl_finalize");
    if (init == NULL || finalize == NULL) {
        return fail("dlsym", dlerror());
    }
    if (init(NULL) != NIXL_OK || finalize() != NIXL_OK) {
        return fail("nixl_init or nixl_finalize", "it failed");
    }
    if (dlclose(library) != 0) {
        return fail("dlclose", dlerror());
    }
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) {
        return fail("dlclose", "the library is gone");
    }
    dlclose(library);
    return 0;
}

int main(void)
{
    int failed = 0;

    for (int i = 0; i < N_LOADS && !failed; i++) {
        failed = load_and_unload();
    }
    return failed;
}
