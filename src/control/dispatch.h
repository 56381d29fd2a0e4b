/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch of messages between the libraries of two ranks, whatever carries them: each type is
 * handled by the function that its owner has registered.
 */
#ifndef NXR_CONTROL_DISPATCH_H
#define NXR_CONTROL_DISPATCH_H

#include "control/wire.h"

#include <stdbool.h>

struct nxr_conn;
struct nxr_list;
struct nxr_peer;

/* The source of a message. */
struct nxr_control_source {
    struct nxr_peer *peer;   /* NULL: a greeting, of a process that is not known yet */
    struct nxr_conn *conn;   /* NULL: it came over a network, without descriptors */
    struct nxr_list *parked; /* of the connection: questions that are answered later; or NULL */
    int *fds;                /* closed after the call, but for those that were set to -1 */
    int n_fds;
};

/*
 * Handles a message whose format nxr_wire_parse() has checked. The handler must still check the
 * content against what this rank knows. Caller holds job.lock.
 */
typedef void nxr_control_taker(const struct nxr_control_source *source,
                               const union nxr_wire_message *message);

/* Set the handler of a message type, permanently. Call before anything starts. */
void nxr_control_register(enum nxr_wire_type type, nxr_control_taker *take);

/* Pass a message to the handler of its type. Caller holds job.lock. */
void nxr_control_take(const struct nxr_control_source *source,
                      const union nxr_wire_message *message);

#endif
