/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of objects: the arguments of the calls, and publishing what was opened. No lock. */
#include "config.h"

#include "memory/object/kind.h"
#include "region/region.h"
#include "region/region_handle.h"
#include "region/region_name.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"

#include <string.h>

#define ALL_OBJECT_FLAGS (NIXL_OBJECT_READ_ONLY | NIXL_OBJECT_MD5 | NIXL_OBJECT_ANONYMOUS)
#define MIN_PART         ((uint64_t)5 << 20)
#define MAX_PART         ((uint64_t)5 << 30)
#define MAX_CONNECTIONS  1024

static const struct nxr_struct_type info_type =
    NXR_STRUCT_TYPE(nixl_object_info, NIXL_OBJECT_INFO_INIT, key);

/* ---- nixl_region_open_object ----------------------------------------------------------------- */

static const char opens_object[] = "nixl_region_open_object";

static int object_check_numbers(const struct nixl_object_params *params)
{
    if ((params->flags & ~(uint32_t)ALL_OBJECT_FLAGS) != 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_object, -1, "", 0,
                        "object flags %#x; allowed: NIXL_OBJECT_READ_ONLY (%#x), _MD5 (%#x) and "
                        "_ANONYMOUS (%#x)",
                        params->flags, NIXL_OBJECT_READ_ONLY, NIXL_OBJECT_MD5,
                        NIXL_OBJECT_ANONYMOUS);
    }
    if ((params->access & ~(uint32_t)NXR_ACCESS_ALL) != 0) {
        return nxr_region_fail_bad_access(opens_object, params->access);
    }
    if (params->nobjects == 0 && params->keys != NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_object, -1, "", 0,
                        "params->keys, and nobjects is 0; allowed: both, or none");
    }
    if (params->nobjects != 0 && params->object_nbytes == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_object, -1, "", 0,
                        "params->object_nbytes is 0; allowed with nobjects: their size");
    }
    if (params->part_nbytes != 0 &&
        (params->part_nbytes < MIN_PART || params->part_nbytes > MAX_PART)) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_object, -1, "", 0,
                        "params->part_nbytes is %llu; allowed: 0, or 5 MiB to 5 GiB",
                        (unsigned long long)params->part_nbytes);
    }
    if (params->nconnections > MAX_CONNECTIONS) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_object, -1, "", 0,
                        "params->nconnections is %u; allowed: 0 to %d", params->nconnections,
                        MAX_CONNECTIONS);
    }
    return NIXL_OK;
}

static int object_read_params(const char *url, const struct nixl_object_params *theirs,
                              struct nixl_object_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_object_params, NIXL_OBJECT_PARAMS_INIT, context);
    static const struct nixl_object_params defaults = NIXL_OBJECT_PARAMS_INIT;
    int status = NIXL_OK;

    *params = defaults;
    if (theirs != NULL) {
        status = nxr_struct_read(opens_object, "params", &type, theirs, params);
    }
    if (status == NIXL_OK && url == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, opens_object, -1, "", 0,
                        "url is NULL; allowed: s3://BUCKET/PATH or http[s]://HOST/BUCKET/PATH");
    }
    return status == NIXL_OK ? object_check_numbers(params) : status;
}

int nixl_region_open_object(const char *name, const char *url,
                            const struct nixl_object_params *params, struct nixl_region **region_p)
{
    struct nxr_scoped_name scoped = {.context = NULL};
    struct nixl_object_params ours;
    struct nixl_context *context;
    struct nxr_memory memory;
    char why[400] = "";
    int status = nxr_check_ready(opens_object), error = 0;

    if (status == NIXL_OK) {
        status = object_read_params(url, params, &ours);
    }
    if (status != NIXL_OK) {
        return status;
    }
    context = nxr_context_check(opens_object, ours.context);
    if (context == NULL) {
        return NIXL_E_INVALID_ARG;
    }
    status = nxr_region_scope(opens_object, name, true, context, region_p, &scoped);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_memory_object.start(why, sizeof(why));
    if (status == NIXL_OK) {
        status = nxr_objects_open(url, &ours, &memory, why, sizeof(why), &error);
    }
    if (status != NIXL_OK) {
        return nxr_fail(status, opens_object, -1, "", error, "%s", why);
    }
    nxr_info(MEMORY, "region '%s': %s", nxr_region_label(scoped.name), memory.note);
    return nxr_region_publish(opens_object, &scoped, memory.access, &memory, region_p);
}

/* ---- calls about objects --------------------------------------------------------------------- */

static int object_check_region(const char *operation, const struct nixl_region *region)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (region == NULL || !nxr_region_is_open(region) ||
        region->memory.kind != &nxr_memory_object) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "not a region that this rank has opened by nixl_region_open_object() or "
                        "nixl_region_open_directory(); only the owner of objects can ask for them: "
                        "send it a message, or open the same URL or directory here");
    }
    return NIXL_OK;
}

static int object_finish(const char *operation, int status, const struct nxr_object_answer *answer)
{
    return status == NIXL_OK
               ? NIXL_OK
               : nxr_fail(status, operation, -1, "", answer->error, "%s", answer->why);
}

int nixl_object_stat(struct nixl_region *region, uint64_t object, int64_t timeout_ns,
                     struct nixl_object_info *info_p)
{
    static const char operation[] = "nixl_object_stat";
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nxr_object_answer answer = {.error = 0};
    int status = object_check_region(operation, region);

    if (status == NIXL_OK) {
        status = nxr_struct_check(operation, "info_p", &info_type, info_p);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_objects_stat(&region->memory, object, timeout_ns, &info, &answer);
    if (status == NIXL_OK) {
        nxr_struct_write(&info_type, &info, info_p);
    }
    return object_finish(operation, status, &answer);
}

int nixl_object_delete(struct nixl_region *region, uint64_t object, int64_t timeout_ns)
{
    static const char operation[] = "nixl_object_delete";
    struct nxr_object_answer answer = {.error = 0};
    int status = object_check_region(operation, region);

    if (status != NIXL_OK) {
        return status;
    }
    return object_finish(operation,
                         nxr_objects_delete(&region->memory, object, timeout_ns, &answer), &answer);
}

int nixl_object_list(struct nixl_region *region, const char *after, int64_t timeout_ns,
                     nixl_object_list_fn *each, void *arg)
{
    static const char operation[] = "nixl_object_list";
    struct nxr_object_answer answer = {.error = 0};
    int status = object_check_region(operation, region);

    if (status == NIXL_OK && each == NULL) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "each is NULL");
    }
    if (status == NIXL_OK && after != NULL && strlen(after) > NIXL_OBJECT_KEY_MAX) {
        status =
            nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                     "after has %zu bytes; allowed: up to %d", strlen(after), NIXL_OBJECT_KEY_MAX);
    }
    if (status != NIXL_OK) {
        return status;
    }
    return object_finish(operation,
                         nxr_objects_list(&region->memory, after, timeout_ns, each, arg, &answer),
                         &answer);
}
