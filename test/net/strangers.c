/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers at the ports of the TCP network: who goes again, who speaks something else, who knows
 * the card but not how to go on, who ends while a child holds the connection, and many who say
 * nothing. Each is closed, no descriptor stays, the log has few lines, and the job goes on.
 */
#include "config.h"

#include "core/job.h"
#include "net/offer.h"
#include "transports/tcp/address.h"
#include "transports/tcp/frame.h"

#include "test/mp/mptest.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SILENT 300 /* more than are let in at once */
#define N_HELD   16

static struct nxr_tcp_address address; /* of this rank */
static atomic_int n_lines;

static void count_lines(enum nixl_log_level level, const char *subsystem, const char *text,
                        void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    atomic_fetch_add(&n_lines, strstr(text, "tcp: a connection from") != NULL);
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;

    if (folder == NULL) {
        mpt_fail(__FILE__, __LINE__, "cannot look at the own descriptors: %m");
    }
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n;
}

static int new_socket(void)
{
    int fd =
        socket(address.paths[0].family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MPT_TRUE(fd >= 0);
    return fd;
}

static void come_with(int fd)
{
    const struct nxr_tcp_path *way = &address.paths[0];
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(way->port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(way->port)};

    memcpy(&four.sin_addr, way->ip, 4);
    memcpy(&six.sin6_addr, way->ip, 16);
    MPT_EQ(way->family == 4 ? connect(fd, (struct sockaddr *)&four, sizeof(four))
                            : connect(fd, (struct sockaddr *)&six, sizeof(six)),
           0);
}

static int come(void)
{
    int fd = new_socket();

    come_with(fd);
    return fd;
}

static void say(int fd, const void *bytes, size_t nbytes)
{
    MPT_EQ(send(fd, bytes, nbytes, MSG_NOSIGNAL), (ssize_t)nbytes);
}

/* How much comes; 0: it was closed. */
static ssize_t hear(int fd, void *bytes, size_t nbytes)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    ssize_t n;

    MPT_EQ(poll(&polled, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
    n = recv(fd, bytes, nbytes, MSG_WAITALL);
    return n > 0 ? n : 0;
}

static void expect_closed(int fd)
{
    char byte;

    MPT_EQ(hear(fd, &byte, 1), 0);
    close(fd);
}

static struct nxr_tcp_hello a_hello(enum nxr_tcp_hello_type type)
{
    return (struct nxr_tcp_hello){.magic = NXR_TCP_HELLO_MAGIC,
                                  .version = NXR_TCP_LAYOUT_VERSION,
                                  .type = (uint16_t)type,
                                  .from = 1,
                                  .to = (uint32_t)nixl_rank(),
                                  .connect_secret = address.connect_secret,
                                  .answer = 0x1234};
}

/* As a rank does, up to the answer: for the ordered stream, or for a rail. */
static int greet_as(enum nxr_tcp_hello_type type)
{
    struct nxr_tcp_hello hello = a_hello(type), answer;
    int fd = come();

    say(fd, &hello, sizeof(hello));
    MPT_EQ(hear(fd, &answer, sizeof(answer)), (ssize_t)sizeof(answer));
    MPT_EQ(answer.type, NXR_TCP_ANSWER);
    MPT_TRUE(answer.answer == address.answer);
    return fd;
}

static int greet(void)
{
    return greet_as(NXR_TCP_HELLO);
}

static int enter_as(enum nxr_tcp_hello_type type)
{
    struct nxr_tcp_hello confirm = a_hello(NXR_TCP_CONFIRM);
    int fd = greet_as(type);

    say(fd, &confirm, sizeof(confirm));
    return fd;
}

static int enter(void)
{
    return enter_as(NXR_TCP_HELLO);
}

static void say_wrong_hello(enum nxr_tcp_hello_type type, size_t offset, unsigned char bits)
{
    struct nxr_tcp_hello hello = a_hello(type);
    int fd = come();

    ((unsigned char *)&hello)[offset] ^= bits;
    say(fd, &hello, sizeof(hello));
    expect_closed(fd);
}

static void without_the_card(void)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n\r\n";
    unsigned char noise[4096];
    int fd = come();

    say(fd, request, sizeof(request) - 1);
    expect_closed(fd);
    mpt_fill(noise, sizeof(noise), 7);
    fd = come();
    say(fd, noise, sizeof(noise));
    expect_closed(fd);
    say_wrong_hello(NXR_TCP_HELLO, offsetof(struct nxr_tcp_hello, version), 1);
    say_wrong_hello(NXR_TCP_HELLO, offsetof(struct nxr_tcp_hello, type), 2);
    say_wrong_hello(NXR_TCP_HELLO, offsetof(struct nxr_tcp_hello, to), 1);
    for (size_t i = 0; i < 8; i++) {
        say_wrong_hello(NXR_TCP_HELLO, offsetof(struct nxr_tcp_hello, connect_secret) + i, 1);
        say_wrong_hello(NXR_TCP_RAIL, offsetof(struct nxr_tcp_hello, connect_secret) + i, 1);
    }
    fd = come();
    say(fd, request, 3);
    close(fd);
}

static void with_the_card(void)
{
    struct nxr_tcp_hello confirm = a_hello(NXR_TCP_CONFIRM);
    struct nxr_tcp_frame frame = {NXR_TCP_FRAME_MAGIC, 200, (uint64_t)1 << 40};
    unsigned char noise[1024];
    int fd;

    close(greet());
    fd = greet();
    confirm.answer++;
    say(fd, &confirm, sizeof(confirm));
    expect_closed(fd);
    close(enter());
    mpt_fill(noise, sizeof(noise), 8);
    fd = enter();
    say(fd, noise, sizeof(noise));
    expect_closed(fd);
    /* A frame, but nothing that the core takes: bulk that never ends. */
    fd = enter();
    say(fd, &frame, sizeof(frame));
    say(fd, noise, sizeof(noise));
    close(fd);
    frame.bulk_nbytes = UINT64_MAX;
    fd = enter();
    say(fd, &frame, sizeof(frame));
    expect_closed(fd);
}

static void expect_refused(enum nxr_tcp_hello_type type, const void *bytes, size_t nbytes)
{
    int fd = enter_as(type);

    say(fd, bytes, nbytes);
    expect_closed(fd);
}

/* What belongs to no bulk, or goes by the wrong connection. */
static void pieces_of_nothing(void)
{
    struct {
        struct nxr_tcp_frame frame;
        struct nxr_tcp_plan plan;
        unsigned char message[8];
    } told = {
        {NXR_TCP_PLAN_MAGIC, sizeof(told) - sizeof(told.frame), 1 << 20}, {1, 1 << 16, 0}, {0}};
    const struct nxr_tcp_frame frame = {NXR_TCP_FRAME_MAGIC, 8, 0};
    const struct nxr_tcp_piece piece = {NXR_TCP_PIECE_MAGIC, 0, 1, 1 << 16};
    const struct nxr_tcp_ack ack = {NXR_TCP_ACK_MAGIC, 0, 1};

    expect_refused(NXR_TCP_HELLO, &piece, sizeof(piece));
    expect_refused(NXR_TCP_RAIL, &piece, sizeof(piece));
    expect_refused(NXR_TCP_HELLO, &ack, sizeof(ack));
    expect_refused(NXR_TCP_RAIL, &ack, sizeof(ack));
    expect_refused(NXR_TCP_RAIL, &frame, sizeof(frame));
    expect_refused(NXR_TCP_RAIL, &told, sizeof(told));
    close(enter_as(NXR_TCP_RAIL));
    told.plan.piece_nbytes = 1;
    expect_refused(NXR_TCP_HELLO, &told, sizeof(told));
    told.plan = (struct nxr_tcp_plan){.number = 0, .piece_nbytes = 1 << 16};
    expect_refused(NXR_TCP_HELLO, &told, sizeof(told));
}

/* As a peer does that leaves while it connects, and a probe of the port: no line in the log. */
static void come_and_go(int n_descriptors)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;

    for (int i = 0; i < N_HELD; i++) {
        close(come());
    }
    close(greet());
    while (count_descriptors() > n_descriptors + 2) {
        MPT_LT(mpt_now_ns(), until_ns);
    }
    MPT_EQ(atomic_load(&n_lines), 0);
}

/* Somebody else is still heard. */
static void silent_ones(void)
{
    static int fds[N_SILENT];

    for (int i = 0; i < N_SILENT; i++) {
        fds[i] = come();
    }
    close(greet());
    for (int i = 0; i < N_SILENT; i++) {
        close(fds[i]);
    }
}

/*
 * A child that was forked has the descriptors of this process. Connections that end meanwhile are
 * closed here alone: nothing more is heard of them, whatever comes after them.
 */
static void held_by_a_child(void)
{
    int fds[N_HELD];
    pid_t child;

    for (int i = 0; i < N_HELD; i++) {
        fds[i] = greet();
    }
    child = fork();
    MPT_TRUE(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        pause();
        _exit(1);
    }
    for (int i = 0; i < N_HELD; i++) {
        shutdown(fds[i], SHUT_RDWR);
        close(greet());
    }
    MPT_EQ(kill(child, SIGKILL), 0);
    MPT_EQ(waitpid(child, NULL, 0), child);
    for (int i = 0; i < N_HELD; i++) {
        close(fds[i]);
    }
}

/* Who comes while no descriptor is left is heard when there is one. */
static void no_descriptor(void)
{
    struct nxr_tcp_hello hello = a_hello(NXR_TCP_HELLO);
    struct rlimit before, none;
    int fd = new_socket();

    MPT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    come_with(fd);
    say(fd, &hello, sizeof(hello));
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    MPT_EQ(hear(fd, &hello, sizeof(hello)), (ssize_t)sizeof(hello));
    close(fd);
}

static void be_visited(void)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    int before = count_descriptors();

    nixl_log_set_fn(count_lines, NULL);
    come_and_go(before);
    without_the_card();
    with_the_card();
    pieces_of_nothing();
    held_by_a_child();
    silent_ones();
    no_descriptor();
    while (count_descriptors() > before + 2) { /* the other rank may have come meanwhile */
        MPT_LT(mpt_now_ns(), until_ns);
    }
    MPT_TRUE(atomic_load(&n_lines) > 0 && atomic_load(&n_lines) <= 40); /* the log limits them */
    nixl_log_set_fn(NULL, NULL);
}

int main(void)
{
    struct nixl_region *region = NULL;
    struct nxr_net_offer offer;
    const void *own;
    uint64_t word = 7;
    size_t nbytes;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    own = nxr_net_offer_find(&nxr_job.card, "tcp", &offer, &nbytes);
    if (own == NULL || nxr_tcp_address_parse(own, nbytes, &address) != NULL) {
        mpt_skip("the TCP network is not used here");
    }
    MPT_OK(nixl_region_alloc("strangers", sizeof(word), NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        be_visited();
    }
    mpt_barrier();
    MPT_OK(nixl_put(1 - nixl_rank(), region, 0, &word, sizeof(word)));
    mpt_barrier();
    MPT_EQ(*(uint64_t *)nixl_region_addr(region), 7);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
