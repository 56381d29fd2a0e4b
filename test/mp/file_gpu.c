/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and memory of GPUs, over the stand-ins for NVIDIA's driver and for cuFile (test/cufile):
 * by which way bytes go, that they are right, and what the library says of it. Arguments: HOW
 * [cached] [TEXT], where `cached` is for a file without direct I/O, and HOW is one of
 *   always    whole blocks go by cuFile, others are staged
 *   staged    nothing goes by cuFile: the route says TEXT
 *   broken    cuFile fails at some time: bytes are right, and the route says TEXT
 *   measured  what is measured: the route says TEXT in the end, and gets go so
 *   disk      the file cannot be read from 1 MiB on: the same error as without cuFile
 */
#include "config.h"

#include "mptest.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, FILE_NBYTES = 24 * MIB, LARGE = 9 * MIB, BLOCK = 4096, N_REQS = 16 };

static struct nixl_region *file, *gpu;
static int rank, fd;
static char path[256]; /* of the file: cuFile opens it again by its name */
static unsigned char *bytes;

static void open_file(bool is_direct)
{
    const char *dir = getenv("TMPDIR");
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;

    snprintf(path, sizeof(path), "%s/file_gpu.XXXXXX", dir != NULL ? dir : "/tmp");
    fd = mkostemp(path, O_CLOEXEC);
    MPT_TRUE(fd >= 0);
    params.fd = fd;
    params.nbytes = FILE_NBYTES;
    params.flags = is_direct ? NIXL_FILE_DIRECT : 0;
    MPT_OK(nixl_region_open_file(NULL, NULL, &params, &file));
}

static void close_file(void)
{
    MPT_OK(nixl_region_close(file, MPT_PATIENCE));
    MPT_EQ(close(fd), 0);
    MPT_EQ(unlink(path), 0);
}

static void alloc_gpu(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    params.kind = NIXL_MEM_CUDA;
    MPT_OK(nixl_region_alloc(NULL, FILE_NBYTES, &params, &gpu));
}

static char *gpu_at(size_t offset)
{
    return (char *)nixl_region_addr(gpu) + offset;
}

/* Operations by cuFile up to now. */
static uint64_t n_by_cufile(void)
{
    struct nixl_stats stats = NIXL_STATS_INIT;
    uint64_t n = 0;

    for (unsigned i = 0; nixl_stats_query(i, &stats) == NIXL_OK; i++) {
        if (strcmp(stats.method, "cuFile") == 0) {
            MPT_TEXT(stats.transport, "storage");
            n += stats.nops;
        }
    }
    return n;
}

static struct nixl_route_info route_of(void)
{
    struct nixl_route_info info = NIXL_ROUTE_INFO_INIT;

    for (unsigned i = 0; !info.is_chosen; i++) {
        MPT_OK(nixl_route_query_segment(rank, file, gpu_at(0), i, &info));
    }
    MPT_TEXT(info.transport, "storage");
    return info;
}

/* Does the route say that text? */
static bool route_says(const char *text)
{
    struct nixl_route_info info = route_of();

    if (strstr(info.why, text) == NULL) {
        fprintf(stderr, "rank %d: the route is %s: %s\n", rank, info.method, info.why);
        return false;
    }
    return true;
}

/* From the GPU into the file and back to another place, and look at both. */
static void round_trip(size_t at, uint64_t offset, size_t nbytes, uint64_t seed)
{
    mpt_fill(bytes, nbytes, seed);
    MPT_OK(nixl_put(rank, gpu, at, bytes, nbytes));
    MPT_OK(nixl_put(rank, file, offset, gpu_at(at), nbytes));
    memset(bytes, 0, nbytes);
    MPT_EQ(pread(fd, bytes, nbytes, (off_t)offset), nbytes);
    MPT_CHECK(bytes, nbytes, seed);

    memset(bytes, 0, nbytes);
    MPT_OK(nixl_put(rank, gpu, at, bytes, nbytes));
    MPT_OK(nixl_get(rank, file, offset, gpu_at(at), nbytes));
    MPT_OK(nixl_get(rank, gpu, at, bytes, nbytes));
    MPT_CHECK(bytes, nbytes, seed);
}

static void round_trips(uint64_t seed)
{
    round_trip(0, 0, BLOCK, seed);
    round_trip(BLOCK, (uint64_t)5 * BLOCK, (size_t)3 * BLOCK, seed + 1);
    round_trip(512, MIB, LARGE, seed + 2); /* memory of the GPU that is not aligned */
    round_trip(0, 1, 1, seed + 3);         /* less than a block */
    round_trip(7, 12345, LARGE, seed + 4); /* blocks, and what is around them */
    round_trip(0, BLOCK, MIB + 1, seed + 5);
}

/* Several at once, in requests of the program's. */
static void many(uint64_t seed)
{
    struct nixl_req *reqs[N_REQS];

    mpt_fill(bytes, (size_t)N_REQS * MIB, seed);
    MPT_OK(nixl_put(rank, gpu, 0, bytes, (size_t)N_REQS * MIB));
    for (size_t i = 0; i < N_REQS; i++) {
        int status = nixl_put_x(rank, file, i * MIB, gpu_at(i * MIB), MIB, NULL, &reqs[i]);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    }
    for (size_t i = 0; i < N_REQS; i++) {
        if (reqs[i] != NULL) {
            MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
        }
    }
    memset(bytes, 0, (size_t)N_REQS * MIB);
    MPT_EQ(pread(fd, bytes, (size_t)N_REQS * MIB, 0), N_REQS * MIB);
    MPT_CHECK(bytes, (size_t)N_REQS * MIB, seed);
}

/* A file that another has cut: the error says so, and what is left can be read. */
static void truncated(void)
{
    MPT_EQ(ftruncate(fd, LARGE), 0);
    MPT_STATUS(nixl_get(rank, file, LARGE, gpu_at(0), MIB), NIXL_E_STORAGE);
    MPT_HAS("truncated");
    MPT_OK(nixl_get(rank, file, 0, gpu_at(0), LARGE));
    MPT_EQ(ftruncate(fd, FILE_NBYTES), 0);
}

static void always(void)
{
    struct nixl_req *req;
    uint64_t n;

    round_trips(100);
    n = n_by_cufile();
    MPT_EQ(n, 6); /* three of the six round trips are of whole blocks */
    many(200);
    MPT_EQ(n_by_cufile(), n + N_REQS);
    MPT_TRUE(route_says("by cuFile: NIXLRUN_CUFILE is always"));
    MPT_TEXT(route_of().method, "cuFile");
    truncated();
    /* A file that is closed while it is used, and one that is open at the end. */
    MPT_STATUS(nixl_put_x(rank, file, 0, gpu_at(0), LARGE, NULL, &req), NIXL_INPROGRESS);
    close_file();
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE)); /* the close has waited for it */
    open_file(true);
    round_trips(300);
}

static void staged(const char *text)
{
    round_trips(100);
    many(200);
    MPT_EQ(n_by_cufile(), 0);
    MPT_TRUE(route_says(text));
    MPT_TEXT(route_of().method, "staged");
    truncated();
}

static void broken(const char *text)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    for (uint64_t i = 0; strstr(route_of().why, text) == NULL; i++) {
        MPT_TRUE(mpt_now_ns() < until || route_says(text));
        round_trips(100 * i);
        many(100 * i + 50);
    }
    round_trips(1);
    truncated();
}

static void measured(const char *text)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_route_info info;
    uint64_t n;

    do {
        MPT_LT(mpt_now_ns(), until);
        many(1);
        for (size_t i = 0; i < N_REQS; i++) {
            MPT_OK(nixl_get(rank, file, i * MIB, gpu_at(i * MIB), MIB));
        }
        info = route_of();
    } while (strstr(info.why, "being") != NULL);
    MPT_TRUE(route_says(text));
    n = n_by_cufile();
    MPT_LT(0, n); /* it was tried */
    MPT_OK(nixl_get(rank, file, 0, gpu_at(0), LARGE));
    MPT_EQ(n_by_cufile(), n + (strstr(info.why, "gets by cuFile") != NULL));
}

static void disk(void)
{
    MPT_OK(nixl_put(rank, file, 0, gpu_at(0), (size_t)2 * MIB));
    MPT_STATUS(nixl_get(rank, file, MIB, gpu_at(0), MIB), NIXL_E_STORAGE);
    MPT_HAS(strerror(EIO));
    MPT_OK(nixl_get(rank, file, 0, gpu_at(0), MIB));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    bool is_cached = argc > 2 && strcmp(argv[2], "cached") == 0;
    char text[200] = "";

    mpt_start();
    for (int i = 2 + is_cached; i < argc; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", text[0] ? " " : "",
                 argv[i]);
    }
    if (strcmp(text, "no libcufile.so.0") == 0 && dlopen("libcufile.so.0", RTLD_LAZY) != NULL) {
        mpt_skip("libcufile.so.0 is installed here");
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    bytes = malloc(FILE_NBYTES);
    MPT_TRUE(bytes != NULL);
    open_file(!is_cached);
    alloc_gpu();
    if (strcmp(how, "always") == 0) {
        always();
    } else if (strcmp(how, "staged") == 0) {
        staged(text);
    } else if (strcmp(how, "broken") == 0) {
        broken(text);
    } else if (strcmp(how, "measured") == 0) {
        measured(text);
    } else {
        MPT_TEXT(how, "disk");
        disk();
    }
    close_file();
    MPT_OK(nixl_region_close(gpu, MPT_PATIENCE));
    mpt_finalize();
    free(bytes);
    return mpt_passed();
}
