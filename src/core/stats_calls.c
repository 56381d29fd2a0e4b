/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls on the counters of this rank. No state, no lock. */
#include "config.h"

#include "core/stats.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdlib.h>
#include <string.h>

static const struct nxr_struct_type stats_type =
    NXR_STRUCT_TYPE(nixl_stats, NIXL_STATS_INIT, complete);

/* The public numbers are those of the page. */
_Static_assert(NIXL_STATS_PUT == (int)NXR_STATS_PUT && NIXL_STATS_GET == (int)NXR_STATS_GET &&
                   NIXL_STATS_ATOMIC == (int)NXR_STATS_ATOMIC &&
                   NIXL_STATS_NOTIFY == (int)NXR_STATS_NOTIFY &&
                   NIXL_STATS_RECEIVE == (int)NXR_STATS_RECEIVE &&
                   NIXL_STATS_COLLECTIVE == (int)NXR_STATS_COLLECTIVE &&
                   NIXL_STATS_WAIT == (int)NXR_STATS_WAIT &&
                   NIXL_STATS_WAKE == (int)NXR_STATS_WAKE &&
                   NIXL_STATS_CHANNEL_SEND == (int)NXR_STATS_CHANNEL_SEND &&
                   NIXL_STATS_CHANNEL_RECEIVE == (int)NXR_STATS_CHANNEL_RECEIVE &&
                   NIXL_STATS_RAIL_SEND == (int)NXR_STATS_RAIL_SEND &&
                   NIXL_STATS_RAIL_RECEIVE == (int)NXR_STATS_RAIL_RECEIVE &&
                   NIXL_STATS_NBUCKETS == NXR_STATS_N_BUCKETS,
               "include/nixlrun/stats.h and util/stats_page.h agree");

static void stats_fill_times(struct nixl_stats_times *times, uint64_t sum_ns, uint64_t max_ns,
                             const uint64_t buckets[NXR_STATS_N_BUCKETS])
{
    *times = (struct nixl_stats_times){.sum_ns = sum_ns, .max_ns = max_ns};
    for (int i = 0; i < NXR_STATS_N_BUCKETS; i++) {
        times->buckets[i] = buckets[i];
        times->count += buckets[i];
    }
}

static void stats_fill(const struct nxr_stats_sum *sum, struct nixl_stats *stats_p)
{
    struct nixl_stats stats = {
        .rank = sum->peer,
        .op = sum->op,
        .nops = sum->n[NXR_STATS_OPS],
        .nbytes = sum->n[NXR_STATS_NBYTES],
        .nfailed = sum->n[NXR_STATS_FAILED],
        .nrequests = sum->n[NXR_STATS_REQUESTS],
        .nretries = sum->n[NXR_STATS_RETRIES],
        .nstages = sum->n[NXR_STATS_STAGES],
        .nmembers = sum->n_members,
    };

    memcpy(stats.transport, sum->transport, sizeof(stats.transport));
    memcpy(stats.method, sum->method, sizeof(stats.method));
    memcpy(stats.name, sum->name, sizeof(stats.name));
    stats_fill_times(&stats.post, sum->post_ns, sum->max_post_ns, sum->post);
    stats_fill_times(&stats.complete, sum->complete_ns, sum->max_complete_ns, sum->complete);
    stats_fill_times(&stats.wait, sum->wait_ns, sum->max_wait_ns, sum->wait);
    nxr_struct_write(&stats_type, &stats, stats_p);
}

/* Read all of this rank. Without a page there is nothing. */
static int stats_read_own(const char *operation, struct nxr_stats_reading *reading_p)
{
    size_t nbytes;
    const struct nxr_stats_head *head = nxr_stats_own(&nbytes);

    *reading_p = (struct nxr_stats_reading){.sums = NULL};
    return head == NULL || nxr_stats_read(head, nbytes, reading_p)
               ? NIXL_OK
               : nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory to read the counters");
}

static int stats_begin_call(const char *operation, const struct nixl_stats *stats_p,
                            struct nxr_stats_reading *reading_p)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK) {
        status = nxr_struct_check(operation, "stats_p", &stats_type, stats_p);
    }
    return status == NIXL_OK ? stats_read_own(operation, reading_p) : status;
}

int nixl_stats_query(unsigned index, struct nixl_stats *stats_p)
{
    struct nxr_stats_reading reading;
    int status = stats_begin_call("nixl_stats_query", stats_p, &reading);

    if (status != NIXL_OK) {
        return status;
    }
    if (index < reading.n_sums) {
        stats_fill(&reading.sums[index], stats_p);
    } else {
        status = nxr_fail(NIXL_E_NOT_FOUND, "nixl_stats_query", -1, "", 0,
                          "index %u; there are %zu counters", index, reading.n_sums);
    }
    nxr_stats_reading_free(&reading);
    return status;
}

static bool stats_matches(const struct nxr_stats_sum *sum, int rank, unsigned op,
                          const char *transport)
{
    return (rank == NIXL_ANY_RANK || sum->peer == rank) &&
           (op == NIXL_STATS_ANY ? sum->op < NXR_STATS_CHANNEL_SEND : sum->op == op) &&
           (transport == NULL || strcmp(sum->transport, transport) == 0);
}

int nixl_stats_sum(int rank, unsigned op, const char *transport, struct nixl_stats *stats_p)
{
    struct nxr_stats_sum sum = {.peer = rank == NIXL_ANY_RANK ? NXR_STATS_NO_PEER : rank, .op = op};
    struct nxr_stats_reading reading;
    int status = nxr_check_ready("nixl_stats_sum");

    if (status == NIXL_OK && rank != NIXL_ANY_RANK && !nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_stats_sum", rank);
    }
    if (status == NIXL_OK && op >= NXR_STATS_N_OPS && op != NIXL_STATS_ANY) {
        return nxr_fail(NIXL_E_INVALID_ARG, "nixl_stats_sum", rank, "", 0,
                        "operation %u; allowed: NIXL_STATS_PUT (0) to NIXL_STATS_RAIL_RECEIVE "
                        "(%d), NIXL_STATS_ANY",
                        op, NIXL_STATS_RAIL_RECEIVE);
    }
    if (status == NIXL_OK) {
        status = stats_begin_call("nixl_stats_sum", stats_p, &reading);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (transport != NULL) {
        strncpy(sum.transport, transport, sizeof(sum.transport) - 1);
    }
    for (size_t i = 0; i < reading.n_sums; i++) {
        if (stats_matches(&reading.sums[i], rank, op, transport)) {
            nxr_stats_sum_add(&sum, &reading.sums[i]);
        }
    }
    stats_fill(&sum, stats_p);
    nxr_stats_reading_free(&reading);
    return NIXL_OK;
}
