/* SPDX-License-Identifier: Apache-2.0 */
/* The carriers and the wire-up of the job, as init.c sets them. Constant while anything runs. */
#include "config.h"

#include "core/carrier.h"
#include "core/wireup.h"

static const struct nxr_carrier *carrier_first, *carrier_far;
static const struct nxr_wireup *carrier_wireup;

void nxr_carriers_set(const struct nxr_carrier *first, const struct nxr_carrier *far)
{
    carrier_first = first;
    carrier_far = far;
}

const struct nxr_carrier *nxr_carrier_first(void)
{
    return carrier_first;
}

const struct nxr_carrier *nxr_carrier_far(void)
{
    return carrier_far;
}

void nxr_wireup_set(const struct nxr_wireup *wireup)
{
    carrier_wireup = wireup;
}

const struct nxr_wireup *nxr_wireup(void)
{
    return carrier_wireup;
}
