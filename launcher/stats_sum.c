/* SPDX-License-Identifier: Apache-2.0 */
/* Adding up the counters of a job, and numbers as short texts. No state. */
#include "config.h"

#include "launcher/stats.h"
#include "launcher/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- pairs ----------------------------------------------------------------------------------- */

static bool sum_is_move(const struct nxr_stats_sum *sum)
{
    return sum->op == NXR_STATS_PUT || sum->op == NXR_STATS_GET;
}

static int sum_compare_pairs(const void *a, const void *b)
{
    const struct stats_pair *first = a, *second = b;
    int order = (first->from > second->from) - (first->from < second->from);

    order = order != 0 ? order : (first->to > second->to) - (first->to < second->to);
    order = order != 0 ? order : strcmp(first->transport, second->transport);
    return order != 0 ? order : strcmp(first->method, second->method);
}

/* Add up what went from one rank to another one by the same path. */
static size_t sum_merge_paths(struct stats_pair *pairs, size_t n_paths)
{
    size_t n = 0;

    qsort(pairs, n_paths, sizeof(*pairs), sum_compare_pairs);
    for (size_t i = 0; i < n_paths; i++) {
        if (n > 0 && sum_compare_pairs(&pairs[n - 1], &pairs[i]) == 0) {
            pairs[n - 1].nops += pairs[i].nops;
            pairs[n - 1].nbytes += pairs[i].nbytes;
            pairs[n - 1].n_notes += pairs[i].n_notes;
        } else {
            pairs[n++] = pairs[i];
        }
    }
    return n;
}

static bool sum_is_better_path(const struct stats_pair *path, const struct stats_pair *than)
{
    return path->nbytes != than->path_nbytes ? path->nbytes > than->path_nbytes
                                             : path->nops > than->path_nops;
}

/* Add up the paths of each pair, and name the one that has moved the most. */
static size_t sum_merge_pairs(struct stats_pair *pairs, size_t n_paths)
{
    size_t n = 0;

    for (size_t i = 0; i < n_paths; i++) {
        const struct stats_pair path = pairs[i];
        struct stats_pair *pair = n > 0 ? &pairs[n - 1] : NULL;

        if (pair == NULL || pair->from != path.from || pair->to != path.to) {
            pairs[n] = path;
            pairs[n].path_nbytes = path.nbytes;
            pairs[n++].path_nops = path.nops;
            continue;
        }
        pair->nops += path.nops;
        pair->nbytes += path.nbytes;
        pair->n_notes += path.n_notes;
        if (sum_is_better_path(&path, pair)) {
            pair->path_nbytes = path.nbytes;
            pair->path_nops = path.nops;
            memcpy(pair->transport, path.transport, sizeof(pair->transport));
            memcpy(pair->method, path.method, sizeof(pair->method));
        }
    }
    return n;
}

static void sum_take_path(struct stats_sums *sums, int rank, const struct nxr_stats_sum *sum)
{
    bool is_get = sum->op == NXR_STATS_GET;
    struct stats_pair path = {.from = is_get ? sum->peer : rank, .to = is_get ? rank : sum->peer};

    if (sum->peer < 0 || sum->peer >= sums->size ||
        (!sum_is_move(sum) && sum->op != NXR_STATS_NOTIFY)) {
        return;
    }
    if (sum_is_move(sum)) {
        path.nops = sum->n[NXR_STATS_OPS];
        path.nbytes = sum->n[NXR_STATS_NBYTES];
    } else {
        path.n_notes = sum->n[NXR_STATS_OPS];
    }
    memcpy(path.transport, sum->transport, sizeof(path.transport));
    memcpy(path.method, sum->method, sizeof(path.method));
    sums->pairs[sums->n_pairs++] = path;
}

/* ---- waits ----------------------------------------------------------------------------------- */

static int sum_compare_waits(const void *a, const void *b)
{
    const struct stats_longest *first = a, *second = b;

    return (first->wait.waited_ns < second->wait.waited_ns) -
           (first->wait.waited_ns > second->wait.waited_ns);
}

static void sum_take_waits(struct stats_sums *sums, const struct stats_rank *rank)
{
    struct stats_longest all[2 * NXR_STATS_N_LONGEST];
    size_t n = sums->n_longest;

    memcpy(all, sums->longest, n * sizeof(all[0]));
    for (size_t i = 0; i < rank->reading.n_longest; i++) {
        all[n++] = (struct stats_longest){rank->rank, rank->reading.longest[i]};
    }
    if (n > 0) {
        qsort(all, n, sizeof(all[0]), sum_compare_waits);
    }
    sums->n_longest = n < NXR_STATS_N_LONGEST ? n : NXR_STATS_N_LONGEST;
    memcpy(sums->longest, all, sums->n_longest * sizeof(all[0]));
}

/* ---- all ------------------------------------------------------------------------------------- */

static void sum_take_total(struct stats_sums *sums, const struct nxr_stats_sum *sum)
{
    sums->nops[sum->op] += sum->n[NXR_STATS_OPS];
    sums->nbytes[sum->op] += sum->n[NXR_STATS_NBYTES];
    if (sum->op >= NXR_STATS_CHANNEL_SEND) {
        return; /* the same operations again, further down; stats_named.c shows their troubles */
    }
    sums->n_failed += sum->n[NXR_STATS_FAILED];
    sums->n_retries += sum->n[NXR_STATS_RETRIES];
    sums->n_stages += sum->n[NXR_STATS_STAGES];
}

struct stats_sums stats_sums_make(const struct stats_job *job)
{
    struct stats_sums sums = {.size = job->n > 0 ? job->ranks[0].size : 0};
    size_t n_paths = 0;

    for (size_t i = 0; i < job->n; i++) {
        n_paths += job->ranks[i].reading.n_sums;
    }
    sums.pairs = x_calloc(n_paths, sizeof(*sums.pairs));
    for (size_t i = 0; i < job->n && job->ranks[i].job == job->ranks[0].job; i++) {
        const struct stats_rank *rank = &job->ranks[i];

        for (size_t j = 0; j < rank->reading.n_sums; j++) {
            sum_take_total(&sums, &rank->reading.sums[j]);
            sum_take_path(&sums, rank->rank, &rank->reading.sums[j]);
        }
        sum_take_waits(&sums, rank);
        sums.n_lost += rank->reading.n_lost;
    }
    sums.n_pairs = sum_merge_pairs(sums.pairs, sum_merge_paths(sums.pairs, sums.n_pairs));
    return sums;
}

void stats_sums_free(struct stats_sums *sums)
{
    free(sums->pairs);
    sums->pairs = NULL;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Three digits that count, and the unit. */
static const char *sum_scaled_text(double number, double step, const char *const *units,
                                   char text[STATS_TEXT_NBYTES])
{
    while (number >= 999.5 && units[1] != NULL) {
        number /= step;
        units++;
    }
    snprintf(text, STATS_TEXT_NBYTES, "%.*f%s", number >= 99.95 || *units[0] == '\0' ? 0 : 1,
             number, *units);
    return text;
}

const char *stats_bytes_text(double nbytes, char text[STATS_TEXT_NBYTES])
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", NULL};

    if (nbytes < 999.5) {
        snprintf(text, STATS_TEXT_NBYTES, "%.0f B", nbytes);
        return text;
    }
    return sum_scaled_text(nbytes, 1024, units, text);
}

const char *stats_time_text(double ns, char text[STATS_TEXT_NBYTES])
{
    static const char *const units[] = {" ns", " us", " ms", " s", NULL};

    return sum_scaled_text(ns, 1000, units, text);
}

const char *stats_count_text(double n, char text[STATS_TEXT_NBYTES])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", NULL};

    return sum_scaled_text(n, 1000, units, text);
}

const char *stats_path_text(const char *transport, const char *method, char text[STATS_TEXT_NBYTES])
{
    snprintf(text, STATS_TEXT_NBYTES, "%s%s%s", transport, method[0] != '\0' ? "/" : "", method);
    return text;
}
