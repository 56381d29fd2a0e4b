/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of the library, in a state in which all of them must be refused. */
#include "mptest.h"

static void every_region_call(struct nixl_region *region, int expected)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *other = NULL;
    void *addr = NULL;
    char byte = 0;

    MPT_STATUS(nixl_region_alloc("refused", 64, NULL, &other), expected);
    MPT_STATUS(nixl_region_register("refused", &byte, 1, NULL, &other), expected);
    MPT_STATUS(nixl_region_open("refused", &other), expected);
    MPT_STATUS(nixl_region_query(region, 0, 0, &info), expected);
    MPT_STATUS(nixl_region_map(region, 0, &addr), expected);
    MPT_STATUS(nixl_region_unmap(region, 0, addr), expected);
    MPT_STATUS(nixl_region_close(region, MPT_S), expected);
    MPT_TRUE(other == NULL && addr == NULL);
}

static void every_transfer_call(struct nixl_region *region, int expected)
{
    struct nixl_req *req = NULL;
    char byte = 0;

    MPT_STATUS(nixl_put(0, region, 0, &byte, 1), expected);
    MPT_STATUS(nixl_get(0, region, 0, &byte, 1), expected);
    MPT_STATUS(nixl_put_nb(0, region, 0, &byte, 1, &req), expected);
    MPT_STATUS(nixl_get_nb(0, region, 0, &byte, 1, &req), expected);
    MPT_STATUS(nixl_put_notify(0, region, 0, &byte, 1, 1, NULL, 0, MPT_S), expected);
    MPT_STATUS(nixl_get_notify(0, region, 0, &byte, 1, 1, NULL, 0, MPT_S), expected);
    MPT_STATUS(nixl_fence(0), expected);
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, MPT_S), expected);
    MPT_TRUE(req == NULL);
}

static void every_word_call(struct nixl_region *region, int expected)
{
    uint64_t word = 1, fetched = 2;
    const uint64_t *words = &word;

    MPT_STATUS(nixl_atomic(0, region, 0, NIXL_UINT64, NIXL_ATOMIC_ADD, &word, &fetched), expected);
    MPT_STATUS(nixl_atomic_compare_swap(0, region, 0, NIXL_UINT64, &word, &word, &fetched),
               expected);
    MPT_STATUS(nixl_signal_set(0, region, 0, 1), expected);
    MPT_STATUS(nixl_signal_add(0, region, 0, 1), expected);
    MPT_STATUS(nixl_put_signal(0, region, 0, &word, 8, region, 8, 1), expected);
    MPT_STATUS(nixl_signal_wait(&word, NIXL_EQ, 1, MPT_S, &fetched), expected);
    MPT_STATUS(nixl_signal_wait_any(&words, 1, NIXL_EQ, 1, MPT_S, NULL, &fetched), expected);
    MPT_EQ(fetched, 2);
}

void mpt_every_call(struct nixl_region *region, int expected)
{
    static _Thread_local struct nixl_note note;
    struct nixl_event event = NIXL_EVENT_INIT;

    MPT_EQ(nixl_rank(), expected);
    MPT_EQ(nixl_size(), expected);
    MPT_EQ(nixl_scope(0), expected);
    MPT_EQ(nixl_peer_state(0), expected);
    MPT_EQ(nixl_event_fd(), expected);
    MPT_TRUE(nixl_host(0) == NULL);
    every_region_call(region, expected);
    every_transfer_call(region, expected);
    every_word_call(region, expected);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify(0, 1, NULL, 0, MPT_S), expected);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, MPT_S, &note), expected);
    MPT_STATUS(nixl_event_arm(), expected);
    MPT_STATUS(nixl_event_recv(MPT_S, &event), expected);
    MPT_STATUS(nixl_finalize(), expected);
    MPT_EQ(nixl_last_error()->status, expected);
    MPT_TEXT(nixl_last_error()->operation, "nixl_finalize");
}
