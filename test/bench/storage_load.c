/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is read and written with some requests under way, each of which starts the next one
 * when it ends. State: the path of a file that is to be removed.
 */
#include "config.h"

#include "bench.h"
#include "storage_load.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define GIB         1073741824.0
#define HUGE_NBYTES ((size_t)2 << 20)

double storage_cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint64_t next_offset(struct storage_load *load)
{
    uint64_t n_blocks = STORAGE_FILE_NBYTES / load->nbytes;

    if (!load->is_random) {
        return load->at++ % n_blocks * load->nbytes;
    }
    load->at = load->at * 6364136223846793005u + 1442695040888963407u;
    return (load->at >> 33) % n_blocks * load->nbytes;
}

/* Start the next request of that number. True: it has ended within the call. */
static bool begin(struct storage_load *load, uint64_t number)
{
    const uint64_t nbytes = load->nbytes, offset = next_offset(load);
    unsigned char *memory = load->memory + number * nbytes;
    struct nixl_op op = NIXL_OP_INIT;
    int rank = load->rank, status;

    if (load->is_rewritten && load->is_put) {
        memset(memory, (int)load->at, nbytes);
    }
    op.cq = load->cq;
    op.user_data = number;
    status = load->is_put ? nixl_put_x(rank, load->region, offset, memory, nbytes, &op, NULL)
                          : nixl_get_x(rank, load->region, offset, memory, nbytes, &op, NULL);
    bench_check(status == NIXL_INPROGRESS ? NIXL_OK : status,
                load->is_put ? "nixl_put_x" : "nixl_get_x");
    return status == NIXL_OK;
}

/* Requests of that number, until one is under way or the time is over; how many have ended. */
static uint64_t go_on(struct storage_load *load, uint64_t number, int64_t end, int *n_flying_p)
{
    uint64_t n_ended = 0;

    while (nxr_now_ns() < end) {
        if (!begin(load, number)) {
            (*n_flying_p)++;
            break;
        }
        n_ended++;
    }
    return n_ended;
}

struct storage_turn storage_load_turn(struct storage_load *load)
{
    struct nixl_cq_entry entries[STORAGE_MAX_DEPTH];
    int64_t start = nxr_now_ns(), end = start + load->turn_ns;
    double cpu = storage_cpu_seconds(), ns;
    uint64_t n_done = 0;
    int n_flying = 0;

    for (uint64_t i = 0; i < (uint64_t)load->depth; i++) {
        n_done += go_on(load, i, end, &n_flying);
    }
    while (n_flying > 0) {
        size_t n = 0;

        bench_check(nixl_cq_wait(load->cq, entries, STORAGE_MAX_DEPTH, BENCH_TIMEOUT_NS, &n),
                    "nixl_cq_wait");
        n_flying -= (int)n;
        n_done += n;
        for (size_t i = 0; i < n; i++) {
            bench_check(entries[i].status, load->is_put ? "a put" : "a get");
            n_done += go_on(load, entries[i].user_data, end, &n_flying);
        }
    }
    if (load->is_put) {
        bench_check(nixl_flush(load->rank, BENCH_TIMEOUT_NS), "nixl_flush");
    }
    ns = (double)(nxr_now_ns() - start);
    cpu = storage_cpu_seconds() - cpu;
    return (struct storage_turn){
        .n_ops = n_done,
        .op_ns = ns / (double)n_done,
        .cpu = cpu * GIB / ((double)n_done * (double)load->nbytes),
    };
}

/* ---- the file -------------------------------------------------------------------------------- */

/*
 * Memory of huge pages, where the kernel has some: it splits a request at the number of scattered
 * pages that the device takes, so that otherwise it depends on luck how many requests 1 MiB is.
 */
void storage_load_prepare(struct storage_load *load, int rank, struct nixl_region *region)
{
    const size_t nbytes = STORAGE_MAX_DEPTH * STORAGE_MAX_NBYTES;

    load->rank = rank;
    load->region = region;
    bench_check(nixl_cq_open(NULL, &load->cq), "nixl_cq_open");
    if (posix_memalign((void **)&load->memory, HUGE_NBYTES, nbytes) != 0) {
        bench_die("nixl_bench: no memory");
    }
    (void)madvise(load->memory, nbytes, MADV_HUGEPAGE);
    memset(load->memory, 0x5a, nbytes);
}

int storage_load_open(struct storage_load *load, const char *name, const char *path)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;
    int status;

    params.flags = NIXL_FILE_CREATE | NIXL_FILE_NEW | NIXL_FILE_DIRECT | NIXL_FILE_PREALLOCATE;
    params.nbytes = STORAGE_FILE_NBYTES;
    status = nixl_region_open_file(name, path, &params, &region);
    if (status != NIXL_OK) {
        return status;
    }
    storage_load_prepare(load, nixl_rank(), region);
    for (uint64_t at = 0; status == NIXL_OK && at < STORAGE_FILE_NBYTES; at += STORAGE_MAX_NBYTES) {
        status = nixl_put(load->rank, region, at, load->memory, STORAGE_MAX_NBYTES);
    }
    if (status != NIXL_OK) {
        storage_load_close(load);
        (void)unlink(path);
    }
    return status;
}

static char storage_path[400]; /* "": nothing */

static void remove_at_exit(void)
{
    if (storage_path[0] != '\0') {
        (void)unlink(storage_path);
        storage_path[0] = '\0';
    }
}

void storage_load_make(struct storage_load *load, const char *name)
{
    const char *dir = getenv("TMPDIR");

    snprintf(storage_path, sizeof(storage_path), "%s/nixl_bench.storage.%d",
             dir != NULL ? dir : "/var/tmp", (int)getpid());
    atexit(remove_at_exit);
    bench_check(storage_load_open(load, name, storage_path), "nixl_region_open_file");
}

const char *storage_load_path(void)
{
    return storage_path;
}

void storage_load_remove(void)
{
    remove_at_exit();
}

void storage_load_close(struct storage_load *load)
{
    bench_check(nixl_cq_close(load->cq), "nixl_cq_close");
    bench_check(nixl_region_close(load->region, BENCH_TIMEOUT_NS), "nixl_region_close");
    free(load->memory);
}
