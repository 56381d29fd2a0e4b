/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that are started separately, in place of two ranks of a job: the one that publishes
 * acts as rank 0, the one that attaches as rank 1. They run the tests between two ranks on one host
 * with the same options, which their schema states.
 */
#include "config.h"

#include "bench.h"

#include <string.h>

#define NAME         "nixl_bench"
#define SCHEMA_MAX   4096
#define WHERE_NBYTES 512

bool apart_is_possible(const struct bench_test *test)
{
    return test->min_ranks == 2 && test->max_ranks == 2 && !test->is_alone;
}

/* What both must have been given. */
static void make_schema(const struct bench_options *options, char schema[SCHEMA_MAX])
{
    size_t used = (size_t)snprintf(
        schema, SCHEMA_MAX, "%s budget %lld iters %ld window %ld%s%s%s memory %d:%d tests",
        PACKAGE_VERSION, (long long)options->budget_ns, options->n_samples, options->window,
        options->is_registered ? " registered" : "", options->is_fresh ? " fresh" : "",
        options->is_single ? " single" : "", options->there, options->here);

    for (int i = 0; i < options->n_tests && used < SCHEMA_MAX; i++) {
        used += (size_t)snprintf(schema + used, SCHEMA_MAX - used, " %s", options->tests[i]->name);
    }
    for (int i = 0; i < options->n_sizes && used < SCHEMA_MAX; i++) {
        used += (size_t)snprintf(schema + used, SCHEMA_MAX - used, " %llu",
                                 (unsigned long long)options->sizes[i]);
    }
    for (int i = 0; i < options->n_alignments && used < SCHEMA_MAX; i++) {
        used += (size_t)snprintf(schema + used, SCHEMA_MAX - used, " %zu:%zu",
                                 options->alignments[i].dst, options->alignments[i].src);
    }
}

/* Publish, and wait for the other one as long as that takes. */
static int await_other(const char *where, const char *schema)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    char place[WHERE_NBYTES];

    bench_check(nixl_publish(where, NAME, schema), "nixl_publish");
    bench_check(nixl_publish_query(where, NAME, place, sizeof(place)), "nixl_publish_query");
    fprintf(stderr, "nixl_bench: waits for: nixl_bench --attach %s ...\n", place);
    do {
        bench_check(nixl_event_recv(NIXL_FOREVER, &event), "nixl_event_recv");
    } while (event.type != NIXL_EVENT_PEER_JOINED);
    bench_check(nixl_unpublish(where, NAME), "nixl_unpublish");
    return event.rank;
}

void apart_open(struct bench *bench)
{
    const struct bench_options *options = &bench->options;
    char schema[SCHEMA_MAX];

    if (nixl_size() != 1) {
        bench_die(
            "nixl_bench: --publish and --attach are for two processes that are started alone; "
            "this job has %d ranks",
            nixl_size());
    }
    make_schema(options, schema);
    bench->size = 2;
    bench->rank = options->publish != NULL ? 0 : 1;
    if (options->publish != NULL) {
        bench->peer = await_other(options->publish, schema);
    } else {
        bench_check(nixl_attach(options->attach, NAME, schema, BENCH_TIMEOUT_NS, &bench->peer),
                    "nixl_attach");
    }
    if (nixl_scope(bench->peer) != NIXL_SCOPE_LOCAL) {
        bench_die("nixl_bench: --publish and --attach measure two processes that share memory, and "
                  "these do not");
    }
}

void apart_close(const struct bench *bench)
{
    (void)nixl_detach(bench->peer, BENCH_TIMEOUT_NS); /* the other one may have left */
}
