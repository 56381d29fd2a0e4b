/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on the bytes of prepared transfers: layouts made at random, of which both ranks of a
 * pair know the seed. Byte i of a transfer is the i-th of each side; the model below finds where it
 * lies, block by block, and shares nothing with the library.
 */
#include "local.h"
#include "test/op_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG_DATA 0x8f01
#define TAG_NEXT 0x8f02

#define MAX_ENTRIES  6
#define MAX_BLOCKS   48
#define ENTRY_NBYTES (256u << 10) /* that an entry spreads over */
#define SIDE_NBYTES  (MAX_ENTRIES * ENTRY_NBYTES)
#define BLANK        0xee

/* A side: entries in memory of their own, half of them in each of two pieces of memory. */
struct side {
    size_t n_entries;
    struct nixl_blocks entries[MAX_ENTRIES];
    uint64_t indices[MAX_ENTRIES][MAX_BLOCKS];
    uint64_t nbytes;
};

/* All in pieces of SIDE_NBYTES / 2; memory of any kind is looked at in copies on the host. */
struct memory {
    struct segment segments[2];
    struct local locals[2];
    unsigned char *there[2]; /* copies of the own segments */
    unsigned char *here[2];  /* those of the locals */
};

/* ---- layouts at random ----------------------------------------------------------------------- */

/* Numbers in any order, none twice, so that blocks do not overlap. */
static void shuffle(uint64_t *index, uint64_t n, uint64_t n_places, uint64_t *state)
{
    for (uint64_t i = 0; i < n; i++) {
        bool is_taken;

        do {
            is_taken = false;
            index[i] = mpt_random(state) % n_places;
            for (uint64_t j = 0; j < i; j++) {
                is_taken |= index[j] == index[i];
            }
        } while (is_taken);
    }
}

/* An entry of at most max_nbytes in its own ENTRY_NBYTES of memory. */
static void make_entry(struct side *side, uint64_t max_nbytes, uint64_t *state)
{
    size_t number = side->n_entries++;
    struct nixl_blocks *entry = &side->entries[number];
    uint64_t room = ENTRY_NBYTES - 64, n_places;

    *entry = (struct nixl_blocks)NIXL_BLOCKS_INIT;
    entry->offset = number / 2 * ENTRY_NBYTES + mpt_random(state) % 64;
    entry->block_nbytes = 1 + mpt_random(state) % (mpt_random(state) % 2 ? 100 : 5000);
    if (entry->block_nbytes > max_nbytes) {
        entry->block_nbytes = max_nbytes;
    }
    entry->stride = entry->block_nbytes + (mpt_random(state) % 3 ? mpt_random(state) % 100 : 0);
    n_places = room / entry->stride;
    entry->nblocks = 1 + mpt_random(state) % MAX_BLOCKS;
    if (entry->nblocks > n_places) {
        entry->nblocks = n_places;
    }
    if (entry->nblocks > max_nbytes / entry->block_nbytes) {
        entry->nblocks = max_nbytes / entry->block_nbytes;
    }
    if (mpt_random(state) % 2) {
        entry->index = side->indices[number];
        shuffle(side->indices[number], entry->nblocks, n_places, state);
    }
    side->nbytes += entry->block_nbytes * entry->nblocks;
}

/* Some entries; or, with nbytes > 0, so many that they hold that. False: they do not. */
static bool make_side(struct side *side, uint64_t nbytes, uint64_t *state)
{
    size_t n_entries = 1 + mpt_random(state) % (MAX_ENTRIES / 2);

    memset(side, 0, sizeof(*side));
    while (side->n_entries < MAX_ENTRIES) {
        uint64_t left = nbytes > 0 ? nbytes - side->nbytes : UINT64_MAX;

        if (left == 0 || (nbytes == 0 && side->n_entries == n_entries)) {
            return true;
        }
        if (nbytes > 0 && side->n_entries == MAX_ENTRIES - 1 && left < ENTRY_NBYTES / 2) {
            make_entry(side, left, state); /* the rest as one piece */
            side->nbytes += left - side->entries[side->n_entries - 1].block_nbytes *
                                       side->entries[side->n_entries - 1].nblocks;
            side->entries[side->n_entries - 1].block_nbytes = left;
            side->entries[side->n_entries - 1].nblocks = 1;
            side->entries[side->n_entries - 1].index = NULL;
        } else {
            make_entry(side, left, state);
        }
    }
    return nbytes == 0 || side->nbytes == nbytes;
}

/* Both sides of one size, from a seed. */
static void make_layout(uint64_t seed, struct side *local, struct side *remote)
{
    uint64_t state = seed;

    do {
        make_side(remote, 0, &state);
    } while (!make_side(local, remote->nbytes, &state));
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Write, or compare, byte i of a transfer where a side has it; odd entries in the second memory. */
static void each_block(const struct side *side, unsigned char *const bases[2], uint64_t seed,
                       bool is_check)
{
    uint64_t done = 0;

    for (size_t i = 0; i < side->n_entries; i++) {
        const struct nixl_blocks *entry = &side->entries[i];

        for (uint64_t block = 0; block < entry->nblocks; block++) {
            uint64_t number = entry->index != NULL ? entry->index[block] : block;
            unsigned char *at = bases[i % 2] + entry->offset + number * entry->stride;

            for (uint64_t k = 0; k < entry->block_nbytes; k++, done++) {
                unsigned char byte = (unsigned char)((done * 2654435761u + seed) >> 7);

                if (is_check && at[k] != byte) {
                    mpt_fail(__FILE__, __LINE__,
                             "seed %" PRIu64 ": byte %" PRIu64 " (entry %zu, block %" PRIu64
                             ") is %d, not %d",
                             seed, done, i, block, at[k], byte);
                }
                at[k] = byte;
            }
        }
    }
}

/* With its blocks made blank, all of the memory is: nothing beside them was written. */
static void check_rest(const struct side *side, unsigned char *const bases[2], uint64_t seed)
{
    for (size_t i = 0; i < side->n_entries; i++) {
        const struct nixl_blocks *entry = &side->entries[i];

        for (uint64_t block = 0; block < entry->nblocks; block++) {
            uint64_t number = entry->index != NULL ? entry->index[block] : block;

            memset(bases[i % 2] + entry->offset + number * entry->stride, BLANK,
                   entry->block_nbytes);
        }
    }
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < SIDE_NBYTES / 2; k++) {
            if (bases[i][k] != BLANK) {
                mpt_fail(__FILE__, __LINE__, "seed %" PRIu64 ": byte %zu beside the blocks is %d",
                         seed, k, bases[i][k]);
            }
        }
    }
}

/* ---- the guarantees -------------------------------------------------------------------------- */

static struct memory make_memory(void)
{
    struct memory memory;

    for (int i = 0; i < 2; i++) {
        memory.segments[i] = conf_segment(i == 0 ? "xfer.a" : "xfer.b", SIDE_NBYTES / 2);
        memory.there[i] = malloc(SIDE_NBYTES / 2);
        MPT_TRUE(memory.there[i] != NULL);
        memory.locals[i] =
            conf_local(i == 0 ? "xfer.local.a" : "xfer.local.b", conf.local_kind, SIDE_NBYTES / 2);
        memory.here[i] = memory.locals[i].host;
    }
    return memory;
}

static void drop_memory(struct memory *memory)
{
    for (int i = 0; i < 2; i++) {
        conf_drop(&memory->segments[i]);
        conf_drop_local(&memory->locals[i]);
        free(memory->there[i]);
    }
}

static void push_local(struct memory *memory)
{
    for (int i = 0; i < 2; i++) {
        conf_push(&memory->locals[i], 0, SIDE_NBYTES / 2);
    }
}

static void pull_local(struct memory *memory)
{
    for (int i = 0; i < 2; i++) {
        conf_pull(&memory->locals[i], 0, SIDE_NBYTES / 2);
    }
}

static void push_own(const struct memory *memory)
{
    for (int i = 0; i < 2; i++) {
        conf_fill_segment(&memory->segments[i], 0, memory->there[i], SIDE_NBYTES / 2);
    }
}

static void pull_own(const struct memory *memory)
{
    for (int i = 0; i < 2; i++) {
        conf_read_segment(&memory->segments[i], 0, memory->there[i], SIDE_NBYTES / 2);
    }
}

/* Say where the sides are. */
static void place(struct memory *memory, struct side *local, struct side *remote)
{
    for (size_t i = 0; i < local->n_entries; i++) {
        local->entries[i].addr = memory->locals[i % 2].addr;
    }
    for (size_t i = 0; i < remote->n_entries; i++) {
        remote->entries[i].region = memory->segments[i % 2].region;
    }
}

static void run(enum nixl_xfer_op op, int rank, struct side *local, struct side *remote)
{
    struct nixl_xfer *xfer;

    MPT_OK(nixl_xfer_create(op, rank, local->entries, local->n_entries, remote->entries,
                            remote->n_entries, &xfer));
    for (int again = 0; again < 2; again++) {
        int status = nixl_xfer_start(xfer, NULL);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    }
    MPT_OK(nixl_xfer_free(xfer));
}

static uint64_t round_seed(unsigned round, int rank)
{
    return 1 + round * 1000003ull + (uint64_t)rank * 7919;
}

static void blank(unsigned char *const bases[2])
{
    memset(bases[0], BLANK, SIDE_NBYTES / 2);
    memset(bases[1], BLANK, SIDE_NBYTES / 2);
}

/* Put to `target` while `source` puts here. */
static void put_at_random(int target, int source, unsigned n_rounds)
{
    struct memory memory = make_memory();
    static struct side local, remote;

    for (unsigned round = 0; round < n_rounds; round++) {
        uint64_t mine = round_seed(round, conf.rank), theirs = round_seed(round, source);

        blank(memory.there);
        push_own(&memory);
        mpt_barrier();
        make_layout(mine, &local, &remote);
        place(&memory, &local, &remote);
        each_block(&local, memory.here, mine, false);
        push_local(&memory);
        run(NIXL_XFER_PUT, target, &local, &remote);
        conf_tell(target, TAG_DATA);
        conf_hear(source, TAG_DATA);
        pull_own(&memory);
        make_layout(theirs, &local, &remote);
        each_block(&remote, memory.there, theirs, true);
        check_rest(&remote, memory.there, theirs);
        mpt_barrier();
    }
    drop_memory(&memory);
}

static void a_transfer_puts_every_byte(void)
{
    put_at_random(conf.next, conf.prev, conf_rounds(30));
}

static void a_transfer_to_oneself_moves_every_byte(void)
{
    put_at_random(conf.rank, conf.rank, conf_rounds(10));
}

static void a_transfer_gets_every_byte(void)
{
    struct memory memory = make_memory();
    static struct side local, remote;

    for (unsigned round = 0; round < conf_rounds(30); round++) {
        uint64_t mine = round_seed(round, conf.rank), theirs = round_seed(round, conf.prev);

        make_layout(theirs, &local, &remote); /* what the rank before this one will read */
        each_block(&remote, memory.there, theirs, false);
        push_own(&memory);
        blank(memory.here);
        push_local(&memory);
        mpt_barrier();
        make_layout(mine, &local, &remote);
        place(&memory, &local, &remote);
        run(NIXL_XFER_GET, conf.next, &local, &remote);
        pull_local(&memory);
        each_block(&local, memory.here, mine, true);
        check_rest(&local, memory.here, mine);
        mpt_barrier();
    }
    drop_memory(&memory);
}

/* More blocks than any list, at random offsets of a large segment; fewer where copies are slow. */
static void many_blocks_arrive_each_at_its_place(void)
{
    enum { BLOCK = 192 };
    bool is_host = conf.segment_kind == NIXL_MEM_HOST && conf.local_kind == NIXL_MEM_HOST;
    const uint64_t n_blocks = is_host ? 20000 : 4500;
    struct segment segment = conf_segment("xfer.many", (size_t)n_blocks * BLOCK);
    struct local src = conf_local("xfer.many.local", conf.local_kind, (size_t)n_blocks * BLOCK);
    unsigned char *seen = calloc(n_blocks, BLOCK);
    uint64_t *index = malloc(n_blocks * sizeof(*index)), state = 77;
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;

    for (uint64_t i = 0; i < n_blocks; i++) {
        uint64_t j = mpt_random(&state) % (i + 1);

        index[i] = index[j];
        index[j] = i;
        mpt_fill(src.host + i * BLOCK, BLOCK, i + (uint64_t)conf.rank);
    }
    conf_push(&src, 0, src.nbytes);
    conf_fill_segment(&segment, 0, seen, segment.nbytes);
    local.addr = src.addr;
    remote.region = segment.region;
    local.block_nbytes = local.stride = remote.block_nbytes = remote.stride = BLOCK;
    local.nblocks = remote.nblocks = n_blocks;
    remote.index = index;
    mpt_barrier();
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        MPT_TRUE(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(TAG_DATA, NULL, 0)}, NULL) >=
                 0);
        conf_hear(conf.prev, TAG_DATA);
        conf_read_segment(&segment, 0, seen, segment.nbytes);
        for (uint64_t i = 0; i < n_blocks; i++) {
            MPT_CHECK(seen + index[i] * BLOCK, BLOCK, i + (uint64_t)conf.prev);
        }
        memset(seen, 0, segment.nbytes);
        conf_fill_segment(&segment, 0, seen, segment.nbytes);
        conf_tell(conf.prev, TAG_NEXT);
        conf_hear(conf.next, TAG_NEXT);
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    }
    MPT_OK(nixl_xfer_free(xfer));
    conf_end(&segment);
    conf_drop_local(&src);
    free(seen);
    free(index);
}

const struct guarantee conf_xfer_data[] = {
    {"xfer", NULL, 0},
    {"a_transfer_puts_every_byte", a_transfer_puts_every_byte, 0},
    {"a_transfer_gets_every_byte", a_transfer_gets_every_byte, 0},
    {"a_transfer_to_oneself_moves_every_byte", a_transfer_to_oneself_moves_every_byte, 0},
    {"many_blocks_arrive_each_at_its_place", many_blocks_arrive_each_at_its_place, 0},
    {0},
};
