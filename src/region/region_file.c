/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of files: the arguments of the call, and publishing what was opened. No lock. */
#include "config.h"

#include "memory/file/kind.h"
#include "core/trace.h"
#include "region/region.h"
#include "region/region_handle.h"
#include "region/region_name.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#define ALL_FLAGS                                                                                  \
    (NIXL_FILE_CREATE | NIXL_FILE_NEW | NIXL_FILE_READ_ONLY | NIXL_FILE_EXCLUSIVE |                \
     NIXL_FILE_DIRECT | NIXL_FILE_PREALLOCATE | NIXL_FILE_TRUNCATE)

static const char operation[] = "nixl_region_open_file";

static int fail_args(const char *what)
{
    return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s", what);
}

/* Do the flags fit together? */
static int file_check_flags(uint32_t flags)
{
    const uint32_t changing =
        NIXL_FILE_CREATE | NIXL_FILE_NEW | NIXL_FILE_PREALLOCATE | NIXL_FILE_TRUNCATE;

    if ((flags & ~(uint32_t)ALL_FLAGS) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "file flags %#x; allowed: NIXL_FILE_CREATE (%#x), _NEW (%#x), _READ_ONLY "
                        "(%#x), _EXCLUSIVE (%#x), _DIRECT (%#x), _PREALLOCATE (%#x) and _TRUNCATE "
                        "(%#x)",
                        flags, NIXL_FILE_CREATE, NIXL_FILE_NEW, NIXL_FILE_READ_ONLY,
                        NIXL_FILE_EXCLUSIVE, NIXL_FILE_DIRECT, NIXL_FILE_PREALLOCATE,
                        NIXL_FILE_TRUNCATE);
    }
    if ((flags & NIXL_FILE_READ_ONLY) != 0 && (flags & changing) != 0) {
        return fail_args("NIXL_FILE_READ_ONLY excludes _CREATE, _NEW, _PREALLOCATE and _TRUNCATE");
    }
    if ((flags & NIXL_FILE_NEW) != 0 && (flags & NIXL_FILE_CREATE) == 0) {
        return fail_args("NIXL_FILE_NEW is only for use with NIXL_FILE_CREATE");
    }
    return NIXL_OK;
}

static int file_read_params(const char *path, const struct nixl_file_params *theirs,
                            struct nixl_file_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_file_params, NIXL_FILE_PARAMS_INIT, context);
    static const struct nixl_file_params defaults = NIXL_FILE_PARAMS_INIT;
    int status = NIXL_OK;

    *params = defaults;
    if (theirs != NULL) {
        status = nxr_struct_read(operation, "params", &type, theirs, params);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (path == NULL && params->fd < 0) {
        return fail_args("path is NULL and params->fd is no descriptor; allowed: one of them");
    }
    if (path != NULL && path[0] == '\0') {
        return fail_args("path is empty; allowed: the path of a file, or NULL for params->fd");
    }
    if (path == NULL && (params->flags & (NIXL_FILE_CREATE | NIXL_FILE_NEW)) != 0) {
        return fail_args("NIXL_FILE_CREATE is for a path; params->fd is open already");
    }
    if ((params->mode & ~07777u) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "mode %#o; allowed: permissions up to 07777, or 0 for 0600", params->mode);
    }
    if ((params->access & ~(uint32_t)NXR_ACCESS_ALL) != 0) {
        return nxr_region_fail_bad_access(operation, params->access);
    }
    return file_check_flags(params->flags);
}

static int call_region_open_file(const char *name, const char *path,
                                 const struct nixl_file_params *params,
                                 struct nixl_region **region_p)
{
    struct nxr_scoped_name scoped = {.context = NULL};
    struct nixl_file_params ours;
    struct nixl_context *context;
    struct nxr_memory memory;
    char why[400] = "";
    int status = nxr_check_ready(operation), error = 0;

    if (status == NIXL_OK) {
        status = file_read_params(path, params, &ours);
    }
    if (status != NIXL_OK) {
        return status;
    }
    context = nxr_context_check(operation, ours.context);
    if (context == NULL) {
        return NIXL_E_INVALID_ARG;
    }
    status = nxr_region_scope(operation, name, true, context, region_p, &scoped);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_memory_file.start(why, sizeof(why));
    if (status == NIXL_OK) {
        status = nxr_file_open(path, &ours, &memory, why, sizeof(why), &error);
    }
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, -1, "", error, "%s", why);
    }
    if (scoped.name[0] != '\0') {
        nxr_file_share(&memory);
    }
    if (memory.note[0] != '\0') {
        nxr_info(MEMORY, "region '%s': %s", nxr_region_label(scoped.name), memory.note);
    }
    return nxr_region_publish(operation, &scoped, memory.access, &memory, region_p);
}

int nixl_region_open_file(const char *name, const char *path, const struct nixl_file_params *params,
                          struct nixl_region **region_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_region_open_file", -1, 0, 0,
                      call_region_open_file(name, path, params, region_p));
}
