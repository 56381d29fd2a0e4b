/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of regions between hosts: registering own memory for networks that read and write it
 * themselves, opening a peer's segment, and releasing it when its owner closes the region.
 *
 * Closing: the owner sends CLOSED to every peer that has the key. From then on the peer starts no
 * operation on the region, and it answers when its RMA operations under way have ended; the owner
 * waits for these answers, or for the peers' deaths, before it ends the registration. Lock:
 * nxr_net.lock, and job.lock for the state of a published region.
 */
#include "config.h"

#include "memory/memory.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "region/region.h"
#include "util/clock.h"
#include "util/log.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

/* The networks' registrations of an own region: made when the first remote rank asks for it. */
struct nxr_net_published {
    struct nxr_net_mem *mems[NXR_NET_MAX];
    unsigned char keys[NXR_NET_MAX][NXR_NET_KEY_NBYTES];
    size_t key_nbytes[NXR_NET_MAX];
};

/* An answer that the close of an own region waits for. */
struct net_closing {
    struct nxr_list link;
    int rank;
    uint32_t id;
    uint64_t generation;
};

/* ---- own regions ----------------------------------------------------------------------------- */

/*
 * The processor cannot place bulk in GPU memory that is not mapped; if the network takes such
 * memory, it needs a key to read and write it.
 */
static bool needs_key(struct net *net, const struct nxr_range *range)
{
    return (net_uses_rma(net) || (range != NULL && !range->is_mapped)) &&
           nxr_net_takes(net, range, true);
}

/* Register for a network, once. Is there a key? Caller holds job.lock and the lock. */
static bool register_for(struct net *net, struct nxr_published *published)
{
    const char *name = (published->whole != NULL ? published->whole : published)->name;
    struct nxr_net_published *here = published->net;
    size_t nbytes = NXR_NET_KEY_NBYTES;

    if ((published->key.marks & NXR_KEY_EXTENTS) != 0 ||
        !needs_key(net, nxr_publish_memory(published->key.id).range)) {
        return false;
    }
    if (here == NULL) {
        here = published->net = calloc(1, sizeof(*here));
    }
    if (here != NULL && here->mems[net->index] == NULL) {
        void *addr = (void *)(uintptr_t)published->key.addr;
        int status = net_module(net)->mem_register(
            addr, published->key.nbytes, nxr_net_local_kind(addr), published->key.access,
            &here->mems[net->index], here->keys[net->index], &nbytes);

        if (status != NIXL_OK) {
            here->mems[net->index] = NULL;
            nxr_info(NET, "%s cannot register region '%s': %s", net->module->name,
                     nxr_region_label(name),
                     name[0] != '\0' ? "its bytes go inside messages"
                                     : "each operation registers its part of it");
            return false;
        }
        here->key_nbytes[net->index] = nbytes;
    }
    return here != NULL;
}

/* Networks need registered memory for their own reads and writes: not anew for each. */
void nxr_net_own_local(struct nxr_published *published)
{
    net_lock();
    for (size_t i = 0; i < nxr_net.n_nets; i++) {
        if (nxr_net.nets[i].is_open) {
            register_for(&nxr_net.nets[i], published);
        }
    }
    net_unlock();
}

/* What this rank's network adds to the key. Caller holds job.lock and the lock. */
static void net_key_fill(struct nxr_remote_key *remote, struct net *net,
                         struct nxr_published *published)
{
    const struct nxr_range *range = nxr_publish_memory(published->key.id).range;
    bool has_key = register_for(net, published);

    remote->takes_bulk = range == NULL || (range->is_mapped && nxr_net_takes(net, range, true) &&
                                           (has_key || !net_uses_rma(net)));
    if (has_key && published->net->key_nbytes[net->index] > 0) {
        memcpy(remote->network, net->module->name, strlen(net->module->name) + 1);
        remote->nbytes = (uint32_t)published->net->key_nbytes[net->index];
        memcpy(remote->bytes, published->net->keys[net->index], remote->nbytes);
    }
}

void nxr_net_send_key(struct nxr_peer *peer, struct nxr_conn *conn, union nxr_wire_message *key,
                      struct nxr_published *published)
{
    (void)conn;
    net_lock();
    net_key_fill(&key->key.remote, net_peer_at(peer)->bulk, published);
    net_unlock();
    nxr_net_control(peer, key);
}

/*
 * Is it registered for any network? A peer may have the key for one that this rank does not use
 * after all.
 */
static bool is_registered(const struct nxr_published *published)
{
    bool is = false;

    for (size_t i = 0; i < nxr_net.n_nets && published->net != NULL; i++) {
        is |= published->net->mems[i] != NULL;
    }
    return is;
}

void nxr_net_revoking(struct nxr_peer *peer, const struct nxr_published *published)
{
    struct net_closing *closing;

    net_lock();
    if (!net_peer_at(peer)->is_dead && is_registered(published)) {
        closing = calloc(1, sizeof(*closing));
        if (closing != NULL) {
            closing->rank = peer->rank;
            closing->id = published->key.id;
            closing->generation = published->key.generation;
            nxr_list_append(&nxr_net.closings, &closing->link);
        } else {
            nxr_net_give_up(net_peer_at(peer)); /* the close cannot wait for its answer */
        }
    }
    net_unlock();
}

/* Forget the awaited answers that match; rank -1 and generation 0 match any. */
static void forget_closings(int rank, uint32_t id, uint64_t generation)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_net.closings) {
        struct net_closing *closing = nxr_list_entry(link, struct net_closing, link);

        if ((rank < 0 || closing->rank == rank) &&
            (generation == 0 || (closing->generation == generation && closing->id == id))) {
            nxr_list_remove(&closing->link);
            free(closing);
            nxr_net.must_wake = true;
        }
    }
}

void nxr_net_closings_end(int rank)
{
    forget_closings(rank, 0, 0);
}

void nxr_net_take_closed_ack(struct net_peer *np, const struct nxr_net_record *record)
{
    const struct nxr_net_region *closed = nxr_net_body(record);

    forget_closings(np->peer->rank, closed->id, closed->generation);
}

static bool is_let_go(void *arg)
{
    const struct nxr_published *published = arg;
    struct nxr_list *link, *after;
    bool is_awaited = false;

    net_lock();
    nxr_list_for_each (link, after, &nxr_net.closings) {
        const struct net_closing *closing = nxr_list_entry(link, struct net_closing, link);

        is_awaited |=
            closing->id == published->key.id && closing->generation == published->key.generation;
    }
    net_unlock();
    return !is_awaited;
}

int nxr_net_quiesce(const struct nxr_published *published, int64_t timeout_ns)
{
    if (published->net == NULL) {
        return NIXL_OK;
    }
    return nxr_wait_as(is_let_go, (void *)published, timeout_ns, nxr_describe_reason,
                       &(const struct nxr_reason){
                           .kind = NXR_WAIT_REGION_FREE, .peer = -1, .call = "nixl_region_close"});
}

void nxr_net_forget(struct nxr_published *published)
{
    if (published->net == NULL) {
        return;
    }
    net_lock();
    for (size_t i = 0; i < nxr_net.n_nets; i++) {
        if (published->net->mems[i] != NULL) {
            net_module(&nxr_net.nets[i])->mem_release(published->net->mems[i]);
        }
    }
    net_unlock();
    free(published->net);
    published->net = NULL;
}

/* ---- segments of peers ----------------------------------------------------------------------- */

/* Open the key for the network that carries the pair's bulk, if the owner sent one. */
static enum net_how open_key(struct net_peer *np, struct net_segment *segment,
                             const struct nxr_remote_key *remote)
{
    const struct nxr_net_attr *attr = np->bulk->attr;
    bool takes_bulk = remote->takes_bulk != 0;
    struct nxr_net_ep *ep;
    int status;

    segment->how_else = np->messages->attr->has_bulk && takes_bulk ? NET_BULK : NET_PIECES;
    if (attr->has_rma && strcmp(remote->network, np->bulk->module->name) == 0) {
        ep = nxr_net_ep_to(np, np->bulk);
        status = ep == NULL ? NIXL_E_TRANSPORT
                            : net_module(np->bulk)->key_open(ep, remote->bytes, remote->nbytes,
                                                             &segment->key);
        if (status == NIXL_OK) {
            return NET_RMA;
        }
        nxr_warn(NET,
                 "%s: the key of %u bytes that %s sent for its region cannot be opened: %s; the "
                 "region is reached by messages instead, which is slower",
                 np->bulk->name, (unsigned)remote->nbytes, nxr_identity_name(&np->identity),
                 ep == NULL ? "no endpoint to it" : nixl_strerror(status));
    }
    return attr->has_bulk && np->bulk == np->messages && takes_bulk ? NET_BULK : NET_PIECES;
}

static void net_key_tell_how(const struct nxr_segment *segment)
{
    static const char *const how[] = {
        [NET_PIECES] = "messages", [NET_BULK] = "bulk", [NET_RMA] = "reads and writes"};

    nxr_debug(NET, "region of %s, %s memory: by %s of %s%s", nxr_peer_name(segment->peer),
              nxr_memory_kind((enum nixl_mem_kind)segment->key.kind)->name, how[segment->net->how],
              net_peer_at(segment->peer)->bulk->module->name,
              nxr_net_needs_window(segment) ? ", through host memory" : "");
}

int nxr_net_segment_open(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote)
{
    struct net_peer *np = net_peer_at(segment->peer);
    struct net_segment *net = calloc(1, sizeof(*net));

    NXR_ASSERT(nxr_segment_may_be_opened(segment));
    (void)fd;
    if (net == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    net->segment = segment;
    segment->net = net;
    segment->inflight_index = UINT32_MAX; /* its owner enters it for us */
    segment->generation_now = &segment->generation_there;
    segment->get_at_once = 0;
    net_lock();
    net->how = open_key(np, net, remote);
    nxr_list_append(&np->segments, &net->link);
    segment->put_at_once = (uint32_t)np->put_max;
    atomic_store(&segment->generation_there, segment->key.generation);
    net_unlock();
    segment->method = net->how == NET_RMA ? NXR_METHOD_RMA : NXR_METHOD_MESSAGE;
    segment->is_in_pieces = net->how == NET_PIECES;
    net_key_tell_how(segment);
    return NIXL_OK;
}

void nxr_net_segment_close(struct nxr_segment *segment)
{
    struct net_peer *np = net_peer_at(segment->peer);
    struct net_segment *net = segment->net;

    NXR_ASSERT(nxr_segment_may_be_closed(segment));
    segment->net = NULL;
    net_lock();
    nxr_list_remove(&net->link);
    if (net->key != NULL && np->bulk->is_open) { /* else the module has closed it */
        net_module(np->bulk)->key_close(net->key);
    }
    net_unlock();
    free(net);
}

bool nxr_net_segment_is_busy(const struct nxr_segment *segment)
{
    bool is_busy;

    NXR_ASSERT(nxr_segment_may_be_closed(segment));
    net_lock();
    is_busy = segment->net->n_at_module > 0 ||
              nxr_net_moves_use(net_peer_at(segment->peer), segment->net);
    net_unlock();
    return is_busy;
}

static void send_closed_ack(struct net_peer *np, uint32_t id, uint64_t generation)
{
    struct nxr_net_region *ack = nxr_net_begin_answer(np, NXR_NET_CLOSED_ACK, sizeof(*ack));

    if (ack != NULL) {
        *ack = (struct nxr_net_region){generation, id, 0};
        nxr_net_push(np, false);
    }
}

static bool net_segment_is_of(const struct net_segment *net, uint32_t id, uint64_t generation)
{
    return net->segment->id == id && net->segment->key.generation == generation;
}

/* Does the owner wait for an answer about that region? Several handles may have segments of it. */
static bool is_ack_owed(const struct net_peer *np, uint32_t id, uint64_t generation)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &np->segments) {
        const struct net_segment *net = nxr_list_entry(link, struct net_segment, link);

        if (net->owes_ack && net_segment_is_of(net, id, generation)) {
            return true;
        }
    }
    return false;
}

void nxr_net_segment_left(struct net_peer *np, struct net_segment *net)
{
    if (net->owes_ack && net->n_at_module == 0) {
        net->owes_ack = false;
        if (!is_ack_owed(np, net->segment->id, net->segment->key.generation)) {
            send_closed_ack(np, net->segment->id, net->segment->key.generation);
        }
    }
}

void nxr_net_segment_shut(struct net_peer *np, uint32_t id, uint64_t generation)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &np->segments) {
        struct net_segment *net = nxr_list_entry(link, struct net_segment, link);

        if (net_segment_is_of(net, id, generation)) {
            atomic_store(&net->segment->generation_there, 0);
        }
    }
}

void nxr_net_revoked(struct nxr_peer *peer, uint32_t id, uint64_t generation)
{
    struct net_peer *np = net_peer_at(peer);
    struct nxr_list *link, *after;

    net_lock();
    nxr_net_segment_shut(np, id, generation);
    nxr_list_for_each (link, after, &np->segments) {
        struct net_segment *net = nxr_list_entry(link, struct net_segment, link);

        if (net_segment_is_of(net, id, generation)) {
            net->owes_ack = net->n_at_module > 0;
        }
    }
    if (!is_ack_owed(np, id, generation)) {
        send_closed_ack(np, id, generation);
    }
    net_unlock();
}
