/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of the files of a directory: the arguments of the call, and publishing. No lock. */
#include "config.h"

#include "core/trace.h"
#include "memory/object/kind.h"
#include "region/region.h"
#include "region/region_handle.h"
#include "region/region_name.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#define MAX_DESCRIPTORS (1u << 20)

static const char opens_directory[] = "nixl_region_open_directory";

static int directory_check_flags(uint32_t flags)
{
    const uint32_t writing = NIXL_DIRECTORY_CREATE | NIXL_DIRECTORY_IN_PLACE;
    const uint32_t all = writing | NIXL_DIRECTORY_READ_ONLY | NIXL_DIRECTORY_DIRECT;

    if ((flags & ~all) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_directory, -1, "", 0,
                        "directory flags %#x; allowed: NIXL_DIRECTORY_CREATE (%#x), _READ_ONLY "
                        "(%#x), _IN_PLACE (%#x) and _DIRECT (%#x)",
                        flags, NIXL_DIRECTORY_CREATE, NIXL_DIRECTORY_READ_ONLY,
                        NIXL_DIRECTORY_IN_PLACE, NIXL_DIRECTORY_DIRECT);
    }
    if ((flags & NIXL_DIRECTORY_READ_ONLY) != 0 && (flags & writing) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_directory, -1, "", 0,
                        "NIXL_DIRECTORY_READ_ONLY excludes _CREATE and _IN_PLACE");
    }
    return NIXL_OK;
}

static int directory_check(const char *path, const struct nixl_directory_params *params)
{
    if (path == NULL || path[0] == '\0') {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_directory, -1, "", 0,
                        "path is %s; allowed: the path of a directory",
                        path == NULL ? "NULL" : "empty");
    }
    if ((params->access & ~(uint32_t)NXR_ACCESS_ALL) != 0) {
        return nxr_region_fail_bad_access(opens_directory, params->access);
    }
    if (params->nobjects == 0 && params->keys != NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_directory, -1, "", 0,
                        "params->keys, and nobjects is 0; allowed: both, or none");
    }
    if ((params->mode & ~07777u) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_directory, -1, "", 0,
                        "mode %#o; allowed: permissions up to 07777, or 0 for 0600", params->mode);
    }
    if (params->ndescriptors > MAX_DESCRIPTORS) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_directory, -1, "", 0,
                        "params->ndescriptors is %u; allowed: 0 to %u", params->ndescriptors,
                        MAX_DESCRIPTORS);
    }
    return directory_check_flags(params->flags);
}

static int directory_read_params(const char *path, const struct nixl_directory_params *theirs,
                                 struct nixl_directory_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_directory_params, NIXL_DIRECTORY_PARAMS_INIT, context);
    static const struct nixl_directory_params defaults = NIXL_DIRECTORY_PARAMS_INIT;
    int status = NIXL_OK;

    *params = defaults;
    if (theirs != NULL) {
        status = nxr_struct_read(opens_directory, "params", &type, theirs, params);
    }
    return status == NIXL_OK ? directory_check(path, params) : status;
}

static int call_region_open_directory(const char *name, const char *path,
                                      const struct nixl_directory_params *params,
                                      struct nixl_region **region_p)
{
    struct nxr_scoped_name scoped = {.context = NULL};
    struct nixl_directory_params ours;
    struct nixl_context *context;
    struct nxr_memory memory;
    char why[400] = "";
    int status = nxr_check_ready(opens_directory), error = 0;

    if (status == NIXL_OK) {
        status = directory_read_params(path, params, &ours);
    }
    if (status != NIXL_OK) {
        return status;
    }
    context = nxr_context_check(opens_directory, ours.context);
    if (context == NULL) {
        return NIXL_E_INVALID_ARG;
    }
    status = nxr_region_scope(opens_directory, name, true, context, region_p, &scoped);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_objects_start_directory(why, sizeof(why));
    if (status == NIXL_OK) {
        status = nxr_objects_open_directory(path, &ours, &memory, why, sizeof(why), &error);
    }
    if (status != NIXL_OK) {
        return nxr_fail(status, opens_directory, -1, "", error, "%s", why);
    }
    nxr_info(MEMORY, "region '%s': %s", nxr_region_label(scoped.name), memory.note);
    return nxr_region_publish(opens_directory, &scoped, memory.access, &memory, region_p);
}

int nixl_region_open_directory(const char *name, const char *path,
                               const struct nixl_directory_params *params,
                               struct nixl_region **region_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_open_directory", -1, 0, 0,
                      call_region_open_directory(name, path, params, region_p));
}
