/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the rails of an endpoint, finding those that carry nothing any more, and trying these
 * again. The kernel knows first that a link is cut: nothing that was sent is acknowledged. A peer
 * that does not run looks different, since its host acknowledges. The core's lock.
 */
#include "config.h"

#include "rails.h"
#include "transports/stripe.h"
#include "transports/tcp_health.h"
#include "util/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROVE_NS  (2 * NXR_S)    /* for connecting and the hellos */
#define TICK_NS   (100 * NXR_MS) /* while something is under way */
#define SILENT_NS (900 * NXR_MS) /* without any acknowledgement of the other kernel */
#define ASK_S     1              /* ... which is asked this often while nothing else goes there */

static const char *tcp_rails_name(const struct nxr_tcp_rail *rail)
{
    return nxr_tcp.names[rail->pair.mine];
}

/* ---- making ---------------------------------------------------------------------------------- */

static void tcp_rails_took_too_long(struct nxr_tcp_timer *timer)
{
    nxr_tcp_conn_lost(nxr_list_entry(timer, struct nxr_tcp_conn, timer), "no answer");
}

/* A socket between the two addresses, by the interface of the own one. -1: none; see errno. */
static int open_socket(const struct nxr_tcp_rail *rail)
{
    const char *name = tcp_rails_name(rail);
    struct nxr_tcp_path from = nxr_tcp.address.paths[rail->pair.mine];
    struct sockaddr_storage own, other;
    socklen_t own_nbytes, nbytes;
    int fd;

    from.port = 0;
    own_nbytes = nxr_tcp_sockaddr(&from, &own);
    nbytes = nxr_tcp_sockaddr(&rail->ep->address.paths[rail->pair.theirs], &other);
    fd = socket(own.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* Two interfaces may be in one network. Before Linux 5.7 only root may choose. */
    (void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, (socklen_t)strlen(name));
    if (bind(fd, (struct sockaddr *)&own, own_nbytes) != 0 ||
        (connect(fd, (struct sockaddr *)&other, nbytes) != 0 && errno != EINPROGRESS)) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void pause_rail(struct nxr_tcp_rail *rail)
{
    rail->pause_ns = nxr_rail_longer_pause(rail->pause_ns);
    rail->try_at = nxr_now_ns() + rail->pause_ns;
}

static void tcp_rails_make(struct nxr_tcp_rail *rail)
{
    int fd = open_socket(rail);
    struct nxr_tcp_conn *conn = fd >= 0 ? nxr_tcp_conn_new(fd, NXR_TCP_CONNECTING) : NULL;

    if (conn == NULL) {
        pause_rail(rail);
        return;
    }
    conn->is_own = conn->is_rail = true;
    conn->rank = rail->ep->address.rank;
    conn->answer = rail->ep->address.answer;
    conn->ep = rail->ep;
    conn->carries = rail;
    conn->timer.rings = tcp_rails_took_too_long;
    rail->conn = conn;
    nxr_tcp_timer_set(&conn->timer, PROVE_NS);
}

static void tcp_rails_use_proven(struct nxr_tcp_rail *rail)
{
    rail->is_open = true;
    nxr_tcp_limit_unsent(rail->conn, true);
    nxr_tcp.core->log(NXR_NET_INFO,
                      rail->was_open ? "tcp: %s answers again; used again"
                                     : "tcp: %s is joined as a rail",
                      tcp_rails_name(rail));
    rail->was_open = true;
    nxr_tcp_choice_renew(&rail->ep->rails->choice);
    nxr_tcp_rail_feed(rail);
}

/*
 * Look at the rails again: while something is under way, also on trial, or when one is to be tried
 * again.
 */
static void tcp_rails_watch(struct nxr_tcp_rails *rails, bool is_busy)
{
    int64_t now = nxr_now_ns(), at = is_busy ? now + TICK_NS : INT64_MAX;

    for (unsigned i = 1; i < rails->n; i++) {
        const struct nxr_tcp_rail *rail = &rails->at[i];

        if (rail->was_open && rail->conn == NULL && rail->try_at < at) {
            at = rail->try_at;
        }
        if (rail->is_on_trial && now + TICK_NS < at) {
            at = now + TICK_NS;
        }
    }
    if (at != INT64_MAX && (nxr_list_is_empty(&rails->timer.link) || at < rails->timer.at)) {
        nxr_tcp_timer_set(&rails->timer, at > now ? at - now : 0);
    }
}

static void tcp_rails_proven(struct nxr_tcp_rail *rail)
{
    bool must_try = rail->was_open && !rail->is_on_trial;

    rail->is_on_trial = false;
    rail->is_asking = false;
    rail->heard_nbytes = 0;
    if (must_try && nxr_tcp_rail_begin_trial(rail)) {
        tcp_rails_watch(rail->ep->rails, true);
    } else {
        tcp_rails_use_proven(rail);
    }
}

static void tcp_rails_lost(struct nxr_tcp_rail *rail, const char *why)
{
    struct nxr_net_ep *ep = rail->ep;
    struct nxr_tcp_conn *conn = rail->conn;

    if (rail->is_open && rail->n_unheard == 0) { /* as by a peer that leaves */
        nxr_tcp.core->log(NXR_NET_INFO, "tcp: a connection by %s has ended: %s",
                          tcp_rails_name(rail), why);
    } else if (rail->is_open) {
        nxr_rail_failed(&conn->rail);
        nxr_tcp.core->log(NXR_NET_INFO, "tcp: a connection by %s has failed: %s",
                          tcp_rails_name(rail), why);
    }
    rail->conn = NULL;
    rail->is_open = rail->is_on_trial = false;
    nxr_tcp_conn_abort(conn);
    nxr_tcp_pieces_return(rail);
    nxr_tcp_choice_renew(&ep->rails->choice);
    pause_rail(rail);
    tcp_rails_watch(ep->rails, !nxr_list_is_empty(&ep->rails->stripes));
    nxr_tcp_rails_feed(ep);
    if (ep->conn != NULL && nxr_tcp_rail_has_more(ep)) {
        nxr_tcp_conn_wants_room(ep->conn, true);
    }
}

/* Make those whose pause is over. */
static void make_rails(struct nxr_tcp_rails *rails)
{
    int64_t now = nxr_now_ns();

    for (unsigned i = 1; i < rails->n; i++) {
        if (rails->at[i].conn == NULL && now >= rails->at[i].try_at) {
            tcp_rails_make(&rails->at[i]);
        }
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

/*
 * All that was sent is acknowledged, but its pieces have no ack: the peer is slow or stopped, and
 * only a question to its host shows a link that is cut meanwhile.
 */
static void tcp_rails_ask_host(const struct nxr_tcp_rail *rail)
{
    const int seconds = ASK_S;

    (void)setsockopt(rail->conn->watch.fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    (void)setsockopt(rail->conn->watch.fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
}

/* Is something on its way there that the other kernel does not acknowledge for long? */
static bool tcp_rails_is_silent(struct nxr_tcp_rail *rail, int64_t now)
{
    struct nxr_tcp_acked acked;

    if (!nxr_tcp_acked(rail->conn->watch.fd, &acked)) {
        return false;
    }
    if (!acked.is_awaited && !rail->is_asking) {
        rail->is_asking = true;
        tcp_rails_ask_host(rail);
    }
    if (acked.nbytes != rail->heard_nbytes || !acked.is_awaited) {
        rail->heard_nbytes = acked.nbytes;
        rail->heard_at = now;
    }
    return now - rail->heard_at >= SILENT_NS + 4 * acked.round_trip_us * NXR_US;
}

static void tcp_rails_look_at(struct nxr_tcp_rail *rail, int64_t now)
{
    if (rail->n_unheard > 0 && tcp_rails_is_silent(rail, now)) {
        tcp_rails_lost(rail, "what was sent is not acknowledged");
    }
}

static void tcp_rails_look(struct nxr_tcp_timer *timer)
{
    struct nxr_tcp_rails *rails = nxr_list_entry(timer, struct nxr_tcp_rails, timer);
    int64_t now = nxr_now_ns();

    for (unsigned i = 1; i < rails->n; i++) {
        tcp_rails_look_at(&rails->at[i], now);
    }
    make_rails(rails);
    tcp_rails_watch(rails, !nxr_list_is_empty(&rails->stripes));
}

/* ---- the rails of an endpoint ---------------------------------------------------------------- */

/* The pairs of addresses beside the one that the ordered stream uses. */
static void choose_pairs(struct nxr_net_ep *ep)
{
    struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS];
    unsigned n = nxr_tcp_pairs(&nxr_tcp.address, &ep->address, pairs);
    int mine = nxr_tcp_own_path(ep->conn->watch.fd);
    int theirs = nxr_tcp_other_path(ep->conn->watch.fd, &ep->address);
    struct nxr_tcp_rails *rails = ep->rails;

    rails->n = 1;
    for (unsigned i = 0; i < n; i++) {
        struct nxr_tcp_rail *rail = &rails->at[rails->n];

        rail->pair = pairs[i];
        if (pairs[i].theirs != theirs && mine >= 0 &&
            strcmp(tcp_rails_name(rail), nxr_tcp.names[mine]) != 0) {
            rails->n++;
        }
    }
}

static bool tcp_rails_open(struct nxr_net_ep *ep)
{
    ep->rails = calloc(1, sizeof(*ep->rails));
    if (ep->rails == NULL) {
        return false;
    }
    nxr_list_init(&ep->rails->stripes);
    nxr_list_init(&ep->rails->timer.link);
    ep->rails->timer.rings = tcp_rails_look;
    choose_pairs(ep);
    for (unsigned i = 0; i < NXR_TCP_MAX_RAILS; i++) {
        ep->rails->at[i].ep = ep;
        ep->rails->at[i].index = i;
        ep->rails->at[i].proven = tcp_rails_proven;
        ep->rails->at[i].lost = tcp_rails_lost;
    }
    return true;
}

void nxr_tcp_rails_use(struct nxr_net_ep *ep)
{
    if (ep->conn == NULL || ep->is_closing || (ep->rails == NULL && !tcp_rails_open(ep)) ||
        ep->rails->n < 2) {
        return;
    }
    make_rails(ep->rails);
    tcp_rails_watch(ep->rails, true);
}
