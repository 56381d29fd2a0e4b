/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of an S3 store as regions: every rank puts into the objects of the next one and gets from
 * them, by all calls; what is in the store is what was put, and nothing that was put in part; what
 * objects cannot do is refused with its reason. The store is that of OBJECT_URL, by the environment
 * of test/storage/with-s3. Arguments: "md5"; "small": few and small objects, for slow servers.
 */
#include "mptest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_OBJECTS = 48, NBYTES = 96 << 10, LARGE = (12 << 20) + 12345, PART = 5 << 20 };

static struct nixl_region *region;
static struct nixl_object_params object_params = NIXL_OBJECT_PARAMS_INIT;
static char url[1024];
static int rank, size, next, prev;
static unsigned char *out, *in;

static void open_objects(void)
{
    object_params.nobjects = N_OBJECTS;
    object_params.object_nbytes = NBYTES;
    MPT_OK(nixl_region_open_object("objects", url, &object_params, &region));
    MPT_TRUE(nixl_region_addr(region) == NULL);
    MPT_EQ(nixl_region_nbytes(region), (uint64_t)N_OBJECTS * NBYTES);
}

/* Is there such an object? */
static bool is_there(struct nixl_region *objects, uint64_t object)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    int status = nixl_object_stat(objects, object, MPT_PATIENCE, &info);

    if (status != NIXL_OK) {
        MPT_EQ(status, NIXL_E_NOT_FOUND);
        return false;
    }
    MPT_EQ(info.object, object);
    MPT_EQ(info.nbytes, nixl_region_nbytes(objects) / (objects == region ? N_OBJECTS : 1));
    MPT_TRUE(info.etag[0] != '\0' && info.modified > 0);
    return true;
}

/* ---- what works ------------------------------------------------------------------------------ */

/* Whole objects, several at once, and ranges of them; pieces that come in any order. */
static void round_trips(void)
{
    static const struct {
        uint64_t offset;
        size_t nbytes;
    } gets[] = {{0, NBYTES}, {1, 1}, {NBYTES - 1, 2}, {NBYTES / 2, 2 * NBYTES}, {0, 4 * NBYTES}};

    mpt_fill(out, 4 * (size_t)NBYTES, 10 + (uint64_t)rank);
    MPT_OK(nixl_put(next, region, 0, out, 4 * (size_t)NBYTES));
    for (size_t i = 0; i < sizeof(gets) / sizeof(gets[0]); i++) {
        memset(in, 0, gets[i].nbytes + 1);
        MPT_OK(nixl_get(next, region, gets[i].offset, in, gets[i].nbytes));
        MPT_TRUE(memcmp(in, out + gets[i].offset, gets[i].nbytes) == 0);
        MPT_EQ(in[gets[i].nbytes], 0);
    }
    mpt_barrier();
    for (uint64_t object = 0; object < 4; object++) {
        MPT_TRUE(is_there(region, object));
    }
    MPT_TRUE(!is_there(region, 4));
    mpt_barrier();
}

/* An object is seen when all of it was put; till then, the former one is there. */
static void pieces(void)
{
    static const size_t cuts[] = {40000, 0, 80000, 10, 79999};
    size_t ends[] = {79999, 10, NBYTES, 40000, 80000};

    mpt_fill(out, NBYTES, 20 + (uint64_t)rank);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        MPT_OK(nixl_put(next, region, 5 * (uint64_t)NBYTES + cuts[i], out + cuts[i],
                        ends[i] - cuts[i]));
        MPT_OK(nixl_flush(next, MPT_PATIENCE));
        mpt_barrier();
        MPT_EQ(is_there(region, 5), i + 1 == sizeof(cuts) / sizeof(cuts[0]));
        mpt_barrier();
    }
    MPT_OK(nixl_get(next, region, 5 * (uint64_t)NBYTES, in, NBYTES));
    MPT_CHECK(in, NBYTES, 20 + (uint64_t)rank);
}

/* A put that was left off, and one that begins anew: the object has nothing of the first. */
static void begun_anew(void)
{
    mpt_fill(out, NBYTES, 30 + (uint64_t)rank);
    memset(in, 0xee, NBYTES);
    MPT_OK(nixl_put(next, region, 6 * (uint64_t)NBYTES, in, 50000));
    MPT_OK(nixl_flush(next, MPT_PATIENCE));
    MPT_OK(nixl_put(next, region, 6 * (uint64_t)NBYTES, out, NBYTES));
    MPT_OK(nixl_get(next, region, 6 * (uint64_t)NBYTES, in, NBYTES));
    MPT_CHECK(in, NBYTES, 30 + (uint64_t)rank);
    mpt_barrier();
}

/* Halves that two ranks put are of two objects, neither of which is complete. */
static void kept_apart(void)
{
    uint64_t place = 7 * (uint64_t)NBYTES;

    if (size > 1 && rank < 2) {
        memset(out, 'a' + rank, NBYTES);
        MPT_OK(nixl_put(0, region, place + (rank == 0 ? 0 : NBYTES / 2), out, NBYTES / 2));
        MPT_OK(nixl_flush(0, MPT_PATIENCE));
    }
    mpt_barrier();
    if (rank == 0) {
        MPT_TRUE(!is_there(region, 7));
    }
    mpt_barrier();
    if (size > 1 && rank < 2) { /* now each its other half */
        MPT_OK(nixl_put(0, region, place + (rank == 0 ? NBYTES / 2 : 0), out, NBYTES / 2));
        MPT_OK(nixl_flush(0, MPT_PATIENCE));
    }
    mpt_barrier();
    if (size > 1 && rank == 0) {
        MPT_OK(nixl_get(0, region, place, in, NBYTES));
        for (int i = 1; i < NBYTES; i++) {
            MPT_EQ(in[i], in[0]);
        }
    }
    mpt_barrier();
}

/* A notification behind a put, and one behind a durable put, come when the object is there. */
static void notified(uint32_t flags)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;

    op.flags = NIXL_OP_NOTE | flags;
    op.tag = 7;
    mpt_fill(out, NBYTES, 1000 + (uint64_t)rank + flags);
    MPT_TRUE(nixl_put_x(next, region, 8 * (uint64_t)NBYTES, out, NBYTES, &op, &req) >= 0);
    mpt_hear(prev, 7);
    MPT_TRUE(is_there(region, 8));
    MPT_OK(nixl_get(rank, region, 8 * (uint64_t)NBYTES, in, NBYTES));
    MPT_CHECK(in, NBYTES, 1000 + (uint64_t)prev + flags);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_object_delete(region, 8, MPT_PATIENCE));
    MPT_TRUE(!is_there(region, 8));
    MPT_OK(nixl_object_delete(region, 8, MPT_PATIENCE));
    mpt_barrier();
}

/* Blocks in any order, by a prepared transfer; and all that is there, by a list. */
static int list_one(const struct nixl_object_info *info, void *arg)
{
    uint64_t *n_p = arg;
    char key[17];

    MPT_TRUE(info->object < N_OBJECTS);
    snprintf(key, sizeof(key), "%016llx", (unsigned long long)info->object);
    MPT_TEXT(info->key, key);
    MPT_EQ(info->nbytes, NBYTES);
    ++*n_p;
    return 0;
}

static int list_two(const struct nixl_object_info *info, void *arg)
{
    (void)info;
    return ++*(int *)arg == 2;
}

static void prepared(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    static uint64_t index[N_OBJECTS];
    struct nixl_xfer *put, *get;
    uint64_t n = 0;
    int two = 0;

    for (uint64_t i = 0; i < N_OBJECTS; i++) {
        index[i] = (i * 7 + 3) % N_OBJECTS;
    }
    local.addr = out;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = NBYTES;
    local.nblocks = remote.nblocks = N_OBJECTS;
    remote.region = region;
    remote.index = index;
    mpt_fill(out, (size_t)N_OBJECTS * NBYTES, 77 + (uint64_t)rank);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, next, &local, 1, &remote, 1, &put));
    local.addr = in;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, next, &local, 1, &remote, 1, &get));
    memset(in, 0, (size_t)N_OBJECTS * NBYTES);
    MPT_OK(nixl_xfer_start_x(put, NULL, NULL));
    MPT_OK(nixl_xfer_start_x(get, NULL, NULL));
    MPT_CHECK(in, (size_t)N_OBJECTS * NBYTES, 77 + (uint64_t)rank);
    MPT_OK(nixl_xfer_free(put));
    MPT_OK(nixl_xfer_free(get));
    mpt_barrier();
    MPT_OK(nixl_object_list(region, NULL, MPT_PATIENCE, list_one, &n));
    MPT_EQ(n, N_OBJECTS);
    n = 0;
    MPT_OK(nixl_object_list(region, "0000000000000007", MPT_PATIENCE, list_one, &n));
    MPT_EQ(n, N_OBJECTS - 8);
    MPT_EQ(nixl_object_list(region, NULL, MPT_PATIENCE, list_two, &two), NIXL_E_CANCELED);
    MPT_EQ(two, 2);
    mpt_barrier();
}

/* ---- one object in parts --------------------------------------------------------------------- */

static void in_parts(void)
{
    struct nixl_object_params params = object_params;
    struct nixl_region *large;
    struct nixl_op op = NIXL_OP_INIT;
    char name[1100];

    snprintf(name, sizeof(name), "%s/large", url);
    params.nobjects = 0;
    params.object_nbytes = LARGE;
    params.part_nbytes = PART;
    MPT_OK(nixl_region_open_object("large", name, &params, &large));
    MPT_TRUE(!is_there(large, 0));
    mpt_barrier();
    mpt_fill(out, LARGE, 90 + (uint64_t)rank);
    op.flags = NIXL_OP_DURABLE;
    MPT_OK(nixl_put_x(next, large, 0, out, LARGE, &op, NULL));
    MPT_OK(nixl_get(next, large, 0, in, LARGE));
    MPT_CHECK(in, LARGE, 90 + (uint64_t)rank);
    MPT_OK(nixl_get(next, large, PART - 5, in, 10));
    MPT_TRUE(memcmp(in, out + PART - 5, 10) == 0);
    mpt_barrier();
    MPT_TRUE(is_there(large, 0));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    params.object_nbytes = 0; /* as it is there */
    params.flags |= NIXL_OBJECT_READ_ONLY;
    MPT_OK(nixl_region_open_object("again", name, &params, &large));
    MPT_EQ(nixl_region_nbytes(large), LARGE);
    MPT_OK(nixl_get(rank, large, 0, in, LARGE));
    MPT_CHECK(in, LARGE, 90 + (uint64_t)prev);
    MPT_STATUS(nixl_put(next, large, 0, in, 1), rank == next ? NIXL_E_STORAGE : NIXL_E_ACCESS);
    MPT_STATUS(nixl_object_delete(large, 0, MPT_PATIENCE), NIXL_E_ACCESS);
    mpt_barrier();
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    /* One that was begun only leaves nothing. */
    params.flags &= ~(uint32_t)NIXL_OBJECT_READ_ONLY;
    params.object_nbytes = LARGE;
    MPT_OK(nixl_region_open_object(NULL, name, &params, &large));
    MPT_OK(nixl_put(rank, large, 0, out, PART));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    MPT_OK(nixl_region_open_object(NULL, name, &params, &large));
    MPT_OK(nixl_get(rank, large, 0, in, LARGE));
    MPT_CHECK(in, LARGE, 90 + (uint64_t)prev);
    MPT_OK(nixl_object_delete(large, 0, MPT_PATIENCE));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    mpt_barrier();
}

/* Keys of the program's own, with bytes that URLs must encode. */
static void keyed(void)
{
    static const char *const keys[] = {"a b+c", "d/e&f=g%20", "\xc3\xa4\"<>", "plain"};
    struct nixl_object_params params = object_params;
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_region *keyed;
    char name[1100];

    snprintf(name, sizeof(name), "%s/keyed/", url);
    params.nobjects = 4;
    params.object_nbytes = 1000;
    params.keys = keys;
    MPT_OK(nixl_region_open_object("keyed", name, &params, &keyed));
    mpt_barrier();
    mpt_fill(out, 4000, 5);
    MPT_OK(nixl_put(next, keyed, 0, out, 4000));
    MPT_OK(nixl_get(next, keyed, 0, in, 4000));
    MPT_CHECK(in, 4000, 5);
    mpt_barrier();
    for (uint64_t i = 0; i < 4; i++) {
        MPT_OK(nixl_object_stat(keyed, i, MPT_PATIENCE, &info));
        MPT_TEXT(info.key, keys[i]);
        MPT_EQ(info.nbytes, 1000);
    }
    for (uint64_t i = 0; i < 4; i++) {
        MPT_OK(nixl_object_delete(keyed, i, MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(keyed, MPT_PATIENCE));
}

/* ---- what does not --------------------------------------------------------------------------- */

static void refused(void)
{
    uint64_t one = 1, word = 0;
    void *addr;

    MPT_STATUS(nixl_atomic(next, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &word),
               NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_signal_add(next, region, 0, 1), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_region_map(next, region, &addr), NIXL_E_UNSUPPORTED);
    MPT_HAS("is made of objects or files");
    MPT_STATUS(nixl_put(next, region, (uint64_t)N_OBJECTS * NBYTES - 1, out, 2), NIXL_E_RANGE);
    MPT_OK(nixl_object_delete(region, 9, MPT_PATIENCE));
    mpt_barrier();
    MPT_STATUS(nixl_get(next, region, 9 * (uint64_t)NBYTES, in, 10), NIXL_E_STORAGE);
    MPT_EQ(nixl_last_error()->native_code, ENOENT);
    MPT_TRUE(strstr(nixl_last_error()->text, "no such object") != NULL);
    mpt_barrier();
}

/* A durable flush does not pass over an object of which only a part was put. */
static void half(void)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_DURABLE;
    MPT_OK(nixl_put(next, region, 9 * (uint64_t)NBYTES, out, 1000));
    MPT_STATUS(nixl_flush_x(next, region, &op, NULL), NIXL_E_STORAGE);
    MPT_TRUE(strstr(nixl_last_error()->text, "only 1000 of its") != NULL);
    MPT_OK(nixl_flush_x(next, region, &op, NULL));
    mpt_barrier();
    MPT_TRUE(!is_there(region, 9));
}

static void queried(void)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    MPT_OK(nixl_region_query(next, region, MPT_PATIENCE, &info));
    MPT_EQ(info.kind, NIXL_MEM_OBJECT);
    MPT_EQ(info.nbytes, (uint64_t)N_OBJECTS * NBYTES);
    MPT_TEXT(info.device, "s3");
    info = (struct nixl_region_info)NIXL_REGION_INFO_INIT;
    MPT_OK(nixl_region_query(rank, region, MPT_PATIENCE, &info));
    MPT_TEXT(info.device, "s3");
    MPT_TEXT(info.transport, "storage");
    MPT_TEXT(info.method, "s3");
    MPT_TRUE(strstr(info.note, "bucket") != NULL);
}

int main(int argc, char **argv)
{
    const char *base = getenv("OBJECT_URL");

    mpt_start();
    if (base == NULL) {
        mpt_skip("OBJECT_URL names no store");
    }
    for (int i = 1; i < argc; i++) {
        object_params.flags |= strcmp(argv[i], "md5") == 0 ? NIXL_OBJECT_MD5 : 0;
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    next = (rank + 1) % size;
    prev = (rank + size - 1) % size;
    snprintf(url, sizeof(url), "%s/%d-%d", base, (int)getppid(), rank);
    out = malloc(LARGE + 4096);
    in = malloc(LARGE + 4096);
    MPT_TRUE(out != NULL && in != NULL);
    open_objects();
    mpt_barrier();
    queried();
    round_trips();
    pieces();
    begun_anew();
    kept_apart();
    notified(0);
    notified(NIXL_OP_DURABLE);
    prepared();
    refused();
    half();
    in_parts();
    keyed();
    for (uint64_t i = 0; i < N_OBJECTS; i++) {
        MPT_OK(nixl_object_delete(region, i, MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
