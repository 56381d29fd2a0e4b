/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of two networks between the hosts carries nothing, at one host or at both, from the beginning
 * or from some moment on: a link, or all of a transport. No rank is lost by that, no byte is wrong,
 * and no round takes long.
 *
 *     dead_link SECONDS NETWORK [ORDER...]
 *
 * First each rank hears of rank 0, which it has never written to. Then all put, get and notify to
 * all, rest for so many seconds, in which the kernel gives its verdict on every connection, and do
 * so again. NETWORK is the one that carries messages at the end; "any": the ranks may differ. The
 * orders to test/net/links are given by rank 0 after the first round, with % for each blank.
 */
#include "test/net/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_ROUND 0x9d01
#define TAG_FIRST 0x9d02
#define TAG_NEVER 0x9d03

enum { N_ROUNDS = 4 };

/* Of each rank there is a number, a word that all add to, and a large block: cut into pieces where
 * there are rails. */
#define NBYTES   (512u << 10)
#define WORD     8
#define BLOCK    16
#define ROUND_NS (MPT_PATIENCE / 4)

static int rank, size;
static struct nixl_region *region; /* a number and a block of each rank */
static unsigned char *block;

static uint64_t place_of(int other)
{
    return (uint64_t)other * (NBYTES + BLOCK);
}

static void hear(int other, uint64_t tag, uint64_t expected)
{
    static struct nixl_note note;
    uint64_t value;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(other, tag, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.nbytes, sizeof(value));
    memcpy(&value, note.payload, sizeof(value));
    MPT_EQ(value, expected);
}

static void hear_first(void)
{
    const uint64_t zero = 0;

    for (int other = 1; other < size && rank == 0; other++) {
        MPT_OK(nixl_notify(other, TAG_FIRST, &zero, sizeof(zero), MPT_PATIENCE));
    }
    if (rank != 0) {
        hear(0, TAG_FIRST, zero);
    }
}

/* The word at `other` was added to once in each round before. */
static void add(int other, uint64_t round)
{
    const uint64_t one = 1;
    uint64_t before;

    MPT_OK(nixl_atomic(other, region, place_of(rank) + WORD, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD,
                       &one, &before));
    MPT_EQ(before, round);
}

/* Everybody puts to everybody, small and large, and reads back what it has put. */
static void talk(uint64_t round)
{
    const unsigned char *own = nixl_region_addr(region);

    for (int i = 1; i < size; i++) {
        int other = (rank + i) % size;

        mpt_fill(block, NBYTES, round * 1000 + (uint64_t)rank);
        MPT_OK(nixl_put(other, region, place_of(rank) + BLOCK, block, NBYTES));
        MPT_OK(nixl_put_notify(other, region, place_of(rank), &round, 8, TAG_ROUND, &round, 8,
                               MPT_PATIENCE));
        add(other, round);
        MPT_OK(nixl_flush(other, MPT_PATIENCE));
    }
    for (int other = 0; other < size; other++) {
        if (other != rank) {
            hear(other, TAG_ROUND, round);
            MPT_EQ(memcmp(own + place_of(other), &round, 8), 0);
            MPT_CHECK(own + place_of(other) + BLOCK, NBYTES, round * 1000 + (uint64_t)other);
            MPT_OK(nixl_get(other, region, place_of(rank) + BLOCK, block, NBYTES));
            MPT_CHECK(block, NBYTES, round * 1000 + (uint64_t)rank);
        }
    }
    mpt_barrier();
}

/* Nothing is sent for a while. */
static void rest(int64_t ns)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(rank, TAG_NEVER, UINT64_MAX, ns, &note),
               ns > 0 ? NIXL_E_TIMEOUT : NIXL_INPROGRESS);
}

static void give_orders(int n_orders, char **orders)
{
    for (int i = 0; i < n_orders; i++) {
        for (char *at = orders[i]; (at = strchr(at, '%')) != NULL;) {
            *at = ' ';
        }
        bed_link("%s", orders[i]);
    }
}

static void check_peers(const char *network)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    for (int other = 0; other < size; other++) {
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;

        MPT_EQ(nixl_peer_state(other), NIXL_PEER_ALIVE);
        MPT_OK(nixl_region_query(other, region, MPT_PATIENCE, &info));
        if (nixl_scope(other) == NIXL_SCOPE_REMOTE && strcmp(network, "any") != 0) {
            MPT_TEXT(info.transport, network);
        }
    }
}

int main(int argc, char **argv)
{
    int64_t longest_ns = 0;
    uint64_t round = 0;

    mpt_start();
    MPT_GE(argc, 3);
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    block = malloc(NBYTES);
    MPT_TRUE(block != NULL);
    MPT_OK(nixl_region_alloc("dead_link", place_of(size), NULL, &region));
    for (; round < N_ROUNDS; round++) {
        int64_t began_ns = mpt_now_ns();

        if (round == 0) {
            hear_first();
        }
        talk(round);
        printf("round %" PRIu64 ": %.3f s\n", round, (double)(mpt_now_ns() - began_ns) / MPT_S);
        longest_ns = mpt_now_ns() - began_ns > longest_ns ? mpt_now_ns() - began_ns : longest_ns;
        if (round == 0 && rank == 0) {
            give_orders(argc - 3, argv + 3);
        }
        if (round == 0) {
            rest(atoi(argv[1]) * MPT_S);
        }
    }
    MPT_LT(longest_ns, ROUND_NS);
    check_peers(argv[2]);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(block);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
