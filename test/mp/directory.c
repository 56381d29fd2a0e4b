/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories as regions: every rank puts into the files of the next one and gets from them. What
 * is in the files is what was put, and nothing that was put in part. Arguments, one of:
 *   whole    files are replaced as a whole
 *   place    files are written in place
 *   all      a region of all files that are there
 *   half     a file of which only a part is put
 * and any of "old": the kernel has no openat2(); "direct": past the page cache; "engine=NAME":
 * another engine than io_uring.
 */
#include "config.h"

#include "mptest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_FILES = 300, NBYTES = 20000, LARGE = (20 << 20) + 777 };

static struct nixl_region *region;
static struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
static char dir[400]; /* of this rank */
static int rank, size, next, prev;
static bool is_old;     /* the kernel: no symbolic link is followed */
static uint32_t direct; /* a flag, or 0 */
static const char *engine = "io_uring";
static unsigned char *out, *in;

static const char *path_to(const char *name)
{
    static char path[1500];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static const char *const *keys(void)
{
    static char names[N_FILES][40];
    static const char *list[N_FILES];

    for (int i = 0; i < N_FILES; i++) {
        snprintf(names[i], sizeof(names[i]), "%02x/%s block %d", i % 7, i % 2 ? "a&b/c" : "..x", i);
        list[i] = names[i];
    }
    return list;
}

static void open_directory(uint32_t flags)
{
    params.flags = flags | direct;
    params.nobjects = N_FILES;
    params.object_nbytes = NBYTES;
    params.keys = keys();
    params.ndescriptors = 10;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    MPT_TRUE(nixl_region_addr(region) == NULL);
    MPT_EQ(nixl_region_nbytes(region), (uint64_t)N_FILES * NBYTES);
}

/* Look at the own directory as any program would. */
static void check_own(uint64_t file, uint64_t nbytes, uint64_t seed)
{
    static unsigned char bytes[NBYTES + 1];
    int fd = open(path_to(keys()[file]), O_RDONLY | O_CLOEXEC);

    MPT_TRUE(fd >= 0);
    MPT_EQ(read(fd, bytes, sizeof(bytes)), nbytes);
    MPT_CHECK(bytes, nbytes, seed);
    close(fd);
}

static bool is_there(uint64_t file)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    int status = nixl_object_stat(region, file, MPT_PATIENCE, &info);

    if (status != NIXL_OK) {
        MPT_EQ(status, NIXL_E_NOT_FOUND);
        MPT_HAS("no such file");
        return false;
    }
    MPT_EQ(info.object, file);
    MPT_TEXT(info.key, keys()[file]);
    MPT_TRUE(info.etag[0] != '\0' && info.modified > 0);
    return true;
}

static int count(const struct nixl_object_info *info, void *arg)
{
    static char last[1032];
    uint64_t *n_p = arg;

    MPT_TRUE(info->object < N_FILES);
    MPT_TEXT(info->key, keys()[info->object]);
    MPT_TRUE(*n_p == 0 || strcmp(last, info->key) < 0); /* in the order of their bytes */
    snprintf(last, sizeof(last), "%s", info->key);
    ++*n_p;
    return 0;
}

static uint64_t n_listed(const char *after)
{
    uint64_t n = 0;

    MPT_OK(nixl_object_list(region, after, MPT_PATIENCE, count, &n));
    return n;
}

/* ---- whole files ----------------------------------------------------------------------------- */

static void round_trips(void)
{
    mpt_fill(out, 4 * (size_t)NBYTES, 10 + (uint64_t)rank);
    MPT_OK(nixl_put(next, region, 0, out, 4 * (size_t)NBYTES));
    for (int i = 0; i < 3; i++) { /* the second time, it is open */
        MPT_OK(nixl_get(next, region, NBYTES / 2, in, 2 * NBYTES));
        MPT_TRUE(memcmp(in, out + NBYTES / 2, 2 * NBYTES) == 0);
        MPT_OK(nixl_get(next, region, NBYTES - 1, in, 2));
        MPT_TRUE(memcmp(in, out + NBYTES - 1, 2) == 0);
    }
    mpt_barrier();
    MPT_TRUE(is_there(0) && is_there(3) && !is_there(4));
    check_own(0, NBYTES, 10 + (uint64_t)prev);
    MPT_STATUS(nixl_get(rank, region, 5 * (uint64_t)NBYTES, in, 10), NIXL_E_STORAGE);
    MPT_EQ(nixl_last_error()->native_code, ENOENT);
    MPT_HAS(keys()[5]);
    MPT_STATUS(nixl_get(next, region, 5 * (uint64_t)NBYTES, in, 10), NIXL_E_STORAGE);
    MPT_HAS("no such file");
    mpt_barrier();
}

/* A file has its name when all of it was put; one that is read gives its place to the new one. */
static void replaced(void)
{
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t seed = 100 * i + (uint64_t)rank;

        mpt_fill(out, NBYTES, seed);
        MPT_OK(nixl_put(next, region, 6 * (uint64_t)NBYTES, out + NBYTES / 2, 0));
        MPT_OK(nixl_put(next, region, 6 * (uint64_t)NBYTES + 15000, out + 15000, NBYTES - 15000));
        MPT_OK(nixl_flush(next, MPT_PATIENCE));
        mpt_barrier();
        MPT_EQ(is_there(6), i > 0);
        if (i > 0) {
            check_own(6, NBYTES, 100 * (i - 1) + (uint64_t)prev);
        }
        mpt_barrier();
        MPT_OK(nixl_put(next, region, 6 * (uint64_t)NBYTES, out, 15000));
        MPT_OK(nixl_get(next, region, 6 * (uint64_t)NBYTES, in, NBYTES));
        MPT_CHECK(in, NBYTES, seed);
        mpt_barrier();
    }
}

/* Others, who know nothing of the region, replace, rename and remove files. */
static void changed_by_others(void)
{
    uint64_t place = 8 * (uint64_t)NBYTES;
    char former[1500], other[1500];

    snprintf(former, sizeof(former), "%s", path_to(keys()[8]));
    snprintf(other, sizeof(other), "%s", path_to(keys()[0]));
    mpt_fill(out, NBYTES, 1);
    MPT_OK(nixl_put(rank, region, place, out, NBYTES));
    MPT_OK(nixl_get(rank, region, place, in, NBYTES));
    MPT_OK(nixl_get(rank, region, 0, in, NBYTES));
    MPT_EQ(rename(other, former), 0);
    MPT_OK(nixl_get(rank, region, place, in, NBYTES));
    MPT_CHECK(in, NBYTES, 10 + (uint64_t)prev);
    MPT_STATUS(nixl_get(rank, region, 0, in, NBYTES), NIXL_E_STORAGE);
    MPT_EQ(nixl_last_error()->native_code, ENOENT);
    MPT_EQ(truncate(former, 100), 0);
    MPT_STATUS(nixl_get(rank, region, place, in, NBYTES), NIXL_E_STORAGE);
    MPT_EQ(nixl_last_error()->native_code, ENODATA);
    MPT_HAS("ends at 100");
    MPT_EQ(unlink(former), 0);
    MPT_STATUS(nixl_get(rank, region, place, in, NBYTES), NIXL_E_STORAGE);
    MPT_EQ(mkdir(former, 0700), 0);
    MPT_STATUS(nixl_put(rank, region, place, out, NBYTES), NIXL_E_STORAGE);
    MPT_HAS("a directory");
    MPT_EQ(rmdir(former), 0);
    MPT_EQ(mkfifo(former, 0600), 0);
    MPT_STATUS(nixl_get(rank, region, place, in, NBYTES), NIXL_E_STORAGE);
    MPT_OK(nixl_put(rank, region, place, out, NBYTES)); /* it replaces that */
    check_own(8, NBYTES, 1);
    mpt_barrier();
}

static void notified(uint32_t flags)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;

    op.flags = NIXL_OP_NOTE | flags;
    op.tag = 7;
    mpt_fill(out, NBYTES, 1000 + (uint64_t)rank + flags);
    MPT_TRUE(nixl_put_x(next, region, 9 * (uint64_t)NBYTES, out, NBYTES, &op, &req) >= 0);
    mpt_hear(prev, 7);
    check_own(9, NBYTES, 1000 + (uint64_t)prev + flags);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_object_delete(region, 9, MPT_PATIENCE));
    MPT_TRUE(!is_there(9));
    MPT_OK(nixl_object_delete(region, 9, MPT_PATIENCE));
    mpt_barrier();
}

/* All files in any order, more than may be open at once, by a prepared transfer. */
static void prepared(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_op op = NIXL_OP_INIT;
    static uint64_t index[N_FILES];
    struct nixl_xfer *put, *get;

    for (uint64_t i = 0; i < N_FILES; i++) {
        index[i] = (i * 7 + 3) % N_FILES;
    }
    local.addr = out;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = NBYTES;
    local.nblocks = remote.nblocks = N_FILES;
    remote.region = region;
    remote.index = index;
    mpt_fill(out, (size_t)N_FILES * NBYTES, 77 + (uint64_t)rank);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, next, &local, 1, &remote, 1, &put));
    local.addr = in;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, next, &local, 1, &remote, 1, &get));
    op.flags = NIXL_OP_DURABLE;
    for (int i = 0; i < 2; i++) {
        memset(in, 0, (size_t)N_FILES * NBYTES);
        MPT_OK(nixl_xfer_start_x(put, &op, NULL));
        MPT_OK(nixl_xfer_start_x(get, NULL, NULL));
        MPT_CHECK(in, (size_t)N_FILES * NBYTES, 77 + (uint64_t)rank);
    }
    MPT_OK(nixl_xfer_free(put));
    MPT_OK(nixl_xfer_free(get));
    mpt_barrier();
    MPT_EQ(n_listed(NULL), N_FILES);
    MPT_EQ(n_listed("03"), n_listed("03/"));
    MPT_TRUE(n_listed("03/") < N_FILES && n_listed("03/") > n_listed("04/"));
    MPT_EQ(n_listed("07"), 0);
    mpt_barrier();
}

/* A file of several parts; and one of which only a part came: it leaves nothing. */
static void in_parts(void)
{
    static const char *const one[] = {"large"};
    struct nixl_directory_params large_params = params;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_region *large;

    large_params.nobjects = 1;
    large_params.object_nbytes = LARGE;
    large_params.keys = one;
    MPT_OK(nixl_region_open_directory("large", dir, &large_params, &large));
    mpt_barrier();
    mpt_fill(out, LARGE, 90 + (uint64_t)rank);
    op.flags = NIXL_OP_DURABLE;
    MPT_OK(nixl_put_x(next, large, 0, out, LARGE, &op, NULL));
    MPT_OK(nixl_get(next, large, 0, in, LARGE));
    MPT_CHECK(in, LARGE, 90 + (uint64_t)rank);
    mpt_barrier();
    MPT_OK(nixl_put(rank, large, 0, in, LARGE - 1));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    large_params.object_nbytes = 0; /* as it is there */
    MPT_OK(nixl_region_open_directory("again", dir, &large_params, &large));
    MPT_EQ(nixl_region_nbytes(large), LARGE);
    MPT_OK(nixl_get(rank, large, 0, in, LARGE));
    MPT_CHECK(in, LARGE, 90 + (uint64_t)prev);
    MPT_OK(nixl_object_delete(large, 0, MPT_PATIENCE));
    MPT_OK(nixl_region_close(large, MPT_PATIENCE));
    mpt_barrier();
}

/* While the rest does not come, those who wait for it hardly use a processor. */
static void half(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    int64_t began, cpu;

    open_directory(NIXL_DIRECTORY_CREATE);
    mpt_barrier();
    op.flags = NIXL_OP_DURABLE;
    MPT_OK(nixl_put(next, region, 0, out, 1));
    began = mpt_now_ns();
    cpu = mpt_cpu_ns();
    MPT_STATUS(nixl_flush_x(next, region, &op, NULL), NIXL_E_STORAGE);
    MPT_HAS("only 1 of its");
    cpu = mpt_cpu_ns() - cpu;
    if (cpu > (mpt_now_ns() - began) / 10) {
        mpt_fail(__FILE__, __LINE__, "it took %jd ms of a processor", (intmax_t)(cpu / MPT_MS));
    }
    MPT_OK(nixl_flush_x(next, region, &op, NULL));
    mpt_barrier();
    MPT_EQ(n_listed(NULL), 0);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void cannot(void)
{
    uint64_t one = 1, word = 0;
    void *addr;

    MPT_STATUS(nixl_atomic(next, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &word),
               NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_region_map(next, region, &addr), NIXL_E_UNSUPPORTED);
    MPT_HAS("is made of objects or files");
    MPT_STATUS(nixl_put(next, region, (uint64_t)N_FILES * NBYTES - 1, out, 2), NIXL_E_RANGE);
    MPT_STATUS(nixl_object_delete(region, N_FILES, MPT_PATIENCE), NIXL_E_RANGE);
    mpt_barrier();
}

static void queried(const char *how)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    MPT_OK(nixl_region_query(rank, region, MPT_PATIENCE, &info));
    MPT_EQ(info.kind, NIXL_MEM_OBJECT);
    MPT_TEXT(info.device, engine);
    MPT_TEXT(info.transport, "storage");
    MPT_TEXT(info.method, engine);
    MPT_TRUE(strstr(info.note, how) != NULL);
    MPT_EQ(strstr(info.note, "direct I/O") != NULL, direct != 0);
    info = (struct nixl_region_info)NIXL_REGION_INFO_INIT;
    MPT_OK(nixl_region_query(next, region, MPT_PATIENCE, &info));
    MPT_TEXT(info.device, engine);
}

static void close_all(void)
{
    for (uint64_t i = 0; i < N_FILES; i++) {
        MPT_OK(nixl_object_delete(region, i, MPT_PATIENCE));
    }
    MPT_EQ(n_listed(NULL), 0);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void whole(void)
{
    open_directory(NIXL_DIRECTORY_CREATE);
    mpt_barrier();
    queried("as a whole");
    round_trips();
    replaced();
    changed_by_others();
    notified(0);
    notified(NIXL_OP_DURABLE);
    prepared();
    in_parts();
    cannot();
    close_all();
}

/* ---- in place -------------------------------------------------------------------------------- */

static void place(void)
{
    struct nixl_op op = NIXL_OP_INIT;

    open_directory(NIXL_DIRECTORY_CREATE | NIXL_DIRECTORY_IN_PLACE);
    mpt_barrier();
    queried("in place");
    mpt_fill(out, NBYTES, 3 + (uint64_t)rank);
    MPT_OK(nixl_put(next, region, 0, out, 100));
    MPT_OK(nixl_flush(next, MPT_PATIENCE));
    mpt_barrier();
    check_own(0, 100, 3 + (uint64_t)prev);
    MPT_STATUS(nixl_get(next, region, 90, in, 11), NIXL_E_STORAGE);
    MPT_EQ(nixl_last_error()->native_code, ENODATA);
    mpt_barrier();
    op.flags = NIXL_OP_DURABLE;
    MPT_OK(nixl_put_x(next, region, 5000, out + 5000, NBYTES - 5000, &op, NULL));
    MPT_OK(nixl_put_x(next, region, 50, out + 50, 6000, &op, NULL));
    MPT_OK(nixl_get(next, region, 0, in, NBYTES));
    MPT_CHECK(in, NBYTES, 3 + (uint64_t)rank);
    mpt_barrier();
    check_own(0, NBYTES, 3 + (uint64_t)prev);
    /* The file is removed while it is open: the next put makes it again. */
    MPT_EQ(unlink(path_to(keys()[0])), 0);
    mpt_barrier();
    MPT_OK(nixl_put(next, region, 0, out, NBYTES));
    MPT_OK(nixl_flush(next, MPT_PATIENCE));
    mpt_barrier();
    check_own(0, NBYTES, 3 + (uint64_t)prev);
    prepared();
    close_all();
}

/* ---- all files that are there ---------------------------------------------------------------- */

static void write_file(const char *name, size_t nbytes, uint64_t seed)
{
    int fd = open(path_to(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    MPT_TRUE(fd >= 0);
    mpt_fill(out, nbytes, seed);
    MPT_EQ(write(fd, out, nbytes), nbytes);
    close(fd);
}

static int take(const struct nixl_object_info *info, void *arg)
{
    static const char *const new[] = {"a", "b-c", "b/a", "b/link", "c"};
    static const char *const old[] = {"a", "b-c", "b/a", "c"};
    const char *const *expected = is_old ? old : new;
    uint64_t *n_p = arg;

    MPT_EQ(info->object, *n_p);
    MPT_TEXT(info->key, expected[*n_p]);
    ++*n_p;
    return 0;
}

static void all(void)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    uint64_t n = 0, n_files;

    MPT_EQ(mkdir(dir, 0700), 0);
    MPT_EQ(mkdir(path_to("b"), 0700), 0);
    write_file("c", 5000, 3);
    write_file("a", 100, 1);
    write_file("b/a", 70000, 2);
    write_file("b-c", 0, 0);
    write_file(".nixlrun-0123456789abcdef", 10, 0);
    MPT_EQ(symlink("a", path_to("b/link")), 0);
    MPT_EQ(symlink("../../etc/passwd", path_to("b/out")), 0);
    MPT_EQ(symlink(".", path_to("loop")), 0);
    MPT_EQ(mkfifo(path_to("fifo"), 0600), 0);
    params.flags = NIXL_DIRECTORY_READ_ONLY | direct;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    mpt_barrier();
    n_files = is_old ? 4 : 5;
    MPT_EQ(nixl_region_nbytes(region), n_files * 70000);
    MPT_OK(nixl_object_list(region, NULL, MPT_PATIENCE, take, &n));
    MPT_EQ(n, n_files);
    MPT_OK(nixl_object_stat(region, n_files - 1, MPT_PATIENCE, &info));
    MPT_EQ(info.nbytes, 5000);
    MPT_OK(nixl_get(next, region, 0, in, 100));
    MPT_CHECK(in, 100, 1);
    MPT_OK(nixl_get(next, region, (uint64_t)2 * 70000, in, 70000));
    MPT_CHECK(in, 70000, 2);
    if (!is_old) {
        MPT_OK(nixl_get(next, region, (uint64_t)3 * 70000, in, 70000));
        MPT_CHECK(in, 70000, 2);
    }
    MPT_OK(nixl_get(next, region, (n_files - 1) * 70000, in, 5000));
    MPT_CHECK(in, 5000, 3);
    MPT_STATUS(nixl_get(next, region, (n_files - 1) * 70000, in, 5001), NIXL_E_STORAGE);
    MPT_STATUS(nixl_put(next, region, 0, in, 1), next == rank ? NIXL_E_STORAGE : NIXL_E_ACCESS);
    MPT_STATUS(nixl_object_delete(region, 0, MPT_PATIENCE), NIXL_E_ACCESS);
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_EQ(access(path_to(".nixlrun-0123456789abcdef"), F_OK), 0); /* only read: left alone */
    params.flags = direct;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    MPT_EQ(access(path_to(".nixlrun-0123456789abcdef"), F_OK), -1);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"whole", whole}, {"place", place}, {"all", all}, {"half", half}};
    const char *base = getenv("TMPDIR");

    mpt_start();
    MPT_TRUE(argc >= 2);
    for (int i = 2; i < argc; i++) {
        is_old = is_old || strcmp(argv[i], "old") == 0;
        direct = strcmp(argv[i], "direct") == 0 ? NIXL_DIRECTORY_DIRECT : direct;
        engine = strncmp(argv[i], "engine=", 7) == 0 ? argv[i] + 7 : engine;
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    next = (rank + 1) % size;
    prev = (rank + size - 1) % size;
    snprintf(dir, sizeof(dir), "%s/nixlrun-directory-%d-%d", base != NULL ? base : "/tmp",
             (int)getppid(), rank);
    out = malloc(LARGE + 4096);
    in = malloc(LARGE + 4096);
    MPT_TRUE(out != NULL && in != NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
        }
    }
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    mpt_remove_tree(dir);
    return mpt_passed();
}
