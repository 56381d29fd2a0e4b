/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of NVTX has all of it: without a tool, which the environment names, its calls do
 * nothing. State: the domain, which is made once, since a tool keeps it.
 */
#include "config.h"

#include "core/job.h"
#include "core/nvtx.h"
#include "util/env.h"
#include "util/log.h"

bool nxr_nvtx_is_on;

#ifdef HAVE_NVTX

/* All of NVTX is in its headers, as symbols of this file only. */
#include <nvtx3/nvtxDetail/nvtxLinkOnce.h>
#undef NVTX_LINKONCE_DEFINE_FUNCTION
#undef NVTX_LINKONCE_DEFINE_GLOBAL
#undef NVTX_LINKONCE_FWDDECL_GLOBAL
#define NVTX_LINKONCE_DEFINE_FUNCTION         static __attribute__((unused))
#define NVTX_LINKONCE_DEFINE_GLOBAL           static
#define NVTX_LINKONCE_FWDDECL_GLOBAL          static
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>

static nvtxDomainHandle_t nvtx_domain;

bool nxr_nvtx_open(void)
{
    nxr_nvtx_is_on = nxr_env.nvtx;
    if (nxr_nvtx_is_on && nvtx_domain == NULL) {
        nvtx_domain = nvtxDomainCreateA("nixlrun");
    }
    if (nxr_nvtx_is_on && nvtx_domain == NULL) {
        nxr_info(CORE, "NIXLRUN_NVTX: no tool listens; start the job under nsys profile");
        nxr_nvtx_is_on = false;
    }
    return nxr_nvtx_is_on;
}

void nxr_nvtx_push(const char *name, int peer, uint64_t nbytes)
{
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII};
    char text[128];

    event.payload.ullValue = nbytes;
    event.message.ascii = name;
    if (peer >= 0) {
        snprintf(text, sizeof(text), "%s %s", name, nxr_rank_name(peer));
        event.message.ascii = text;
    }
    (void)nvtxDomainRangePushEx(nvtx_domain, &event);
}

void nxr_nvtx_pop(void)
{
    (void)nvtxDomainRangePop(nvtx_domain);
}

#else

bool nxr_nvtx_open(void)
{
    if (nxr_env.nvtx) {
        nxr_warn(CORE, "NIXLRUN_NVTX is 1, but this library was built without nvtx3/nvToolsExt.h, "
                       "which the CUDA toolkit has: there are no ranges");
    }
    return false;
}

void nxr_nvtx_push(const char *name, int peer, uint64_t nbytes)
{
    (void)name;
    (void)peer;
    (void)nbytes;
}

void nxr_nvtx_pop(void)
{
}

#endif
