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

/* Open attempt->intro to it; in etcd, at the next one of its contacts. */
int nxr_reach_open(struct nxr_attempt *attempt);

/* Has the publisher contacts that have not been tried? */
bool nxr_reach_has_more(const struct nxr_attempt *attempt);

/* Close attempt->intro. */
void nxr_reach_close(struct nxr_attempt *attempt);

/* Wait for etcd to say that the entry has changed, or for a while. */
void nxr_reach_await_entry(struct nxr_attempt *attempt);

/* The publisher, whose identity is known now, must not be of this job. */
int nxr_reach_check(struct nxr_attempt *attempt);

/* Wait for events of attempt->intro, within one attempt. False: none came. */
bool nxr_reach_await(struct nxr_attempt *attempt, short events);

#endif
