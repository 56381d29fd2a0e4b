/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bare TCP connection: what every library that runs over it is held against. Rank 1 listens on
 * PEER_ADDRESS. A put is the data and an answer of one byte, a get is a request of 8 bytes and the
 * data, a window is one stream with one answer; all of it lands where a put would. Waiting spins,
 * or with PEER_BLOCKING=1 sleeps in the kernel.
 */
#include "pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define ANSWER_NBYTES  1
#define REQUEST_NBYTES 8

static int fd, wait_flag;
static unsigned char *mine, *local;

static void send_all(const unsigned char *bytes, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = send(fd, bytes, nbytes, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            pair_die("send");
        }
        if (n > 0) {
            bytes += n;
            nbytes -= (size_t)n;
        }
    }
}

static void receive_all(unsigned char *bytes, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = recv(fd, bytes, nbytes, wait_flag);

        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            pair_die("recv");
        }
        if (n > 0) {
            bytes += n;
            nbytes -= (size_t)n;
        }
    }
}

static void stand_still(void)
{
}

static void barrier(void)
{
    pair_barrier(stand_still);
}

static void put(long count)
{
    if (peer_rank == 0) {
        for (long i = 0; i < count; i++) {
            send_all(local, peer_nbytes);
        }
        receive_all(mine, ANSWER_NBYTES);
    } else {
        for (long i = 0; i < count; i++) {
            receive_all(mine, peer_nbytes);
        }
        send_all(local, ANSWER_NBYTES);
    }
}

static void get(long count)
{
    if (peer_rank == 0) {
        send_all(local, REQUEST_NBYTES);
        for (long i = 0; i < count; i++) {
            receive_all(mine, peer_nbytes);
        }
    } else {
        receive_all(mine, REQUEST_NBYTES);
        for (long i = 0; i < count; i++) {
            send_all(local, peer_nbytes);
        }
    }
}

static void put_signal(size_t nbytes)
{
    send_all(local, nbytes);
}

static void wait_signal(void)
{
    receive_all(mine, peer_nbytes);
}

static void connect_pair(void)
{
    const char *text = getenv("PEER_ADDRESS");
    struct sockaddr_in address = {.sin_family = AF_INET}, *theirs;
    socklen_t nbytes = sizeof(address);
    int listener, one = 1;

    if (inet_pton(AF_INET, text != NULL ? text : "127.0.0.1", &address.sin_addr) != 1) {
        pair_die("PEER_ADDRESS");
    }
    fd = listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer_rank == 1 && (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
                           listen(listener, 1) != 0 ||
                           getsockname(listener, (struct sockaddr *)&address, &nbytes) != 0)) {
        pair_die("listen");
    }
    theirs = pair_swap(&address, sizeof(address));
    if (peer_rank == 1) {
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        close(listener);
    } else if (connect(fd, (struct sockaddr *)theirs, sizeof(*theirs)) != 0) {
        pair_die("connect");
    }
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
        pair_die("connect");
    }
}

int main(void)
{
    const struct peer_calls calls = {.barrier = barrier,
                                     .put = put,
                                     .get = get,
                                     .put_signal = put_signal,
                                     .wait_signal = wait_signal,
                                     .is_two_sided = true};

    pair_start();
    wait_flag = getenv("PEER_BLOCKING") != NULL ? 0 : MSG_DONTWAIT;
    if (posix_memalign((void **)&mine, 4096, PEER_DATA_NBYTES) != 0 ||
        posix_memalign((void **)&local, 4096, PEER_DATA_NBYTES) != 0) {
        pair_die("malloc");
    }
    memset(mine, 0, PEER_DATA_NBYTES);
    memset(local, 0, PEER_DATA_NBYTES);
    connect_pair();
    peer_run(&calls);
    pair_end();
}
