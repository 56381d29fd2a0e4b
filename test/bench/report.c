/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result, row by row as it comes: a table for people, CSV, or JSON. Only rank 0 prints, to
 * stdout; for a picture the rows are kept in a file, too.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <string.h>

static FILE *kept;                            /* rows for a picture; NULL: none is asked for */
static bool has_limits, has_goals, has_cores; /* of the table so far, for its legend */

static struct bench_derived derive(const struct bench_row *row)
{
    struct bench_derived derived = {-1, -1, -1, row->goal > 0, true};
    double judged = row->is_goal_p99 ? row->p99 : row->value;

    if (strcmp(row->unit, "ns") == 0 && row->value > 0) {
        derived.gbps = row->bytes_per_op > 0 ? row->bytes_per_op / row->value : -1;
        derived.per_second = row->is_rate_shown ? 1e9 / row->value : -1;
    }
    if (row->limit > 0) {
        derived.ratio = row->value / row->limit;
        judged = derived.ratio;
    }
    if (derived.has_goal) {
        derived.is_met = row->is_goal_floor ? judged >= row->goal : judged <= row->goal;
    }
    return derived;
}

/* 1234.5 ns as "1.23 us", in a buffer of at least 24 bytes. */
static const char *in_unit(double value, const char *unit, char *text, size_t text_nbytes)
{
    static const char *const times[] = {"ns", "us", "ms", "s"};
    static const char *const counts[] = {"/s", "k/s", "M/s", "G/s"};
    const char *const *names = strcmp(unit, "ns") == 0 ? times : counts;
    int step = 0;

    if (strcmp(unit, "ns") != 0 && strcmp(unit, "1/s") != 0) {
        snprintf(text, text_nbytes, "%.2f %s", value, unit);
        return text;
    }
    while (value >= 1000 && step < 3) {
        value /= 1000;
        step++;
    }
    snprintf(text, text_nbytes, "%.*f %s",
             value < 10    ? 2
             : value < 100 ? 1
                           : 0,
             value, names[step]);
    return text;
}

static const char *in_bytes(uint64_t nbytes, char *text, size_t text_nbytes)
{
    static const char *const names[] = {"", " KiB", " MiB", " GiB"};
    int step = 0;

    while (nbytes >= 1024 && nbytes % 1024 == 0 && step < 3) {
        nbytes /= 1024;
        step++;
    }
    snprintf(text, text_nbytes, "%llu%s", (unsigned long long)nbytes, names[step]);
    return text;
}

/* Two decimals, or "-" where a number does not apply. */
static const char *or_dash(double value, char *text, size_t text_nbytes)
{
    if (value < 0) {
        return "-";
    }
    snprintf(text, text_nbytes, "%.2f", value);
    return text;
}

static const char *goal_text(const struct bench_row *row, const struct bench_derived *derived,
                             char *text, size_t text_nbytes)
{
    char goal[32];

    if (!derived->has_goal) {
        return "";
    }
    if (row->limit > 0) {
        snprintf(goal, sizeof(goal), "%.2f", row->goal);
    } else {
        in_unit(row->goal, row->unit, goal, sizeof(goal));
    }
    snprintf(text, text_nbytes, "%s %s %s", row->is_goal_floor ? ">=" : "<=", goal,
             derived->is_met ? "ok" : "MISSED");
    return text;
}

/* Behind a row of what all ranks do: how far their values are apart. */
static void print_spread(const struct bench_row *row)
{
    char fastest[32], slowest[32];

    if (row->slowest > 0) {
        printf("  ranks %s to %s", in_unit(row->fastest, row->unit, fastest, sizeof(fastest)),
               in_unit(row->slowest, row->unit, slowest, sizeof(slowest)));
    }
}

static void print_table_row(const struct bench_row *row, const struct bench_derived *derived)
{
    char median[32], p99[32], min[32], limit[32], bytes[32], gbps[16], rate[16], ratio[16];
    char align[32] = "", goal[64];
    size_t n = sizeof(median);

    if (row->alignment.dst != 0 || row->alignment.src != 0) {
        snprintf(align, sizeof(align), "%zu:%zu", row->alignment.dst, row->alignment.src);
    }
    printf("%-34s %8s %9s %9s %9s %9s %7s %8s  %-17s %9s %6s  %-16s %s%s%s", row->what,
           row->has_nbytes ? in_bytes(row->nbytes, bytes, sizeof(bytes)) : "", align,
           in_unit(row->value, row->unit, median, n),
           row->p99 > 0 ? in_unit(row->p99, row->unit, p99, n) : "-",
           row->min > 0 ? in_unit(row->min, row->unit, min, n) : "-",
           or_dash(derived->gbps, gbps, sizeof(gbps)),
           derived->per_second < 0 ? "-" : in_unit(derived->per_second, "1/s", rate, sizeof(rate)),
           row->limit > 0 ? row->limit_name : "-",
           row->limit > 0 ? in_unit(row->limit, row->unit, limit, n) : "-",
           or_dash(derived->ratio, ratio, sizeof(ratio)),
           goal_text(row, derived, goal, sizeof(goal)),
           row->flag_ns > 0 ? sample_placement(row->flag_ns) : "", row->note != NULL ? "  " : "",
           row->note != NULL ? row->note : "");
    print_spread(row);
    printf("\n");
}

/* What the table's words mean, of those that it has. */
static void print_legend(void)
{
    if (has_limits) {
        printf(
            "limit: the best of this machine for the same work without nixlrun; ratio: the row's "
            "median divided by it\n");
    }
    if (has_goals) {
        printf("goal: what the ratio, or where there is no limit the row's value, is to keep to: "
               "ok or "
               "MISSED\n");
    }
    if (has_cores) {
        printf("cores of ranks 0 and 1: near: they share a cache; far: they share none; same core: "
               "two threads of one\n");
    }
}

/* Of operations that were timed one by one. */
static void print_percentiles(const struct bench_row *row)
{
    char p90[32], p999[32], p9999[32], max[32];

    printf("%34s p90 %s, p99.9 %s, p99.99 %s, max %s of %ld\n", "",
           in_unit(row->stats->p90_ns, "ns", p90, sizeof(p90)),
           in_unit(row->stats->p999_ns, "ns", p999, sizeof(p999)),
           in_unit(row->stats->p9999_ns, "ns", p9999, sizeof(p9999)),
           in_unit(row->stats->max_ns, "ns", max, sizeof(max)), row->stats->n_samples);
}

/* A number and a comma; only the comma where it does not apply. */
static void print_number(double value)
{
    if (value >= 0) {
        printf("%.4g", value);
    }
    printf(",");
}

static void print_csv_row(const struct bench *bench, const struct bench_row *row,
                          const struct bench_derived *derived)
{
    static const struct bench_stats none = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const struct bench_stats *stats = row->stats != NULL ? row->stats : &none;

    printf("%s,%s,%d,%llu,%zu,%zu,%s,%.2f,%.2f,%.2f,", row->test, row->what, bench->size,
           (unsigned long long)row->nbytes, row->alignment.dst, row->alignment.src, row->unit,
           row->value, row->p99, row->min);
    print_number(derived->gbps);
    print_number(derived->per_second);
    printf("%s,%.2f,", row->limit > 0 ? row->limit_name : "", row->limit);
    print_number(derived->ratio);
    print_number(derived->has_goal ? row->goal : -1);
    printf("%s,%.1f,", derived->has_goal ? derived->is_met ? "ok" : "missed" : "", row->flag_ns);
    print_number(row->slowest > 0 ? row->fastest : -1);
    print_number(row->slowest > 0 ? row->slowest : -1);
    print_number(stats->median_low_ns);
    print_number(stats->median_high_ns);
    print_number(stats->p90_ns);
    print_number(stats->p999_ns);
    print_number(stats->p9999_ns);
    printf("%ld\n", stats->n_samples);
}

void report_begin(struct bench *bench)
{
    if (bench->rank != 0) {
        return;
    }
    if (bench->options.plot != NULL) {
        kept = figures_begin();
        report_json_begin(kept, bench);
    }
    switch (bench->options.format) {
    case FORMAT_TABLE:
        printf("%-34s %8s %9s %9s %9s %9s %7s %8s  %-17s %9s %6s  %-16s %s\n", "", "bytes",
               "dst:src", "median", "p99", "min", "GB/s", "ops/s", "limit", "", "ratio", "goal",
               "cores");
        break;
    case FORMAT_CSV:
        printf("test,what,ranks,bytes,dst_offset,src_offset,unit,median,p99,min,gb_per_s,per_s,"
               "limit_name,limit,ratio,goal,result,flag_ns,fastest_rank,slowest_rank,"
               "median_low,median_high,p90,p99_9,p99_99,samples\n");
        break;
    case FORMAT_JSON:
        report_json_begin(stdout, bench);
        break;
    }
}

void report_row(struct bench *bench, const struct bench_row *row)
{
    struct bench_derived derived = derive(row);

    if (bench->rank != 0) {
        return;
    }
    bench->n_missed += derived.has_goal && !derived.is_met;
    has_limits |= row->limit > 0;
    has_goals |= derived.has_goal;
    has_cores |= row->flag_ns > 0;
    switch (bench->options.format) {
    case FORMAT_TABLE:
        print_table_row(row, &derived);
        if (bench->options.is_single && row->stats != NULL) {
            print_percentiles(row);
        }
        break;
    case FORMAT_CSV:
        print_csv_row(bench, row, &derived);
        break;
    case FORMAT_JSON:
        report_json_row(stdout, bench, row, &derived);
        break;
    }
    if (kept != NULL) {
        report_json_row(kept, bench, row, &derived);
    }
    fflush(stdout);
}

void report_end(struct bench *bench)
{
    if (bench->rank == 0 && bench->options.format == FORMAT_JSON) {
        report_json_end(stdout);
    }
    if (bench->rank == 0 && bench->options.format == FORMAT_TABLE) {
        print_legend();
    }
    fflush(stdout);
    if (kept != NULL) {
        report_json_end(kept);
        figures_draw(kept, bench->options.plot);
    }
}

void report_lanes(struct bench *bench, const char *test, const char *what,
                  const struct bench_lane *lanes, int n_lanes, const struct bench_stats *stats,
                  double goal)
{
    struct bench_row row = {
        .test = test,
        .what = what,
        .nbytes = bench->nbytes,
        .has_nbytes = true,
        .alignment = bench->alignment,
        .unit = "ns",
        .value = stats[0].median_ns,
        .p99 = stats[0].p99_ns,
        .min = stats[0].min_ns,
        .fastest = stats[0].fastest_ns,
        .slowest = stats[0].slowest_ns,
        .bytes_per_op = (double)bench->nbytes,
        .is_rate_shown = true,
        .goal = n_lanes > 1 ? goal : 0,
        .flag_ns = sample_flag_ns(bench),
        .note = fresh_note(bench),
        .stats = &stats[0],
    };

    for (int lane = 1; lane < n_lanes; lane++) {
        if (row.limit == 0 || stats[lane].median_ns < row.limit) {
            row.limit = stats[lane].median_ns;
            row.limit_name = lanes[lane].name;
        }
    }
    report_row(bench, &row);
}
