/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is killed while bytes move. The other hears of it once, each of its operations ends
 * once, memory that was lent out comes back, and the network goes on.
 */
#include "config.h"

#include "network_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_BULKS 16u
#define NBYTES  (16 * 1024 * 1024ul)

static char *memory;
static struct nt_op ops[N_BULKS], small_ops[N_BULKS];
static char headers[N_BULKS][64], small[N_BULKS][64];

static void *take(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    (void)nbytes;
    *cookie_p = (void *)(uintptr_t)(header->number + 1);
    return memory;
}

static bool has_failed(const void *arg)
{
    return nt_told.n_failed[*(const int *)arg] > 0;
}

static bool all_ended(const void *arg)
{
    const uint64_t *n_taken = arg;

    return nt_told.n_ended >= *n_taken;
}

/* After a death: drive it on for a while; nothing more may be reported. */
static void rest(int dead)
{
    int64_t until = mpt_now_ns() + 300 * MPT_MS;

    while (mpt_now_ns() < until) {
        nt_drive();
    }
    MPT_EQ(nt_told.n_failed[dead], 1);
}

static void close_dead(int dead)
{
    uint64_t n_told = nt_told.n_ended;

    nt_is_dead[dead] = true;
    nt_net->ep_close(nt_eps[dead], false);
    nt_eps[dead] = NULL;
    nt_drive();
    MPT_EQ(nt_told.n_ended, n_told);
}

static void say(int to, unsigned i)
{
    nt_make(small[i], sizeof(small[i]), 0, i);
    nt_send(to, small[i], sizeof(small[i]), NULL, 0, &small_ops[i]);
}

/* Without bulk there is nothing to see here: the process that is to be killed ends itself. */
static bool has_bulk(int dead)
{
    if (!nt_net->attr()->has_bulk) {
        if (nt_rank == dead) {
            nt_die();
        }
        nt_is_dead[dead] = true;
    }
    return nt_net->attr()->has_bulk;
}

/* ---- the receiver of bulk dies --------------------------------------------------------------- */

static void *die_within(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    if (header->number == 2) {
        nt_die();
    }
    return take(header, nbytes, cookie_p);
}

static void receiver_dies(void)
{
    int dead = 1, status = NIXL_OK;
    uint64_t n_taken = 0;

    if (!has_bulk(dead)) {
        return;
    }
    memory = calloc(1, NBYTES);
    MPT_TRUE(memory != NULL);
    nt_on_incoming = die_within;
    if (nt_rank == dead) {
        nt_until_count(&nt_told.n_landed, N_BULKS, "this process was killed");
    }
    /* A sender that waits for room may hear of the death before it has sent all. */
    for (unsigned i = 0; i < N_BULKS && status != NIXL_E_TRANSPORT; i++) {
        nt_make(headers[i], sizeof(headers[i]), 0, i);
        status = nt_try_send(dead, headers[i], sizeof(headers[i]), memory, NBYTES, &ops[i]);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS || status == NIXL_E_TRANSPORT);
        n_taken += ops[i].is_taken;
    }
    nt_until(has_failed, &dead, "the death is told");
    nt_until(all_ended, &n_taken, "all operations ended");
    MPT_EQ(nt_told.n_ended, n_taken);
    MPT_TRUE(status == NIXL_E_TRANSPORT || nt_told.n_ended_badly >= 1);
    MPT_EQ(nt_net->send(nt_eps[dead], headers[0], sizeof(headers[0]), NULL, 0, &ops[0].op),
           NIXL_E_TRANSPORT);
    rest(dead);
    close_dead(dead);
    free(memory);
}

/* ---- the sender of bulk dies ----------------------------------------------------------------- */

static uint64_t n_lent;

static void *lend(const struct nt_header *header, size_t nbytes, void **cookie_p)
{
    n_lent++;
    return take(header, nbytes, cookie_p);
}

static bool all_is_back(const void *arg)
{
    (void)arg;
    return nt_told.n_landed == n_lent;
}

static void sender_dies(void)
{
    int dead = 1;

    if (!has_bulk(dead)) {
        return;
    }
    memory = calloc(1, NBYTES);
    MPT_TRUE(memory != NULL);
    nt_on_incoming = lend;
    say(!nt_rank, 0);
    nt_until_count(&nt_told.n_received, 1, "the other was heard");
    if (nt_rank == dead) {
        for (unsigned i = 0; i < N_BULKS; i++) {
            nt_make(headers[i], sizeof(headers[i]), 0, i);
            nt_send(0, headers[i], sizeof(headers[i]), memory, NBYTES, &ops[i]);
        }
        nt_until_count(&nt_told.n_ended, 2, "two are through");
        nt_die();
    }
    nt_until(has_failed, &dead, "the death is told");
    nt_until(all_is_back, NULL, "all memory is back");
    MPT_GE(n_lent, 2);
    rest(dead);
    close_dead(dead);
    free(memory);
}

/* ---- one of three ---------------------------------------------------------------------------- */

/* The survivors continue, and the dead peer's silence is not theirs. */
static void one_of_three(void)
{
    int dead = 2;

    for (int rank = 0; rank < nt_size; rank++) {
        if (rank != nt_rank) {
            say(rank, rank);
        }
    }
    nt_until_count(&nt_told.n_received, 2, "both were heard");
    if (nt_rank == dead) {
        nt_die();
    }
    nt_until(has_failed, &dead, "the death is told");
    for (unsigned i = 0; i < N_BULKS; i++) {
        nt_until_ended(&small_ops[i], NIXL_OK);
        say(!nt_rank, i);
        nt_until_count(&nt_told.n_received, 2 + i + 1, "the living one was heard");
    }
    rest(dead);
    MPT_EQ(nt_told.n_failed[!nt_rank], 0);
    close_dead(dead);
    nt_barrier();
}

/* ---- a death while connecting ---------------------------------------------------------------- */

/* At any step of the first contact: the pid chooses which. */
static void first_contact(void)
{
    int dead = 1;
    int64_t until = mpt_now_ns() + getpid() % 40 * 20 * MPT_US;
    int status;

    nt_make(small[0], sizeof(small[0]), 0, 0);
    status = nt_try_send(!nt_rank, small[0], sizeof(small[0]), NULL, 0, &small_ops[0]);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS || status == NIXL_E_TRANSPORT);
    if (nt_rank == dead) {
        while (mpt_now_ns() < until) {
            nt_drive();
        }
        nt_die();
    }
    nt_until(has_failed, &dead, "the death is told");
    nt_until_ended(&small_ops[0], small_ops[0].status);
    rest(dead);
    close_dead(dead);
}

/* ---- a death that is found in sleep ---------------------------------------------------------- */

static void found_asleep(void)
{
    int dead = 1;
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;

    say(!nt_rank, 0);
    nt_until_count(&nt_told.n_received, 1, "the other was heard");
    if (nt_rank == dead) {
        int64_t until = mpt_now_ns() + 100 * MPT_MS;

        while (mpt_now_ns() < until) {
            nt_drive();
        }
        nt_die();
    }
    while (nt_told.n_failed[dead] == 0) {
        MPT_LT(mpt_now_ns(), deadline);
        (void)nt_sleep(NT_WAIT_NS / MPT_MS);
        nt_drive();
    }
    rest(dead);
    close_dead(dead);
}

/* ---- closed before it has ended -------------------------------------------------------------- */

/* The peer is taken for dead, though it only never asks for what is offered. */
static void closed_by_force(void)
{
    static struct nt_op op;
    int64_t until;

    if (!has_bulk(1)) {
        return;
    }
    memory = calloc(1, NBYTES);
    MPT_TRUE(memory != NULL);
    nt_on_incoming = lend;
    for (unsigned i = 0; i < 2; i++) {
        say(!nt_rank, i); /* the connection is open after the second */
        nt_until_count(&nt_told.n_received, i + 1, "the other was heard");
    }
    if (nt_rank == 1) {
        nt_doze(0);
        nt_until_count(&nt_told.n_landed, n_lent, "all memory is back");
        nt_die();
    }
    nt_make(headers[0], sizeof(headers[0]), 0, 0);
    nt_send(1, headers[0], sizeof(headers[0]), memory, NBYTES, &op);
    MPT_TRUE(op.is_taken);
    nt_net->ep_close(nt_eps[1], false);
    nt_eps[1] = NULL;
    until = mpt_now_ns() + NT_WAIT_NS;
    while (op.n_ends == 0 && mpt_now_ns() < until) {
        nt_drive();
    }
    MPT_EQ(op.n_ends, 1);
    MPT_EQ(op.status, NIXL_E_CANCELED);
    nt_tell(1, "", 1);
    nt_is_dead[1] = true;
    until = mpt_now_ns() + 300 * MPT_MS;
    while (mpt_now_ns() < until) {
        nt_drive();
    }
    MPT_EQ(nt_told.n_failed[1], 0);
    free(memory);
}

const struct nt_case nt_death_cases[] = {
    {.text = "the receiver of bulk is killed", .n_processes = 2, .run = receiver_dies, .killed = 1},
    {.text = "the sender of bulk is killed", .n_processes = 2, .run = sender_dies, .killed = 1},
    {.text = "a process is killed at the first contact",
     .n_processes = 2,
     .run = first_contact,
     .killed = 1},
    {.text = "one of three is killed", .n_processes = 3, .run = one_of_three, .killed = 2},
    {.text = "a sleeper hears of a death", .n_processes = 2, .run = found_asleep, .killed = 1},
    {.text = "an endpoint is closed by force, with an operation under way",
     .n_processes = 2,
     .run = closed_by_force,
     .killed = 1},
    {.text = NULL},
};
