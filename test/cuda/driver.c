/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the driver for test programs. Functions that it has not stay NULL. No lock. */
#include "test/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct cuda_functions cu;

static int (*find)(const char *name, void **function_p, int version, uint64_t flags, int *status_p);

static void fill(const char *name, int version, void *function_p)
{
    void *function = NULL;
    int status;

    if (find(name, &function, version, 0, &status) == CU_OK) {
        memcpy(function_p, &function, sizeof(function));
    }
}

const char *cuda_load(const char *path)
{
    static char why[160];
    void *library, *symbol;
    int result;

    if (cu.cuInit != NULL) {
        return NULL;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (symbol == NULL) {
        snprintf(why, sizeof(why), "no CUDA driver: %.120s", dlerror());
        return why;
    }
    memcpy(&find, &symbol, sizeof(find));
#define FILL(_name, _version, _function) fill(#_name, _version, &cu._name);
    FAKE_FUNCTIONS(FILL)
#undef FILL
    result = cu.cuInit != NULL ? cu.cuInit(0) : CU_STUB;
    if (result != CU_OK) {
        cu.cuInit = NULL;
        snprintf(why, sizeof(why), "the CUDA driver cannot be started: error %d", result);
        return why;
    }
    return NULL;
}
