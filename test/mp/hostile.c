/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes and descriptors on the Unix sockets. Each rank attacks its own service thread, as a
 * process of the same user could, and knows even the secret of the card. It is linked with the
 * library's inside, to know the name of the socket and the layout of the messages. The job must go
 * on as if nothing had been: no crash, no rank taken for dead, no descriptor left.
 */
#include "config.h"

#include "control/wire.h"
#include "core/job.h"

#include "mptest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG_HERE 0x4057
#define NOBODY   65534

static struct sockaddr_un target;
static socklen_t target_nbytes;

/* The listening socket of this process. */
static void find_socket(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        int is_listening = 0;
        socklen_t nbytes = sizeof(is_listening);

        target_nbytes = sizeof(target);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &nbytes) == 0 &&
            is_listening && getsockname(fd, (struct sockaddr *)&target, &target_nbytes) == 0 &&
            target.sun_family == AF_UNIX) {
            return;
        }
    }
    mpt_fail(__FILE__, __LINE__, "no listening socket");
}

static int connect_target(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    MPT_GE(fd, 0);
    if (connect(fd, (struct sockaddr *)&target, target_nbytes) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Send bytes with descriptors; whether they can be sent does not matter. */
static void send_to(int fd, const void *bytes, size_t nbytes, const int *fds, size_t n_fds)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {0};
    struct iovec iov = {(void *)bytes, nbytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *header = (struct cmsghdr *)control;

    if (n_fds > 0) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
    }
    sendmsg(fd, &msg, MSG_NOSIGNAL);
}

/* One connection, one message; wait until the other side has dropped it. */
static void attack(const void *bytes, size_t nbytes, const int *fds, size_t n_fds)
{
    struct timeval patience = {.tv_sec = MPT_PATIENCE / MPT_S};
    char answer[1024];
    int fd = connect_target();

    if (fd < 0) {
        return;
    }
    MPT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    send_to(fd, bytes, nbytes, fds, n_fds);
    if (recv(fd, answer, sizeof(answer), 0) < 0 && errno == EAGAIN) {
        mpt_fail(__FILE__, __LINE__, "a bad message of %zu bytes was not refused", nbytes);
    }
    close(fd);
}

static void random_bytes(void)
{
    unsigned char bytes[2048];
    uint64_t seed = (uint64_t)mpt_now_ns();

    for (int i = 0; i < 100; i++) {
        size_t nbytes = 1 + mpt_random(&seed) % sizeof(bytes);

        mpt_fill(bytes, nbytes, seed);
        attack(bytes, nbytes, NULL, 0);
    }
}

/* Every type before a greeting, whole and cut; a DEATH among them must kill no rank. */
static void messages_before_the_greeting(void)
{
    for (int type = NXR_WIRE_HELLO; type <= NXR_WIRE_LEAVING; type++) {
        union nxr_wire_message message;

        nxr_wire_init(&message, (enum nxr_wire_type)type);
        message.header.from.rank = (nixl_rank() + 1) % nixl_size();
        attack(&message, message.header.nbytes, NULL, 0);
        attack(&message, message.header.nbytes / 2, NULL, 0);
        attack(&message, 1, NULL, 0);
        attack(&message, sizeof(message.header), NULL, 0);
    }
}

static int make_memfd(size_t nbytes, bool is_sealed)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    MPT_GE(fd, 0);
    MPT_EQ(ftruncate(fd, (off_t)nbytes), 0);
    if (is_sealed) {
        MPT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    }
    return fd;
}

/* Greetings in a peer's name with the right secret, and pages that must not be mapped. */
static void bad_pages(void)
{
    size_t right = nxr_control_nbytes(nixl_size());
    const struct {
        size_t nbytes;
        bool is_sealed;
    } pages[] = {{right, false}, {right, true}, {4096, true}, {right - 1, true}, {0, true}};
    int pipes[2];
    int peer = (nixl_rank() + 1) % nixl_size();
    union nxr_wire_message hello;
    struct nxr_full_card card;

    nxr_wire_init(&hello, NXR_WIRE_HELLO);
    hello.header.from.rank = peer;
    MPT_OK(nxr_card_make(&(struct nxr_identity){nxr_job.self.job, peer, 0}, &card));
    hello.hello.card = nxr_card_bare(&card);
    memcpy(hello.hello.secret, nxr_job.card.head.secret, NXR_SECRET_NBYTES);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        int fd = make_memfd(pages[i].nbytes, pages[i].is_sealed);

        attack(&hello, hello.header.nbytes, &fd, 1);
        close(fd);
    }
    MPT_EQ(pipe(pipes), 0);
    attack(&hello, hello.header.nbytes, pipes, 2);
    attack(&hello, hello.header.nbytes, NULL, 0);
    close(pipes[0]);
    close(pipes[1]);
    hello.hello.secret[0] ^= 1;
    attack(&hello, hello.header.nbytes, (int[]){STDOUT_FILENO}, 1);
}

/* A greeting as that peer's. */
static union nxr_wire_message greeting_of(int peer)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_HELLO);
    message.header.from = nxr_job.peers[peer]->identity;
    message.hello.card = nxr_job.peers[peer]->card;
    memcpy(message.hello.secret, nxr_job.card.head.secret, NXR_SECRET_NBYTES);
    return message;
}

/* A process of another user is cut off, however well it greets; only root can be one. */
static void another_user(void)
{
    struct timeval patience = {.tv_sec = MPT_PATIENCE / MPT_S};
    union nxr_wire_message message = greeting_of((nixl_rank() + 1) % nixl_size());
    char answer[1024];
    int status, page, fd;
    pid_t pid;

    if (geteuid() != 0) {
        return;
    }
    page = make_memfd(nxr_control_nbytes(nixl_size()), true);
    pid = fork();
    if (pid == 0) {
        ssize_t nbytes;

        fd = setuid(NOBODY) == 0 ? connect_target() : -1;
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) {
            _exit(2);
        }
        send_to(fd, &message, message.header.nbytes, &page, 1);
        nbytes = recv(fd, answer, sizeof(answer), 0);
        _exit(nbytes > 0 || (nbytes < 0 && errno == EAGAIN));
    }
    MPT_GE(pid, 1);
    MPT_EQ(waitpid(pid, &status, 0), pid);
    MPT_EQ(status, 0);
    close(page);
}

/* What the log must say of a sender that is not the expected one. */
static const char *const differences[] = {"another job", "another rank", "started later"};
enum { N_DIFFERENCES = 3 };
static atomic_int n_told[N_DIFFERENCES];

static void count_differences(enum nixl_log_level level, const char *subsystem, const char *text,
                              void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    for (int i = 0; i < N_DIFFERENCES; i++) {
        atomic_fetch_add(&n_told[i], strstr(text, differences[i]) != NULL);
    }
}

/* The same process but for one of its three numbers. */
static struct nxr_identity differing(struct nxr_identity identity, int difference)
{
    switch (difference) {
    case 0:
        identity.job++;
        break;
    case 1:
        identity.rank = (identity.rank + 1) % nixl_size();
        break;
    default:
        identity.incarnation++;
    }
    return identity;
}

/* Send a greeting of that peer. Returns the connection; the answer is still to come. */
static int greet(const union nxr_wire_message *greeting)
{
    struct timeval patience = {.tv_sec = MPT_PATIENCE / MPT_S};
    int page = make_memfd(nxr_control_nbytes(nixl_size()), true), fd = connect_target();

    MPT_GE(fd, 0);
    MPT_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    send_to(fd, greeting, greeting->header.nbytes, &page, 1);
    close(page);
    return fd;
}

/* The connection was cut off for this reason. */
static void is_cut_off(int fd, int difference)
{
    char answer[1024];

    MPT_EQ(recv(fd, answer, sizeof(answer), 0), 0);
    MPT_GE(atomic_exchange(&n_told[difference], 0), 1);
    close(fd);
}

/* Greetings of another job and of a later process of the peer, each with a card to match. */
static void greetings_of_another(int peer)
{
    for (int difference = 0; difference < N_DIFFERENCES; difference += 2) {
        union nxr_wire_message greeting = greeting_of(peer);

        greeting.header.from = differing(greeting.header.from, difference);
        greeting.hello.card.identity = greeting.header.from;
        is_cut_off(greet(&greeting), difference);
    }
}

/*
 * A process that has greeted as a peer, and speaks in the name of another: it is cut off, and
 * nobody dies. It is believed the death of nobody who is not of the job. The peer is connected, so
 * that its page is not looked at again.
 */
static void messages_of_another(int peer)
{
    const struct nxr_identity other = nxr_job.peers[(peer + 1) % nixl_size()]->identity;
    char answer[1024];

    for (int difference = 0; difference < N_DIFFERENCES; difference++) {
        union nxr_wire_message message = greeting_of(peer);
        const struct nxr_identity from = message.header.from;
        int fd = greet(&message);

        MPT_GE(recv(fd, answer, sizeof(answer), 0), 1); /* the welcome */
        nxr_wire_init(&message, NXR_WIRE_DEATH);
        message.header.from = from;
        message.death.dead = message.death.by = differing(other, 0);
        send_to(fd, &message, message.header.nbytes, NULL, 0);
        message.header.from = differing(from, difference);
        message.death.dead = message.death.by = other;
        send_to(fd, &message, message.header.nbytes, NULL, 0);
        is_cut_off(fd, difference);
    }
    MPT_NE(nixl_peer_state(other.rank), NIXL_PEER_LOST);
}

/* Each number of the identity is compared, and the log says which one differs. */
static void another_identity(const char *name)
{
    struct nixl_region *region = NULL;
    int peer = (nixl_rank() + 1) % nixl_size();
    uint64_t value = 1;

    MPT_OK(nixl_region_alloc(name, 64, NULL, &region));
    mpt_barrier();
    for (int rank = 0; rank < nixl_size(); rank++) {
        MPT_OK(nixl_put(rank, region, 0, &value, 8)); /* all are connected */
    }
    nixl_log_set_fn(count_differences, NULL);
    greetings_of_another(peer);
    messages_of_another(peer);
    nixl_log_set_fn(NULL, NULL);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void many_descriptors(void)
{
    union nxr_wire_message message;
    int fds[64];

    for (int i = 0; i < 64; i++) {
        fds[i] = STDOUT_FILENO;
    }
    nxr_wire_init(&message, NXR_WIRE_HELLO);
    for (int i = 0; i < 20; i++) {
        attack(&message, message.header.nbytes, fds, 64);
        attack(&message, 4, fds, 9);
    }
}

/* Many connections that say nothing, while peers are used for the first time through the same door.
 */
static void connection_flood(const char *name)
{
    enum { N = 200 };
    struct nixl_region *region = NULL;
    uint64_t word = 1;
    int fds[N];

    MPT_OK(nixl_region_alloc(name, 64, NULL, &region));
    for (int i = 0; i < N; i++) {
        fds[i] = connect_target();
    }
    mpt_barrier();
    for (int rank = 0; rank < nixl_size(); rank++) {
        MPT_OK(nixl_put(rank, region, 0, &word, 8));
    }
    mpt_barrier();
    for (int i = 0; i < N; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    MPT_TRUE(dir != NULL);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

int main(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int n_fds;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    find_socket();
    mpt_barrier();
    n_fds = count_fds();
    another_identity("another");
    random_bytes();
    messages_before_the_greeting();
    bad_pages();
    many_descriptors();
    connection_flood("flood");
    another_user();
    for (int rank = 0; rank < nixl_size(); rank++) {
        MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    }
    while (nixl_event_recv(0, &event) == NIXL_OK) {
        MPT_EQ(event.type, NIXL_EVENT_REGION_CLOSED);
    }
    /* What was accepted is dropped in time: a few connections between peers may have come. */
    for (int64_t end_ns = mpt_now_ns() + MPT_PATIENCE; count_fds() > n_fds + 4 * nixl_size();) {
        MPT_LT(mpt_now_ns(), end_ns);
    }
    mpt_barrier();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
