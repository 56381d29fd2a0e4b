/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first half of an attempt to attach: finding the publisher, and a connection to it on which
 * the two introduce themselves. The calling thread does it all, and makes progress meanwhile. All
 * functions return NIXL_OK, or the failure with attempt->why. No state.
 */
#ifndef NXR_ATTACH_REACH_H
#define NXR_ATTACH_REACH_H

#include "attach/attempt.h"

/* Find the publisher, and the secret that both must know. */
int nxr_reach_find(struct nxr_attempt *attempt);

/* Open attempt->intro to it. */
int nxr_reach_open(struct nxr_attempt *attempt);

/* The publisher, whose identity is known now, must not be of this job. */
int nxr_reach_check(struct nxr_attempt *attempt);

/* Wait for events of attempt->intro, within one attempt. False: none came. */
bool nxr_reach_await(struct nxr_attempt *attempt, short events);

#endif
