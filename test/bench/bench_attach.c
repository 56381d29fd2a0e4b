/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to a process of another job: three publishers, which this process starts itself, are
 * attached to and detached from in turn. One has published in a folder, one at a TCP port, both of
 * them reached by shared memory; the third one says that it is on another host, and so is reached
 * by a network. With --etcd a fourth one has published in etcd. The clock runs from the call to its
 * return, when the other side has been heard.
 */
#include "config.h"

#include "bench.h"
#include "util/clock.h"
#include "util/random.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME        "bench"
#define N_DEFAULT   200
#define N_WARM      5   /* the first ones open networks and map libraries */
#define ATTACH_GOAL 5e6 /* ns, p99 */
#define ETCD_GOAL   5e7
#define LOOK_NS     50000000

struct publisher {
    const char *what;
    double goal;
    bool is_far; /* it says that it is on another host */
    char where[512];
    pid_t pid;
    int end_fd; /* the publisher ends when this one is closed; 0: not started */
    double samples[BENCH_MAX_SAMPLES];
};

static struct publisher publishers[] = {
    {.what = "by a folder, over shared memory", .goal = ATTACH_GOAL},
    {.what = "by a TCP port, over shared memory",
     .goal = ATTACH_GOAL,
     .where = "tcp://127.0.0.1:0"},
    {.what = "by a TCP port, over a network",
     .goal = ATTACH_GOAL,
     .where = "tcp://127.0.0.1:0",
     .is_far = true},
    {.what = "by etcd, over shared memory", .goal = ETCD_GOAL}};
#define MAX_PUBLISHERS (sizeof(publishers) / sizeof(publishers[0]))
static size_t n_publishers = MAX_PUBLISHERS - 1; /* the last one: with --etcd */

/* ---- the publishers -------------------------------------------------------------------------- */

static bool is_over(int fd)
{
    char byte;

    return read(fd, &byte, 1) == 0;
}

/* Detach each process that leaves, until the end. */
static void serve(int end_fd)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (!is_over(end_fd)) {
        if (nixl_event_recv(LOOK_NS, &event) == NIXL_OK &&
            (event.type == NIXL_EVENT_PEER_LEFT || event.type == NIXL_EVENT_PEER_LOST)) {
            (void)nixl_detach(event.rank, 0);
        }
    }
}

static _Noreturn void be_publisher(const struct publisher *publisher, int tell_fd, int end_fd)
{
    char text[sizeof(publisher->where)] = "";

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < n_publishers; i++) {
        if (publishers[i].end_fd > 0) {
            close(publishers[i].end_fd); /* which ends another one */
        }
    }
    unsetenv("PMIX_NAMESPACE"); /* it is a job of its own */
    if (publisher->is_far) {
        setenv("NIXLRUN_HOSTID", "nixl_bench", 1);
    }
    bench_check(nixl_init(NULL), "nixl_init");
    bench_check(nixl_publish(publisher->where, NAME, ""), "nixl_publish");
    bench_check(nixl_publish_query(publisher->where, NAME, text, sizeof(text)),
                "nixl_publish_query");
    if (write(tell_fd, text, sizeof(text)) != (ssize_t)sizeof(text)) {
        bench_die("nixl_bench: cannot tell where: %s", strerror(errno));
    }
    fcntl(end_fd, F_SETFL, O_NONBLOCK);
    serve(end_fd);
    bench_check(nixl_finalize(), "nixl_finalize");
    exit(0);
}

/* Start it, and learn where it has published. */
static void publisher_start(struct publisher *publisher)
{
    int tell[2], end[2];

    if (pipe2(tell, O_CLOEXEC) != 0 || pipe2(end, O_CLOEXEC) != 0) {
        bench_die("nixl_bench: cannot make pipes: %s", strerror(errno));
    }
    publisher->pid = fork();
    if (publisher->pid == 0) {
        close(tell[0]);
        close(end[1]);
        be_publisher(publisher, tell[1], end[0]);
    }
    close(tell[1]);
    close(end[0]);
    publisher->end_fd = end[1];
    if (publisher->pid < 0 || read(tell[0], publisher->where, sizeof(publisher->where)) !=
                                  (ssize_t)sizeof(publisher->where)) {
        bench_die("nixl_bench: a publisher could not be started");
    }
    close(tell[0]);
}

static void publisher_end(const struct publisher *publisher)
{
    close(publisher->end_fd);
    waitpid(publisher->pid, NULL, 0);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static double attach_once(const struct publisher *publisher)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t start = nxr_now_ns(), end;
    int rank;

    bench_check(nixl_attach(publisher->where, NAME, "", BENCH_TIMEOUT_NS, &rank), "nixl_attach");
    end = nxr_now_ns();
    bench_check(nixl_detach(rank, BENCH_TIMEOUT_NS), "nixl_detach");
    while (nixl_event_recv(0, &event) == NIXL_OK) {
    }
    return (double)(end - start);
}

static void set_token(void)
{
    char text[33];
    uint64_t words[2];

    if (!nxr_random(words, sizeof(words))) {
        bench_die("nixl_bench: no random numbers for a token: %s", strerror(errno));
    }
    snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)words[0],
             (unsigned long long)words[1]);
    setenv("NIXLRUN_TOKEN", text, 1);
    unsetenv("NIXLRUN_TOKEN_FILE");
}

static void report_publisher(struct bench *bench, struct publisher *publisher, long n)
{
    struct bench_stats stats;

    sample_stats(publisher->samples, n, &stats);
    report_row(bench, &(struct bench_row){.test = "attach",
                                          .what = publisher->what,
                                          .unit = "ns",
                                          .value = stats.median_ns,
                                          .p99 = stats.p99_ns,
                                          .min = stats.min_ns,
                                          .goal = publisher->goal,
                                          .is_goal_p99 = true});
}

void test_attach(struct bench *bench)
{
    long n = bench->options.n_samples > 0 ? bench->options.n_samples : N_DEFAULT;
    char folder[] = "/tmp/nixl_bench.XXXXXX";

    n = n < BENCH_MAX_SAMPLES ? n : BENCH_MAX_SAMPLES;
    if (mkdtemp(folder) == NULL) {
        bench_die("nixl_bench: cannot make %s: %s", folder, strerror(errno));
    }
    snprintf(publishers[0].where, sizeof(publishers[0].where), "file:%s", folder);
    if (bench->options.etcd != NULL) {
        n_publishers = MAX_PUBLISHERS;
        snprintf(publishers[MAX_PUBLISHERS - 1].where, sizeof(publishers[0].where), "%s",
                 bench->options.etcd);
    }
    set_token();
    for (size_t i = 0; i < n_publishers; i++) {
        publisher_start(&publishers[i]);
    }
    bench_check(nixl_init(NULL), "nixl_init");
    bench->size = 1;
    for (long k = -N_WARM; k < n; k++) {
        for (size_t i = 0; i < n_publishers; i++) {
            double ns = attach_once(&publishers[i]);

            publishers[i].samples[k > 0 ? k : 0] = ns;
        }
    }
    report_begin(bench);
    for (size_t i = 0; i < n_publishers; i++) {
        report_publisher(bench, &publishers[i], n);
    }
    report_end(bench);
    bench_check(nixl_finalize(), "nixl_finalize");
    for (size_t i = 0; i < n_publishers; i++) {
        publisher_end(&publishers[i]);
    }
    rmdir(folder);
}
