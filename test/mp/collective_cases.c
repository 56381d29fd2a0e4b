/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single cases of collectives, by name:
 *
 *   regions  a call whose buffers lie in more regions than a member keeps mapped of each other one
 *   arrays   pointers of nixl_vector_args that the call does not use may lead nowhere
 *   scan     what follows a scan does not write where a slow member still reads its result
 *   sizes    of data around each limit between paths, one after the other, in buffers that lie in
 *            regions and in none in turn
 *   names    buffers in regions with the longest names
 *   pending  puts of the program are under way, or have failed: collectives do not wait for them,
 *            and leave the failures to nixl_flush()
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

/* ---- sizes ----------------------------------------------------------------------------------- */

/* In words: what lies beside its phase, in a page, in a long cell, in none; and what is offered. */
static const size_t sizes[] = {1,    31,   32,   100,  504,  505,  512,  2047,
                               2048, 2049, 4096, 4097, 8192, 8193, 9000, 1};
#define N_SIZES   (sizeof(sizes) / sizeof(sizes[0]))
#define MAX_WORDS 9000

/* Word k of what member `from` has for member `to` in a call. */
static uint64_t word(uint64_t call, int from, int to, size_t k)
{
    return call * 1000003 + (uint64_t)from * 10007 + (uint64_t)to * 101 + k;
}

static void write_pieces(uint64_t *at, uint64_t call, int n_pieces, size_t n_words)
{
    for (int to = 0; to < n_pieces; to++) {
        for (size_t k = 0; k < n_words; k++) {
            at[(size_t)to * n_words + k] = word(call, nixl_rank(), to, k);
        }
    }
}

/* Piece i of dst is what member i had, for this member or for all. */
static void expect_pieces(const uint64_t *dst, uint64_t call, bool is_private, size_t n_words)
{
    for (int from = 0; from < nixl_size(); from++) {
        for (size_t k = 0; k < n_words; k++) {
            MPT_EQ(dst[(size_t)from * n_words + k],
                   word(call, from, is_private ? nixl_rank() : 0, k));
        }
    }
}

static void move_data(struct nixl_team *team, uint64_t *src, uint64_t *dst, uint64_t call,
                      size_t n_words)
{
    int n = nixl_size(), me = nixl_rank(), root = (int)(call % (uint64_t)n);
    size_t nbytes = n_words * sizeof(uint64_t);

    write_pieces(src, call, 1, n_words);
    MPT_OK(nixl_allgather(team, src, dst, nbytes, MPT_PATIENCE));
    expect_pieces(dst, call, false, n_words);
    MPT_OK(nixl_gather(team, root, src, dst, nbytes, MPT_PATIENCE));
    if (me == root) {
        expect_pieces(dst, call, false, n_words);
    }
    MPT_OK(nixl_broadcast(team, root, src, nbytes, MPT_PATIENCE));
    for (size_t k = 0; k < n_words; k++) {
        MPT_EQ(src[k], word(call, root, 0, k));
    }
    write_pieces(src, call, n, n_words);
    MPT_OK(nixl_alltoall(team, src, dst, nbytes, MPT_PATIENCE));
    expect_pieces(dst, call, true, n_words);
    MPT_OK(nixl_scatter(team, root, src, dst, nbytes, MPT_PATIENCE));
    for (size_t k = 0; k < n_words; k++) {
        MPT_EQ(dst[k], word(call, root, me, k));
    }
}

static void add_up(struct nixl_team *team, uint64_t *src, uint64_t *dst, uint64_t call,
                   size_t n_words)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    uint64_t n = (uint64_t)nixl_size(), step = 10007 * (n * (n - 1) / 2);
    int root = (int)(call % n);

    args.src = src;
    args.dst = dst;
    args.count = n_words;
    args.type = NIXL_TYPE_UINT64;
    write_pieces(src, call, 1, n_words);
    MPT_OK(nixl_allreduce(team, &args, MPT_PATIENCE));
    for (size_t k = 0; k < n_words; k++) {
        MPT_EQ(dst[k], n * word(call, 0, 0, k) + step);
        dst[k] = 0;
    }
    MPT_OK(nixl_reduce(team, root, &args, MPT_PATIENCE));
    for (size_t k = 0; k < n_words && nixl_rank() == root; k++) {
        MPT_EQ(dst[k], n * word(call, 0, 0, k) + step);
    }
}

/* Member 0 sends and waits for nobody; the others are late, and find what it has sent first. */
static void run_ahead(struct nixl_team *team, uint64_t *src, uint64_t *dst)
{
    const struct timespec late = {.tv_nsec = MPT_MS};
    int me = nixl_rank(), to = nixl_size() - 1;

    for (uint64_t call = 0; call < 64; call++) {
        size_t n_words = sizes[call % N_SIZES], nbytes = n_words * sizeof(uint64_t);

        if (me != 0 && call % 16 == 0) {
            nanosleep(&late, NULL);
        }
        write_pieces(src, call, 1, n_words);
        MPT_OK(nixl_broadcast(team, 0, src, nbytes, MPT_PATIENCE));
        for (size_t k = 0; k < n_words; k++) {
            MPT_EQ(src[k], word(call, 0, 0, k));
        }
        write_pieces(src, call, 1, n_words);
        MPT_OK(nixl_gather(team, to, src, dst, nbytes, MPT_PATIENCE));
        if (me == to) {
            expect_pieces(dst, call, false, n_words);
        }
    }
}

/* No barrier between: a member that is slow finds what others have written for later calls. */
static void case_sizes(struct nixl_team *team)
{
    size_t nbytes = (size_t)nixl_size() * MAX_WORDS * sizeof(uint64_t);
    struct nixl_region *region;
    uint64_t *any[] = {map(nbytes), map(nbytes)}, *in_region, call = 0;

    MPT_OK(nixl_region_alloc("sizes", 2 * nbytes, NULL, &region));
    in_region = nixl_region_addr(region);
    for (int round = 0; round < 12; round++) {
        for (size_t i = 0; i < N_SIZES; i++) {
            bool is_any = round % 3 != 1;

            move_data(team, is_any ? any[0] : in_region,
                      is_any ? any[1] : in_region + nbytes / sizeof(uint64_t), call++, sizes[i]);
            add_up(team, is_any ? any[0] : in_region,
                   is_any ? any[1] : in_region + nbytes / sizeof(uint64_t), call++, sizes[i]);
        }
    }
    run_ahead(team, any[0], any[1]);
    run_ahead(team, in_region, in_region + nbytes / sizeof(uint64_t));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- names ----------------------------------------------------------------------------------- */

static void case_names(struct nixl_team *team)
{
    size_t nbytes = (size_t)nixl_size() * MAX_WORDS * sizeof(uint64_t);
    struct nixl_region *regions[2];
    char name[NIXL_NAME_MAX + 1];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    for (int i = 0; i < 2; i++) {
        name[sizeof(name) - 2] = (char)('0' + i);
        MPT_OK(nixl_region_alloc(name, nbytes, NULL, &regions[i]));
    }
    for (uint64_t call = 0; call < 24; call++) {
        uint64_t *src = nixl_region_addr(regions[call % 2]);
        uint64_t *dst = nixl_region_addr(regions[(call + 1) % 2]);

        move_data(team, src, dst, call, MAX_WORDS);
        add_up(team, src, dst, call, MAX_WORDS);
        MPT_OK(nixl_barrier(team, MPT_PATIENCE)); /* the next one writes src, which others read */
    }
    for (int i = 0; i < 2; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
}

/* ---- pending --------------------------------------------------------------------------------- */

#define MOST_RANKS    8
#define SMALL_NBYTES  4096
#define PIECE_NBYTES  (300u << 10) /* of each member: pieces that go apart from their words */
#define N_PIECE_WORDS (PIECE_NBYTES / sizeof(uint64_t))

static uint64_t put_word = 7;

/* Rank 0 starts a put to each other rank, which has not made the region yet. */
static void start_puts(struct nixl_region *region, uint64_t offset, struct nixl_req **reqs)
{
    for (int i = 1; i < nixl_size(); i++) {
        MPT_STATUS(nixl_put_x(i, region, offset, &put_word, sizeof(put_word), NULL, &reqs[i]),
                   NIXL_INPROGRESS);
    }
}

static void end_puts(struct nixl_req **reqs)
{
    for (int i = 1; i < nixl_size(); i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
    }
}

/* Puts to "small" that fail as soon as it is there: it has fewer bytes. No request reports them. */
static void fail_puts(struct nixl_team *team, struct nixl_region **region_p)
{
    struct nixl_req *reqs[MOST_RANKS] = {NULL};

    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_open("small", region_p));
        start_puts(*region_p, SMALL_NBYTES, reqs);
        for (int i = 1; i < nixl_size(); i++) {
            MPT_OK(nixl_req_detach(&reqs[i]));
        }
        start_puts(*region_p, 0, reqs);
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    if (nixl_rank() == 0) {
        end_puts(reqs);
    } else {
        MPT_OK(nixl_region_alloc("small", SMALL_NBYTES, NULL, region_p));
    }
}

static void call_all(struct nixl_team *team)
{
    static uint64_t src[N_PIECE_WORDS], dst[MOST_RANKS * N_PIECE_WORDS];
    struct nixl_team *part;

    for (size_t n = 1; n <= N_PIECE_WORDS; n *= 12) {
        src[0] = src[n - 1] = (uint64_t)nixl_rank() + n;
        MPT_OK(nixl_barrier(team, MPT_PATIENCE));
        MPT_OK(nixl_allgather(team, src, dst, n * sizeof(*src), MPT_PATIENCE));
        for (int i = 0; i < nixl_size(); i++) {
            MPT_EQ(dst[(size_t)i * n], (uint64_t)i + n);
            MPT_EQ(dst[(size_t)(i + 1) * n - 1], (uint64_t)i + n);
        }
    }
    MPT_OK(nixl_team_split(team, 0, -nixl_rank(), MPT_PATIENCE, &part));
    MPT_OK(nixl_barrier(part, MPT_PATIENCE));
    MPT_OK(nixl_team_free(part));
}

static void case_pending(struct nixl_team *team)
{
    struct nixl_req *reqs[MOST_RANKS] = {NULL};
    struct nixl_region *small, *later;

    MPT_TRUE(nixl_size() <= MOST_RANKS);
    fail_puts(team, &small);
    if (nixl_rank() == 0) {
        MPT_OK(nixl_region_open("later", &later));
        start_puts(later, 0, reqs);
    }
    call_all(team);
    if (nixl_rank() == 0) {
        end_puts(reqs);
        for (int i = 1; i < nixl_size(); i++) {
            MPT_STATUS(nixl_flush(i, MPT_PATIENCE), NIXL_E_RANGE);
        }
    } else {
        MPT_OK(nixl_region_alloc("later", SMALL_NBYTES, NULL, &later));
    }
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_region_close(later, MPT_PATIENCE));
    MPT_OK(nixl_region_close(small, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct nixl_team *team);
    } cases[] = {{"regions", case_regions}, {"arrays", case_arrays}, {"scan", case_scan},
                 {"sizes", case_sizes},     {"names", case_names},   {"pending", case_pending}};
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
