/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long transfers are expected to take: meanwhile waiting threads poll, and the service thread
 * runs with a higher priority. Lock: nxr_net.lock, also for writing nxr_net_expected_end.
 */
#include "config.h"

#include "net/move.h"
#include "core/progress.h"
#include "util/clock.h"
#include "util/thread_priority.h"

/*
 * The smallest transfer that is worth reading the clock, and how many times slower than its
 * network's bandwidth it may be.
 */
#define LARGE_NBYTES (64u << 10)
#define SLOWER       2

/* The shortest time in which nbytes can move; 0 if nbytes is small. */
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
        nxr_thread_priority_take(nxr_net.now, SLOWER * takes_ns);
    }
}
