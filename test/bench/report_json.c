/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result in JSON: one object with the machine, the command and an array of rows. It is what
 * `nixl_bench compare` and `nixl_bench plot` read, so a name is not changed once it stands here.
 */
#include "config.h"

#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void json_text(FILE *file, const char *name, const char *text)
{
    fprintf(file, "\"%s\": \"", name);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ') {
            fprintf(file, "\\u%04x", (unsigned)(unsigned char)*text);
        } else {
            fputc(*text, file);
        }
    }
    fprintf(file, "\"");
}

/* With a comma before it; null where it does not apply. */
static void json_number(FILE *file, const char *name, double value)
{
    if (value < 0) {
        fprintf(file, ", \"%s\": null", name);
    } else {
        fprintf(file, ", \"%s\": %.6g", name, value);
    }
}

/* The processor's name, as the kernel has it. */
static void read_processor(char *name, size_t name_nbytes)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(name, name_nbytes, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *value = strstr(line, ": ");

        if (strncmp(line, "model name", strlen("model name")) == 0 && value != NULL) {
            snprintf(name, name_nbytes, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void json_machine(FILE *file)
{
    double n_pages = (double)sysconf(_SC_PHYS_PAGES), page = (double)sysconf(_SC_PAGESIZE);
    char processor[128];
    struct utsname names;

    read_processor(processor, sizeof(processor));
    fprintf(file, "\"machine\": {");
    json_text(file, "processor", processor);
    json_number(file, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
    json_number(file, "memory_gib", n_pages * page / (1 << 30));
    if (uname(&names) == 0) {
        fprintf(file, ", ");
        json_text(file, "kernel", names.release);
        fprintf(file, ", ");
        json_text(file, "architecture", names.machine);
    }
    fprintf(file, "},\n ");
}

void report_json_begin(FILE *file, const struct bench *bench)
{
    time_t now = time(NULL);
    char date[32] = "";
    struct tm utc;

    if (gmtime_r(&now, &utc) != NULL) {
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    fprintf(file, "{");
    json_machine(file);
    json_text(file, "version", PACKAGE_VERSION);
    fprintf(file, ", ");
    json_text(file, "date", date);
    fprintf(
        file, ", \"ranks\": %d, \"hosts\": \"%s\", \"fresh\": %s, \"single\": %s,\n \"rows\": [",
        bench->size, bench->wire != NULL ? "several" : "one",
        bench->options.is_fresh ? "true" : "false", bench->options.is_single ? "true" : "false");
}

static void json_stats(FILE *file, const struct bench_stats *stats)
{
    json_number(file, "median_low", stats->median_low_ns);
    json_number(file, "median_high", stats->median_high_ns);
    json_number(file, "p90", stats->p90_ns);
    json_number(file, "p99_9", stats->p999_ns);
    json_number(file, "p99_99", stats->p9999_ns);
    json_number(file, "max", stats->max_ns);
    json_number(file, "samples", (double)stats->n_samples);
}

static void json_matrix(FILE *file, const double *gbps, int size)
{
    fprintf(file, ", \"matrix_gb_per_s\": [");
    for (int from = 0; from < size; from++) {
        for (int to = 0; to < size; to++) {
            fprintf(file, "%s%.4g",
                    to > 0     ? ", "
                    : from > 0 ? ", ["
                               : "[",
                    gbps[(size_t)from * (size_t)size + (size_t)to]);
        }
        fprintf(file, "]");
    }
    fprintf(file, "]");
}

void report_json_row(FILE *file, const struct bench *bench, const struct bench_row *row,
                     const struct bench_derived *derived)
{
    static long n_rows[2]; /* written so far, to stdout and elsewhere: commas stand between them */

    fprintf(file, "%s\n  {", n_rows[file != stdout]++ > 0 ? "," : "");
    json_text(file, "test", row->test);
    fprintf(file, ", ");
    json_text(file, "what", row->what);
    fprintf(file,
            ", \"ranks\": %d, \"bytes\": %llu, \"has_bytes\": %s, \"dst_offset\": %zu, "
            "\"src_offset\": %zu, ",
            bench->size, (unsigned long long)row->nbytes, row->has_nbytes ? "true" : "false",
            row->alignment.dst, row->alignment.src);
    json_text(file, "unit", row->unit);
    json_number(file, "median", row->value);
    json_number(file, "p99", row->p99);
    json_number(file, "min", row->min);
    json_number(file, "gb_per_s", derived->gbps);
    json_number(file, "per_s", derived->per_second);
    fprintf(file, ", ");
    json_text(file, "limit_name", row->limit > 0 ? row->limit_name : "");
    json_number(file, "limit", row->limit > 0 ? row->limit : -1);
    json_number(file, "ratio", derived->ratio);
    json_number(file, "goal", derived->has_goal ? row->goal : -1);
    json_number(file, "fastest_rank", row->slowest > 0 ? row->fastest : -1);
    json_number(file, "slowest_rank", row->slowest > 0 ? row->slowest : -1);
    if (row->stats != NULL) {
        json_stats(file, row->stats);
    }
    if (row->matrix_gbps != NULL) {
        json_matrix(file, row->matrix_gbps, bench->size);
    }
    json_number(file, "flag_ns", row->flag_ns);
    fprintf(file, ", \"ok\": %s, ",
            derived->has_goal ? derived->is_met ? "true" : "false" : "null");
    json_text(file, "note", row->note != NULL ? row->note : "");
    fprintf(file, "}");
}

void report_json_end(FILE *file)
{
    fprintf(file, "\n]}\n");
}
