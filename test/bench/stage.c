/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage: what the ranks share besides the thing that is measured. A page in rank 0's region,
 * mapped by all, carries barriers, flags and time stamps by plain atomics, so that the bench does
 * not lean on the calls that it measures; between hosts wire.c does what it can of that. The data
 * region is made anew for each test. No locks.
 */
#include "config.h"

#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE_NBYTES 4096
#define SPINS       2000
#define YIELDS      50000 /* some 10 ms and more */
#define NAP_NS      200000

void bench_die(const char *format, ...)
{
    char why[512];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    nixl_abort(1, why);
}

void bench_check(int status, const char *what)
{
    if (status != NIXL_OK) {
        const struct nixl_error *error = nixl_last_error();

        bench_die("nixl_bench: %s: %s%s%s", what, nixl_strerror(status), error->text[0] ? ": " : "",
                  error->text);
    }
}

void bench_pause(unsigned *n_spins)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    ++*n_spins;
    if (*n_spins > SPINS + YIELDS) {
        nanosleep(&nap, NULL);
    } else if (*n_spins > SPINS) {
        sched_yield();
    }
}

/*
 * All threads of this process: a launcher binds a rank before it has any, so the library's own have
 * the rank's core, too.
 */
static void bind_to(size_t cpu)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    cpu_set_t one;

    if (tasks == NULL) {
        bench_die("nixl_bench: /proc/self/task: %s", strerror(errno));
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    while ((task = readdir(tasks)) != NULL) {
        pid_t tid = (pid_t)strtol(task->d_name, NULL, 10);

        if (tid > 0) {
            (void)sched_setaffinity(tid, sizeof(one), &one); /* it may have ended */
        }
    }
    closedir(tasks);
}

/* One rank per allowed core, as far as they go; more ranks than cores stay unbound. */
static void pin(struct bench *bench)
{
    cpu_set_t allowed;
    int index = bench->rank;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    bench->is_oversubscribed = CPU_COUNT(&allowed) < bench->size;
    if (bench->options.is_unpinned || bench->is_oversubscribed) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET((size_t)cpu, &allowed) && index-- == 0) {
            bind_to((size_t)cpu);
            return;
        }
    }
}

static int first_of(const struct bench *bench)
{
    return bench->rank == 0 ? 0 : bench->peer;
}

static void open_page(struct bench *bench)
{
    const int first = first_of(bench);
    void *page;

    if (bench->rank == 0) {
        bench_check(
            nixl_region_alloc("bench.page", sizeof(struct bench_page), NULL, &bench->page_region),
            "the shared page");
    } else {
        bench_check(nixl_region_open("bench.page", &bench->page_region), "the shared page");
    }
    bench_check(nixl_region_map(first, bench->page_region, &page), "mapping the shared page");
    bench->page = page;
    bench->page->pids[bench->rank] = getpid();
}

void stage_open(struct bench *bench)
{
    pin(bench);
    if (bench->size > 1) {
        wire_open(bench);
    }
    if (bench->wire == NULL) {
        open_page(bench);
    }
    stage_barrier(bench);
}

void stage_close(struct bench *bench)
{
    stage_barrier(bench);
    if (bench->wire != NULL) {
        wire_close(bench);
        return;
    }
    bench_check(nixl_region_unmap(first_of(bench), bench->page_region, bench->page),
                "unmapping the shared page");
    bench_check(nixl_region_close(bench->page_region, BENCH_TIMEOUT_NS), "closing the shared page");
}

unsigned char *stage_map_private(uint64_t nbytes)
{
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        bench_die("nixl_bench: no memory for %llu bytes; give smaller --sizes",
                  (unsigned long long)nbytes);
    }
    memset(memory, 1, nbytes);
    return memory;
}

void stage_unmap_private(unsigned char *memory, uint64_t nbytes)
{
    munmap(memory, nbytes);
}

/* Every page of the peer's segment once, or the first copies would count page faults. */
static void map_theirs(struct bench *bench, uint64_t nbytes)
{
    void *theirs;

    bench_check(nixl_region_map(bench->peer, bench->region, &theirs), "mapping the peer's memory");
    for (uint64_t i = 0; i < nbytes; i += PAGE_NBYTES) {
        (void)*((volatile unsigned char *)theirs + i);
    }
    bench->theirs = theirs;
}

/* This rank's segment of the data region. */
static void open_part(struct bench *bench, uint64_t total)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    params.kind = bench->options.there;
    if (bench->is_registered) {
        bench->mine = stage_map_private(total);
        bench_check(nixl_region_register("bench.data", bench->mine, total, NULL, &bench->region),
                    "registering memory");
        if (bench->page != NULL) {
            bench->page->user_memory[bench->rank] = (uint64_t)(uintptr_t)bench->mine;
        }
    } else {
        bench_check(nixl_region_alloc("bench.data", total, &params, &bench->region),
                    "allocating memory");
        bench->mine = nixl_region_addr(bench->region);
        if (params.kind == NIXL_MEM_HOST) {
            memset(bench->mine, 1, total);
        }
    }
}

void stage_data_open(struct bench *bench, bool is_registered, uint64_t nbytes)
{
    uint64_t total = nbytes + BENCH_MARGIN;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    bool is_transport_shown = bench->wire != NULL || device_is_used(bench);

    bench->is_registered = is_registered;
    bench->theirs = NULL;
    bench->local_nbytes = total;
    if (bench->options.here == NIXL_MEM_HOST) {
        bench->local = stage_map_private(total);
    }
    if (device_is_used(bench)) {
        device_open(bench, total);
    }
    open_part(bench, total);
    stage_barrier(bench);
    bench_check(nixl_region_query(bench->peer, bench->region, BENCH_TIMEOUT_NS, &info),
                "requesting the peer's memory");
    snprintf(bench->method, sizeof(bench->method), "%s%s%s",
             is_transport_shown ? info.transport : "",
             is_transport_shown && info.method[0] != '\0' ? "/" : "", info.method);
    if (!is_registered && bench->wire == NULL && bench->options.there == NIXL_MEM_HOST) {
        map_theirs(bench, total);
    }
    stage_barrier(bench);
}

/* A row of plain puts ends before they are there; none may come after the owner's close (M27). */
void stage_data_close(struct bench *bench)
{
    bench_check(nixl_flush(NIXL_ALL_RANKS, BENCH_TIMEOUT_NS), "nixl_flush");
    stage_barrier(bench);
    if (bench->theirs != NULL) {
        bench_check(nixl_region_unmap(bench->peer, bench->region, bench->theirs),
                    "unmapping the peer's memory");
    }
    stage_barrier(bench);
    bench_check(nixl_region_close(bench->region, BENCH_TIMEOUT_NS), "closing the data region");
    if (bench->is_registered) {
        stage_unmap_private(bench->mine, bench->local_nbytes);
    }
    if (device_is_used(bench)) {
        device_close(bench, bench->local_nbytes);
    }
    if (bench->options.here == NIXL_MEM_HOST) {
        stage_unmap_private(bench->local, bench->local_nbytes);
    }
    stage_barrier(bench);
}

void stage_case(struct bench *bench, uint64_t nbytes, const struct bench_alignment *alignment)
{
    bench->nbytes = nbytes;
    bench->alignment = *alignment;
    bench->src = bench->local + alignment->src;
    bench->raw_dst = bench->theirs == NULL ? NULL : bench->theirs + alignment->dst;
}

void stage_barrier(struct bench *bench)
{
    struct bench_page *page = bench->page;
    unsigned n_spins = 0;
    uint32_t epoch;

    if (bench->wire != NULL) {
        wire_barrier(bench);
        return;
    }
    epoch = atomic_load_explicit(&page->epoch, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&page->arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t)bench->size) {
        atomic_store_explicit(&page->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&page->epoch, epoch + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&page->epoch, memory_order_acquire) == epoch) {
        bench_pause(&n_spins);
    }
}

void stage_tell(struct bench *bench, int n_ranks, uint64_t number)
{
    if (bench->wire != NULL) {
        wire_tell(bench, n_ranks);
    } else {
        atomic_store_explicit(&bench->page->told, number, memory_order_release);
    }
}

bool stage_is_told(struct bench *bench, uint64_t number)
{
    return bench->wire != NULL
               ? wire_is_told(bench)
               : atomic_load_explicit(&bench->page->told, memory_order_acquire) == number;
}

int64_t stage_decide(struct bench *bench, int64_t value)
{
    if (bench->wire != NULL) {
        return wire_decide(bench, value);
    }
    if (bench->rank == 0) {
        bench->page->decision = value;
    }
    stage_barrier(bench);
    value = bench->page->decision;
    stage_barrier(bench);
    return value;
}

/* Every rank's value, on rank 0, which the others have sent it or written into its page. */
static double share_of(struct bench *bench, int rank, double own)
{
    double share = own;

    if (bench->wire == NULL) {
        share = bench->page->shares[rank];
    } else if (rank != 0) {
        wire_receive(bench, rank, &share, sizeof(share), false);
    }
    return share;
}

void stage_spread(struct bench *bench, double value, double *least_p, double *most_p)
{
    *least_p = *most_p = value;
    if (bench->wire == NULL) {
        bench->page->shares[bench->rank] = value;
        stage_barrier(bench);
    } else if (bench->rank != 0) {
        wire_send(bench, 0, &value, sizeof(value));
    }
    for (int i = 0; i < bench->size && bench->rank == 0; i++) {
        double share = share_of(bench, i, value);

        *least_p = share < *least_p ? share : *least_p;
        *most_p = share > *most_p ? share : *most_p;
    }
    stage_barrier(bench);
}
