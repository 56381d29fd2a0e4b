/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rank talks to every other, all at once: connections are made in both directions at the same
 * time. Each scope and each route must be the expected one.
 */
#include "test/mp/mptest.h"

#include <stdio.h>
#include <string.h>

#define TAG_ROUND 0x9f01

enum { N_ROUNDS = 3 };

static struct nixl_region *region;

static void talk(uint64_t round)
{
    int rank = nixl_rank(), size = nixl_size();
    const uint64_t *own = nixl_region_addr(region);
    static struct nixl_note note;

    for (int i = 0; i < size; i++) {
        int other = (rank + i) % size;
        uint64_t value = round << 32 | (uint64_t)rank << 16 | (uint64_t)other;

        MPT_OK(nixl_put_notify(other, region, (uint64_t)rank * 8, &value, 8, TAG_ROUND + round,
                               &value, 8, MPT_PATIENCE));
    }
    for (int other = 0; other < size; other++) {
        uint64_t value = round << 32 | (uint64_t)other << 16 | (uint64_t)rank;

        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(other, TAG_ROUND + round, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(note.nbytes, 8);
        MPT_EQ(memcmp(note.payload, &value, 8), 0);
        MPT_EQ(own[other], value);
    }
}

static void check_routes(void)
{
    static const char *const local[] = {"self", "shm"};

    for (int other = 0; other < nixl_size(); other++) {
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        enum nixl_scope_kind scope = mpt_scope(other);

        MPT_EQ(nixl_scope(other), scope);
        MPT_OK(nixl_region_query(other, region, MPT_PATIENCE, &info));
        if (scope != NIXL_SCOPE_REMOTE) {
            MPT_TEXT(info.transport, local[scope]);
        } else if (mpt_network() != NULL) {
            MPT_TEXT(info.transport, mpt_network());
        }
    }
}

int main(void)
{
    int64_t began_ns;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("wire", (size_t)nixl_size() * 8, NULL, &region));
    began_ns = mpt_now_ns();
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        talk(round);
        printf("round %d was over after %.1f ms\n", (int)round,
               (double)(mpt_now_ns() - began_ns) / MPT_MS);
        mpt_barrier(); /* the next one overwrites the words */
    }
    check_routes();
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
