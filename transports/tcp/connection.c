/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: its hellos, and its end. Nothing from another process reaches the core before both
 * sides have shown that they know each other's card. A closed connection stays in memory until the
 * end of the round, since events for it may be pending. The core's lock.
 */
#include "config.h"

#include "rails.h"
#include "transports/reason.h"
#include "transports/tcp_health.h"
#include "util/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Live peers are watched by the core; this finds connections to dead hosts that nothing uses. */
#define KEEP_IDLE_S  60
#define KEEP_EVERY_S 10
#define KEEP_TIMES   6

#define HEAR_READS 64 /* reads from another connection before a peer is given up */

#define ANSWER_NS (5 * NXR_S) /* if there is another path; the peer may be stopped */

/* A connection that is ready twice within this many events is polled without asking epoll. */
#define HOT_EVENTS 4

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

static void tcp_connection_is_ready(struct nxr_tcp_watch *watch, uint32_t events);

struct nxr_tcp_conn *nxr_tcp_conn_new(int fd, enum nxr_tcp_stage stage)
{
    struct nxr_tcp_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        close(fd);
        return NULL;
    }
    conn->watch = (struct nxr_tcp_watch){tcp_connection_is_ready, fd};
    conn->stage = stage;
    conn->read_nbytes = NXR_TCP_FIRST_NBYTES;
    conn->held_nbytes = sizeof(struct nxr_tcp_hello);
    conn->held = malloc(conn->held_nbytes);
    nxr_list_init(&conn->timer.link);
    nxr_list_init(&conn->process_link);
    nxr_list_init(&conn->arrivals);
    if (conn->held == NULL ||
        nxr_tcp_watch(&conn->watch, stage == NXR_TCP_CONNECTING ? EPOLLOUT : EPOLLIN) != NIXL_OK) {
        free(conn->held);
        free(conn);
        close(fd);
        return NULL;
    }
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_TIMES);
    nxr_list_append(&nxr_tcp.conns, &conn->link);
    return conn;
}

void nxr_tcp_conn_count(struct nxr_tcp_conn *conn)
{
    const struct nxr_net_ep *ep = conn->process->ep;
    char name[IF_NAMESIZE];

    nxr_tcp_name_of_source(conn->watch.fd, name, sizeof(name));
    nxr_rail_open(nxr_tcp.core, "tcp", ep != NULL ? ep->peer : NULL, name, &conn->rail);
}

/* ---- the end --------------------------------------------------------------------------------- */

void nxr_tcp_conn_close(struct nxr_tcp_conn *conn)
{
    bool was_stranger = conn->stage == NXR_TCP_WANTS_HELLO;

    if (conn->stage == NXR_TCP_DEAD) {
        return;
    }
    conn->stage = NXR_TCP_DEAD;
    nxr_tcp_cool(conn);
    nxr_tcp_conn_wants_room(conn, false);
    nxr_rail_close(nxr_tcp.core, &conn->rail);
    nxr_tcp_timer_end(&conn->timer);
    nxr_list_remove(&conn->process_link);
    nxr_tcp_process_let_go(conn->process);
    conn->process = NULL;
    nxr_list_remove(&conn->link);
    nxr_list_append(&nxr_tcp.dead, &conn->link);
    nxr_tcp_unwatch(&conn->watch); /* a forked child may keep the socket open */
    close(conn->watch.fd);
    conn->watch.fd = -1;
    nxr_tcp.n_strangers -= was_stranger;
}

void nxr_tcp_conn_abort(struct nxr_tcp_conn *conn)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(conn->watch.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    conn->carries = NULL;
    conn->ep = NULL;
    nxr_tcp_conn_close(conn);
}

void nxr_tcp_conns_free(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&nxr_tcp.dead)) != NULL) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, link);

        nxr_tcp_bulk_end(conn);
        free(conn->acks);
        free(conn->held);
        free(conn);
    }
}

/* A connection attempt of ours has failed. */
static void attempt_failed(struct nxr_tcp_conn *conn, const char *why, bool is_refusal)
{
    struct nxr_net_ep *ep = conn->ep;

    if (conn->carries != NULL) {
        conn->carries->lost(conn->carries, why);
        return;
    }
    nxr_tcp_conn_close(conn);
    ep->trying = NULL;
    nxr_tcp_connect_failed(ep, why, is_refusal);
}

/*
 * Read what the peer has sent on its other connections before it closed this one: its good-bye may
 * be there. If it keeps sending, it has said none.
 */
static void hear_out(uint64_t answer)
{
    struct nxr_tcp_process *process = nxr_tcp_process_find(answer);
    struct nxr_list *link = process != NULL ? process->conns.next : NULL;

    while (process != NULL && link != &process->conns) {
        struct nxr_tcp_conn *conn = nxr_list_entry(link, struct nxr_tcp_conn, process_link);

        link = link->next;
        if (conn->is_heard_out) {
            continue;
        }
        conn->is_heard_out = true;
        for (int i = 0; i < HEAR_READS && nxr_tcp_read(conn) > 0; i++) {
        }
        process = nxr_tcp_process_find(answer); /* the read may have closed any of them */
        link = process != NULL ? process->conns.next : NULL;
    }
}

/*
 * A peer that has closed one of its connections is done with all of them, except for those of an
 * endpoint that was closed here: a later one may lead to the same process.
 */
static void open_conn_lost(struct nxr_tcp_conn *conn, const char *why)
{
    struct nxr_net_ep *ep = conn->ep;
    char text[sizeof(ep->why)], health[160];

    if (ep == NULL && !conn->drops) {
        ep = conn->process->ep;
    }
    (void)nxr_tcp_health(conn->watch.fd, health, sizeof(health));
    nxr_tcp_conn_close(conn);
    if (!conn->drops) {
        hear_out(conn->answer);
    }
    if (ep != NULL) {
        snprintf(text, sizeof(text), "the connection from %s was lost: %s%s%s", conn->ends, why,
                 health[0] != '\0' ? "; " : "", health);
        nxr_tcp_ep_fail(ep, text);
    }
}

void nxr_tcp_conn_lost(struct nxr_tcp_conn *conn, const char *why)
{
    if (conn->stage == NXR_TCP_DEAD) {
        return;
    }
    if (conn->stage == NXR_TCP_OPEN && conn->is_rail) {
        if (conn->carries != NULL) {
            conn->carries->lost(conn->carries, why);
        } else {
            nxr_tcp_conn_close(conn);
        }
    } else if (conn->stage == NXR_TCP_OPEN) {
        open_conn_lost(conn, why);
    } else if (conn->is_own) {
        attempt_failed(conn, why, false);
    } else {
        if (conn->stage == NXR_TCP_WANTS_HELLO) {
            nxr_tcp_tell_stranger(conn->watch.fd, why);
        }
        nxr_tcp_conn_close(conn);
    }
}

/* ---- hellos ---------------------------------------------------------------------------------- */

static bool say(struct nxr_tcp_conn *conn, enum nxr_tcp_hello_type type)
{
    const struct nxr_tcp_hello hello = {
        .magic = NXR_TCP_HELLO_MAGIC,
        .version = NXR_TCP_LAYOUT_VERSION,
        .type = (uint16_t)type,
        .from = (uint32_t)nxr_tcp.core->rank,
        .to = conn->rank,
        .connect_secret = type == NXR_TCP_ANSWER ? 0 : conn->ep->address.connect_secret,
        .answer = nxr_tcp.address.answer,
    };

    return send(conn->watch.fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello);
}

static void was_made(struct nxr_tcp_conn *conn)
{
    conn->stage = NXR_TCP_WANTS_ANSWER;
    if (conn->ep->n_paths > 1 || conn->is_rail) {
        nxr_tcp_timer_set(&conn->timer, ANSWER_NS);
    }
    if (say(conn, conn->is_rail ? NXR_TCP_RAIL : NXR_TCP_HELLO)) {
        nxr_tcp_watch_change(&conn->watch, EPOLLIN);
    } else {
        nxr_tcp_conn_lost(conn, "it was closed at once");
    }
}

static void finish_connecting(struct nxr_tcp_conn *conn)
{
    socklen_t nbytes = sizeof(int);
    int error = 0;

    (void)getsockopt(conn->watch.fd, SOL_SOCKET, SO_ERROR, &error, &nbytes);
    if (error == 0) {
        was_made(conn);
    } else {
        attempt_failed(conn, nxr_reason_of(error), error == ECONNREFUSED);
    }
}

/*
 * Both sides are verified: the connection belongs to its process, and to an endpoint that wants to
 * send there.
 */
static void become_open(struct nxr_tcp_conn *conn)
{
    struct nxr_tcp_process *process = nxr_tcp_process_get(conn->answer);

    if (process == NULL) {
        nxr_tcp_conn_lost(conn, "no memory for what is known of its process");
        return;
    }
    conn->stage = NXR_TCP_OPEN;
    conn->process = process;
    nxr_tcp_ends_text(conn->watch.fd, conn->ends, sizeof(conn->ends));
    nxr_tcp_timer_end(&conn->timer);
    nxr_list_append(conn->is_rail ? &process->rails : &process->conns, &conn->process_link);
    nxr_tcp_conn_count(conn);
    if (conn->carries != NULL) {
        conn->carries->proven(conn->carries);
    } else if (conn->is_rail) {
        nxr_tcp_rail_accepted(conn);
    } else if (process->ep != NULL && process->ep->conn == NULL && !process->ep->has_failed) {
        nxr_tcp_ep_adopt(process->ep, conn);
    }
}

/* The process has the card of this one. It may be stopped at this point for any time. */
static void tcp_connection_take_hello(struct nxr_tcp_conn *conn, const struct nxr_tcp_hello *hello)
{
    nxr_tcp_timer_end(&conn->timer);
    nxr_tcp.n_strangers--;
    conn->rank = hello->from;
    conn->answer = hello->answer;
    conn->is_rail = hello->type == NXR_TCP_RAIL;
    conn->stage = NXR_TCP_WANTS_CONFIRM;
    if (!say(conn, NXR_TCP_ANSWER)) {
        nxr_tcp_conn_lost(conn, "it was closed at once");
    }
}

/* The answer of the peer that we connected to. */
static void take_answer(struct nxr_tcp_conn *conn)
{
    if (say(conn, NXR_TCP_CONFIRM)) {
        become_open(conn);
    } else {
        nxr_tcp_conn_lost(conn, "it was closed at once");
    }
}

static void tcp_connection_take(struct nxr_tcp_conn *conn, const struct nxr_tcp_hello *hello)
{
    static const enum nxr_tcp_hello_type expected[] = {
        [NXR_TCP_WANTS_HELLO] = NXR_TCP_HELLO,
        [NXR_TCP_WANTS_ANSWER] = NXR_TCP_ANSWER,
        [NXR_TCP_WANTS_CONFIRM] = NXR_TCP_CONFIRM,
    };
    bool knows_us = conn->is_own ? hello->answer == conn->answer
                                 : hello->connect_secret == nxr_tcp.address.connect_secret;
    bool is_rail = conn->stage == NXR_TCP_WANTS_HELLO && hello->type == NXR_TCP_RAIL;
    const char *why = nxr_tcp_hello_check(hello, is_rail ? NXR_TCP_RAIL : expected[conn->stage],
                                          (uint32_t)nxr_tcp.core->rank);

    if (why == NULL && !knows_us) {
        why = "it does not know the secret";
    }
    if (why == NULL && conn->stage != NXR_TCP_WANTS_HELLO &&
        (hello->from != conn->rank || hello->answer != conn->answer)) {
        why = "another process is there now";
    }
    if (why != NULL && conn->is_own) {
        nxr_tcp_tell_stranger(conn->watch.fd, why);
        attempt_failed(conn, why, true);
    } else if (why != NULL) {
        nxr_tcp_conn_lost(conn, why);
    } else if (conn->stage == NXR_TCP_WANTS_HELLO) {
        tcp_connection_take_hello(conn, hello);
    } else if (conn->stage == NXR_TCP_WANTS_ANSWER) {
        take_answer(conn);
    } else {
        become_open(conn);
    }
}

/* Reads exactly a hello, so that whatever follows is left for stream.c. */
void nxr_tcp_read_hello(struct nxr_tcp_conn *conn)
{
    struct nxr_tcp_hello hello;
    ssize_t nbytes =
        recv(conn->watch.fd, conn->held + conn->n_held, sizeof(hello) - conn->n_held, 0);

    if (nbytes < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (nbytes == 0 && conn->stage == NXR_TCP_WANTS_HELLO && conn->n_held == 0) {
        nxr_tcp_conn_close(conn); /* a peer that needs it no more, or a probe of the port */
        return;
    }
    if (nbytes <= 0) {
        nxr_tcp_conn_lost(conn, "it was closed again");
        return;
    }
    conn->n_held += (size_t)nbytes;
    if (conn->n_held == sizeof(hello)) {
        conn->n_held = 0;
        memcpy(&hello, conn->held, sizeof(hello));
        tcp_connection_take(conn, &hello);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* If the connection is often ready, make it hot, in place of the one that was silent longest. */
static void warm(struct nxr_tcp_conn *conn)
{
    unsigned before = conn->found_at;
    unsigned coldest = 0;

    conn->found_at = ++nxr_tcp.n_found;
    if (conn->is_hot || before == 0 || conn->found_at - before > HOT_EVENTS) {
        return;
    }
    if (nxr_tcp.n_hot == NXR_TCP_MAX_HOT) {
        for (unsigned i = 1; i < nxr_tcp.n_hot; i++) {
            if (nxr_tcp.hot[i]->n_empty > nxr_tcp.hot[coldest]->n_empty) {
                coldest = i;
            }
        }
        nxr_tcp_cool(nxr_tcp.hot[coldest]);
    }
    conn->is_hot = true;
    conn->n_empty = 0;
    nxr_tcp.hot[nxr_tcp.n_hot++] = conn;
}

static void has_room(struct nxr_tcp_conn *conn)
{
    if (conn->carries != NULL) {
        nxr_tcp_rail_feed(conn->carries);
    } else if (conn->ep != NULL) {
        (void)nxr_tcp_flush(conn->ep);
    } else {
        nxr_tcp_conn_wants_room(conn, !nxr_tcp_acks_flush(conn));
    }
}

static void tcp_connection_is_ready(struct nxr_tcp_watch *watch, uint32_t events)
{
    struct nxr_tcp_conn *conn = nxr_list_entry(watch, struct nxr_tcp_conn, watch);

    if (conn->stage == NXR_TCP_CONNECTING) {
        finish_connecting(conn);
    } else if (conn->stage != NXR_TCP_OPEN) {
        nxr_tcp_read_hello(conn);
    } else {
        if ((events & EPOLLOUT) != 0) {
            has_room(conn);
        }
        if ((events & ~(uint32_t)EPOLLOUT) != 0 && conn->stage == NXR_TCP_OPEN) {
            warm(conn);
            (void)nxr_tcp_read(conn);
        }
    }
}
