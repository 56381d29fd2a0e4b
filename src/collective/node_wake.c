/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking the members of a team on one host, each by the doorbell of its own line: those that wait
 * for this member, or all if the team is broken. No lock. The sleepers' half is in node.c.
 */
#include "config.h"

#include "collective/node.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void node_ring(struct nxr_node *node, int member)
{
    struct nxr_node_line *line = &node->lines[member];

    if (atomic_exchange_explicit(&line->waits_for, 0, memory_order_acq_rel) != 0) {
        atomic_fetch_sub_explicit(&node->head->n_asleep, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&line->doorbell, 1, memory_order_release);
        syscall(SYS_futex, &line->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void nxr_node_wake(struct nxr_node *node)
{
    uint32_t me = (uint32_t)node->me + 1;

    for (int i = 0; i < node->size; i++) {
        if (atomic_load_explicit(&node->lines[i].waits_for, memory_order_relaxed) == me) {
            node_ring(node, i);
        }
    }
}

void nxr_node_wake_all(struct nxr_node *node)
{
    for (int i = 0; i < node->size; i++) {
        node_ring(node, i);
    }
}
