/* SPDX-License-Identifier: Apache-2.0 */
/* What messages between the libraries of two ranks do. */
#ifndef NXR_CONTROL_DISPATCH_H
#define NXR_CONTROL_DISPATCH_H

#include "host/conn.h"

/*
 * A message has come over a connection. Descriptors are the connection's and closed after the call,
 * but for those that were taken by setting them to -1. Caller holds job.lock.
 */
void nxr_dispatch(struct nxr_conn *conn, const union nxr_wire_message *message, int *fds,
                  int n_fds);

/* One has come over a network. Caller holds job.lock. */
void nxr_dispatch_remote(struct nxr_peer *peer, const union nxr_wire_message *message);

#endif
