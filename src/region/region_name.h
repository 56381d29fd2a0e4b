/* SPDX-License-Identifier: Apache-2.0 */
/* Names of regions, as programs give them and as all ranks know them. */
#ifndef NXR_REGION_REGION_NAME_H
#define NXR_REGION_REGION_NAME_H

#include "core/context.h"
#include "region/region.h"

/* A name as all ranks know it, and the context that it is in. */
struct nxr_scoped_name {
    struct nixl_context *context;
    char name[NIXL_NAME_MAX + 1];
};

/*
 * Check the arguments of a call that makes a handle, and find the name's scope. A region
 * `with_memory` of this rank may have no name. NIXL_OK, or the failure of `operation`, recorded.
 */
int nxr_region_scope(const char *operation, const char *name, bool with_memory,
                     struct nixl_context *context, struct nixl_region **region_p,
                     struct nxr_scoped_name *scoped);

#endif
