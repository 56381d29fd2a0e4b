/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers connect to the port of a library and silently disconnect, while the rank has something
 * to do, or stay and send nothing: they keep no descriptor, and the rank continues to talk to its
 * peer.
 */
#include "test/mp/mptest.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG_END   0xc001
#define N_CALLERS 200
#define N_SILENT  150
#define MAX_FDS   1024
#define FEW       8 /* of the library itself, or of strangers not gone yet */

static atomic_bool has_called;

static int n_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < MAX_FDS; fd++) {
        struct sockaddr_storage name;
        socklen_t nbytes = sizeof(name);

        n += getsockname(fd, (struct sockaddr *)&name, &nbytes) == 0;
    }
    return n;
}

/* The port at which this process listens for IP; false: none. */
static bool find_port(struct sockaddr_storage *name, socklen_t *nbytes_p)
{
    for (int fd = 0; fd < MAX_FDS; fd++) {
        socklen_t nbytes = sizeof(int);
        int listens = 0;

        *nbytes_p = sizeof(*name);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &nbytes) == 0 && listens != 0 &&
            getsockname(fd, (struct sockaddr *)name, nbytes_p) == 0 &&
            (name->ss_family == AF_INET || name->ss_family == AF_INET6)) {
            return true;
        }
    }
    return false;
}

static void call_and_go(const struct sockaddr_storage *name, socklen_t nbytes)
{
    int fd = socket(name->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MPT_TRUE(fd >= 0);
    MPT_EQ(connect(fd, (const struct sockaddr *)name, nbytes), 0);
    close(fd);
}

static void *call_often(void *arg)
{
    struct sockaddr_storage name;
    socklen_t nbytes;

    (void)arg;
    if (!find_port(&name, &nbytes)) {
        mpt_fail(__FILE__, __LINE__, "the library listens at no port");
    }
    for (int i = 0; i < N_CALLERS; i++) {
        call_and_go(&name, nbytes);
        usleep(1000); /* among the puts */
    }
    has_called = true;
    return NULL;
}

static void wait_for_descriptors(int n)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    static struct nixl_note note;

    nixl_note_init(&note);
    do {
        MPT_LT(mpt_now_ns(), until_ns);
        errno = EAGAIN;
        MPT_EQ(nixl_notify_recv(1, TAG_END, UINT64_MAX, MPT_MS, &note), NIXL_E_TIMEOUT);
    } while (n_descriptors() > n);
}

/* A thread that waits in the library drives the network, with whatever errno it came with. */
static void be_called(void)
{
    int before = n_descriptors();
    pthread_t thread;

    MPT_EQ(pthread_create(&thread, NULL, call_often, NULL), 0);
    while (!has_called) {
        wait_for_descriptors(MAX_FDS);
    }
    wait_for_descriptors(before + FEW);
    MPT_EQ(pthread_join(thread, NULL), 0);
}

/* There are not enough descriptors for all of them at once. Their own ends are closed last. */
static void be_called_by_silent_ones(void)
{
    int fds[N_SILENT], before = n_descriptors(), lowest = dup(0);
    struct rlimit limit;
    struct sockaddr_storage name;
    socklen_t nbytes;

    close(lowest);
    MPT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)lowest + N_SILENT + N_SILENT / 2;
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    MPT_TRUE(find_port(&name, &nbytes));
    for (int i = 0; i < N_SILENT; i++) {
        fds[i] = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MPT_TRUE(fds[i] >= 0);
    }
    for (int i = 0; i < N_SILENT; i++) {
        MPT_EQ(connect(fds[i], (const struct sockaddr *)&name, nbytes), 0);
    }
    wait_for_descriptors(before + N_SILENT + FEW);
    for (int i = 0; i < N_SILENT; i++) {
        close(fds[i]);
    }
}

/* Until rank 0 has seen enough. */
static void put_meanwhile(struct nixl_region *region)
{
    int64_t until_ns = mpt_now_ns() + 2 * MPT_PATIENCE;
    static struct nixl_note note;
    uint64_t word = 7;

    nixl_note_init(&note);
    do {
        MPT_LT(mpt_now_ns(), until_ns);
        MPT_OK(nixl_put(0, region, 0, &word, sizeof(word)));
        MPT_OK(nixl_flush(0, MPT_PATIENCE));
    } while (nixl_notify_recv(0, TAG_END, UINT64_MAX, 0, &note) == NIXL_E_TIMEOUT);
}

int main(void)
{
    struct nixl_region *region = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("callers", sizeof(uint64_t), NULL, &region));
    mpt_barrier();
    if (nixl_rank() == 0) {
        be_called();
        be_called_by_silent_ones();
        MPT_OK(nixl_notify(1, TAG_END, NULL, 0, MPT_PATIENCE));
    } else {
        put_meanwhile(region);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
