/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an idle rank: private pages and its share of shared ones (the kernel's PSS), over what
 * the same process needs as a bare PMIx client: measured before nixl_init(), after it, and after
 * every rank has notified every other. PMIx fences keep the ranks in step, so that the library is
 * not used before it is measured.
 */
#include "config.h"

#include "bench.h"

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_GOAL  1.0 /* MiB, before anybody talks */
#define TALKED_GOAL 6.0 /* MiB, after all have notified all */
#define TAG_HELLO   1
#define TAG_RESULT  2

static double pss_mib(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[256];
    long kib = -1;

    while (file != NULL && kib < 0 && fgets(line, sizeof(line), file) != NULL) {
        sscanf(line, "Pss: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    if (kib < 0) {
        bench_die("nixl_bench: /proc/self/smaps_rollup has no Pss line");
    }
    return (double)kib / 1024;
}

static void check_pmix(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS) {
        bench_die("nixl_bench: %s: %s", what, PMIx_Error_string(status));
    }
}

/* All are here; nobody measures while another is still changing the shared pages. */
static double measure_together(void)
{
    double mib;

    check_pmix(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    mib = pss_mib();
    check_pmix(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    return mib;
}

/* The first contact of all with all. */
void bench_notify_all(const struct bench *bench)
{
    struct nixl_note note;

    nixl_note_init(&note);
    for (int i = 1; i < bench->size; i++) {
        bench_check(
            nixl_notify((bench->rank + i) % bench->size, TAG_HELLO, NULL, 0, BENCH_TIMEOUT_NS),
            "nixl_notify");
    }
    for (int i = 1; i < bench->size; i++) {
        bench_check(nixl_notify_recv(NIXL_ANY_RANK, TAG_HELLO, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
                    "nixl_notify_recv");
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct result {
    double bare, quiet, talked; /* MiB */
};

/* A row with the median over the ranks and the worst one. */
static void report(struct bench *bench, const char *what, double *mib, double bare, double goal)
{
    char note[96];

    qsort(mib, (size_t)bench->size, sizeof(*mib), compare);
    snprintf(note, sizeof(note), "worst rank %.2f MiB; a bare PMIx client has %.2f",
             mib[bench->size - 1], bare);
    report_row(bench, &(struct bench_row){.test = "memory",
                                          .what = what,
                                          .unit = "MiB",
                                          .value = mib[bench->size / 2],
                                          .goal = goal,
                                          .note = note});
}

static void collect(struct bench *bench, const struct result *own)
{
    double quiet[BENCH_MAX_RANKS] = {0}, talked[BENCH_MAX_RANKS] = {0}, bare[BENCH_MAX_RANKS] = {0};
    struct nixl_note note;
    struct result result = *own;

    nixl_note_init(&note);
    for (int i = 0; i < bench->size; i++) {
        if (i > 0) {
            bench_check(
                nixl_notify_recv(NIXL_ANY_RANK, TAG_RESULT, UINT64_MAX, BENCH_TIMEOUT_NS, &note),
                "nixl_notify_recv");
            memcpy(&result, note.payload, sizeof(result));
        }
        bare[i] = result.bare;
        quiet[i] = result.quiet - result.bare;
        talked[i] = result.talked - result.bare;
    }
    qsort(bare, (size_t)bench->size, sizeof(*bare), compare);
    report_begin(bench);
    report(bench, "over a bare client after nixl_init", quiet, bare[bench->size / 2], QUIET_GOAL);
    report(bench, "over a bare client after all talked", talked, bare[bench->size / 2],
           TALKED_GOAL);
    report_end(bench);
}

void test_memory(struct bench *bench)
{
    struct result result;
    pmix_proc_t me;

    check_pmix(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    result.bare = measure_together();
    bench_check(nixl_init(NULL), "nixl_init");
    bench->rank = nixl_rank();
    bench->size = nixl_size();
    result.quiet = measure_together();
    bench_notify_all(bench);
    result.talked = measure_together();
    if (bench->rank == 0) {
        collect(bench, &result);
    } else {
        bench_check(nixl_notify(0, TAG_RESULT, &result, sizeof(result), BENCH_TIMEOUT_NS),
                    "nixl_notify");
    }
    bench_check(nixl_finalize(), "nixl_finalize");
    check_pmix(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
}
