/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that are started separately, in place of two ranks of a job: the one that publishes
 * acts as rank 0, the one that attaches as rank 1. They run the tests between two ranks and those
 * of collectives, on one host or on two, with the same options, which their schema states.
 *
 * No launcher ends the one when the other has died, and what waits in memory that both map would
 * never know. So a thread looks whether the other one lives, each LOOK_MS.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <poll.h>
#include <unistd.h>

#define NAME         "nixl_bench"
#define SOON_NS      1000000000 /* attaching that takes longer is told */
#define LOOK_MS      200
#define SCHEMA_MAX   4096
#define WHERE_NBYTES 512

static struct {
    pthread_t thread;
    int end_fd; /* readable: the thread is to end */
    int peer;
} watch;

bool apart_is_asked(const struct bench_options *options)
{
    return options->publish != NULL || options->attach != NULL;
}

bool apart_is_possible(const struct bench_test *test)
{
    if ((test->flags & BENCH_COLLECTIVE) != 0) {
        return true;
    }
    return test->min_ranks == 2 && test->max_ranks == 2 && (test->flags & BENCH_ALONE) == 0 &&
           test->run != test_death; /* which needs one that is told to die */
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

/* Attach, as soon as the other one has published. */
static int attach_to_other(const char *where, const char *schema)
{
    int64_t began_ns = nxr_now_ns();
    int peer, status = nixl_attach(where, NAME, schema, SOON_NS, &peer);

    if (status != NIXL_OK && nxr_now_ns() - began_ns >= SOON_NS) { /* nobody has published so far */
        fprintf(stderr, "nixl_bench: waits up to %lld s for: nixl_bench --publish %s ...\n",
                BENCH_TIMEOUT_NS / 1000000000, where);
        status = nixl_attach(where, NAME, schema, BENCH_TIMEOUT_NS, &peer);
    }
    bench_check(status, "nixl_attach");
    return peer;
}

static void *watch_other(void *arg)
{
    struct pollfd end = {.fd = watch.end_fd, .events = POLLIN};

    (void)arg;
    while (poll(&end, 1, LOOK_MS) == 0) {
        if (nixl_peer_state(watch.peer) == NIXL_PEER_LOST) { /* one that detaches has finished */
            bench_die("the other nixl_bench has died");
        }
    }
    return NULL;
}

static void watch_begin(int peer)
{
    watch.peer = peer;
    watch.end_fd = eventfd(0, EFD_CLOEXEC);
    if (watch.end_fd < 0 || pthread_create(&watch.thread, NULL, watch_other, NULL) != 0) {
        bench_die("no thread to look after the other nixl_bench");
    }
}

static void watch_end(void)
{
    if (eventfd_write(watch.end_fd, 1) == 0) {
        pthread_join(watch.thread, NULL);
    }
    close(watch.end_fd);
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
    bench->peer = options->publish != NULL ? await_other(options->publish, schema)
                                           : attach_to_other(options->attach, schema);
    watch_begin(bench->peer);
}

struct nixl_team *apart_team(const struct bench *bench)
{
    struct nixl_team *team;
    int ranks[2];

    ranks[bench->rank] = nixl_rank();
    ranks[1 - bench->rank] = bench->peer;
    bench_check(nixl_team_reform(ranks, 2, BENCH_TIMEOUT_NS, &team), "nixl_team_reform");
    return team;
}

void apart_close(const struct bench *bench)
{
    watch_end();
    (void)nixl_detach(bench->peer, BENCH_TIMEOUT_NS); /* the other one may have left */
}
