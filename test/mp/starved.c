/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An owner without a free descriptor at the moment when a peer offers its bounce buffer: the offer
 * waits in the socket, and the put goes on when there are descriptors again. Before that, such an
 * offer was lost, and all puts of this peer to registered memory hung.
 */
#include "mptest.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TAG_NONE_LEFT 0x57a1
#define TAG_CONNECTED 0x57a2

enum { NBYTES = 4 << 20, MAX_FDS = 256 };

static unsigned char memory[NBYTES];
static atomic_int n_starved;

static void hear_log(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    n_starved += strstr(text, "no descriptor is left for what") != NULL;
}

static int fds[MAX_FDS], n_fds;

static void take_all(void)
{
    while (n_fds < MAX_FDS && (fds[n_fds] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        n_fds++;
    }
    MPT_LT(n_fds, MAX_FDS);
}

/*
 * Take all descriptors until a message that needs one has come, or the bytes have. The peer has
 * connected before, since accepting a connection needs a descriptor, too.
 */
static void starve(void)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    struct rlimit limit;

    (void)mpt_hear(1, TAG_CONNECTED);
    MPT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = MAX_FDS;
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    take_all();
    MPT_OK(nixl_notify(1, TAG_NONE_LEFT, NULL, 0, MPT_PATIENCE));
    while (n_starved == 0 && *(volatile unsigned char *)&memory[NBYTES - 1] == 0) {
        MPT_LT(mpt_now_ns(), until_ns);
        take_all(); /* the library may have closed one meanwhile */
    }
    while (n_fds > 0) {
        MPT_EQ(close(fds[--n_fds]), 0);
    }
}

static void put_into(struct nixl_region *region)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_note note;
    uint64_t one = 1, before;

    MPT_OK(nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &before));
    MPT_OK(nixl_notify(0, TAG_CONNECTED, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_NONE_LEFT, UINT64_MAX, MPT_PATIENCE, &note));
    mpt_fill(memory, NBYTES, 5);
    op.timeout_ns = MPT_PATIENCE;
    MPT_OK(nixl_put_x(0, region, 0, memory, NBYTES, &op, NULL));
}

int main(void)
{
    struct nixl_region *region = NULL;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    if (nixl_rank() == 0) {
        nixl_log_set_fn(hear_log, NULL);
        MPT_OK(nixl_region_register("starved", memory, NBYTES, NULL, &region));
    } else {
        MPT_OK(nixl_region_open("starved", &region));
    }
    mpt_barrier();
    if (nixl_rank() == 0) {
        starve();
    } else {
        put_into(region);
    }
    mpt_barrier();
    if (nixl_rank() == 0) {
        MPT_CHECK(memory, NBYTES, 5);
        nixl_log_set_fn(NULL, NULL);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
