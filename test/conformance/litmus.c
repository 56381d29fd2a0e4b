/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of the memory model in nixlrun(7): each makes one small race again and again, and
 * looks for the outcome that the model forbids. The ranks meet in every round only by what is under
 * test. Ranks that have no part in a test wait, or load the machine: they copy memory until it is
 * over.
 *
 *     litmus [rounds=N] [large=N] [load] [NAME...]
 *
 * A round of most tests takes some microseconds on one host, so that ten million can be run by
 * hand. Words lie 64 bytes apart, and large puts have `large` bytes (256); with more than 128 KiB
 * they are not copied within the call.
 */
#include "litmus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_OVER 0x11c1

struct lit lit = {.large = 256};

static const struct litmus *const tables[] = {lit_two, lit_three, lit_words};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

static const struct litmus *current;
static uint64_t rounds = 500;
static bool is_loaded;

/* ---- what the tests share -------------------------------------------------------------------- */

uint64_t *lit_word(unsigned number)
{
    return (uint64_t *)(void *)(lit.memory + (size_t)number * LIT_LINE);
}

uint64_t lit_load(unsigned number)
{
    return __atomic_load_n(lit_word(number), __ATOMIC_RELAXED);
}

void lit_spin(unsigned number, uint64_t value)
{
    int64_t end_ns = 0;

    for (unsigned i = 1; lit_load(number) < value; i++) {
        if (i % 1024 == 0) {
            end_ns = end_ns == 0 ? mpt_now_ns() + MPT_PATIENCE : end_ns;
            MPT_LT(mpt_now_ns(), end_ns);
            sched_yield();
        }
    }
    (void)__atomic_load_n(lit_word(number), __ATOMIC_ACQUIRE); /* what was put before it */
}

void lit_put_word(int to, unsigned number, uint64_t value)
{
    MPT_OK(nixl_put(to, lit.region, (uint64_t)number * LIT_LINE, &value, sizeof(value)));
}

uint64_t lit_get_word(int from, unsigned number)
{
    uint64_t value;

    MPT_OK(nixl_get(from, lit.region, (uint64_t)number * LIT_LINE, &value, sizeof(value)));
    return value;
}

int lit_byte(uint64_t round)
{
    return (int)(round % 251);
}

void lit_fill_source(uint64_t round)
{
    memset(lit.source, lit_byte(round), lit.large);
}

void lit_put_large(int to, uint64_t round)
{
    lit_fill_source(round);
    MPT_OK(nixl_put(to, lit.region, LIT_LARGE_AT, lit.source, lit.large));
}

void lit_check_large(uint64_t round)
{
    MPT_CHECK_BYTES(lit.memory + LIT_LARGE_AT, lit.large, lit_byte(round));
}

void lit_tell(int to)
{
    MPT_OK(nixl_notify(to, LIT_TAG, NULL, 0, MPT_PATIENCE));
}

void lit_hear(int from)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, LIT_TAG, UINT64_MAX, MPT_PATIENCE, &note));
}

void lit_raise(int to, unsigned number, uint64_t value)
{
    MPT_OK(nixl_signal_set(to, lit.region, (uint64_t)number * LIT_LINE, value));
}

void lit_await(unsigned number, uint64_t value)
{
    MPT_OK(nixl_signal_wait(lit_word(number), NIXL_COMPARE_GE, value, MPT_PATIENCE, NULL));
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void tell_failure(const char *file, int line, const char *text)
{
    printf("not ok %s - rank %d: %s:%d: %s\n", current != NULL ? current->name : "start", lit.rank,
           file, line, text);
}

static bool is_wanted(const struct litmus *test, char **names)
{
    if (lit.size < test->n_ranks || (test->is_mapped && lit.mapped == NULL)) {
        return false;
    }
    for (char **name = names; *name != NULL; name++) {
        if (strcmp(*name, test->name) == 0) {
            return true;
        }
    }
    return *names == NULL;
}

/* Read and write memory until rank 0 says that the test is over. */
static void load_the_machine(void)
{
    static unsigned char from[1u << 20], to[1u << 20];
    static struct nixl_note note;
    int status;

    do {
        memcpy(to, from, sizeof(to));
        from[0] += to[sizeof(to) / 2];
        nixl_note_init(&note);
        status = nixl_notify_recv(0, TAG_OVER, UINT64_MAX, 0, &note);
    } while (status == NIXL_INPROGRESS);
    MPT_OK(status);
}

static void run(const struct litmus *test)
{
    int64_t start_ns;

    memset(lit.memory, 0, LIT_LARGE_AT + lit.large);
    mpt_barrier();
    start_ns = mpt_now_ns();
    for (uint64_t round = 1; lit.rank < test->n_ranks && round <= rounds; round++) {
        test->run(round);
    }
    for (int other = test->n_ranks; lit.rank == 0 && is_loaded && other < lit.size; other++) {
        MPT_OK(nixl_notify(other, TAG_OVER, NULL, 0, MPT_PATIENCE));
    }
    if (lit.rank >= test->n_ranks && is_loaded) {
        load_the_machine();
    }
    mpt_barrier();
    if (lit.rank == 0) {
        printf("ok %s (%" PRIu64 " rounds, %.0f ms)\n", test->name, rounds,
               (double)(mpt_now_ns() - start_ns) / 1e6);
        fflush(stdout);
    }
}

/* Run those that are wanted, or only count them. */
static int walk(char **names, bool is_dry)
{
    int n_wanted = 0;

    for (size_t i = 0; i < N_TABLES; i++) {
        for (current = tables[i]; current->name != NULL; current++) {
            if (is_wanted(current, names)) {
                n_wanted++;
                if (!is_dry) {
                    run(current);
                }
            }
        }
    }
    current = NULL;
    return n_wanted;
}

/* Rank 0 maps the segment of rank 1, if it can; all learn whether. */
static void map(void)
{
    static unsigned char elsewhere;
    void *addr = NULL;
    uint64_t is_mapped = 0;

    if (lit.rank == 0 && lit.size > 1) {
        is_mapped = nixl_region_map(1, lit.region, &addr) == NIXL_OK;
    }
    for (int other = 1; lit.rank == 0 && other < lit.size; other++) {
        lit_put_word(other, 0, is_mapped);
    }
    mpt_barrier();
    if (lit.rank == 0) {
        lit.mapped = addr;
    } else if (lit_load(0) != 0) {
        lit.mapped = &elsewhere;
    }
}

int main(int argc, char **argv)
{
    int n_wanted, i = 1;

    mpt_start();
    mpt_on_fail = tell_failure;
    for (; i < argc; i++) {
        if (strncmp(argv[i], "rounds=", 7) == 0) {
            rounds = strtoull(argv[i] + 7, NULL, 10);
        } else if (strncmp(argv[i], "large=", 6) == 0) {
            lit.large = strtoull(argv[i] + 6, NULL, 10);
        } else if (strcmp(argv[i], "load") == 0) {
            is_loaded = true;
        } else {
            break;
        }
    }
    MPT_OK(nixl_init(NULL));
    lit.rank = nixl_rank();
    lit.size = nixl_size();
    MPT_OK(nixl_region_alloc("litmus", LIT_LARGE_AT + lit.large, NULL, &lit.region));
    lit.memory = nixl_region_addr(lit.region);
    lit.source = malloc(lit.large);
    MPT_TRUE(lit.source != NULL);
    map();
    n_wanted = walk(argv + i, true);
    if (lit.rank == 0) {
        printf("1..%d\n", n_wanted);
    }
    walk(argv + i, false);
    if (lit.rank == 0 && lit.mapped != NULL) {
        MPT_OK(nixl_region_unmap(1, lit.region, lit.mapped));
    }
    mpt_barrier();
    free(lit.source);
    MPT_OK(nixl_region_close(lit.region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
