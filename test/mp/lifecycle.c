/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Before nixl_init, after the last nixl_finalize, and again: `lifecycle ROUNDS` joins the job that
 * often. `lifecycle asked`: with questions that were not answered before. Also what a rank sees of
 * one that has left in order.
 */
#include "mptest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_HERE 0x11fe

static void meet(void)
{
    struct nixl_region *region = NULL;
    int next = (nixl_rank() + 1) % nixl_size();
    uint64_t word = 7;

    MPT_OK(nixl_region_alloc("life", 64, NULL, &region));
    mpt_barrier();
    MPT_OK(nixl_put_notify(next, region, 0, &word, 8, TAG_HERE, NULL, 0, MPT_PATIENCE));
    {
        static struct nixl_note note;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_HERE, UINT64_MAX, MPT_PATIENCE, &note));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* Requests, regions and handles that were not given back end with the last finalize. */
static void leave_untidy(void)
{
    struct nixl_region *region = NULL, *opened = NULL;

    MPT_OK(nixl_region_alloc("untidy", 1u << 20, NULL, &region));
    MPT_OK(nixl_region_open("untidy", &opened));
    mpt_barrier();
}

/* How many mappings of shared memory does this process have? */
static int n_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    MPT_TRUE(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        n += strstr(line, " rw-s ") != NULL;
    }
    fclose(file);
    return n;
}

/*
 * Both ends of a channel that are still open at the last finalize end with it: another life has no
 * more mappings than the first.
 */
static void leave_channels(void)
{
    int size, next, n_first = 0;

    for (int life = 0; life < 3; life++) {
        struct nixl_channel *in = NULL, *out = NULL;
        void *slot;

        MPT_OK(nixl_init(NULL));
        size = nixl_size();
        next = (nixl_rank() + 1) % size;
        MPT_OK(nixl_channel_open("life", (nixl_rank() + size - 1) % size, NIXL_CHANNEL_CONSUMER,
                                 4096, 2, NULL, &in));
        MPT_OK(nixl_channel_open("life", next, NIXL_CHANNEL_PRODUCER, 4096, 2, NULL, &out));
        MPT_OK(nixl_channel_acquire(out, MPT_PATIENCE, &slot));
        MPT_OK(nixl_channel_publish(out, 1));
        mpt_barrier();
        MPT_OK(nixl_finalize());
        if (life == 0) {
            n_first = n_mappings();
        }
    }
    MPT_TRUE(n_mappings() <= n_first);
}

/*
 * Rank 0 leaves without making the team for which rank 1 has asked it. In the next life, and under
 * the same name, both make it.
 */
static void leave_asked(void)
{
    struct nixl_team *team = NULL;

    for (int life = 0; life < 6; life++) {
        bool is_in_vain = life % 2 == 0;

        MPT_OK(nixl_init(NULL));
        if (nixl_rank() == 1 || !is_in_vain) {
            MPT_STATUS(nixl_team_world(MPT_PATIENCE, &team),
                       is_in_vain ? NIXL_E_PEER_LOST : NIXL_OK);
        }
        if (!is_in_vain) {
            mpt_check_team(team, 1, 64);
        }
        MPT_OK(nixl_finalize());
    }
}

/* A region whose pages stay: a pointer to this rank's own segment is never released. */
static const char *leave_mapped(void)
{
    struct nixl_region *region = NULL;
    void *addr;

    MPT_OK(nixl_region_alloc("mapped", 4096, NULL, &region));
    MPT_OK(nixl_region_map(nixl_rank(), region, &addr));
    memset(addr, 7, 4096);
    return addr;
}

int main(int argc, char **argv)
{
    const char *mapped;
    int n_rounds = argc > 1 ? atoi(argv[1]) : 1;

    mpt_start();
    if (argc > 1 && strcmp(argv[1], "asked") == 0) {
        leave_asked();
        return mpt_passed();
    }
    MPT_EQ(nixl_last_error()->status, NIXL_OK);
    mpt_every_call(NULL, NIXL_E_NOT_INIT);
    for (int round = 0; round < n_rounds; round++) {
        MPT_OK(nixl_init(NULL));
        MPT_OK(nixl_init(NULL));
        meet();
        MPT_OK(nixl_finalize());
        meet();
        leave_untidy();
        mapped = leave_mapped();
        MPT_OK(nixl_finalize());
        MPT_CHECK_BYTES(mapped, 4096, 7);
        mpt_every_call(NULL, NIXL_E_NOT_INIT);
    }
    leave_channels();
    return mpt_passed();
}
