/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several large operations at a time by several rails, both ways: each rank puts blocks into the
 * other one, with a notification behind each, and gets blocks of it meanwhile. Each block is what
 * its number says, and nobody is lost.
 */
#include "test/mp/mptest.h"

#include <stdlib.h>
#include <string.h>

#define TAG_PUT  0x9f01
#define TAG_SEEN 0x9f02

#define WINDOW   4u
#define N_PUTS   60u
#define N_NBYTES ((size_t)1 << 20)

static unsigned char *out, *got;
static struct nixl_region *region, *source;
static struct nixl_req *moving[WINDOW], *get;
static int other;
static unsigned n_put, n_seen, n_in, n_got;

/* Put the next block where the one before it in the window was seen. */
static void put_block(void)
{
    size_t at = n_put % WINDOW * N_NBYTES;
    struct nixl_op op = NIXL_OP_INIT;
    int status;

    MPT_OK(nixl_req_wait(&moving[n_put % WINDOW], MPT_PATIENCE));
    mpt_fill(out + at, N_NBYTES, n_put);
    op.flags = NIXL_OP_NOTE;
    op.tag = TAG_PUT;
    op.msg = &n_put;
    op.msg_nbytes = sizeof(n_put);
    status = nixl_put_x(other, region, at, out + at, N_NBYTES, &op, &moving[n_put % WINDOW]);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    n_put++;
}

/* Take a notification: a block has come, or the other one has seen one of this rank. */
static void take_note(void)
{
    struct nixl_note note;
    const char *in = nixl_region_addr(region);
    unsigned number;
    int status;

    nixl_note_init(&note);
    status = nixl_notify_recv(other, 0, 0, 0, &note);
    if (status == NIXL_INPROGRESS) {
        return;
    }
    MPT_OK(status);
    if (note.tag == TAG_SEEN) {
        n_seen++;
        return;
    }
    memcpy(&number, note.payload, sizeof(number));
    MPT_EQ(number, n_in);
    mpt_check(__FILE__, __LINE__, in + number % WINDOW * N_NBYTES, N_NBYTES, number);
    n_in++;
    MPT_OK(nixl_notify(other, TAG_SEEN, NULL, 0, MPT_PATIENCE));
}

static void get_block(void)
{
    int status = get == NULL ? NIXL_OK : nixl_req_test(&get);

    if (status == NIXL_INPROGRESS) {
        return;
    }
    MPT_OK(status);
    if (n_got > 0) {
        mpt_check(__FILE__, __LINE__, got, N_NBYTES, 1000u + (unsigned)other);
    }
    memset(got, 0, N_NBYTES);
    status = nixl_get_x(other, source, 0, got, N_NBYTES, NULL, &get);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    n_got++;
}

static void move_all(void)
{
    int64_t until_ns = mpt_now_ns() + MPT_PATIENCE;

    while (n_seen < N_PUTS || n_in < N_PUTS) {
        MPT_LT(mpt_now_ns(), until_ns);
        if (n_put < N_PUTS && n_put < n_seen + WINDOW) {
            put_block();
        }
        take_note();
        get_block();
    }
    MPT_OK(nixl_req_wait(&get, MPT_PATIENCE));
}

int main(void)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    other = 1 - nixl_rank();
    out = malloc(WINDOW * N_NBYTES);
    got = malloc(N_NBYTES);
    MPT_TRUE(out != NULL && got != NULL);
    MPT_OK(nixl_region_alloc("in", WINDOW * N_NBYTES, NULL, &region));
    MPT_OK(nixl_region_alloc("source", N_NBYTES, NULL, &source));
    mpt_fill(nixl_region_addr(source), N_NBYTES, 1000u + (unsigned)nixl_rank());
    mpt_barrier();
    move_all();
    mpt_barrier();
    MPT_OK(nixl_finalize());
    free(out);
    free(got);
    return mpt_passed();
}
