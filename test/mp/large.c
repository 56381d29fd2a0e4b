/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More than 4 GiB in one call, between two ranks, on memory that the library allocates or on the
 * ranks' own: every byte is looked at.
 *
 *     large put|xfer|collective allocated|own
 *
 * Takes 9 GiB of memory; skipped where they are not to be had.
 */
#include "mptest.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK    (1ull << 20)
#define N_BLOCKS 4097ull
#define NBYTES   (N_BLOCKS * BLOCK + 8) /* 1 MiB and 8 bytes more than 4 GiB */
#define N_WORDS  (NBYTES / 8)
#define ROOM     (2 * NBYTES + (512ull << 20))

/* What two members exchange: two pieces that are more than 4 GiB together, of whole words. */
#define PIECE_WORDS (N_WORDS / 2)

static bool is_allocated;
static struct nixl_region *region;
static uint64_t *mine; /* NBYTES; rank 1's is its segment of the region */

static uint64_t word_at(uint64_t i, uint64_t seed)
{
    return (i + seed) * 0x9e3779b97f4a7c15ull;
}

static void fill(uint64_t seed)
{
    for (uint64_t i = 0; i < N_WORDS; i++) {
        mine[i] = word_at(i, seed);
    }
}

static void check(uint64_t seed)
{
    for (uint64_t i = 0; i < N_WORDS; i++) {
        if (mine[i] != word_at(i, seed)) {
            mpt_fail(__FILE__, __LINE__, "seed %" PRIu64 ": word %" PRIu64 " of %" PRIu64, seed, i,
                     (uint64_t)N_WORDS);
        }
    }
}

static void skip_if_small(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    uint64_t available = 0;
    char line[128];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &available) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    if (available * 1024 < ROOM) {
        mpt_skip("%" PRIu64 " KiB of memory are available, %llu KiB are needed", available,
                 ROOM / 1024);
    }
}

static void open_memory(bool has_part)
{
    if (is_allocated && has_part) {
        MPT_OK(nixl_region_alloc("large", NBYTES, NULL, &region));
        mine = nixl_region_addr(region);
        return;
    }
    mine = mmap(NULL, NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPT_TRUE(mine != MAP_FAILED);
    if (has_part) {
        MPT_OK(nixl_region_register("large", mine, NBYTES, NULL, &region));
    } else {
        MPT_OK(nixl_region_open("large", &region));
    }
}

/* ---- put and get ----------------------------------------------------------------------------- */

static void test_put(void)
{
    if (nixl_rank() == 0) {
        fill(1);
        MPT_OK(nixl_put(1, region, 0, mine, NBYTES));
        MPT_OK(nixl_flush(1, MPT_PATIENCE));
        mpt_barrier();
        memset(mine, 0, NBYTES);
        mpt_barrier();
        MPT_OK(nixl_get(1, region, 0, mine, NBYTES));
        check(2);
        return;
    }
    mpt_barrier();
    check(1);
    fill(2);
    mpt_barrier();
}

/* ---- prepared transfers ---------------------------------------------------------------------- */

/* The whole of it as one block, against adjacent blocks there. */
static void put_blocks(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT;
    struct nixl_blocks remote[2] = {NIXL_BLOCKS_INIT, NIXL_BLOCKS_INIT};
    struct nixl_xfer *xfer;

    local.addr = mine;
    local.block_nbytes = NBYTES;
    remote[0].region = remote[1].region = region;
    remote[0].block_nbytes = remote[0].stride = BLOCK;
    remote[0].nblocks = N_BLOCKS;
    remote[1].offset = N_BLOCKS * BLOCK;
    remote[1].block_nbytes = 8;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 1, &local, 1, remote, 2, &xfer));
    if (nixl_xfer_start(xfer, NULL) != NIXL_OK) {
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    }
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_flush(1, MPT_PATIENCE));
}

/* Blocks in the opposite order, by an index. */
static void get_backwards(void)
{
    static uint64_t index[N_BLOCKS];
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;

    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        index[i] = N_BLOCKS - 1 - i;
    }
    local.addr = mine;
    local.block_nbytes = N_BLOCKS * BLOCK;
    remote.region = region;
    remote.block_nbytes = remote.stride = BLOCK;
    remote.nblocks = N_BLOCKS;
    remote.index = index;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, 1, &local, 1, &remote, 1, &xfer));
    if (nixl_xfer_start(xfer, NULL) != NIXL_OK) {
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    }
    MPT_OK(nixl_xfer_free(xfer));
    for (uint64_t i = 0; i < N_BLOCKS * BLOCK / 8; i++) {
        uint64_t words = BLOCK / 8, there = index[i / words] * words + i % words;

        if (mine[i] != word_at(there, 3)) {
            mpt_fail(__FILE__, __LINE__, "word %" PRIu64 " is not that of %" PRIu64, i, there);
        }
    }
}

static void test_xfer(void)
{
    if (nixl_rank() == 0) {
        fill(3);
        put_blocks();
        mpt_barrier();
        get_backwards();
        return;
    }
    mpt_barrier();
    check(3);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Is piece `which` of mine what piece `of_piece` of a rank was? */
static void check_piece(const char *what, int which, int rank, int of_piece)
{
    const uint64_t *piece = mine + (uint64_t)which * PIECE_WORDS;

    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        if (piece[i] != word_at(i + (uint64_t)of_piece * PIECE_WORDS, (uint64_t)rank)) {
            mpt_fail(__FILE__, __LINE__, "%s: word %" PRIu64 " of piece %d", what, i, which);
        }
    }
}

static void reduce_scatter(struct nixl_team *team)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    int rank = nixl_rank();

    fill((uint64_t)rank);
    args.src = args.dst = mine;
    args.count = PIECE_WORDS;
    args.type = NIXL_TYPE_UINT64;
    args.op = NIXL_REDUCE_XOR;
    MPT_OK(nixl_reduce_scatter(team, &args, MPT_PATIENCE));
    for (uint64_t i = 0; i < PIECE_WORDS; i++) {
        uint64_t at = i + (uint64_t)rank * PIECE_WORDS;

        if (mine[i] != (word_at(at, 0) ^ word_at(at, 1))) {
            mpt_fail(__FILE__, __LINE__, "reduce_scatter: word %" PRIu64, i);
        }
    }
}

/* In place where that is possible, since there is no more memory. */
static void exchange(struct nixl_team *team)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    size_t nbytes = PIECE_WORDS * sizeof(uint64_t);
    int rank = nixl_rank();

    fill((uint64_t)rank);
    MPT_OK(nixl_alltoall(team, mine, mine, nbytes, MPT_PATIENCE));
    check_piece("alltoall", 0, 0, rank);
    check_piece("alltoall", 1, 1, rank);
    fill((uint64_t)rank);
    MPT_OK(nixl_allgather(team, mine + (uint64_t)rank * PIECE_WORDS, mine, nbytes, MPT_PATIENCE));
    check_piece("allgather", 0, 0, 0);
    check_piece("allgather", 1, 1, 1);
    fill((uint64_t)rank);
    MPT_OK(
        nixl_scatter(team, 1, mine, rank == 1 ? mine + PIECE_WORDS : mine, nbytes, MPT_PATIENCE));
    check_piece("scatter", rank, 1, rank);
    fill((uint64_t)rank);
    args.src = args.dst = mine;
    args.count = N_WORDS;
    args.type = NIXL_TYPE_UINT64;
    args.op = NIXL_REDUCE_XOR;
    MPT_OK(nixl_scan(team, &args, MPT_PATIENCE));
    for (uint64_t i = 0; i < N_WORDS; i++) {
        if (mine[i] != (rank == 0 ? word_at(i, 0) : word_at(i, 0) ^ word_at(i, 1))) {
            mpt_fail(__FILE__, __LINE__, "scan: word %" PRIu64, i);
        }
    }
}

static void test_collective(void)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_team *team;
    int rank = nixl_rank();

    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    fill((uint64_t)rank);
    MPT_OK(nixl_broadcast(team, 1, mine, NBYTES, MPT_PATIENCE));
    check(1);
    fill((uint64_t)rank);
    args.src = args.dst = mine;
    args.count = NBYTES; /* more than 32 bits of elements */
    args.type = NIXL_TYPE_UINT8;
    args.op = NIXL_REDUCE_XOR;
    MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
    for (uint64_t i = 0; i < N_WORDS; i++) {
        if (mine[i] != (word_at(i, 0) ^ word_at(i, 1))) {
            mpt_fail(__FILE__, __LINE__, "allreduce: word %" PRIu64, i);
        }
    }
    exchange(team);
    reduce_scatter(team);
    MPT_OK(nixl_team_free(team));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "put";

    mpt_start();
    skip_if_small();
    is_allocated = argc > 2 && strcmp(argv[2], "allocated") == 0;
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    open_memory(nixl_rank() == 1 || strcmp(what, "collective") == 0);
    mpt_barrier();
    if (strcmp(what, "put") == 0) {
        test_put();
    } else if (strcmp(what, "xfer") == 0) {
        test_xfer();
    } else {
        test_collective();
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
