/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a producer's end: its credit, the consumer's regions, by their names, and what the ledger
 * says of who may produce into how many slots of which size. If the consumer's end is for any rank
 * and attached, these are the regions of a lane that is made for this process. No lock.
 */
#include "config.h"

#include "channel/channel.h"
#include "region/region.h"
#include "util/env.h"
#include "util/status.h"

#include <stddef.h>
#include <stdlib.h>

/* Has the consumer opened its end for this process? */
static int check_producer(const struct nixl_channel *channel, const struct nxr_ledger_head *head)
{
    static const char operation[] = "nixl_channel_open";

    if (head->peer == NIXL_ANY_RANK) {
        return NIXL_OK;
    }
    if (head->producer.job != nxr_job.self.job || head->producer.rank != nxr_job.rank) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, channel->peer, "", 0,
                        "%s has opened its end of channel '%s' for %s alone, and this is %s",
                        nxr_rank_name(channel->peer), channel->name,
                        nxr_identity_name(&head->producer), nxr_rank_name(nxr_job.rank));
    }
    if (head->producer.incarnation != nxr_job.self.incarnation) {
        return nxr_fail(NIXL_E_STALE, operation, channel->peer, "", 0,
                        "%s has opened its end of channel '%s' for %s, and this is %s; it must "
                        "close it and open it again",
                        nxr_rank_name(channel->peer), channel->name,
                        nxr_identity_name(&head->producer), nxr_rank_name(nxr_job.rank));
    }
    return NIXL_OK;
}

/* Do both ends agree on the parameters? */
static int check_sizes(const struct nixl_channel *channel, const struct nxr_ledger_head *head)
{
    if (head->slot_nbytes == channel->slot_nbytes && head->nslots == channel->nslots) {
        return NIXL_OK;
    }
    return nxr_fail(NIXL_E_INVALID_ARG, "nixl_channel_open", channel->peer, "", 0,
                    "the consumer has %llu slots of %llu bytes, not %llu of %llu",
                    (unsigned long long)head->nslots, (unsigned long long)head->slot_nbytes,
                    (unsigned long long)channel->nslots, (unsigned long long)channel->slot_nbytes);
}

static int check_ledger(struct nixl_channel *channel, const struct nxr_ledger_head *head,
                        uint64_t ledger_nbytes, uint64_t slots_nbytes)
{
    const char *operation = "nixl_channel_open";
    uint64_t ledger_least, slots_least;
    int status = check_sizes(channel, head);

    if (status == NIXL_OK) {
        status = check_producer(channel, head);
    }
    if (status != NIXL_OK) {
        return status;
    }
    channel->n_lanes = head->peer == NIXL_ANY_RANK ? (unsigned)nxr_job.size : 1;
    channel->lane = head->peer == NIXL_ANY_RANK ? (unsigned)nxr_job.rank : 0;
    ledger_least = nxr_stamp_at(channel, channel->n_lanes, 0);
    slots_least = channel->n_lanes * channel->nslots * channel->stride;
    if (ledger_nbytes < ledger_least || slots_nbytes < slots_least) {
        return nxr_fail(NIXL_E_INTERNAL, operation, channel->peer, "", 0,
                        "the memory of channel '%s' at %s is too small: a ledger of %llu "
                        "bytes and slots of %llu; needed: %llu and %llu",
                        channel->name, nxr_rank_name(channel->peer),
                        (unsigned long long)ledger_nbytes, (unsigned long long)slots_nbytes,
                        (unsigned long long)ledger_least, (unsigned long long)slots_least);
    }
    return NIXL_OK;
}

/* Map both parts or neither: if neither, items are published by puts. */
static int map_consumer(struct nixl_channel *channel)
{
    void *ledger, *slots;

    if (nixl_region_map(channel->peer, channel->ledger, &ledger) == NIXL_OK) {
        if (nixl_region_map(channel->peer, channel->slots, &slots) == NIXL_OK) {
            channel->ledger_bytes = ledger;
            channel->slot_bytes = slots;
            return NIXL_OK;
        }
        nixl_region_unmap(channel->peer, channel->ledger, ledger);
    }
    channel->staging = calloc(channel->nslots, channel->stride);
    return channel->staging != NULL
               ? NIXL_OK
               : nxr_fail(NIXL_E_NO_MEMORY, "nixl_channel_open", channel->peer, "", 0,
                          "no memory for %llu slots", (unsigned long long)channel->nslots);
}

/* Open the consumer's two regions of these names. */
static int open_theirs(struct nixl_channel *channel, const char *ledger, const char *slots)
{
    int status = nxr_channel_open_region(channel, ledger, &channel->ledger);

    return status == NIXL_OK ? nxr_channel_open_region(channel, slots, &channel->slots) : status;
}

/* Wait for the two regions, and read the head of the ledger. */
static int find_theirs(struct nixl_channel *channel, struct nixl_region_info *ledger,
                       struct nixl_region_info *slots, struct nxr_ledger_head *head)
{
    int status = nixl_region_query(channel->peer, channel->slots, nxr_env.resolve_timeout, slots);

    if (status == NIXL_OK) {
        status = nixl_region_query(channel->peer, channel->ledger, nxr_env.resolve_timeout, ledger);
    }
    return status == NIXL_OK ? nixl_get(channel->peer, channel->ledger, 0, head, sizeof(*head))
                             : status;
}

/*
 * The consumer's end is open for any rank, and it is attached: ask for a lane of this attachment
 * alone. Its regions are made for the question about the first of them.
 */
static int find_attached_lane(struct nixl_channel *channel, struct nixl_region_info *ledger_info,
                              struct nixl_region_info *slots_info, struct nxr_ledger_head *head)
{
    uint64_t id = nxr_attached_lane_id(channel->consumer);
    char ledger[NIXL_NAME_MAX + 1], slots[NIXL_NAME_MAX + 1];
    int status;

    nxr_channel_close_region(&channel->ledger, NIXL_FOREVER); /* no parts of ours: do not wait */
    nxr_channel_close_region(&channel->slots, NIXL_FOREVER);
    nxr_attached_lane_region_name(ledger, channel->name, "ledger", id);
    nxr_attached_lane_region_name(slots, channel->name, "slots", id);
    status = open_theirs(channel, ledger, slots);
    if (status == NIXL_OK) {
        status = find_theirs(channel, ledger_info, slots_info, head);
    }
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(NIXL_E_NOT_FOUND, "nixl_channel_open", channel->peer, "", 0,
                        "%s has opened channel '%s' for any rank, but has made no slots for this "
                        "process within %s (NIXLRUN_RESOLVE_TIMEOUT); it may be stopped",
                        nxr_rank_name(channel->peer), channel->name,
                        nxr_duration(nxr_env.resolve_timeout).text);
    }
    if (status == NIXL_OK && head->status != NIXL_OK) {
        status = nixl_signal_set(channel->peer, channel->ledger,
                                 nxr_lane_line_at(0) + offsetof(struct nxr_lane_line, closed), 1);
        if (status != NIXL_OK) {
            return status;
        }
        return nxr_fail((int)head->status, "nixl_channel_open", channel->peer, "", 0,
                        "%s could not make %llu slots of %llu bytes for this process in channel "
                        "'%s'; its log says why",
                        nxr_rank_name(channel->peer), (unsigned long long)channel->nslots,
                        (unsigned long long)channel->slot_nbytes, channel->name);
    }
    return status;
}

static int find_consumer(struct nixl_channel *channel)
{
    struct nixl_region_info slots = NIXL_REGION_INFO_INIT, ledger = NIXL_REGION_INFO_INIT;
    struct nxr_ledger_head head;
    int status = find_theirs(channel, &ledger, &slots, &head);

    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(NIXL_E_NOT_FOUND, "nixl_channel_open", channel->peer, "", 0,
                        "%s has not opened channel '%s' within %s (NIXLRUN_RESOLVE_TIMEOUT)",
                        nxr_rank_name(channel->peer), channel->name,
                        nxr_duration(nxr_env.resolve_timeout).text);
    }
    if (status == NIXL_OK && head.peer == NIXL_ANY_RANK &&
        nxr_peer_is_attached(channel->consumer)) {
        status = check_sizes(channel, &head); /* before memory is made for them */
        if (status == NIXL_OK) {
            status = find_attached_lane(channel, &ledger, &slots, &head);
        }
    }
    if (status == NIXL_OK) {
        status = check_ledger(channel, &head, ledger.nbytes, slots.nbytes);
    }
    if (status == NIXL_OK) {
        status = map_consumer(channel);
    }
    return status == NIXL_OK ? nxr_lane_take(channel) : status;
}

int nxr_channel_open_producer(struct nixl_channel *channel)
{
    char ledger[NIXL_NAME_MAX + 1], name[NIXL_NAME_MAX + 1];
    int status;

    channel->consumer = nxr_peer_get(channel->peer);
    if (channel->consumer == NULL) {
        return nxr_fail_no_peer("nixl_channel_open", channel->peer);
    }
    nxr_channel_credit_name(name, channel->name, &channel->consumer->identity,
                            nxr_peer_is_attached(channel->consumer));
    status = nxr_channel_alloc_region(channel, name, NXR_CHANNEL_LINE, &channel->credit);
    if (status == NIXL_OK) {
        channel->credit_word = nixl_region_addr(channel->credit);
        nxr_channel_region_name(ledger, channel->name, "ledger");
        nxr_channel_region_name(name, channel->name, "slots");
        status = open_theirs(channel, ledger, name);
    }
    return status == NIXL_OK ? find_consumer(channel) : status;
}
