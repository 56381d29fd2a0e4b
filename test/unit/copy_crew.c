/* SPDX-License-Identifier: Apache-2.0 */
/* The crew of the copy thread: whom it calls, that every piece is copied once, and how it ends. */
#include "config.h"

#include "transfer/copy_crew.h"
#include "util/env.h"

#include "test/unit/locale_case.h"
#include "test/unit/unit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define PIECE_NBYTES (64ul << 10)
#define NBYTES       (16ul << 20)
#define N_PIECES     (NBYTES / PIECE_NBYTES)
#define N_ROUNDS     50

static unsigned char from[NBYTES], to[NBYTES];
static _Atomic size_t next_piece = N_PIECES, n_copied;
static _Atomic int n_workers, most_workers;
static int n_idle;

TestSuite(copy_crew, .timeout = 60);

static int idle_as_told(void)
{
    return n_idle;
}

static bool copy_next(void)
{
    size_t piece = atomic_fetch_add(&next_piece, 1);
    int n, most;

    if (piece >= N_PIECES) {
        return false;
    }
    n = atomic_fetch_add(&n_workers, 1) + 1;
    most = atomic_load(&most_workers);
    while (n > most && !atomic_compare_exchange_weak(&most_workers, &most, n)) {
    }
    memcpy(to + piece * PIECE_NBYTES, from + piece * PIECE_NBYTES, PIECE_NBYTES);
    atomic_fetch_sub(&n_workers, 1);
    atomic_fetch_add(&n_copied, 1);
    return true;
}

static void begin(int most_threads, int n_allowed, int n_sharing, int idle)
{
    nxr_env.copy_threads = (unsigned)most_threads;
    n_idle = idle;
    nxr_copy_crew_count_idle = idle_as_told;
    nxr_copy_crew_init(n_allowed, n_sharing);
}

static void copy_all(void)
{
    memset(to, 0, sizeof(to));
    atomic_store(&n_copied, 0);
    atomic_store(&next_piece, 0);
    nxr_copy_crew_call(NBYTES, copy_next);
    while (copy_next()) { /* as the copy thread does */
    }
    while (atomic_load(&n_copied) < N_PIECES) {
        sched_yield();
    }
}

Test(copy_crew, its_size)
{
    begin(0, 2, 1, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 0), "the caller and the copy thread have both cores");
    begin(0, 32, 2, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 7));
    begin(0, 32, 8, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 2));
    begin(4, 32, 1, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 3));
    begin(1, 32, 1, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 0), "only the copy thread is allowed");
    begin(64, 1024, 1, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 63));
    begin(0, 0, 4, 8);
    cr_expect(eq(int, nxr_copy_crew_size(), 0), "more ranks than cores");
}

Test(copy_crew, idle_cores)
{
    cr_expect(eq(int, nxr_copy_crew_idle_cores("0.20 0.18 0.12 1/80 11206\n", 8), 7));
    cr_expect(eq(int, nxr_copy_crew_idle_cores("9.00 9.00 9.00 12/80 11206\n", 8), 0));
    cr_expect(eq(int, nxr_copy_crew_idle_cores("", 8), 0));
    cr_expect(eq(int, nxr_copy_crew_idle_cores("0.20 0.18 0.12 x/80", 8), 0));
    cr_expect(eq(int, nxr_copy_crew_idle_cores("0.20 0.18 0.12 -1/80 7\n", 8), 0));
}

Test(copy_crew, idle_cores_in_a_locale_with_commas)
{
    locale_case_begin();
    cr_expect(eq(int, nxr_copy_crew_idle_cores("0.20 0.18 0.12 1/80 11206\n", 8), 7));
}

Test(copy_crew, copies_every_piece_once)
{
    for (size_t i = 0; i < NBYTES; i++) {
        from[i] = (unsigned char)(i * 7 + (i >> 12));
    }
    begin(0, 16, 1, 16);
    for (int round = 0; round < N_ROUNDS; round++) {
        copy_all();
        cr_assert(zero(int, memcmp(from, to, NBYTES)));
    }
    cr_expect(le(int, atomic_load(&most_workers), 8));
    nxr_copy_crew_stop();
    cr_expect(zero(int, atomic_load(&n_workers)));
}

Test(copy_crew, is_not_called)
{
    begin(0, 16, 1, 1); /* the copy thread takes the idle core */
    atomic_store(&next_piece, 0);
    nxr_copy_crew_call(NBYTES, copy_next);
    n_idle = 16;
    nxr_copy_crew_call(NXR_CREW_FROM_NBYTES - 1, copy_next);
    nxr_copy_crew_stop();
    nxr_copy_crew_call(NBYTES, copy_next); /* too late */
    cr_expect(zero(sz, atomic_load(&next_piece)));
}

/* In the middle of a copy: a thread finishes its piece, and the rest stays. */
Test(copy_crew, ends_while_it_copies)
{
    for (int round = 0; round < N_ROUNDS; round++) {
        begin(8, 16, 1, 16);
        atomic_store(&next_piece, 0);
        nxr_copy_crew_call(NBYTES, copy_next);
        nxr_copy_crew_stop();
        cr_assert(zero(int, atomic_load(&n_workers)));
        atomic_store(&next_piece, N_PIECES);
    }
}
