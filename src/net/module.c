/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the networks' modules (util/module.h), and closing them. */
#include "config.h"

#include "net/clients.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "core/stats.h"
#include "core/subsystem.h"
#include "region/region.h"
#include "core/route.h"
#include "util/adapters.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net_state nxr_net;

static const char *const names[] = {"ucx", "ofi", "tcp"};
#define N_NAMES (sizeof(names) / sizeof(names[0]))
#define TCP     (N_NAMES - 1)
static struct nxr_net_core core;
static pthread_mutex_t opening_lock = PTHREAD_MUTEX_INITIALIZER; /* outside of job.lock */

size_t nxr_net_count(void)
{
    return N_NAMES;
}

const char *nxr_net_name(size_t index)
{
    return names[index];
}

/* ---- what modules call ----------------------------------------------------------------------- */

NIXL_PRINTF(2, 3)
static void log_for_module(enum nxr_net_log level, const char *format, ...)
{
    static const enum nixl_log_level levels[] = {
        [NXR_NET_ERROR] = NIXL_LOG_ERROR,
        [NXR_NET_WARN] = NIXL_LOG_WARN,
        [NXR_NET_INFO] = NIXL_LOG_INFO,
        [NXR_NET_DEBUG] = NIXL_LOG_DEBUG,
    };
    va_list arguments;

    if (levels[level] <= nxr_log_levels[NXR_LOG_NET]) {
        va_start(arguments, format);
        nxr_log_write_args(levels[level], NXR_LOG_NET, format, arguments);
        va_end(arguments);
    }
}

static void net_module_ended(struct nxr_net_op *op, int status)
{
    struct net_op *mine = nxr_list_entry(op, struct net_op, op);
    void (*ended)(struct net_op *, int) = mine->ended;

    NXR_ASSERT(nxr_spin_is_mine(&nxr_net.lock) && nxr_net.is_receiving);
    NXR_ASSERT(ended != NULL && status != NIXL_INPROGRESS && status != NIXL_E_AGAIN);
    mine->ended = NULL;
    ended(mine, status);
}

static void net_module_rail_open(const char *network, void *peer, const char *name,
                                 struct nxr_net_rail *rail_p)
{
    const struct net_peer *np = peer;
    struct nxr_stats_key key = {.op = NXR_STATS_RAIL_SEND,
                                .peer = np != NULL ? np->peer->rank : NXR_STATS_NO_PEER,
                                .transport = network,
                                .name = name};

    rail_p->sent = nxr_stats_named_take(&key);
    key.op = NXR_STATS_RAIL_RECEIVE;
    rail_p->received = nxr_stats_named_take(&key);
}

static void net_module_rail_close(struct nxr_net_rail *rail)
{
    nxr_stats_named_give(rail->sent);
    nxr_stats_named_give(rail->received);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Load a module and check that its library is available. */
static int net_module_load(struct net *net, const char *name)
{
    char symbol[64];

    snprintf(symbol, sizeof(symbol), "nxr_network_%s", name);
    net->module = nxr_module_load(name, symbol, &net->library, net->why, sizeof(net->why));
    if (net->module == NULL) {
        return NIXL_E_UNSUPPORTED;
    }
    if (net->module->abi != NXR_NETWORK_ABI) {
        nxr_module_is_of_other_version(name, net->why, sizeof(net->why));
        net->module = NULL;
        return NIXL_E_UNSUPPORTED;
    }
    return net->module->probe(net->why, sizeof(net->why));
}

static int net_module_open_network(struct net *net, struct nxr_full_card *card)
{
    unsigned char address[NXR_NET_ADDRESS_NBYTES];
    size_t nbytes = sizeof(address);
    int status = net->module->open(&core, net->why, sizeof(net->why));

    if (status != NIXL_OK) {
        return status;
    }
    net->attr = net->module->attr();
    status = net->module->address(address, &nbytes);
    if (status == NIXL_OK) {
        status = nxr_net_offer_add(card, net, address, nbytes);
    }
    if (status != NIXL_OK) {
        snprintf(net->why, sizeof(net->why), "its address does not fit into the card");
        net->module->close();
        return status;
    }
    net->is_open = true;
    return NIXL_OK;
}

static void unload(struct net *net)
{
    struct nxr_list *link;

    if (net->is_open) {
        net_lock();
        nxr_net.is_receiving = true;
        net_module(net)->close();
        nxr_net.is_receiving = false;
        net_unlock();
    }
    while ((link = nxr_list_pop(&net->free_outs)) != NULL) {
        free(nxr_list_entry(link, struct net_out, link));
    }
    /* The library stays mapped: it may have threads and exit handlers. */
    net->is_open = false;
    net->module = NULL;
}

/*
 * Opening UCX and libfabric takes up to half a second, all of it for their adapters. Without
 * adapters, and with one rail, a pair never prefers them to tcp (net_offer_is_better(): what is
 * worse at either end counts), so they are opened only if the user names them.
 */
static bool net_module_is_needless(const struct net nets[N_NAMES], const char *name)
{
    const struct net *tcp = &nets[TCP];
    bool is_listed = nxr_env.transports[0] != '\0' && nxr_env.transports[0] != '^';
    bool is_meant = strcmp(name, "ofi") == 0 && nxr_env.ofi_provider[0] != '\0';

    return tcp->is_open && tcp->attr->n_rails == 1 && !is_listed && !is_meant &&
           !nxr_adapters_exist("");
}

static void start_network(struct net nets[N_NAMES], unsigned index, struct nxr_full_card *card)
{
    struct net *net = &nets[index];
    const char *name = names[index];
    int status = NIXL_E_UNSUPPORTED;

    net->index = index;
    net->name = name;
    nxr_list_init(&net->free_outs);
    if (!nxr_route_is_allowed(name)) {
        snprintf(net->why, sizeof(net->why), "excluded by NIXLRUN_TRANSPORTS");
    } else if (net_module_is_needless(nets, name)) {
        snprintf(net->why, sizeof(net->why),
                 "not opened: tcp is faster over one interface without RDMA adapters; a list in "
                 "NIXLRUN_TRANSPORTS that names %s opens it",
                 name);
    } else {
        status = net_module_load(net, name);
    }
    if (status == NIXL_OK) {
        status = net_module_open_network(net, card);
    }
    if (status == NIXL_OK) {
        net->transport = nxr_net_transport(net->module->name, net->attr->latency_ns);
        nxr_debug(NET, "%s: %s, %s", name, net->attr->library, net->attr->devices);
    } else if (status == NIXL_E_INVALID_ARG) {
        nxr_warn(NET, "%s is not used: %s", name, net->why); /* a variable that the user has set */
    } else {
        nxr_debug(NET, "%s is not used: %s", name, net->why);
    }
}

/* Load and open all networks. Nothing uses them yet, so no lock is needed. Is any open? */
static bool net_module_open_all(struct net nets[N_NAMES], struct nxr_full_card *card)
{
    bool is_any_open = false;

    core = (struct nxr_net_core){
        .rank = nxr_job.rank,
        .size = nxr_job.size,
        .now_ns = &nxr_net.now,
        .received = nxr_net_received,
        .incoming = nxr_net_incoming,
        .landing = nxr_net_landing,
        .landed = nxr_net_landed,
        .ended = net_module_ended,
        .ep_failed = nxr_net_ep_failed,
        .log = log_for_module,
        .rail_open = net_module_rail_open,
        .rail_close = net_module_rail_close,
        .devices = nxr_env.net_devices,
        .provider = nxr_env.ofi_provider,
        .announce = nxr_env.announce,
        .ports = nxr_env.tcp_ports,
        .prefers_rma = strcmp(nxr_env.net_method, "rma") == 0,
        .wants_devices = strcmp(nxr_env.net_gpu, "never") != 0,
        .wants_copied = strcmp(nxr_env.net_gpu, "always") == 0,
    };
    for (unsigned i = N_NAMES; i-- > 0;) { /* tcp, the last, decides whether others are needed */
        start_network(nets, i, card);
        is_any_open |= nets[i].is_open;
    }
    card->head.flags |= (uint32_t)NXR_NET_VERSION << NXR_CARD_NET_SHIFT;
    return is_any_open;
}

/* The state of this folder, with no network. False: no memory. */
static bool net_module_begin(void)
{
    int n_numbers = (int)nxr_n_numbers();
    struct net_mark *must_lose = calloc((size_t)n_numbers, sizeof(*must_lose));

    nxr_net = (struct net_state){
        .n_nets = nxr_net_count(), .n_numbers = n_numbers, .must_lose = must_lose};
    nxr_list_init(&nxr_net.corked);
    nxr_list_init(&nxr_net.busy);
    nxr_list_init(&nxr_net.ended);
    nxr_list_init(&nxr_net.later);
    nxr_list_init(&nxr_net.holds);
    nxr_list_init(&nxr_net.posted);
    nxr_list_init(&nxr_net.closings);
    if (must_lose == NULL) {
        nxr_error(NET, "no memory for %d ranks; nothing can be sent between hosts", n_numbers);
    }
    return must_lose != NULL;
}

void nxr_net_start(struct nxr_full_card *card)
{
    if (net_module_begin()) {
        atomic_store(&nxr_net_is_open, net_module_open_all(nxr_net.nets, card));
    }
}

/* Use networks that were opened while the job ran; their addresses are in `card`. job.lock. */
static void net_module_use(const struct net nets[N_NAMES], const struct nxr_full_card *card,
                           bool is_any_open)
{
    struct nxr_full_card *own = &nxr_job.card;

    for (unsigned i = 0; i < N_NAMES; i++) {
        nxr_net.nets[i] = nets[i];
        nxr_list_init(&nxr_net.nets[i].free_outs);
    }
    memcpy(own->addresses, card->addresses, sizeof(own->addresses));
    own->head.nbytes = card->head.nbytes;
    own->head.flags = card->head.flags;
    atomic_store(&nxr_net_is_open, is_any_open);
    if (nxr_net_watch_start() != NIXL_OK) {
        nxr_error(NET, "nothing drives the networks while this process computes");
    }
}

bool nxr_net_has_begun(void)
{
    return nxr_net.must_lose != NULL;
}

/*
 * Opening takes up to a second, so it is done without job.lock, beside the state that others read.
 */
bool nxr_net_open(void)
{
    static struct net nets[N_NAMES]; /* opening_lock */
    struct nxr_full_card card;
    bool is_any_open, is_used, has_begun;

    pthread_mutex_lock(&opening_lock);
    pthread_mutex_lock(&nxr_job.lock);
    has_begun = nxr_net_has_begun();
    pthread_mutex_unlock(&nxr_job.lock);
    if (!has_begun) {
        memset(nets, 0, sizeof(nets));
        memset(&card, 0, sizeof(card));
        card.head = nxr_job.card.head;
        is_any_open = net_module_open_all(nets, &card);
        pthread_mutex_lock(&nxr_job.lock);
        is_used = net_module_begin();
        if (is_used) {
            net_module_use(nets, &card, is_any_open);
        }
        pthread_mutex_unlock(&nxr_job.lock);
        for (unsigned i = 0; i < N_NAMES && !is_used; i++) {
            unload(&nets[i]);
        }
    }
    pthread_mutex_unlock(&opening_lock);
    return atomic_load(&nxr_net_is_open);
}

/* One last round of the modules. */
static void net_module_last_round(void)
{
    net_lock();
    nxr_net.now = nxr_now_ns();
    nxr_net.is_receiving = true;
    for (unsigned i = 0; i < nxr_net.n_nets; i++) {
        if (nxr_net.nets[i].is_open) {
            net_module(&nxr_net.nets[i])->progress();
        }
    }
    nxr_net.is_receiving = false;
    net_unlock();
}

/* Complete the requests of ended moves; segments that waited for that then close their keys. */
static void net_module_settle(void)
{
    nxr_net_tell_ended();
    pthread_mutex_lock(&nxr_job.lock);
    nxr_region_tick(nxr_now_ns());
    pthread_mutex_unlock(&nxr_job.lock);
}

/*
 * After an endpoint is closed, its module ends the operations there in its next progress(), or at
 * the latest when the module itself is closed. Until then peers and segments are needed; keys are
 * needed until the module is closed.
 */
void nxr_net_stop(void)
{
    if (nxr_net.must_lose == NULL) {
        return;
    }
    atomic_store(&nxr_net_is_open, false);
    nxr_net.is_in_round = true; /* the service thread has ended: do not kick it */
    net_lock();
    nxr_net_peers_close();
    net_unlock();
    nxr_net_clients_stop();
    net_module_last_round();
    net_module_settle();
    for (unsigned i = 0; i < nxr_net.n_nets; i++) {
        unload(&nxr_net.nets[i]);
    }
    net_module_settle();
    nxr_net_closings_end(-1);
    nxr_net_later_drop_all();
    free(nxr_net.aligned);
    nxr_net.aligned = NULL;
    free(nxr_net.must_lose);
    nxr_net.must_lose = NULL;
}

const struct nxr_subsystem nxr_net_modules_subsystem = {
    .name = "net modules",
    .stop = nxr_net_stop,
};
