/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses a lane: one producer after the other, each of which goes on with the numbers of the
 * items. What is published is what has a stamp, so an item that a process was killed in is none,
 * and the next one takes its slot. The consumer looks at the line's `opening` when it gives slots
 * back: if that has changed, the credit of the former producer is nothing to it any more.
 *
 * Both look at what the other writes: the producer announces itself and then reads how much is
 * released, the consumer writes that and then looks who has announced itself. One of them sees the
 * other, so no slot stays full for both.
 */
#include "config.h"

#include "channel/channel.h"
#include "region/region.h"
#include "util/barrier.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"

#include <stddef.h>
#include <stdlib.h>

#define ASK_NS (1 * NXR_MS) /* for a credit, before checking again whether its owner has closed */

/* ---- the producer ---------------------------------------------------------------------------- */

/* The number of the latest item that has a stamp, in the stamps of the lane. */
static uint64_t lane_latest(const struct nxr_stamp *stamps, uint64_t nslots)
{
    uint64_t latest = 0;

    for (uint64_t i = 0; i < nslots; i++) {
        uint64_t item = atomic_load_explicit(&stamps[i].item, memory_order_acquire);

        latest = item > latest ? item : latest;
    }
    return latest;
}

/* How many items the former producers have published. */
static int lane_count(const struct nixl_channel *channel, uint64_t *n_p)
{
    uint64_t at = nxr_stamp_at(channel, channel->lane, 0);
    uint64_t nbytes = channel->nslots * sizeof(struct nxr_stamp);
    struct nxr_stamp *stamps;
    int status;

    if (channel->staging == NULL) {
        *n_p = lane_latest((void *)(channel->ledger_bytes + at), channel->nslots);
        return NIXL_OK;
    }
    stamps = malloc(nbytes);
    if (stamps == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, "nixl_channel_open", channel->peer, "", 0,
                        "no memory for the stamps of %llu slots",
                        (unsigned long long)channel->nslots);
    }
    status = nixl_get(channel->peer, channel->ledger, at, stamps, nbytes);
    *n_p = status == NIXL_OK ? lane_latest(stamps, channel->nslots) : 0;
    free(stamps);
    return status;
}

/* The line of the producer's lane, in the mapped ledger. */
static struct nxr_lane_line *lane_line_of(const struct nixl_channel *channel)
{
    return (void *)(channel->ledger_bytes + nxr_lane_line_at(channel->lane));
}

/* Announce this process as the lane's producer, in mapped memory. */
static void lane_announce(const struct nixl_channel *channel, uint64_t opening)
{
    struct nxr_lane_line *line = lane_line_of(channel);

    atomic_store_explicit(&line->first, channel->n_published, memory_order_relaxed);
    atomic_store_explicit(&line->incarnation, nxr_job.self.incarnation, memory_order_relaxed);
    atomic_store_explicit(&line->closed, 0, memory_order_relaxed);
    atomic_store_explicit(&line->opening, opening, memory_order_release);
    nxr_barrier_heavy();
}

/* The same by puts: it is there when this returns. */
static int lane_announce_by_puts(const struct nixl_channel *channel, uint64_t opening)
{
    const uint64_t words[] = {channel->n_published, nxr_job.self.incarnation};
    uint64_t at = nxr_lane_line_at(channel->lane);
    int status = nixl_put(channel->peer, channel->ledger,
                          at + offsetof(struct nxr_lane_line, first), words, sizeof(words));

    _Static_assert(offsetof(struct nxr_lane_line, incarnation) ==
                       offsetof(struct nxr_lane_line, first) + sizeof(uint64_t),
                   "put together");
    if (status == NIXL_OK) {
        status = nixl_signal_set(channel->peer, channel->ledger,
                                 at + offsetof(struct nxr_lane_line, closed), 0);
    }
    if (status == NIXL_OK) {
        status = nixl_signal_set(channel->peer, channel->ledger,
                                 at + offsetof(struct nxr_lane_line, opening), opening);
    }
    return status == NIXL_OK ? nixl_flush(channel->peer, nxr_env.resolve_timeout) : status;
}

static int lane_read_line(const struct nixl_channel *channel, struct nxr_lane_line *line)
{
    return nixl_get(channel->peer, channel->ledger, nxr_lane_line_at(channel->lane), line,
                    sizeof(*line));
}

int nxr_lane_take(struct nixl_channel *channel)
{
    _Atomic uint64_t *credit = (_Atomic uint64_t *)nixl_region_addr(channel->credit);
    struct nxr_lane_line line;
    uint64_t n_known;
    int status = lane_read_line(channel, &line);

    if (status == NIXL_OK && line.opening > 0) {
        status = lane_count(channel, &channel->n_published);
    }
    if (status != NIXL_OK) {
        return status;
    }
    channel->publish = channel->n_published % channel->nslots;
    channel->n_given_back = n_known = line.released;
    atomic_store_explicit(credit, n_known, memory_order_relaxed);
    if (channel->staging == NULL) {
        lane_announce(channel, line.opening + 1);
    } else {
        status = lane_announce_by_puts(channel, line.opening + 1);
    }
    if (status == NIXL_OK) {
        status = lane_read_line(channel, &line);
    }
    if (status == NIXL_OK) { /* unless the consumer knows of it, and has written more already */
        atomic_compare_exchange_strong(credit, &n_known, line.released);
    }
    return status;
}

/* ---- the consumer ---------------------------------------------------------------------------- */

void nxr_lane_place(const struct nixl_channel *channel, struct nxr_lane *lane, char *ledger_bytes,
                    unsigned n_lanes, unsigned index)
{
    lane->line = (void *)(ledger_bytes + nxr_lane_line_at(index));
    lane->stamps = (void *)(ledger_bytes + nxr_stamp_in(n_lanes, channel->nslots, index, 0));
    lane->number = channel->peer != NIXL_ANY_RANK ? channel->peer : (int)index;
}

void nxr_lane_find_credit(const struct nixl_channel *channel, struct nxr_lane *lane, int rank)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    char name[NIXL_NAME_MAX + 1];
    int status;
    void *word;

    lane->is_credit_asked = true;
    nxr_channel_credit_name(name, channel->name, &nxr_job.self, !nxr_is_own_rank(lane->number));
    status = nxr_channel_open_region(channel, name, &lane->credit);
    while (status == NIXL_OK && !nxr_lane_has_closed(lane)) {
        status = nixl_region_query(rank, lane->credit, ASK_NS, &info);
        if (status == NIXL_OK) {
            lane->has_credit = true;
            break;
        }
        status = status == NIXL_E_TIMEOUT ? NIXL_OK : status;
    }
    if (lane->has_credit && nixl_region_map(rank, lane->credit, &word) == NIXL_OK) {
        lane->credit_word = word;
    }
}

void nxr_lane_drop_credit(const struct nixl_channel *channel, unsigned number)
{
    struct nxr_lane *lane = &channel->lanes[number];

    if (lane->credit_word != NULL) {
        nixl_region_unmap(lane->number, lane->credit, lane->credit_word);
    }
    if (lane->credit != NULL) {
        nixl_region_close(lane->credit, NIXL_FOREVER); /* no part of ours: does not wait */
    }
    lane->credit = NULL;
    lane->credit_word = NULL;
    lane->is_credit_asked = lane->has_credit = false;
}

struct nxr_peer *nxr_lane_debtor(struct nixl_channel *channel, unsigned number)
{
    struct nxr_lane *lane = &channel->lanes[number];
    struct nxr_lane_line *line = lane->line;
    struct nxr_peer *peer;
    uint64_t opening;

    peer = channel->producer != NULL ? channel->producer : nxr_peer_find(lane->number);
    atomic_store_explicit(&line->released, lane->n_released, memory_order_release);
    nxr_barrier_light(nxr_barrier_is_full() || (peer != NULL && peer->full_fence));
    opening = atomic_load_explicit(&line->opening, memory_order_acquire);
    if (__builtin_expect(opening != lane->opening, 0)) {
        nxr_lane_drop_credit(channel, number);
        lane->opening = opening;
        lane->n_told = 0;
    }
    if (nxr_job.may_return && peer != NULL &&
        (nxr_peer_is_replaced(peer) ||
         peer->identity.incarnation !=
             atomic_load_explicit(&line->incarnation, memory_order_relaxed))) {
        return NULL; /* the next one reads what is released when it comes */
    }
    return peer;
}

void nxr_lane_note_death(struct nixl_channel *channel, struct nxr_lane *lane, uint32_t incarnation)
{
    if (nxr_lane_has_closed(lane)) {
        return;
    }
    atomic_store_explicit(&lane->dead, incarnation, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->n_deaths, 1, memory_order_release);
    atomic_fetch_add_explicit(&channel->n_deaths, 1, memory_order_release);
}

/* Has the lane an item of a process that has ended? */
static bool lane_has_former(const struct nxr_lane *lane)
{
    if (!nxr_lane_has_item(lane)) {
        return false;
    }
    return atomic_load_explicit(&lane->line->incarnation, memory_order_relaxed) <=
               atomic_load_explicit(&lane->dead, memory_order_relaxed) ||
           lane->n_received < atomic_load_explicit(&lane->line->first, memory_order_relaxed);
}

unsigned nxr_lane_take_death(struct nixl_channel *channel)
{
    if (atomic_load_explicit(&channel->n_deaths, memory_order_acquire) == channel->n_deaths_told) {
        return channel->n_lanes;
    }
    for (unsigned i = 0; i < channel->n_lanes; i++) {
        struct nxr_lane *lane = &channel->lanes[i];

        if (atomic_load_explicit(&lane->n_deaths, memory_order_acquire) != lane->n_deaths_told &&
            !lane_has_former(lane)) {
            lane->n_deaths_told++;
            channel->n_deaths_told++;
            return i;
        }
    }
    return channel->n_lanes;
}
