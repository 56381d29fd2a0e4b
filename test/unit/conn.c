/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Greetings between service threads, and connections that one end closes: no message is lost by
 * that. The test is the other end, which is rank 1, and does what the service thread would do here.
 * Linked with --wrap=nxr_service_watch.
 */
#include "config.h"

#include "fake_job.h"

#include "control/dispatch.h"
#include "core/service.h"
#include "host/conn.h"
#include "host/greeting.h"
#include "host/local_socket.h"
#include "host/packet.h"
#include "host/peer.h"
#include "test/unit/unit.h"
#include "util/clock.h"
#include "util/random.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct nxr_control *control_1; /* what rank 1 shows */
static int control_fd_1 = -1, rings_fd_1 = -1;
static struct nxr_watch *listener, *latest; /* what is watched */
static struct nxr_conn *conn;               /* to rank 1 */
static int n_works;                         /* messages of rank 1 that have come */

int __wrap_nxr_service_watch(int fd, uint32_t events, struct nxr_watch *watch);

int __wrap_nxr_service_watch(int fd, uint32_t events, struct nxr_watch *watch)
{
    (void)fd;
    (void)events;
    latest = watch;
    return NIXL_OK;
}

static int n_offers; /* ... with a descriptor */

static void take_offer(const struct nxr_control_source *source,
                       const union nxr_wire_message *message)
{
    (void)message;
    n_offers += source->n_fds;
}

static void take_work(const struct nxr_control_source *source,
                      const union nxr_wire_message *message)
{
    (void)source;
    (void)message;
    n_works++;
}

static void ready(struct nxr_watch *watch, uint32_t events)
{
    pthread_mutex_lock(&nxr_job.lock);
    watch->fn(watch, events);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* ---- rank 1 ---------------------------------------------------------------------------------- */

static struct nxr_peer *peer_1(void)
{
    return nxr_peer_get(1);
}

static void send_as_1(int fd, union nxr_wire_message *message, const int *fds, int n_fds)
{
    message->header.from = fake_card(1)->head.identity;
    cr_assert(eq(int, nxr_packet_send(fd, message, message->header.nbytes, fds, n_fds), NIXL_OK));
}

static void send_work_as_1(int fd)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_WORK);
    send_as_1(fd, &message, NULL, 0);
}

/* Rank 1 connects; this rank has accepted that, and has not read the greeting. */
static int connect_as_1(void)
{
    const int fds[] = {control_fd_1, rings_fd_1};
    union nxr_wire_message message;
    int fd;

    cr_assert(
        eq(int, nxr_local_socket_connect(NXR_CONN_SOCKET, nxr_job.card.head.nonce, &fd), NIXL_OK));
    ready(listener, EPOLLIN);
    nxr_wire_init(&message, NXR_WIRE_HELLO);
    memcpy(message.hello.secret, nxr_job.card.head.secret, NXR_SECRET_NBYTES);
    message.hello.card = nxr_card_bare(fake_card(1));
    send_as_1(fd, &message, fds, 2);
    return fd;
}

/* The same, and both have greeted. */
static int greet_as_1(void)
{
    struct nxr_packet packet;
    int fd = connect_as_1();

    ready(latest, EPOLLIN);
    cr_assert(eq(int, nxr_packet_receive(fd, &packet), NIXL_OK));
    nxr_packet_close_fds(packet.fds, packet.n_fds);
    cr_assert(nxr_peer_is_local(peer_1()));
    conn = host_peer_of(peer_1())->conn;
    cr_assert(conn != NULL);
    return fd;
}

static void start(void)
{
    struct nxr_rings rings;

    nxr_control_register(NXR_WIRE_WORK, take_work);
    nxr_control_register(NXR_WIRE_BOUNCE, take_offer);
    nxr_greeting_register();
    fake_job_start(0);
    fake_must(nxr_random(nxr_job.card.head.nonce, NXR_NONCE_NBYTES)); /* its socket's name */
    fake_must(nxr_control_create(&fake_card(1)->head.identity, FAKE_SIZE, fake_card(1)->head.nonce,
                                 &control_1, &control_fd_1) == NIXL_OK);
    fake_must(nxr_rings_page_create(&rings, &rings_fd_1) == NIXL_OK);
    nxr_job.event_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    fake_must(nxr_job.event_fd >= 0 && nxr_conn_listen() == NIXL_OK);
    listener = latest;
}

TestSuite(conn, .init = start, .timeout = 60);

/* ---- greetings ------------------------------------------------------------------------------- */

static void expect_refused(int fd)
{
    struct nxr_packet packet;

    ready(latest, EPOLLIN);
    cr_expect(eq(int, nxr_packet_receive(fd, &packet), NIXL_E_PEER_LOST), "it is closed");
    cr_expect(not(nxr_peer_is_local(peer_1())));
    close(fd);
}

/* The peer does not become one by the right card. */
Test(conn, without_a_control_page_no_peer_is_connected)
{
    control_fd_1 = memfd_create("no control page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(ge(int, control_fd_1, 0));
    cr_assert(zero(int, ftruncate(control_fd_1, (off_t)nxr_control_nbytes(FAKE_SIZE))));
    cr_assert(zero(int, fcntl(control_fd_1, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)));
    expect_refused(connect_as_1());
}

/* It goes over a network then, and would be deaf to what is written into its memory. */
Test(conn, a_peer_that_has_given_up_its_greeting_is_not_connected)
{
    close(connect_as_1());
    ready(latest, EPOLLIN | EPOLLHUP);
    cr_expect(not(nxr_peer_is_up(peer_1())));
    greet_as_1(); /* it tries again */
}

Test(conn, a_peer_that_is_reached_over_a_network_stays_there)
{
    atomic_store(&peer_1()->connection, NXR_CONNECTION_UP);
    expect_refused(connect_as_1());
    atomic_store(&peer_1()->connection, NXR_CONNECTION_NONE);
}

/* ---- messages that wait to be read ----------------------------------------------------------- */

static void send_to_1(void)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_WORK);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_conn_send(peer_1(), &message);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* Both messages are there: that of rank 1 has come, and the own one is sent the next time. */
static void expect_both(void)
{
    cr_expect(eq(int, n_works, 1));
    cr_expect(eq(ptr, (void *)host_peer_of(peer_1())->conn, NULL));
    cr_expect(not(nxr_list_is_empty(&host_peer_of(peer_1())->unsent)));
}

Test(conn, a_message_is_read_though_another_cannot_be_sent)
{
    int fd = greet_as_1();

    send_work_as_1(fd);
    close(fd); /* it was idle, and this rank was stopped */
    send_to_1();
    ready(&conn->watch, EPOLLIN | EPOLLHUP);
    expect_both();
}

Test(conn, a_message_is_read_before_a_queued_one_is_sent)
{
    union nxr_wire_message message;
    int fd = greet_as_1();

    nxr_wire_init(&message, NXR_WIRE_BOUNCE);
    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(eq(int, nxr_conn_send_fd(peer_1(), &message, dup(nxr_job.event_fd)), NIXL_OK));
    pthread_mutex_unlock(&nxr_job.lock);
    send_work_as_1(fd);
    close(fd);
    ready(&conn->watch, EPOLLIN | EPOLLOUT | EPOLLHUP);
    expect_both();
}

/* ---- descriptors that have run out ----------------------------------------------------------- */

static void set_fd_limit(rlim_t n)
{
    struct rlimit limit;

    cr_assert(zero(int, getrlimit(RLIMIT_NOFILE, &limit)));
    limit.rlim_cur = n;
    cr_assert(zero(int, setrlimit(RLIMIT_NOFILE, &limit)));
}

static void offer_as_1(int fd)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_BOUNCE);
    message.bounce.nbytes = 1 << 20;
    message.bounce.n_chunks = 1;
    send_as_1(fd, &message, &rings_fd_1, 1);
}

static void tick_in(int64_t ns)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_conn_tick(nxr_now_ns() + ns);
    pthread_mutex_unlock(&nxr_job.lock);
}

/* What came with a descriptor, and what is behind it, is taken when there are some again. */
static void expect_it_all(void)
{
    cr_assert(not(conn->is_closed));
    tick_in(NXR_S);
    ready(&conn->watch, EPOLLIN | EPOLLHUP);
    cr_expect(eq(int, n_offers, 1));
    cr_expect(eq(int, n_works, 1));
    cr_expect(conn->is_closed);
}

Test(conn, one_with_a_message_that_lacks_a_descriptor_makes_no_room)
{
    int fd = greet_as_1();
    struct rlimit old;

    cr_assert(zero(int, getrlimit(RLIMIT_NOFILE, &old)));
    offer_as_1(fd);
    send_work_as_1(fd);
    set_fd_limit(1);
    pthread_mutex_lock(&nxr_job.lock);
    cr_expect(not(nxr_conn_make_room()));
    pthread_mutex_unlock(&nxr_job.lock);
    set_fd_limit(old.rlim_cur);
    expect_it_all();
    close(fd);
}

Test(conn, one_with_a_message_that_lacks_a_descriptor_is_not_idle)
{
    int fd = greet_as_1();
    struct rlimit old;

    conn->is_mine = true; /* it closes what it has opened */
    cr_assert(zero(int, getrlimit(RLIMIT_NOFILE, &old)));
    offer_as_1(fd);
    send_work_as_1(fd);
    set_fd_limit(1);
    tick_in(10 * NXR_S);
    set_fd_limit(old.rlim_cur);
    expect_it_all();
    close(fd);
}
