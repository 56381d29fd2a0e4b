/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long what moves is expected to take: so long whoever waits for it polls, and the service
 * thread serves with precedence. Lock: nxr_net.lock, to write nxr_net_expected_end, too.
 */
#include "config.h"

#include "net/state.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/precedence.h"

/* What is worth a look at the clock, and how much slower than its network says it may move. */
#define LARGE_NBYTES (64u << 10)
#define SLOWER       2

/* How long so much takes at least; 0 for what is small. */
static int64_t expected_ns(const struct net_peer *np, size_t nbytes)
{
    unsigned bandwidth_mbps = np->bulk->attr->bandwidth_mbps;

    return nbytes < LARGE_NBYTES || bandwidth_mbps == 0 ? 0
                                                        : (int64_t)(nbytes * 1000 / bandwidth_mbps);
}

void nxr_net_peer_expect(const struct net_peer *np, size_t nbytes)
{
    int64_t takes_ns = expected_ns(np, nbytes), end, now;

    if (takes_ns == 0) {
        return;
    }
    now = nxr_now_ns();
    end = atomic_load_explicit(&nxr_net_expected_end, memory_order_relaxed);
    atomic_store_explicit(&nxr_net_expected_end, (end > now ? end : now) + SLOWER * takes_ns,
                          memory_order_relaxed);
}

void nxr_net_serve_large(const struct net_peer *np, size_t nbytes)
{
    int64_t takes_ns = expected_ns(np, nbytes);

    if (takes_ns != 0 && nxr_net.is_for_passive) {
        nxr_precedence_take(nxr_net.now, SLOWER * takes_ns);
    }
}
