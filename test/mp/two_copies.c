/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has the library in itself and loads it as a shared one, too: two copies would both
 * be the same rank. The second one refuses until the first has left.
 */
#include "config.h"

#include "mptest.h"

#include <dlfcn.h>
#include <string.h>

struct copy {
    int (*init)(const struct nixl_init_params *);
    int (*finalize)(void);
    const struct nixl_error *(*last_error)(void);
};

static struct copy load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    struct copy copy;

    if (library == NULL) {
        mpt_fail(__FILE__, __LINE__, "%s", dlerror());
    }
    *(void **)&copy.init = dlsym(library, "nixl_init");
    *(void **)&copy.finalize = dlsym(library, "nixl_finalize");
    *(void **)&copy.last_error = dlsym(library, "nixl_last_error");
    MPT_TRUE(copy.init != NULL && copy.finalize != NULL && copy.last_error != NULL);
    MPT_TRUE(copy.init != nixl_init);
    return copy;
}

int main(void)
{
    struct copy shared;

    mpt_start();
    shared = load();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(shared.init(NULL), NIXL_E_UNSUPPORTED);
    MPT_TRUE(strstr(shared.last_error()->text, "another copy of the library") != NULL);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_finalize());
    MPT_OK(nixl_finalize());
    MPT_EQ(shared.init(NULL), NIXL_OK);
    MPT_EQ(nixl_init(NULL), NIXL_E_UNSUPPORTED);
    MPT_EQ(shared.finalize(), NIXL_OK);
    return mpt_passed();
}
