/* SPDX-License-Identifier: Apache-2.0 */
/* Full queues, and sleeping: no lost wake-up, no spinning. */
#include "config.h"

#include "network_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define N_FLOOD      20000u
#define N_ROUNDS     3000u
#define FLOOD_NBYTES 4096u
#define QUIET_MS     500
#define N_QUIET      20

/* ---- full queues ----------------------------------------------------------------------------- */

static uint64_t next;

static void in_order(const struct nt_header *header, size_t nbytes)
{
    (void)nbytes;
    MPT_EQ(header->number, next);
    next++;
}

/*
 * The target sleeps while the sender pours: after AGAIN nothing has happened, and what was accepted
 * ends once.
 */
static void flood(void)
{
    static struct nt_op ops[N_FLOOD];
    char *buffers = malloc((size_t)N_FLOOD * FLOOD_NBYTES);
    unsigned n_sent = 0, n_taken = 0;
    bool was_full = false;

    MPT_TRUE(buffers != NULL);
    nt_on_message = in_order;
    for (unsigned i = 0; nt_rank == 0 && i < N_FLOOD; i++) {
        nt_make(buffers + (size_t)i * FLOOD_NBYTES, FLOOD_NBYTES, 0, i);
    }
    while (nt_rank == 0 && !was_full && n_sent < N_FLOOD) {
        int status = nt_net->send(nt_eps[1], buffers + (size_t)n_sent * FLOOD_NBYTES, FLOOD_NBYTES,
                                  NULL, 0, &ops[n_sent].op);

        was_full = status == NIXL_E_AGAIN;
        MPT_TRUE(was_full || status == NIXL_OK || status == NIXL_INPROGRESS);
        if (!was_full) {
            ops[n_sent].is_taken = status == NIXL_INPROGRESS;
            n_taken += ops[n_sent].is_taken;
            n_sent++;
        }
    }
    if (nt_rank == 0) {
        MPT_TRUE(was_full);
        nt_tell(1, "", 1);
    } else {
        nt_doze(0);
    }
    for (; nt_rank == 0 && n_sent < N_FLOOD; n_sent++) {
        nt_send(1, buffers + (size_t)n_sent * FLOOD_NBYTES, FLOOD_NBYTES, NULL, 0, &ops[n_sent]);
        n_taken += ops[n_sent].is_taken;
    }
    if (nt_rank == 0) {
        nt_until_count(&nt_told.n_ended, n_taken, "all operations ended");
        MPT_EQ(nt_told.n_ended, n_taken);
        MPT_EQ(nt_told.n_ended_badly, 0);
    } else {
        nt_until_count(&next, N_FLOOD, "all messages came");
    }
    nt_barrier();
    free(buffers);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void sleep_until(uint64_t n_received)
{
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;

    while (nt_told.n_received < n_received) {
        if (!nt_sleep(NT_WAIT_NS / MPT_MS) && nt_drive() == 0) {
            mpt_fail(__FILE__, __LINE__, "no wake-up for message %u", (unsigned)n_received);
        }
        nt_drive();
        MPT_LT(mpt_now_ns(), deadline);
    }
}

/* Both sleep in turn; the sender waits a random time, so that the other is in any state. */
static void sleep_in_turn(void)
{
    char buffer[64];
    struct nt_op op = {.is_taken = false};
    uint64_t state = nt_rank;

    for (uint64_t i = 0; i < N_ROUNDS; i++) {
        int64_t until = mpt_now_ns() + (int64_t)(mpt_random(&state) % (60 * MPT_US));

        if (nt_rank == 1) {
            sleep_until(i + 1);
        }
        while (mpt_now_ns() < until) {
        }
        nt_make(buffer, sizeof(buffer), 0, i);
        nt_send(!nt_rank, buffer, sizeof(buffer), NULL, 0, &op);
        nt_until_ended(&op, NIXL_OK);
        if (nt_rank == 0) {
            sleep_until(i + 1);
        }
    }
}

static char *memory;
static uint64_t n_bulks;

static void *take(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    (void)header;
    (void)nbytes;
    *cookie_p = NULL;
    return memory;
}

static void landed(void *cookie, int status)
{
    (void)cookie;
    MPT_OK(status);
    n_bulks++;
}

/* Bulk needs both sides: neither may sleep meanwhile. */
static void sleep_for_bulk(void)
{
    size_t nbytes = 4 * 1024 * 1024;
    char header[64];
    struct nt_op op = {.is_taken = false};

    if (!nt_net->attr()->has_bulk) {
        return;
    }
    memory = calloc(1, nbytes);
    MPT_TRUE(memory != NULL);
    nt_on_incoming = take;
    nt_on_landed = landed;
    for (unsigned i = 0; i < 50; i++) {
        if (nt_rank == 0) {
            nt_make(header, sizeof(header), 0, i);
            nt_send(1, header, sizeof(header), memory, nbytes, &op);
        }
        while (nt_rank == 0 ? op.is_taken && op.n_ends == 0 : n_bulks <= i) {
            if (!nt_sleep(NT_WAIT_NS / MPT_MS) && nt_drive() == 0) {
                mpt_fail(__FILE__, __LINE__, "no wake-up, bulk %u", i);
            }
            nt_drive();
        }
    }
    nt_barrier();
    free(memory);
}

static int64_t cpu_ns(void)
{
    struct timespec now;

    MPT_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return now.tv_sec * MPT_S + now.tv_nsec;
}

/* The processor time of a while with nothing to do. */
static int64_t idle_cpu_ns(void)
{
    int64_t before = cpu_ns(), until = mpt_now_ns() + QUIET_MS * MPT_MS;

    while (mpt_now_ns() < until) {
        if (nt_sleep(QUIET_MS)) {
            nt_drive();
        }
    }
    return cpu_ns() - before;
}

/*
 * Connected and with nothing to do: the descriptor stays quiet. A virtual machine may count time
 * that others took as ours, so one quiet while of many is enough: what spins has none.
 */
static void stay_quiet(void)
{
    int fd = nt_net->event_fd(), n = 0;

    sleep_in_turn();
    nt_barrier();
    while (idle_cpu_ns() >= QUIET_MS * MPT_MS / 20) {
        MPT_LT(++n, N_QUIET);
    }
    MPT_EQ(nt_net->event_fd(), fd);
    nt_barrier();
}

const struct nt_case nt_wait_cases[] = {
    {.text = "a full queue says AGAIN, and nothing is lost", .n_processes = 2, .run = flood},
    {.text = "both sleep in turn, and no wake-up is lost", .n_processes = 2, .run = sleep_in_turn},
    {.text = "bulk moves between two that sleep", .n_processes = 2, .run = sleep_for_bulk},
    {.text = "connected and idle costs nothing", .n_processes = 2, .run = stay_quiet},
    {.text = NULL},
};
