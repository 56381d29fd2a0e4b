/* SPDX-License-Identifier: Apache-2.0 */
/* Laying out and reading the counters of a rank. No state, no lock. */
#include "config.h"

#include "util/barrier.h"
#include "util/stats_page.h"

#include <stdlib.h>
#include <string.h>

/* Peers that communicate in all ways with each rank of the job, and then some of other jobs. */
#define ROWS_PER_RANK  16
#define ROWS_BESIDES   4096
#define LANES_PER_RANK 4
#define LANES_BESIDES  4096
#define NAMED_PER_RANK 8
#define NAMED_BESIDES  4096
#define PAGE_NBYTES    4096

static const char *const op_names[NXR_STATS_N_OPS] = {
    "put",  "get",  "atomic",       "notify",          "receive",   "collective",
    "wait", "wake", "channel_send", "channel_receive", "rail_send", "rail_receive"};

const char *nxr_stats_op_name(uint32_t op)
{
    return op < NXR_STATS_N_OPS ? op_names[op] : "?";
}

/* ---- making ---------------------------------------------------------------------------------- */

static uint64_t stats_page_round(uint64_t nbytes)
{
    return (nbytes + PAGE_NBYTES - 1) / PAGE_NBYTES * PAGE_NBYTES;
}

/* Arrays begin at whole pages, so that what is not used takes no memory. */
static struct nxr_stats_head stats_layout(int size)
{
    struct nxr_stats_head head = {
        .max_rows = (uint32_t)size * ROWS_PER_RANK + ROWS_BESIDES,
        .max_lanes = (uint32_t)size * LANES_PER_RANK + LANES_BESIDES,
        .max_named = (uint32_t)size * NAMED_PER_RANK + NAMED_BESIDES,
    };

    head.rows_at = stats_page_round(sizeof(head));
    head.lanes_at =
        stats_page_round(head.rows_at + head.max_rows * (uint64_t)sizeof(struct nxr_stats_row));
    head.times_at =
        stats_page_round(head.lanes_at + head.max_lanes * (uint64_t)sizeof(struct nxr_stats_lane));
    head.named_at =
        stats_page_round(head.times_at + head.max_rows * (uint64_t)sizeof(struct nxr_stats_times));
    head.nbytes =
        stats_page_round(head.named_at + head.max_named * (uint64_t)sizeof(struct nxr_stats_named));
    return head;
}

size_t nxr_stats_section_nbytes(int size)
{
    return stats_layout(size).nbytes;
}

void nxr_stats_section_init(struct nxr_stats_head *head, int size, int64_t now_ns)
{
    const struct nxr_stats_head layout = stats_layout(size);

    head->max_rows = layout.max_rows;
    head->max_lanes = layout.max_lanes;
    head->max_named = layout.max_named;
    head->rows_at = layout.rows_at;
    head->lanes_at = layout.lanes_at;
    head->times_at = layout.times_at;
    head->named_at = layout.named_at;
    head->began_ns = now_ns;
    head->nbytes = layout.nbytes;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static uint64_t stats_more(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void nxr_stats_sum_add(struct nxr_stats_sum *to, const struct nxr_stats_sum *from)
{
    for (int i = 0; i < NXR_STATS_N_COUNTERS; i++) {
        to->n[i] += from->n[i];
    }
    to->post_ns += from->post_ns;
    to->complete_ns += from->complete_ns;
    to->wait_ns += from->wait_ns;
    to->max_post_ns = stats_more(to->max_post_ns, from->max_post_ns);
    to->max_complete_ns = stats_more(to->max_complete_ns, from->max_complete_ns);
    to->max_wait_ns = stats_more(to->max_wait_ns, from->max_wait_ns);
    for (int i = 0; i < NXR_STATS_N_BUCKETS; i++) {
        to->post[i] += from->post[i];
        to->complete[i] += from->complete[i];
        to->wait[i] += from->wait[i];
    }
}

static int stats_compare_keys(const void *a, const void *b)
{
    const struct nxr_stats_sum *first = a, *second = b;
    int order = (first->peer > second->peer) - (first->peer < second->peer);

    order = order != 0 ? order : (first->op > second->op) - (first->op < second->op);
    order = order != 0 ? order : strcmp(first->transport, second->transport);
    order = order != 0 ? order : strcmp(first->method, second->method);
    order = order != 0 ? order : strcmp(first->name, second->name);
    order = order != 0
                ? order
                : (first->n_members > second->n_members) - (first->n_members < second->n_members);
    return order != 0 ? order : (first->serial > second->serial) - (first->serial < second->serial);
}

static int stats_compare_serials(const void *a, const void *b)
{
    const struct nxr_stats_sum *first = a, *second = b;
    int order = (first->serial > second->serial) - (first->serial < second->serial);

    return order != 0 ? order : (first->op > second->op) - (first->op < second->op);
}

static bool stats_has_same_key(const struct nxr_stats_sum *a, const struct nxr_stats_sum *b)
{
    return a->peer == b->peer && a->op == b->op && strcmp(a->transport, b->transport) == 0 &&
           strcmp(a->method, b->method) == 0 && strcmp(a->name, b->name) == 0 &&
           a->n_members == b->n_members;
}

/* Add up those of the same key. */
static void stats_merge(struct nxr_stats_reading *reading)
{
    size_t n = 0;

    qsort(reading->sums, reading->n_sums, sizeof(*reading->sums), stats_compare_keys);
    for (size_t i = 0; i < reading->n_sums; i++) {
        if (n > 0 && stats_has_same_key(&reading->sums[n - 1], &reading->sums[i])) {
            nxr_stats_sum_add(&reading->sums[n - 1], &reading->sums[i]);
        } else {
            reading->sums[n++] = reading->sums[i];
        }
    }
    reading->n_sums = n;
    qsort(reading->sums, n, sizeof(*reading->sums), stats_compare_serials);
}

bool nxr_stats_reading_add(struct nxr_stats_reading *to, const struct nxr_stats_reading *from)
{
    size_t n = to->n_sums + from->n_sums;
    struct nxr_stats_sum *sums = n > 0 ? realloc(to->sums, n * sizeof(*sums)) : to->sums;

    if (n > 0 && sums == NULL) {
        return false;
    }
    to->sums = sums;
    if (from->n_sums > 0) {
        memcpy(sums + to->n_sums, from->sums, from->n_sums * sizeof(*sums));
        to->n_sums = n;
        stats_merge(to);
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t stats_load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void stats_copy_text(char *to, const char *from, size_t nbytes)
{
    memcpy(to, from, nbytes);
    to[nbytes - 1] = '\0';
}

static void stats_read_histogram(const struct nxr_stats_histogram *histogram, uint64_t *sum_p,
                                 uint64_t *max_p, uint64_t n[NXR_STATS_N_BUCKETS])
{
    *sum_p = stats_load(&histogram->sum_ns);
    *max_p = stats_load(&histogram->max_ns);
    for (int i = 0; i < NXR_STATS_N_BUCKETS; i++) {
        n[i] = stats_load(&histogram->n[i]);
    }
}

static void stats_read_row(const struct nxr_stats_row *row, const struct nxr_stats_times *times,
                           struct nxr_stats_reading *reading)
{
    struct nxr_stats_sum *sum = &reading->sums[reading->n_sums];

    if (atomic_load_explicit(&row->is_ready, memory_order_acquire) == 0 ||
        row->op >= NXR_STATS_N_OPS) {
        return;
    }
    *sum = (struct nxr_stats_sum){.peer = row->peer, .op = row->op, .serial = row->serial};
    stats_copy_text(sum->transport, row->transport, sizeof(sum->transport));
    stats_copy_text(sum->method, row->method, sizeof(sum->method));
    for (int i = 0; i < NXR_STATS_N_COUNTERS; i++) {
        sum->n[i] = stats_load(&row->n[i]);
    }
    if (row->has_times != 0) {
        stats_read_histogram(&times->post, &sum->post_ns, &sum->max_post_ns, sum->post);
        stats_read_histogram(&times->complete, &sum->complete_ns, &sum->max_complete_ns,
                             sum->complete);
    }
    reading->n_sums++;
}

static void stats_read_lane(const struct nxr_stats_lane *lane, struct nxr_stats_reading *reading)
{
    static const struct {
        enum nxr_stats_op op;
        int n, nbytes;
    } kinds[] = {{NXR_STATS_PUT, NXR_LANE_PUTS, NXR_LANE_PUT_NBYTES},
                 {NXR_STATS_GET, NXR_LANE_GETS, NXR_LANE_GET_NBYTES},
                 {NXR_STATS_ATOMIC, NXR_LANE_ATOMICS, NXR_LANE_ATOMIC_NBYTES}};

    if (atomic_load_explicit(&lane->is_ready, memory_order_acquire) == 0) {
        return;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct nxr_stats_sum *sum = &reading->sums[reading->n_sums];
        uint64_t n = stats_load(&lane->n[kinds[i].n]);

        if (n > 0) {
            *sum = (struct nxr_stats_sum){
                .peer = lane->peer, .op = kinds[i].op, .serial = lane->serial, .method = "memcpy"};
            stats_copy_text(sum->transport, lane->transport, sizeof(sum->transport));
            sum->n[NXR_STATS_OPS] = n;
            sum->n[NXR_STATS_NBYTES] = stats_load(&lane->n[kinds[i].nbytes]);
            reading->n_sums++;
        }
    }
}

static void stats_read_named(const struct nxr_stats_named *named, struct nxr_stats_reading *reading)
{
    struct nxr_stats_sum *sum = &reading->sums[reading->n_sums];

    if (atomic_load_explicit(&named->is_ready, memory_order_acquire) == 0 ||
        named->op >= NXR_STATS_N_OPS) {
        return;
    }
    *sum = (struct nxr_stats_sum){.peer = named->peer,
                                  .op = named->op,
                                  .serial = named->serial,
                                  .n_members = named->n_members};
    stats_copy_text(sum->transport, named->transport, sizeof(sum->transport));
    stats_copy_text(sum->name, named->name, sizeof(sum->name));
    for (int i = 0; i < NXR_STATS_N_COUNTERS; i++) {
        sum->n[i] = stats_load(&named->n[i]);
    }
    stats_read_histogram(&named->complete, &sum->complete_ns, &sum->max_complete_ns, sum->complete);
    stats_read_histogram(&named->wait, &sum->wait_ns, &sum->max_wait_ns, sum->wait);
    reading->n_sums++;
}

static int stats_compare_waits(const void *a, const void *b)
{
    const struct nxr_stats_wait *first = a, *second = b;

    return (first->waited_ns < second->waited_ns) - (first->waited_ns > second->waited_ns);
}

/* One that is just being written is left out. */
static void stats_read_longest(const struct nxr_stats_head *head, struct nxr_stats_reading *reading)
{
    for (int i = 0; i < NXR_STATS_N_LONGEST; i++) {
        const struct nxr_stats_wait *wait = &head->longest[i];
        struct nxr_stats_wait *copy = &reading->longest[reading->n_longest];
        uint32_t before = atomic_load_explicit(&wait->counter, memory_order_acquire);

        memcpy(copy, wait, sizeof(*copy));
        nxr_fence_acquire();
        copy->call[sizeof(copy->call) - 1] = '\0';
        reading->n_longest += before % 2 == 0 && copy->waited_ns > 0 &&
                              atomic_load_explicit(&wait->counter, memory_order_relaxed) == before;
    }
    qsort(reading->longest, reading->n_longest, sizeof(reading->longest[0]), stats_compare_waits);
}

/* Do the arrays lie within the section? */
static bool stats_is_section(const struct nxr_stats_head *head, size_t nbytes)
{
    return nbytes >= sizeof(*head) && head->nbytes <= nbytes && head->rows_at >= sizeof(*head) &&
           head->rows_at % 64 == 0 && head->lanes_at % 64 == 0 && head->times_at % 64 == 0 &&
           head->named_at % 64 == 0 && head->named_at <= nbytes && head->rows_at <= nbytes &&
           head->lanes_at <= nbytes && head->times_at <= nbytes &&
           head->max_rows <= (nbytes - head->rows_at) / sizeof(struct nxr_stats_row) &&
           head->max_lanes <= (nbytes - head->lanes_at) / sizeof(struct nxr_stats_lane) &&
           head->max_rows <= (nbytes - head->times_at) / sizeof(struct nxr_stats_times) &&
           head->max_named <= (nbytes - head->named_at) / sizeof(struct nxr_stats_named);
}

/* How many of each there are, as far as the arrays go. */
struct stats_counts {
    uint32_t rows, lanes, named;
};

static uint32_t stats_count_of(const _Atomic uint32_t *n_p, uint32_t max)
{
    uint32_t n = atomic_load_explicit(n_p, memory_order_acquire);

    return n < max ? n : max;
}

static struct stats_counts stats_counts(const struct nxr_stats_head *head)
{
    return (struct stats_counts){.rows = stats_count_of(&head->n_rows, head->max_rows),
                                 .lanes = stats_count_of(&head->n_lanes, head->max_lanes),
                                 .named = stats_count_of(&head->n_named, head->max_named)};
}

static void stats_add_row(struct nxr_stats_totals *totals, const struct nxr_stats_row *row,
                          const struct nxr_stats_times *times)
{
    if (atomic_load_explicit(&row->is_ready, memory_order_acquire) != 0 &&
        row->op < NXR_STATS_N_OPS) {
        totals->nops[row->op] += stats_load(&row->n[NXR_STATS_OPS]);
        totals->nbytes[row->op] += stats_load(&row->n[NXR_STATS_NBYTES]);
        totals->n_failed += stats_load(&row->n[NXR_STATS_FAILED]);
        if (row->op == NXR_STATS_WAIT && row->has_times != 0) {
            totals->waited_ns += stats_load(&times->complete.sum_ns);
        }
    }
}

static void stats_add_lane(struct nxr_stats_totals *totals, const struct nxr_stats_lane *lane)
{
    totals->nops[NXR_STATS_PUT] += stats_load(&lane->n[NXR_LANE_PUTS]);
    totals->nbytes[NXR_STATS_PUT] += stats_load(&lane->n[NXR_LANE_PUT_NBYTES]);
    totals->nops[NXR_STATS_GET] += stats_load(&lane->n[NXR_LANE_GETS]);
    totals->nbytes[NXR_STATS_GET] += stats_load(&lane->n[NXR_LANE_GET_NBYTES]);
    totals->nops[NXR_STATS_ATOMIC] += stats_load(&lane->n[NXR_LANE_ATOMICS]);
    totals->nbytes[NXR_STATS_ATOMIC] += stats_load(&lane->n[NXR_LANE_ATOMIC_NBYTES]);
}

static void stats_add_named(struct nxr_stats_totals *totals, const struct nxr_stats_named *named)
{
    if (atomic_load_explicit(&named->is_ready, memory_order_acquire) != 0 &&
        named->op < NXR_STATS_N_OPS) {
        totals->nops[named->op] += stats_load(&named->n[NXR_STATS_OPS]);
        totals->nbytes[named->op] += stats_load(&named->n[NXR_STATS_NBYTES]);
        totals->n_failed +=
            named->op == NXR_STATS_COLLECTIVE ? stats_load(&named->n[NXR_STATS_FAILED]) : 0;
    }
}

bool nxr_stats_read_totals(const struct nxr_stats_head *head, size_t nbytes,
                           struct nxr_stats_totals *totals_p)
{
    struct stats_counts n;

    *totals_p = (struct nxr_stats_totals){.n_failed = 0};
    if (!stats_is_section(head, nbytes)) {
        return false;
    }
    n = stats_counts(head);
    for (uint32_t i = 0; i < n.rows; i++) {
        stats_add_row(totals_p, &nxr_stats_rows(head)[i], &nxr_stats_times_of(head)[i]);
    }
    for (uint32_t i = 0; i < n.lanes; i++) {
        stats_add_lane(totals_p, &nxr_stats_lanes(head)[i]);
    }
    for (uint32_t i = 0; i < n.named; i++) {
        stats_add_named(totals_p, &nxr_stats_named(head)[i]);
    }
    return true;
}

bool nxr_stats_read(const struct nxr_stats_head *head, size_t nbytes,
                    struct nxr_stats_reading *reading_p)
{
    struct nxr_stats_reading reading = {.sums = NULL};
    struct stats_counts n;

    if (!stats_is_section(head, nbytes)) {
        return false;
    }
    n = stats_counts(head);
    reading.n_lost = stats_load(&head->n_lost);
    reading.began_ns = head->began_ns;
    reading.sums = malloc((n.rows + 3 * (size_t)n.lanes + n.named + 1) * sizeof(*reading.sums));
    if (reading.sums == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n.rows; i++) {
        stats_read_row(&nxr_stats_rows(head)[i], &nxr_stats_times_of(head)[i], &reading);
    }
    for (uint32_t i = 0; i < n.lanes; i++) {
        stats_read_lane(&nxr_stats_lanes(head)[i], &reading);
    }
    for (uint32_t i = 0; i < n.named; i++) {
        stats_read_named(&nxr_stats_named(head)[i], &reading);
    }
    stats_read_longest(head, &reading);
    stats_merge(&reading);
    *reading_p = reading;
    return true;
}

void nxr_stats_reading_free(struct nxr_stats_reading *reading)
{
    free(reading->sums);
    reading->sums = NULL;
    reading->n_sums = 0;
}
