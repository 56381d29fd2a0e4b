/* SPDX-License-Identifier: Apache-2.0 */
/* The transport of a rank to itself. */
#ifndef NXR_TRANSPORTS_SELF_H
#define NXR_TRANSPORTS_SELF_H

#include "transports/transport.h"

extern const struct nxr_transport nxr_transport_self;

#endif
