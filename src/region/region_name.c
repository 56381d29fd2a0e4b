/* SPDX-License-Identifier: Apache-2.0 */
/* Checking names of regions, and the scope that a context gives them. No lock. */
#include "config.h"

#include "region/region_name.h"
#include "util/status.h"

#include <stdio.h>
#include <string.h>

const char *nxr_region_label(const char *name)
{
    return name[0] == NXR_SCOPED_NAME ? name + NXR_SCOPE_NBYTES : name;
}

int nxr_region_scope(const char *operation, const char *name, bool with_memory,
                     struct nixl_context *context, struct nixl_region **region_p,
                     struct nxr_scoped_name *scoped)
{
    size_t max = context->id == 0 ? NIXL_NAME_MAX : NIXL_NAME_MAX - NXR_SCOPE_NBYTES;

    scoped->context = context;
    if (region_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "region_p is NULL");
    }
    if (name == NULL && with_memory) {
        scoped->name[0] = '\0';
        return NIXL_OK;
    }
    if (name == NULL || name[0] == '\0' || strnlen(name, max + 1) > max) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s; allowed: %s1 to %zu bytes",
                        name == NULL      ? "the name is NULL"
                        : name[0] == '\0' ? "the name is empty"
                                          : "the name is too long",
                        with_memory ? "NULL, or " : "", max);
    }
    if (name[0] >= NXR_REGION_INTERNAL && name[0] <= NXR_SCOPED_NAME) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the name begins with byte %d, as the library's own names do; allowed: "
                        "any first byte but %d to %d",
                        name[0], NXR_REGION_INTERNAL, NXR_SCOPED_NAME);
    }
    if (context->id == 0) {
        memcpy(scoped->name, name, strlen(name) + 1);
    } else {
        snprintf(scoped->name, sizeof(scoped->name), "%c%016llx%s", NXR_SCOPED_NAME,
                 (unsigned long long)context->id, name);
    }
    return NIXL_OK;
}
