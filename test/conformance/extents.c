/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on regions of extents: offsets go through the pieces in order, every call reaches
 * every piece, nothing crosses a boundary unseen, and all pieces end together.
 */
#include "extents.h"
#include "test/op_form.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TAG_DATA  0xe801
#define TAG_TOKEN 0xe802
#define TAG_AGAIN 0xe803

const size_t extents_sizes[N_PIECES] = {8192, 8200, 20000, 8192, 65536, 12288, 8200};

struct cache extents_lay_out(size_t n)
{
    struct cache cache = {.n = n};

    MPT_EQ(posix_memalign((void **)&cache.memory, 64, (size_t)N_PIECES * EXTENTS_STRIDE), 0);
    memset(cache.memory, 0, (size_t)N_PIECES * EXTENTS_STRIDE);
    for (size_t i = 0; i < n; i++) {
        size_t place = (i * 3) % N_PIECES; /* 3 and 7 have no common divisor */

        cache.pieces[i] =
            (struct nixl_extent){cache.memory + place * EXTENTS_STRIDE, extents_sizes[i]};
        cache.starts[i + 1] = cache.starts[i] + extents_sizes[i];
    }
    return cache;
}

struct cache extents_open(const char *name, size_t n, uint32_t access)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct cache cache = extents_lay_out(n);

    params.access = access;
    MPT_OK(nixl_region_register_extents(name, cache.pieces, n, &params, &cache.region));
    MPT_EQ(nixl_region_nbytes(cache.region), cache.starts[n]);
    MPT_TRUE(nixl_region_addr(cache.region) == NULL);
    return cache;
}

void extents_close(struct cache *cache)
{
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
    mpt_barrier();
    MPT_OK(nixl_region_close(cache->region, MPT_PATIENCE));
    free(cache->memory);
}

static char block[EXTENTS_STRIDE];

/* ---- single operations ----------------------------------------------------------------------- */

static void every_byte_of_every_extent_is_reached(void)
{
    struct cache cache = extents_open("ext.bytes", N_PIECES, 0);
    char last;

    mpt_barrier();
    for (size_t i = 0; i < N_PIECES; i++) {
        mpt_fill(block, extents_sizes[i], i + 100 * (uint64_t)conf.rank);
        MPT_OK(nixl_put(conf.next, cache.region, cache.starts[i], block, extents_sizes[i]));
    }
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    for (size_t i = 0; i < N_PIECES; i++) {
        MPT_CHECK(cache.pieces[i].addr, extents_sizes[i], i + 100 * (uint64_t)conf.prev);
        memset(block, 0, extents_sizes[i]);
        MPT_OK(nixl_get(conf.next, cache.region, cache.starts[i], block, extents_sizes[i]));
        MPT_CHECK(block, extents_sizes[i], i + 100 * (uint64_t)conf.rank);
        last = 0;
        MPT_OK(nixl_get(conf.next, cache.region, cache.starts[i + 1] - 1, &last, 1));
        MPT_EQ(last, block[extents_sizes[i] - 1]);
        MPT_OK(nixl_get(conf.next, cache.region, cache.starts[i + 1], &last, 0));
    }
    mpt_barrier();
    extents_close(&cache);
}

/* Of a size that is copied beside the caller, and in pieces over networks. */
static void a_large_start_goes_to_its_extent(void)
{
    const size_t nbytes = (size_t)3 << 20;
    char *memory = malloc(3 * nbytes), *local = memory + 2 * nbytes;
    const struct nixl_extent pieces[] = {{memory + nbytes, nbytes}, {memory, nbytes}};
    struct nixl_region *region;
    struct nixl_req *req = NULL;

    MPT_TRUE(memory != NULL);
    memset(memory, 0, 3 * nbytes);
    MPT_OK(nixl_region_register_extents("ext.large", pieces, 2, NULL, &region));
    mpt_barrier();
    mpt_fill(local, nbytes, (uint64_t)conf.rank);
    MPT_OK(conf_outcome(nixl_put_x(conf.next, region, nbytes, local, nbytes, NULL, &req), &req));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    memset(local, 0, nbytes);
    MPT_OK(conf_outcome(nixl_get_x(conf.next, region, nbytes, local, nbytes, NULL, &req), &req));
    MPT_CHECK(local, nbytes, (uint64_t)conf.rank);
    mpt_barrier();
    MPT_CHECK(memory, nbytes, (uint64_t)conf.prev);
    MPT_CHECK_BYTES(memory + nbytes, nbytes, 0);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(memory);
}

/* First use of the region: each call must find its extent by itself. */
static void a_first_use_may_be_any_call(void)
{
    static uint64_t got;
    struct nixl_op op;
    struct nixl_req *req;

    for (int which = 0; which < 7; which++) {
        struct cache cache = extents_open("ext.first", N_PIECES, 0);
        uint64_t at = cache.starts[4] + 64, value = 77 + (uint64_t)which, before = 0;
        const uint64_t *here = (const uint64_t *)((char *)cache.pieces[4].addr + 64);

        req = NULL;
        op = op_signal(cache.region, cache.starts[6], NIXL_SIGNAL_SET, value);
        mpt_barrier();
        switch (which) {
        case 0:
            MPT_OK(
                conf_outcome(nixl_put_x(conf.next, cache.region, at, &value, 8, NULL, &req), &req));
            break;
        case 1:
            MPT_OK(
                conf_outcome(nixl_put_x(conf.next, cache.region, at, &value, 8, &op, &req), &req));
            break;
        case 2:
            MPT_OK(nixl_signal_set(conf.next, cache.region, at, value));
            break;
        case 3:
            MPT_OK(nixl_atomic(conf.next, cache.region, at, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD,
                               &value, &before));
            MPT_EQ(before, 0);
            break;
        case 4:
            MPT_OK(conf_outcome(nixl_atomic_x(conf.next, cache.region, at, NIXL_TYPE_UINT64,
                                              NIXL_ATOMIC_ADD, &value, NULL, &before, &req),
                                &req));
            break;
        case 5:
            MPT_OK(nixl_put_notify(conf.next, cache.region, at, &value, 8, TAG_DATA, NULL, 0,
                                   MPT_PATIENCE));
            conf_hear(conf.prev, TAG_DATA);
            break;
        default:
            MPT_OK(
                conf_outcome(nixl_get_x(conf.next, cache.region, at, &got, 8, NULL, &req), &req));
            MPT_EQ(got, 0);
            MPT_OK(nixl_put_strided(conf.next, cache.region, at, 16, &value, 8, 8, 1));
        }
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
        mpt_barrier();
        /* The service thread changes words of registered memory: atomics here, and a signal. */
        MPT_EQ(__atomic_load_n(here, __ATOMIC_ACQUIRE), value);
        if (which == 1) {
            MPT_EQ(__atomic_load_n((uint64_t *)cache.pieces[6].addr, __ATOMIC_ACQUIRE), value);
        }
        mpt_barrier();
        extents_close(&cache);
    }
}

/* Words of extents: waited for, raised behind data, changed by atomics and behind gets. */
static void words_of_extents_are_words(void)
{
    struct cache cache = extents_open("ext.words", N_PIECES, 0);
    uint64_t at = cache.starts[3] + 8, expected = 1, desired = 5, before = 0, own = 0;
    uint64_t *word = (uint64_t *)((char *)cache.pieces[3].addr + 8);
    uint64_t data = 4000 + (uint64_t)conf.rank;
    struct nixl_op op = op_own_signal(&own, NIXL_SIGNAL_ADD, 1);
    struct nixl_req *req = NULL;

    mpt_barrier();
    MPT_OK(nixl_put_signal(conf.next, cache.region, cache.starts[5], &data, sizeof(data),
                           cache.region, at, NIXL_SIGNAL_ADD, 1));
    MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_GE, 1, MPT_PATIENCE, NULL));
    MPT_EQ(*(uint64_t *)cache.pieces[5].addr, 4000 + (uint64_t)conf.prev);
    mpt_barrier();
    MPT_OK(nixl_atomic_compare_swap(conf.next, cache.region, at, NIXL_TYPE_UINT64, &expected,
                                    &desired, &before));
    MPT_EQ(before, 1);
    MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_EQ, 5, MPT_PATIENCE, NULL));
    mpt_barrier();
    data = 0;
    MPT_OK(conf_outcome(nixl_get_x(conf.next, cache.region, at, &data, sizeof(data), &op, &req),
                        &req));
    MPT_OK(nixl_signal_wait(&own, NIXL_COMPARE_EQ, 1, MPT_PATIENCE, NULL));
    MPT_EQ(data, 5);
    MPT_STATUS(nixl_signal_set(conf.next, cache.region, at + 1, 1), NIXL_E_INVALID_ARG);
    mpt_barrier();
    extents_close(&cache);
}

/* A strided copy goes through extents as long as each of its blocks is in one. */
static void strided_blocks_may_lie_in_several_extents(void)
{
    struct cache cache = extents_open("ext.strided", 2, 0); /* piece 1 begins at N_BLOCKS * BLOCK */

    mpt_barrier();
    mpt_fill(block, 2 * N_BLOCKS * BLOCK, (uint64_t)conf.rank);
    MPT_OK(nixl_put_strided(conf.next, cache.region, 0, BLOCK, block, BLOCK, BLOCK, 2 * N_BLOCKS));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    memcpy(block, cache.pieces[0].addr, N_BLOCKS * BLOCK);
    memcpy(block + N_BLOCKS * BLOCK, cache.pieces[1].addr, N_BLOCKS * BLOCK);
    MPT_CHECK(block, 2 * N_BLOCKS * BLOCK, (uint64_t)conf.prev);
    memset(block, 0, sizeof(block));
    MPT_OK(nixl_get_strided(conf.next, cache.region, 0, 2 * BLOCK, block, BLOCK, BLOCK, N_BLOCKS));
    MPT_STATUS(nixl_get_strided(conf.next, cache.region, BLOCK / 2, BLOCK, block, BLOCK, BLOCK,
                                2 * N_BLOCKS - 1),
               NIXL_E_RANGE);
    mpt_barrier();
    extents_close(&cache);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void is_outside(int status, const char *word)
{
    MPT_STATUS(status, NIXL_E_RANGE);
    MPT_EQ(nixl_last_error()->rank, conf.next);
    MPT_TRUE(strstr(nixl_last_error()->text, word) != NULL);
}

static void no_operation_leaves_its_extent(void)
{
    struct cache cache = extents_open("ext.range", N_PIECES, 0);
    const uint64_t end = cache.starts[N_PIECES], seam = cache.starts[2];
    struct nixl_req *req = NULL;
    uint64_t word = 1;

    mpt_barrier();
    is_outside(nixl_put(conf.next, cache.region, seam - 1, block, 2), "beyond extent 1");
    is_outside(nixl_get(conf.next, cache.region, seam - 4, block, 8), "beyond extent 1");
    is_outside(nixl_put(conf.next, cache.region, 0, block, sizeof(block)), "beyond extent 0");
    is_outside(nixl_put(conf.next, cache.region, end - 1, block, 2), "7 extents");
    is_outside(nixl_put(conf.next, cache.region, end + 1, block, 0), "7 extents");
    is_outside(nixl_put(conf.next, cache.region, UINT64_MAX, block, 1), "7 extents");
    is_outside(nixl_put(conf.next, cache.region, UINT64_MAX - 1, block, UINT64_MAX), "7 extents");
    is_outside(
        conf_outcome(nixl_put_x(conf.next, cache.region, seam - 1, block, 2, NULL, &req), &req),
        "beyond extent 1");
    is_outside(conf_outcome(nixl_get_x(conf.next, cache.region, end, block, 1, NULL, &req), &req),
               "7 extents");
    is_outside(nixl_signal_set(conf.next, cache.region, seam - 4, 1), "beyond extent 1");
    is_outside(
        nixl_atomic(conf.next, cache.region, end, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, NULL),
        "7 extents");
    is_outside(nixl_put_notify(conf.next, cache.region, seam - 1, block, 2, TAG_DATA, NULL, 0,
                               MPT_PATIENCE),
               "beyond extent 1");
    is_outside(nixl_put_signal(conf.next, cache.region, seam - 1, block, 2, cache.region, 0,
                               NIXL_SIGNAL_SET, 1),
               "beyond extent 1");
    mpt_barrier();
    for (size_t i = 0; i < N_PIECES; i++) {
        MPT_CHECK_BYTES(cache.pieces[i].addr, extents_sizes[i], 0);
    }
    extents_close(&cache);
}

/* Nobody knows the extents yet when a call out of range is the first one. */
static void a_first_use_out_of_range_fails(void)
{
    struct cache cache = extents_open("ext.late", 2, 0);
    struct nixl_region *fresh;
    struct nixl_req *req = NULL;
    uint64_t seam = cache.starts[1];

    mpt_barrier();
    MPT_OK(nixl_region_open("ext.late", &fresh));
    MPT_STATUS(conf_outcome(nixl_put_x(conf.next, fresh, seam - 1, block, 2, NULL, &req), &req),
               NIXL_E_RANGE);
    MPT_OK(nixl_region_close(fresh, MPT_PATIENCE));
    MPT_OK(nixl_region_open("ext.late", &fresh));
    MPT_STATUS(nixl_get(conf.next, fresh, cache.starts[2], block, 1), NIXL_E_RANGE);
    MPT_OK(nixl_region_close(fresh, MPT_PATIENCE));
    mpt_barrier();
    extents_close(&cache);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Where an extent begins, at every rank. */
static uint64_t start_of(size_t extent)
{
    uint64_t start = 0;

    for (size_t i = 0; i < extent; i++) {
        start += extents_sizes[i];
    }
    return start;
}

static void extents_are_told(void)
{
    struct cache cache = extents_open("ext.told", N_PIECES - (size_t)conf.rank % 2, 0);
    size_t n = N_PIECES - (size_t)conf.next % 2;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *found;
    uint64_t offset;

    mpt_barrier();
    MPT_OK(nixl_region_query(conf.next, cache.region, MPT_PATIENCE, &info));
    MPT_EQ(info.nextents, n);
    MPT_EQ(info.nbytes, start_of(n));
    MPT_EQ(info.is_registered, 1);
    for (size_t i = 0; i < n; i++) {
        MPT_OK(nixl_region_query_extent(conf.next, cache.region, i, MPT_PATIENCE, &info));
        MPT_EQ(info.nbytes, extents_sizes[i]);
        MPT_EQ(info.offset, start_of(i));
        MPT_EQ(info.nextents, n);
        MPT_EQ(info.kind, NIXL_MEM_HOST);
        if (conf.method != NULL && conf.next != conf.rank) {
            MPT_TEXT(info.method, conf.is_registered ? conf.method : info.method);
        }
    }
    MPT_STATUS(nixl_region_query_extent(conf.next, cache.region, n, MPT_PATIENCE, &info),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_region_query_extent(conf.next, cache.region, SIZE_MAX, MPT_PATIENCE, &info),
               NIXL_E_RANGE);
    for (size_t i = 0; i < cache.n; i++) {
        MPT_OK(nixl_region_of((char *)cache.pieces[i].addr + 5, &found, &offset));
        MPT_TRUE(found == cache.region);
        MPT_EQ(offset, cache.starts[i] + 5);
    }
    MPT_STATUS(nixl_region_of((char *)cache.pieces[0].addr + extents_sizes[0], &found, &offset),
               NIXL_E_NOT_FOUND);
    mpt_barrier();
    extents_close(&cache);
}

static void what_peers_may_not_do_holds_for_extents(void)
{
    struct cache cache = extents_open("ext.access", N_PIECES, NIXL_ACCESS_NO_PUT);
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    struct nixl_req *req = NULL;

    mpt_barrier();
    local.addr = block;
    local.block_nbytes = (uint64_t)N_PIECES * BLOCK;
    remote.region = cache.region;
    remote.block_nbytes = BLOCK;
    remote.nextents = NIXL_ALL_EXTENTS;
    MPT_STATUS(conf_outcome(nixl_put_x(conf.next, cache.region, 0, block, 8, NULL, &req), &req),
               conf.next == conf.rank ? NIXL_OK : NIXL_E_ACCESS);
    if (conf.next != conf.rank) {
        MPT_STATUS(nixl_put(conf.next, cache.region, cache.starts[3], block, 8), NIXL_E_ACCESS);
        MPT_STATUS(nixl_signal_set(conf.next, cache.region, 0, 1), NIXL_E_ACCESS);
        MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer),
                   NIXL_E_ACCESS);
    }
    MPT_OK(nixl_get(conf.next, cache.region, cache.starts[3], block, 8));
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, conf.next, &local, 1, &remote, 1, &xfer));
    MPT_OK(nixl_xfer_free(xfer));
    mpt_barrier();
    extents_close(&cache);
}

/* A token for bytes of one extent is for these bytes. */
static void a_token_is_for_bytes_of_an_extent(void)
{
    struct cache cache = extents_open("ext.token", N_PIECES, 0);
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *exposed = NULL, *req = NULL;
    struct nixl_note note;

    mpt_barrier();
    mpt_fill((char *)cache.pieces[5].addr + 100, 4000, (uint64_t)conf.rank);
    MPT_STATUS(nixl_pair_expose(conf.prev, cache.region, cache.starts[5] - 1, 2, NIXL_PAIR_READ,
                                MPT_PATIENCE, token, sizeof(token), &exposed),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_pair_expose(conf.prev, cache.region, cache.starts[5] + 100, 4000,
                                NIXL_PAIR_READ, MPT_PATIENCE, token, sizeof(token), &exposed),
               NIXL_INPROGRESS);
    MPT_OK(nixl_notify(conf.prev, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.next, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    memset(block, 0, sizeof(block));
    MPT_OK(conf_outcome(nixl_pair_read((const char *)note.payload, block, 4000, &req), &req));
    MPT_CHECK(block, 4000, (uint64_t)conf.next);
    MPT_OK(nixl_req_wait(&exposed, MPT_PATIENCE));
    mpt_barrier();
    extents_close(&cache);
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Rank 0 closes and makes its region again while the others storm it; no byte comes later. */
static void a_close_under_fire_ends_every_extent(void)
{
    unsigned rounds = conf_rounds(60);
    struct nixl_region *view;

    MPT_OK(nixl_region_open("ext.fire", &view));
    mpt_barrier();
    if (conf.rank == 0) {
        for (unsigned round = 0; round < rounds; round++) {
            struct cache cache = extents_open("ext.fire", 1 + round % N_PIECES, 0);
            int64_t end_ns = mpt_now_ns() + (round % 8 == 0 ? 20 : 1) * MPT_MS;

            while (mpt_now_ns() < end_ns) {
            }
            MPT_OK(nixl_region_close(cache.region, MPT_PATIENCE));
            memset(cache.memory, 0x11, (size_t)N_PIECES * EXTENTS_STRIDE);
            end_ns = mpt_now_ns() + 200 * MPT_US;
            do {
                MPT_CHECK_BYTES(cache.memory, (size_t)N_PIECES * EXTENTS_STRIDE, 0x11);
            } while (mpt_now_ns() < end_ns);
            free(cache.memory);
        }
        for (int rank = 1; rank < conf.size; rank++) {
            conf_tell(rank, TAG_AGAIN);
        }
    } else {
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        struct nixl_note note;

        nixl_note_init(&note);
        memset(block, 0x33, BLOCK);
        while (nixl_notify_recv(0, TAG_AGAIN, UINT64_MAX, 0, &note) != NIXL_OK) {
            struct nixl_req *req = NULL;
            int status = nixl_region_query(0, view, MPT_MS, &info);

            for (uint32_t i = 0; status == NIXL_OK && i < info.nextents; i++) {
                uint64_t at = (uint64_t)i * extents_sizes[0];

                status = conf_outcome(nixl_put_x(0, view, at, block, 8, NULL, &req), &req);
                MPT_TRUE(status == NIXL_OK || status == NIXL_E_STALE || status == NIXL_E_RANGE);
                status = NIXL_OK;
            }
        }
    }
    conf_forget_late_puts(0);
    mpt_barrier();
    MPT_OK(nixl_region_close(view, MPT_PATIENCE));
    mpt_barrier();
}

static void bad_lists_of_extents_are_refused(void)
{
    struct cache cache = extents_lay_out(3);
    struct nixl_region *region = NULL;
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_extent *many;

    MPT_STATUS(nixl_region_register_extents("ext.no", NULL, 1, NULL, &region), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register_extents("ext.no", cache.pieces, 0, NULL, &region),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_region_register_extents("ext.no", cache.pieces, NIXL_EXTENTS_MAX + 1, NULL, &region),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register_extents("ext.no", cache.pieces, 3, NULL, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_region_register_extents("", cache.pieces, 3, NULL, &region),
               NIXL_E_INVALID_ARG);
    params.kind = NIXL_MEM_VULKAN;
    MPT_STATUS(nixl_region_register_extents("ext.no", cache.pieces, 3, &params, &region),
               NIXL_E_UNSUPPORTED);
    cache.pieces[1].nbytes = 0;
    MPT_STATUS(nixl_region_register_extents("ext.no", cache.pieces, 3, NULL, &region),
               NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "extent 1: nbytes is 0") != NULL);
    cache.pieces[1].nbytes = 8;
    cache.pieces[2].addr = NULL;
    MPT_STATUS(nixl_region_register_extents("ext.no", cache.pieces, 3, NULL, &region),
               NIXL_E_INVALID_ARG);
    MPT_TRUE(strstr(nixl_last_error()->text, "extent 2: addr is NULL") != NULL);
    MPT_TRUE(region == NULL);
    many = calloc(NIXL_EXTENTS_MAX, sizeof(*many));
    MPT_TRUE(many != NULL);
    for (size_t i = 0; i < NIXL_EXTENTS_MAX; i++) {
        many[i] = (struct nixl_extent){cache.memory + 16 * i, 16};
    }
    MPT_OK(nixl_region_register_extents("ext.many", many, NIXL_EXTENTS_MAX, NULL, &region));
    MPT_STATUS(nixl_region_register_extents("ext.many", many, 2, NULL, &cache.region),
               NIXL_E_NAME_IN_USE);
    mpt_barrier();
    memset(block, 0x5a, 16);
    MPT_OK(nixl_put(conf.next, region, (uint64_t)16 * (NIXL_EXTENTS_MAX - 1), block, 16));
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    MPT_CHECK_BYTES(many[NIXL_EXTENTS_MAX - 1].addr, 16, 0x5a);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(many);
    free(cache.memory);
    mpt_barrier();
}

const struct guarantee conf_extents[] = {
    {"extents", NULL, 0},
    {"every_byte_of_every_extent_is_reached", every_byte_of_every_extent_is_reached, 0},
    {"a_large_start_goes_to_its_extent", a_large_start_goes_to_its_extent, 0},
    {"a_first_use_may_be_any_call", a_first_use_may_be_any_call, 0},
    {"words_of_extents_are_words", words_of_extents_are_words, 0},
    {"strided_blocks_may_lie_in_several_extents", strided_blocks_may_lie_in_several_extents, 0},
    {"no_operation_leaves_its_extent", no_operation_leaves_its_extent, 0},
    {"a_first_use_out_of_range_fails", a_first_use_out_of_range_fails, 0},
    {"extents_are_told", extents_are_told, 0},
    {"what_peers_may_not_do_holds_for_extents", what_peers_may_not_do_holds_for_extents, 0},
    {"a_token_is_for_bytes_of_an_extent", a_token_is_for_bytes_of_an_extent, 0},
    {"a_close_under_fire_ends_every_extent", a_close_under_fire_ends_every_extent, CONF_PEERS},
    {"bad_lists_of_extents_are_refused", bad_lists_of_extents_are_refused, 0},
    {NULL, NULL, 0},
};
