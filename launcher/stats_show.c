/* SPDX-License-Identifier: Apache-2.0 */
/* How much went where, at the end of a job: as text for people, as JSON for programs. No state. */
#include "config.h"

#include "launcher/stats.h"
#include "launcher/table.h"
#include "nixlrun.h"
#include "util/observe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MATRIX_SIZE 16 /* rows and columns at most: more ranks are put together */
#define TEXT_PAIRS  32 /* that text shows; JSON has all */

static const struct table_column rank_columns[TABLE_MAX_COLUMNS] = {
    {"rank", "rank", TABLE_NUMBER},        {"incarnation", "start", TABLE_NUMBER},
    {"host", "host", TABLE_TEXT},          {"pid", "pid", TABLE_NUMBER},
    {"state", "state", TABLE_TEXT},        {"put_bytes", "put", TABLE_NUMBER},
    {"get_bytes", "get", TABLE_NUMBER},    {"notifications", "notes", TABLE_NUMBER},
    {"waits", "waits", TABLE_NUMBER},      {"waited_ns", "waited ns", TABLE_NUMBER},
    {"collectives", "coll.", TABLE_NUMBER}};

static const struct table_column counter_columns[TABLE_MAX_COLUMNS] = {
    {"rank", "rank", TABLE_NUMBER},         {"peer", "peer", TABLE_NUMBER},
    {"operation", "operation", TABLE_TEXT}, {"transport", "transport", TABLE_TEXT},
    {"method", "method", TABLE_TEXT},       {"operations", "operations", TABLE_NUMBER},
    {"bytes", "bytes", TABLE_NUMBER},       {"failed", "failed", TABLE_NUMBER},
    {"requests", "requests", TABLE_NUMBER}, {"retries", "retries", TABLE_NUMBER},
    {"stages", "stages", TABLE_NUMBER},     {"complete_ns", "complete ns", TABLE_NUMBER}};

static const struct table_column pair_columns[TABLE_MAX_COLUMNS] = {
    {"from", "from", TABLE_NUMBER},      {"to", "to", TABLE_NUMBER},
    {"bytes", "bytes", TABLE_NUMBER},    {"share", "share", TABLE_NUMBER},
    {"operations", "ops", TABLE_NUMBER}, {"notifications", "notes", TABLE_NUMBER},
    {"route", "route", TABLE_TEXT},      {"route_bytes", "of its bytes", TABLE_NUMBER}};

static const struct table_column wait_columns[TABLE_MAX_COLUMNS] = {
    {"rank", "rank", TABLE_NUMBER},
    {"call", "call", TABLE_TEXT},
    {"peer", "for rank", TABLE_NUMBER},
    {"waited_ns", "waited", TABLE_NUMBER},
    {"began_ns", "after", TABLE_NUMBER}};

/* ---- text ------------------------------------------------------------------------------------ */

static void show_totals(FILE *out, const struct stats_job *job, const struct stats_sums *sums)
{
    static const struct {
        enum nxr_stats_op op;
        const char *name;
    } shown[] = {{NXR_STATS_PUT, " puts and "},
                 {NXR_STATS_GET, " gets; "},
                 {NXR_STATS_NOTIFY, " notifications, "},
                 {NXR_STATS_ATOMIC, " atomics, "},
                 {NXR_STATS_COLLECTIVE, " collectives, "},
                 {NXR_STATS_WAIT, " waits\n"}};
    double nbytes = (double)(sums->nbytes[NXR_STATS_PUT] + sums->nbytes[NXR_STATS_GET]);
    char text[STATS_TEXT_NBYTES];

    fprintf(out, "nixlrun: statistics of %d ranks: %s moved in ", sums->size,
            stats_bytes_text(nbytes, text));
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        fprintf(out, "%s%s", stats_count_text((double)sums->nops[shown[i].op], text),
                shown[i].name);
    }
    if (sums->n_failed + sums->n_retries + sums->n_stages > 0) {
        fprintf(out,
                "%" PRIu64 " failed, %" PRIu64 " found no room at first, %" PRIu64
                " pieces were staged\n",
                sums->n_failed, sums->n_retries, sums->n_stages);
    }
    for (size_t i = 0; i < job->n; i++) {
        if (job->ranks[i].life != NXR_OBSERVE_LEFT) {
            fprintf(out,
                    "rank %d (pid %d) has not called nixl_finalize: what it had counted is "
                    "included\n",
                    job->ranks[i].rank, (int)job->ranks[i].pid);
        }
    }
    if (sums->n_lost > 0) {
        fprintf(out, "%" PRIu64 " counters had no room: what they would count is missing\n",
                sums->n_lost);
    }
}

/* The label of row or column i of a matrix in which `step` ranks share one. */
static const char *show_label(int i, int step, int size, char text[STATS_TEXT_NBYTES])
{
    int last = (i + 1) * step < size ? (i + 1) * step - 1 : size - 1;

    if (i * step == last) {
        snprintf(text, STATS_TEXT_NBYTES, "%d", last);
    } else {
        snprintf(text, STATS_TEXT_NBYTES, "%d-%d", i * step, last);
    }
    return text;
}

static void show_matrix(FILE *out, const struct stats_sums *sums)
{
    int step = (sums->size + MATRIX_SIZE - 1) / MATRIX_SIZE, n = (sums->size + step - 1) / step;
    uint64_t cells[MATRIX_SIZE][MATRIX_SIZE] = {{0}};
    char text[STATS_TEXT_NBYTES];

    for (size_t i = 0; i < sums->n_pairs; i++) {
        cells[sums->pairs[i].from / step][sums->pairs[i].to / step] += sums->pairs[i].nbytes;
    }
    fprintf(out, "\nbytes from the rank%s of a row to the rank%s of a column\n%9s",
            step > 1 ? "s" : "", step > 1 ? "s" : "", "");
    for (int to = 0; to < n; to++) {
        fprintf(out, " %9s", show_label(to, step, sums->size, text));
    }
    for (int from = 0; from < n; from++) {
        fprintf(out, "\n%9s", show_label(from, step, sums->size, text));
        for (int to = 0; to < n; to++) {
            fprintf(out, " %9s",
                    cells[from][to] == 0 ? "-" : stats_bytes_text((double)cells[from][to], text));
        }
    }
    fputs("\n", out);
}

static int show_compare_pairs(const void *a, const void *b)
{
    const struct stats_pair *first = a, *second = b;

    if (first->nbytes != second->nbytes) {
        return first->nbytes < second->nbytes ? 1 : -1;
    }
    return first->from != second->from ? first->from - second->from : first->to - second->to;
}

static double show_percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* The most used first. */
static void show_routes(FILE *out, struct stats_sums *sums)
{
    uint64_t all = sums->nbytes[NXR_STATS_PUT] + sums->nbytes[NXR_STATS_GET];
    char bytes[STATS_TEXT_NBYTES], ops[STATS_TEXT_NBYTES], notes[STATS_TEXT_NBYTES];
    char path[STATS_TEXT_NBYTES];

    qsort(sums->pairs, sums->n_pairs, sizeof(*sums->pairs), show_compare_pairs);
    fprintf(out, "\n%5s %5s %9s %6s %7s %7s  %s\n", "from", "to", "bytes", "share", "ops", "notes",
            "route");
    for (size_t i = 0; i < sums->n_pairs && i < TEXT_PAIRS; i++) {
        const struct stats_pair *pair = &sums->pairs[i];

        fprintf(out, "%5d %5d %9s %5.1f%% %7s %7s  %s", pair->from, pair->to,
                stats_bytes_text((double)pair->nbytes, bytes), show_percent(pair->nbytes, all),
                stats_count_text((double)pair->nops, ops),
                stats_count_text((double)pair->n_notes, notes),
                stats_path_text(pair->transport, pair->method, path));
        if (show_percent(pair->path_nbytes, pair->nbytes) < 99.95) {
            fprintf(out, " (%.1f%%)", show_percent(pair->path_nbytes, pair->nbytes));
        }
        fputc('\n', out);
    }
    if (sums->n_pairs > TEXT_PAIRS) {
        fprintf(out, "and %zu pairs with less; JSON has all\n", sums->n_pairs - TEXT_PAIRS);
    }
}

static void show_longest(FILE *out, const struct stats_sums *sums)
{
    char waited[STATS_TEXT_NBYTES], peer[32];

    if (sums->n_longest > 0) {
        fprintf(out, "\n%5s %9s  %s\n", "rank", "waited", "longest waits");
    }
    for (size_t i = 0; i < sums->n_longest; i++) {
        const struct nxr_stats_wait *wait = &sums->longest[i].wait;

        peer[0] = '\0';
        if (wait->peer >= 0) {
            snprintf(peer, sizeof(peer), " for rank %d", wait->peer);
        }
        fprintf(out, "%5d %9s  %s%s\n", sums->longest[i].rank,
                stats_time_text((double)wait->waited_ns, waited),
                wait->call[0] != '\0' ? wait->call : "in the library", peer);
    }
}

static void show_text(FILE *out, const struct stats_job *job, struct stats_sums *sums)
{
    show_totals(out, job, sums);
    if (sums->n_pairs > 0) {
        show_matrix(out, sums);
        show_routes(out, sums);
    }
    stats_named_show(out, job);
    show_longest(out, sums);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *show_number(uint64_t number, char text[TABLE_NUMBER_NBYTES])
{
    snprintf(text, TABLE_NUMBER_NBYTES, "%" PRIu64, number);
    return text;
}

/* How it ended, for the job is over. */
static const char *show_life(uint32_t life)
{
    return life == NXR_OBSERVE_LEFT      ? "finished"
           : life == NXR_OBSERVE_LEAVING ? "leaving"
           : life == NXR_OBSERVE_RUNNING ? "ended"
                                         : "joining";
}

static void show_rank(struct table *table, const struct stats_rank *rank)
{
    const uint64_t *n = rank->totals.nops, *nbytes = rank->totals.nbytes;
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES];

    table_add(table, (const char *const[TABLE_MAX_COLUMNS]){
                         show_number((uint64_t)rank->rank, texts[0]),
                         show_number(rank->incarnation, texts[1]), rank->host,
                         show_number((uint64_t)rank->pid, texts[2]), show_life(rank->life),
                         show_number(nbytes[NXR_STATS_PUT], texts[3]),
                         show_number(nbytes[NXR_STATS_GET], texts[4]),
                         show_number(n[NXR_STATS_NOTIFY], texts[5]),
                         show_number(n[NXR_STATS_WAIT], texts[6]),
                         show_number(rank->totals.waited_ns, texts[7]),
                         show_number(n[NXR_STATS_COLLECTIVE], texts[8])});
}

static void show_counter(struct table *table, int rank, const struct nxr_stats_sum *sum)
{
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES];

    table_add(table, (const char *const[TABLE_MAX_COLUMNS]){
                         show_number((uint64_t)rank, texts[0]),
                         sum->peer >= 0 ? show_number((uint64_t)sum->peer, texts[1]) : "",
                         nxr_stats_op_name(sum->op), sum->transport, sum->method,
                         show_number(sum->n[NXR_STATS_OPS], texts[2]),
                         show_number(sum->n[NXR_STATS_NBYTES], texts[3]),
                         show_number(sum->n[NXR_STATS_FAILED], texts[4]),
                         show_number(sum->n[NXR_STATS_REQUESTS], texts[5]),
                         show_number(sum->n[NXR_STATS_RETRIES], texts[6]),
                         show_number(sum->n[NXR_STATS_STAGES], texts[7]),
                         show_number(sum->complete_ns, texts[8])});
}

static void show_pair(struct table *table, const struct stats_pair *pair, uint64_t all)
{
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES], path[STATS_TEXT_NBYTES], share[16];

    snprintf(share, sizeof(share), "%.4f", show_percent(pair->nbytes, all) / 100);
    table_add(table,
              (const char *const[TABLE_MAX_COLUMNS]){
                  show_number((uint64_t)pair->from, texts[0]),
                  show_number((uint64_t)pair->to, texts[1]), show_number(pair->nbytes, texts[2]),
                  share, show_number(pair->nops, texts[3]), show_number(pair->n_notes, texts[4]),
                  stats_path_text(pair->transport, pair->method, path),
                  show_number(pair->path_nbytes, texts[5])});
}

static void show_wait(struct table *table, const struct stats_longest *longest)
{
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES];
    const struct nxr_stats_wait *wait = &longest->wait;

    table_add(table, (const char *const[TABLE_MAX_COLUMNS]){
                         show_number((uint64_t)longest->rank, texts[0]), wait->call,
                         wait->peer >= 0 ? show_number((uint64_t)wait->peer, texts[1]) : "",
                         show_number((uint64_t)wait->waited_ns, texts[2]),
                         show_number((uint64_t)wait->began_ns, texts[3])});
}

static void show_json(FILE *out, const struct stats_job *job, const struct stats_sums *sums)
{
    struct table tables[] = {{"ranks", rank_columns, NULL, 0},
                             {"counters", counter_columns, NULL, 0},
                             {"pairs", pair_columns, NULL, 0},
                             {"longest_waits", wait_columns, NULL, 0},
                             {.name = NULL},
                             {.name = NULL},
                             {.name = NULL}};
    struct table_writer writer = {out, true};
    uint64_t all = sums->nbytes[NXR_STATS_PUT] + sums->nbytes[NXR_STATS_GET];

    for (size_t i = 0; i < job->n; i++) {
        show_rank(&tables[0], &job->ranks[i]);
        for (size_t j = 0; j < job->ranks[i].reading.n_sums; j++) {
            if (!stats_is_item(&job->ranks[i].reading.sums[j])) {
                show_counter(&tables[1], job->ranks[i].rank, &job->ranks[i].reading.sums[j]);
            }
        }
    }
    for (size_t i = 0; i < sums->n_pairs; i++) {
        show_pair(&tables[2], &sums->pairs[i], all);
    }
    for (size_t i = 0; i < sums->n_longest; i++) {
        show_wait(&tables[3], &sums->longest[i]);
    }
    stats_named_fill(&tables[4], job);
    table_begin(&writer, "nixlrun", NIXLRUN_VERSION);
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        table_write(&writer, &tables[i], "");
        table_free(&tables[i]);
    }
    table_end(&writer);
}

void stats_show(FILE *out, const struct stats_job *job, bool is_json)
{
    struct stats_sums sums = stats_sums_make(job);

    if (is_json) {
        show_json(out, job, &sums);
    } else if (job->n == 0) {
        fputs("nixlrun: no statistics: no rank of this job has called nixl_init on this "
              "host\n",
              out);
    } else {
        show_text(out, job, &sums);
    }
    stats_sums_free(&sums);
}
