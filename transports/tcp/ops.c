/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that have ended. The core is told within progress() only; until then they are kept in
 * the order in which they ended. The core's lock.
 */
#include "config.h"

#include "tcp.h"

/* The module's data of an operation, stored in the scratch of nxr_net_op. */
struct ended {
    struct nxr_list link; /* nxr_tcp.ended */
    intptr_t status;
};

_Static_assert(sizeof(struct ended) <= sizeof(((struct nxr_net_op *)NULL)->scratch), "it fits");

void nxr_tcp_op_end(struct nxr_net_op *op, int status)
{
    struct ended *ended = (struct ended *)(void *)op->scratch;

    if (nxr_tcp.is_progressing) {
        nxr_tcp.core->ended(op, status);
        return;
    }
    ended->status = status;
    nxr_list_append(&nxr_tcp.ended, &ended->link);
}

int nxr_tcp_tell_ended(void)
{
    struct nxr_list *link;
    int n = 0;

    while ((link = nxr_list_pop(&nxr_tcp.ended)) != NULL) {
        struct ended *ended = nxr_list_entry(link, struct ended, link);

        nxr_tcp.core->ended((struct nxr_net_op *)(void *)ended, (int)ended->status);
        n++;
    }
    return n;
}
