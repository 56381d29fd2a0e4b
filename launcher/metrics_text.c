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

/* Which counters a metric is of. */
enum metric_about { ABOUT_PEER, ABOUT_COLLECTIVE, ABOUT_CHANNEL, ABOUT_RAIL };

struct metric {
    const char *name, *unit, *help;
    enum nxr_stats_counter counter;
    enum metric_about about;
};

static const struct metric counters[] = {
    {"nixlrun_operations", "", "Operations that succeeded.", NXR_STATS_OPS, ABOUT_PEER},
    {"nixlrun_moved_bytes", "bytes", "Bytes of these operations.", NXR_STATS_NBYTES, ABOUT_PEER},
    {"nixlrun_failed_operations", "", "Operations that failed after they had been started.",
     NXR_STATS_FAILED, ABOUT_PEER},
    {"nixlrun_requests", "", "Operations that were not done within their call.", NXR_STATS_REQUESTS,
     ABOUT_PEER},
    {"nixlrun_retries", "", "Times that an operation found no room and had to wait.",
     NXR_STATS_RETRIES, ABOUT_PEER},
    {"nixlrun_stages", "", "Pieces that went through a staging buffer.", NXR_STATS_STAGES,
     ABOUT_PEER},
    {"nixlrun_collectives", "", "Calls of collectives that succeeded.", NXR_STATS_OPS,
     ABOUT_COLLECTIVE},
    {"nixlrun_collective_bytes", "bytes", "Bytes that their callers gave.", NXR_STATS_NBYTES,
     ABOUT_COLLECTIVE},
    {"nixlrun_failed_collectives", "", "Calls of collectives that failed.", NXR_STATS_FAILED,
     ABOUT_COLLECTIVE},
    {"nixlrun_channel_items", "", "Items published in a channel, or received from it.",
     NXR_STATS_OPS, ABOUT_CHANNEL},
    {"nixlrun_channel_bytes", "bytes", "Bytes of these items.", NXR_STATS_NBYTES, ABOUT_CHANNEL},
    {"nixlrun_channel_stalls", "", "Times that all slots were full, or that there was no item.",
     NXR_STATS_RETRIES, ABOUT_CHANNEL},
    {"nixlrun_rail_operations", "", "Messages, and pieces of reads and writes.", NXR_STATS_OPS,
     ABOUT_RAIL},
    {"nixlrun_rail_bytes", "bytes", "Bytes of these, with those of the network's protocol.",
     NXR_STATS_NBYTES, ABOUT_RAIL},
    {"nixlrun_rail_retries", "", "Times that a rail had no room.", NXR_STATS_RETRIES, ABOUT_RAIL},
    {"nixlrun_rail_failures", "", "Connections by a rail that have failed.", NXR_STATS_FAILED,
     ABOUT_RAIL},
};

static enum metric_about metrics_about(const struct nxr_stats_sum *sum)
{
    return sum->op < NXR_STATS_CHANNEL_SEND
               ? (sum->op == NXR_STATS_COLLECTIVE ? ABOUT_COLLECTIVE : ABOUT_PEER)
           : sum->op <= NXR_STATS_CHANNEL_RECEIVE ? ABOUT_CHANNEL
                                                  : ABOUT_RAIL;
}

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

static void metrics_direction(FILE *out, bool is_sent)
{
    fprintf(out, ",direction=\"%s\"", is_sent ? "send" : "receive");
}

static void metrics_labels(FILE *out, const struct stats_rank *rank,
                           const struct nxr_stats_sum *sum)
{
    enum metric_about about = metrics_about(sum);

    fputc('{', out);
    metrics_rank_labels(out, rank);
    if (about == ABOUT_COLLECTIVE) {
        fputc(',', out);
        metrics_label(out, "collective", sum->name);
        fprintf(out, ",members=\"%u\"", sum->n_members);
        return;
    }
    if (sum->peer >= 0) {
        fprintf(out, ",peer=\"%d\"", sum->peer);
    } else {
        fputs(",peer=\"\"", out);
    }
    fputc(',', out);
    if (about == ABOUT_CHANNEL) {
        metrics_label(out, "channel", sum->name);
        metrics_direction(out, sum->op == NXR_STATS_CHANNEL_SEND);
    } else if (about == ABOUT_RAIL) {
        metrics_label(out, "transport", sum->transport);
        fputc(',', out);
        metrics_label(out, "rail", sum->name);
        metrics_direction(out, sum->op == NXR_STATS_RAIL_SEND);
    } else {
        fprintf(out, "operation=\"%s\",", nxr_stats_op_name(sum->op));
        metrics_label(out, "transport", sum->transport);
        fputc(',', out);
        metrics_label(out, "method", sum->method);
    }
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
            if (metrics_about(&reading->sums[j]) == metric->about) {
                fprintf(out, "%s_total", metric->name);
                metrics_labels(out, &job->ranks[i], &reading->sums[j]);
                fprintf(out, "} %" PRIu64 "\n", reading->sums[j].n[metric->counter]);
            }
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

/* The histograms of a metric's counters: which of their times. */
enum metric_times { TIMES_POST, TIMES_COMPLETE, TIMES_WAIT };

static struct times metrics_times(const struct nxr_stats_sum *sum, enum metric_times which)
{
    return which == TIMES_POST       ? (struct times){sum->post, sum->post_ns}
           : which == TIMES_COMPLETE ? (struct times){sum->complete, sum->complete_ns}
                                     : (struct times){sum->wait, sum->wait_ns};
}

static const struct {
    struct metric metric;
    enum metric_times times;
} histograms[] = {
    {{"nixlrun_post_seconds", "seconds",
      "Time until a transport has accepted an operation, of those timed.", 0, ABOUT_PEER},
     TIMES_POST},
    {{"nixlrun_complete_seconds", "seconds",
      "Time from the start of an operation to its end, of those timed; of waits, all.", 0,
      ABOUT_PEER},
     TIMES_COMPLETE},
    {{"nixlrun_collective_seconds", "seconds", "Time of calls of collectives, of those timed.", 0,
      ABOUT_COLLECTIVE},
     TIMES_COMPLETE},
    {{"nixlrun_collective_wait_seconds", "seconds",
      "Time in calls of collectives that waited for others for longer than a microsecond.", 0,
      ABOUT_COLLECTIVE},
     TIMES_WAIT},
    {{"nixlrun_channel_wait_seconds", "seconds",
      "Time that a thread slept for a free slot of a channel, or for an item.", 0, ABOUT_CHANNEL},
     TIMES_WAIT},
};

static void metrics_histogram(FILE *out, const struct stats_job *job, bool is_open, size_t which)
{
    const struct metric *metric = &histograms[which].metric;

    metrics_describe(out, is_open, metric, "histogram");
    for (size_t i = 0; i < job->n; i++) {
        const struct nxr_stats_reading *reading = &job->ranks[i].reading;

        for (size_t j = 0; metrics_is_shown(job, i) && j < reading->n_sums; j++) {
            const struct nxr_stats_sum *sum = &reading->sums[j];
            const struct times times = metrics_times(sum, histograms[which].times);

            if (metrics_about(sum) == metric->about) {
                metrics_histogram_of(out, metric->name, &job->ranks[i], sum, &times);
            }
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void metrics_ranks(FILE *out, const struct stats_job *job, bool is_open)
{
    static const struct metric size = {"nixlrun_job_ranks", "", "Ranks of the job.", 0, ABOUT_PEER};
    static const struct metric up = {
        "nixlrun_rank_joined", "",
        "1: between nixl_init and nixl_finalize, 0: it has left or died.", 0, ABOUT_PEER};

    metrics_describe(out, is_open, &size, "gauge");
    fprintf(out, "nixlrun_job_ranks %d\n", job->n > 0 ? job->ranks[0].size : 0);
    metrics_describe(out, is_open, &up, "gauge");
    for (size_t i = 0; i < job->n && metrics_is_shown(job, i); i++) {
        fputs("nixlrun_rank_joined{", out);
        metrics_rank_labels(out, &job->ranks[i]);
        fprintf(out, "} %d\n", stats_is_alive(&job->ranks[i]));
    }
}

void metrics_write(FILE *out, const struct stats_job *job, bool is_open)
{
    metrics_ranks(out, job, is_open);
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        metrics_counter(out, job, is_open, &counters[i]);
    }
    for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++) {
        metrics_histogram(out, job, is_open, i);
    }
    if (is_open) {
        fputs("# EOF\n", out);
    }
}
