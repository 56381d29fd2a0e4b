/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing a file of the rank's own, past the page cache, with some requests under way,
 * beside fio, where that is installed, with the same settings: the same file, block size, order,
 * depth, direct I/O, io_uring, and memory of huge pages. The two run in turns, so that both see the
 * same disk. The processor time of each is told per GiB, that of fio without its start.
 */
#include "config.h"

#include "bench.h"
#include "storage_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAST_NS 300000000ll  /* of a turn */
#define MOST_NS  5000000000ll /* ... both times */
#define GOAL     (1 / 0.95)   /* of fio's rate */
#define GIB      1073741824.0

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

struct storage {
    struct bench *bench;
    const struct storage_case *how;
    struct storage_load load;
};

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

/* Memory as storage_load_prepare() makes it. False: there is no fio, or it cannot do this. */
static bool turn_of_fio(struct storage *storage, struct storage_turn *turn_p)
{
    const struct storage_case *how = storage->how;
    char command[1024], line[4096] = "";
    double kib, runtime_ms, percent;
    FILE *pipe;

    snprintf(
        command, sizeof(command),
        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 exec fio --minimal --terse-version=3 --name=fio "
        "--filename='%s' --size=%llu --rw=%s --bs=%llu --iodepth=%d --ioengine=io_uring "
        "--iomem_align=2m --direct=1 --thread --time_based --runtime=%lldms --norandommap "
        "--randrepeat=0 --fallocate=none 2>/dev/null",
        storage_load_path(), (unsigned long long)STORAGE_FILE_NBYTES, how->fio,
        (unsigned long long)how->nbytes, storage->load.depth,
        (long long)storage->load.turn_ns / 1000000);
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
    const int n_turns = storage_n_turns(storage->bench);
    const struct storage_turn *own = &turns[n_turns / 2];
    const struct storage_turn *fio = n_fios > 0 ? &fios[n_fios / 2] : own;
    char what[64], note[160];

    qsort(turns, (size_t)n_turns, sizeof(*turns), compare_turns);
    qsort(fios, (size_t)n_fios, sizeof(*fios), compare_turns);
    snprintf(what, sizeof(what), "%s (%d under way)", how->name, storage->load.depth);
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
                                                   .p99 = turns[n_turns - 1].op_ns,
                                                   .bytes_per_op = (double)how->nbytes,
                                                   .limit_name = n_fios > 0 ? "fio" : NULL,
                                                   .limit = n_fios > 0 ? fio->op_ns : 0,
                                                   .goal = n_fios > 0 ? GOAL : 0,
                                                   .note = note});
}

static void run_case(struct storage *storage)
{
    struct storage_turn turns[STORAGE_N_TURNS], fios[STORAGE_N_TURNS];
    int n_fios = 0;

    for (int i = 0; i < storage_n_turns(storage->bench); i++) {
        turns[i] = storage_load_turn(&storage->load);
        n_fios += turn_of_fio(storage, &fios[n_fios]);
    }
    report_case(storage, turns, fios, n_fios);
}

/* ---- the test -------------------------------------------------------------------------------- */

int storage_n_turns(const struct bench *bench)
{
    return sample_turns(bench, STORAGE_N_TURNS);
}

int64_t storage_turn_ns(const struct bench *bench)
{
    int64_t ns = bench->options.budget_ns / (2 * STORAGE_N_TURNS);

    ns = ns < LEAST_NS ? LEAST_NS : ns;
    return ns > MOST_NS ? MOST_NS : ns;
}

bool storage_is_asked_for(const struct bench *bench, uint64_t nbytes)
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

    if (bench->size > 1) {
        storage_of_peer(bench);
        return;
    }
    storage.load.turn_ns = storage_turn_ns(bench);
    storage_load_make(&storage.load, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t j = 0; j < sizeof(depths) / sizeof(depths[0]); j++) {
            storage.how = &cases[i];
            storage.load.nbytes = storage.how->nbytes;
            storage.load.is_random = storage.how->is_random;
            storage.load.is_put = storage.how->is_put;
            storage.load.depth = depths[j];
            if (storage_is_asked_for(bench, storage.how->nbytes)) {
                run_case(&storage);
            }
        }
    }
    storage_load_close(&storage.load);
    storage_load_remove();
}
