/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage between hosts, where no page can be shared: a TCP connection from every rank to rank 0,
 * which carries barriers and decisions, and the bare lanes of bare_tcp.c, one after the other.
 * While a rank waits in the barrier it polls the library, so that it is a target that is awake. No
 * locks: one thread.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ADDRESSES 16
#define CONNECT_MS    2000 /* for one address; those of other networks may swallow everything */
#define TAG_INVITE    UINT64_C(0x62656e6368000001)
#define TAG_NEVER     UINT64_C(0x62656e6368000002) /* nobody sends it */
#define LIBRARY_POLLS 64                           /* between two looks at the socket */

/* Where rank 0 listens, and what proves that a caller was invited. */
struct invitation {
    uint64_t token;
    uint16_t port;
    uint16_t n_addresses;
    struct in_addr addresses[MAX_ADDRESSES];
};

struct hello {
    uint64_t token;
    int64_t rank;
};

struct wire {
    int fds[BENCH_MAX_RANKS]; /* on rank 0 one for each other rank; else only that of rank 0 */
};

/* ---- bytes ---- */

void wire_send(struct bench *bench, int rank, const void *data, size_t nbytes)
{
    const unsigned char *bytes = data;

    while (nbytes > 0) {
        ssize_t n = send(bench->wire->fds[rank], bytes, nbytes, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            bench_die("nixl_bench: sending to rank %d: %s", rank, strerror(errno));
        }
        if (n > 0) {
            bytes += n;
            nbytes -= (size_t)n;
        }
    }
}

/* Take what is there, at most `nbytes`; 0 if nothing is. */
static size_t take(int fd, int rank, void *data, size_t nbytes, int flags)
{
    ssize_t n = recv(fd, data, nbytes, flags);

    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        bench_die("nixl_bench: receiving from rank %d: %s", rank,
                  n == 0 ? "it has left" : strerror(errno));
    }
    return n > 0 ? (size_t)n : 0;
}

void wire_receive(struct bench *bench, int rank, void *data, size_t nbytes, bool may_sleep)
{
    unsigned char *bytes = data;

    while (nbytes > 0) {
        size_t n = take(bench->wire->fds[rank], rank, bytes, nbytes, may_sleep ? 0 : MSG_DONTWAIT);

        bytes += n;
        nbytes -= n;
    }
}

/* ---- barrier and decisions ---- */

/* A process apart may detach right after its last byte: the connection tells of its end. */
static void poll_library(void)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    for (int i = 0; i < LIBRARY_POLLS; i++) {
        status = nixl_notify_recv(NIXL_ANY_RANK, TAG_NEVER, UINT64_MAX, 0, &note);
        if (status != NIXL_INPROGRESS && status != NIXL_E_PEER_LOST) {
            bench_check(status, "waiting for the others");
        }
    }
}

bool wire_is_told(struct bench *bench)
{
    unsigned char byte;

    return take(bench->wire->fds[0], 0, &byte, 1, MSG_DONTWAIT) == 1;
}

void wire_tell(struct bench *bench, int n_ranks)
{
    for (int rank = 1; rank <= n_ranks; rank++) {
        wire_send(bench, rank, "", 1);
    }
}

static void await_byte(struct bench *bench, int rank)
{
    unsigned char byte;
    unsigned n_spins = 0;

    while (take(bench->wire->fds[rank], rank, &byte, 1, MSG_DONTWAIT) == 0) {
        poll_library();
        bench_pause(&n_spins);
    }
}

void wire_barrier(struct bench *bench)
{
    if (bench->rank != 0) {
        wire_send(bench, 0, "", 1);
        await_byte(bench, 0);
        return;
    }
    for (int rank = 1; rank < bench->size; rank++) {
        await_byte(bench, rank);
    }
    wire_tell(bench, bench->size - 1);
}

int64_t wire_decide(struct bench *bench, int64_t value)
{
    if (bench->rank != 0) {
        wire_receive(bench, 0, &value, sizeof(value), false);
        return value;
    }
    for (int rank = 1; rank < bench->size; rank++) {
        wire_send(bench, rank, &value, sizeof(value));
    }
    return value;
}

/* ---- connecting ---- */

static void set_up(int fd)
{
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
        bench_die("nixl_bench: TCP_NODELAY: %s", strerror(errno));
    }
}

/* All addresses of this host: its loopback only where no rank is on another. */
static void list_addresses(struct invitation *invitation, bool is_on_host)
{
    struct ifaddrs *list;

    if (getifaddrs(&list) != 0) {
        bench_die("nixl_bench: listing the addresses of rank 0: %s", strerror(errno));
    }
    for (const struct ifaddrs *item = list; item != NULL; item = item->ifa_next) {
        if (item->ifa_addr != NULL && item->ifa_addr->sa_family == AF_INET &&
            (item->ifa_flags & IFF_UP) != 0 &&
            (is_on_host || (item->ifa_flags & IFF_LOOPBACK) == 0) &&
            invitation->n_addresses < MAX_ADDRESSES) {
            const struct sockaddr_in *address = (const void *)item->ifa_addr;

            invitation->addresses[invitation->n_addresses++] = address->sin_addr;
        }
    }
    freeifaddrs(list);
    if (invitation->n_addresses == 0) {
        bench_die("nixl_bench: rank 0 has no IPv4 address that other hosts could reach");
    }
}

static int start_listening(struct invitation *invitation, bool is_on_host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t nbytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, BENCH_MAX_RANKS) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &nbytes) != 0 ||
        getrandom(&invitation->token, sizeof(invitation->token), 0) !=
            (ssize_t)sizeof(invitation->token)) {
        bench_die("nixl_bench: listening for the other ranks: %s", strerror(errno));
    }
    invitation->port = address.sin_port;
    list_addresses(invitation, is_on_host);
    return fd;
}

/* Wait for one more rank; whoever was not invited is sent away. Returns how many ranks came. */
static int accept_rank(struct bench *bench, int listener, uint64_t token)
{
    struct timeval patience = {.tv_sec = CONNECT_MS / 1000};
    struct pollfd item = {.fd = listener, .events = POLLIN};
    struct hello hello;
    int fd;

    if (poll(&item, 1, (int)(BENCH_TIMEOUT_NS / NXR_MS)) <= 0 ||
        (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        bench_die("nixl_bench: not all ranks reached rank 0 by TCP");
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        recv(fd, &hello, sizeof(hello), MSG_WAITALL) != (ssize_t)sizeof(hello) ||
        hello.token != token || hello.rank < 1 || hello.rank >= bench->size ||
        bench->wire->fds[hello.rank] >= 0) {
        close(fd);
        return 0;
    }
    patience.tv_sec = 0; /* forever */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) {
        bench_die("nixl_bench: SO_RCVTIMEO: %s", strerror(errno));
    }
    set_up(fd);
    bench->wire->fds[hello.rank] = fd;
    return 1;
}

/* A connection to one address within CONNECT_MS, or -1. */
static int try_address(struct in_addr host, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr = host};
    struct timeval patience = {.tv_sec = CONNECT_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
                    connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void connect_first(struct bench *bench, const struct invitation *invitation)
{
    struct timeval forever = {.tv_sec = 0};
    struct hello hello = {.token = invitation->token, .rank = bench->rank};
    int fd = -1;

    for (int i = 0; fd < 0 && i < invitation->n_addresses && i < MAX_ADDRESSES; i++) {
        fd = try_address(invitation->addresses[i], invitation->port);
    }
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever)) != 0) {
        bench_die("nixl_bench: rank %d reaches no address of rank 0 by TCP", bench->rank);
    }
    set_up(fd);
    bench->wire->fds[0] = fd;
    wire_send(bench, 0, &hello, sizeof(hello));
}

/* What the library calls a rank, which is a process apart if it is not of this job. */
static int number_of(const struct bench *bench, int rank)
{
    return nixl_size() > 1 ? rank : bench->peer;
}

static bool is_any_remote(const struct bench *bench)
{
    for (int rank = 1; rank < bench->size; rank++) {
        int scope = nixl_scope(number_of(bench, rank));

        bench_check(scope < 0 ? scope : NIXL_OK, "nixl_scope");
        if (scope == NIXL_SCOPE_REMOTE) {
            return true;
        }
    }
    return false;
}

/* Rank 0 knows where the others are and sends that to them, by the library. */
void wire_open(struct bench *bench)
{
    struct invitation invitation = {.port = 0};
    struct nixl_note note;
    int listener = -1;

    nixl_note_init(&note);
    if (bench->rank == 0) {
        bool is_remote = is_any_remote(bench);

        if (is_remote || bench->options.is_by_tcp) {
            listener = start_listening(&invitation, !is_remote);
        }
    }
    for (int rank = 1; bench->rank == 0 && rank < bench->size; rank++) {
        bench_check(nixl_notify(number_of(bench, rank), TAG_INVITE, &invitation, sizeof(invitation),
                                BENCH_TIMEOUT_NS),
                    "nixl_notify");
    }
    if (bench->rank != 0) {
        bench_check(
            nixl_notify_recv(number_of(bench, 0), TAG_INVITE, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
            "nixl_notify_recv");
        memcpy(&invitation, note.payload, sizeof(invitation));
    }
    if (invitation.port == 0) {
        return; /* all share the page */
    }
    bench->wire = malloc(sizeof(*bench->wire));
    if (bench->wire == NULL) {
        bench_die("nixl_bench: no memory for connections");
    }
    memset(bench->wire->fds, -1, sizeof(bench->wire->fds));
    if (bench->rank != 0) {
        connect_first(bench, &invitation);
        return;
    }
    for (int n_ranks = 1; n_ranks < bench->size;) {
        n_ranks += accept_rank(bench, listener, invitation.token);
    }
    close(listener);
}

void wire_close(struct bench *bench)
{
    for (int rank = 0; rank < bench->size; rank++) {
        if (bench->wire->fds[rank] >= 0) {
            close(bench->wire->fds[rank]);
        }
    }
    free(bench->wire);
    bench->wire = NULL;
}
