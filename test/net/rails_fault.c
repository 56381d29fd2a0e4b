/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer is stopped, or killed, while the pieces of a block are on their way over several rails.
 *
 *     rails_fault stop|cut|kill put|get
 *
 * Rank 0 moves a block to or from the last rank, on another host: one to have all rails in use, and
 * one in the midst of which the peer is stopped or killed. The .mp file has limited the rate of the
 * rails. A stopped peer loses no rail, since its host acknowledges what is sent, and no byte once
 * it goes on. If the link of a rail is cut while it is stopped (cut), the pieces of that rail go by
 * the other one soon after it goes on. Of a killed one rank 0 hears at once; the memory of a get
 * that has ended stays as it is.
 */
#include "test/net/bed.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_PID   0x9f01
#define TAG_NEVER 0x9f02

#define NBYTES    ((64ull << 20) + 4099) /* 0.5 s; the last piece is a short one */
#define BEFORE_NS (100 * MPT_MS)         /* of the block, before the fault */
#define STOP_NS   (4 * MPT_S)  /* longer than its host leaves questions for room unanswered */
#define CUT_NS    (20 * MPT_S) /* a cut rail is left: far less than TCP itself takes */

static atomic_uint n_joined, n_failed;

static int other;
static bool is_put, is_cut;
static struct nixl_region *region;
static unsigned char *memory;

static void hear_log(enum nixl_log_level level, const char *subsystem, const char *text, void *arg)
{
    (void)level;
    (void)arg;
    n_joined += strstr(text, "is joined as a rail") != NULL;
    n_failed += strstr(text, "a connection by") != NULL && strstr(text, "has failed") != NULL;
    fprintf(stderr, "%s: %s\n", subsystem, text);
}

static pid_t exchange_pid(void)
{
    static struct nixl_note note;
    pid_t pid = getpid();

    if (nixl_rank() != 0) {
        MPT_OK(nixl_notify(0, TAG_PID, &pid, sizeof(pid), MPT_PATIENCE));
        return 0;
    }
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(other, TAG_PID, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&pid, note.payload, sizeof(pid));
    MPT_TRUE(pid > 1);
    return pid;
}

static struct nixl_req *begin_block(void)
{
    struct nixl_req *req = NULL;

    MPT_STATUS(is_put ? nixl_put_x(other, region, 0, memory, NBYTES, NULL, &req)
                      : nixl_get_x(other, region, 0, memory, NBYTES, NULL, &req),
               NIXL_INPROGRESS);
    return req;
}

/* A block that is on its way for some time. */
static struct nixl_req *begin_some_of_block(void)
{
    int64_t began_ns = mpt_now_ns();
    struct nixl_req *req = begin_block();

    MPT_STATUS(nixl_req_wait(&req, BEFORE_NS), NIXL_E_TIMEOUT);
    printf("%.3f s\n", (double)(mpt_now_ns() - began_ns) / MPT_S);
    return req;
}

static void fill(uint64_t seed)
{
    if ((nixl_rank() == 0) == is_put) {
        mpt_fill(is_put ? memory : nixl_region_addr(region), NBYTES, seed);
    } else {
        memset(is_put ? nixl_region_addr(region) : memory, 0, NBYTES);
    }
    mpt_barrier();
}

static void check(uint64_t seed)
{
    mpt_barrier();
    if (nixl_rank() == 0 && !is_put) {
        MPT_CHECK(memory, NBYTES, seed);
    } else if (nixl_rank() != 0 && is_put) {
        MPT_CHECK(nixl_region_addr(region), NBYTES, seed);
    }
}

static void move_with_all_rails(void)
{
    fill(1);
    if (nixl_rank() == 0) {
        struct nixl_req *req = begin_block();

        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
        MPT_LT(0, n_joined);
    }
    check(1);
}

static void move_with_a_stop(pid_t pid)
{
    fill(2);
    if (nixl_rank() == 0) {
        struct nixl_req *req = begin_some_of_block();

        mpt_bring(pid, SIGSTOP, "T");
        MPT_STATUS(nixl_req_wait(&req, STOP_NS), NIXL_E_TIMEOUT);
        if (is_cut) {
            bed_link("cut h%d 1", mpt_host_of(other));
        }
        MPT_EQ(kill(pid, SIGCONT), 0);
        MPT_OK(nixl_req_wait(&req, is_cut ? CUT_NS : MPT_PATIENCE));
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
        MPT_EQ(n_failed, is_cut);
    }
    check(2);
}

static void move_with_a_kill(pid_t pid)
{
    static struct nixl_note note;
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_req *req;

    fill(3);
    if (nixl_rank() != 0) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, TAG_NEVER, UINT64_MAX, MPT_PATIENCE, &note));
        return;
    }
    req = begin_some_of_block();
    mpt_bring(pid, SIGKILL, "Z-");
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_PEER_LOST);
    memset(memory, 0x5a, NBYTES);
    MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, other);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(other, TAG_NEVER, UINT64_MAX, MPT_S, &note), NIXL_E_PEER_LOST);
    MPT_CHECK_BYTES(memory, NBYTES, 0x5a);
}

int main(int argc, char **argv)
{
    bool is_kill;
    pid_t pid;

    mpt_start();
    MPT_EQ(argc, 3);
    is_kill = strcmp(argv[1], "kill") == 0;
    is_cut = strcmp(argv[1], "cut") == 0;
    is_put = strcmp(argv[2], "put") == 0;
    setenv("NIXLRUN_LOG", "info", 1);
    nixl_log_set_fn(hear_log, NULL);
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    memory = malloc(NBYTES);
    MPT_TRUE(memory != NULL);
    MPT_OK(nixl_region_alloc("rails", NBYTES, NULL, &region));
    pid = exchange_pid();
    move_with_all_rails();
    if (is_kill) {
        move_with_a_kill(pid);
        mpt_finalize();
    } else {
        move_with_a_stop(pid);
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        MPT_OK(nixl_finalize());
    }
    free(memory);
    return mpt_passed();
}
