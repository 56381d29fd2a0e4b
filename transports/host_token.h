/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes share a network namespace: between them loopback works. */
#ifndef NXR_HOST_TOKEN_H
#define NXR_HOST_TOKEN_H

#include <stdint.h>

/*
 * The same value in all processes that share loopback: made of the network namespace and boot id.
 */
uint64_t nxr_host_token(void);

#endif
