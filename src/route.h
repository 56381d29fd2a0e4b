/* SPDX-License-Identifier: Apache-2.0 */
/* Which transport serves a peer: the cheapest that is allowed, works here and reaches it. */
#ifndef NXR_ROUTE_H
#define NXR_ROUTE_H

#include "transports/transport.h"

/*
 * Check NIXLRUN_TRANSPORTS and probe what it allows; once, at init. NIXL_OK, or
 * NIXL_ERR_INVALID_ARG with one line in `why`.
 */
int nxr_route_init(const char *wanted, char *why, size_t why_nbytes);

/*
 * The transport for peers of that scope, or NULL and one line in `why` for each that was refused.
 */
const struct nxr_transport *nxr_route_choose(enum nixl_scope scope, char *why, size_t why_nbytes);

#endif
