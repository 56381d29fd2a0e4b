/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads of registered memory, where the network has them. */
#include "config.h"

#include "network_test.h"

#include <stdlib.h>
#include <string.h>

#define NBYTES (4 * 1024 * 1024ul)

struct shared_key {
    size_t nbytes;
    unsigned char bytes[NXR_NET_KEY_NBYTES];
};

static const size_t sizes[] = {1, 8, 100, 4096, 65536, 1000000, NBYTES / 2};

static char *memory, *local;
static struct nxr_net_mem *registered;
static struct shared_key keys[NT_MAX_PROCESSES];

/*
 * Register memory that the other may not use so, and show its key to it. False: this network has no
 * such thing.
 */
static bool prepare(uint32_t access)
{
    struct shared_key mine = {.nbytes = sizeof(mine.bytes)};

    if (!nt_net->attr()->has_rma) {
        MPT_EQ(
            nt_net->mem_register(&mine, 1, NIXL_MEM_HOST, 0, &registered, mine.bytes, &mine.nbytes),
            NIXL_E_UNSUPPORTED);
        return false;
    }
    memory = malloc(NBYTES);
    local = malloc(NBYTES);
    MPT_TRUE(memory != NULL && local != NULL);
    memset(memory, 0x55, NBYTES);
    mine.nbytes = 0;
    MPT_OK(nt_net->mem_register(memory, NBYTES, NIXL_MEM_HOST, access, &registered, mine.bytes,
                                &mine.nbytes));
    MPT_TRUE(mine.nbytes > 0 && mine.nbytes <= sizeof(mine.bytes));
    nt_exchange(&mine, sizeof(mine), keys);
    return true;
}

static void finish(void)
{
    nt_barrier();
    nt_net->mem_release(registered);
    free(memory);
    free(local);
}

typedef int move_fn(struct nxr_net_key *key, uint64_t offset, size_t nbytes, struct nt_op *op);

static int do_write(struct nxr_net_key *key, uint64_t offset, size_t nbytes, struct nt_op *op)
{
    return nt_net->write(nt_eps[1], key, offset, local, nbytes, &op->op);
}

static int do_read(struct nxr_net_key *key, uint64_t offset, size_t nbytes, struct nt_op *op)
{
    return nt_net->read(nt_eps[1], key, offset, local, nbytes, &op->op);
}

static void move(move_fn *fn, struct nxr_net_key *key, uint64_t offset, size_t nbytes)
{
    struct nt_op op = {.is_taken = true};
    int64_t deadline = mpt_now_ns() + NT_WAIT_NS;
    int status;

    while ((status = fn(key, offset, nbytes, &op)) == NIXL_E_AGAIN) {
        MPT_LT(mpt_now_ns(), deadline);
        nt_drive();
    }
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    op.is_taken = status == NIXL_INPROGRESS;
    nt_until_ended(&op, NIXL_OK);
}

/* What was written is there when its end is reported: the target looks without any progress(). */
static void write_and_read(void)
{
    struct nxr_net_key *key = NULL;

    if (!prepare(0)) {
        return;
    }
    if (nt_rank == 0) {
        nt_reach(1);
        MPT_OK(nt_net->key_open(nt_eps[1], keys[1].bytes, keys[1].nbytes, &key));
    }
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t offset = i * 4099;

        nt_barrier();
        if (nt_rank == 0) {
            mpt_fill(local, sizes[i], i);
            move(do_write, key, offset, sizes[i]);
        }
        nt_barrier();
        if (nt_rank == 1) {
            MPT_CHECK(memory + offset, sizes[i], i);
            MPT_CHECK_BYTES(memory + offset + sizes[i], 64, 0x55);
            mpt_fill(memory + offset, sizes[i], ~(uint64_t)i);
        }
        nt_barrier();
        if (nt_rank == 0) {
            memset(local, 0, NBYTES);
            move(do_read, key, offset, sizes[i]);
            MPT_CHECK(local, sizes[i], ~(uint64_t)i);
            MPT_CHECK_BYTES(local + sizes[i], 64, 0);
        }
        nt_barrier();
        memset(memory, 0x55, NBYTES);
    }
    if (nt_rank == 0) {
        nt_net->key_close(key);
    }
    finish();
}

static void is_better(void)
{
    const struct nxr_net_attr *attr = nt_net->attr();

    MPT_EQ(attr->is_rma_better, attr->has_rma);
    write_and_read();
}

/* Any change of a key is noticed. Pure garbage too. */
static void bad_keys(void)
{
    struct nxr_net_key *key;
    uint64_t state = 1;

    if (!prepare(0)) {
        return;
    }
    for (size_t bit = 0; nt_rank == 0 && bit < keys[1].nbytes * 8; bit++) {
        keys[1].bytes[bit / 8] ^= 1 << bit % 8;
        MPT_LT(nt_net->key_open(nt_eps[1], keys[1].bytes, keys[1].nbytes, &key), 0);
        keys[1].bytes[bit / 8] ^= 1 << bit % 8;
    }
    for (size_t nbytes = 0; nt_rank == 0 && nbytes < keys[1].nbytes; nbytes++) {
        MPT_LT(nt_net->key_open(nt_eps[1], keys[1].bytes, nbytes, &key), 0);
    }
    for (unsigned i = 0; nt_rank == 0 && i < 1000; i++) {
        unsigned char bytes[NXR_NET_KEY_NBYTES];

        mpt_fill(bytes, sizeof(bytes), mpt_random(&state));
        MPT_LT(nt_net->key_open(nt_eps[1], bytes, mpt_random(&state) % sizeof(bytes), &key), 0);
    }
    finish();
}

/* libfabric refuses what the memory was not registered for. UCX registers for everything. */
static void is_forbidden(uint32_t access, move_fn *fn)
{
    struct nt_op op = {.is_taken = true};
    struct nxr_net_key *key;
    int status = NIXL_E_AGAIN;

    if (!prepare(access)) {
        return;
    }
    if (nt_rank == 0 && strcmp(nt_net->name, "ofi") == 0) {
        nt_reach(1);
        MPT_OK(nt_net->key_open(nt_eps[1], keys[1].bytes, keys[1].nbytes, &key));
        memset(local, 0x3c, NBYTES);
        while ((status = fn(key, 0, 4096, &op)) == NIXL_E_AGAIN) {
            nt_drive();
        }
        MPT_NE(status, NIXL_OK);
        if (status == NIXL_INPROGRESS) {
            nt_until_failed(&op);
        }
        MPT_CHECK_BYTES(local, NBYTES, 0x3c);
        nt_net->key_close(key);
    }
    nt_barrier();
    MPT_CHECK_BYTES(memory, NBYTES, 0x55);
    finish();
}

static void forbidden_write(void)
{
    is_forbidden(NIXL_ACCESS_NO_PUT, do_write);
}

static void forbidden_read(void)
{
    is_forbidden(NIXL_ACCESS_NO_GET, do_read);
}

const struct nt_case nt_rma_cases[] = {
    {.text = "writes and reads of registered memory", .n_processes = 2, .run = write_and_read},
    {.text = "the same where they are asked for",
     .n_processes = 2,
     .run = is_better,
     .prefers_rma = true},
    {.text = "a write to memory that is for reading only",
     .n_processes = 2,
     .run = forbidden_write,
     .prefers_rma = true},
    {.text = "a read of memory that is for writing only",
     .n_processes = 2,
     .run = forbidden_read,
     .prefers_rma = true},
    {.text = "damaged keys are refused", .n_processes = 2, .run = bad_keys},
    {.text = NULL},
};
