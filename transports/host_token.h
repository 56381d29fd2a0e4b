/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes share a network namespace: between them loopback works. */
#ifndef NXR_HOST_TOKEN_H
#define NXR_HOST_TOKEN_H

#include <stdint.h>

/* The same for all that share loopback: the network namespace, on a host by its boot id. */
uint64_t nxr_host_token(void);

#endif
