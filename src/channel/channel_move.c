/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending and receiving items. If the consumer's memory is mapped, an item costs three stores: its
 * size, its stamp, and the credit when it is given back; the producer reads the credit only when it
 * has used up what it knew of. Otherwise an item is a put and a signal, and credit is returned for
 * several items at once. No lock: an end belongs to one thread at a time.
 */
#include "config.h"

#include "channel/channel.h"
#include "core/trace.h"
#include "region/leaving.h"
#include "region/region.h"
#include "sync/senders.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/status.h"
#include "core/wait.h"

#include <string.h>

/* Credit that is not mapped is returned each time 1/CREDIT_PARTS of the slots is free. */
#define CREDIT_PARTS 4

int nxr_channel_check_open(const char *operation, const struct nixl_channel *channel)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (channel == NULL ||
        atomic_load_explicit(&channel->magic, memory_order_acquire) != NXR_CHANNEL_OPEN) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s",
                        channel == NULL ? "the channel is NULL" : "the channel is closed");
    }
    return NIXL_OK;
}

static int __attribute__((noinline))
check_end_slow(const char *operation, const struct nixl_channel *channel,
               enum nixl_channel_role role)
{
    int status = nxr_channel_check_open(operation, channel);

    if (status != NIXL_OK || channel == NULL) { /* NULL has failed: clang-tidy does not see that */
        return status;
    }
    if (channel->is_closing) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, channel->peer, "", 0,
                        "the channel is being closed");
    }
    if (channel->role != role) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, channel->peer, "", 0, "this is the %s's end",
                        channel->role == NIXL_CHANNEL_PRODUCER ? "producer" : "consumer");
    }
    return NIXL_OK;
}

/* Is the handle open, and the end of that role? */
static inline int check_end(const char *operation, const struct nixl_channel *channel,
                            enum nixl_channel_role role)
{
    bool is_usable =
        nxr_is_ready() && channel != NULL &&
        atomic_load_explicit(&channel->magic, memory_order_acquire) == NXR_CHANNEL_OPEN &&
        !channel->is_closing && channel->role == role;

    return __builtin_expect(is_usable, 1) ? NIXL_OK : check_end_slow(operation, channel, role);
}

/* An item was published or received: the number of those with that rank. */
static void channel_move_trace(const struct nixl_channel *channel, int rank,
                               enum nxr_trace_form form, uint64_t number, uint64_t nbytes)
{
    const uint64_t now = nxr_trace_has(NXR_TRACE_CHANNEL) ? nxr_ticks_after() : 0;

    if (now != 0) {
        nxr_trace_record(&(const struct nxr_traced){
            .kind = NXR_TRACE_CHANNEL,
            .form = form,
            .name = form == NXR_TRACE_SENT ? "item published" : "item received",
            .begin = now,
            .end = now,
            .nbytes = nbytes,
            .tag = number,
            .flow = nxr_is_own_rank(rank) ? number : 0,
            .object = (uint32_t)nxr_hash(channel->name, strlen(channel->name)),
            .peer = rank});
    }
}

/* ---- the producer ---------------------------------------------------------------------------- */

/* Why the producer cannot continue; NIXL_OK: it can. */
static int consumer_state(const struct nixl_channel *channel)
{
    const struct nxr_segment *segment = nxr_region_segment(channel->ledger, channel->peer);

    if (nxr_peer_is_lost(channel->consumer)) {
        return NIXL_E_PEER_LOST;
    }
    if (segment == NULL) {
        return NIXL_E_STALE;
    }
    /* On this host, the owner's generation word shows it before the message arrives. */
    return segment->generation_now != NULL &&
                   atomic_load_explicit(segment->generation_now, memory_order_acquire) !=
                       segment->key.generation
               ? NIXL_E_STALE
               : NIXL_OK;
}

static int fail_end(const char *operation, int rank, int status)
{
    if (status != NIXL_E_STALE) {
        return nxr_peer_fail_lost(operation, rank, "");
    }
    return nxr_fail(status, operation, rank, "", 0, "%s has closed its end of the channel",
                    nxr_rank_name(rank));
}

static bool channel_move_has_room(struct nixl_channel *channel)
{
    if (channel->n_published - channel->n_given_back < channel->nslots) {
        return true;
    }
    channel->n_given_back = atomic_load_explicit(channel->credit_word, memory_order_acquire);
    return channel->n_published - channel->n_given_back < channel->nslots;
}

struct acquire {
    struct nixl_channel *channel;
    bool leaves; /* the consumer gives nothing back any more */
    struct nxr_leaving leaving;
};

static bool has_room_or_ended(void *arg)
{
    struct acquire *acquire = arg;

    if (channel_move_has_room(acquire->channel)) {
        return true;
    }
    if (consumer_state(acquire->channel) != NIXL_OK) {
        return true;
    }
    acquire->leaves = nxr_leaving_is_in_vain(&acquire->leaving, acquire->channel->peer);
    return acquire->leaves;
}

static int call_channel_acquire(struct nixl_channel *channel, int64_t timeout_ns, void **slot_p)
{
    const char *operation = "nixl_channel_acquire";
    struct acquire acquire = {.channel = channel};
    int status = check_end(operation, channel, NIXL_CHANNEL_PRODUCER);

    if (status != NIXL_OK) {
        return status;
    }
    if (slot_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, channel->peer, "", 0, "slot_p is NULL");
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, channel->peer, timeout_ns);
    }
    if (!channel_move_has_room(channel)) {
        struct nxr_stats_named *counted = nxr_channel_counted(channel);

        nxr_stats_add(&counted->n[NXR_STATS_RETRIES], timeout_ns > 0);
        status = nxr_wait_as(has_room_or_ended, &acquire, timeout_ns, nxr_describe_reason,
                             &(const struct nxr_reason){.kind = NXR_WAIT_CHANNEL_ROOM,
                                                        .peer = channel->peer,
                                                        .call = operation,
                                                        .object = channel->name,
                                                        .value = channel->nslots,
                                                        .times = &counted->wait});
    }
    if (status == NIXL_E_TIMEOUT) {
        return nxr_fail(status, operation, channel->peer, "", 0,
                        "all %llu slots of channel '%s' at %s have stayed full for %s",
                        (unsigned long long)channel->nslots, channel->name,
                        nxr_rank_name(channel->peer), nxr_duration(timeout_ns).text);
    }
    if (status == NIXL_OK) {
        status = consumer_state(channel);
    }
    if (status == NIXL_OK && acquire.leaves) {
        return nxr_leaving_fail(operation, channel->peer);
    }
    if (status != NIXL_OK) {
        return status == NIXL_INPROGRESS ? status : fail_end(operation, channel->peer, status);
    }
    channel->is_acquired = true;
    *slot_p = channel->staging != NULL
                  ? channel->staging + channel->publish * channel->stride
                  : channel->slot_bytes + nxr_slot_at(channel, channel->lane, channel->publish);
    return NIXL_OK;
}

int nixl_channel_acquire(struct nixl_channel *channel, int64_t timeout_ns, void **slot_p)
{
    return NXR_TRACED(NXR_TRACE_CHANNEL, "nixl_channel_acquire", -1, 0, 0,
                      call_channel_acquire(channel, timeout_ns, slot_p));
}

static int publish_by_puts(struct nixl_channel *channel, uint64_t nbytes)
{
    uint64_t stamp_at = nxr_stamp_at(channel, channel->lane, channel->publish);
    uint64_t slot_at = nxr_slot_at(channel, channel->lane, channel->publish);
    const char *slot = channel->staging + channel->publish * channel->stride;
    int status = nixl_put(channel->peer, channel->slots, slot_at, slot, nbytes);

    if (status == NIXL_OK) {
        status = nixl_put(channel->peer, channel->ledger,
                          stamp_at + offsetof(struct nxr_stamp, nbytes), &nbytes, sizeof(nbytes));
    }
    if (status == NIXL_OK) {
        status =
            nixl_signal_set(channel->peer, channel->ledger,
                            stamp_at + offsetof(struct nxr_stamp, item), channel->n_published + 1);
    }
    return status;
}

static int call_channel_publish(struct nixl_channel *channel, size_t nbytes)
{
    const char *operation = "nixl_channel_publish";
    int status = check_end(operation, channel, NIXL_CHANNEL_PRODUCER);

    if (status != NIXL_OK) {
        return status;
    }
    if (!channel->is_acquired || nbytes > channel->slot_nbytes) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, channel->peer, "", 0,
                        channel->is_acquired ? "%zu bytes; a slot has %llu"
                                             : "no slot is acquired to publish %zu of %llu bytes",
                        nbytes, (unsigned long long)channel->slot_nbytes);
    }
    channel_move_trace(channel, channel->peer, NXR_TRACE_SENT, channel->n_published + 1, nbytes);
    if (channel->staging == NULL) {
        struct nxr_stamp *stamp = (void *)(channel->ledger_bytes +
                                           nxr_stamp_at(channel, channel->lane, channel->publish));

        stamp->nbytes = nbytes;
        atomic_store_explicit(&stamp->item, channel->n_published + 1, memory_order_release);
        nxr_wake_peer(channel->consumer);
    } else {
        status = publish_by_puts(channel, nbytes);
        if (status != NIXL_OK) {
            return nxr_fail_inner(status, operation, channel->peer);
        }
    }
    nxr_channel_count(nxr_channel_counted(channel), nbytes);
    channel->n_published++;
    channel->publish = nxr_slot_after(channel, channel->publish);
    channel->is_acquired = false;
    return NIXL_OK;
}

int nixl_channel_publish(struct nixl_channel *channel, size_t nbytes)
{
    return NXR_TRACED(NXR_TRACE_CHANNEL, "nixl_channel_publish", -1, nbytes, 0,
                      call_channel_publish(channel, nbytes));
}

/*
 * The consumer may be waiting for more items: tell it that there are none. Not needed if it is
 * dead.
 */
void nxr_channel_say_closed(struct nixl_channel *channel)
{
    uint64_t at = nxr_lane_line_at(channel->lane) + offsetof(struct nxr_lane_line, closed);
    int status = NIXL_OK;

    if (channel->role != NIXL_CHANNEL_PRODUCER || consumer_state(channel) != NIXL_OK) {
        return;
    }
    if (channel->ledger_bytes != NULL) {
        atomic_store_explicit((_Atomic uint64_t *)(void *)(channel->ledger_bytes + at), 1,
                              memory_order_release);
        nxr_wake_peer(channel->consumer);
    } else {
        status = nixl_signal_set(channel->peer, channel->ledger, at, 1);
    }
    if (status != NIXL_OK) {
        nxr_debug(CORE, "cannot notify %s that its channel was closed: %s",
                  nxr_rank_name(channel->peer), nixl_strerror(status));
    }
}

/* ---- the consumer ---------------------------------------------------------------------------- */

/* The first lane with an item, from next_lane on; n_lanes: none. */
static unsigned channel_move_find_item(const struct nixl_channel *channel)
{
    unsigned lane = channel->next_lane;

    for (unsigned i = 0; i < channel->n_lanes; i++) {
        if (nxr_lane_has_item(&channel->lanes[lane])) {
            return lane;
        }
        lane = lane + 1 == channel->n_lanes ? 0 : lane + 1;
    }
    return channel->n_lanes;
}

struct receive {
    struct nixl_channel *channel;
    unsigned lane; /* n_lanes: none */
    int state;     /* NIXL_OK, or why nothing more comes from `ended` */
    int ended;
    bool leaves; /* the only producer, or all, publish nothing any more */
    struct nxr_leaving leaving;
    struct nxr_leaving_all leaving_all;
};

/* Has the only producer ended? Checked before its items, so that none of them is missed. */
static int only_state(const struct nixl_channel *channel)
{
    if (nxr_peer_is_lost(channel->producer)) {
        return NIXL_E_PEER_LOST;
    }
    return nxr_lane_has_closed(&channel->lanes[0]) ? NIXL_E_STALE : NIXL_OK;
}

static bool channel_move_has_lanes(const struct nixl_channel *channel)
{
    return atomic_load_explicit(&channel->attached.has_news, memory_order_acquire);
}

/* Asked when an item is seen: it may be one of a process that has come after a death. */
static bool channel_move_has_news(const struct nixl_channel *channel)
{
    return atomic_load_explicit(&channel->n_deaths, memory_order_acquire) !=
               channel->n_deaths_told ||
           channel_move_has_lanes(channel);
}

/* There is no item. Will there never be? */
static bool channel_is_in_vain(struct receive *receive)
{
    const struct nixl_channel *channel = receive->channel;

    if (channel->producer != NULL) {
        return nxr_leaving_is_in_vain(&receive->leaving, channel->peer);
    }
    if (!nxr_leaving_is_time(&receive->leaving_all.n_calls) ||
        !nxr_senders_never_come(&receive->leaving_all)) {
        return false;
    }
    receive->lane = channel_move_find_item(channel); /* that has come meanwhile */
    return true;
}

/* Take an item, or the end of a producer. False: neither. */
static bool channel_move_look(void *arg)
{
    struct receive *receive = arg;
    struct nixl_channel *channel = receive->channel;
    unsigned dead;

    if (channel_move_has_lanes(channel)) {
        nxr_attached_lanes_adopt(channel);
    }
    receive->state = channel->producer != NULL ? only_state(channel) : NIXL_OK;
    receive->lane = channel_move_find_item(channel);
    dead = nxr_lane_take_death(channel);
    if (dead < channel->n_lanes) {
        receive->lane = channel->n_lanes;
        receive->state = NIXL_E_PEER_LOST;
        receive->ended = channel->lanes[dead].number;
        return true;
    }
    if (receive->lane < channel->n_lanes || receive->state != NIXL_OK) {
        return true;
    }
    receive->leaves = channel_is_in_vain(receive);
    return receive->leaves;
}

/*
 * Wait for an item, or take news of a producer first. *lane_p: the lane with an item if one was
 * seen, then the one to receive from. NIXL_OK, or what the call returns.
 */
static int __attribute__((noinline))
wait_for_item(const char *operation, struct nixl_channel *channel, int64_t timeout_ns,
              unsigned *lane_p)
{
    struct receive receive = {
        .channel = channel, .lane = *lane_p, .state = NIXL_OK, .ended = channel->peer};
    struct nxr_stats_named *counted = nxr_channel_waits_counted(channel);
    int status;

    nxr_stats_add(&counted->n[NXR_STATS_RETRIES],
                  timeout_ns > 0 && receive.lane == channel->n_lanes);
    status = nxr_wait_as(
        channel_move_look, &receive, timeout_ns, nxr_describe_reason,
        &(const struct nxr_reason){.kind = NXR_WAIT_CHANNEL_ITEM,
                                   .peer = channel->producer != NULL ? channel->peer : -1,
                                   .call = operation,
                                   .object = channel->name,
                                   .times = &counted->wait});
    if (status != NIXL_OK) {
        return status == NIXL_INPROGRESS ? status
                                         : nxr_fail(status, operation, channel->peer, "", 0,
                                                    "no item of channel '%s' within %s",
                                                    channel->name, nxr_duration(timeout_ns).text);
    }
    if (receive.leaves && receive.lane == channel->n_lanes) {
        return channel->producer != NULL
                   ? nxr_leaving_fail(operation, channel->peer)
                   : nxr_fail(NIXL_E_PEER_LOST, operation, -1, "", 0,
                              NXR_SENDERS_LEAVE ": nobody is left who could publish in channel "
                                                "'%s'",
                              channel->name);
    }
    if (receive.lane == channel->n_lanes) {
        return fail_end(operation, receive.ended, receive.state);
    }
    *lane_p = receive.lane;
    return NIXL_OK;
}

/*
 * Credit that is not mapped is reported in batches, and at once if the producer may have no slot
 * left: a consumer that holds most of the slots never completes a batch.
 */
static bool is_credit_due(const struct nixl_channel *channel, const struct nxr_lane *lane)
{
    uint64_t n_untold = lane->n_released - lane->n_told;

    return lane->credit_word == NULL && lane->has_credit && n_untold > 0 &&
           (n_untold >= (channel->nslots + CREDIT_PARTS - 1) / CREDIT_PARTS ||
            lane->n_received - lane->n_told >= channel->nslots);
}

static void give_credit(struct nixl_channel *channel, unsigned number)
{
    struct nxr_peer *peer = nxr_lane_debtor(channel, number);
    struct nxr_lane *lane = &channel->lanes[number];

    if (peer == NULL) {
        return;
    }
    if (!lane->is_credit_asked) {
        nxr_lane_find_credit(channel, lane, peer->rank);
    }
    if (lane->credit_word != NULL) {
        atomic_store_explicit(lane->credit_word, lane->n_released, memory_order_release);
        nxr_wake_peer(peer);
    } else if (is_credit_due(channel, lane)) {
        lane->n_told = lane->n_released;
        lane->has_credit = nixl_signal_set(peer->rank, lane->credit, 0, lane->n_released) ==
                           NIXL_OK; /* else it left */
    }
}

static int call_channel_recv(struct nixl_channel *channel, int64_t timeout_ns, void **slot_p,
                             size_t *nbytes_p, int *rank_p)
{
    const char *operation = "nixl_channel_recv";
    int status = check_end(operation, channel, NIXL_CHANNEL_CONSUMER);
    struct nxr_stamp *stamp;
    struct nxr_lane *lane;
    unsigned number;

    if (status != NIXL_OK) {
        return status;
    }
    if (slot_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, channel->peer, "", 0, "slot_p is NULL");
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, channel->peer, timeout_ns);
    }
    if (channel_move_has_lanes(channel)) {
        nxr_attached_lanes_update(channel);
    }
    number = channel_move_find_item(channel);
    if (number == channel->n_lanes || channel_move_has_news(channel)) {
        status = wait_for_item(operation, channel, timeout_ns, &number);
        if (status != NIXL_OK) {
            return status;
        }
    }
    lane = &channel->lanes[number];
    *slot_p = lane->slots + lane->receive * channel->stride;
    stamp = &lane->stamps[lane->receive];
    if (nbytes_p != NULL) {
        *nbytes_p = stamp->nbytes < channel->slot_nbytes ? stamp->nbytes : channel->slot_nbytes;
    }
    if (rank_p != NULL) {
        *rank_p = lane->number;
    }
    nxr_channel_count(nxr_channel_lane_counted(channel, number), stamp->nbytes);
    lane->n_received++;
    channel_move_trace(channel, lane->number, NXR_TRACE_TAKEN, lane->n_received, stamp->nbytes);
    lane->receive = nxr_slot_after(channel, lane->receive);
    if (__builtin_expect(is_credit_due(channel, lane), 0)) {
        give_credit(channel, number);
    }
    channel->next_lane = number + 1 == channel->n_lanes ? 0 : number + 1;
    return NIXL_OK;
}

int nixl_channel_recv(struct nixl_channel *channel, int64_t timeout_ns, void **slot_p,
                      size_t *nbytes_p, int *rank_p)
{
    return NXR_TRACED(NXR_TRACE_CHANNEL, "nixl_channel_recv", -1, 0, 0,
                      call_channel_recv(channel, timeout_ns, slot_p, nbytes_p, rank_p));
}

/* The lane that a slot belongs to; n_lanes: the pointer is not a slot. */
static unsigned lane_of(const struct nixl_channel *channel, const void *slot)
{
    uint64_t at = (uint64_t)((uintptr_t)slot - (uintptr_t)channel->slot_bytes);
    uint64_t lane_nbytes = channel->nslots * channel->stride;
    unsigned lane = channel->n_own_lanes;

    if (at < lane * lane_nbytes) {
        return lane == 1 ? 0 : (unsigned)(at / lane_nbytes);
    }
    while (lane < channel->n_lanes &&
           (uintptr_t)slot - (uintptr_t)channel->lanes[lane].slots >= lane_nbytes) {
        lane++;
    }
    return lane;
}

static int fail_release(const struct nixl_channel *channel, unsigned number, const void *slot)
{
    bool is_slot =
        number < channel->n_lanes &&
        ((uintptr_t)slot - (uintptr_t)channel->lanes[number].slots) % channel->stride == 0;

    return nxr_fail(
        NIXL_E_INVALID_ARG, "nixl_channel_release", channel->peer, "", 0,
        is_slot ? "slot %p is not the oldest one held" : "%p is not a slot of the channel", slot);
}

static int call_channel_release(struct nixl_channel *channel, const void *slot)
{
    int status = check_end("nixl_channel_release", channel, NIXL_CHANNEL_CONSUMER);
    struct nxr_lane *lane;
    unsigned number;

    if (status != NIXL_OK) {
        return status;
    }
    number = lane_of(channel, slot);
    if (number == channel->n_lanes) {
        return fail_release(channel, number, slot);
    }
    lane = &channel->lanes[number];
    if (lane->n_released == lane->n_received ||
        slot != lane->slots + lane->release * channel->stride) {
        return fail_release(channel, number, slot);
    }
    lane->n_released++;
    lane->release = nxr_slot_after(channel, lane->release);
    give_credit(channel, number);
    return NIXL_OK;
}

int nixl_channel_release(struct nixl_channel *channel, const void *slot)
{
    return NXR_TRACED(NXR_TRACE_CHANNEL, "nixl_channel_release", -1, 0, 0,
                      call_channel_release(channel, slot));
}
