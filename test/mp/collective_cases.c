/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single cases of collectives, by name:
 *
 *   regions  a call whose buffers lie in more regions than a member keeps mapped of each other one
 *   arrays   pointers of nixl_vector_args that the call does not use may lead nowhere
 *   scan     what follows a scan does not write where a slow member still reads its result
 */
#include "mptest.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- regions --------------------------------------------------------------------------------- */

#define N_REGIONS  5
#define N_ELEMENTS ((size_t)64 << 10) /* in each */

static uint32_t *elements_of(struct nixl_region *const *regions, int i)
{
    return nixl_region_addr(regions[i % N_REGIONS]);
}

static void combine(struct nixl_team *team, uint32_t *src, uint32_t *dst, uint32_t turn)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    uint32_t n = (uint32_t)nixl_size(), want = n * turn + n * (n - 1) / 2;
    int root = (int)(turn % n);
    bool has_root = turn % 2 == 0;

    for (size_t k = 0; k < N_ELEMENTS; k++) {
        src[k] = turn + (uint32_t)nixl_rank();
    }
    args.src = src;
    args.dst = dst;
    args.count = N_ELEMENTS;
    args.type = NIXL_TYPE_UINT32;
    MPT_OK(has_root ? nixl_reduce(team, root, &args, MPT_PATIENCE)
                    : nixl_allreduce(team, &args, MPT_PATIENCE));
    for (size_t k = 0; k < N_ELEMENTS && (!has_root || nixl_rank() == root); k++) {
        MPT_EQ(dst[k], want);
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
}

/* A member keeps four of each other: the fifth takes a place, but not that of its call's other. */
static void case_regions(struct nixl_team *team)
{
    struct nixl_region *regions[N_REGIONS];
    uint32_t turn = 1;
    char name[16];

    for (int i = 0; i < N_REGIONS; i++) {
        snprintf(name, sizeof(name), "many.%d", i);
        MPT_OK(nixl_region_alloc(name, N_ELEMENTS * sizeof(uint32_t), NULL, &regions[i]));
    }
    for (int first = 0; first < 2 * N_REGIONS; first++) {
        uint32_t *src = elements_of(regions, first), *dst = elements_of(regions, first + 4);

        for (int i = first; i < first + 4; i++) {
            combine(team, elements_of(regions, i), elements_of(regions, i), turn++);
        }
        combine(team, src, dst, turn++);
        combine(team, dst, src, turn++);
    }
    for (int i = 0; i < N_REGIONS; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
}

/* ---- arrays ---------------------------------------------------------------------------------- */

#define MAX_MEMBERS 8

static void finish(int status, struct nixl_req **req_p)
{
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    MPT_OK(nixl_req_wait(req_p, MPT_PATIENCE));
}

static void case_arrays(struct nixl_team *team)
{
    const size_t *nowhere = (const size_t *)(uintptr_t)8;
    size_t sizes[MAX_MEMBERS], offsets[MAX_MEMBERS];
    uint64_t me = (uint64_t)nixl_rank(), mine = 100 + me, got = 0, all[MAX_MEMBERS];
    struct nixl_vector_args args = NIXL_VECTOR_ARGS_INIT;
    struct nixl_req *req;

    for (size_t i = 0; i < MAX_MEMBERS; i++) {
        sizes[i] = sizeof(uint64_t);
        offsets[i] = i * sizeof(uint64_t);
        all[i] = 0;
    }
    args.src = &mine;
    args.dst = all;
    args.nbytes = sizeof(uint64_t);
    args.src_nbytes = args.src_offsets = nowhere;
    args.dst_nbytes = me == 0 ? sizes : nowhere;
    args.dst_offsets = me == 0 ? offsets : nowhere;
    finish(nixl_gatherv_x(team, 0, &args, NULL, &req), &req);
    args.dst_nbytes = sizes;
    args.dst_offsets = offsets;
    finish(nixl_allgatherv_x(team, &args, NULL, &req), &req);
    for (int i = 0; i < nixl_size(); i++) {
        MPT_EQ(all[i], 100u + (uint64_t)i);
    }
    args.dst_nbytes = args.dst_offsets = nowhere;
    args.src_nbytes = me == 0 ? sizes : nowhere;
    args.src_offsets = me == 0 ? offsets : nowhere;
    args.src = all;
    args.dst = &got;
    finish(nixl_scatterv_x(team, 0, &args, NULL, &req), &req);
    MPT_EQ(got, 100 + me);
}

/* ---- scan ------------------------------------------------------------------------------------ */

#define SCAN_NBYTES   ((size_t)17 << 16)
#define REDUCE_NBYTES ((size_t)5 << 19)
#define PAGE_NBYTES   4096

static char *volatile trap; /* the last page of the scan's result is not there yet */

/* The copy of the result stops here, longer than the others need to begin the next call. */
static void on_trap(int number, siginfo_t *info, void *context)
{
    const struct timespec pause = {.tv_nsec = 50 * MPT_MS};

    (void)context;
    if (trap == NULL || (char *)info->si_addr < trap ||
        (char *)info->si_addr >= trap + PAGE_NBYTES) {
        signal(number, SIG_DFL);
        return;
    }
    nanosleep(&pause, NULL);
    if (mprotect(trap, PAGE_NBYTES, PROT_READ | PROT_WRITE) != 0) {
        _exit(1);
    }
}

static void *map(size_t nbytes)
{
    void *addr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    MPT_TRUE(addr != MAP_FAILED);
    return addr;
}

static void case_scan(struct nixl_team *team)
{
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    struct nixl_reduce_args scan = NIXL_REDUCE_ARGS_INIT, reduce = NIXL_REDUCE_ARGS_INIT;
    uint64_t me = (uint64_t)nixl_rank(), *src = map(SCAN_NBYTES), *dst = map(SCAN_NBYTES);
    uint64_t *operands = map(REDUCE_NBYTES);
    struct nixl_op prepare = NIXL_OP_INIT;
    struct nixl_coll *coll;

    reduce.src = operands;
    reduce.dst = map(REDUCE_NBYTES);
    reduce.count = REDUCE_NBYTES / sizeof(uint64_t);
    scan.src = src;
    scan.dst = dst;
    scan.count = SCAN_NBYTES / sizeof(uint64_t);
    scan.type = reduce.type = NIXL_TYPE_UINT64;
    for (size_t k = 0; k < reduce.count; k++) {
        operands[k] = UINT64_MAX / 16;
    }
    prepare.flags = NIXL_OP_PREPARE;
    prepare.coll_p = &coll;
    prepare.timeout_ns = MPT_PATIENCE;
    MPT_OK(nixl_reduce_x(team, nixl_size() - 1, &reduce, &prepare, NULL));
    MPT_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    for (uint64_t turn = 0; turn < 4; turn++) {
        for (size_t k = 0; k < scan.count; k++) {
            src[k] = k + turn + me;
        }
        if (me == 1) {
            trap = (char *)dst + SCAN_NBYTES - PAGE_NBYTES;
            MPT_EQ(mprotect(trap, PAGE_NBYTES, PROT_NONE), 0);
        }
        MPT_OK(nixl_scan(team, &scan, MPT_PATIENCE));
        MPT_OK(nixl_coll_start(coll, MPT_PATIENCE));
        for (size_t k = 0; k < scan.count; k++) {
            MPT_EQ(dst[k], (me + 1) * (k + turn) + me * (me + 1) / 2);
        }
    }
    MPT_OK(nixl_coll_free(coll));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct nixl_team *team);
    } cases[] = {{"regions", case_regions}, {"arrays", case_arrays}, {"scan", case_scan}};
    struct nixl_team *team;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run(team);
            MPT_OK(nixl_team_free(team));
            MPT_OK(nixl_finalize());
            return mpt_passed();
        }
    }
    mpt_fail(__FILE__, __LINE__, "which case?");
}
