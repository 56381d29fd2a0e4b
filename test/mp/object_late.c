/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a store that does not answer, for test/storage/test_s3.sh: deadlines and cancel hold
 * whatever it does, at its owner, rank 0, and at the last rank; what was given up leaves the region
 * in order. The store is that of OBJECT_URL, and answers only questions about the bucket.
 * Arguments, one of:
 *     late     deadlines, cancel, completion queues, prepared transfers, flushes, questions, and
 *              closing
 *     abort    closing does not wait for long, if parts cannot be removed
 *     killed   the owner dies while puts and gets of the other rank are under way
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_OBJECTS = 8, NBYTES = 100000, LARGE = 11 << 20, PART = 5 << 20 };

#define SHORT_NS 200000000ll
#define SOON_NS  6000000000ll  /* of a busy machine; a store that is silent takes 10 s and more */
#define CLOSE_NS 20000000000ll /* closing waits so long for a store, and no longer */
#define HALF_NS  10000000000ll /* an object of which no more comes is given up after so long */

static struct nixl_region *objects, *large;
static int rank, size;
static unsigned char *out, *in;
static int64_t began_ns;

/* From here on, until soon(), it does not take long. */
static void begin(void)
{
    began_ns = mpt_now_ns();
}

static void soon(const char *what)
{
    int64_t took = mpt_now_ns() - began_ns;

    if (took > SOON_NS) {
        mpt_fail(__FILE__, __LINE__, "%s took %lld ms", what, (long long)(took / 1000000));
    }
}

static struct nixl_region *open_it(const char *name, uint64_t n, uint64_t nbytes)
{
    struct nixl_object_params params = NIXL_OBJECT_PARAMS_INIT;
    struct nixl_region *region;
    char url[1100];

    if (rank != 0) {
        MPT_OK(nixl_region_open(name, &region));
        return region;
    }
    snprintf(url, sizeof(url), "%s/%s", getenv("OBJECT_URL"), name);
    params.nobjects = n;
    params.object_nbytes = nbytes;
    params.part_nbytes = PART;
    MPT_OK(nixl_region_open_object(name, url, &params, &region));
    return region;
}

/* ---- late ------------------------------------------------------------------------------------ */

static int start(bool is_put, struct nixl_region *region, size_t nbytes, const struct nixl_op *op,
                 struct nixl_req **req_p)
{
    return is_put ? nixl_put_x(0, region, 0, out, nbytes, op, req_p)
                  : nixl_get_x(0, region, 0, in, nbytes, op, req_p);
}

static void one_by_one(bool is_put, struct nixl_region *region, size_t nbytes)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;

    op.timeout_ns = SHORT_NS;
    begin();
    MPT_EQ(start(is_put, region, nbytes, &op, NULL), NIXL_E_TIMEOUT);
    soon("a call with a deadline");
    begin();
    MPT_EQ(start(is_put, region, nbytes, &op, &req), NIXL_INPROGRESS);
    MPT_EQ(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_TIMEOUT);
    soon("a request with a deadline");
    begin();
    MPT_EQ(start(is_put, region, nbytes, NULL, &req), NIXL_INPROGRESS);
    MPT_EQ(nixl_req_wait(&req, SHORT_NS), NIXL_E_TIMEOUT);
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
    soon("cancel");
}

static void queued(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    size_t n = 0;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    op.timeout_ns = SHORT_NS;
    begin();
    MPT_EQ(nixl_get_x(0, objects, NBYTES, in, NBYTES, &op, NULL), NIXL_INPROGRESS);
    MPT_OK(nixl_cq_wait(op.cq, &entry, 1, MPT_PATIENCE, &n));
    MPT_EQ(n, 1);
    MPT_EQ(entry.status, NIXL_E_TIMEOUT);
    soon("what a completion queue reports");
    MPT_OK(nixl_cq_close(op.cq));
}

static void prepared(enum nixl_xfer_op kind)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;
    struct nixl_xfer *xfer;

    local.addr = kind == NIXL_XFER_PUT ? out : in;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = NBYTES;
    local.nblocks = remote.nblocks = N_OBJECTS;
    remote.region = objects;
    MPT_OK(nixl_xfer_create(kind, 0, &local, 1, &remote, 1, &xfer));
    op.timeout_ns = SHORT_NS;
    begin();
    MPT_EQ(nixl_xfer_start_x(xfer, &op, NULL), NIXL_E_TIMEOUT);
    soon("a prepared transfer with a deadline");
    begin();
    MPT_EQ(nixl_xfer_start_x(xfer, NULL, &req), NIXL_INPROGRESS);
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
    MPT_OK(nixl_xfer_free(xfer));
    soon("canceling a prepared transfer");
}

/*
 * A durable flush waits for what the store has not got; and after its deadline nothing is left, but
 * perhaps an object that the canceled prepared put had begun.
 */
static void flushed(void)
{
    struct nixl_op durable = NIXL_OP_INIT;
    struct nixl_req *put = NULL, *flush = NULL;

    durable.flags = NIXL_OP_DURABLE;
    durable.timeout_ns = SHORT_NS;
    MPT_EQ(nixl_put_x(0, objects, 0, out, NBYTES, NULL, &put), NIXL_INPROGRESS);
    begin();
    MPT_EQ(nixl_flush_x(0, objects, &durable, NULL), NIXL_E_TIMEOUT);
    soon("a durable flush with a deadline");
    begin();
    MPT_EQ(nixl_flush_x(0, objects, &durable, &flush), NIXL_INPROGRESS);
    MPT_EQ(nixl_req_wait(&flush, MPT_PATIENCE), NIXL_E_TIMEOUT);
    soon("the request of a durable flush with a deadline");
    begin();
    MPT_EQ(nixl_put_x(0, objects, NBYTES, out, NBYTES, &durable, NULL), NIXL_E_TIMEOUT);
    soon("a durable put with a deadline");
    MPT_EQ(nixl_req_test(&put), NIXL_INPROGRESS);
    begin();
    MPT_OK(nixl_req_cancel(&put, MPT_PATIENCE, NULL));
    durable.timeout_ns = 0;
    began_ns += HALF_NS;
    MPT_EQ(nixl_flush_x(0, objects, &durable, NULL), NIXL_E_STORAGE); /* they are lost: once */
    MPT_OK(nixl_flush_x(0, objects, &durable, NULL));
    soon("a durable flush of what was given up");
}

static void asked(void)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;

    begin();
    MPT_EQ(nixl_object_stat(objects, 0, SHORT_NS, &info), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_object_delete(objects, 0, SHORT_NS), NIXL_E_TIMEOUT);
    soon("a question");
}

static void late(void)
{
    if (rank == size - 1) {
        one_by_one(false, objects, NBYTES);
        one_by_one(false, objects, 1000);
        one_by_one(true, objects, NBYTES);
        one_by_one(false, large, LARGE);
        one_by_one(true, large, LARGE);
        queued();
        prepared(NIXL_XFER_PUT);
        prepared(NIXL_XFER_GET);
        flushed();
    }
    if (rank == 0) {
        asked();
    }
    mpt_barrier();
    begin();
    MPT_OK(nixl_region_close(objects, MPT_PATIENCE));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    soon("closing");
}

/* ---- abort ----------------------------------------------------------------------------------- */

/* The parts of the put that is given up are being removed when the region is closed. */
static void aborted(void)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.timeout_ns = SHORT_NS;
    MPT_EQ(nixl_put_x(0, large, 0, out, LARGE, &op, NULL), NIXL_E_TIMEOUT);
    begin();
    began_ns += CLOSE_NS;
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    MPT_OK(nixl_region_close(objects, MPT_PATIENCE));
    soon("closing");
}

/* ---- killed ---------------------------------------------------------------------------------- */

static void killed(void)
{
    static struct nixl_note note;
    struct nixl_req *put = NULL, *get = NULL;
    pid_t owner = getpid();

    nixl_note_init(&note);
    if (rank == 0) {
        MPT_OK(nixl_notify(size - 1, 1, &owner, sizeof(owner), MPT_PATIENCE));
        MPT_OK(nixl_notify_recv(size - 1, 2, UINT64_MAX, MPT_PATIENCE, &note)); /* it never comes */
    }
    MPT_OK(nixl_notify_recv(0, 1, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&owner, note.payload, sizeof(owner));
    MPT_EQ(nixl_put_x(0, large, 0, out, LARGE, NULL, &put), NIXL_INPROGRESS);
    MPT_EQ(nixl_get_x(0, objects, 0, in, NBYTES, NULL, &get), NIXL_INPROGRESS);
    MPT_EQ(nixl_req_wait(&get, SHORT_NS), NIXL_E_TIMEOUT);
    begin();
    MPT_EQ(kill(owner, SIGKILL), 0);
    MPT_EQ(nixl_req_wait(&put, MPT_PATIENCE), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_req_wait(&get, MPT_PATIENCE), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_get(0, objects, 0, in, NBYTES), NIXL_E_PEER_LOST);
    soon("the end of a dead owner's objects");
    MPT_OK(nixl_region_close(objects, MPT_PATIENCE));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    mpt_start();
    if (getenv("OBJECT_URL") == NULL) {
        mpt_skip("OBJECT_URL names no store");
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    out = calloc(1, LARGE);
    in = calloc(1, LARGE);
    MPT_TRUE(out != NULL && in != NULL);
    objects = open_it("objects", N_OBJECTS, NBYTES);
    large = open_it("large", 1, LARGE);
    mpt_barrier();
    if (argc > 1 && strcmp(argv[1], "killed") == 0) {
        killed();
    } else if (argc > 1 && strcmp(argv[1], "abort") == 0) {
        aborted();
    } else {
        late();
    }
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
