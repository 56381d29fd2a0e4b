/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what each way to copy gives on this processor, per size and alignment, beside what
 * nxr_copy() chooses: the measurement behind the table in src/util/copy.c. Not installed.
 *
 *     copy_sweep [SIZE...]         copy again and again (GB/s)
 *     copy_sweep --read [SIZE...]  another core reads the destination after each copy (GB/s of
 * both)
 *
 * Methods run in turn, in changing order, each after some copies that are not counted, so that none
 * inherits the caches of another; a figure is the median of the turns. The process runs on core 0,
 * the reader on core 1.
 */
#include "config.h"

#include "util/clock.h"
#include "util/copy.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define MAX_NBYTES (512ul << 20)
#define MARGIN     8192
#define MAX_TURNS  15
#define MIN_TURNS  7
#define STOP       UINT64_MAX

/* Shared with the reader: it reads `nbytes` when `turn` changes and then stores `done`. */
struct reader_page {
    _Alignas(128) _Atomic uint64_t turn;
    size_t nbytes, offset;
    _Alignas(128) _Atomic uint64_t done;
    volatile uint64_t sum;
};

static struct reader_page *page;
static unsigned char *target; /* shared memory */
static unsigned char *source;
static bool with_reader;

/* Offsets from a page boundary. */
static const struct alignment {
    size_t dst, src;
} alignments[] = {{0, 0},  {64, 0}, {0, 64}, {1, 0},    {8, 0}, {16, 0}, {32, 0},
                  {63, 0}, {0, 1},  {0, 16}, {4095, 0}, {8, 8}, {3, 7},  {2048, 0}};

static void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        perror("copy_sweep: sched_setaffinity");
    }
}

static void *map(size_t nbytes, int flags)
{
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("copy_sweep: mmap");
        exit(1);
    }
    return memory;
}

static void run_reader(void)
{
    uint64_t turn = 0;

    pin(1);
    for (;;) {
        const nxr_block16 *blocks;
        nxr_block16 sum = {0, 0};
        uint64_t next;

        do {
            next = atomic_load_explicit(&page->turn, memory_order_acquire);
        } while (next == turn);
        if (next == STOP) {
            _exit(0);
        }
        turn = next;
        blocks = (const void *)(target + page->offset);
        for (size_t i = 0; i < page->nbytes / sizeof(sum); i++) {
            sum ^= blocks[i];
        }
        page->sum = sum[0] ^ sum[1];
        atomic_store_explicit(&page->done, turn, memory_order_release);
    }
}

/* One copy, and the reader's pass over it. */
static void copy_once(int method, unsigned char *dst, const unsigned char *src, size_t nbytes)
{
    if (method == NXR_COPY_N_METHODS) {
        nxr_copy(dst, src, nbytes);
    } else {
        nxr_copy_by((enum nxr_copy_method)method, dst, src, nbytes);
    }
    __asm__ volatile("" : : : "memory");
    if (with_reader) {
        uint64_t turn = atomic_load_explicit(&page->turn, memory_order_relaxed) + 1;

        page->nbytes = nbytes;
        page->offset = (size_t)(dst - target);
        atomic_store_explicit(&page->turn, turn, memory_order_release);
        while (atomic_load_explicit(&page->done, memory_order_acquire) != turn) {
        }
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#define OURS    NXR_COPY_N_METHODS /* nxr_copy() itself */
#define N_LANES (NXR_COPY_N_METHODS + 1)

static bool is_usable(int method)
{
    return method == OURS || nxr_copy_is_usable((enum nxr_copy_method)method);
}

/* Nanoseconds of one copy, from a batch of them. */
static double time_batch(int method, unsigned char *dst, const unsigned char *src, size_t nbytes)
{
    long inner = (long)(200000 / ((double)nbytes / 20 + 10)) + 1;
    int64_t start;

    for (long i = 0; i < inner / 4 + 3; i++) {
        copy_once(method, dst, src, nbytes);
    }
    start = nxr_now_ns();
    for (long i = 0; i < inner; i++) {
        copy_once(method, dst, src, nbytes);
    }
    return (double)(nxr_now_ns() - start) / (double)inner;
}

static void shuffle(int *order)
{
    for (int i = N_LANES - 1; i > 0; i--) {
        int j = (int)(random() % (i + 1)), kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
}

static void print_row(size_t nbytes, const struct alignment *alignment, const double *gbps)
{
    const unsigned char *dst = target + alignment->dst, *src = source + alignment->src;
    double best = 0;

    printf("%-10zu %5zu %5zu", nbytes, alignment->dst, alignment->src);
    for (int method = 0; method < N_LANES; method++) {
        if (gbps[method] == 0) {
            printf("%13s", "-");
        } else {
            printf("%13.2f", gbps[method]);
        }
        best = method != OURS && gbps[method] > best ? gbps[method] : best;
    }
    printf("  %5.2f  %s\n", gbps[OURS] / best,
           nxr_copy_method_name(nxr_copy_choose(dst, src, nbytes)));
    fflush(stdout);
}

static void measure(size_t nbytes, const struct alignment *alignment)
{
    double ns[N_LANES][MAX_TURNS], gbps[N_LANES] = {0};
    int turns = nbytes > (32ul << 20) ? MIN_TURNS : MAX_TURNS;
    int order[N_LANES];

    for (int method = 0; method < N_LANES; method++) {
        order[method] = method;
    }
    for (int turn = 0; turn < turns; turn++) {
        shuffle(order);
        for (int i = 0; i < N_LANES; i++) {
            int method = order[i];

            if (is_usable(method)) {
                ns[method][turn] =
                    time_batch(method, target + alignment->dst, source + alignment->src, nbytes);
            }
        }
    }
    for (int method = 0; method < N_LANES; method++) {
        if (is_usable(method)) {
            qsort(ns[method], (size_t)turns, sizeof(double), compare);
            gbps[method] = (double)nbytes / ns[method][turns / 2];
        }
    }
    print_row(nbytes, alignment, gbps);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {512,     1024,    2048,     4096,     8192,
                                   12288,   16384,   32768,    65536,    262144,
                                   1048576, 4194304, 16777216, 67108864, 268435456};
    int first = 1;

    if (argc > 1 && strcmp(argv[1], "--read") == 0) {
        with_reader = true;
        first = 2;
    }
    page = map(sizeof(*page), MAP_SHARED);
    target = map(MAX_NBYTES + MARGIN, MAP_SHARED);
    memset(target, 1, MAX_NBYTES + MARGIN);
    if (with_reader && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_reader();
    }
    pin(0);
    source = map(MAX_NBYTES + MARGIN, MAP_PRIVATE);
    memset(source, 2, MAX_NBYTES + MARGIN);
    printf("%-10s %5s %5s", "bytes", "dst+", "src+");
    for (int method = 0; method < NXR_COPY_N_METHODS; method++) {
        printf("%13s", nxr_copy_method_name((enum nxr_copy_method)method));
    }
    printf("%13s  ratio  chosen\n", "nxr_copy");
    for (int i = 0; first < argc ? first + i < argc : i < (int)(sizeof(sizes) / sizeof(sizes[0]));
         i++) {
        size_t nbytes = first < argc ? strtoull(argv[first + i], NULL, 0) : sizes[i];

        if (nbytes == 0 || nbytes > MAX_NBYTES) {
            fprintf(stderr, "copy_sweep: size '%s'; allowed: 1 to %lu\n", argv[first + i],
                    MAX_NBYTES);
            return 2;
        }
        for (size_t j = 0; j < sizeof(alignments) / sizeof(alignments[0]); j++) {
            measure(nbytes, &alignments[j]);
        }
    }
    atomic_store_explicit(&page->turn, STOP, memory_order_release);
    while (wait(NULL) > 0) {
    }
    return 0;
}
