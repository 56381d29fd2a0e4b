/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where items of channels are counted: a record for each end and rank (util/stats_page.h), made
 * when the first item moves. No lock: an end belongs to one thread at a time.
 */
#include "config.h"

#include "channel/channel.h"

struct nxr_stats_named *nxr_channel_count_as(const struct nixl_channel *channel, int rank)
{
    return nxr_stats_named_take(&(const struct nxr_stats_key){
        .op = channel->role == NIXL_CHANNEL_PRODUCER ? NXR_STATS_CHANNEL_SEND
                                                     : NXR_STATS_CHANNEL_RECEIVE,
        .peer = rank >= 0 ? rank : NXR_STATS_NO_PEER,
        .transport = "",
        .name = channel->name});
}

void nxr_channel_count_end(const struct nixl_channel *channel)
{
    nxr_stats_named_give(channel->counted);
    for (unsigned i = 0; channel->lanes != NULL && i < channel->n_lanes; i++) {
        nxr_stats_named_give(channel->lanes[i].counted);
    }
}
