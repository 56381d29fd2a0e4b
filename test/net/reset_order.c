/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is lost with one peer does not change the order of what goes to another: rank 0 puts blocks
 * into rank 1 with a notification behind each, and meanwhile gets from the ranks after that, which
 * are stopped. Each of these is lost, one after the other. The network ofi then closes its endpoint
 * so that no late answer writes into memory that is used again, and repeats what was under way to
 * rank 1. The bytes of a block are there before its notification all the same.
 */
#include "test/mp/mptest.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_PUT  0x9f11
#define TAG_SEEN 0x9f12
#define TAG_STOP 0x9f13
#define TAG_END  0x9f14

#define WINDOW     8u
#define N_NBYTES   ((size_t)4 << 20)
#define GET_NBYTES ((size_t)64 << 20)
#define STEP       ((size_t)4088) /* one word in each page is looked at */

static struct nixl_region *region, *big;

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static char *out;
static struct nixl_req *moving[WINDOW];
static bool is_under_way[WINDOW];
static uint64_t n_put;

static void put_block(unsigned slot)
{
    struct nixl_op op = NIXL_OP_INIT;
    uint64_t told[2] = {slot, ++n_put};
    char *block = out + slot * N_NBYTES;
    int status;

    for (size_t at = 0; at + sizeof(n_put) <= N_NBYTES; at += STEP) {
        memcpy(block + at, &n_put, sizeof(n_put));
    }
    op.flags = NIXL_OP_NOTE;
    op.tag = TAG_PUT;
    op.msg = told;
    op.msg_nbytes = sizeof(told);
    status = nixl_put_x(1, region, slot * N_NBYTES, block, N_NBYTES, &op, &moving[slot]);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    is_under_way[slot] = true;
}

static void put_blocks(void)
{
    struct nixl_note note;
    uint64_t told[2];

    for (unsigned slot = 0; slot < WINDOW; slot++) {
        if (moving[slot] != NULL) {
            int status = nixl_req_test(&moving[slot]);

            MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        } else if (!is_under_way[slot]) {
            put_block(slot);
        }
    }
    for (;;) {
        nixl_note_init(&note);
        if (nixl_notify_recv(1, TAG_SEEN, UINT64_MAX, 0, &note) != NIXL_OK) {
            return;
        }
        memcpy(told, note.payload, sizeof(told));
        is_under_way[told[0]] = false;
    }
}

/* Get from a stopped rank until it is lost. */
static void lose(int victim, char *memory)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_req *get = NULL;
    int status = nixl_get_x(victim, big, 0, memory, GET_NBYTES, NULL, &get);

    while (status == NIXL_INPROGRESS) {
        MPT_LT(mpt_now_ns(), until_ns);
        put_blocks();
        status = nixl_req_test(&get);
    }
    MPT_STATUS(status, NIXL_E_PEER_LOST);
}

static void be_first(void)
{
    char *memory = malloc(GET_NBYTES);
    struct nixl_note note;
    pid_t pids[16];

    out = calloc(WINDOW, N_NBYTES);
    MPT_TRUE(memory != NULL && out != NULL);
    for (int victim = 2; victim < nixl_size(); victim++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(victim, TAG_STOP, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&pids[victim], note.payload, sizeof(pids[victim]));
        MPT_OK(nixl_get(victim, big, 0, memory, 8));
        MPT_EQ(kill(pids[victim], SIGSTOP), 0);
    }
    for (int victim = 2; victim < nixl_size(); victim++) {
        lose(victim, memory);
    }
    for (unsigned slot = 0; slot < WINDOW; slot++) {
        MPT_OK(nixl_req_wait(&moving[slot], MPT_PATIENCE));
    }
    MPT_OK(nixl_notify(1, TAG_END, NULL, 0, MPT_PATIENCE));
    for (int victim = 2; victim < nixl_size(); victim++) {
        MPT_TRUE(pids[victim] > 1 && kill(pids[victim], SIGKILL) == 0);
    }
    free(memory);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void be_second(void)
{
    const char *blocks = nixl_region_addr(region);
    struct nixl_note note;
    uint64_t told[2], there;

    for (;;) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, 0, 0, MPT_PATIENCE, &note));
        if (note.tag == TAG_END) {
            return;
        }
        memcpy(told, note.payload, sizeof(told));
        for (size_t at = 0; at + sizeof(there) <= N_NBYTES; at += STEP) {
            memcpy(&there, blocks + told[0] * N_NBYTES + at, sizeof(there));
            MPT_EQ(there, told[1]);
        }
        MPT_OK(nixl_notify(0, TAG_SEEN, told, sizeof(told), MPT_PATIENCE));
    }
}

static void be_victim(void)
{
    pid_t pid = getpid();

    MPT_OK(nixl_notify(0, TAG_STOP, &pid, sizeof(pid), MPT_PATIENCE));
    for (;;) {
        pause();
    }
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_region_alloc("blocks", WINDOW * N_NBYTES, NULL, &region));
    MPT_OK(nixl_region_alloc("big", GET_NBYTES, NULL, &big));
    if (nixl_rank() == 0) {
        be_first();
    } else if (nixl_rank() == 1) {
        be_second();
    } else {
        be_victim();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
