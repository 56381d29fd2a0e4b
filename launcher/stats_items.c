/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding up what has a name in the counters of a job: collectives by name and team size, channels
 * by their two ends, rails by rank. No state.
 */
#include "config.h"

#include "launcher/stats.h"
#include "launcher/xalloc.h"

#include <stdlib.h>
#include <string.h>

static enum stats_item_kind item_kind_of(uint32_t op)
{
    return op == NXR_STATS_COLLECTIVE                                        ? STATS_COLLECTIVE
           : op == NXR_STATS_CHANNEL_SEND || op == NXR_STATS_CHANNEL_RECEIVE ? STATS_CHANNEL
                                                                             : STATS_RAIL;
}

/* A name must not control a terminal. */
static void item_name(struct stats_item *item, const char name[NXR_STATS_NAME])
{
    memcpy(item->name, name, sizeof(item->name));
    for (char *at = item->name; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 127 ? '?' : *at;
    }
}

/* Whether the counters are those of the side that sends; of collectives there is one side. */
static bool item_is_out(uint32_t op)
{
    return op != NXR_STATS_CHANNEL_RECEIVE && op != NXR_STATS_RAIL_RECEIVE;
}

/* The two ends of a channel. */
static void item_ends(struct stats_item *item, uint32_t op, int rank, int peer)
{
    item->from = item_is_out(op) ? rank : peer;
    item->to = item_is_out(op) ? peer : rank;
}

static struct stats_item item_of(int rank, const struct nxr_stats_sum *sum)
{
    struct stats_item item = {
        .kind = item_kind_of(sum->op), .members = sum->n_members, .from = -1, .to = -1};
    struct stats_side *side = item_is_out(sum->op) ? &item.out : &item.in;

    item_name(&item, sum->name);
    memcpy(item.transport, sum->transport, sizeof(item.transport));
    if (item.kind == STATS_CHANNEL) {
        item_ends(&item, sum->op, rank, sum->peer);
    } else if (item.kind == STATS_RAIL) {
        item.from = rank;
    }
    *side = (struct stats_side){.n = sum->n[NXR_STATS_OPS],
                                .nbytes = sum->n[NXR_STATS_NBYTES],
                                .n_failed = sum->n[NXR_STATS_FAILED],
                                .n_stalls = sum->n[NXR_STATS_RETRIES],
                                .complete_ns = sum->complete_ns,
                                .max_complete_ns = sum->max_complete_ns,
                                .wait_ns = sum->wait_ns,
                                .max_wait_ns = sum->max_wait_ns};
    for (int i = 0; i < NXR_STATS_N_BUCKETS; i++) {
        side->n_timed += sum->complete[i];
        side->n_waits += sum->wait[i];
    }
    return item;
}

/* Only the time of a wait under way: the rest is counted when it ends. */
static struct stats_item item_of_waiting(int rank, const struct stats_waiting *waiting)
{
    struct stats_item item = {
        .kind = item_kind_of(waiting->op), .members = waiting->n_members, .from = -1, .to = -1};
    struct stats_side *side = item_is_out(waiting->op) ? &item.out : &item.in;

    item_name(&item, waiting->name);
    if (item.kind == STATS_CHANNEL) {
        item_ends(&item, waiting->op, rank, waiting->peer);
    } else {
        memcpy(item.transport, item.name, sizeof(item.transport) - 1);
    }
    side->wait_ns = side->max_wait_ns = waiting->ns;
    return item;
}

static int item_compare_keys(const void *a, const void *b)
{
    const struct stats_item *first = a, *second = b;
    int order = (first->kind > second->kind) - (first->kind < second->kind);

    order = order != 0 ? order : strcmp(first->name, second->name);
    order = order != 0 ? order : strcmp(first->transport, second->transport);
    order = order != 0 ? order
                       : (first->members > second->members) - (first->members < second->members);
    order = order != 0 ? order : (first->from > second->from) - (first->from < second->from);
    return order != 0 ? order : (first->to > second->to) - (first->to < second->to);
}

static uint64_t item_weight(const struct stats_item *item)
{
    return item->out.nbytes + item->in.nbytes;
}

/* What moves the most first, kind by kind. */
static int item_compare_shown(const void *a, const void *b)
{
    const struct stats_item *first = a, *second = b;

    if (first->kind != second->kind) {
        return first->kind < second->kind ? -1 : 1;
    }
    if (item_weight(first) != item_weight(second)) {
        return item_weight(first) < item_weight(second) ? 1 : -1;
    }
    return item_compare_keys(a, b);
}

static void side_add(struct stats_side *to, const struct stats_side *from)
{
    to->n += from->n;
    to->nbytes += from->nbytes;
    to->n_failed += from->n_failed;
    to->n_stalls += from->n_stalls;
    to->n_timed += from->n_timed;
    to->complete_ns += from->complete_ns;
    to->n_waits += from->n_waits;
    to->wait_ns += from->wait_ns;
    if (from->max_complete_ns > to->max_complete_ns) {
        to->max_complete_ns = from->max_complete_ns;
    }
    if (from->max_wait_ns > to->max_wait_ns) {
        to->max_wait_ns = from->max_wait_ns;
    }
}

static void items_merge(struct stats_items *items)
{
    size_t n = 0;

    qsort(items->items, items->n, sizeof(*items->items), item_compare_keys);
    for (size_t i = 0; i < items->n; i++) {
        if (n > 0 && item_compare_keys(&items->items[n - 1], &items->items[i]) == 0) {
            side_add(&items->items[n - 1].out, &items->items[i].out);
            side_add(&items->items[n - 1].in, &items->items[i].in);
        } else {
            items->items[n++] = items->items[i];
        }
    }
    items->n = n;
    qsort(items->items, n, sizeof(*items->items), item_compare_shown);
}

struct stats_items stats_items_make(const struct stats_job *job)
{
    struct stats_items items = {.items = NULL};
    size_t most = 0;

    for (size_t i = 0; i < job->n; i++) {
        most += job->ranks[i].reading.n_sums + job->ranks[i].n_waiting;
    }
    items.items = x_calloc(most, sizeof(*items.items));
    for (size_t i = 0; i < job->n && job->ranks[i].job == job->ranks[0].job; i++) {
        const struct nxr_stats_reading *reading = &job->ranks[i].reading;

        for (size_t j = 0; j < reading->n_sums; j++) {
            if (stats_is_item(&reading->sums[j])) {
                items.items[items.n++] = item_of(job->ranks[i].rank, &reading->sums[j]);
            }
        }
        for (size_t j = 0; j < job->ranks[i].n_waiting; j++) {
            items.items[items.n++] = item_of_waiting(job->ranks[i].rank, &job->ranks[i].waiting[j]);
        }
    }
    if (items.n > 0) {
        items_merge(&items);
    }
    return items;
}

const struct stats_item *stats_items_find(const struct stats_items *items,
                                          const struct stats_item *like)
{
    for (size_t i = 0; i < items->n; i++) {
        if (item_compare_keys(&items->items[i], like) == 0) {
            return &items->items[i];
        }
    }
    return NULL;
}

void stats_items_free(struct stats_items *items)
{
    free(items->items);
    *items = (struct stats_items){.items = NULL};
}

static void item_end_text(int rank, char text[16])
{
    if (rank >= 0) {
        snprintf(text, 16, "%d", rank);
    } else {
        snprintf(text, 16, "any");
    }
}

void stats_item_text(const struct stats_item *item, char text[STATS_ITEM_NBYTES])
{
    char from[16], to[16];

    if (item->kind == STATS_COLLECTIVE) {
        snprintf(text, STATS_ITEM_NBYTES, "%s of %u", item->name, item->members);
    } else if (item->kind == STATS_CHANNEL) {
        item_end_text(item->from, from);
        item_end_text(item->to, to);
        snprintf(text, STATS_ITEM_NBYTES, "channel %s, %s to %s", item->name, from, to);
    } else {
        snprintf(text, STATS_ITEM_NBYTES, "rank %d by %s/%s", item->from, item->transport,
                 item->name);
    }
}
