/* SPDX-License-Identifier: Apache-2.0 */
/* The made-up job and its network. No lock of its own: one thread. */
#include "fake_net.h"

#include "region/region.h"
#include "util/clock.h"
#include "util/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

struct fake fake;

static struct nxr_ring_rx rings[FAKE_SIZE]; /* notifications of each rank */

struct nxr_net_ep {
    struct net_peer *np;
    unsigned net;
};
static struct nxr_net_ep eps[2][FAKE_SIZE];

/* ---- the network ----------------------------------------------------------------------------- */

/* Accepted operations hang in fake.ops by their scratch, behind their endpoint. */
struct fake_op {
    struct nxr_list link;
    struct nxr_net_ep *ep;
    intptr_t is_closed;
};
_Static_assert(sizeof(struct fake_op) <= sizeof(struct nxr_net_op), "it fits");

static void end_op(struct nxr_list *link, int status)
{
    struct nxr_net_op *op = (struct nxr_net_op *)(void *)nxr_list_entry(link, struct fake_op, link);
    struct net_op *mine = nxr_list_entry(op, struct net_op, op);

    nxr_list_remove(link);
    mine->ended(mine, status);
}

static int accept_op(struct nxr_net_ep *ep, struct nxr_net_op *op)
{
    struct fake_op *mine = (struct fake_op *)(void *)op;

    if (fake.answer == NIXL_INPROGRESS) {
        mine->ep = ep;
        mine->is_closed = 0;
        nxr_list_append(&fake.ops, &mine->link);
    }
    return fake.answer;
}

static int fake_reach(const void *address, size_t nbytes, unsigned *n_rails_p, char *why,
                      size_t why_nbytes)
{
    (void)address;
    (void)nbytes;
    *n_rails_p = 1;
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int open_ep(unsigned net, void *peer, struct nxr_net_ep **ep_p)
{
    struct net_peer *np = peer;

    *ep_p = &eps[net][np->peer->rank];
    **ep_p = (struct nxr_net_ep){np, net};
    fake.n_open_eps++;
    return NIXL_OK;
}

static int fake_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p)
{
    (void)address;
    (void)nbytes;
    return open_ep(0, peer, ep_p);
}

static int second_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p)
{
    (void)address;
    (void)nbytes;
    return open_ep(1, peer, ep_p);
}

/* As the modules do it: what has not ended is ended in the next round, or when all is closed. */
static void fake_ep_close(struct nxr_net_ep *ep, bool is_orderly)
{
    struct nxr_list *link, *after;

    (void)is_orderly;
    fake.n_open_eps--;
    nxr_list_for_each (link, after, &fake.ops) {
        struct fake_op *op = nxr_list_entry(link, struct fake_op, link);

        op->is_closed |= op->ep == ep;
    }
}

static int fake_ep_reach(struct nxr_net_ep *ep)
{
    fake.n_reached[ep->net]++;
    return fake.reach[ep->net];
}

static bool fake_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes)
{
    (void)ep;
    snprintf(line, line_nbytes, "%s", fake.known != NULL ? fake.known : "");
    return fake.was_connected;
}

static bool fake_ep_runs(struct nxr_net_ep *ep, int64_t within_ns)
{
    (void)ep;
    return fake.ran_ago_ns != 0 && fake.ran_ago_ns < within_ns;
}

static int fake_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                     size_t bulk_nbytes, struct nxr_net_op *op)
{
    struct fake_sent *sent;

    fake_must(fake.reach[ep->net] == NIXL_OK);
    fake_must(nbytes <= (bulk_nbytes > 0
                             ? NXR_NET_HEADER_NBYTES
                             : (ep->net == 0 ? &fake.attr : &fake.second_attr)->message_nbytes));
    if (fake.answer != NIXL_OK && fake.answer != NIXL_INPROGRESS) {
        return fake.answer;
    }
    sent = malloc(sizeof(*sent) + nbytes);
    fake_must(sent != NULL);
    *sent = (struct fake_sent){.rank = ep->np->peer->rank,
                               .net = ep->net,
                               .bulk = bulk,
                               .bulk_nbytes = bulk_nbytes,
                               .nbytes = nbytes};
    memcpy(sent->bytes, bytes, nbytes);
    for (size_t i = 0; i < bulk_nbytes; i++) {
        fake.sum += ((const unsigned char *)bulk)[i]; /* it must be ours to read */
    }
    nxr_list_append(&fake.sent, &sent->link);
    if (fake.n_room > 0 && --fake.n_room == 0) {
        fake.answer = NIXL_E_AGAIN;
        return NIXL_OK;
    }
    return accept_op(ep, op);
}

static int fake_write(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset,
                      const void *src, size_t nbytes, struct nxr_net_op *op)
{
    fake_must(key != NULL && src != NULL && offset + nbytes <= FAKE_SEGMENT_NBYTES);
    fake.moved = op->memory_kind;
    fake.moved_pci = op->pci;
    fake.n_moved += fake.answer == NIXL_OK || fake.answer == NIXL_INPROGRESS;
    return accept_op(ep, op);
}

static int fake_read(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                     size_t nbytes, struct nxr_net_op *op)
{
    return fake_write(ep, key, offset, dst, nbytes, op);
}

static int fake_mem_register(void *addr, size_t nbytes, enum nixl_mem_kind kind, uint32_t access,
                             struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p)
{
    fake_must(addr != NULL && nbytes > 0);
    fake.n_shown++;
    fake.shown = kind;
    fake.shown_access = access;
    if (fake.mem_answer == NIXL_OK) {
        *mem_p = (struct nxr_net_mem *)(void *)&fake;
        memcpy(key, "key", fake.key_nbytes);
        *key_nbytes_p = fake.key_nbytes;
    }
    return fake.mem_answer;
}

static void fake_mem_release(struct nxr_net_mem *mem)
{
    fake_must(mem == (struct nxr_net_mem *)(void *)&fake);
}

static int fake_key_open(struct nxr_net_ep *ep, const void *key, size_t nbytes,
                         struct nxr_net_key **key_p)
{
    fake_must(key != NULL && nbytes > 0);
    *key_p = (struct nxr_net_key *)(void *)ep;
    fake.n_open_keys++;
    return NIXL_OK;
}

static void fake_key_close(struct nxr_net_key *key)
{
    fake_must(key != NULL);
    fake.n_open_keys--;
}

static int fake_progress(void)
{
    struct nxr_list *link, *after;
    int n = 0;

    fake.n_driven++;
    nxr_list_for_each (link, after, &fake.ops) {
        if (nxr_list_entry(link, struct fake_op, link)->is_closed != 0) {
            end_op(link, NIXL_E_CANCELED);
            n++;
        }
    }
    while ((link = nxr_list_pop(&fake.coming)) != NULL) {
        struct fake_message *coming = nxr_list_entry(link, struct fake_message, link);

        memmove(coming->bytes + fake.offset, coming->bytes, coming->nbytes);
        nxr_net_received(coming->bytes + fake.offset, coming->nbytes);
        free(coming);
        n++;
    }
    return n;
}

static void land(struct fake_landing *landing, int status)
{
    nxr_list_remove(&landing->link);
    nxr_net_landed(landing->cookie, status);
    free(landing);
}

static void fake_close(void)
{
    while (!nxr_list_is_empty(&fake.ops)) {
        end_op(fake.ops.next, NIXL_E_CANCELED);
    }
    while (!nxr_list_is_empty(&fake.landings)) {
        land(nxr_list_entry(fake.landings.next, struct fake_landing, link), NIXL_E_TRANSPORT);
    }
}

static int fake_arm(void)
{
    return NIXL_OK;
}

static int fake_event_fd(void)
{
    static int fd = -1;

    fake_must(nxr_spin_is_taken(&nxr_net.lock)); /* as each call into a module */
    fd = fd < 0 ? eventfd(0, EFD_CLOEXEC) : fd;
    return fd;
}

static struct nxr_network networks[2] = {{
    .abi = NXR_NETWORK_ABI,
    .name = "ucx",
    .close = fake_close,
    .reach = fake_reach,
    .ep_open = fake_ep_open,
    .ep_close = fake_ep_close,
    .ep_reach = fake_ep_reach,
    .ep_state = fake_ep_state,
    .ep_runs = fake_ep_runs,
    .send = fake_send,
    .mem_register = fake_mem_register,
    .mem_release = fake_mem_release,
    .key_open = fake_key_open,
    .key_close = fake_key_close,
    .write = fake_write,
    .read = fake_read,
    .progress = fake_progress,
    .arm = fake_arm,
    .event_fd = fake_event_fd,
}};

/* ---- the job --------------------------------------------------------------------------------- */

static void open_network(unsigned index, const struct nxr_net_attr *attr)
{
    struct net *net = &nxr_net.nets[index];

    *net = (struct net){.name = networks[index].name,
                        .module = &networks[index],
                        .attr = attr,
                        .index = index,
                        .is_open = true};
    net->transport = nxr_net_transport(networks[index].name, attr->latency_ns);
    nxr_list_init(&net->free_outs);
}

static void open_networks(void)
{
    nxr_net = (struct net_state){.n_nets = 1,
                                 .n_numbers = FAKE_SIZE,
                                 .must_lose = calloc(FAKE_SIZE, sizeof(*nxr_net.must_lose))};
    fake_must(nxr_net.must_lose != NULL);
    nxr_list_init(&nxr_net.corked);
    nxr_list_init(&nxr_net.busy);
    nxr_list_init(&nxr_net.ended);
    nxr_list_init(&nxr_net.later);
    nxr_list_init(&nxr_net.holds);
    nxr_list_init(&nxr_net.posted);
    nxr_list_init(&nxr_net.closings);
    open_network(0, &fake.attr);
    atomic_store(&nxr_net_is_open, true);
}

void fake_start(void)
{
    fake_job_start(sizeof(struct nxr_net_offer) + 8); /* an offer that expects nothing */
    fake.attr = (struct nxr_net_attr){
        .message_nbytes = FAKE_MESSAGE_NBYTES,
        .has_bulk = true,
        .has_rma = true,
        .put_message_nbytes = FAKE_SMALL,
        .get_message_nbytes = FAKE_SMALL,
        .latency_ns = 1000,
        .bandwidth_mbps = 1000,
        .n_rails = 1,
    };
    fake.answer = fake.mem_answer = fake.reach[0] = fake.reach[1] = NIXL_OK;
    fake.n_reached[0] = fake.n_reached[1] = 0;
    fake.key_nbytes = 4;
    fake.n_room = 0;
    fake.n_shown = 0;
    fake.shown = fake.moved = NIXL_MEM_NONE;
    fake.offset = 0;
    fake.now = 0;
    fake.n_open_eps = fake.n_open_keys = fake.n_moved = 0;
    nxr_list_init(&fake.sent);
    nxr_list_init(&fake.ops);
    nxr_list_init(&fake.coming);
    nxr_list_init(&fake.landings);
    for (int rank = 0; rank < FAKE_SIZE; rank++) {
        rings[rank] = (struct nxr_ring_rx){.slots = NULL}; /* there are no peers yet */
    }
    open_networks();
}

void fake_start_two(void)
{
    fake_start();
    networks[1] = networks[0];
    networks[1].name = "ofi";
    networks[1].ep_open = second_ep_open;
    fake.second_attr = fake.attr;
    open_network(1, &fake.second_attr);
    nxr_net.n_nets = 2;
}

void fake_fail(int rank, unsigned net)
{
    net_lock();
    nxr_net_ep_failed(net_peer_of(rank), &eps[net][rank], "made up");
    net_unlock();
}

void fake_stop(void)
{
    nxr_net_stop();
    fake_forget_sent();
    fake_must(nxr_list_is_empty(&fake.ops) && nxr_list_is_empty(&fake.landings));
    fake_job_stop();
}

struct net_peer *fake_link(int rank)
{
    struct nxr_peer *peer;
    char why[256];

    pthread_mutex_lock(&nxr_job.lock);
    peer = nxr_peer_get_locked(rank);
    fake_must(peer != NULL);
    nxr_peer_set_card(peer, &fake_card(rank)->head);
    fake_must(nxr_net_add_peer(peer, fake_card(rank), why, sizeof(why)) == NIXL_OK);
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    pthread_mutex_unlock(&nxr_job.lock);
    return net_peer_at(peer);
}

void fake_key_coming(int rank, bool is_rma)
{
    struct nxr_peer *peer = nxr_job.peers[rank];
    union nxr_wire_message message;

    fake_must(!nxr_list_is_empty(nxr_region_asks(peer)));
    nxr_wire_init(&message, NXR_WIRE_KEY);
    message.header.from.rank = rank;
    message.key.ask =
        nxr_list_entry(nxr_region_asks(peer)->next, struct nxr_region_segment, ask_link)->ask;
    message.key.key = (struct nxr_key){
        .generation = 1, .nbytes = FAKE_SEGMENT_NBYTES, .addr = 4096, .kind = NIXL_MEM_HOST};
    message.key.remote.takes_bulk = 1;
    if (is_rma) {
        strcpy(message.key.remote.network, "ucx");
        message.key.remote.nbytes = 4;
    }
    fake_control_coming(rank, &message);
}

struct nixl_region *fake_region(int rank, bool is_rma)
{
    struct nixl_region *region;
    struct nxr_region_segment *segment;

    fake_must(nixl_region_open("theirs", &region) == NIXL_OK);
    pthread_mutex_lock(&nxr_job.lock);
    fake_must(nxr_region_want_segment(region, rank, false, &segment) == NIXL_OK);
    pthread_mutex_unlock(&nxr_job.lock);
    fake_key_coming(rank, is_rma);
    fake_round();
    fake_must(nxr_region_segment(region, rank) != NULL);
    return region;
}

/* ---- what comes ------------------------------------------------------------------------------ */

void fake_round(void)
{
    nxr_net_poll(fake.now != 0 ? fake.now : nxr_now_ns());
}

void fake_greet(int rank)
{
    fake_coming(rank, NXR_NET_HELLO, fake_card(rank), fake_card(rank)->head.nbytes, NULL, 0);
}

void fake_landing(size_t nbytes)
{
    fake_must(!nxr_list_is_empty(&fake.landings));
    net_lock();
    nxr_net_landing(nxr_list_entry(fake.landings.next, struct fake_landing, link)->cookie, nbytes);
    net_unlock();
}

void fake_land(unsigned index, int status)
{
    struct nxr_list *link = fake.landings.next;

    for (unsigned i = 0; i < index; i++) {
        link = link->next;
    }
    fake_must(link != &fake.landings);
    net_lock();
    land(nxr_list_entry(link, struct fake_landing, link), status);
    net_unlock();
    fake_round();
}

uint64_t fake_next_tag(int rank)
{
    static char payload[NIXL_NOTE_MAX];
    const struct nxr_peer *peer = nxr_peer_find(rank);
    struct nxr_ring_message message;

    if (peer != NULL && rings[rank].slots == NULL && net_peer_at(peer) != NULL) {
        rings[rank] = (struct nxr_ring_rx){
            .slots = peer->in.ring, .n_slots = NXR_RING_SLOTS, .credit = peer->in.credit};
        if (peer->wide_ring != NULL) {
            nxr_ring_widen(&rings[rank], peer->wide_ring);
        }
    }
    if (rings[rank].slots == NULL || !nxr_ring_peek(&rings[rank], &message)) {
        return 0;
    }
    nxr_ring_pop(&rings[rank], &message, payload);
    fake.was_late = message.is_late;
    return message.tag;
}

/* ---- what is under way ----------------------------------------------------------------------- */

void fake_end_op(unsigned index, int status)
{
    struct nxr_list *link = fake.ops.next;

    for (unsigned i = 0; i < index; i++) {
        link = link->next;
    }
    fake_must(link != &fake.ops);
    net_lock();
    end_op(link, status);
    net_unlock();
    fake_round();
}

void fake_end_ops(int status)
{
    net_lock();
    while (!nxr_list_is_empty(&fake.ops)) {
        end_op(fake.ops.next, status);
    }
    net_unlock();
    fake_round();
}

unsigned fake_n_ops(void)
{
    return fake_length(&fake.ops);
}
