/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections: listening, connecting, sending, receiving, and messages that wait to be sent. In a
 * large job the service thread wakes often, so a tick walks over them only when one may be due.
 */
#include "config.h"

#include "host/conn.h"
#include "core/subsystem.h"
#include "control/dispatch.h"
#include "host/acceptor.h"
#include "host/connect.h"
#include "host/greeting.h"
#include "host/local_socket.h"
#include "host/packet.h"
#include "host/peer.h"
#include "host/unsent.h"
#include "region/publish.h"
#include "region/region.h"
#include "util/clock.h"
#include "util/log.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_NS       (NXR_S / 10) /* between two looks at all connections, at least */
#define IDLE_NS       (1 * NXR_S)  /* an idle connection that this side opened is closed */
#define GREETING_NS   (2 * NXR_S)  /* a connecting peer must greet within this */
#define STARVED_NS    (NXR_S / 20) /* between two looks whether there are descriptors again */
#define MAX_STRANGERS 64           /* connections without a greeting at one time */

static struct nxr_list conns = {&conns, &conns};
static struct nxr_conn *first_closed; /* still in conns, until the next tick frees them */
static int64_t look_at = INT64_MAX;   /* when one may have been idle for too long */
static int64_t feed_at = INT64_MAX;   /* when one that lacked descriptors is watched again */
static int n_strangers;

static struct nxr_local_socket own_socket = NXR_LOCAL_SOCKET_NONE;
static struct nxr_acceptor own_acceptor = {.again_at = INT64_MAX};

static void conn_use(struct nxr_conn *conn)
{
    conn->used_at = nxr_now_ns();
    look_at = conn->used_at + IDLE_NS < look_at ? conn->used_at + IDLE_NS : look_at;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int conn_send_now(struct nxr_conn *conn, const union nxr_wire_message *message,
                         const int *fds, int n_fds)
{
    return nxr_packet_send(conn->fd, message, message->header.nbytes, fds, n_fds);
}

static uint32_t conn_events(const struct nxr_conn *conn)
{
    return EPOLLIN | (conn->is_writing ? EPOLLOUT : 0);
}

static void set_writing(struct nxr_conn *conn, bool is_writing)
{
    if (conn->is_writing != is_writing) {
        conn->is_writing = is_writing;
        if (!conn->is_starved) {
            nxr_service_rewatch(conn->fd, conn_events(conn), &conn->watch);
        }
    }
}

/* The connection ends: keep its unsent messages that outlive it for the next one. */
static void keep_unsent(struct nxr_conn *conn)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&conn->out)) != NULL) {
        struct nxr_unsent *out = nxr_list_entry(link, struct nxr_unsent, link);

        if (conn->peer != NULL && !nxr_peer_is_lost(conn->peer) &&
            nxr_unsent_is_lasting(&out->message)) {
            nxr_list_append(&host_peer_of(conn->peer)->unsent, link);
        } else {
            nxr_unsent_free(out);
        }
    }
}

/*
 * Nothing can be sent any more. What the other end has sent before it closed the connection is
 * unread here: conn_ready() reads that and closes this end.
 */
static void conn_break(struct nxr_conn *conn)
{
    shutdown(conn->fd, SHUT_RDWR);
}

/* Move what another connection left unsent to this one; it is sent once this one is greeted. */
static void take_unsent(struct nxr_conn *conn)
{
    nxr_list_splice(&conn->out, &host_peer_of(conn->peer)->unsent);
    if (conn->is_greeted && !nxr_list_is_empty(&conn->out)) {
        set_writing(conn, true);
    }
}

static void send_queued(struct nxr_conn *conn)
{
    while (!nxr_list_is_empty(&conn->out)) {
        struct nxr_unsent *out = nxr_list_entry(conn->out.next, struct nxr_unsent, link);
        int status = conn_send_now(conn, &out->message, out->fds, out->n_fds);

        if (status == NIXL_E_AGAIN) {
            set_writing(conn, true);
            return;
        }
        if (status != NIXL_OK) {
            conn_break(conn);
            return;
        }
        nxr_list_remove(&out->link);
        nxr_unsent_free(out);
    }
    set_writing(conn, false);
}

void nxr_conn_send_on(struct nxr_conn *conn, const union nxr_wire_message *message, const int *fds,
                      int n_fds)
{
    bool is_greeting =
        message->header.type == NXR_WIRE_HELLO || message->header.type == NXR_WIRE_WELCOME;
    int status = NIXL_E_AGAIN;

    conn_use(conn);
    if (is_greeting || (conn->is_greeted && nxr_list_is_empty(&conn->out))) {
        status = conn_send_now(conn, message, fds, n_fds);
    }
    if (status != NIXL_OK) {
        bool is_kept = nxr_unsent_keep(&conn->out, conn->peer, message, fds, n_fds);

        /* What is not kept is a greeting, a question or a key: then both ends begin again. */
        if ((status != NIXL_E_AGAIN || !is_kept) && is_greeting) {
            nxr_conn_close(conn);
        } else if (status != NIXL_E_AGAIN || !is_kept) {
            conn_break(conn);
        } else if (conn->is_greeted || is_greeting) {
            set_writing(conn, true);
        }
    }
}

void nxr_conn_send(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    struct host_peer *hp = host_peer_of(peer);
    uid_t user;

    if (nxr_peer_is_lost(peer)) {
        return;
    }
    if (hp->conn == NULL) {
        (void)nxr_conn_open(peer, &user);
    }
    if (hp->conn == NULL) {
        nxr_debug(HOST, "cannot reconnect to %s: %m", nxr_peer_name(peer));
        if (nxr_unsent_is_lasting(message)) {
            (void)nxr_unsent_keep(&hp->unsent, peer, message, NULL, 0);
        }
        nxr_connect_conn_closed(peer); /* tries again, and repeats unanswered questions */
        return;
    }
    nxr_conn_send_on(hp->conn, message, NULL, 0);
}

int nxr_conn_send_fd(struct nxr_peer *peer, const union nxr_wire_message *message, int fd)
{
    struct host_peer *hp = host_peer_of(peer);

    if (nxr_peer_is_lost(peer)) {
        close(fd);
        return NIXL_OK;
    }
    if (!nxr_unsent_give(&hp->unsent, peer, message, fd)) {
        return NIXL_E_NO_MEMORY;
    }
    if (hp->conn != NULL) {
        conn_use(hp->conn);
        take_unsent(hp->conn);
    } else {
        nxr_conn_send_unsent(peer);
    }
    return NIXL_OK;
}

void nxr_conn_send_unsent(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);
    uid_t user;

    if (hp->conn == NULL && !nxr_list_is_empty(&hp->unsent) && !nxr_peer_is_lost(peer) &&
        nxr_conn_open(peer, &user) != NIXL_OK) {
        nxr_connect_conn_closed(peer);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

void nxr_conn_refuse(struct nxr_conn *conn, const char *why)
{
    nxr_warn(HOST, "%s from pid %d; the connection is dropped", why, (int)conn->pid);
    nxr_conn_close(conn);
}

/* Only a greeting is accepted first; after it, only messages of the process that greeted. */
static void conn_take(struct nxr_conn *conn, const union nxr_wire_message *message,
                      struct nxr_packet *packet)
{
    const struct nxr_control_source source = {conn->peer, conn, &conn->parked, packet->fds,
                                              packet->n_fds};
    bool is_greeting =
        message->header.type == NXR_WIRE_HELLO || message->header.type == NXR_WIRE_WELCOME;

    if (!is_greeting && !conn->is_greeted) {
        nxr_conn_refuse(conn, "a message before the greeting");
    } else if (!is_greeting && nxr_peer_is_attached(conn->peer) &&
               !nxr_wire_is_for_attached((enum nxr_wire_type)message->header.type)) {
        nxr_conn_refuse(conn, "a message about this job from an attached process");
    } else if (is_greeting || nxr_identity_is(&conn->peer->identity, &message->header.from)) {
        nxr_control_take(&source, message);
    } else {
        nxr_conn_refuse(conn, nxr_message_why(&conn->peer->identity, &message->header.from));
    }
}

/*
 * The size of the job that the other end is a rank of: it is not known of another job, and before
 * the greeting it is not known whether it is one. The identity decides then.
 */
static int conn_job_size(const struct nxr_conn *conn)
{
    return conn->is_greeted && !nxr_peer_is_attached(conn->peer) ? nxr_job.size : INT_MAX;
}

/*
 * This process has no descriptors for the next message. It waits in the socket, with those behind
 * it, and the connection is not watched: epoll would report it again at once.
 */
static void conn_starve(struct nxr_conn *conn)
{
    nxr_info(HOST, "no descriptor is left for what pid %d sends (raise ulimit -n); waiting for one",
             (int)conn->pid);
    nxr_service_unwatch(conn->fd);
    conn->is_starved = true;
    feed_at = nxr_now_ns() + STARVED_NS;
}

/* Watch the starved connections again. */
static void conns_feed(void)
{
    struct nxr_list *link, *after;

    feed_at = INT64_MAX;
    nxr_list_for_each (link, after, &conns) {
        struct nxr_conn *conn = nxr_list_entry(link, struct nxr_conn, link);

        if (!conn->is_starved || conn->is_closed) {
            continue;
        }
        conn->is_starved = nxr_service_watch(conn->fd, conn_events(conn), &conn->watch) != NIXL_OK;
        feed_at = conn->is_starved ? nxr_now_ns() + STARVED_NS : feed_at;
    }
}

/* Receive and handle one message; false when there is none, or the connection has ended. */
static bool receive_one(struct nxr_conn *conn)
{
    struct nxr_packet packet;
    union nxr_wire_message message;
    const char *why = NULL;
    int status = nxr_packet_receive(conn->fd, &packet);

    if (status == NIXL_E_AGAIN) {
        return false;
    }
    if (status == NIXL_E_LIMIT) {
        conn_starve(conn);
        return false;
    }
    if (status != NIXL_OK) {
        nxr_conn_close(conn);
        return false;
    }
    conn_use(conn);
    if (nxr_wire_parse(packet.bytes, packet.nbytes, packet.n_fds, conn_job_size(conn), &message,
                       &why) == NIXL_OK) {
        conn_take(conn, &message, &packet);
    } else {
        nxr_conn_refuse(conn, why);
    }
    nxr_packet_close_fds(packet.fds, packet.n_fds);
    return !conn->is_closed;
}

static void conn_ready(struct nxr_watch *watch, uint32_t events)
{
    struct nxr_conn *conn = nxr_list_entry(watch, struct nxr_conn, watch);

    /* First read what was sent before a hang-up. */
    while (!conn->is_closed && receive_one(conn)) {
    }
    if (!conn->is_closed && ((events & EPOLLOUT) != 0 || conn->is_greeted)) {
        send_queued(conn);
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

static struct nxr_conn *conn_new(int fd, bool is_mine)
{
    struct nxr_conn *conn = calloc(1, sizeof(*conn));
    struct ucred cred = nxr_packet_other_end(fd);

    if (conn == NULL) {
        return NULL;
    }
    conn->watch.fn = conn_ready;
    conn->fd = fd;
    conn->is_mine = is_mine;
    nxr_list_init(&conn->out);
    nxr_list_init(&conn->parked);
    if (cred.uid != geteuid()) {
        nxr_warn(HOST, "dropped a connection from a process of user %u", cred.uid);
        free(conn);
        return NULL;
    }
    conn->pid = cred.pid;
    if (nxr_service_watch(fd, EPOLLIN, &conn->watch) != NIXL_OK) {
        free(conn);
        return NULL;
    }
    nxr_list_append(&conns, &conn->link);
    conn_use(conn);
    n_strangers += !is_mine;
    return conn;
}

int nxr_conn_open(struct nxr_peer *peer, uid_t *user_p)
{
    struct host_peer *hp = host_peer_of(peer);
    struct nxr_conn *conn;
    int fd, status = nxr_local_socket_connect(NXR_CONN_SOCKET, peer->card.nonce, &fd);

    if (status != NIXL_OK) {
        return status;
    }
    *user_p = nxr_packet_other_end(fd).uid;
    if (*user_p != geteuid()) {
        close(fd);
        return NIXL_E_UNSUPPORTED;
    }
    conn = conn_new(fd, true);
    if (conn == NULL) {
        close(fd);
        return NIXL_E_LIMIT;
    }
    hp->conn = conn;
    conn->peer = peer;
    nxr_greeting_send(conn, NXR_WIRE_HELLO);
    /* If the other end has closed its socket meanwhile, that has closed the connection. */
    if (hp->conn == NULL) {
        return NIXL_E_AGAIN;
    }
    take_unsent(conn);
    return NIXL_OK;
}

void nxr_conn_close(struct nxr_conn *conn)
{
    struct nxr_peer *peer = conn->peer;
    struct host_peer *hp;

    if (conn->is_closed) {
        return;
    }
    conn->is_closed = true;
    conn->next_closed = first_closed;
    first_closed = conn;
    nxr_service_unwatch(conn->fd);
    close(conn->fd);
    conn->fd = -1;
    n_strangers -= !conn->is_mine && !conn->is_greeted;
    keep_unsent(conn);
    nxr_publish_unpark(&conn->parked);
    if (peer == NULL) {
        return;
    }
    hp = host_peer_of(peer);
    if (hp->conn == conn) {
        hp->conn = NULL;
        nxr_connect_conn_closed(peer);
    } else if (hp->conn != NULL) {
        take_unsent(hp->conn);
    }
}

/*
 * Close a connection that is not needed now. The other end may be sending: after the shutdown its
 * sends fail, and everything it sent before is read here. False: not yet, for want of descriptors.
 */
static bool close_idle(struct nxr_conn *conn)
{
    conn_break(conn);
    while (!conn->is_closed && receive_one(conn)) {
    }
    if (conn->is_starved && conn->is_greeted) {
        return false;
    }
    nxr_conn_close(conn);
    return true;
}

static void conn_free_closed(void)
{
    while (first_closed != NULL) {
        struct nxr_conn *conn = first_closed;

        first_closed = conn->next_closed;
        nxr_list_remove(&conn->link);
        free(conn);
    }
}

void nxr_conn_greeted(struct nxr_conn *conn, struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    n_strangers -= !conn->is_mine;
    conn->is_greeted = true;
    conn->peer = peer;
    if (!conn->is_mine) {
        nxr_greeting_send(conn, NXR_WIRE_WELCOME);
    }
    /* The other end may have given it up while this rank was stopped: then the answer closes it. */
    if (hp->conn == NULL && !conn->is_closed) {
        hp->conn = conn;
        take_unsent(conn);
    }
}

/* ---- listening ------------------------------------------------------------------------------- */

/* The greeted connection that has been idle longest; NULL: none. */
static struct nxr_conn *conn_oldest(void)
{
    struct nxr_list *link, *after;
    struct nxr_conn *oldest = NULL;

    nxr_list_for_each (link, after, &conns) {
        struct nxr_conn *conn = nxr_list_entry(link, struct nxr_conn, link);

        if (!conn->is_closed && !conn->is_starved && conn->is_greeted &&
            nxr_list_is_empty(&conn->out) && nxr_list_is_empty(&conn->parked) &&
            (conn->peer == NULL || nxr_list_is_empty(nxr_region_asks(conn->peer))) &&
            (oldest == NULL || conn->used_at < oldest->used_at)) {
            oldest = conn;
        }
    }
    return oldest;
}

bool nxr_conn_make_room(void)
{
    struct nxr_conn *oldest;

    do {
        oldest = conn_oldest();
    } while (oldest != NULL && !close_idle(oldest));
    return oldest != NULL;
}

static bool conn_accept(struct nxr_acceptor *acceptor, int fd)
{
    (void)acceptor;
    return n_strangers < MAX_STRANGERS && conn_new(fd, false) != NULL;
}

int nxr_conn_listen(void)
{
    int status = nxr_local_socket_listen(NXR_CONN_SOCKET, nxr_job.card.head.nonce, &own_socket);

    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_acceptor_start(&own_acceptor, own_socket.fds, conn_accept);
    if (status != NIXL_OK) {
        nxr_local_socket_close(&own_socket);
    }
    return status;
}

/* When a connection is due to be closed, unless it is used; or to be looked at again. */
static int64_t conn_due(const struct nxr_conn *conn, int64_t now)
{
    if (!conn->is_greeted || !conn->is_mine || conn->is_starved) {
        return conn->is_greeted ? INT64_MAX : conn->used_at + GREETING_NS;
    }
    return nxr_list_is_empty(&conn->out) && nxr_list_is_empty(&conn->parked) &&
                   nxr_list_is_empty(nxr_region_asks(conn->peer))
               ? conn->used_at + IDLE_NS
               : now + IDLE_NS; /* its questions may end without another message */
}

/* Close what is due, and find when the next one is. */
static void conn_look(int64_t now)
{
    struct nxr_list *link, *after;

    look_at = INT64_MAX;
    nxr_list_for_each (link, after, &conns) {
        struct nxr_conn *conn = nxr_list_entry(link, struct nxr_conn, link);
        int64_t due = conn->is_closed ? INT64_MAX : conn_due(conn, now);

        if (due <= now) {
            (void)close_idle(conn);
        } else if (due < look_at) {
            look_at = due;
        }
    }
    look_at = look_at < now + LOOK_NS ? now + LOOK_NS : look_at;
}

int64_t nxr_conn_tick(int64_t now)
{
    int64_t due = nxr_acceptor_tick(&own_acceptor, now);

    nxr_unsent_tick();
    conn_free_closed(); /* no event of this round refers to them any more */
    if (look_at <= now) {
        conn_look(now);
    }
    if (feed_at <= now) {
        conns_feed();
    }
    due = feed_at < due ? feed_at : due;
    return look_at < due ? look_at : due;
}

void nxr_conn_stop(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &conns) {
        nxr_conn_close(nxr_list_entry(link, struct nxr_conn, link));
    }
    conn_free_closed();
    if (own_socket.fds[0] >= 0) {
        nxr_acceptor_stop(&own_acceptor);
        nxr_local_socket_close(&own_socket);
    }
    look_at = feed_at = INT64_MAX;
    n_strangers = 0;
}

static void conn_peer_ended(struct nxr_peer *peer)
{
    struct host_peer *hp = host_peer_of(peer);

    if (hp->conn != NULL && !peer->is_detached) { /* else the message that says so is on its way */
        nxr_conn_close(hp->conn);
    }
    nxr_unsent_drop(peer);
}

/* Does a connection refer to the peer? Closes one that is not needed any more. */
static bool conn_peer_is_used(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;
    bool is_used = false;

    nxr_list_for_each (link, after, &conns) {
        struct nxr_conn *conn = nxr_list_entry(link, struct nxr_conn, link);

        if (conn->peer == peer) {
            nxr_conn_close(conn); /* freed at the next tick */
            is_used = true;
        }
    }
    return is_used;
}

const struct nxr_subsystem nxr_conn_subsystem = {
    .name = "conn",
    .listen = nxr_conn_listen,
    .tick = nxr_conn_tick,
    .peer_ending = nxr_unsent_peer_ending,
    .peer_ended = conn_peer_ended,
    .peer_is_used = conn_peer_is_used,
    .close = nxr_conn_stop,
};
