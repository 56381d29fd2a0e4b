/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast puts between GPUs are, beside a plain copy in one process in the same run: both are
 * measured twice in turns (A B A B), and each row says the ratio and the goal. Rank 0 measures,
 * rank 1 owns the memory. GPU_DEVICE=0 puts both on one GPU; else each rank has its own.
 *
 *     gpu_speed [quick]      quick: sizes of up to 4 MiB, to see that it works
 */
#include "test/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define BUDGET_NS   (60 * MPT_MS) /* of one measurement */
#define MAX_SAMPLES 2000
#define WINDOW      8
#define BLOCK       (64 * KIB)
#define TAG_ROUND   1
#define TAG_STOP    2
#define TAG_PLAIN   3

static size_t max_nbytes = 1024 * MIB;
static size_t n_blocks = 10000;
static int64_t budget_ns = BUDGET_NS;

/* What the two sides of a measurement work on. */
static struct {
    size_t nbytes;
    uintptr_t src, dst; /* of the plain copy */
    char *local;        /* source of the puts */
    struct nixl_region *region;
    struct fake_stream *stream;
    struct nixl_xfer *blocks;
} work;

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

/* The median time of a step, in ns. */
static double measure(void (*step)(void))
{
    static int64_t samples[MAX_SAMPLES];
    int64_t begin, last, now;
    size_t n = 0;

    for (int i = 0; i < 3; i++) {
        step();
    }
    begin = last = mpt_now_ns();
    do {
        step();
        now = mpt_now_ns();
        samples[n++] = now - last;
        last = now;
    } while (n < MAX_SAMPLES && (n < 5 || now - begin < budget_ns));
    qsort(samples, n, sizeof(samples[0]), compare);
    n /= 2;
    return (double)samples[n];
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void plain_copy(void)
{
    GPU_OK(cu.cuMemcpyAsync(work.dst, work.src, work.nbytes, work.stream));
    GPU_OK(cu.cuStreamSynchronize(work.stream));
}

static void put_flush(void)
{
    MPT_OK(nixl_put(1, work.region, 0, work.local, work.nbytes));
    MPT_OK(nixl_flush(1, MPT_PATIENCE));
}

static void get_one(void)
{
    MPT_OK(nixl_get(1, work.region, 0, work.local, work.nbytes));
}

static void plain_window(void)
{
    for (int i = 0; i < WINDOW; i++) {
        GPU_OK(cu.cuMemcpyAsync(work.dst, work.src, work.nbytes, work.stream));
    }
    GPU_OK(cu.cuStreamSynchronize(work.stream));
}

static void wait_all(struct nixl_req **reqs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], NIXL_FOREVER));
    }
}

static void start_put(uint64_t offset, const void *src, size_t nbytes, struct nixl_req **req_p)
{
    int status;

    *req_p = NULL;
    status = nixl_put_x(1, work.region, offset, src, nbytes, NULL, req_p);
    if (status != NIXL_INPROGRESS) {
        MPT_OK(status);
    }
}

static void put_window(void)
{
    struct nixl_req *reqs[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        start_put(0, work.local, work.nbytes, &reqs[i]);
    }
    wait_all(reqs, WINDOW);
}

/* Every second block of twice as much memory, backwards. */
static uint64_t block_number(size_t i)
{
    return (n_blocks - 1 - i) * 2;
}

/* What the driver has for many copies at once. */
static void plain_blocks(void)
{
    static uintptr_t *dsts, *srcs;
    static size_t *sizes;
    struct cu_copy_attributes attributes = {.order = 1};
    size_t first = 0, failed;

    if (sizes == NULL) {
        dsts = calloc(n_blocks, sizeof(*dsts));
        srcs = calloc(n_blocks, sizeof(*srcs));
        sizes = calloc(n_blocks, sizeof(*sizes));
        MPT_TRUE(dsts != NULL && srcs != NULL && sizes != NULL);
        for (size_t i = 0; i < n_blocks; i++) {
            dsts[i] = work.dst + block_number(i) * BLOCK;
            srcs[i] = work.src + block_number(i) * BLOCK;
            sizes[i] = BLOCK;
        }
    }
    GPU_OK(cu.cuMemcpyBatchAsync(dsts, srcs, sizes, n_blocks, &attributes, &first, 1, &failed,
                                 work.stream));
    GPU_OK(cu.cuStreamSynchronize(work.stream));
}

/* Prepared once, started again and again. */
static struct nixl_xfer *prepare_blocks(void)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    static uint64_t *index; /* the transfer reads it at each start */

    index = index != NULL ? index : calloc(n_blocks, sizeof(*index));
    MPT_TRUE(index != NULL);
    for (size_t i = 0; i < n_blocks; i++) {
        index[i] = block_number(i);
    }
    local.region = remote.region = work.region;
    local.block_nbytes = remote.block_nbytes = BLOCK;
    local.stride = remote.stride = BLOCK;
    local.nblocks = remote.nblocks = n_blocks;
    local.index = remote.index = index;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, 1, &local, 1, &remote, 1, &xfer));
    return xfer;
}

static void put_blocks(void)
{
    int status = nixl_xfer_start(work.blocks, NULL);

    MPT_OK(status == NIXL_INPROGRESS ? nixl_xfer_wait(work.blocks, MPT_PATIENCE) : status);
}

static void round_trip(void)
{
    static struct nixl_note note;

    MPT_OK(nixl_put_notify(1, work.region, 0, work.local, work.nbytes, TAG_ROUND, NULL, 0,
                           MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_ROUND, UINT64_MAX, MPT_PATIENCE, &note));
}

/* What two processes cost that use one GPU in turns: copies of their own, and notifications. */
static void plain_round(void)
{
    static struct nixl_note note;

    plain_copy();
    MPT_OK(nixl_notify(1, TAG_PLAIN, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(1, TAG_PLAIN, UINT64_MAX, MPT_PATIENCE, &note));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void size_text(size_t nbytes, char *text, size_t text_nbytes)
{
    if (nbytes >= MIB && nbytes % MIB == 0) {
        snprintf(text, text_nbytes, "%zu MiB", nbytes / MIB);
    } else if (nbytes >= KIB && nbytes % KIB == 0) {
        snprintf(text, text_nbytes, "%zu KiB", nbytes / KIB);
    } else {
        snprintf(text, text_nbytes, "%zu B", nbytes);
    }
}

/*
 * One row: both in turns. A time goal is an upper bound on ours / plain, a rate goal a lower one on
 * plain / ours. Of `n` units in one step of ours, as one way of a round trip or copies in a window.
 */
static void row(const char *what, void (*plain)(void), double n_plain, void (*ours)(void),
                double n_ours, double time_goal, double rate_goal)
{
    double a = 0, b = 0, ratio, moved = (double)work.nbytes;
    char bytes[32];
    bool is_met;

    for (int turn = 0; turn < 2; turn++) {
        a += measure(plain) / n_plain / 2;
        b += measure(ours) / n_ours / 2;
    }
    size_text(work.nbytes, bytes, sizeof(bytes));
    ratio = time_goal > 0 ? b / a : a / b;
    is_met = time_goal > 0 ? ratio <= time_goal : ratio >= rate_goal;
    printf("row | %-34s | %8s | %10.2f us | %10.2f us | %8.1f GB/s | %5.3f | %s %.2f | %s\n", what,
           bytes, a / 1000, b / 1000, moved / b, ratio,
           time_goal > 0 ? "<=" : ">=", time_goal > 0 ? time_goal : rate_goal,
           is_met ? "met" : "NOT MET");
    fflush(stdout);
}

/* Where the plain copy goes: another buffer of the same process, on the GPU of rank 1. */
static uintptr_t plain_target(size_t nbytes)
{
    struct fake_context *there = NULL, *here;
    int device = getenv("GPU_DEVICE") != NULL ? gpu_device() : 1 % gpu_n_devices(), result;
    uintptr_t addr;

    GPU_OK(cu.cuCtxGetCurrent(&here));
    GPU_OK(cu.cuDevicePrimaryCtxRetain(&there, device));
    if (there != here) {
        result = cu.cuCtxEnablePeerAccess(there, 0);
        MPT_TRUE(result == CU_OK || result == CU_PEER_ENABLED);
    }
    GPU_OK(cu.cuCtxPushCurrent(there));
    GPU_OK(cu.cuMemAlloc(&addr, nbytes));
    GPU_OK(cu.cuCtxPopCurrent(&there));
    return addr;
}

static void rows_small(void)
{
    static const size_t sizes[] = {8, 1024, 4096, 65536};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        work.nbytes = sizes[i];
        row("put + flush / copy + wait", plain_copy, 1, put_flush, 1, 1.10, 0);
    }
    work.nbytes = 8;
    row("get / copy + wait", plain_copy, 1, get_one, 1, 1.10, 0);
    row("put_notify, one way / copy + wait", plain_copy, 1, round_trip, 2, 1.50, 0);
    row("put_notify, one way / both copy", plain_round, 2, round_trip, 2, 1.50, 0);
    MPT_OK(nixl_notify(1, TAG_STOP, NULL, 0, MPT_PATIENCE));
}

static void rows_large(bool is_same)
{
    static const size_t sizes[] = {MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= max_nbytes; i++) {
        bool counts = is_same ? sizes[i] >= 256 * MIB : sizes[i] >= 64 * MIB;

        work.nbytes = sizes[i];
        row("put / copy, one at a time", plain_copy, 1, put_flush, 1, 0, counts ? 0.98 : 0.90);
        row("put / copy, 8 at a time", plain_window, WINDOW, put_window, WINDOW, 0,
            counts ? 0.98 : 0.90);
    }
    work.nbytes = n_blocks * BLOCK;
    work.blocks = prepare_blocks();
    row("10,000 blocks of 64 KiB / one copy", plain_copy, 1, put_blocks, 1, 0, 0.90);
    if (cu.cuMemcpyBatchAsync != NULL) {
        row("10,000 blocks / the driver's batch", plain_blocks, 1, put_blocks, 1, 0, 0.90);
    }
    MPT_OK(nixl_xfer_free(work.blocks));
}

/* Between host memory and the peer's GPU, both directions, and what Vulkan's memory costs. */
static void rows_kinds(struct gpu_region *host, struct nixl_region *vulkan)
{
    uintptr_t cuda_src = work.src;
    char *cuda_local = work.local;

    work.nbytes = max_nbytes < 16 * MIB ? max_nbytes : 16 * MIB;
    if (cu.cuMemHostRegister((void *)host->addr, host->nbytes, 3) != CU_OK) {
        printf("# host memory is pinned already, or cannot be\n");
    }
    work.src = host->addr;
    work.local = (char *)host->addr;
    row("put host -> GPU / pinned copy", plain_window, WINDOW, put_window, WINDOW, 0, 0.97);
    work.src = work.dst;
    work.dst = host->addr;
    row("get GPU -> host / pinned copy", plain_copy, 1, get_one, 1, 0, 0.97);
    cu.cuMemHostUnregister((void *)host->addr);
    work.dst = work.src;
    work.src = cuda_src;
    work.local = cuda_local;
    if (vulkan != NULL) {
        work.region = vulkan;
        work.nbytes = max_nbytes < 256 * MIB ? max_nbytes : 256 * MIB;
        row("put into Vulkan memory / CUDA copy", plain_window, WINDOW, put_window, WINDOW, 0,
            0.95);
    }
}

/* ---- the two ranks --------------------------------------------------------------------------- */

static void echo(struct nixl_region *region, const char *local)
{
    static struct nixl_note note;

    do {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(0, 0, 0, NIXL_FOREVER, &note));
        if (note.tag == TAG_ROUND) {
            MPT_OK(nixl_put_notify(0, region, 0, local, 8, TAG_ROUND, NULL, 0, MPT_PATIENCE));
        } else if (note.tag == TAG_PLAIN) {
            plain_copy();
            MPT_OK(nixl_notify(0, TAG_PLAIN, NULL, 0, MPT_PATIENCE));
        }
    } while (note.tag != TAG_STOP);
}

int main(int argc, char **argv)
{
    struct gpu_region cuda, host, vulkan;
    bool has_vulkan, is_same = getenv("GPU_DEVICE") != NULL;

    if (argc > 1 && strcmp(argv[1], "quick") == 0) {
        max_nbytes = 4 * MIB;
        n_blocks = 16;
        budget_ns = MPT_MS;
    }
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    gpu_start();
    if (!is_same && gpu_n_devices() < 2) {
        mpt_skip("one GPU; the way from GPU to GPU needs two");
    }
    gpu_region_make("cuda", GPU_CUDA, 2 * n_blocks * BLOCK + max_nbytes, &cuda);
    gpu_region_make("host", GPU_HOST, 16 * MIB, &host);
    has_vulkan = gpu_region_make("vulkan", GPU_VULKAN, 256 * MIB, &vulkan);
    mpt_barrier();
    if (nixl_rank() == 0) {
        printf("# %s\n", is_same ? "both ranks on one GPU" : "each rank on a GPU of its own");
        printf("row | what | bytes | plain | nixlrun | rate | ratio | goal | verdict\n");
        GPU_OK(cu.cuStreamCreate(&work.stream, 1));
        work.region = cuda.region;
        work.local = (char *)cuda.addr;
        work.src = cuda.addr;
        work.dst = plain_target(n_blocks * BLOCK + max_nbytes);
        rows_small();
        rows_large(is_same);
        rows_kinds(&host, has_vulkan && is_same ? vulkan.region : NULL);
        GPU_OK(cu.cuMemFree(work.dst));
    } else {
        GPU_OK(cu.cuStreamCreate(&work.stream, 1));
        work.nbytes = 8;
        work.src = cuda.addr;
        work.dst = cuda.addr + 4096;
        echo(cuda.region, (char *)cuda.addr);
    }
    mpt_barrier();
    gpu_region_end(&cuda);
    gpu_region_end(&host);
    if (has_vulkan) {
        gpu_region_end(&vulkan);
    }
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
