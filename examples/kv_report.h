/* SPDX-License-Identifier: Apache-2.0 */
/* What the example kv_transfer prints: a table with a row per rank. */
#ifndef EXAMPLE_KV_REPORT_H
#define EXAMPLE_KV_REPORT_H

#include "kv_options.h"

/* What a rank has done. A prefill rank counts requests, bytes and time, a decode rank blocks. */
struct kv_tally {
    uint64_t requests, nbytes;
    uint64_t blocks, wrong; /* verified, and how many of these had a wrong byte */
    int64_t busy_ns;        /* from a request's first put until all of it was visible, summed */
};

/* The lines above the table. */
void kv_report_head(const struct kv_options *options, uint32_t request_blocks);

/* One row. Sorts `latencies_ns`, one entry per request; NULL if there are none. */
void kv_report_row(const char *who, const char *role, const struct kv_tally *tally,
                   int64_t *latencies_ns);

/* The lines under the table. */
void kv_report_foot(const struct kv_tally *all, int64_t wall_ns);

/* On a terminal: a line that is overwritten each time: `done` of `n` requests. */
void kv_report_progress(uint32_t done, uint32_t n);

#endif
