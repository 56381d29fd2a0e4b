/* SPDX-License-Identifier: Apache-2.0 */
/* The core of tests of bulk, as ucx_case.h describes it. */
#include "test/unit/ucx_case.h"

struct nxr_ucx nxr_ucx;

struct ucx_landing ucx_landings[UCX_N_BULKS];
bool ucx_core_refuses;

static unsigned n_landings;

void *ucx_core_incoming(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p)
{
    struct ucx_landing *landing;

    (void)header;
    (void)header_nbytes;
    cr_assert(eq(sz, nbytes, UCX_BULK_NBYTES));
    if (ucx_core_refuses) {
        return NULL;
    }
    cr_assert(lt(uint, n_landings, UCX_N_BULKS));
    landing = &ucx_landings[n_landings++];
    landing->status = NIXL_INPROGRESS;
    *cookie_p = landing;
    return landing->bytes;
}

void ucx_core_landed(void *cookie, int status)
{
    struct ucx_landing *landing = cookie;

    cr_expect(eq(int, landing->status, NIXL_INPROGRESS), "once");
    landing->status = status;
}
