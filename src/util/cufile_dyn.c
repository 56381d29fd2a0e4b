/* SPDX-License-Identifier: Apache-2.0 */
/* Opening libcufile. Lock: cufile_load_lock, for loading; the table is constant afterwards. */
#include "config.h"

#include "util/cufile_dyn.h"

#include "nixlrun.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CUFILE_LIBRARY "libcufile.so.0"
#define BASE           5000 /* of cuFile's codes */

struct nxr_cufile_functions nxr_cufile;

static pthread_mutex_t cufile_load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool cufile_was_tried;
static char cufile_failure[160]; /* "": loaded */

static const struct {
    const char *name;
    bool is_required;
    size_t offset; /* in struct nxr_cufile_functions */
} cufile_entries[] = {
    {"cuFileDriverOpen", true, offsetof(struct nxr_cufile_functions, DriverOpen)},
    {"cuFileDriverGetProperties", true, offsetof(struct nxr_cufile_functions, DriverGetProperties)},
    {"cuFileGetVersion", false, offsetof(struct nxr_cufile_functions, GetVersion)},
    {"cuFileHandleRegister", true, offsetof(struct nxr_cufile_functions, HandleRegister)},
    {"cuFileHandleDeregister", true, offsetof(struct nxr_cufile_functions, HandleDeregister)},
    {"cuFileRead", true, offsetof(struct nxr_cufile_functions, Read)},
    {"cuFileWrite", true, offsetof(struct nxr_cufile_functions, Write)},
};

/* Function pointers are represented as object pointers, which ISO C leaves open and POSIX says. */
static bool cufile_look_up(void *library, const char *name, void *place)
{
    void *address = dlsym(library, name);

    memcpy(place, &address, sizeof(address));
    return address != NULL;
}

/* False and the reason in cufile_failure: a function is missing. Caller holds the lock. */
static bool cufile_fill(void *library)
{
    for (size_t i = 0; i < sizeof(cufile_entries) / sizeof(cufile_entries[0]); i++) {
        void *place = (char *)&nxr_cufile + cufile_entries[i].offset;

        if (!cufile_look_up(library, cufile_entries[i].name, place) &&
            cufile_entries[i].is_required) {
            snprintf(cufile_failure, sizeof(cufile_failure), CUFILE_LIBRARY " is too old: no %s",
                     cufile_entries[i].name);
            return false;
        }
    }
    return true;
}

/* Caller holds the lock. */
static void cufile_load(void)
{
    void *library = dlopen(CUFILE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *error = library == NULL ? dlerror() : NULL;

    cufile_was_tried = true;
    if (library != NULL) {
        if (!cufile_fill(library)) {
            dlclose(library);
        }
    } else if (error == NULL || strstr(error, "No such file") != NULL) {
        snprintf(cufile_failure, sizeof(cufile_failure), "no " CUFILE_LIBRARY);
    } else {
        snprintf(cufile_failure, sizeof(cufile_failure), CUFILE_LIBRARY " cannot be loaded: %s",
                 error);
    }
}

int nxr_cufile_load(char *why, size_t why_nbytes)
{
    bool is_loaded;

    pthread_mutex_lock(&cufile_load_lock);
    if (!cufile_was_tried) {
        cufile_load();
    }
    is_loaded = cufile_failure[0] == '\0';
    if (!is_loaded) {
        snprintf(why, why_nbytes, "%s", cufile_failure);
    }
    pthread_mutex_unlock(&cufile_load_lock);
    return is_loaded ? NIXL_OK : NIXL_E_NO_DEVICE;
}

void nxr_cufile_name(char *text, size_t text_nbytes)
{
    int version = 0;

    if (nxr_cufile.GetVersion != NULL && nxr_cufile.GetVersion(&version).code == CUFILE_OK &&
        version > 0) {
        snprintf(text, text_nbytes, "cuFile %d.%d", version / 1000, version % 1000 / 10);
    } else {
        snprintf(text, text_nbytes, "cuFile");
    }
}

bool nxr_cufile_has_nvfs(void)
{
    return access("/proc/driver/nvidia-fs/version", F_OK) == 0;
}

const char *nxr_cufile_words(int code)
{
    static const char *const words[] = {
        [1] = "the driver nvidia-fs is not loaded",
        [2] = "its configuration (cufile.json) has a wrong value",
        [3] = "its configuration (cufile.json) has a wrong value",
        [4] = "it does not fit the version of nvidia-fs",
        [5] = "it does not fit the version of nvidia-fs",
        [6] = "its driver is being closed",
        [7] = "it does not support this platform",
        [8] = "it does not support this file",
        [9] = "it does not support this GPU",
        [10] = "nvidia-fs failed",
        [11] = "NVIDIA's driver failed",
        [12] = "it does not take this memory",
        [13] = "it does not take this memory",
        [14] = "it does not take this memory",
        [15] = "the memory belongs to another context",
        [18] = "it does not support this file",
        [19] = "it takes only files with direct I/O",
        [20] = "it takes only files with direct I/O",
        [25] = "it is not permitted",
        [27] = "it knows nothing of the file system (its log, cufile.log, says why)",
        [28] = "the file is already registered",
        [29] = "no such GPU",
        [31] = "it cannot open the file again by its name",
        [33] = "nvidia-fs cannot be set up",
        [34] = "its configuration (cufile.json) forbids it",
        [36] = "GPU memory cannot be pinned",
    };
    int number = abs(code) - BASE;
    bool is_known = number > 0 && number < (int)(sizeof(words) / sizeof(words[0]));

    return is_known && words[number] != NULL ? words[number] : "it failed";
}
