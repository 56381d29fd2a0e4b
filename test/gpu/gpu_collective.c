/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast collectives on GPU memory are, beside NCCL on the same buffers in the same processes:
 * both are measured in turns (A B A B). A call of NCCL only queues the work: it is waited for here
 * as the library does (the goal is for that), and a second row has it queued without waiting. NCCL
 * is what NCCL_LIBRARY names; without it the library is measured alone.
 *
 *     gpu_collective [quick]      quick: sizes of up to 1 MiB, to see that it works
 */
#include "test/gpu/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define TURNS     3
#define IN_A_ROW  20
#define WARM_UP   16
#define MAX_STEPS 400

struct nccl_id {
    char bytes[128];
};
enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

static struct {
    int (*get_id)(struct nccl_id *id_p);
    int (*init)(void **comm_p, int n_ranks, struct nccl_id id, int rank);
    int (*all_reduce)(const void *src, void *dst, size_t count, int type, int op, void *comm,
                      struct fake_stream *stream);
    int (*broadcast)(const void *src, void *dst, size_t count, int type, int root, void *comm,
                     struct fake_stream *stream);
    int (*all_gather)(const void *src, void *dst, size_t count, int type, void *comm,
                      struct fake_stream *stream);
    int (*destroy)(void *comm);
    void *comm; /* NULL: there is no NCCL */
} nccl;

static struct {
    size_t nbytes;
    char *src, *dst;
    struct fake_stream *stream;
} work;
static struct nixl_team *world;

/* ---- NCCL ------------------------------------------------------------------------------------ */

static bool find_all(void *library)
{
    const struct {
        const char *name;
        void **slot;
    } wanted[] = {
        {"ncclGetUniqueId", (void **)&nccl.get_id},   {"ncclCommInitRank", (void **)&nccl.init},
        {"ncclAllReduce", (void **)&nccl.all_reduce}, {"ncclBroadcast", (void **)&nccl.broadcast},
        {"ncclAllGather", (void **)&nccl.all_gather}, {"ncclCommDestroy", (void **)&nccl.destroy},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *wanted[i].slot = dlsym(library, wanted[i].name);
        if (*wanted[i].slot == NULL) {
            return false;
        }
    }
    return true;
}

/* Every rank has it, or none; two ranks on one GPU are refused by NCCL. */
static void start_nccl(void)
{
    const char *wish = getenv("NCCL_LIBRARY");
    void *library = wish != NULL ? dlopen(wish, RTLD_NOW | RTLD_LOCAL) : NULL;
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    int32_t has = library != NULL && find_all(library) && getenv("GPU_DEVICE") == NULL, all = 0;
    struct nccl_id id = {{0}};

    args.src = &has;
    args.dst = &all;
    args.count = 1;
    args.type = NIXL_TYPE_INT32;
    args.op = NIXL_REDUCE_MIN;
    MPT_OK(nixl_allreduce(world, &args, MPT_PATIENCE));
    if (all == 0) {
        return;
    }
    if (nixl_rank() == 0) {
        MPT_EQ(nccl.get_id(&id), 0);
    }
    MPT_OK(nixl_broadcast(world, 0, &id, sizeof(id), MPT_PATIENCE));
    MPT_EQ(nccl.init(&nccl.comm, nixl_size(), id, nixl_rank()), 0);
}

static void wait_stream(void)
{
    GPU_OK(cu.cuStreamSynchronize(work.stream));
}

static void nccl_allreduce(void)
{
    MPT_EQ(nccl.all_reduce(work.src, work.dst, work.nbytes / sizeof(float), NCCL_FLOAT, NCCL_SUM,
                           nccl.comm, work.stream),
           0);
}

static void nccl_broadcast(void)
{
    MPT_EQ(nccl.broadcast(work.src, work.src, work.nbytes / sizeof(float), NCCL_FLOAT, 0, nccl.comm,
                          work.stream),
           0);
}

static void nccl_allgather(void)
{
    MPT_EQ(nccl.all_gather(work.src, work.dst, work.nbytes / sizeof(float) / (size_t)nixl_size(),
                           NCCL_FLOAT, nccl.comm, work.stream),
           0);
}

/* ---- the library ----------------------------------------------------------------------------- */

static void our_allreduce(void)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;

    args.src = work.src;
    args.dst = work.dst;
    args.count = work.nbytes / sizeof(float);
    args.type = NIXL_TYPE_FLOAT;
    args.op = NIXL_REDUCE_SUM;
    MPT_OK(nixl_allreduce(world, &args, MPT_PATIENCE));
}

static void our_broadcast(void)
{
    MPT_OK(nixl_broadcast(world, 0, work.src, work.nbytes, MPT_PATIENCE));
}

static void our_allgather(void)
{
    MPT_OK(
        nixl_allgather(world, work.src, work.dst, work.nbytes / (size_t)nixl_size(), MPT_PATIENCE));
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* All ranks take as many steps. The median time of `n` calls and `after` them, of each, in ns. */
static double measure(int steps, int n, void (*run)(void), void (*after)(void))
{
    static double samples[MAX_STEPS];

    MPT_OK(nixl_barrier(world, MPT_PATIENCE));
    for (int step = -3; step < steps; step++) {
        int64_t begin = mpt_now_ns();

        for (int i = 0; i < n; i++) {
            run();
        }
        if (after != NULL) {
            after();
        }
        samples[step < 0 ? 0 : step] = (double)(mpt_now_ns() - begin) / n;
    }
    qsort(samples, (size_t)steps, sizeof(samples[0]), compare);
    return samples[steps / 2];
}

static void size_text(size_t nbytes, char *text, size_t text_nbytes)
{
    if (nbytes >= MIB) {
        snprintf(text, text_nbytes, "%zu MiB", nbytes / MIB);
    } else {
        snprintf(text, text_nbytes, "%zu KiB", nbytes / KIB);
    }
}

/* A time goal is an upper bound on ours / NCCL's; 0: none. */
static void print_row(const char *what, double theirs, double ours, double goal)
{
    double ratio = theirs > 0 ? ours / theirs : 0;
    char bytes[32], verdict[48] = "";

    size_text(work.nbytes, bytes, sizeof(bytes));
    if (theirs > 0 && goal > 0) {
        snprintf(verdict, sizeof(verdict), "<= %.2f | %s", goal, ratio <= goal ? "met" : "NOT MET");
    }
    printf("row | %-34s | %8s | %10.2f us | %10.2f us | %8.1f GB/s | %5.3f | %s\n", what, bytes,
           theirs / 1000, ours / 1000, (double)work.nbytes / ours, ratio, verdict);
    fflush(stdout);
}

static void row(const char *name, size_t nbytes, void (*theirs)(void), void (*ours)(void),
                double goal)
{
    int steps = nbytes >= 16 * MIB ? 30 : MAX_STEPS;
    double waited = 0, queued = 0, mine = 0;
    char what[64];

    work.nbytes = nbytes;
    for (int turn = 0; turn < TURNS; turn++) {
        if (nccl.comm != NULL) {
            waited += measure(steps, 1, theirs, wait_stream) / TURNS;
            queued += measure(steps / 4 + 2, IN_A_ROW, theirs, wait_stream) / TURNS;
        }
        mine += measure(steps, 1, ours, NULL) / TURNS;
    }
    if (nixl_rank() == 0) {
        snprintf(what, sizeof(what), "%s / NCCL, waited for", name);
        print_row(what, waited, mine, goal);
        if (nccl.comm != NULL) {
            snprintf(what, sizeof(what), "%s / NCCL, only queued", name);
            print_row(what, queued, mine, 0);
        }
    }
}

int main(int argc, char **argv)
{
    bool is_quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    const size_t sizes[] = {8 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB};
    size_t n_sizes = is_quick ? 3 : 5;
    struct gpu_region src, dst;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    gpu_start();
    MPT_OK(nixl_team_world(MPT_PATIENCE, &world));
    start_nccl();
    MPT_TRUE(gpu_region_make("src", GPU_CUDA, sizes[n_sizes - 1], &src));
    MPT_TRUE(gpu_region_make("dst", GPU_CUDA, sizes[n_sizes - 1], &dst));
    GPU_OK(cu.cuMemsetD8(src.addr, 0, src.nbytes)); /* zeros: sums of any bits may be slow */
    GPU_OK(cu.cuStreamCreate(&work.stream, 1));
    work.src = (char *)src.addr;
    work.dst = (char *)dst.addr;
    work.nbytes = 4 * KIB;
    for (int i = 0; i < WARM_UP; i++) {
        our_allreduce();
    }
    for (size_t i = 0; i < n_sizes; i++) {
        row("allreduce", sizes[i], nccl_allreduce, our_allreduce,
            sizes[i] >= 16 * MIB ? 1 / 0.8 : 1.2);
    }
    for (size_t i = 0; i < n_sizes; i++) {
        row("broadcast", sizes[i], nccl_broadcast, our_broadcast, 0);
        row("allgather", sizes[i], nccl_allgather, our_allgather, 0);
    }
    if (nccl.comm != NULL) {
        MPT_EQ(nccl.destroy(nccl.comm), 0);
    }
    GPU_OK(cu.cuStreamDestroy(work.stream));
    MPT_OK(nixl_team_free(world));
    mpt_barrier();
    gpu_region_end(&src);
    gpu_region_end(&dst);
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
