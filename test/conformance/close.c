/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Close under fire: peers storm a region with puts or gets while its owner closes and makes it
 * again. After a close that returned OK the owner fills the memory and later compares: no byte may
 * change.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TAG_STOP 0xc101
#define TAG_DATA 0xc102
#define TAG_END  0xc103

#define NBYTES 16384
#define QUIET  0x11
#define OPEN   0x22
#define FIRE   0x33

/* Rank 0's memory in one round, and how to look at it after the close. */
struct target {
    struct segment segment;
    struct nixl_region *view; /* allocated: pins the pages beyond the close */
    unsigned char *bytes;
};

static struct target open_target(const char *name)
{
    struct target target = {.segment = conf_segment(name, NBYTES)};

    target.bytes = target.segment.bytes;
    memset(target.bytes, OPEN, NBYTES);
    if (!conf.is_registered) {
        MPT_OK(nixl_region_open(name, &target.view));
        MPT_OK(nixl_region_map(conf.rank, target.view, (void **)&target.bytes));
    }
    return target;
}

static void close_and_compare(struct target *target)
{
    int64_t end_ns;

    MPT_OK(nixl_region_close(target->segment.region, MPT_PATIENCE));
    memset(target->bytes, QUIET, NBYTES);
    end_ns = mpt_now_ns() + 100 * MPT_US;
    do {
        MPT_CHECK_BYTES(target->bytes, NBYTES, QUIET);
    } while (mpt_now_ns() < end_ns);
    if (target->view != NULL) {
        MPT_OK(nixl_region_unmap(conf.rank, target->view, target->bytes));
        MPT_OK(nixl_region_close(target->view, MPT_PATIENCE));
    }
    free(target->segment.own);
}

/* How long a round's region stays open if nobody hits it; puts must hit the first one. */
static int64_t open_ns(unsigned round, bool is_hit_by_puts)
{
    if (round == 0 && is_hit_by_puts) {
        return MPT_PATIENCE;
    }
    return round % 16 == 0 ? 100 * MPT_MS : round % 4 * 200 * MPT_US;
}

/* The owner: leaves the region open until it was hit, or for a while. */
static void own_under_fire(const char *name, bool is_hit_by_puts)
{
    unsigned n_hit = 0, rounds = conf_rounds(300);

    for (unsigned round = 0; round < rounds; round++) {
        struct target target = open_target(name);
        int64_t end_ns = mpt_now_ns() + open_ns(round, is_hit_by_puts);
        const volatile unsigned char *last = target.bytes + NBYTES - 1;

        while (mpt_now_ns() < end_ns && *last != FIRE) {
        }
        n_hit += *last == FIRE;
        close_and_compare(&target);
    }
    for (int rank = 1; rank < conf.size; rank++) {
        conf_tell(rank, TAG_STOP);
    }
    if (is_hit_by_puts) {
        MPT_GE(n_hit, 1);
    }
}

/* A shooter: puts or gets until told to stop; only OK, STALE and "not there" are right answers. */
static void fire(const char *name, bool is_put)
{
    struct nixl_region *region = NULL;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    static _Thread_local struct nixl_note note;
    static _Thread_local unsigned char memory[NBYTES];
    int status;

    MPT_OK(nixl_region_open(name, &region));
    memset(memory, FIRE, NBYTES);
    for (nixl_note_init(&note);
         nixl_notify_recv(0, TAG_STOP, UINT64_MAX, 0, &note) == NIXL_INPROGRESS;) {
        status = nixl_region_query(0, region, MPT_MS, &info);
        if (status != NIXL_OK) {
            MPT_STATUS(status, NIXL_E_TIMEOUT); /* closed, and not there again */
            continue;
        }
        for (int i = 0; i < 50 && status == NIXL_OK; i++) {
            status = is_put ? nixl_put(0, region, 0, memory, NBYTES)
                            : nixl_get(0, region, 0, memory, NBYTES);
            if (!is_put && status == NIXL_OK) {
                MPT_TRUE(memchr(memory, QUIET, NBYTES) == NULL);
            }
        }
        if (status != NIXL_OK) {
            MPT_STATUS(status, NIXL_E_STALE);
        }
    }
    conf_forget_late_puts(0);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void close_under_fire(const char *name, bool is_put)
{
    mpt_barrier();
    if (conf.rank == 0) {
        own_under_fire(name, is_put);
    } else {
        fire(name, is_put);
    }
    mpt_barrier();
}

/* M26 */
static void no_byte_is_written_after_close(void)
{
    close_under_fire("fire.put", true);
}

/* What the owner writes after the close must not be in what a get that was OK has read. */
static void no_byte_is_read_after_close(void)
{
    close_under_fire("fire.get", false);
}

/* ---- several threads of one peer ------------------------------------------------------------- */

#define N_THREADS 3

#define SHOT 512

struct shooter {
    pthread_t thread;
    struct nixl_region *region;
    uint64_t place; /* a thread's own */
};

static uint64_t shot_place(int rank, int thread)
{
    return (uint64_t)(rank * N_THREADS + thread) * SHOT % NBYTES;
}

static void *shoot_until_stale(void *arg)
{
    struct shooter *shooter = arg;
    unsigned char memory[SHOT];
    int status;

    memset(memory, FIRE, sizeof(memory));
    do {
        status = nixl_put(0, shooter->region, shooter->place, memory, sizeof(memory));
    } while (status == NIXL_OK);
    MPT_STATUS(status, NIXL_E_STALE);
    return NULL;
}

/* Each thread has an in-flight slot of its own: close must wait for all of them. */
static void close_waits_for_every_thread(void)
{
    for (unsigned round = 0; round < conf_rounds(50); round++) {
        struct shooter shooters[N_THREADS];
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        struct nixl_region *region = NULL;
        struct target target = {0};

        if (conf.rank == 0) {
            target = open_target("threads.fire");
        }
        mpt_barrier();
        if (conf.rank != 0) {
            MPT_OK(nixl_region_open("threads.fire", &region));
            MPT_OK(nixl_region_query(0, region, MPT_PATIENCE, &info));
        }
        mpt_barrier();
        if (conf.rank == 0) {
            const volatile unsigned char *last = target.bytes + shot_place(1, 0) + SHOT - 1;

            for (int64_t end_ns = mpt_now_ns() + MPT_PATIENCE; *last != FIRE;) {
                MPT_LT(mpt_now_ns(), end_ns);
            }
            close_and_compare(&target);
        } else {
            for (int i = 0; i < N_THREADS; i++) {
                shooters[i].region = region;
                shooters[i].place = shot_place(conf.rank, i);
                MPT_EQ(pthread_create(&shooters[i].thread, NULL, shoot_until_stale, &shooters[i]),
                       0);
            }
            for (int i = 0; i < N_THREADS; i++) {
                MPT_EQ(pthread_join(shooters[i].thread, NULL), 0);
            }
            conf_forget_late_puts(0);
            MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        }
        mpt_barrier();
    }
}

/* ---- what is sent behind a put that came too late -------------------------------------------- */

/* Ends with NIXL_E_STALE of one of the calls. */
static void send_until_stale(struct nixl_region *data, struct nixl_region *signal)
{
    uint64_t number = 0;
    int status;

    do {
        number++;
        status = nixl_put(0, data, 8ull * (uint64_t)conf.rank, &number, sizeof(number));
        if (status == NIXL_OK) {
            status = nixl_signal_set(0, signal, 8ull * (uint64_t)conf.rank, number);
        }
        if (status == NIXL_OK) {
            status = nixl_notify(0, TAG_DATA, &number, sizeof(number), MPT_PATIENCE);
        }
    } while (status == NIXL_OK);
    MPT_STATUS(status, NIXL_E_STALE);
    conf_forget_late_puts(0);
}

/* A number that was heard, or seen in the signal, must be in the memory, closed or not. */
static bool is_numbered_right(const struct target *target, const struct segment *signal)
{
    static struct nixl_note note;
    const uint64_t *data = (const uint64_t *)(const void *)target->bytes, *word;
    uint64_t heard, seen;
    int status;

    nixl_note_init(&note);
    status = nixl_notify_recv(NIXL_ANY_RANK, TAG_DATA, ~(uint64_t)(TAG_DATA ^ TAG_END),
                              MPT_PATIENCE, &note);
    if (status != NIXL_E_STALE) {
        MPT_OK(status);
    }
    if (note.tag == TAG_END) {
        MPT_OK(status); /* its sender was told */
        return false;
    }
    MPT_EQ(note.nbytes, sizeof(heard));
    memcpy(&heard, note.payload, sizeof(heard));
    if (status == NIXL_OK) {
        MPT_GE(__atomic_load_n(&data[note.rank], __ATOMIC_RELAXED), heard);
    }
    word = (const uint64_t *)(const void *)signal->bytes + note.rank;
    seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    MPT_GE(__atomic_load_n(&data[note.rank], __ATOMIC_RELAXED), seen);
    return true;
}

/* M27, M28: until the sender was told, neither a notification nor a signal stands for data. */
static void nothing_stands_for_a_put_that_came_too_late(void)
{
    struct segment signal = conf_segment("late.signal", NBYTES);

    for (unsigned round = 0; round < conf_rounds(50); round++) {
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        struct nixl_region *region = NULL;
        struct target target = {0};
        int n_open = conf.size - 1;

        if (conf.rank == 0) {
            memset(signal.bytes, 0, NBYTES);
            target = open_target("late.data");
            memset(target.bytes, 0, NBYTES);
        }
        mpt_barrier();
        if (conf.rank != 0) {
            MPT_OK(nixl_region_open("late.data", &region));
            MPT_OK(nixl_region_query(0, region, MPT_PATIENCE, &info));
        }
        mpt_barrier();
        if (conf.rank != 0) {
            send_until_stale(region, signal.region);
            conf_tell(0, TAG_END);
            MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        } else {
            for (unsigned i = 0; i < 1 + round * 7; i++) {
                MPT_TRUE(is_numbered_right(&target, &signal));
            }
            MPT_OK(nixl_region_close(target.segment.region, MPT_PATIENCE));
            while (n_open > 0) {
                n_open -= !is_numbered_right(&target, &signal);
            }
            if (target.view != NULL) {
                MPT_OK(nixl_region_unmap(conf.rank, target.view, target.bytes));
                MPT_OK(nixl_region_close(target.view, MPT_PATIENCE));
            }
            free(target.segment.own);
        }
        mpt_barrier();
    }
    conf_drop(&signal);
}

const struct guarantee conf_close[] = {
    {"close", NULL, 0},
    {"no_byte_is_written_after_close", no_byte_is_written_after_close, CONF_PEERS | CONF_HOST},
    {"no_byte_is_read_after_close", no_byte_is_read_after_close, CONF_PEERS | CONF_HOST},
    {"close_waits_for_every_thread", close_waits_for_every_thread,
     CONF_PEERS | CONF_HOST | CONF_THREADS},
    {"nothing_stands_for_a_put_that_came_too_late", nothing_stands_for_a_put_that_came_too_late,
     CONF_PEERS | CONF_HOST},
    {0},
};
