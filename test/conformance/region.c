/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on regions: how they are made, named, asked for, mapped, and found again. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_CLOSED 0x4e01
#define TAG_AGAIN  0x4e02

static void allocated_memory_is_zeroed_and_aligned(void)
{
    static const size_t sizes[] = {1, 4096, 4097, 3u << 20};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (unsigned flags = 0; flags <= NIXL_MEM_POPULATE; flags += NIXL_MEM_POPULATE) {
            struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
            struct nixl_region *region = NULL;

            params.flags = flags;
            MPT_OK(nixl_region_alloc("zeroed", sizes[i], &params, &region));
            MPT_EQ((uintptr_t)nixl_region_addr(region) % 4096, 0);
            MPT_EQ(nixl_region_nbytes(region), sizes[i]);
            MPT_CHECK_BYTES(nixl_region_addr(region), sizes[i], 0);
            memset(nixl_region_addr(region), 0xff, sizes[i]);
            MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        }
    }
}

/* Any flags together give memory; what was really done, and why, is reported. */
static void flags_are_done_or_explained(void)
{
    for (uint32_t flags = 0; flags < 2 * NIXL_MEM_POPULATE; flags++) {
        struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        struct nixl_region *region = NULL;

        params.flags = flags;
        MPT_OK(nixl_region_alloc("flags", 4u << 20, &params, &region));
        memset(nixl_region_addr(region), 0xff, 4u << 20);
        MPT_OK(nixl_region_query(conf.rank, region, MPT_PATIENCE, &info));
        MPT_EQ(info.flags & ~flags, 0);
        if (info.flags != flags) {
            MPT_NE(info.note[0], '\0');
        }
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
}

static void a_numa_node_must_exist(void)
{
    struct nixl_region *const canary = (struct nixl_region *)&conf;
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *region = canary;
    static const int nodes[] = {1023, -1, INT32_MAX};

    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        params.numa_node = nodes[i];
        params.flags = NIXL_MEM_NUMA | NIXL_MEM_HUGE;
        MPT_STATUS(nixl_region_alloc("node", 4096, &params, &region), NIXL_E_NO_DEVICE);
        params.flags = NIXL_MEM_NUMA;
        MPT_STATUS(nixl_region_alloc("node", 4096, &params, &region), NIXL_E_NO_DEVICE);
        MPT_TRUE(region == canary);
        params.flags = 0; /* then the node does not count */
        MPT_OK(nixl_region_alloc("node", 4096, &params, &region));
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
        region = canary;
    }
}

static void names_have_rules(void)
{
    struct nixl_region *first = NULL, *second = NULL, *third = NULL;
    char name[NIXL_NAME_MAX + 2], *giant = malloc(4097);
    char memory[64];

    memset(name, 'n', sizeof(name));
    name[NIXL_NAME_MAX + 1] = '\0';
    memset(giant, 'g', 4096);
    giant[4096] = '\0';
    MPT_STATUS(nixl_region_alloc(name, 64, NULL, &first), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_alloc(giant, 64, NULL, &first), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register(giant, memory, 64, NULL, &first), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open(giant, &first), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_alloc("", 64, NULL, &first), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_open(NULL, &first), NIXL_E_INVALID_ARG);
    MPT_TRUE(first == NULL);
    name[NIXL_NAME_MAX] = '\0';
    MPT_OK(nixl_region_alloc(name, 64, NULL, &first));
    MPT_STATUS(nixl_region_alloc(name, 64, NULL, &second), NIXL_E_NAME_IN_USE);
    MPT_STATUS(nixl_region_register(name, memory, 64, NULL, &second), NIXL_E_NAME_IN_USE);
    MPT_TRUE(second == NULL);
    MPT_OK(nixl_region_open(name, &second));
    MPT_OK(nixl_region_open(name, &third));
    MPT_OK(nixl_region_close(first, MPT_PATIENCE));
    MPT_OK(nixl_region_alloc(name, 128, NULL, &first));
    MPT_OK(nixl_region_close(second, MPT_PATIENCE));
    MPT_OK(nixl_region_close(third, MPT_PATIENCE));
    MPT_OK(nixl_region_close(first, MPT_PATIENCE));
    free(giant);
}

/* Bytes that are no letters, and names that begin alike, are names like others. */
static void names_are_compared_whole(void)
{
    static const char *const names[] = {"a", "a ", "a\n", "\xff\xfe", "a/b", "%s%n", "aa"};
    enum { N = sizeof(names) / sizeof(names[0]) };
    struct segment segments[N];
    unsigned char byte;

    for (int i = 0; i < N; i++) {
        segments[i] = conf_segment(names[i], 64);
        segments[i].bytes[0] = (unsigned char)(i + 1);
    }
    mpt_barrier();
    for (int i = 0; i < N; i++) {
        MPT_OK(nixl_get(conf.next, segments[i].region, 0, &byte, 1));
        MPT_EQ(byte, i + 1);
    }
    mpt_barrier();
    for (int i = 0; i < N; i++) {
        conf_drop(&segments[i]);
    }
}

/* ---- query ----------------------------------------------------------------------------------- */

/* The route that must have been chosen; by hand any network will do. */
static const char *expected_transport(int rank, const char *chosen)
{
    switch (mpt_scope(rank)) {
    case NIXL_SCOPE_SELF:
        return "self";
    case NIXL_SCOPE_LOCAL:
        return conf.transport;
    default:
        return mpt_network() != NULL ? mpt_network() : chosen;
    }
}

static void query_tells_what_is_there(void)
{
    struct segment segment = conf_segment("query", 1000 + (size_t)conf.rank);

    for (int rank = 0; rank < conf.size; rank++) {
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;

        MPT_OK(nixl_region_query(rank, segment.region, MPT_PATIENCE, &info));
        MPT_EQ(info.nbytes, 1000 + rank);
        MPT_EQ(info.kind, conf.segment_kind);
        MPT_EQ(info.is_registered, conf.is_registered);
        if (conf.segment_kind == NIXL_MEM_HOST) {
            MPT_TEXT(info.transport, expected_transport(rank, info.transport));
        }
        MPT_NE(info.method[0], '\0');
        if (conf.method != NULL && mpt_scope(rank) == NIXL_SCOPE_LOCAL) {
            MPT_TEXT(info.method, conf.method);
        }
    }
    conf_end(&segment);
}

static void query_waits_as_long_as_it_is_told(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT, before = info;
    struct nixl_region *opened = NULL;
    struct segment segment = {0};
    int64_t start_ns;

    MPT_OK(nixl_region_open("awaited", &opened));
    MPT_STATUS(nixl_region_query(conf.next, opened, 0, &info), NIXL_INPROGRESS);
    start_ns = mpt_now_ns();
    MPT_STATUS(nixl_region_query(conf.next, opened, 5 * MPT_MS, &info), NIXL_E_TIMEOUT);
    MPT_GE(mpt_now_ns() - start_ns, 5 * MPT_MS);
    MPT_STATUS(nixl_region_query(conf.next, opened, -1, &info), NIXL_E_INVALID_ARG);
    MPT_EQ(memcmp(&info, &before, sizeof(info)), 0);
    mpt_barrier();
    if (conf.rank % 2 == 0) {
        segment = conf_segment("awaited", 64);
    }
    if (conf.next % 2 == 0) {
        MPT_OK(nixl_region_query(conf.next, opened, NIXL_FOREVER, &info));
        MPT_EQ(info.nbytes, 64);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(opened, MPT_PATIENCE));
    if (segment.region != NULL) {
        conf_drop(&segment);
    }
}

/* A put waits for a name that its owner publishes later. */
static void first_use_waits_for_the_owner(void)
{
    const struct timespec pause = {.tv_nsec = 20 * MPT_MS};
    struct nixl_region *opened = NULL;
    struct segment segment = {0};
    uint64_t word = 0x1234;

    mpt_barrier();
    if (conf.rank == 0) {
        MPT_OK(nixl_region_open("later", &opened));
        MPT_OK(nixl_put(1, opened, 8, &word, 8));
        conf_tell(1, TAG_AGAIN);
        MPT_OK(nixl_region_close(opened, MPT_PATIENCE));
    } else if (conf.rank == 1) {
        nanosleep(&pause, NULL); /* so that the put is there first; right either way */
        segment = conf_segment("later", 64);
        conf_hear(0, TAG_AGAIN);
        MPT_EQ(memcmp(segment.bytes + 8, &word, 8), 0);
    }
    mpt_barrier();
    if (segment.region != NULL) {
        conf_drop(&segment);
    }
}

/* ---- generations ----------------------------------------------------------------------------- */

static void stale_until_queried_then_it_works(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *peers = NULL;
    struct segment segment = conf_segment("stale", 4096);
    uint64_t word = 0x77;

    MPT_OK(nixl_region_open("stale", &peers));
    MPT_OK(nixl_put(conf.next, peers, 0, &word, 8));
    conf_end(&segment);
    conf_tell(conf.prev, TAG_CLOSED); /* comes behind the close; a barrier may not */
    conf_hear(conf.next, TAG_CLOSED);
    MPT_STATUS(nixl_put(conf.next, peers, 0, &word, 8), NIXL_E_STALE);
    MPT_EQ(nixl_last_error()->rank, conf.next);
    MPT_STATUS(nixl_get(conf.next, peers, 0, &word, 8), NIXL_E_STALE);
    mpt_barrier();
    segment = conf_segment("stale", 64);
    mpt_barrier();
    MPT_STATUS(nixl_put(conf.next, peers, 0, &word, 8), NIXL_E_STALE);
    MPT_CHECK_BYTES(segment.bytes, segment.nbytes, 0);
    mpt_barrier();
    MPT_OK(nixl_region_query(conf.next, peers, MPT_PATIENCE, &info));
    MPT_EQ(info.nbytes, 64);
    MPT_STATUS(nixl_put(conf.next, peers, 64, &word, 8), NIXL_E_RANGE);
    MPT_OK(nixl_put(conf.next, peers, 8, &word, 8));
    conf_tell(conf.next, TAG_AGAIN);
    conf_hear(conf.prev, TAG_AGAIN);
    MPT_EQ(segment.bytes[8], 0x77);
    mpt_barrier();
    MPT_OK(nixl_region_close(peers, MPT_PATIENCE));
    conf_drop(&segment);
}

/* More regions than one table page holds, made and dropped again and again. */
static void region_numbers_are_used_again(void)
{
    enum { N = 40 };
    struct nixl_region *regions[N];
    char name[32];

    for (unsigned round = 0; round < conf_rounds(50); round++) {
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof(name), "number.%d", i);
            MPT_OK(nixl_region_alloc(name, 64, NULL, &regions[i]));
        }
        for (int i = 0; i < N; i++) {
            MPT_OK(nixl_region_close(regions[(i * 7 + (int)round) % N], MPT_PATIENCE));
        }
    }
}

/* ---- map ------------------------------------------------------------------------------------- */

static void a_mapped_segment_is_the_owners_memory(void)
{
    struct segment segment = conf_segment("mapped", 8192);
    unsigned char *bytes = NULL;

    mpt_barrier();
    if (conf.is_registered || mpt_scope(conf.next) == NIXL_SCOPE_REMOTE) {
        MPT_STATUS(nixl_region_map(conf.next, segment.region, (void **)&bytes), NIXL_E_UNSUPPORTED);
        MPT_TRUE(bytes == NULL);
    } else {
        MPT_OK(nixl_region_map(conf.next, segment.region, (void **)&bytes));
        mpt_fill(bytes, 8192, (uint64_t)conf.rank);
    }
    conf_tell(conf.next, TAG_AGAIN);
    conf_hear(conf.prev, TAG_AGAIN);
    if (!conf.is_registered && mpt_scope(conf.prev) != NIXL_SCOPE_REMOTE) {
        MPT_CHECK(segment.bytes, 8192, (uint64_t)conf.prev);
    }
    if (bytes != NULL) {
        MPT_STATUS(nixl_region_unmap(conf.next, segment.region, bytes + 4096), NIXL_E_INVALID_ARG);
        MPT_OK(nixl_region_unmap(conf.next, segment.region, bytes));
        MPT_STATUS(nixl_region_unmap(conf.next, segment.region, bytes), NIXL_E_INVALID_ARG);
    }
    conf_end(&segment);
}

static void a_mapped_segment_outlives_its_owners_close(void)
{
    struct nixl_region *opened = NULL;
    struct nixl_region *region = NULL;
    unsigned char *bytes = NULL, *own = NULL;

    MPT_OK(nixl_region_alloc("outlives", 8192, NULL, &region));
    MPT_OK(nixl_region_map(conf.rank, region, (void **)&own));
    mpt_fill(nixl_region_addr(region), 8192, (uint64_t)conf.rank);
    MPT_OK(nixl_region_open("outlives", &opened));
    mpt_barrier();
    if (mpt_scope(conf.next) != NIXL_SCOPE_REMOTE) {
        MPT_OK(nixl_region_map(conf.next, opened, (void **)&bytes));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    mpt_barrier();
    if (bytes != NULL) {
        MPT_CHECK(bytes, 8192, (uint64_t)conf.next);
    }
    mpt_barrier();
    memset(own, 1, 8192);
    MPT_OK(nixl_region_unmap(conf.rank, region, own));
    MPT_OK(nixl_region_close(opened, MPT_PATIENCE));
    if (bytes != NULL) {
        memset(bytes, 1, 8192);
        MPT_OK(nixl_region_unmap(conf.next, opened, bytes));
    }
}

static void an_address_leads_to_its_region(void)
{
    struct segment segment = conf_segment("whence", 8192);
    struct nixl_region *region = NULL, *inner, *outer, *opened;
    char here[4096];
    uint64_t offset = 0;

    MPT_OK(nixl_region_open("whence", &opened));
    MPT_OK(nixl_region_of(segment.addr, &region, &offset));
    MPT_TRUE(region == segment.region);
    MPT_EQ(offset, 0);
    MPT_OK(nixl_region_of(segment.addr + 8191, &region, &offset));
    MPT_TRUE(region == segment.region);
    MPT_EQ(offset, 8191);
    MPT_STATUS(nixl_region_of(here, &region, &offset), NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_region_of(NULL, &region, &offset), NIXL_E_NOT_FOUND);
    MPT_EQ(offset, 8191);
    MPT_STATUS(nixl_region_of(segment.addr, NULL, &offset), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_of(segment.addr, &region, NULL), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_region_close(opened, MPT_PATIENCE));

    /* The smaller one of two that overlap. */
    MPT_OK(nixl_region_register("outer", here, sizeof(here), NULL, &outer));
    MPT_OK(nixl_region_register("inner", here + 100, 50, NULL, &inner));
    MPT_OK(nixl_region_of(here + 149, &region, &offset));
    MPT_TRUE(region == inner);
    MPT_EQ(offset, 49);
    MPT_OK(nixl_region_of(here + 150, &region, &offset));
    MPT_TRUE(region == outer);
    MPT_OK(nixl_region_close(inner, MPT_PATIENCE));
    MPT_OK(nixl_region_of(here + 149, &region, &offset));
    MPT_TRUE(region == outer);
    MPT_EQ(offset, 149);
    MPT_OK(nixl_region_close(outer, MPT_PATIENCE));
    MPT_STATUS(nixl_region_of(here, &region, &offset), NIXL_E_NOT_FOUND);
    conf_end(&segment);
}

/* No rank publishes while it is queried: a call that waited for that would time out. */
static void whether_a_segment_is_published_is_told_at_once(void)
{
    struct nixl_region *handle, *fresh;
    struct segment segment;
    uint64_t word = 7;

    MPT_OK(nixl_region_open("soon", &handle));
    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_STATUS(nixl_region_is_published(rank, handle, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    }
    mpt_barrier();
    segment = conf_segment("soon", 4096);
    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_OK(nixl_region_is_published(rank, handle, MPT_PATIENCE));
    }
    MPT_OK(nixl_put(conf.next, handle, 0, &word, sizeof(word)));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    MPT_OK(nixl_region_is_published(conf.next, handle, 0)); /* known */
    conf_end(&segment);
    mpt_barrier();
    MPT_OK(nixl_region_open("soon", &fresh));
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_STATUS(nixl_region_is_published(rank, fresh, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    }
    MPT_STATUS(nixl_region_is_published(conf.rank, fresh, 0), NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_region_is_published(-1, fresh, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_is_published(conf.size, fresh, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_is_published(0, fresh, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_is_published(0, NULL, MPT_PATIENCE), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_region_close(fresh, MPT_PATIENCE));
    MPT_OK(nixl_region_close(handle, MPT_PATIENCE));
    mpt_barrier();
}

const struct guarantee conf_region[] = {
    {"region", NULL, 0},
    {"an_address_leads_to_its_region", an_address_leads_to_its_region, 0},
    {"whether_a_segment_is_published_is_told_at_once",
     whether_a_segment_is_published_is_told_at_once, 0},
    {"allocated_memory_is_zeroed_and_aligned", allocated_memory_is_zeroed_and_aligned, 0},
    {"flags_are_done_or_explained", flags_are_done_or_explained, 0},
    {"a_numa_node_must_exist", a_numa_node_must_exist, 0},
    {"names_have_rules", names_have_rules, 0},
    {"names_are_compared_whole", names_are_compared_whole, 0},
    {"query_tells_what_is_there", query_tells_what_is_there, 0},
    {"query_waits_as_long_as_it_is_told", query_waits_as_long_as_it_is_told, 0},
    {"first_use_waits_for_the_owner", first_use_waits_for_the_owner, CONF_PEERS},
    {"stale_until_queried_then_it_works", stale_until_queried_then_it_works, 0},
    {"region_numbers_are_used_again", region_numbers_are_used_again, 0},
    {"a_mapped_segment_is_the_owners_memory", a_mapped_segment_is_the_owners_memory, CONF_HOST},
    {"a_mapped_segment_outlives_its_owners_close", a_mapped_segment_outlives_its_owners_close, 0},
    {0},
};
