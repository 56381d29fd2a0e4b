/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations to be counted by valgrind (test/check-counts.sh): those named by the first argument,
 * as many as the second one says, all in count_them().
 */
#include "test/mp/mptest.h"
#include "test/op_form.h"

#include <stdlib.h>
#include <string.h>

static struct nixl_region *region;
static struct nixl_channel *producer, *consumer;
static char bytes[64];
static uint64_t own_signal;
static struct nixl_team *team;

/* So many calls of each collective, in turn, of a team of one. */
static void count_collectives(int n)
{
    const struct mpt_call call = {.team = team, .src = bytes, .dst = bytes + 32, .nbytes = 8};

    for (int i = 0; i < n * MPT_N_COLLECTIVES; i++) {
        MPT_OK(mpt_collective((enum mpt_collective)(i % MPT_N_COLLECTIVES), &call, NULL));
    }
}

static void count_one(char what, struct nixl_note *note)
{
    const uint64_t one = 1;
    struct nixl_req *req;
    struct nixl_op op;
    uint64_t old;
    void *slot;

    switch (what) {
    case 'p':
        MPT_OK(nixl_put(0, region, 0, bytes, 8));
        break;
    case 'g':
        MPT_OK(nixl_get(0, region, 0, bytes, 8));
        break;
    case 's':
        op = op_signal(region, 64, NIXL_SIGNAL_ADD, 1);
        MPT_OK(nixl_put_x(0, region, 0, bytes, 8, &op, &req));
        break;
    case 'S':
        op = op_own_signal(&own_signal, NIXL_SIGNAL_ADD, 1);
        MPT_OK(nixl_get_x(0, region, 0, bytes, 8, &op, &req));
        break;
    case 'a':
        MPT_OK(nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &old));
        break;
    case 'b':
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        break;
    case 'i':
        MPT_OK(nixl_channel_acquire(producer, MPT_PATIENCE, &slot));
        MPT_OK(nixl_channel_publish(producer, 8));
        MPT_OK(nixl_channel_recv(consumer, MPT_PATIENCE, &slot, NULL, NULL));
        MPT_OK(nixl_channel_release(consumer, slot));
        break;
    default:
        MPT_OK(nixl_notify(0, 1, bytes, 8, MPT_PATIENCE));
        MPT_OK(nixl_notify_recv(0, 1, UINT64_MAX, MPT_PATIENCE, note));
    }
}

#ifdef __clang__
#define WHOLE __attribute__((noinline))
#else
#define WHOLE __attribute__((noipa)) /* no copy of it for a constant */
#endif

void count_them(char what, int n, struct nixl_note *note);
void WHOLE count_them(char what, int n, struct nixl_note *note)
{
    if (what == 'c') {
        count_collectives(n);
        return;
    }
    for (int i = 0; i < n; i++) {
        count_one(what, note);
    }
}

int main(int argc, char **argv)
{
    struct nixl_note note;

    mpt_start();
    MPT_EQ(argc, 3);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("count", 4096, NULL, &region));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_channel_open("count", 0, NIXL_CHANNEL_CONSUMER, 64, 4, NULL, &consumer));
    MPT_OK(nixl_channel_open("count", 0, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &producer));
    nixl_note_init(&note);
    count_collectives(1);
    count_one(argv[1][0], &note); /* the first one has more to do */
    count_them(argv[1][0], atoi(argv[2]), &note);
    MPT_OK(nixl_channel_close(producer, MPT_PATIENCE));
    MPT_OK(nixl_channel_close(consumer, MPT_PATIENCE));
    MPT_OK(nixl_team_free(team));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
