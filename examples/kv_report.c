/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the example kv_transfer, and its progress line. Nothing here calls the library. */
#include "kv_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The smallest value that is not below `percent` of the n values. */
static double percentile_ms(const int64_t *sorted, uint64_t n, unsigned percent)
{
    uint64_t rank = (n * percent + 99) / 100;

    return (double)sorted[rank - 1] / 1e6;
}

void kv_report_head(const struct kv_options *options, uint32_t request_blocks)
{
    const struct kv_shape *shape = &options->shape;

    printf("%s: %u layers of %u x %u x %u values in %s, %u tokens a block\n", shape->model,
           shape->layers, shape->tensors, shape->kv_heads, shape->head_dim, shape->dtype,
           shape->block_tokens);
    printf("%u tokens a request: %u blocks of %u pieces of %zu bytes, %.1f MiB in all\n\n",
           options->prompt_tokens, request_blocks, shape->layers, kv_piece_nbytes(shape),
           request_blocks * (double)kv_block_nbytes(shape) / MIB);
    printf("%4s  %-8s%9s%10s%8s%9s%9s%10s%7s\n", "rank", "role", "requests", "MiB", "GB/s",
           "p50 ms", "p99 ms", "verified", "wrong");
}

void kv_report_row(const char *who, const char *role, const struct kv_tally *tally,
                   int64_t *latencies_ns)
{
    printf("%4s  %-8s", who, role);
    if (tally->requests > 0) {
        qsort(latencies_ns, tally->requests, sizeof(*latencies_ns), compare_ns);
        printf("%9" PRIu64 "%10.1f%8.2f%9.2f%9.2f", tally->requests, (double)tally->nbytes / MIB,
               (double)tally->nbytes / (double)tally->busy_ns,
               percentile_ms(latencies_ns, tally->requests, 50),
               percentile_ms(latencies_ns, tally->requests, 99));
    } else {
        printf("%9s%10s%8s%9s%9s", "-", "-", "-", "-", "-");
    }
    if (tally->blocks > 0) {
        printf("%10" PRIu64 "%7" PRIu64 "\n", tally->blocks, tally->wrong);
    } else {
        printf("%10s%7s\n", "-", "-");
    }
}

void kv_report_foot(const struct kv_tally *all, int64_t wall_ns)
{
    printf(
        "\nGB/s and ms: from the first put of a request until all of it is visible to its decode "
        "rank.\nWith filling and verifying every byte: %.2f s, %.2f GB/s.\n",
        (double)wall_ns / 1e9, (double)all->nbytes / (double)wall_ns);
}

/* Ranks write to pipes of nixlrun; a variable from nixlrun says where its own output goes. */
static bool is_on_terminal(void)
{
    const char *told = getenv("NIXLRUN_TERMINAL");

    return told != NULL ? strcmp(told, "1") == 0 : isatty(STDERR_FILENO);
}

void kv_report_progress(uint32_t done, uint32_t n)
{
    if (is_on_terminal()) {
        fprintf(stderr, "\rrank 0: %u of %u requests sent%s", done, n, done < n ? "" : "\r\033[K");
    }
}
