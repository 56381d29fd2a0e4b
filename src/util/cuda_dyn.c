/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening NVIDIA's driver. The library's handle stays open until the process ends, since the driver
 * has threads of its own. A driver that something else has loaded is used as it is, from whatever
 * path, and queried about addresses. Each function is looked up by the version in which it got the
 * signature declared here, since newer drivers may have another function under the same name. Lock:
 * load_lock, for loading; the table is constant afterwards.
 */
#include "config.h"

#include "util/cuda_dyn.h"

#include "nixlrun.h"
#include "util/loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

struct nxr_cuda_functions nxr_cu;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool was_tried;
static char failure[160]; /* "": loaded */

/* Can also be queried in a driver loaded by something else that is too old for the rest. */
static atomic_bool is_in_process;
static cu_result (*get_attributes)(unsigned n, cu_pointer_attribute *what, void **values,
                                   cu_address address);

typedef cu_result (*get_address_v1)(const char *name, void **function_p, int version,
                                    uint64_t flags);
typedef cu_result (*get_address_v2)(const char *name, void **function_p, int version,
                                    uint64_t flags, unsigned *found_p);

struct entry {
    const char *name;
    int version;
    bool is_required;
    size_t offset; /* in struct nxr_cuda_functions */
};

enum { optional, required };

static const struct entry cuda_dyn_entries[] = {
#define NXR_CU(_name, _version, _need, _arguments)                                                 \
    {"cu" #_name, _version, (_need) == required, offsetof(struct nxr_cuda_functions, _name)},
#include "util/cuda_dyn.def"
#undef NXR_CU
};

/*
 * ISO C has no cast from an object pointer to one to a function; POSIX guarantees that both have
 * the same representation.
 */
static void *symbol(void *library, const char *name, void *function_p)
{
    void *address = dlsym(library, name);

    memcpy(function_p, &address, sizeof(address));
    return address;
}

/* Look up by cuGetProcAddress of CUDA 12, otherwise by that of 11.3, which reports less. */
static cu_result cuda_dyn_find(void *library, const struct entry *entry, void **function_p)
{
    get_address_v2 v2;
    get_address_v1 v1;
    unsigned found;

    if (symbol(library, "cuGetProcAddress_v2", &v2) != NULL) {
        return v2(entry->name, function_p, entry->version, 0, &found);
    }
    if (symbol(library, "cuGetProcAddress", &v1) != NULL) {
        return v1(entry->name, function_p, entry->version, 0);
    }
    return CU_NOT_SUPPORTED;
}

static bool cuda_dyn_fill(void *library, char *why, size_t why_nbytes)
{
    struct nxr_cuda_functions functions = {0};

    for (size_t i = 0; i < sizeof(cuda_dyn_entries) / sizeof(cuda_dyn_entries[0]); i++) {
        void *function = NULL;
        cu_result result = cuda_dyn_find(library, &cuda_dyn_entries[i], &function);

        if (result == CU_STUB_LIBRARY) {
            snprintf(why, why_nbytes,
                     LIBRARY " is the toolkit's stub, not a driver: its folder is in "
                             "LD_LIBRARY_PATH or a RUNPATH");
            return false;
        }
        if (function == NULL && cuda_dyn_entries[i].is_required) {
            snprintf(why, why_nbytes,
                     "NVIDIA's driver is too old: it has no %s of CUDA %d.%d (11.4 is needed)",
                     cuda_dyn_entries[i].name, cuda_dyn_entries[i].version / 1000,
                     cuda_dyn_entries[i].version % 1000 / 10);
            return false;
        }
        memcpy((char *)&functions + cuda_dyn_entries[i].offset, &function, sizeof(function));
    }
    nxr_cu = functions;
    return true;
}

/* Why dlopen() failed: a missing driver is the normal case and has its own text. */
static void cuda_dyn_explain(const char *error, char *why, size_t why_nbytes)
{
    if (error == NULL || strstr(error, "No such file") != NULL) {
        snprintf(why, why_nbytes, "no NVIDIA driver: " LIBRARY " is not installed");
    } else {
        snprintf(why, why_nbytes, "NVIDIA's driver cannot be loaded: %s", error);
    }
}

/* Open the driver `name` and fill in nxr_cu. Caller holds load_lock. */
static void cuda_dyn_load(const char *name, int flags)
{
    void *library = dlopen(name, flags);

    was_tried = true;
    failure[0] = '\0';
    if (library == NULL) {
        cuda_dyn_explain(dlerror(), failure, sizeof(failure));
    } else if (!cuda_dyn_fill(library, failure, sizeof(failure))) {
        dlclose(library);
    }
}

int nxr_cuda_load(char *why, size_t why_nbytes)
{
    bool is_loaded;

    pthread_mutex_lock(&load_lock);
    if (!was_tried) {
        cuda_dyn_load(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    }
    is_loaded = failure[0] == '\0';
    if (!is_loaded) {
        snprintf(why, why_nbytes, "%s", failure);
    }
    pthread_mutex_unlock(&load_lock);
    return is_loaded ? NIXL_OK : NIXL_E_NO_DEVICE;
}

/* Something else has loaded the driver: use it, even if an earlier attempt to load one failed. */
static void cuda_dyn_join(const char *path)
{
    void *library;

    pthread_mutex_lock(&load_lock);
    library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL && symbol(library, "cuPointerGetAttributes", &get_attributes) != NULL) {
        if (!was_tried || failure[0] != '\0') {
            cuda_dyn_load(path, RTLD_LAZY | RTLD_NOLOAD);
        }
        atomic_store_explicit(&is_in_process, true, memory_order_release);
    }
    pthread_mutex_unlock(&load_lock);
}

bool nxr_cuda_is_in_process(void)
{
    char path[PATH_MAX];

    if (atomic_load_explicit(&is_in_process, memory_order_acquire)) {
        return true;
    }
    if (nxr_loader_has_news() && nxr_loader_find("libcuda.so", path, sizeof(path))) {
        cuda_dyn_join(path);
    }
    return atomic_load_explicit(&is_in_process, memory_order_acquire);
}

enum nxr_cuda_address nxr_cuda_classify(const void *addr, int *ordinal_p)
{
    cu_pointer_attribute what[] = {CU_POINTER_MEMORY_TYPE, CU_POINTER_IS_MANAGED,
                                   CU_POINTER_DEVICE_ORDINAL};
    unsigned type = 0, is_managed = 0;
    int ordinal = -1;
    void *values[] = {&type, &is_managed, &ordinal};

    if (!atomic_load_explicit(&is_in_process, memory_order_acquire) ||
        get_attributes(3, what, values, (cu_address)(uintptr_t)addr) != CU_OK) {
        return NXR_CUDA_ADDRESS_HOST;
    }
    *ordinal_p = ordinal;
    if (is_managed != 0) {
        return NXR_CUDA_ADDRESS_MANAGED;
    }
    return type == CU_MEMORY_DEVICE ? NXR_CUDA_ADDRESS_DEVICE : NXR_CUDA_ADDRESS_HOST;
}

const char *nxr_cuda_name(cu_result result)
{
    const char *name = NULL;

    if (nxr_cu.GetErrorName == NULL || nxr_cu.GetErrorName(result, &name) != CU_OK ||
        name == NULL) {
        return "an unknown CUDA error";
    }
    return name;
}
