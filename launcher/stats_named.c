/* SPDX-License-Identifier: Apache-2.0 */
/* What has a name, at the end of a job: collectives, channels, rails; text and JSON. No state. */
#include "config.h"

#include "launcher/stats.h"
#include "launcher/table.h"

#include <inttypes.h>
#include <string.h>

#define TEXT_ITEMS 16 /* of each kind that text shows; JSON has all */

static const struct table_column collective_columns[TABLE_MAX_COLUMNS] = {
    {"rank", "rank", TABLE_NUMBER},
    {"collective", "collective", TABLE_TEXT},
    {"members", "members", TABLE_NUMBER},
    {"calls", "calls", TABLE_NUMBER},
    {"bytes", "bytes", TABLE_NUMBER},
    {"failed", "failed", TABLE_NUMBER},
    {"timed", "timed", TABLE_NUMBER},
    {"complete_ns", "time of these", TABLE_NUMBER},
    {"max_complete_ns", "longest", TABLE_NUMBER},
    {"waits", "waits", TABLE_NUMBER},
    {"waited_ns", "waited", TABLE_NUMBER},
    {"max_waited_ns", "longest wait", TABLE_NUMBER}};

static const struct table_column channel_columns[TABLE_MAX_COLUMNS] = {
    {"rank", "rank", TABLE_NUMBER},        {"peer", "peer", TABLE_NUMBER},
    {"channel", "channel", TABLE_TEXT},    {"direction", "direction", TABLE_TEXT},
    {"items", "items", TABLE_NUMBER},      {"bytes", "bytes", TABLE_NUMBER},
    {"stalls", "stalls", TABLE_NUMBER},    {"waits", "waits", TABLE_NUMBER},
    {"waited_ns", "waited", TABLE_NUMBER}, {"max_waited_ns", "longest wait", TABLE_NUMBER}};

static const struct table_column rail_columns[TABLE_MAX_COLUMNS] = {
    {"rank", "rank", TABLE_NUMBER},         {"peer", "peer", TABLE_NUMBER},
    {"transport", "transport", TABLE_TEXT}, {"rail", "rail", TABLE_TEXT},
    {"direction", "direction", TABLE_TEXT}, {"operations", "operations", TABLE_NUMBER},
    {"bytes", "bytes", TABLE_NUMBER},       {"retries", "retries", TABLE_NUMBER},
    {"failed", "failed", TABLE_NUMBER}};

/* ---- text ------------------------------------------------------------------------------------ */

static double named_mean(const struct stats_side *side)
{
    return side->n_timed > 0 ? (double)side->complete_ns / (double)side->n_timed : 0;
}

/* The time of all calls follows from those that were timed. */
static double named_share_waited(const struct stats_side *side)
{
    double all = named_mean(side) * (double)side->n;

    all = all > (double)side->wait_ns ? all : (double)side->wait_ns;
    return all > 0 ? 100 * (double)side->wait_ns / all : 0;
}

static void show_collective(FILE *out, const struct stats_item *item)
{
    const struct stats_side *side = &item->out;
    char calls[STATS_TEXT_NBYTES], bytes[STATS_TEXT_NBYTES], mean[STATS_TEXT_NBYTES];
    char longest[STATS_TEXT_NBYTES], waited[STATS_TEXT_NBYTES];
    uint64_t max_ns =
        side->max_complete_ns > side->max_wait_ns ? side->max_complete_ns : side->max_wait_ns;

    fprintf(out, "%9u %7s %9s %8s %8s %9s %5.1f%%  %s\n", item->members,
            stats_count_text((double)side->n, calls), stats_bytes_text((double)side->nbytes, bytes),
            side->n_timed > 0 ? stats_time_text(named_mean(side), mean) : "-",
            stats_time_text((double)max_ns, longest),
            stats_time_text((double)side->wait_ns, waited), named_share_waited(side), item->name);
}

static void show_channel(FILE *out, const struct stats_item *item)
{
    char items[STATS_TEXT_NBYTES], bytes[STATS_TEXT_NBYTES], full[STATS_TEXT_NBYTES];
    char full_time[STATS_TEXT_NBYTES], empty[STATS_TEXT_NBYTES], empty_time[STATS_TEXT_NBYTES];
    char from[16] = "any", to[16] = "any";
    bool is_sent = item->out.n >= item->in.n; /* the other end may not have been read */

    if (item->from >= 0) {
        snprintf(from, sizeof(from), "%d", item->from);
    }
    if (item->to >= 0) {
        snprintf(to, sizeof(to), "%d", item->to);
    }
    fprintf(out, "%5s %5s %7s %9s %7s %9s %7s %9s  %s\n", from, to,
            stats_count_text((double)(is_sent ? item->out.n : item->in.n), items),
            stats_bytes_text((double)(is_sent ? item->out.nbytes : item->in.nbytes), bytes),
            stats_count_text((double)item->out.n_stalls, full),
            stats_time_text((double)item->out.wait_ns, full_time),
            stats_count_text((double)item->in.n_stalls, empty),
            stats_time_text((double)item->in.wait_ns, empty_time), item->name);
}

static void show_rail(FILE *out, const struct stats_item *item)
{
    char sent[STATS_TEXT_NBYTES], received[STATS_TEXT_NBYTES], ops[STATS_TEXT_NBYTES];
    char retries[STATS_TEXT_NBYTES], failed[STATS_TEXT_NBYTES];

    fprintf(out, "%5d %9s %9s %7s %7s %6s  %s/%s\n", item->from,
            stats_bytes_text((double)item->out.nbytes, sent),
            stats_bytes_text((double)item->in.nbytes, received),
            stats_count_text((double)(item->out.n + item->in.n), ops),
            stats_count_text((double)(item->out.n_stalls), retries),
            stats_count_text((double)(item->out.n_failed), failed), item->transport, item->name);
}

static void show_heads(FILE *out, enum stats_item_kind kind)
{
    if (kind == STATS_COLLECTIVE) {
        fprintf(out, "\n%9s %7s %9s %8s %8s %9s %6s  %s\n", "members", "calls", "bytes", "mean",
                "longest", "waited", "share", "collective");
    } else if (kind == STATS_CHANNEL) {
        fprintf(out, "\n%5s %5s %7s %9s %7s %9s %7s %9s  %s\n", "from", "to", "items", "bytes",
                "full", "for", "empty", "for", "channel");
    } else {
        fprintf(out, "\n%5s %9s %9s %7s %7s %6s  %s\n", "rank", "sent", "received", "ops",
                "retries", "failed", "rail");
    }
}

static void show_kind(FILE *out, const struct stats_items *items, enum stats_item_kind kind)
{
    static void (*const shows[])(FILE * out, const struct stats_item *item) = {
        [STATS_COLLECTIVE] = show_collective,
        [STATS_CHANNEL] = show_channel,
        [STATS_RAIL] = show_rail};
    size_t n = 0;

    for (size_t i = 0; i < items->n; i++) {
        if (items->items[i].kind == kind && n++ < TEXT_ITEMS) {
            if (n == 1) {
                show_heads(out, kind);
            }
            shows[kind](out, &items->items[i]);
        }
    }
    if (n > TEXT_ITEMS) {
        fprintf(out, "and %zu with less; JSON has all\n", n - TEXT_ITEMS);
    }
}

void stats_named_show(FILE *out, const struct stats_job *job)
{
    struct stats_items items = stats_items_make(job);

    show_kind(out, &items, STATS_COLLECTIVE);
    show_kind(out, &items, STATS_CHANNEL);
    show_kind(out, &items, STATS_RAIL);
    stats_items_free(&items);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *named_number(uint64_t number, char text[TABLE_NUMBER_NBYTES])
{
    snprintf(text, TABLE_NUMBER_NBYTES, "%" PRIu64, number);
    return text;
}

static uint64_t named_count(const uint64_t buckets[NXR_STATS_N_BUCKETS])
{
    uint64_t n = 0;

    for (int i = 0; i < NXR_STATS_N_BUCKETS; i++) {
        n += buckets[i];
    }
    return n;
}

static void fill_collective(struct table *table, int rank, const struct nxr_stats_sum *sum)
{
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES];

    table_add(
        table,
        (const char *const[TABLE_MAX_COLUMNS]){
            named_number((uint64_t)rank, texts[0]), sum->name,
            named_number(sum->n_members, texts[2]), named_number(sum->n[NXR_STATS_OPS], texts[3]),
            named_number(sum->n[NXR_STATS_NBYTES], texts[4]),
            named_number(sum->n[NXR_STATS_FAILED], texts[5]),
            named_number(named_count(sum->complete), texts[6]),
            named_number(sum->complete_ns, texts[7]), named_number(sum->max_complete_ns, texts[8]),
            named_number(named_count(sum->wait), texts[9]), named_number(sum->wait_ns, texts[10]),
            named_number(sum->max_wait_ns, texts[11])});
}

static const char *named_peer(const struct nxr_stats_sum *sum, char text[TABLE_NUMBER_NBYTES])
{
    return sum->peer >= 0 ? named_number((uint64_t)sum->peer, text) : "";
}

static void fill_channel(struct table *table, int rank, const struct nxr_stats_sum *sum)
{
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES];

    table_add(table,
              (const char *const[TABLE_MAX_COLUMNS]){
                  named_number((uint64_t)rank, texts[0]), named_peer(sum, texts[1]), sum->name,
                  sum->op == NXR_STATS_CHANNEL_SEND ? "send" : "receive",
                  named_number(sum->n[NXR_STATS_OPS], texts[4]),
                  named_number(sum->n[NXR_STATS_NBYTES], texts[5]),
                  named_number(sum->n[NXR_STATS_RETRIES], texts[6]),
                  named_number(named_count(sum->wait), texts[7]),
                  named_number(sum->wait_ns, texts[8]), named_number(sum->max_wait_ns, texts[9])});
}

static void fill_rail(struct table *table, int rank, const struct nxr_stats_sum *sum)
{
    char texts[TABLE_MAX_COLUMNS][TABLE_NUMBER_NBYTES];

    table_add(table,
              (const char *const[TABLE_MAX_COLUMNS]){
                  named_number((uint64_t)rank, texts[0]), named_peer(sum, texts[1]), sum->transport,
                  sum->name, sum->op == NXR_STATS_RAIL_SEND ? "send" : "receive",
                  named_number(sum->n[NXR_STATS_OPS], texts[5]),
                  named_number(sum->n[NXR_STATS_NBYTES], texts[6]),
                  named_number(sum->n[NXR_STATS_RETRIES], texts[7]),
                  named_number(sum->n[NXR_STATS_FAILED], texts[8])});
}

static void fill_rank(struct table *tables, const struct stats_rank *rank)
{
    for (size_t i = 0; i < rank->reading.n_sums; i++) {
        const struct nxr_stats_sum *sum = &rank->reading.sums[i];

        if (sum->op == NXR_STATS_COLLECTIVE) {
            fill_collective(&tables[STATS_COLLECTIVE], rank->rank, sum);
        } else if (sum->op == NXR_STATS_CHANNEL_SEND || sum->op == NXR_STATS_CHANNEL_RECEIVE) {
            fill_channel(&tables[STATS_CHANNEL], rank->rank, sum);
        } else if (stats_is_item(sum)) {
            fill_rail(&tables[STATS_RAIL], rank->rank, sum);
        }
    }
}

void stats_named_fill(struct table *tables, const struct stats_job *job)
{
    tables[STATS_COLLECTIVE] = (struct table){"collectives", collective_columns, NULL, 0};
    tables[STATS_CHANNEL] = (struct table){"channels", channel_columns, NULL, 0};
    tables[STATS_RAIL] = (struct table){"rails", rail_columns, NULL, 0};
    for (size_t i = 0; i < job->n; i++) {
        fill_rank(tables, &job->ranks[i]);
    }
}
