/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that computes, over the bare connection: what the machine can do for one. A thread of
 * rank 1 sleeps in the kernel until bytes come, takes or gives them, and sleeps again, while the
 * main thread computes. It has the core, the short slice and the precedence of the library's own
 * thread, so that it is placed no worse. While it runs, it alone uses the connection.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/thread_priority.h"
#include "util/thread.h"

#define STACK_NBYTES (256 * 1024)

static struct {
    struct bench *bench;
    pthread_t thread;
    long n_ops;
    int less_nice;
    bool is_get;
    atomic_bool has_ended;
} target;

static void serve(struct bench *bench)
{
    unsigned char *mine = bench->mine + bench->alignment.dst;
    uint64_t request = 0;

    if (target.is_get) {
        wire_receive(bench, 0, &request, sizeof(request), true);
        wire_send(bench, 0, mine, bench->nbytes);
    } else {
        wire_receive(bench, 0, mine, bench->nbytes, true);
        wire_send(bench, 0, "", 1);
    }
}

static void *run(void *unused)
{
    (void)unused;
    (void)nxr_thread_priority_start(target.less_nice, nxr_now_ns());
    nxr_thread_priority_take(nxr_now_ns(), 0);
    for (long i = 0; i < target.n_ops; i++) {
        serve(target.bench);
    }
    atomic_store_explicit(&target.has_ended, true, memory_order_release);
    return NULL;
}

/* What the library has read by itself. */
static int service_priority(void)
{
    struct nxr_env env;
    char why[256];

    return nxr_env_parse(&env, why, sizeof(why)) == NIXL_OK ? (int)env.service_priority : 0;
}

void bare_target_start(struct bench *bench, long n_ops, bool is_get)
{
    target.bench = bench;
    target.n_ops = n_ops;
    target.less_nice = service_priority();
    target.is_get = is_get;
    atomic_store(&target.has_ended, false);
    if (nxr_thread_start(&target.thread, STACK_NBYTES, run, NULL) != 0) {
        bench_die("nixl_bench: no thread for a bare target");
    }
}

bool bare_target_has_ended(void)
{
    return atomic_load_explicit(&target.has_ended, memory_order_acquire);
}

void bare_target_join(void)
{
    pthread_join(target.thread, NULL);
}

void bare_target_reach(struct bench *bench, bool is_get)
{
    unsigned char answer;
    uint64_t request = 0;

    if (is_get) {
        wire_send(bench, 1, &request, sizeof(request));
        wire_receive(bench, 1, bench->src, bench->nbytes, false);
    } else {
        wire_send(bench, 1, bench->src, bench->nbytes);
        wire_receive(bench, 1, &answer, sizeof(answer), false);
    }
}
