/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing a file of the rank's own, past the page cache, with some requests under way,
 * beside fio, where that is installed, with the same settings: the same file, block size, order,
 * depth, direct I/O and io_uring. The two run in turns, so that both see the same disk. The
 * processor time of each is told per GiB, that of fio without its start.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILE_NBYTES ((uint64_t)256 << 20)
#define MAX_DEPTH   64
#define N_TURNS     3
#define LEAST_NS    300000000ll  /* of a turn */
#define MOST_NS     5000000000ll /* ... both times */
#define GOAL        (1 / 0.95)   /* of fio's rate */
#define GIB         1073741824.0

struct storage_case {
    const char *name;
    const char *fio; /* its --rw */
    uint64_t nbytes;
    bool is_random, is_put;
};

static const struct storage_case cases[] = {
    {"read in order", "read", 1 << 20, false, false},
    {"write in order", "write", 1 << 20, false, true},
    {"read at random", "randread", 65536, true, false},
    {"write at random", "randwrite", 65536, true, true},
    {"read at random", "randread", 4096, true, false},
    {"write at random", "randwrite", 4096, true, true},
};
static const int depths[] = {1, 8, 64};

/* One measurement. */
struct storage_turn {
    double op_ns; /* from the start of one to the start of the next */
    double cpu;   /* seconds of all processors, for a GiB */
};

struct storage {
    struct bench *bench;
    const struct storage_case *how;
    int depth;
    int64_t turn_ns;
    char path[400];
    struct nixl_region *region;
    struct nixl_cq *cq;
    unsigned char *memory; /* MAX_DEPTH blocks of the largest size */
    uint64_t at;           /* the next block, or the state of a generator */
};

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- nixlrun --------------------------------------------------------------------------------- */

static uint64_t next_offset(struct storage *storage)
{
    uint64_t n_blocks = FILE_NBYTES / storage->how->nbytes;

    if (!storage->how->is_random) {
        return storage->at++ % n_blocks * storage->how->nbytes;
    }
    storage->at = storage->at * 6364136223846793005u + 1442695040888963407u;
    return (storage->at >> 33) % n_blocks * storage->how->nbytes;
}

/* Start the next request of that number. True: it has ended within the call. */
static bool begin(struct storage *storage, uint64_t number)
{
    const uint64_t nbytes = storage->how->nbytes, offset = next_offset(storage);
    unsigned char *memory = storage->memory + number * nbytes;
    struct nixl_op op = NIXL_OP_INIT;
    int rank = storage->bench->rank, status;

    op.cq = storage->cq;
    op.user_data = number;
    status = storage->how->is_put
                 ? nixl_put_x(rank, storage->region, offset, memory, nbytes, &op, NULL)
                 : nixl_get_x(rank, storage->region, offset, memory, nbytes, &op, NULL);
    bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status,
                storage->how->is_put ? "nixl_put_x" : "nixl_get_x");
    return status == NIXL_OK;
}

/* Requests of that number, until one is under way or the time is over; how many have ended. */
static uint64_t go_on(struct storage *storage, uint64_t number, int64_t end, int *n_flying_p)
{
    uint64_t n_ended = 0;

    while (nxr_now_ns() < end) {
        if (!begin(storage, number)) {
            (*n_flying_p)++;
            break;
        }
        n_ended++;
    }
    return n_ended;
}

static struct storage_turn turn_of_nixlrun(struct storage *storage)
{
    struct nixl_cq_entry entries[MAX_DEPTH];
    int64_t start = nxr_now_ns(), end = start + storage->turn_ns;
    double cpu = cpu_seconds(), ns;
    uint64_t n_done = 0;
    int n_flying = 0;

    for (uint64_t i = 0; i < (uint64_t)storage->depth; i++) {
        n_done += go_on(storage, i, end, &n_flying);
    }
    while (n_flying > 0) {
        size_t n = 0;

        bench_check(nixl_cq_wait(storage->cq, entries, MAX_DEPTH, BENCH_TIMEOUT_NS, &n),
                    "nixl_cq_wait");
        n_flying -= (int)n;
        n_done += n;
        for (size_t i = 0; i < n; i++) {
            bench_check(entries[i].status, storage->how->is_put ? "a put" : "a get");
            n_done += go_on(storage, entries[i].user_data, end, &n_flying);
        }
    }
    ns = (double)(nxr_now_ns() - start);
    cpu = cpu_seconds() - cpu;
    return (struct storage_turn){
        .op_ns = ns / (double)n_done,
        .cpu = cpu * GIB / ((double)n_done * (double)storage->how->nbytes),
    };
}

/* ---- fio ------------------------------------------------------------------------------------- */

/* Fields of a line of fio's terse output, version 3, counted from 1. */
enum { FIO_READ = 6, FIO_WRITE = 47, FIO_USER = 88, FIO_SYSTEM = 89 };

/* The number in field `index` of a line whose fields end with ';'. */
static double fio_field(const char *line, int index)
{
    for (int i = 1; line != NULL && i < index; i++) {
        line = strchr(line, ';');
        line = line != NULL ? line + 1 : NULL;
    }
    return line != NULL ? strtod(line, NULL) : 0;
}

/* False: there is no fio, or it cannot do this. */
static bool turn_of_fio(struct storage *storage, struct storage_turn *turn_p)
{
    const struct storage_case *how = storage->how;
    char command[1024], line[4096] = "";
    double kib, runtime_ms, percent;
    FILE *pipe;

    snprintf(command, sizeof(command),
             "exec fio --minimal --terse-version=3 --name=fio --filename='%s' --size=%llu --rw=%s "
             "--bs=%llu --iodepth=%d --ioengine=io_uring --direct=1 --thread --time_based "
             "--runtime=%lldms --norandommap --randrepeat=0 --fallocate=none 2>/dev/null",
             storage->path, (unsigned long long)FILE_NBYTES, how->fio,
             (unsigned long long)how->nbytes, storage->depth,
             (long long)storage->turn_ns / 1000000);
    pipe = popen(command, "r");
    if (pipe == NULL) {
        return false;
    }
    while (strncmp(line, "3;", 2) != 0 && fgets(line, sizeof(line), pipe) != NULL) {
    }
    if (pclose(pipe) != 0 || strncmp(line, "3;", 2) != 0) {
        return false;
    }
    kib = fio_field(line, how->is_put ? FIO_WRITE : FIO_READ);
    runtime_ms = fio_field(line, (how->is_put ? FIO_WRITE : FIO_READ) + 3);
    percent = fio_field(line, FIO_USER) + fio_field(line, FIO_SYSTEM);
    if (kib <= 0 || runtime_ms <= 0) {
        return false;
    }
    *turn_p = (struct storage_turn){
        .op_ns = runtime_ms * 1e6 * (double)how->nbytes / (kib * 1024),
        .cpu = percent / 100 * runtime_ms / 1e3 * GIB / (kib * 1024),
    };
    return true;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int compare_turns(const void *a, const void *b)
{
    double x = ((const struct storage_turn *)a)->op_ns, y = ((const struct storage_turn *)b)->op_ns;

    return (x > y) - (x < y);
}

static void report_case(struct storage *storage, struct storage_turn *turns,
                        struct storage_turn *fios, int n_fios)
{
    const struct storage_case *how = storage->how;
    const struct storage_turn *own = &turns[N_TURNS / 2];
    const struct storage_turn *fio = n_fios > 0 ? &fios[n_fios / 2] : own;
    char what[64], note[160];

    qsort(turns, N_TURNS, sizeof(*turns), compare_turns);
    qsort(fios, (size_t)n_fios, sizeof(*fios), compare_turns);
    snprintf(what, sizeof(what), "%s (%d under way)", how->name, storage->depth);
    snprintf(note, sizeof(note), "%.3f s of processors per GiB", own->cpu);
    if (n_fios > 0) {
        snprintf(note, sizeof(note), "%.3f s of processors per GiB; fio %.3f", own->cpu, fio->cpu);
    }
    report_row(storage->bench, &(struct bench_row){.test = "storage",
                                                   .what = what,
                                                   .nbytes = how->nbytes,
                                                   .has_nbytes = true,
                                                   .unit = "ns",
                                                   .value = own->op_ns,
                                                   .min = turns[0].op_ns,
                                                   .p99 = turns[N_TURNS - 1].op_ns,
                                                   .bytes_per_op = (double)how->nbytes,
                                                   .limit_name = n_fios > 0 ? "fio" : NULL,
                                                   .limit = n_fios > 0 ? fio->op_ns : 0,
                                                   .goal = n_fios > 0 ? GOAL : 0,
                                                   .note = note});
}

static void run_case(struct storage *storage)
{
    struct storage_turn turns[N_TURNS], fios[N_TURNS];
    int n_fios = 0;

    for (int i = 0; i < N_TURNS; i++) {
        turns[i] = turn_of_nixlrun(storage);
        n_fios += turn_of_fio(storage, &fios[n_fios]);
    }
    report_case(storage, turns, fios, n_fios);
}

/* ---- the file -------------------------------------------------------------------------------- */

static char storage_path[400]; /* to be removed; "": nothing */

static void remove_file(void)
{
    if (storage_path[0] != '\0') {
        (void)unlink(storage_path);
        storage_path[0] = '\0';
    }
}

/* A file whose blocks are all written, as reads of holes take no disk. */
static void storage_open(struct storage *storage)
{
    const char *dir = getenv("TMPDIR");
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    const uint64_t nbytes = 1 << 20;

    snprintf(storage_path, sizeof(storage_path), "%s/nixl_bench.storage.%d",
             dir != NULL ? dir : "/var/tmp", (int)getpid());
    snprintf(storage->path, sizeof(storage->path), "%s", storage_path);
    atexit(remove_file);
    params.flags = NIXL_FILE_CREATE | NIXL_FILE_NEW | NIXL_FILE_DIRECT | NIXL_FILE_PREALLOCATE;
    params.nbytes = FILE_NBYTES;
    bench_check(nixl_region_open_file(NULL, storage->path, &params, &storage->region),
                "nixl_region_open_file");
    bench_check(nixl_cq_open(NULL, &storage->cq), "nixl_cq_open");
    if (posix_memalign((void **)&storage->memory, 4096, MAX_DEPTH * nbytes) != 0) {
        bench_die("nixl_bench: no memory");
    }
    memset(storage->memory, 0x5a, MAX_DEPTH * nbytes);
    for (uint64_t at = 0; at < FILE_NBYTES; at += nbytes) {
        bench_check(nixl_put(storage->bench->rank, storage->region, at, storage->memory, nbytes),
                    "nixl_put");
    }
}

static void storage_close(struct storage *storage)
{
    bench_check(nixl_cq_close(storage->cq), "nixl_cq_close");
    bench_check(nixl_region_close(storage->region, BENCH_TIMEOUT_NS), "nixl_region_close");
    free(storage->memory);
    remove_file();
}

static bool is_asked_for(const struct bench *bench, uint64_t nbytes)
{
    bool is_found = bench->options.n_sizes == 0;

    for (int i = 0; i < bench->options.n_sizes; i++) {
        is_found |= bench->options.sizes[i] == nbytes;
    }
    return is_found;
}

void test_storage(struct bench *bench)
{
    struct storage storage = {.bench = bench};

    storage.turn_ns = bench->options.budget_ns / (2 * N_TURNS);
    storage.turn_ns = storage.turn_ns < LEAST_NS ? LEAST_NS : storage.turn_ns;
    storage.turn_ns = storage.turn_ns > MOST_NS ? MOST_NS : storage.turn_ns;
    storage_open(&storage);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t j = 0; j < sizeof(depths) / sizeof(depths[0]); j++) {
            storage.how = &cases[i];
            storage.depth = depths[j];
            if (is_asked_for(bench, storage.how->nbytes)) {
                run_case(&storage);
            }
        }
    }
    storage_close(&storage);
}
