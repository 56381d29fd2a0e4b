/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files as regions: every rank puts into the file of the next one and gets from it, by all calls;
 * what is in the files is what was put; what a file cannot do is refused with its reason.
 * Arguments: "device", first: the files are parts of the block device LOOP_DISK; their flags,
 * "direct" and "exclusive"; "cuda" or "vulkan": such memory on the local side, too; "engine=NAME":
 * what reads and writes must be that.
 */
#include "mptest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_NBYTES = 24 << 20, LARGE = 9 << 20, N_BLOCKS = 500, BLOCK = 4096 };

static struct nixl_region *region;
static struct nixl_file_params file_params = NIXL_FILE_PARAMS_INIT;
static char own_path[512];
static const char *disk; /* the block device that all have, or NULL */
static int rank, size, next;
static unsigned char *out, *in;

static void path_of(int owner, char path[512])
{
    const char *dir = getenv("TMPDIR");

    if (disk != NULL) {
        snprintf(path, 512, "%s", disk);
        file_params.offset = (uint64_t)owner * FILE_NBYTES;
        return;
    }
    snprintf(path, 512, "%s/nixlrun-file-%d-%d", dir != NULL ? dir : "/tmp", (int)getppid(), owner);
}

static void open_file(void)
{
    file_params.flags |= disk == NULL ? NIXL_FILE_CREATE : 0;
    file_params.nbytes = FILE_NBYTES;
    MPT_OK(nixl_region_open_file("file", own_path, &file_params, &region));
    MPT_TRUE(nixl_region_addr(region) == NULL);
    MPT_EQ(nixl_region_nbytes(region), FILE_NBYTES);
}

/* Look at the own file as any program would. */
static void check_own(uint64_t offset, size_t nbytes, uint64_t seed)
{
    unsigned char *bytes = malloc(nbytes);
    int fd = open(own_path, O_RDONLY | O_CLOEXEC);

    MPT_TRUE(bytes != NULL && fd >= 0);
    MPT_EQ(pread(fd, bytes, nbytes, (off_t)(file_params.offset + offset)), nbytes);
    MPT_CHECK(bytes, nbytes, seed);
    MPT_EQ(close(fd), 0);
    free(bytes);
}

/* ---- what works ------------------------------------------------------------------------------ */

/* Sizes and places that are aligned and that are not, through the page cache and past it. */
static void round_trips(void)
{
    static const struct {
        uint64_t offset;
        size_t nbytes, shift; /* of the local memory */
    } cases[] = {
        {0, 1, 0},          {4095, 2, 1},         {4096, 4096, 0},  {4096, 8192, 3},
        {1, 4096 * 3, 512}, {12345, LARGE, 0},    {8192, LARGE, 7}, {FILE_NBYTES - 1, 1, 0},
        {4000, 200, 0},     {1 << 20, 1 << 20, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char *src = out + cases[i].shift, *dst = in + cases[i].shift;
        uint64_t seed = 100 * i + (uint64_t)rank;

        mpt_fill(src, cases[i].nbytes, seed);
        memset(dst, 0, cases[i].nbytes + 1);
        MPT_OK(nixl_put(next, region, cases[i].offset, src, cases[i].nbytes));
        MPT_OK(nixl_get(next, region, cases[i].offset, dst, cases[i].nbytes));
        MPT_CHECK(dst, cases[i].nbytes, seed);
        MPT_EQ(dst[cases[i].nbytes], 0);
        MPT_OK(nixl_flush(next, MPT_PATIENCE));
        mpt_barrier();
        check_own(cases[i].offset, cases[i].nbytes, 100 * i + (uint64_t)((rank + size - 1) % size));
        mpt_barrier();
    }
}

/* Neighbours in one block do not disturb each other. */
static void neighbours(void)
{
    for (int i = 0; i < 512; i++) {
        uint64_t value = (uint64_t)rank << 32 | (uint64_t)i;

        MPT_OK(nixl_put(0, region, 8 * (uint64_t)(i * size + rank), &value, sizeof(value)));
    }
    MPT_OK(nixl_flush(0, MPT_PATIENCE));
    mpt_barrier();
    for (int i = 0; i < 512 * size; i++) {
        uint64_t value;

        MPT_OK(nixl_get(0, region, 8 * (uint64_t)i, &value, sizeof(value)));
        MPT_EQ(value >> 32, i % size);
        MPT_EQ(value & UINT32_MAX, i / size);
    }
    mpt_barrier();
}

/* A notification behind a put comes when its bytes are in the file; then when they are durable. */
static void notified(uint32_t flags)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;
    int prev = (rank + size - 1) % size;

    op.flags = NIXL_OP_NOTE | flags;
    op.tag = 7;
    for (int i = 0; i < 3; i++) {
        size_t nbytes = i == 0 ? 100 : i == 1 ? 100000 : LARGE;
        int status;

        mpt_fill(out, nbytes, (uint64_t)(1000 + i + rank));
        status = nixl_put_x(next, region, 4096, out, nbytes, &op, &req);
        MPT_TRUE(status >= 0);
        mpt_hear(prev, 7);
        check_own(4096, nbytes, (uint64_t)(1000 + i + prev));
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        mpt_barrier();
    }
}

static void flushed_durably(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *req = NULL;
    struct nixl_region *memory;

    op.flags = NIXL_OP_DURABLE;
    mpt_fill(out, LARGE, 5);
    for (int i = 0; i < 4; i++) {
        struct nixl_req *put = NULL;

        MPT_TRUE(nixl_put_x(next, region, (uint64_t)(i << 20), out, 1 << 20, NULL, &put) >= 0);
        MPT_OK(nixl_req_detach(&put));
    }
    MPT_OK(nixl_flush_x(next, region, &op, NULL));
    MPT_OK(nixl_flush_x(NIXL_ALL_RANKS, NULL, &op, NULL));
    MPT_TRUE(nixl_flush_x(next, NULL, &op, &req) >= 0);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    MPT_OK(nixl_put_x(next, region, 0, out, 0, &op, NULL));
    MPT_OK(nixl_put_x(next, region, 10, out, 5000, &op, NULL));
    MPT_OK(nixl_region_alloc("memory", 4096, NULL, &memory));
    MPT_OK(nixl_put(next, memory, 0, out, 8));
    MPT_STATUS(nixl_flush_x(next, memory, &op, NULL), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_put_x(next, memory, 0, out, 8, &op, NULL), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_get_x(next, region, 0, in, 8, &op, NULL), NIXL_E_UNSUPPORTED);
    MPT_TRUE(strstr(nixl_last_error()->text, "NIXL_OP_DURABLE") != NULL);
    mpt_barrier();
    MPT_OK(nixl_region_close(memory, MPT_PATIENCE));
}

/* Blocks in any order between memory and the file, by a prepared transfer. */
static void prepared(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    static uint64_t index[N_BLOCKS];
    struct nixl_xfer *put, *get;
    struct nixl_op op = NIXL_OP_INIT;
    int prev = (rank + size - 1) % size;

    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        index[i] = (i * 7 + 3) % N_BLOCKS;
    }
    local.addr = out;
    local.block_nbytes = remote.block_nbytes = BLOCK;
    local.stride = remote.stride = BLOCK;
    local.nblocks = remote.nblocks = N_BLOCKS;
    remote.region = region;
    remote.index = index;
    mpt_fill(out, (size_t)N_BLOCKS * BLOCK, 77 + (uint64_t)rank);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, next, &local, 1, &remote, 1, &put));
    local.addr = in;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, next, &local, 1, &remote, 1, &get));
    for (int i = 0; i < 3; i++) {
        memset(in, 0, (size_t)N_BLOCKS * BLOCK);
        op.flags = NIXL_OP_NOTE;
        op.tag = 9;
        MPT_OK(nixl_xfer_start_x(put, &op, NULL));
        mpt_hear(prev, 9);
        MPT_OK(nixl_xfer_start_x(get, NULL, NULL));
        MPT_CHECK(in, (size_t)N_BLOCKS * BLOCK, 77 + (uint64_t)rank);
    }
    op.flags = NIXL_OP_DURABLE;
    MPT_OK(nixl_xfer_start_x(put, &op, NULL));
    MPT_OK(nixl_xfer_free(put));
    MPT_OK(nixl_xfer_free(get));
    mpt_barrier();
}

/* Many requests at once, some canceled; each ends once, and canceled ones stop. */
static void many(void)
{
    static struct nixl_req *reqs[200];
    int32_t outcome;

    mpt_fill(out, LARGE, 31);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 200; i++) {
            size_t nbytes = (size_t)(i % 16 + 1) * 8192;
            int status = i % 2 == 0 ? nixl_put_x(next, region, (uint64_t)i << 16, out, nbytes, NULL,
                                                 &reqs[i])
                                    : nixl_get_x(next, region, (uint64_t)(i - 1) << 16,
                                                 in + ((size_t)i << 14), nbytes, NULL, &reqs[i]);

            MPT_TRUE(status >= 0);
        }
        for (int i = 0; i < 200; i++) {
            if (round == 1 && i % 5 == 0) {
                MPT_TRUE(nixl_req_cancel(&reqs[i], MPT_PATIENCE, &outcome) >= 0);
            } else {
                MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
            }
        }
    }
    mpt_barrier();
}

/* Who waits for a notification while its file is read hears it, asleep in the ring or not. */
static void woken(void)
{
    int prev = (rank + size - 1) % size;
    struct nixl_req *req = NULL;

    for (int i = 0; i < 300; i++) {
        if (req == NULL) {
            MPT_TRUE(nixl_get_x(rank, region, 0, in, LARGE, NULL, &req) >= 0);
        }
        MPT_OK(nixl_notify(next, 11, NULL, 0, MPT_PATIENCE));
        mpt_hear(prev, 11);
        if (i % 3 == 0) {
            MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        }
    }
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier();
}

enum { N_UNPOLLED = 64, FEWER = 61 };

/* Returns how many will report their end. */
static int begin_unpolled(struct nixl_cq *cq, int n)
{
    struct nixl_op op = NIXL_OP_INIT;
    int n_begun = 0;

    memset(in, 0, N_UNPOLLED * BLOCK);
    op.cq = cq;
    for (int i = 0; i < n; i++) {
        int status =
            nixl_get_x(rank, region, (uint64_t)i * BLOCK, in + (size_t)i * BLOCK, BLOCK, &op, NULL);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        n_begun += status == NIXL_INPROGRESS;
    }
    return n_begun;
}

/* The bytes are there, without a call of this thread. */
static void see_unpolled(int n)
{
    const volatile unsigned char *bytes = in;
    int64_t deadline = mpt_now_ns() + MPT_PATIENCE;

    for (size_t i = 0; i < (size_t)n * BLOCK; i += BLOCK - 1) {
        while (bytes[i] == 0) {
            MPT_TRUE(mpt_now_ns() < deadline);
        }
    }
}

/*
 * A thread that has seen the end of many requests at once, and has begun fewer, which may wait for
 * more, then computes: they are begun all the same.
 */
static void unpolled(void)
{
    struct nixl_cq_entry entries[N_UNPOLLED];
    struct nixl_cq *cq;

    memset(out, 7, N_UNPOLLED * BLOCK);
    MPT_OK(nixl_put(rank, region, 0, out, N_UNPOLLED * BLOCK));
    MPT_OK(nixl_cq_open(NULL, &cq));
    for (int round = 0; round < 20; round++) {
        bool is_polled = round % 2 == 0;
        int n = is_polled ? N_UNPOLLED : FEWER;
        int n_left = begin_unpolled(cq, n);

        if (!is_polled) {
            see_unpolled(n);
        }
        for (size_t n_ended = 0; n_left > 0; n_left -= (int)n_ended) {
            MPT_OK(nixl_cq_wait(cq, entries, N_UNPOLLED, MPT_PATIENCE, &n_ended));
        }
    }
    MPT_OK(nixl_cq_close(cq));
    mpt_barrier();
}

/* Between the file and memory of a GPU. */
static void device(enum nixl_mem_kind kind)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *gpu;
    int status;

    params.kind = kind;
    status = nixl_region_alloc(NULL, LARGE, &params, &gpu);
    if (status == NIXL_E_NO_DEVICE) {
        char why[256];

        snprintf(why, sizeof(why), "%s", nixl_last_error()->text);
        MPT_EQ(unlink(own_path), 0);
        mpt_barrier(); /* the first one that leaves ends the others */
        mpt_skip("%s", why);
    }
    MPT_OK(status);
    for (int i = 0; i < 3; i++) {
        size_t nbytes = i == 0 ? 100 : i == 1 ? 70001 : LARGE;
        int peer = i % 2 == 0 ? next : rank;
        char *addr = nixl_region_addr(gpu);

        mpt_fill(out, nbytes, 50 + (uint64_t)i);
        MPT_OK(nixl_put(rank, gpu, 0, out, nbytes));
        MPT_OK(nixl_put(peer, region, 4099, addr, nbytes));
        memset(out, 0, nbytes);
        MPT_OK(nixl_put(rank, gpu, 0, out, nbytes));
        MPT_OK(nixl_get(peer, region, 4099, addr, nbytes));
        MPT_OK(nixl_get(rank, gpu, 0, in, nbytes));
        MPT_CHECK(in, nbytes, 50 + (uint64_t)i);
        mpt_barrier();
    }
    MPT_OK(nixl_region_close(gpu, MPT_PATIENCE));
}

/* ---- what does not --------------------------------------------------------------------------- */

static void refused(void)
{
    uint64_t one = 1, word = 0;
    void *addr;

    MPT_STATUS(nixl_atomic(next, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &word),
               NIXL_E_UNSUPPORTED);
    MPT_TRUE(strstr(nixl_last_error()->text, "is a file") != NULL);
    MPT_STATUS(nixl_signal_add(next, region, 0, 1), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_region_map(next, region, &addr), NIXL_E_UNSUPPORTED);
    MPT_TRUE(strstr(nixl_last_error()->text, "file") != NULL);
    MPT_STATUS(nixl_put(next, region, FILE_NBYTES - 1, out, 2), NIXL_E_RANGE);
    mpt_barrier();
}

/* Is that the route to a peer's file? This rank reads a whole file of its host. */
static bool route_names(const struct nixl_route_info *route, const char *engine)
{
    bool is_read_here = disk == NULL && strcmp(route->transport, "shm") == 0;
    char words[128];

    snprintf(words, sizeof(words),
             is_read_here ? "this rank reads it by %s, its owner writes it by %s"
                          : "its owner reads and writes it by %s",
             engine, engine);
    return strcmp(route->why, words) == 0;
}

/* The route to own storage, and to a peer's, names what reads and writes it. */
static void routed(const char *engine)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    bool is_found = false;

    for (unsigned i = 0; nixl_route_query_segment(next, region, NULL, i, &route) == NIXL_OK; i++) {
        if (route.is_chosen) {
            is_found = true;
            MPT_TRUE(next == rank ? strcmp(route.transport, "storage") == 0 &&
                                        strcmp(route.method, engine) == 0
                                  : route_names(&route, engine));
            MPT_EQ(route.latency_ns, 0);
        }
    }
    MPT_TRUE(is_found);
}

/* So do the counters. */
static void counted(const char *engine)
{
    struct nixl_stats stats = NIXL_STATS_INIT;
    uint64_t n = 0;

    MPT_OK(nixl_put(next, region, 0, out, 4096));
    for (unsigned i = 0; nixl_stats_query(i, &stats) == NIXL_OK; i++) {
        if (stats.rank == next && stats.op == NIXL_STATS_PUT && strcmp(stats.method, engine) == 0) {
            MPT_TRUE(next != rank || strcmp(stats.transport, "storage") == 0);
            n += stats.nops;
        }
    }
    MPT_TRUE(n > 0);
}

static uint64_t n_staged(void)
{
    struct nixl_stats stats = NIXL_STATS_INIT;
    uint64_t n = 0;

    for (unsigned i = 0; nixl_stats_query(i, &stats) == NIXL_OK; i++) {
        n += stats.rank == next && stats.op == NIXL_STATS_PUT ? stats.nstages : 0;
    }
    return n;
}

/* A file of a peer is written in pieces that are worth a request to a device: 128 KiB. */
static void staged(void)
{
    uint64_t before = n_staged(), n;

    MPT_OK(nixl_put(next, region, 0, out, 2 << 20));
    n = n_staged() - before;
    MPT_TRUE(next == rank ? n == 0 : n > 0 && n <= 16);
}

static void queried(const char *engine)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    char theirs[48];

    MPT_OK(nixl_region_query(next, region, MPT_PATIENCE, &info));
    MPT_EQ(info.kind, NIXL_MEM_FILE);
    MPT_EQ(info.nbytes, FILE_NBYTES);
    MPT_TRUE(strcmp(info.device, "io_uring") == 0 || strcmp(info.device, "threads") == 0);
    if (engine != NULL) {
        MPT_TEXT(info.device, engine);
    }
    snprintf(theirs, sizeof(theirs), "%s", info.device);
    info = (struct nixl_region_info)NIXL_REGION_INFO_INIT;
    MPT_OK(nixl_region_query(rank, region, MPT_PATIENCE, &info));
    MPT_TEXT(info.device, theirs);
    MPT_TEXT(info.transport, "storage");
    MPT_TEXT(info.method, theirs);
    MPT_TRUE(info.note[0] != '\0' && info.latency_ns == 0);
    routed(theirs);
    counted(theirs);
}

/* A file that is made through a symbolic link is made where that leads, and removed there. */
static void linked(void)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    char link[600], there[600];
    struct nixl_region *made;

    snprintf(link, sizeof(link), "%s.link", own_path);
    snprintf(there, sizeof(there), "%s.there", own_path);
    MPT_EQ(symlink(strrchr(there, '/') + 1, link), 0);
    params.flags = NIXL_FILE_CREATE;
    MPT_STATUS(nixl_region_open_file(NULL, link, &params, &made), NIXL_E_INVALID_ARG); /* empty */
    MPT_TRUE(access(there, F_OK) != 0 && access(link, F_OK) != 0);
    params.nbytes = 4096;
    MPT_OK(nixl_region_open_file(NULL, link, &params, &made));
    MPT_OK(nixl_region_close(made, MPT_PATIENCE));
    MPT_EQ(unlink(there), 0);
    params.flags = NIXL_FILE_CREATE | NIXL_FILE_NEW;
    MPT_STATUS(nixl_region_open_file(NULL, link, &params, &made), NIXL_E_IN_USE);
    MPT_EQ(unlink(link), 0);
}

/* A child of the program has the same open file, and with it the lock of NIXL_FILE_EXCLUSIVE. */
static void free_at_once(void)
{
    int ends[2];
    pid_t child;

    MPT_EQ(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit((int)read(ends[0], ends, 1));
    }
    MPT_TRUE(child > 0);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    open_file();
    close(ends[0]);
    close(ends[1]);
    MPT_EQ(waitpid(child, NULL, 0), child);
}

int main(int argc, char **argv)
{
    enum nixl_mem_kind kind = NIXL_MEM_NONE;
    const char *engine = NULL;

    mpt_start();
    if (argc > 1 && strcmp(argv[1], "device") == 0) {
        disk = getenv("LOOP_DISK");
        if (disk == NULL || disk[0] == '\0') {
            mpt_skip("no block device can be made here");
        }
    }
    for (int i = 1; i < argc; i++) {
        file_params.flags |= strcmp(argv[i], "direct") == 0      ? NIXL_FILE_DIRECT
                             : strcmp(argv[i], "exclusive") == 0 ? NIXL_FILE_EXCLUSIVE
                                                                 : 0;
        kind = strcmp(argv[i], "vulkan") == 0 ? NIXL_MEM_VULKAN
               : strcmp(argv[i], "cuda") == 0 ? NIXL_MEM_CUDA
                                              : kind;
        engine = strncmp(argv[i], "engine=", 7) == 0 ? argv[i] + 7 : engine;
    }
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    next = (rank + 1) % size;
    path_of(rank, own_path);
    out = malloc(LARGE + 4096);
    in = malloc(LARGE + 4096);
    MPT_TRUE(out != NULL && in != NULL);
    open_file();
    mpt_barrier();
    if (kind != NIXL_MEM_NONE) {
        device(kind);
    } else {
        queried(engine);
        staged();
        round_trips();
        neighbours();
        notified(0);
        notified(NIXL_OP_DURABLE);
        flushed_durably();
        prepared();
        many();
        woken();
        unpolled();
        refused();
        if (disk == NULL) {
            linked();
        }
    }
    mpt_barrier();
    if ((file_params.flags & NIXL_FILE_EXCLUSIVE) != 0) {
        free_at_once();
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_EQ(disk != NULL ? 0 : unlink(own_path), 0);
    free(out);
    free(in);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
