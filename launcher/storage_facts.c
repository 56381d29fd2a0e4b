/* SPDX-License-Identifier: Apache-2.0 */
/* What there is for storage, found out by opening some. No state, but what the library keeps. */
#include "config.h"

#include "launcher/storage_facts.h"
#include "nixlrun.h"
#include "util/cufile_dyn.h"
#include "util/env.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_NBYTES = 4096 };

struct nixl_region *storage_file_open(const char *name)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region = NULL;

    params.fd = memfd_create("nixlrun-storage", MFD_CLOEXEC);
    params.nbytes = FILE_NBYTES;
    if (nixl_region_open_file(name, NULL, &params, &region) != NIXL_OK) {
        region = NULL;
    }
    if (params.fd >= 0) {
        close(params.fd);
    }
    return region;
}

static void find_files(struct storage_facts *facts)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = storage_file_open(NULL);

    if (region != NULL && nixl_region_query(nixl_rank(), region, NIXL_FOREVER, &info) == NIXL_OK) {
        snprintf(facts->file_by, sizeof(facts->file_by), "%.15s", info.device);
        snprintf(facts->file_why, sizeof(facts->file_why), "%.159s", info.note);
    } else {
        snprintf(facts->file_why, sizeof(facts->file_why), "%.159s", nixl_last_error()->text);
    }
    if (region != NULL) {
        (void)nixl_region_close(region, NIXL_FOREVER);
    }
}

/* The loaded object whose file name begins with "libcurl"; ends the search. */
static int find_curl(struct dl_phdr_info *info, size_t nbytes, void *arg)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    char *path = arg;

    (void)nbytes;
    if (slash == NULL || strncmp(slash + 1, "libcurl", strlen("libcurl")) != 0) {
        return 0;
    }
    snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

bool storage_curl_find(char path[PATH_MAX], char version[CURL_VERSION_NBYTES])
{
    const char *(*curl_version)(void) = NULL;
    void *curl = NULL;

    path[0] = version[0] = '\0';
    if (dl_iterate_phdr(find_curl, path) != 0) {
        curl = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    }
    if (curl != NULL) {
        *(void **)&curl_version = dlsym(curl, "curl_version");
    }
    return curl_version != NULL && sscanf(curl_version(), "libcurl/%31s", version) == 1;
}

/* Is the module for objects there? A URL that no store has is refused by it. */
static void find_objects(struct storage_facts *facts)
{
    char path[PATH_MAX], version[CURL_VERSION_NBYTES];
    struct nixl_region *region;

    if (nixl_region_open_object(NULL, "s3:///", NULL, &region) == NIXL_E_UNSUPPORTED) {
        snprintf(facts->object_why, sizeof(facts->object_why), "%.159s", nixl_last_error()->text);
    } else {
        snprintf(facts->object_by, sizeof(facts->object_by), "s3");
        if (storage_curl_find(path, version)) {
            snprintf(facts->object_why, sizeof(facts->object_why), "libcurl %s", version);
        }
    }
}

/* Is cuFile there? Its driver is not opened for that. */
static void find_cufile(struct storage_facts *facts)
{
    char why[120] = "", name[64];
    struct nxr_env env;
    bool is_known = nxr_env_parse(&env, why, sizeof(why)) == NIXL_OK;

    snprintf(facts->gpu_by, sizeof(facts->gpu_by), "staged");
    if (is_known && strcmp(env.cufile, "never") == 0) {
        snprintf(why, sizeof(why), "NIXLRUN_CUFILE is never");
    } else if (nxr_cufile_load(why, sizeof(why)) == NIXL_OK) {
        bool is_always = is_known && strcmp(env.cufile, "always") == 0;

        nxr_cufile_name(name, sizeof(name));
        snprintf(facts->gpu_by, sizeof(facts->gpu_by), is_always ? "cuFile" : "measured");
        snprintf(facts->gpu_why, sizeof(facts->gpu_why), "files with NIXL_FILE_DIRECT %s %s%s",
                 is_always ? "by" : "by the faster of host memory and", name,
                 nxr_cufile_has_nvfs() ? "" : " (no nvidia-fs: compatibility mode)");
        return;
    }
    snprintf(facts->gpu_why, sizeof(facts->gpu_why), "through page-locked host memory: %s", why);
}

void storage_facts_find(struct storage_facts *facts)
{
    *facts = (struct storage_facts){0};
    find_files(facts);
    find_objects(facts);
    find_cufile(facts);
}
