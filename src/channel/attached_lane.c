/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes of attached processes in a channel for any rank. Owns their memory: each has a ledger of
 * one lane and slots, regions of their own, whose names contain an id of the producer's attachment.
 *
 * A producer asks for these regions by name. The question makes the consumer's service thread make
 * them (`wanted`, then `made`), so the producer does not wait for the consumer's program. The
 * thread that receives takes the lane into use, and frees it when its producer has ended and
 * nothing is left in it. While the producer lives the lane stays, so that it may close its end,
 * open it again, and go on behind its former items.
 *
 * If there is no memory for the slots, the ledger says so, and a small region takes their place, so
 * that the producer's question is answered; its producer closes the lane, and may ask again.
 *
 * Lock: nxr_channels_lock for the lists and for changing the array of lanes, which only the
 * consumer's thread does. No region is made or closed while it is held.
 */
#include "config.h"

#include "channel/channel.h"
#include "core/context.h"
#include "core/service.h"
#include "region/publish.h"
#include "region/region.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX     "nixl.channel/" /* of the names of all regions of channels */
#define SLOTS_TAIL "/slots.x"      /* then the id */
#define ID_DIGITS  16

static _Atomic bool attached_lanes_are_wanted;
static pthread_cond_t attached_lanes_made = PTHREAD_COND_INITIALIZER;

/* ---- names ----------------------------------------------------------------------------------- */

void nxr_attached_lane_region_name(char *text, const char *name, const char *which, uint64_t id)
{
    snprintf(text, NIXL_NAME_MAX + 1, PREFIX "%s/%s.x%0*llx", name, which, ID_DIGITS,
             (unsigned long long)id);
}

uint64_t nxr_attached_lane_id(const struct nxr_peer *consumer)
{
    unsigned char bytes[NXR_IDENTITY_NBYTES + sizeof(consumer->rank)];

    nxr_identity_write(&nxr_job.self, bytes);
    memcpy(bytes + NXR_IDENTITY_NBYTES, &consumer->rank, sizeof(consumer->rank));
    return nxr_hash(bytes, sizeof(bytes));
}

/* The context, channel and id in the name of a lane's slots. False: it is no such name. */
static bool attached_lane_parse(const char *name, uint64_t *context_p, char *channel,
                                uint64_t *id_p)
{
    const char *scope = name;
    size_t nbytes, tail = strlen(SLOTS_TAIL) + ID_DIGITS;
    const char *at;

    name = nxr_region_label(name);
    nbytes = strlen(name);
    if (nbytes <= strlen(PREFIX) + tail || nbytes - strlen(PREFIX) - tail > NIXL_CHANNEL_NAME_MAX) {
        return false;
    }
    at = name + nbytes - tail;
    if (strncmp(at, SLOTS_TAIL, strlen(SLOTS_TAIL)) != 0 ||
        strspn(at + strlen(SLOTS_TAIL), "0123456789abcdef") != ID_DIGITS) {
        return false;
    }
    *id_p = strtoull(at + strlen(SLOTS_TAIL), NULL, 16);
    *context_p = 0;
    if (name != scope) {
        char digits[NXR_SCOPE_NBYTES];

        snprintf(digits, sizeof(digits), "%s", scope + 1);
        *context_p = strtoull(digits, NULL, 16);
    }
    snprintf(channel, NIXL_CHANNEL_NAME_MAX + 1, "%.*s", (int)(at - name - (int)strlen(PREFIX)),
             name + strlen(PREFIX));
    return true;
}

/* ---- the question ---------------------------------------------------------------------------- */

/* The channel of that name that takes attached producers; NULL: none. nxr_channels_lock. */
static struct nixl_channel *attached_lanes_channel(uint64_t context, const char *name)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_channels_open) {
        struct nixl_channel *channel = nxr_list_entry(link, struct nixl_channel, link);

        if (channel->attached.is_open && channel->context->id == context &&
            strcmp(channel->name, name) == 0) {
            return channel;
        }
    }
    return NULL;
}

static struct nxr_attached_lane *attached_lane_in(struct nxr_list *list, int number)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, list) {
        struct nxr_attached_lane *lane = nxr_list_entry(link, struct nxr_attached_lane, link);

        if (lane->number == number) {
            return lane;
        }
    }
    return NULL;
}

/* The lane in use that is the peer's, or NULL. nxr_channels_lock. */
static struct nxr_lane *attached_lane_used(const struct nixl_channel *channel, int number)
{
    for (unsigned i = channel->n_own_lanes; i < channel->n_lanes; i++) {
        if (channel->lanes[i].number == number) {
            return &channel->lanes[i];
        }
    }
    return NULL;
}

bool nxr_attached_lanes_use(const struct nixl_channel *channel, const struct nxr_peer *peer)
{
    return channel->role == NIXL_CHANNEL_CONSUMER &&
           attached_lane_used(channel, peer->rank) != NULL;
}

/* A process has one lane at a time. nxr_channels_lock. */
static int attached_lane_want(struct nixl_channel *channel, const struct nxr_peer *peer,
                              uint64_t id)
{
    struct nxr_attached_lane *lane;

    if (attached_lane_in(&channel->attached.wanted, peer->rank) != NULL ||
        attached_lane_in(&channel->attached.made, peer->rank) != NULL ||
        attached_lane_used(channel, peer->rank) != NULL) {
        return NIXL_OK;
    }
    lane = calloc(1, sizeof(*lane));
    if (lane == NULL) {
        nxr_warn(CORE, "no memory for a lane of %s in channel '%s'", nxr_peer_name(peer),
                 channel->name);
        return NIXL_E_NO_MEMORY;
    }
    lane->producer = peer->identity;
    lane->number = peer->rank;
    lane->id = id;
    nxr_list_append(&channel->attached.wanted, &lane->link);
    atomic_store_explicit(&attached_lanes_are_wanted, true, memory_order_release);
    nxr_service_kick();
    return NIXL_OK;
}

/* Holds job.lock. The answer is: later, or no memory. */
static int attached_lane_asked(const struct nxr_peer *peer, const char *name,
                               struct nxr_published **published_p)
{
    char channel_name[NIXL_CHANNEL_NAME_MAX + 1];
    struct nixl_channel *channel;
    uint64_t context, id;
    int status = NIXL_OK;

    (void)published_p;
    if (!nxr_peer_is_attached(peer) || !attached_lane_parse(name, &context, channel_name, &id)) {
        return NIXL_OK;
    }
    pthread_mutex_lock(&nxr_channels_lock);
    channel = attached_lanes_channel(context, channel_name);
    if (channel != NULL) {
        status = attached_lane_want(channel, peer, id);
    }
    pthread_mutex_unlock(&nxr_channels_lock);
    return status;
}

void nxr_attached_lanes_register(void)
{
    nxr_publish_make_by(PREFIX, attached_lane_asked);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Take a wanted lane, whose channel stays until it is given back; NULL: there is none. */
static struct nxr_attached_lane *attached_lane_take(struct nixl_channel **channel_p)
{
    struct nxr_list *link, *after, *taken = NULL;

    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_for_each (link, after, &nxr_channels_open) {
        struct nixl_channel *channel = nxr_list_entry(link, struct nixl_channel, link);

        taken = nxr_list_pop(&channel->attached.wanted);
        if (taken != NULL) {
            channel->attached.is_making = true;
            *channel_p = channel;
            break;
        }
    }
    pthread_mutex_unlock(&nxr_channels_lock);
    return taken != NULL ? nxr_list_entry(taken, struct nxr_attached_lane, link) : NULL;
}

/* Its producer may have opened its end, put items and ended since the slots were made. */
static void attached_lane_give(struct nixl_channel *channel, struct nxr_attached_lane *lane)
{
    const struct nxr_peer *peer;

    pthread_mutex_lock(&nxr_job.lock); /* so that an end is seen here or noted later */
    pthread_mutex_lock(&nxr_channels_lock);
    peer = nxr_peer_find(lane->number);
    if (peer == NULL || nxr_peer_is_lost(peer)) {
        lane->has_died = peer != NULL && peer->is_joined && !peer->is_detached;
        atomic_store_explicit(&lane->has_ended, true, memory_order_relaxed);
    }
    nxr_list_append(&channel->attached.made, &lane->link);
    atomic_store_explicit(&channel->attached.has_news, true, memory_order_release);
    channel->attached.is_making = false;
    pthread_cond_broadcast(&attached_lanes_made);
    pthread_mutex_unlock(&nxr_channels_lock);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* The slots last: they answer the producer's question. */
static void attached_lane_make(const struct nixl_channel *channel, struct nxr_attached_lane *lane)
{
    struct nxr_ledger_head head = {.slot_nbytes = channel->slot_nbytes,
                                   .nslots = channel->nslots,
                                   .peer = lane->number,
                                   .producer = lane->producer};
    struct nxr_ledger_head *ledger_head;
    char name[NIXL_NAME_MAX + 1];
    struct nixl_region *slots = NULL;
    int status;

    nxr_attached_lane_region_name(name, channel->name, "ledger", lane->id);
    status = nxr_channel_alloc_region(channel, name, nxr_stamp_in(1, channel->nslots, 1, 0),
                                      &lane->ledger);
    if (status != NIXL_OK) {
        nxr_warn(CORE, "cannot take %s into channel '%s': %s", nxr_identity_name(&lane->producer),
                 channel->name, nixl_last_error()->text);
        lane->is_refused = true;
        return;
    }
    ledger_head = nixl_region_addr(lane->ledger);
    *ledger_head = head;
    nxr_attached_lane_region_name(name, channel->name, "slots", lane->id);
    status = nixl_region_alloc(name, channel->nslots * channel->stride, &channel->attached.params,
                               &slots);
    if (status != NIXL_OK) {
        nxr_warn(CORE, "no slots for %s in channel '%s': %s", nxr_identity_name(&lane->producer),
                 channel->name, nixl_last_error()->text);
        ledger_head->status = status;
        lane->is_refused = true;
        status = nxr_channel_alloc_region(channel, name, sizeof(head), &slots);
    }
    lane->slots = status == NIXL_OK ? slots : NULL;
}

void nxr_attached_lanes_serve(void)
{
    struct nxr_attached_lane *lane;
    struct nixl_channel *channel;

    if (!atomic_load_explicit(&attached_lanes_are_wanted, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&attached_lanes_are_wanted, false, memory_order_seq_cst);
    while ((lane = attached_lane_take(&channel)) != NULL) {
        attached_lane_make(channel, lane);
        attached_lane_give(channel, lane);
    }
}

/* ---- use ------------------------------------------------------------------------------------- */

static bool attached_lane_has_ended(const struct nxr_attached_lane *lane)
{
    return atomic_load_explicit(&lane->has_ended, memory_order_acquire);
}

/* Its producer has died, after it had opened its end. */
static void attached_lane_note_death(struct nixl_channel *channel, struct nxr_lane *lane)
{
    if (atomic_load_explicit(&lane->line->opening, memory_order_acquire) != 0) {
        nxr_lane_note_death(channel, lane, lane->attached->producer.incarnation);
    }
}

void nxr_attached_lanes_note_end(struct nixl_channel *channel, const struct nxr_peer *peer,
                                 bool has_died)
{
    struct nxr_attached_lane *lane = attached_lane_in(&channel->attached.wanted, peer->rank);
    struct nxr_lane *used = attached_lane_used(channel, peer->rank);

    if (lane != NULL) {
        nxr_list_remove(&lane->link);
        free(lane);
        return;
    }
    lane = used != NULL ? used->attached : attached_lane_in(&channel->attached.made, peer->rank);
    if (lane == NULL) {
        return;
    }
    lane->has_died = has_died;
    if (used != NULL && has_died) {
        attached_lane_note_death(channel, used);
    }
    atomic_store_explicit(&lane->has_ended, true, memory_order_release);
    atomic_store_explicit(&channel->attached.has_news, true, memory_order_release);
}

/* One more lane in use. nxr_channels_lock. */
static bool attached_lane_add(struct nixl_channel *channel, struct nxr_attached_lane *attached)
{
    struct nxr_lane *lanes =
        realloc(channel->lanes, (channel->n_lanes + 1) * sizeof(*channel->lanes));
    struct nxr_lane *lane;

    if (lanes == NULL) {
        return false;
    }
    channel->lanes = lanes;
    lane = &lanes[channel->n_lanes++];
    memset(lane, 0, sizeof(*lane));
    nxr_lane_place(channel, lane, nixl_region_addr(attached->ledger), 1, 0);
    lane->slots = nixl_region_addr(attached->slots);
    lane->number = attached->number;
    lane->attached = attached;
    if (attached->has_died) {
        attached_lane_note_death(channel, lane);
    }
    return true;
}

/* What is to be done at the next call. nxr_channels_lock. */
static void attached_lanes_tell_news(struct nixl_channel *channel)
{
    bool has_news = !nxr_list_is_empty(&channel->attached.made) ||
                    !nxr_list_is_empty(&channel->attached.closing);

    for (unsigned i = channel->n_own_lanes; i < channel->n_lanes; i++) {
        has_news |= attached_lane_has_ended(channel->lanes[i].attached);
    }
    atomic_store_explicit(&channel->attached.has_news, has_news, memory_order_relaxed);
}

void nxr_attached_lanes_adopt(struct nixl_channel *channel)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_for_each (link, after, &channel->attached.made) {
        struct nxr_attached_lane *lane = nxr_list_entry(link, struct nxr_attached_lane, link);

        if (!lane->is_refused && attached_lane_add(channel, lane)) {
            nxr_list_remove(link);
        }
    }
    attached_lanes_tell_news(channel);
    pthread_mutex_unlock(&nxr_channels_lock);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Has its producer read why there are no slots for it, or ended? */
static bool attached_lane_is_given_up(const struct nxr_attached_lane *lane)
{
    const struct nxr_lane_line *line;

    if (lane->ledger == NULL || attached_lane_has_ended(lane)) {
        return true;
    }
    line = (const void *)((const char *)nixl_region_addr(lane->ledger) + nxr_lane_line_at(0));
    return atomic_load_explicit(&line->closed, memory_order_acquire) != 0;
}

static bool attached_lane_is_done(const struct nxr_lane *lane)
{
    return attached_lane_has_ended(lane->attached) && !nxr_lane_has_item(lane) &&
           lane->n_released == lane->n_received &&
           atomic_load_explicit(&lane->n_deaths, memory_order_acquire) == lane->n_deaths_told;
}

/* Take the lane out of use: the last one takes its place. */
static void attached_lane_drop(struct nixl_channel *channel, unsigned number)
{
    struct nxr_attached_lane *lane = channel->lanes[number].attached;

    nxr_lane_drop_credit(channel, number);
    nxr_stats_named_give(channel->lanes[number].counted);
    pthread_mutex_lock(&nxr_channels_lock);
    channel->n_lanes--;
    memmove(&channel->lanes[number], &channel->lanes[channel->n_lanes], sizeof(*channel->lanes));
    nxr_list_append(&channel->attached.closing, &lane->link);
    pthread_mutex_unlock(&nxr_channels_lock);
    channel->next_lane = 0;
}

static int attached_lane_close(struct nxr_attached_lane *lane, int64_t timeout_ns)
{
    int status = nxr_channel_close_region(&lane->ledger, timeout_ns);

    return status == NIXL_OK ? nxr_channel_close_region(&lane->slots, timeout_ns) : status;
}

/* Only the consumer's thread uses the list `closing`. */
static int attached_lanes_close_all(struct nixl_channel *channel, int64_t timeout_ns)
{
    struct nxr_list *link, *after;
    int result = NIXL_OK;

    nxr_list_for_each (link, after, &channel->attached.closing) {
        struct nxr_attached_lane *lane = nxr_list_entry(link, struct nxr_attached_lane, link);
        int status = attached_lane_close(lane, timeout_ns);

        if (status != NIXL_OK) {
            result = status;
            continue;
        }
        nxr_list_remove(link);
        free(lane);
    }
    return result;
}

void nxr_attached_lanes_update(struct nixl_channel *channel)
{
    struct nxr_list *link, *after;

    nxr_attached_lanes_adopt(channel);
    for (unsigned i = channel->n_lanes; i-- > channel->n_own_lanes;) {
        if (attached_lane_is_done(&channel->lanes[i])) {
            attached_lane_drop(channel, i);
        }
    }
    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_for_each (link, after, &channel->attached.made) {
        struct nxr_attached_lane *lane = nxr_list_entry(link, struct nxr_attached_lane, link);

        if (lane->is_refused && attached_lane_is_given_up(lane)) {
            nxr_list_remove(link);
            nxr_list_append(&channel->attached.closing, link);
        }
    }
    pthread_mutex_unlock(&nxr_channels_lock);
    (void)attached_lanes_close_all(channel, 0); /* what is left is tried again */
    pthread_mutex_lock(&nxr_channels_lock);
    attached_lanes_tell_news(channel);
    pthread_mutex_unlock(&nxr_channels_lock);
}

void nxr_attached_lanes_stop(struct nixl_channel *channel)
{
    struct nxr_list *link;

    pthread_mutex_lock(&nxr_channels_lock);
    channel->attached.is_open = false;
    channel->attached.is_stopped = true;
    while ((link = nxr_list_pop(&channel->attached.wanted)) != NULL) {
        free(nxr_list_entry(link, struct nxr_attached_lane, link));
    }
    while (channel->attached.is_making) { /* for as long as memory is allocated */
        pthread_cond_wait(&attached_lanes_made, &nxr_channels_lock);
    }
    pthread_mutex_unlock(&nxr_channels_lock);
}

/* Their credits are closed already. */
int nxr_attached_lanes_close(struct nixl_channel *channel, int64_t timeout_ns)
{
    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_splice(&channel->attached.closing, &channel->attached.made);
    while (channel->n_lanes > channel->n_own_lanes && channel->n_own_lanes > 0) {
        channel->n_lanes--;
        nxr_stats_named_give(channel->lanes[channel->n_lanes].counted);
        nxr_list_append(&channel->attached.closing,
                        &channel->lanes[channel->n_lanes].attached->link);
    }
    pthread_mutex_unlock(&nxr_channels_lock);
    return attached_lanes_close_all(channel, timeout_ns);
}

/* ---- the lists ------------------------------------------------------------------------------- */

void nxr_attached_lanes_init(struct nixl_channel *channel)
{
    nxr_list_init(&channel->attached.wanted);
    nxr_list_init(&channel->attached.made);
    nxr_list_init(&channel->attached.closing);
}

int nxr_attached_lanes_open(struct nixl_channel *channel, const struct nixl_mem_params *params)
{
    struct nixl_mem_params *ours = &channel->attached.params;
    size_t nbytes = params != NULL ? params->struct_nbytes : 0;

    *ours = (struct nixl_mem_params)NIXL_MEM_PARAMS_INIT;
    if (nbytes > 0) {
        memcpy(ours, params, nbytes < sizeof(*ours) ? nbytes : sizeof(*ours));
        ours->struct_nbytes = sizeof(*ours);
    }
    if (ours->device != NULL) {
        channel->attached.device = strdup(ours->device);
        ours->device = channel->attached.device;
        if (ours->device == NULL) {
            return nxr_fail(NIXL_E_NO_MEMORY, "nixl_channel_open", -1, "", 0,
                            "no memory for the name of a device");
        }
    }
    pthread_mutex_lock(&nxr_channels_lock);
    channel->attached.is_open = true;
    pthread_mutex_unlock(&nxr_channels_lock);
    return NIXL_OK;
}

void nxr_attached_lanes_free(struct nixl_channel *channel)
{
    struct nxr_list *const lists[] = {&channel->attached.wanted, &channel->attached.made,
                                      &channel->attached.closing};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct nxr_list *link;

        while ((link = nxr_list_pop(lists[i])) != NULL) {
            free(nxr_list_entry(link, struct nxr_attached_lane, link));
        }
    }
    for (unsigned i = channel->n_own_lanes; channel->n_own_lanes > 0 && i < channel->n_lanes; i++) {
        free(channel->lanes[i].attached);
    }
    free(channel->attached.device);
    channel->attached.device = NULL;
}
