/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greetings between ranks of one host: HELLO, and WELCOME that answers it. A greeting brings the
 * card of its sender and its control page; that of an attached process also the page of rings for
 * the receiver. A refused one ends the connection. Caller holds job.lock.
 */
#ifndef NXR_HOST_GREETING_H
#define NXR_HOST_GREETING_H

#include "control/wire.h"

struct nxr_conn;

/* Send HELLO or WELCOME to the peer of that connection. */
void nxr_greeting_send(struct nxr_conn *conn, enum nxr_wire_type type);

/* Take the messages of this file from now on. */
void nxr_greeting_register(void);

#endif
