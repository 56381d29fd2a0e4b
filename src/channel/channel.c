/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing channels. A consumer fills its ledger before it publishes the slots, and a
 * producer asks for the slots first, so that it never reads a ledger that is not filled. Lock:
 * nxr_channels_lock guards the lists of handles, which are type-stable and reused as late as
 * possible.
 */
#include "config.h"

#include "channel/channel.h"
#include "core/context.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "memory/memory.h"
#include "region/region.h"
#include "util/handle.h"
#include "util/hash.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t nxr_channels_lock = PTHREAD_MUTEX_INITIALIZER;
struct nxr_list nxr_channels_open = {&nxr_channels_open, &nxr_channels_open};

/* Those that nixl_finalize() has found open: nothing reads their lanes, which are closed. */
static struct nxr_list channels_left = {&channels_left, &channels_left};
static struct nxr_handle_cache channel_handles =
    NXR_HANDLE_CACHE(channel_handles, struct nixl_channel, link, 64);

void nxr_channel_region_name(char *text, const char *name, const char *which)
{
    snprintf(text, NIXL_NAME_MAX + 1, "nixl.channel/%s/%s", name, which);
}

void nxr_channel_credit_name(char *text, const char *name, const struct nxr_identity *consumer,
                             bool is_attached)
{
    if (is_attached) {
        unsigned char bytes[NXR_IDENTITY_NBYTES];

        nxr_identity_write(consumer, bytes);
        snprintf(text, NIXL_NAME_MAX + 1, "nixl.channel/%s/credit.x%016llx", name,
                 (unsigned long long)nxr_hash(bytes, sizeof(bytes)));
    } else {
        snprintf(text, NIXL_NAME_MAX + 1, "nixl.channel/%s/credit.%d", name, consumer->rank);
    }
}

/* ---- handles --------------------------------------------------------------------------------- */

static struct nixl_channel *channel_new(void)
{
    struct nixl_channel *channel;

    pthread_mutex_lock(&nxr_channels_lock);
    channel = nxr_handle_take(&channel_handles);
    pthread_mutex_unlock(&nxr_channels_lock);
    if (channel != NULL) {
        memset(channel, 0, sizeof(*channel));
        nxr_list_init(&channel->link);
        nxr_attached_lanes_init(channel);
    }
    return channel;
}

static void channel_drop(struct nixl_channel *channel)
{
    nxr_channel_count_end(channel);
    nxr_attached_lanes_free(channel);
    free(channel->lanes);
    if (!nxr_memory_is_kept()) { /* slots that a producer of another host fills */
        free(channel->staging);
    }
    free(channel->name);
}

static void channel_retire(struct nixl_channel *channel)
{
    atomic_store_explicit(&channel->magic, 0, memory_order_release);
    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_remove(&channel->link);
    channel_drop(channel);
    nxr_handle_retire(&channel_handles, channel);
    pthread_mutex_unlock(&nxr_channels_lock);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void unmap(struct nixl_region *region, int rank, char *bytes)
{
    if (bytes != NULL) {
        nixl_region_unmap(rank, region, bytes);
    }
}

int nxr_channel_alloc_region(const struct nixl_channel *channel, const char *name, size_t nbytes,
                             struct nixl_region **region_p)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    params.context = channel->context;
    return nixl_region_alloc(name, nbytes, &params, region_p);
}

int nxr_channel_open_region(const struct nixl_channel *channel, const char *name,
                            struct nixl_region **region_p)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.context = channel->context;
    return nixl_region_open_x(name, &op, region_p);
}

int nxr_channel_close_region(struct nixl_region **region_p, int64_t timeout_ns)
{
    int status = *region_p != NULL ? nixl_region_close(*region_p, timeout_ns) : NIXL_OK;

    if (status == NIXL_OK) {
        *region_p = NULL;
    }
    return status;
}

/* Release the other ends' memory. */
static void channel_let_go(struct nixl_channel *channel)
{
    if (channel->role == NIXL_CHANNEL_PRODUCER) {
        unmap(channel->ledger, channel->peer, channel->ledger_bytes);
        unmap(channel->slots, channel->peer, channel->slot_bytes);
    }
    for (unsigned i = 0; channel->lanes != NULL && i < channel->n_lanes; i++) {
        nxr_lane_drop_credit(channel, i);
    }
    channel->ledger_bytes = NULL;
    channel->slot_bytes = NULL;
}

static int close_regions(struct nixl_channel *channel, int64_t timeout_ns)
{
    int status = nxr_attached_lanes_close(channel, timeout_ns);

    if (status == NIXL_OK) {
        status = nxr_channel_close_region(&channel->ledger, timeout_ns);
    }
    if (status == NIXL_OK) {
        status = nxr_channel_close_region(&channel->slots, timeout_ns);
    }
    return status == NIXL_OK ? nxr_channel_close_region(&channel->credit, timeout_ns) : status;
}

static int call_channel_close(struct nixl_channel *channel, int64_t timeout_ns)
{
    const char *operation = "nixl_channel_close";
    int status = nxr_channel_check_open(operation, channel);

    if (status != NIXL_OK) {
        return status;
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, channel->peer, timeout_ns);
    }
    if (!channel->is_closing) {
        channel->is_closing = true;
        nxr_attached_lanes_stop(channel);
        nxr_channel_say_closed(channel);
        channel_let_go(channel);
    }
    status = close_regions(channel, timeout_ns);
    if (status == NIXL_OK) {
        channel_retire(channel);
    }
    return status < 0 ? nxr_fail_inner(status, operation, channel->peer) : status;
}

int nixl_channel_close(struct nixl_channel *channel, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_CHANNEL, "nixl_channel_close", -1, 0, 0,
                      call_channel_close(channel, timeout_ns));
}

/* ---- opening --------------------------------------------------------------------------------- */

static int check_open(const char *operation, const char *name, int peer,
                      enum nixl_channel_role role, size_t slot_nbytes, size_t nslots)
{
    const char *fault = NULL;
    int status = nxr_check_ready(operation);
    uint64_t nbytes;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(peer) && !(peer == NIXL_ANY_RANK && role == NIXL_CHANNEL_CONSUMER)) {
        return nxr_fail_rank(operation, peer);
    }
    if (name == NULL || name[0] == '\0' ||
        strnlen(name, NIXL_CHANNEL_NAME_MAX + 1) > NIXL_CHANNEL_NAME_MAX) {
        fault = "the name is NULL, empty or too long";
    } else if (role != NIXL_CHANNEL_CONSUMER && role != NIXL_CHANNEL_PRODUCER) {
        fault = "the role does not exist";
    } else if (slot_nbytes == 0 || nslots == 0) {
        fault = "slot_nbytes or nslots is 0";
    } else if (slot_nbytes > SIZE_MAX / 2 ||
               __builtin_mul_overflow(slot_nbytes + NXR_CHANNEL_LINE, nslots, &nbytes) ||
               nbytes > SIZE_MAX / 2 / (size_t)nxr_job.size) {
        fault = "slots of that number and size exceed any memory";
    }
    return fault == NULL ? NIXL_OK
                         : nxr_fail(NIXL_E_INVALID_ARG, operation, peer, "", 0, "%s", fault);
}

static struct nxr_ledger_head channel_head(const struct nixl_channel *channel)
{
    struct nxr_ledger_head head = {
        .slot_nbytes = channel->slot_nbytes, .nslots = channel->nslots, .peer = channel->peer};

    if (channel->peer != NIXL_ANY_RANK) {
        head.producer = nxr_identity_at(channel->peer);
    }
    return head;
}

static void channel_list(struct nixl_channel *channel)
{
    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_append(&nxr_channels_open, &channel->link);
    pthread_mutex_unlock(&nxr_channels_lock);
}

static void channel_place_slots(struct nixl_channel *channel)
{
    channel->slot_bytes = nixl_region_addr(channel->slots);
    for (unsigned i = 0; i < channel->n_own_lanes; i++) {
        channel->lanes[i].slots = channel->slot_bytes + nxr_slot_at(channel, i, 0);
    }
}

static int check_slots(const struct nixl_channel *channel, const struct nixl_region *slots)
{
    if ((slots->memory.access & NIXL_ACCESS_NO_PUT) == 0) {
        return NIXL_OK;
    }
    return nxr_fail(NIXL_E_INVALID_ARG, "nixl_channel_open", channel->peer, "", 0,
                    "access NIXL_ACCESS_NO_PUT: producers put into the slots; allowed: 0 or "
                    "NIXL_ACCESS_NO_GET");
}

/*
 * The consumer's own memory: the ledger comes first, and is filled before the slots can be found.
 */
static int open_consumer(struct nixl_channel *channel, const struct nixl_mem_params *params)
{
    uint64_t slots_nbytes = channel->n_lanes * channel->nslots * channel->stride;
    uint64_t ledger_nbytes = nxr_stamp_at(channel, channel->n_lanes, 0);
    char name[NIXL_NAME_MAX + 1];
    int status;

    channel->n_own_lanes = channel->n_lanes;
    channel->lanes = calloc(channel->n_lanes, sizeof(*channel->lanes));
    if (channel->lanes == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, "nixl_channel_open", channel->peer, "", 0,
                        "no memory for %u lanes", channel->n_lanes);
    }
    nxr_channel_region_name(name, channel->name, "ledger");
    status = nxr_channel_alloc_region(channel, name, ledger_nbytes, &channel->ledger);
    if (status != NIXL_OK) {
        return status;
    }
    channel->ledger_bytes = nixl_region_addr(channel->ledger);
    *(struct nxr_ledger_head *)(void *)channel->ledger_bytes = channel_head(channel);
    nxr_channel_region_name(name, channel->name, "slots");
    for (unsigned i = 0; i < channel->n_lanes; i++) {
        nxr_lane_place(channel, &channel->lanes[i], channel->ledger_bytes, channel->n_lanes, i);
    }
    channel_list(channel); /* a producer may connect and die at once */
    status = nixl_region_alloc(name, slots_nbytes, params, &channel->slots);
    if (status == NIXL_OK) {
        channel_place_slots(channel);
        status = check_slots(channel, channel->slots);
    }
    if (status == NIXL_OK && channel->peer == NIXL_ANY_RANK) {
        status = nxr_attached_lanes_open(channel, params);
    }
    if (status == NIXL_OK) {
        channel->producer = channel->peer != NIXL_ANY_RANK ? nxr_peer_get(channel->peer) : NULL;
    }
    if (status == NIXL_OK && channel->producer == NULL && channel->peer != NIXL_ANY_RANK) {
        status = nxr_fail_no_peer("nixl_channel_open", channel->peer);
    }
    return status;
}

/* The context that they name. Those of a producer's end name nothing else, for it has no slots. */
static int channel_read_params(const char *operation, int peer, enum nixl_channel_role role,
                               const struct nixl_mem_params *theirs,
                               struct nixl_context **context_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_mem_params, NIXL_MEM_PARAMS_INIT, kind);
    struct nixl_mem_params ours = NIXL_MEM_PARAMS_INIT;
    int status = nxr_struct_read(operation, "params", &type, theirs, &ours);

    if (status != NIXL_OK) {
        return status;
    }
    if (role == NIXL_CHANNEL_PRODUCER &&
        ((ours.kind != NIXL_MEM_NONE && ours.kind != NIXL_MEM_HOST) || ours.flags != 0 ||
         ours.device != NULL || ours.vulkan != NULL || ours.access != 0)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, peer, "", 0,
                        "params name memory, which the consumer's end chooses; allowed for a "
                        "producer: NULL, or a context alone");
    }
    *context_p = nxr_context_check(operation, ours.context);
    return *context_p != NULL ? NIXL_OK : NIXL_E_INVALID_ARG;
}

static int call_channel_open(const char *name, int peer, enum nixl_channel_role role,
                             size_t slot_nbytes, size_t nslots,
                             const struct nixl_mem_params *params, struct nixl_channel **channel_p)
{
    const char *operation = "nixl_channel_open";
    int status = check_open(operation, name, peer, role, slot_nbytes, nslots);
    struct nixl_context *context = &nxr_context_default;
    struct nixl_channel *channel;

    if (status == NIXL_OK && params != NULL && channel_p != NULL) {
        status = channel_read_params(operation, peer, role, params, &context);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (channel_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, peer, "", 0, "channel_p is NULL");
    }
    channel = channel_new();
    if (channel == NULL || (channel->name = strdup(name)) == NULL) {
        free(channel);
        return nxr_fail(NIXL_E_NO_MEMORY, operation, peer, "", 0, "no memory for a channel");
    }
    channel->context = context;
    channel->role = role;
    channel->peer = peer;
    channel->slot_nbytes = slot_nbytes;
    channel->stride = (slot_nbytes + NXR_CHANNEL_LINE - 1) / NXR_CHANNEL_LINE * NXR_CHANNEL_LINE;
    channel->nslots = nslots;
    channel->n_lanes = peer == NIXL_ANY_RANK ? (unsigned)nxr_job.size : 1;
    status = role == NIXL_CHANNEL_CONSUMER ? open_consumer(channel, params)
                                           : nxr_channel_open_producer(channel);
    if (status != NIXL_OK) {
        status = nxr_fail_inner(status, operation, peer);
        nxr_attached_lanes_stop(channel);
        channel_let_go(channel);
        close_regions(channel, NIXL_FOREVER);
        channel_retire(channel);
        return status;
    }
    if (role == NIXL_CHANNEL_PRODUCER) {
        channel_list(channel);
    }
    atomic_store_explicit(&channel->magic, NXR_CHANNEL_OPEN, memory_order_release);
    *channel_p = channel;
    return NIXL_OK;
}

int nixl_channel_open(const char *name, int peer, enum nixl_channel_role role, size_t slot_nbytes,
                      size_t nslots, const struct nixl_mem_params *params,
                      struct nixl_channel **channel_p)
{
    return NXR_TRACED(NXR_TRACE_CHANNEL, "nixl_channel_open", peer, 0, 0,
                      call_channel_open(name, peer, role, slot_nbytes, nslots, params, channel_p));
}

/*
 * Before the regions are closed, together with all others. Deaths are still noted until then. The
 * memory of the other ends is unmapped here: a mapped segment would outlive the finalize.
 */
static void channels_quiesce(void)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&nxr_channels_lock);
    while ((link = nxr_list_pop(&nxr_channels_open)) != NULL) {
        nxr_list_append(&channels_left, link);
    }
    pthread_mutex_unlock(&nxr_channels_lock);
    if (nxr_memory_is_kept()) {
        return;
    }
    nxr_list_for_each (link, after, &channels_left) {
        channel_let_go(nxr_list_entry(link, struct nixl_channel, link));
    }
}

void nxr_channels_free(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&channels_left)) != NULL) {
        channel_drop(nxr_list_entry(link, struct nixl_channel, link));
        free(nxr_list_entry(link, struct nixl_channel, link));
    }
    nxr_handles_free(&channel_handles);
}

/* Does a channel of the list refer to the peer? nxr_channels_lock. */
static bool channels_use(struct nxr_list *channels, const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;
    bool is_used = false;

    nxr_list_for_each (link, after, channels) {
        const struct nixl_channel *channel = nxr_list_entry(link, struct nixl_channel, link);

        is_used |= channel->producer == peer || channel->consumer == peer ||
                   nxr_attached_lanes_use(channel, peer);
    }
    return is_used;
}

static bool channel_peer_is_used(struct nxr_peer *peer)
{
    bool is_used;

    pthread_mutex_lock(&nxr_channels_lock);
    is_used = channels_use(&nxr_channels_open, peer) || channels_use(&channels_left, peer);
    pthread_mutex_unlock(&nxr_channels_lock);
    return is_used;
}

static bool channel_is_for_any(const struct nixl_channel *channel)
{
    return channel->role == NIXL_CHANNEL_CONSUMER && channel->peer == NIXL_ANY_RANK &&
           !channel->attached.is_stopped;
}

/* A producer has ended: by death, unless this process has detached it. */
static void channel_note_end(const struct nxr_peer *peer, bool has_died)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&nxr_channels_lock);
    nxr_list_for_each (link, after, &nxr_channels_open) {
        struct nixl_channel *channel = nxr_list_entry(link, struct nixl_channel, link);

        if (!channel_is_for_any(channel)) {
            continue;
        }
        if (nxr_is_own_rank(peer->rank)) {
            nxr_lane_note_death(channel, &channel->lanes[peer->rank], peer->identity.incarnation);
        } else {
            nxr_attached_lanes_note_end(channel, peer, has_died);
        }
    }
    pthread_mutex_unlock(&nxr_channels_lock);
}

/* No death becomes known of a peer that this process has detached, or has never joined. */
static void channel_peer_ended(struct nxr_peer *peer)
{
    if (nxr_peer_is_attached(peer) && (peer->is_detached || !peer->is_joined)) {
        channel_note_end(peer, false);
    }
}

static void channel_death_known(const struct nxr_peer *peer)
{
    channel_note_end(peer, true);
}

const struct nxr_subsystem nxr_channel_subsystem = {
    .name = "channel",
    .register_handlers = nxr_attached_lanes_register,
    .serve = nxr_attached_lanes_serve,
    .peer_ended = channel_peer_ended,
    .death_known = channel_death_known,
    .peer_is_used = channel_peer_is_used,
    .quiesce = channels_quiesce,
    .stop = nxr_channels_free,
};
