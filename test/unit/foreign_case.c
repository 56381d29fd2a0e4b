/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "test/unit/foreign_case.h"

#include "launcher/guardian.h"
#include "launcher/loop.h"
#include "util/clock.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct launch_job case_job;
struct engine case_engine;

static struct engine_task task;
static int outputs[2], inputs[2]; /* what nixlrun writes; what the engine writes */
static char signals[256], words[8] = "./app";
static int64_t now_ns = 1000 * NXR_S;

/* ---- what stands below: the clock, names, the guardian --------------------------------------- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
void __wrap_guardian_signal(int id, int signal);
int __wrap_guardian_start(const struct guardian_start *start);
void __wrap_guardian_kill_all(void);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found);
void __wrap_freeaddrinfo(struct addrinfo *found);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
    (void)clock;
    ts->tv_sec = now_ns / NXR_S;
    ts->tv_nsec = now_ns % NXR_S;
    return 0;
}

static void note(const char *what, int number)
{
    size_t used = strlen(signals);

    snprintf(signals + used, sizeof(signals) - used, "%s%d ", what, number);
}

void __wrap_guardian_signal(int id, int signal)
{
    cr_expect_eq(id, FOREIGN_ENGINE);
    note("", signal);
}

int __wrap_guardian_start(const struct guardian_start *start)
{
    cr_expect_eq(start->id, FOREIGN_SIGNALLER);
    cr_expect_eq(start->end_signal, 0);
    for (char **word = start->argv; *word != NULL; word++) {
        size_t used = strlen(signals);

        snprintf(signals + used, sizeof(signals) - used, "%s ", *word);
    }
    return 0;
}

/* No name has an address, but for h0. */
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    (void)service;
    (void)hints;
    *found = NULL;
    return strcmp(name, "h0") == 0 ? 0 : EAI_NONAME;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
    cr_expect_eq(found, NULL);
}

void __wrap_guardian_kill_all(void)
{
    note("kill all ", SIGKILL);
}

/* ---- the job --------------------------------------------------------------------------------- */

void case_prepare(const struct engine *engine, int np)
{
    static char *argv[] = {words, NULL}, *env[] = {NULL};
    static struct launch_app app;
    static struct launch_host hosts[16];
    static char names[16][12];

    app = (struct launch_app){.np = np, .argv = argv, .env = env};
    for (int i = 0; i < np; i++) {
        snprintf(names[i], sizeof(names[i]), "h%d", i);
        hosts[i] = (struct launch_host){.name = names[i], .n_ranks = 1};
    }
    case_job = (struct launch_job){.apps = &app,
                                   .n_apps = 1,
                                   .np = np,
                                   .hosts = hosts,
                                   .n_hosts = np,
                                   .timeout_ns = INT64_MAX,
                                   .grace_ns = 5 * NXR_S};
    case_engine = *engine;
    task = (struct engine_task){
        .job = &case_job, .engine = &case_engine, .rank_program = "/opt/nixlrun-rank", .major = 4};
}

void case_open(void)
{
    static char name[] = "engine";

    for (int i = 0; i < 2; i++) {
        outputs[i] = memfd_create("output", 0);
        cr_assert_geq(dup2(outputs[i], i + 1), 0);
    }
    cr_assert_eq(loop_open(), 0);
    cr_assert_eq(sink_open_standard(), 0);
    foreign =
        (struct foreign_run){.task = &task, .job = &case_job, .name = name, .is_running = true};
    foreign_ranks_open();
    cr_assert_eq(foreign_output_open(&task, foreign_ranks_report, inputs), 0);
    foreign_ranks_watch();
}

static void run(const struct engine *engine, int np, enum launch_on_failure on_failure)
{
    case_prepare(engine, np);
    case_job.on_failure = on_failure;
    case_open();
    for (int i = 0; i < np; i++) {
        case_start(i);
    }
}

void case_run(const struct engine *engine, int np)
{
    run(engine, np, ON_FAILURE_ABORT);
}

void case_continue(const struct engine *engine, int np)
{
    run(engine, np, ON_FAILURE_CONTINUE);
}

void case_pass(int64_t ns)
{
    int64_t end_ns = now_ns + ns;
    struct loop_timer now = {.fire = NULL};

    do {
        now_ns += ns > NXR_S && now_ns + NXR_S < end_ns ? NXR_S : end_ns - now_ns;
        /* A timer that is due keeps the loop from waiting; two steps serve what the first made. */
        for (int i = 0; i < 2; i++) {
            now = (struct loop_timer){.fire = loop_timer_clear};
            loop_timer_set(&now, now_ns);
            loop_step();
            foreign_output_continue();
        }
    } while (now_ns < end_ns);
}

const char *case_text(int which)
{
    static char text[8 * 1024 * 1024];
    ssize_t n;

    sink_flush_all();
    n = pread(outputs[which], text, sizeof(text) - 1, 0);
    cr_assert_geq(n, 0);
    text[n] = '\0';
    return text;
}

const char *case_signals(void)
{
    return signals;
}

void case_report(int rank, enum rank_report_kind kind, int value)
{
    char host[16];

    snprintf(host, sizeof(host), "h%d", rank);
    foreign_ranks_report(rank, host, 100 + rank, kind, value);
}

void case_start(int rank)
{
    case_report(rank, RANK_REPORT_STARTED, 0);
}

void case_end(int rank, int wait_status)
{
    case_report(rank, RANK_REPORT_ENDED, wait_status);
}

bool case_leaves_all(int which, const char *text)
{
    return write(inputs[which], text, strlen(text)) == (ssize_t)strlen(text);
}

void case_leave(int which, const char *text)
{
    cr_assert(case_leaves_all(which, text));
}

void case_write(int which, const char *text)
{
    case_leave(which, text);
    case_pass(0);
}

void case_close(int which)
{
    close(inputs[which]);
    case_pass(0);
}

int case_judge(int wait_status)
{
    foreign.is_running = false;
    foreign.wait_status = wait_status;
    foreign_end_done();
    for (int i = 0; i < 2; i++) {
        case_close(i);
    }
    return foreign_judge();
}

void case_ends(int wait_status, int code, const char *lines)
{
    cr_expect_eq(case_judge(wait_status), code);
    cr_expect_str_eq(case_text(1), lines);
}
