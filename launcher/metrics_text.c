/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a job in the formats that Prometheus reads: OpenMetrics 1.0, whose names of
 * counters have no "_total" in their descriptions, and the older text format. No state.
 */
#include "config.h"

#include "launcher/stats.h"
#include "util/observe.h"

#include <inttypes.h>
#include <string.h>

struct metric {
    const char *name, *unit, *help;
    enum nxr_stats_counter counter;
};

static const struct metric counters[] = {
    {"nixlrun_operations", "", "Operations that succeeded.", NXR_STATS_OPS},
    {"nixlrun_moved_bytes", "bytes", "Bytes of these operations.", NXR_STATS_NBYTES},
    {"nixlrun_failed_operations", "", "Operations that failed after they had been started.",
     NXR_STATS_FAILED},
    {"nixlrun_requests", "", "Operations that were not done within their call.",
     NXR_STATS_REQUESTS},
    {"nixlrun_retries", "", "Times that an operation found no room and had to wait.",
     NXR_STATS_RETRIES},
    {"nixlrun_stages", "", "Pieces that went through a staging buffer.", NXR_STATS_STAGES},
};

static void metrics_describe(FILE *out, bool is_open, const struct metric *metric, const char *type)
{
    const char *end = !is_open && strcmp(type, "counter") == 0 ? "_total" : "";

    fprintf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", metric->name, end, metric->help, metric->name,
            end, type);
    if (is_open && metric->unit[0] != '\0') {
        fprintf(out, "# UNIT %s %s\n", metric->name, metric->unit);
    }
}

/* Within quotes: names of hosts and transports. */
static void metrics_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '\n') {
            fputs("\\n", out);
        } else if ((unsigned char)*value < 0x80) { /* what is no UTF-8 would spoil all */
            fprintf(out, "%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
        } else {
            fputc('?', out);
        }
    }
    fputc('"', out);
}

static void metrics_rank_labels(FILE *out, const struct stats_rank *rank)
{
    fprintf(out, "rank=\"%d\",incarnation=\"%u\",", rank->rank, rank->incarnation);
    metrics_label(out, "host", rank->host);
}

static void metrics_labels(FILE *out, const struct stats_rank *rank,
                           const struct nxr_stats_sum *sum)
{
    fputc('{', out);
    metrics_rank_labels(out, rank);
    if (sum->peer >= 0) {
        fprintf(out, ",peer=\"%d\"", sum->peer);
    } else {
        fputs(",peer=\"\"", out);
    }
    fprintf(out, ",operation=\"%s\",", nxr_stats_op_name(sum->op));
    metrics_label(out, "transport", sum->transport);
    fputc(',', out);
    metrics_label(out, "method", sum->method);
}

/* Ranks of another job of the library, which this job has spawned, would have the same labels. */
static bool metrics_is_shown(const struct stats_job *job, size_t i)
{
    return job->ranks[i].job == job->ranks[0].job;
}

static void metrics_counter(FILE *out, const struct stats_job *job, bool is_open,
                            const struct metric *metric)
{
    metrics_describe(out, is_open, metric, "counter");
    for (size_t i = 0; i < job->n; i++) {
        const struct nxr_stats_reading *reading = &job->ranks[i].reading;

        for (size_t j = 0; metrics_is_shown(job, i) && j < reading->n_sums; j++) {
            fprintf(out, "%s_total", metric->name);
            metrics_labels(out, &job->ranks[i], &reading->sums[j]);
            fprintf(out, "} %" PRIu64 "\n", reading->sums[j].n[metric->counter]);
        }
    }
}

/* ---- histograms ------------------------------------------------------------------------------ */

/* Buckets from 256 ns to 137 s, each twice as long as the one before. */
#define FIRST_SHOWN 7
#define LAST_SHOWN  36

struct times {
    const uint64_t *buckets;
    uint64_t sum_ns;
};

static void metrics_histogram_of(FILE *out, const char *name, const struct stats_rank *rank,
                                 const struct nxr_stats_sum *sum, const struct times *times)
{
    uint64_t n = 0, all = 0;

    for (int i = 0; i < NXR_STATS_N_BUCKETS; i++) {
        all += times->buckets[i];
    }
    if (all == 0) {
        return;
    }
    for (int i = 0; i <= LAST_SHOWN; i++) {
        n += times->buckets[i];
        if (i >= FIRST_SHOWN) {
            fprintf(out, "%s_bucket", name);
            metrics_labels(out, rank, sum);
            fprintf(out, ",le=\"%.12g\"} %" PRIu64 "\n", (double)(UINT64_C(1) << (i + 1)) / 1e9, n);
        }
    }
    fprintf(out, "%s_bucket", name);
    metrics_labels(out, rank, sum);
    fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n%s_sum", all, name);
    metrics_labels(out, rank, sum);
    fprintf(out, "} %.9f\n%s_count", (double)times->sum_ns / 1e9, name);
    metrics_labels(out, rank, sum);
    fprintf(out, "} %" PRIu64 "\n", all);
}

static void metrics_histogram(FILE *out, const struct stats_job *job, bool is_open, bool is_post)
{
    const struct metric metric = {
        is_post ? "nixlrun_post_seconds" : "nixlrun_complete_seconds", "seconds",
        is_post ? "Time until a transport has accepted an operation, of those timed."
                : "Time from the start of an operation to its end, of those timed; of waits, all.",
        NXR_STATS_OPS};

    metrics_describe(out, is_open, &metric, "histogram");
    for (size_t i = 0; i < job->n; i++) {
        const struct nxr_stats_reading *reading = &job->ranks[i].reading;

        for (size_t j = 0; metrics_is_shown(job, i) && j < reading->n_sums; j++) {
            const struct nxr_stats_sum *sum = &reading->sums[j];
            const struct times times = {is_post ? sum->post : sum->complete,
                                        is_post ? sum->post_ns : sum->complete_ns};

            metrics_histogram_of(out, metric.name, &job->ranks[i], sum, &times);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void metrics_ranks(FILE *out, const struct stats_job *job, bool is_open)
{
    static const struct metric size = {"nixlrun_job_ranks", "", "Ranks of the job.", 0};
    static const struct metric up = {"nixlrun_rank_joined", "",
                                     "1: between nixl_init and nixl_finalize, 0: it has left.", 0};

    metrics_describe(out, is_open, &size, "gauge");
    fprintf(out, "nixlrun_job_ranks %d\n", job->n > 0 ? job->ranks[0].size : 0);
    metrics_describe(out, is_open, &up, "gauge");
    for (size_t i = 0; i < job->n && metrics_is_shown(job, i); i++) {
        fputs("nixlrun_rank_joined{", out);
        metrics_rank_labels(out, &job->ranks[i]);
        fprintf(out, "} %d\n", job->ranks[i].life != NXR_OBSERVE_LEFT);
    }
}

void metrics_write(FILE *out, const struct stats_job *job, bool is_open)
{
    metrics_ranks(out, job, is_open);
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        metrics_counter(out, job, is_open, &counters[i]);
    }
    metrics_histogram(out, job, is_open, true);
    metrics_histogram(out, job, is_open, false);
    if (is_open) {
        fputs("# EOF\n", out);
    }
}
