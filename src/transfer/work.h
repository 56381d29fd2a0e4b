/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of own device memory for peers on other hosts: what puts, gets and words of theirs, and
 * windows, ask for. Lock: nxr_net.lock.
 */
#ifndef NXR_TRANSFER_WORK_H
#define NXR_TRANSFER_WORK_H

#include "net/state.h"

/* A copy of own device memory for a peer. */
struct net_work {
    struct nxr_list link;
    struct nxr_device_copy copy;
    void (*prepare)(struct net_work *work);          /* before it begins, without it; or NULL */
    void (*done)(struct net_work *work, int status); /* under the lock */
};

/* Take what networks bring for own device memory. Before they are started. */
void nxr_works_register(void);

/* Line a copy up. It begins behind the round, without the lock. */
void nxr_work_add(struct net_work *work);

#endif
