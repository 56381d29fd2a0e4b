/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of KV blocks in a file of rank 0, which is found again after a restart.
 *
 *     nixlrun -np 4 examples/kv_store /nvme/store        # spills the blocks of some prompts
 *     nixlrun -np 4 examples/kv_store /nvme/store        # fetches them
 *
 * Every rank spills into the file and fetches from it, on any host. A block is found by the hash of
 * its prefix: its tokens and all that precede them. The index is not stored: at the start each rank
 * reads the heads of all slots. A block counts only if its checksum is right, so what a crash has
 * torn is found, and is spilled again.
 */
#include <nixlrun.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SLOTS = 256, N_BLOCKS = 200, HEAD_NBYTES = 64, SLOT_NBYTES = 64 * 1024 };
#define MAGIC 0x4b5673746f726531ull /* "KVstore1" */

struct head {
    uint64_t magic;
    uint64_t prefix;   /* hash of the tokens up to the end of the block */
    uint64_t checksum; /* of the bytes behind the head */
    uint64_t unused[5];
};
_Static_assert(sizeof(struct head) == HEAD_NBYTES, "part of the file's format");

static void check(int status, const char *what)
{
    if (status != NIXL_OK) {
        fprintf(stderr, "rank %d: %s: %s\n", nixl_rank(), what, nixl_last_error()->text);
        exit(1);
    }
}

/* FNV-1a: good enough to find torn blocks and to tell prefixes apart here. */
static uint64_t hash(uint64_t seed, const void *bytes, size_t nbytes)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < nbytes; i++) {
        seed = (seed ^ byte[i]) * 0x100000001b3ull;
    }
    return seed;
}

/* What the model would have computed: the block's head and bytes. */
static void compute(unsigned char *slot, uint64_t prefix)
{
    struct head head = {.magic = MAGIC, .prefix = prefix};
    uint64_t word = prefix;

    for (size_t i = HEAD_NBYTES; i < SLOT_NBYTES; i += sizeof(word)) {
        word = word * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(slot + i, &word, sizeof(word));
    }
    head.checksum = hash(prefix, slot + HEAD_NBYTES, SLOT_NBYTES - HEAD_NBYTES);
    memcpy(slot, &head, sizeof(head));
}

static bool is_whole(const unsigned char *slot, uint64_t prefix)
{
    struct head head;

    memcpy(&head, slot, sizeof(head));
    return head.magic == MAGIC && head.prefix == prefix &&
           head.checksum == hash(prefix, slot + HEAD_NBYTES, SLOT_NBYTES - HEAD_NBYTES);
}

/* The heads of all slots, by one prepared transfer. */
static void read_index(struct nixl_region *store, struct head *heads)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;

    local.addr = heads;
    local.block_nbytes = local.stride = remote.block_nbytes = HEAD_NBYTES;
    local.nblocks = remote.nblocks = N_SLOTS;
    remote.region = store;
    remote.stride = SLOT_NBYTES;
    check(nixl_xfer_create(NIXL_XFER_GET, 0, &local, 1, &remote, 1, &xfer), "prepare the index");
    check(nixl_xfer_start_x(xfer, NULL, NULL), "read the index");
    check(nixl_xfer_free(xfer), "free the transfer");
}

/* Where the block is, or would be: by its hash, then the next slots in turn. */
static int find_slot(const struct head *heads, uint64_t prefix, bool *is_there_p)
{
    for (int i = 0; i < N_SLOTS; i++) {
        int slot = (int)((prefix + (uint64_t)i) % N_SLOTS);

        *is_there_p = heads[slot].magic == MAGIC && heads[slot].prefix == prefix;
        if (*is_there_p || heads[slot].magic != MAGIC) {
            return slot;
        }
    }
    fprintf(stderr, "the store is full\n");
    exit(1);
}

/*
 * All ranks place the blocks in the same order, so that they agree on the slots without a message.
 */
static void serve_prompt(struct nixl_region *store, struct head *heads, unsigned char *slot,
                         int counts[3])
{
    struct nixl_op durable = NIXL_OP_INIT;
    uint64_t prefix = 0xcbf29ce484222325ull;

    durable.flags = NIXL_OP_DURABLE;
    for (int block = 0; block < N_BLOCKS; block++) {
        bool is_there, is_mine = block % nixl_size() == nixl_rank();
        uint64_t offset;
        int at;

        prefix = hash(prefix, &block, sizeof(block)); /* of the block's tokens */
        at = find_slot(heads, prefix, &is_there);
        heads[at] = (struct head){.magic = MAGIC, .prefix = prefix};
        offset = (uint64_t)at * SLOT_NBYTES;
        if (is_mine && is_there) {
            check(nixl_get(0, store, offset, slot, SLOT_NBYTES), "fetch");
            is_there = is_whole(slot, prefix);
            counts[is_there ? 0 : 2]++;
        }
        if (is_mine && !is_there) {
            compute(slot, prefix);
            check(nixl_put_x(0, store, offset, slot, SLOT_NBYTES, &durable, NULL), "spill");
            counts[1]++;
        }
    }
}

int main(int argc, char **argv)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct head *heads = calloc(N_SLOTS, sizeof(*heads));
    unsigned char *slot = malloc(SLOT_NBYTES);
    struct nixl_reduce_args sum = NIXL_REDUCE_ARGS_INIT;
    struct nixl_region *store;
    struct nixl_team *world;
    int counts[3] = {0, 0, 0}, all[3];

    if (argc != 2 || heads == NULL || slot == NULL) {
        fprintf(stderr, "usage: nixlrun -np N kv_store FILE\n");
        return 2;
    }
    check(nixl_init(NULL), "join the job");
    check(nixl_team_world(NIXL_FOREVER, &world), "the team of all ranks");
    if (nixl_rank() == 0) {
        params.flags = NIXL_FILE_CREATE | NIXL_FILE_EXCLUSIVE;
        params.nbytes = (uint64_t)N_SLOTS * SLOT_NBYTES;
        check(nixl_region_open_file("store", argv[1], &params, &store), "open the store");
    } else {
        check(nixl_region_open("store", &store), "find the store");
    }
    read_index(store, heads);
    check(nixl_barrier(world, NIXL_FOREVER), "wait for all indices"); /* nobody has spilled yet */
    serve_prompt(store, heads, slot, counts);
    sum.src = counts;
    sum.dst = all;
    sum.count = 3;
    sum.type = NIXL_TYPE_INT32;
    sum.op = NIXL_REDUCE_SUM;
    check(nixl_allreduce(world, &sum, NIXL_FOREVER), "count");
    if (nixl_rank() == 0) {
        printf("%d blocks fetched, %d spilled, %d of these because they were torn\n", all[0],
               all[1], all[2]);
    }
    check(nixl_region_close(store, NIXL_FOREVER), "close the store");
    check(nixl_finalize(), "leave the job");
    free(heads);
    free(slot);
    return 0;
}
