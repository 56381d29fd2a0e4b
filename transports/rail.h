/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what one rail of a network carries to and from one peer (util/stats_page.h), for
 * modules: the core's lock, as everything in a module. A count that is not open, or whose core
 * counts nothing, is all zeros, and adding to it does nothing.
 */
#ifndef NXR_TRANSPORTS_RAIL_H
#define NXR_TRANSPORTS_RAIL_H

#include "transports/network.h"
#include "util/stats_page.h"

#define NXR_RAIL_UNNAMED "other"

static inline void nxr_rail_close(const struct nxr_net_core *core, struct nxr_net_rail *rail)
{
    if (rail->sent != NULL) {
        core->rail_close(rail);
    }
    *rail = (struct nxr_net_rail){.sent = NULL};
}

/*
 * Open it, in place of what was open: for the peer of an endpoint as the core has named it, or
 * NULL, and a rail by its name for users; "" is none of the known ones.
 */
static inline void nxr_rail_open(const struct nxr_net_core *core, const char *network, void *peer,
                                 const char *name, struct nxr_net_rail *rail)
{
    nxr_rail_close(core, rail);
    if (core->rail_open != NULL) {
        core->rail_open(network, peer, name[0] != '\0' ? name : NXR_RAIL_UNNAMED, rail);
    }
}

static inline void nxr_rail_count(struct nxr_stats_named *record, enum nxr_stats_counter counter,
                                  uint64_t n)
{
    if (record != NULL) {
        nxr_stats_add(&record->n[counter], n);
    }
}

/* So many messages or pieces, and bytes. */
static inline void nxr_rail_sent(struct nxr_net_rail *rail, uint64_t n, uint64_t nbytes)
{
    nxr_rail_count(rail->sent, NXR_STATS_OPS, n);
    nxr_rail_count(rail->sent, NXR_STATS_NBYTES, nbytes);
}

static inline void nxr_rail_received(struct nxr_net_rail *rail, uint64_t n, uint64_t nbytes)
{
    nxr_rail_count(rail->received, NXR_STATS_OPS, n);
    nxr_rail_count(rail->received, NXR_STATS_NBYTES, nbytes);
}

/* It had no room. */
static inline void nxr_rail_was_full(struct nxr_net_rail *rail)
{
    nxr_rail_count(rail->sent, NXR_STATS_RETRIES, 1);
}

static inline void nxr_rail_failed(struct nxr_net_rail *rail)
{
    nxr_rail_count(rail->sent, NXR_STATS_FAILED, 1);
}

#endif
