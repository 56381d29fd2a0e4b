/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories as regions in a process that has few descriptors: more files are used at once than it
 * may open. Argument, or none:
 *   direct   past the page cache
 */
#include "config.h"

#include "mptest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_MANY = 200, MANY_NBYTES = 10000 };
enum { N_UPLOADS = 16, LARGE = (8 << 20) + 4096 }; /* of two parts each */

static struct nixl_region *region;
static struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
static char dir[400];
static int rank;
static uint32_t direct; /* a flag, or 0 */
static unsigned char *out, *in;

/* All files at once: of a prepared transfer each block is one, at an unaligned end of it. */
static void move_many(enum nixl_xfer_op kind, unsigned char *memory)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;

    local.addr = memory;
    remote.region = region;
    local.block_nbytes = remote.block_nbytes = MANY_NBYTES;
    local.stride = remote.stride = MANY_NBYTES;
    local.nblocks = remote.nblocks = N_MANY;
    MPT_OK(nixl_xfer_create(kind, rank, &local, 1, &remote, 1, &xfer));
    MPT_GE(nixl_xfer_start(xfer, NULL), NIXL_OK); /* or it is in progress */
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    MPT_OK(nixl_xfer_free(xfer));
}

enum { MAX_TAKEN = 1000 };

static int taken[MAX_TAKEN], n_taken;

static void take_left(void)
{
    while (n_taken < MAX_TAKEN && (taken[n_taken] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0) {
        n_taken++;
    }
    MPT_LT(n_taken, MAX_TAKEN);
    MPT_EQ(errno, EMFILE);
}

/* Have some files open that nobody uses, and take all descriptors that are left. */
static void take_all(void)
{
    for (uint64_t i = 2; i < 5; i++) {
        MPT_OK(nixl_get(rank, region, i * MANY_NBYTES, in, 100));
    }
    take_left();
}

/* Give all of them back but so many. */
static void give_back(int n_kept)
{
    while (n_taken > n_kept) {
        MPT_EQ(close(taken[--n_taken]), 0);
    }
}

static int count_listed(const struct nixl_object_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

/* Not only opening a file for its bytes takes descriptors. */
static void none_left(void)
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    struct nixl_op durable = NIXL_OP_INIT;
    int n = 0;

    durable.flags = NIXL_OP_DURABLE;
    params.flags = NIXL_DIRECTORY_CREATE | direct;
    MPT_OK(nixl_region_open_directory("whole", dir, &params, &region));
    take_all();
    MPT_OK(nixl_put(rank, region, 0, out, MANY_NBYTES));
    give_back(0);
    take_all();
    MPT_OK(nixl_flush_x(rank, region, &durable, NULL));
    give_back(0);
    take_all();
    MPT_OK(nixl_object_stat(region, 1, MPT_PATIENCE, &info));
    give_back(0);
    take_all();
    MPT_OK(nixl_object_list(region, NULL, MPT_PATIENCE, count_listed, &n));
    MPT_EQ(n, N_MANY);
    give_back(0);
    take_all();
    MPT_OK(nixl_object_delete(region, 1, MPT_PATIENCE));
    give_back(0);
    take_all();
    give_back(n_taken - 4);
    move_many(NIXL_XFER_PUT, out); /* as many at once as there are threads */
    move_many(NIXL_XFER_GET, in);
    give_back(0);
    MPT_CHECK(in, (size_t)N_MANY * MANY_NBYTES, 7);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static struct nixl_region *uploads_open(const char *name)
{
    static char names[N_UPLOADS][32];
    const char *keys[N_UPLOADS];
    struct nixl_region *opened;

    for (int i = 0; i < N_UPLOADS; i++) { /* as if in directories that are to be made */
        snprintf(names[i], sizeof(names[i]), "%s-%d/a/b", name, i);
        keys[i] = names[i];
    }
    params.nobjects = N_UPLOADS;
    params.object_nbytes = LARGE;
    params.keys = keys;
    MPT_OK(nixl_region_open_directory(name, dir, &params, &opened));
    return opened;
}

/*
 * Files in parts stay open until they are complete: more are put at once than may be open, into one
 * region or into two, which wait for each other's.
 */
static void uploads(int n_regions)
{
    struct nixl_region *regions[2];
    struct nixl_req *reqs[2 * N_UPLOADS];
    unsigned char *large = malloc(LARGE), *got = malloc(LARGE);
    int n = n_regions * N_UPLOADS;

    MPT_TRUE(large != NULL && got != NULL);
    mpt_fill(large, LARGE, 5);
    for (int i = 0; i < n_regions; i++) {
        regions[i] = uploads_open(i == 0 ? "large" : "other");
    }
    take_left();
    give_back(n_taken - 6);
    for (int i = 0; i < n; i++) {
        reqs[i] = NULL;
        MPT_GE(nixl_put_x(rank, regions[i % n_regions], (uint64_t)(i / n_regions) * LARGE, large,
                          LARGE, NULL, &reqs[i]),
               NIXL_OK);
    }
    for (int i = 0; i < n; i++) {
        MPT_OK(reqs[i] != NULL ? nixl_req_wait(&reqs[i], MPT_PATIENCE) : NIXL_OK);
    }
    for (int i = 0; i < n; i++) {
        memset(got, 0, LARGE);
        MPT_OK(
            nixl_get(rank, regions[i % n_regions], (uint64_t)(i / n_regions) * LARGE, got, LARGE));
        MPT_CHECK(got, LARGE, 5);
    }
    give_back(0);
    for (int i = 0; i < n_regions; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    free(large);
    free(got);
}

/*
 * The process may open only a few more files than it has: files that nobody uses are closed for
 * those that are wanted, and if all are used, they are waited for.
 */
static void many(void)
{
    struct rlimit limit, few;
    int fd;

    params.flags = NIXL_DIRECTORY_CREATE | NIXL_DIRECTORY_IN_PLACE | direct;
    params.nobjects = N_MANY;
    params.object_nbytes = MANY_NBYTES;
    params.ndescriptors = N_MANY;
    MPT_OK(nixl_region_open_directory("directory", dir, &params, &region));
    mpt_fill(out, (size_t)N_MANY * MANY_NBYTES, 7);
    move_many(NIXL_XFER_PUT, out);
    MPT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    MPT_TRUE(fd >= 0);
    MPT_EQ(close(fd), 0);
    few = limit;
    few.rlim_cur = (rlim_t)fd + 8;
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int i = 0; i < 3; i++) {
        memset(in, 0, (size_t)N_MANY * MANY_NBYTES);
        move_many(NIXL_XFER_GET, in);
        MPT_CHECK(in, (size_t)N_MANY * MANY_NBYTES, 7);
        mpt_fill(out, (size_t)N_MANY * MANY_NBYTES, 7);
        move_many(NIXL_XFER_PUT, out);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    none_left();
    uploads(1);
    uploads(2);
    MPT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(int argc, char **argv)
{
    const char *base = getenv("TMPDIR");

    mpt_start();
    direct = argc > 1 && strcmp(argv[1], "direct") == 0 ? NIXL_DIRECTORY_DIRECT : 0;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    snprintf(dir, sizeof(dir), "%s/nixlrun-directory-%d-%d", base != NULL ? base : "/tmp",
             (int)getppid(), rank);
    out = malloc((size_t)N_MANY * MANY_NBYTES);
    in = malloc((size_t)N_MANY * MANY_NBYTES);
    MPT_TRUE(out != NULL && in != NULL);
    many();
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    mpt_remove_tree(dir);
    return mpt_passed();
}
