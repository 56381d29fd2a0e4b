/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for objects that are put as a whole, of a store (OBJECT_URL) or else a directory: the
 * guarantees of memory that do not need a part of an object to be seen. Order by fences, batches of
 * notified transfers, buffers exposed for one use, grants, prepared transfers, also from and into
 * memory of a GPU; and what only the owner may ask of a store. Arguments: "cuda": local memory is
 * of a GPU; "durable": transfers are durable.
 */
#include "config.h"

#include "mptest.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_OBJECTS = 24, NBYTES = 20000 };

static struct nixl_region *region, *local, *tokens;
static const char *where; /* a URL, or the path of this rank's directory */
static bool is_store;
static uint64_t n_objects, n_rounds; /* fewer for stores, whose servers are slow */
static size_t all;                   /* bytes of all objects */
static int rank, next, prev;
static uint32_t durable;
static unsigned char *host; /* what local memory should hold */
static char *memory;        /* local memory: two times all bytes */

/* ---- helpers --------------------------------------------------------------------------------- */

static void open_objects(void)
{
    if (is_store) {
        struct nixl_object_params params = NIXL_OBJECT_PARAMS_INIT;

        params.nobjects = n_objects;
        params.object_nbytes = NBYTES;
        MPT_OK(nixl_region_open_object("whole", where, &params, &region));
    } else {
        struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;

        params.flags = NIXL_DIRECTORY_CREATE;
        params.nobjects = n_objects;
        params.object_nbytes = NBYTES;
        params.ndescriptors = 5; /* fewer than there are files */
        MPT_OK(nixl_region_open_directory("whole", where, &params, &region));
    }
}

static void fill(size_t at, size_t nbytes, uint64_t seed)
{
    mpt_fill(host, nbytes, seed);
    MPT_OK(nixl_put(rank, local, at, host, nbytes));
}

static void blank(size_t at, size_t nbytes)
{
    memset(host, 0xee, nbytes);
    MPT_OK(nixl_put(rank, local, at, host, nbytes));
}

static void check(size_t at, size_t nbytes, uint64_t seed)
{
    memset(host, 0, nbytes);
    MPT_OK(nixl_get(rank, local, at, host, nbytes));
    MPT_CHECK(host, nbytes, seed);
}

/* Whether the own objects from one on hold what was put, as their owner reads them. */
static void check_own(uint64_t object, uint64_t n, uint64_t seed)
{
    MPT_OK(nixl_get(rank, region, object * NBYTES, host, n * NBYTES));
    MPT_CHECK(host, n * NBYTES, seed);
}

/* Give the next rank a token, and take that of the one before. */
static const char *swap(const char *token)
{
    static char taken[NIXL_TOKEN_MAX + 1];

    MPT_OK(nixl_put(next, tokens, 0, token, strlen(token) + 1));
    MPT_OK(nixl_flush(next, MPT_PATIENCE));
    mpt_barrier();
    MPT_OK(nixl_get(rank, tokens, 0, taken, sizeof(taken)));
    mpt_barrier();
    return taken;
}

static struct nixl_blocks blocks_of(struct nixl_region *of, const uint64_t *index, uint64_t n)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;

    blocks.region = of;
    blocks.block_nbytes = blocks.stride = NBYTES;
    blocks.nblocks = n;
    blocks.index = index;
    return blocks;
}

static struct nixl_xfer *xfer_of(enum nixl_xfer_op op, int peer, size_t at, const uint64_t *index,
                                 uint64_t n)
{
    struct nixl_blocks here = blocks_of(NULL, NULL, n), there = blocks_of(region, index, n);
    struct nixl_xfer *xfer = NULL;

    here.addr = memory + at;
    MPT_OK(nixl_xfer_create(op, peer, &here, 1, &there, 1, &xfer));
    return xfer;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Of versions that a fence separates, the last one stays; a get sees what was put before it. */
static void fences_order_versions(void)
{
    for (uint64_t i = 0; i < n_rounds; i++) {
        struct nixl_req *reqs[2] = {NULL, NULL};
        size_t done;

        fill(0, NBYTES, 2 * i);
        fill(NBYTES, NBYTES, 2 * i + 1);
        for (size_t k = 0; k < 2; k++) {
            MPT_TRUE(nixl_put_x(next, region, 0, memory + k * NBYTES, NBYTES, NULL, &reqs[k]) >= 0);
            MPT_OK(nixl_fence(next));
        }
        while (reqs[0] != NULL || reqs[1] != NULL) {
            MPT_OK(nixl_req_wait_any(reqs, 2, MPT_PATIENCE, &done));
        }
        blank(all, NBYTES);
        MPT_OK(nixl_get(next, region, 0, memory + all, NBYTES));
        check(all, NBYTES, 2 * i + 1);
        mpt_barrier();
        check_own(0, 1, 2 * i + 1);
        mpt_barrier();
    }
}

/* The notification of a put, a prepared one too, comes when all its objects can be read. */
static void notifications_follow_objects(void)
{
    struct nixl_xfer *xfer = xfer_of(NIXL_XFER_PUT, next, 0, NULL, n_objects);
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_NOTE | durable;
    for (uint64_t i = 0; i < n_rounds; i++) {
        struct nixl_req *req = NULL;

        op.tag = 10 + i;
        fill(0, all, 100 + i + (uint64_t)rank);
        MPT_TRUE(nixl_xfer_start_x(xfer, &op, &req) >= 0);
        mpt_hear(prev, 10 + i);
        check_own(0, n_objects, 100 + i + (uint64_t)prev);
        if (req != NULL) {
            MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        }
        mpt_barrier();
    }
    MPT_OK(nixl_xfer_free(xfer));
}

/* ---- what is lent ---------------------------------------------------------------------------- */

/* The exposer's request ends when the object is the new one. */
static void exposed_objects(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *mine = NULL, *theirs = NULL;
    const char *taken;
    int status;

    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, NBYTES, NBYTES, NIXL_PAIR_WRITE,
                                NIXL_FOREVER, token, sizeof(token), &mine),
               NIXL_INPROGRESS);
    taken = swap(token);
    fill(0, NBYTES, 500 + (uint64_t)rank);
    status = nixl_pair_write(taken, memory, NBYTES, &theirs);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&theirs, MPT_PATIENCE) : status);
    MPT_OK(nixl_req_wait(&mine, MPT_PATIENCE));
    check_own(1, 1, 500 + (uint64_t)next);
    mpt_barrier();
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, NBYTES, NBYTES, NIXL_PAIR_READ, NIXL_FOREVER,
                                token, sizeof(token), &mine),
               NIXL_INPROGRESS);
    taken = swap(token);
    blank(0, NBYTES);
    status = nixl_pair_read(taken, memory, NBYTES, &theirs);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&theirs, MPT_PATIENCE) : status);
    MPT_OK(nixl_req_wait(&mine, MPT_PATIENCE));
    check(0, NBYTES, 500 + (uint64_t)rank);
    mpt_barrier();
}

static struct nixl_req *lend(const uint64_t *objects, uint64_t n, uint32_t rights, uint32_t uses,
                             char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_blocks blocks = blocks_of(region, objects, n);
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    struct nixl_req *req = NULL;

    params.rights = rights;
    params.uses = uses;
    MPT_STATUS(nixl_grant_create(&blocks, &params, token, NIXL_TOKEN_MAX + 1, &req),
               NIXL_INPROGRESS);
    return req;
}

/* Two objects that are lent are put, each as one use: then the owner has both. */
static void granted_puts_and_gets(void)
{
    static const uint64_t objects[] = {3, 5};
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = lend(objects, 2, NIXL_GRANT_READ | NIXL_GRANT_WRITE, 4, token);

    op.flags = NIXL_OP_GRANT | durable;
    op.grant = swap(token);
    for (int i = 0; i < 2; i++) {
        fill(0, NBYTES, 600 + objects[i] + (uint64_t)rank);
        MPT_OK(nixl_put_x(prev, region, objects[i] * NBYTES, memory, NBYTES, &op, NULL));
    }
    MPT_STATUS(nixl_put_x(prev, region, 4 * (uint64_t)NBYTES, memory, NBYTES, &op, NULL),
               NIXL_E_ACCESS);
    for (int i = 0; i < 2; i++) {
        blank(0, NBYTES);
        op.flags = NIXL_OP_GRANT;
        MPT_OK(nixl_get_x(prev, region, objects[i] * NBYTES, memory, NBYTES, &op, NULL));
        check(0, NBYTES, 600 + objects[i] + (uint64_t)rank);
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    for (int i = 0; i < 2; i++) {
        check_own(objects[i], 1, 600 + objects[i] + (uint64_t)next);
    }
    mpt_barrier();
    MPT_STATUS(nixl_put_x(prev, region, objects[0] * NBYTES, memory, NBYTES, &op, NULL),
               NIXL_E_STALE);
    mpt_barrier();
}

/* A grant that is taken back while only half of an object has come: the former one stays. */
static void a_grant_that_is_taken_back(void)
{
    static const uint64_t object[] = {7};
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req;

    fill(0, NBYTES, 700 + (uint64_t)rank);
    MPT_OK(nixl_put(rank, region, 7 * (uint64_t)NBYTES, memory, NBYTES));
    req = lend(object, 1, NIXL_GRANT_WRITE, 0, token);
    op.flags = NIXL_OP_GRANT;
    op.grant = swap(token);
    blank(0, NBYTES);
    MPT_OK(nixl_put_x(prev, region, 7 * (uint64_t)NBYTES, memory, NBYTES / 2, &op, NULL));
    mpt_barrier();
    MPT_OK(nixl_grant_revoke(token, MPT_PATIENCE));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    mpt_barrier();
    MPT_STATUS(
        nixl_put_x(prev, region, 7 * (uint64_t)NBYTES + NBYTES / 2, memory, NBYTES / 2, &op, NULL),
        NIXL_E_STALE);
    MPT_HAS("revoked");
    mpt_barrier();
    check_own(7, 1, 700 + (uint64_t)rank);
    mpt_barrier();
}

/* All objects in another order, from and into local memory, by a grant for two transfers. */
static void granted_transfers(void)
{
    static uint64_t lent[MOST_OBJECTS], used[MOST_OBJECTS];
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_xfer *put, *get;
    struct nixl_req *req;

    for (uint64_t i = 0; i < n_objects; i++) {
        lent[i] = i;
        used[i] = (i * 7 + 3) % n_objects;
    }
    req = lend(lent, n_objects, NIXL_GRANT_READ | NIXL_GRANT_WRITE, 2, token);
    op.grant = swap(token);
    put = xfer_of(NIXL_XFER_PUT, prev, 0, used, n_objects);
    get = xfer_of(NIXL_XFER_GET, prev, all, used, n_objects);
    fill(0, all, 800 + (uint64_t)rank);
    blank(all, all);
    op.flags = NIXL_OP_GRANT | durable;
    MPT_OK(nixl_xfer_start_x(put, &op, NULL));
    op.flags = NIXL_OP_GRANT;
    MPT_OK(nixl_xfer_start_x(get, &op, NULL));
    check(all, all, 800 + (uint64_t)rank);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_STATUS(nixl_xfer_start_x(get, &op, NULL), NIXL_E_STALE);
    MPT_OK(nixl_xfer_free(put));
    MPT_OK(nixl_xfer_free(get));
    mpt_barrier();
}

/* ---- transfers of memory of any kind --------------------------------------------------------- */

/* Again and again, and one rank's own objects too. */
static void prepared_transfers(int peer)
{
    struct nixl_xfer *put = xfer_of(NIXL_XFER_PUT, peer, 0, NULL, n_objects),
                     *get = xfer_of(NIXL_XFER_GET, peer, all, NULL, n_objects);
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = durable;
    for (uint64_t i = 0; i < n_rounds; i++) {
        fill(0, all, 900 + i + (uint64_t)rank);
        blank(all, all);
        MPT_OK(nixl_xfer_start_x(put, &op, NULL));
        MPT_OK(nixl_xfer_start_x(get, NULL, NULL));
        check(all, all, 900 + i + (uint64_t)rank);
    }
    /* Objects in pieces that come in the wrong order, from local memory. */
    for (uint64_t i = n_objects; i-- > 0;) {
        uint64_t cut = 1 + 777 * i;

        MPT_OK(nixl_put(peer, region, i * NBYTES + cut, memory + i * NBYTES + cut, NBYTES - cut));
        MPT_OK(nixl_put(peer, region, i * NBYTES, memory + i * NBYTES, cut));
    }
    blank(all, all);
    MPT_OK(nixl_get(peer, region, 0, memory + all, all));
    check(all, all, 900 + n_rounds - 1 + (uint64_t)rank);
    MPT_OK(nixl_xfer_free(put));
    MPT_OK(nixl_xfer_free(get));
    mpt_barrier();
}

/* ---- what only the owner asks ---------------------------------------------------------------- */

static int each(const struct nixl_object_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return 1;
}

static void questions_of_others(void)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *handle;

    if (rank == 1) {
        MPT_OK(nixl_region_open("apart", &handle));
        MPT_STATUS(nixl_object_stat(handle, 0, MPT_PATIENCE, &info), NIXL_E_INVALID_ARG);
        MPT_HAS("owner");
        MPT_STATUS(nixl_object_delete(handle, 0, MPT_PATIENCE), NIXL_E_INVALID_ARG);
        MPT_HAS("owner");
        MPT_STATUS(nixl_object_list(handle, NULL, MPT_PATIENCE, each, NULL), NIXL_E_INVALID_ARG);
        MPT_HAS("owner");
        MPT_OK(nixl_region_close(handle, MPT_PATIENCE));
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void make_memory(bool is_cuda)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    int status;

    params.kind = is_cuda ? NIXL_MEM_CUDA : NIXL_MEM_HOST;
    status = nixl_region_alloc(NULL, 2 * all, &params, &local);
    if (status == NIXL_E_NO_DEVICE) {
        mpt_skip("no GPU");
    }
    MPT_OK(status);
    memory = nixl_region_addr(local);
    host = malloc(2 * all);
    MPT_TRUE(host != NULL);
    MPT_OK(nixl_region_alloc("tokens", NIXL_TOKEN_MAX + 1, NULL, &tokens));
}

static void place(void)
{
    static char name[1100];
    const char *url = getenv("OBJECT_URL"), *base = getenv("TMPDIR");

    is_store = url != NULL;
    n_objects = is_store ? 8 : MOST_OBJECTS;
    n_rounds = is_store ? 1 : 3;
    all = n_objects * NBYTES;
    if (is_store) {
        snprintf(name, sizeof(name), "%s/whole-%d-%d", url, (int)getppid(), rank);
    } else {
        snprintf(name, sizeof(name), "%s/nixlrun-whole-%d-%d", base != NULL ? base : "/tmp",
                 (int)getppid(), rank);
    }
    where = name;
}

static void remove_objects(void)
{
    for (uint64_t i = 0; i < n_objects; i++) {
        MPT_OK(nixl_object_delete(region, i, MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    if (!is_store) {
        MPT_EQ(rmdir(where), 0); /* and nothing else was left there */
    }
}

int main(int argc, char **argv)
{
    bool is_cuda = false;

    mpt_start();
    for (int i = 1; i < argc; i++) {
        is_cuda |= strcmp(argv[i], "cuda") == 0;
        durable |= strcmp(argv[i], "durable") == 0 ? NIXL_OP_DURABLE : 0;
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    next = (rank + 1) % nixl_size();
    prev = (rank + nixl_size() - 1) % nixl_size();
    place();
    make_memory(is_cuda);
    open_objects();
    mpt_barrier();
    fences_order_versions();
    notifications_follow_objects();
    exposed_objects();
    granted_puts_and_gets();
    a_grant_that_is_taken_back();
    granted_transfers();
    prepared_transfers(next);
    prepared_transfers(rank);
    questions_of_others();
    remove_objects();
    MPT_OK(nixl_region_close(local, MPT_PATIENCE));
    MPT_OK(nixl_region_close(tokens, MPT_PATIENCE));
    free(host);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
