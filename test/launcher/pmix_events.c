/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PMIx client for ends and events: which ranks learn of a death and how soon, events of
 * clients, log, I/O forwarding, and the ways to leave a job.
 */
#include "pmix_client.h"

#include <pmix_tool.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

static struct signal heard = SIGNAL_INIT;
static pmix_status_t heard_code;
static pmix_proc_t heard_of;
static int64_t heard_us;

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[],
                     size_t n_info, pmix_info_t *results, size_t n_results,
                     pmix_event_notification_cbfunc_fn_t done, void *arg)
{
    (void)id;
    (void)results;
    (void)n_results;
    heard_us = now_us();
    heard_code = code;
    heard_of = *source;
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
            heard_of = *info[i].value.data.proc;
        }
    }
    signal_tell(&heard);
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
    }
}

static void listen_for(pmix_status_t code)
{
    CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) >= 0);
}

/*
 * The last rank dies by SIGKILL after it has written the time into a file that all share (argv[2]).
 * Each survivor prints how long the event took, in microseconds, and passes a fence of survivors.
 */
static void run_death(int argc, char **argv)
{
    int fd = open(argv[2], O_RDWR | O_CREAT, 0600);
    volatile int64_t *died_us;

    CHECK(argc == 3 && fd >= 0 && ftruncate(fd, 4096) == 0);
    died_us = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(died_us != MAP_FAILED);
    listen_for(PMIX_ERR_PROC_ABORTED_BY_SIG);
    fence();
    if (self.rank == job_size - 1) {
        *died_us = now_us();
        raise(SIGKILL);
    }
    signal_wait(&heard, 1);
    CHECK(heard_code == PMIX_ERR_PROC_ABORTED_BY_SIG && heard_of.rank == job_size - 1);
    printf("event after %lld us\n", (long long)(heard_us - *died_us));
    fence();
}

/* An event of rank 0 reaches the others. */
static void run_notify(int argc, char **argv)
{
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 7;

    (void)argc;
    (void)argv;
    listen_for(code);
    fence();
    if (self.rank == 0) {
        CHECK(PMIx_Notify_event(code, &self, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL) >=
              PMIX_OPERATION_SUCCEEDED);
    }
    signal_wait(&heard, 1);
    CHECK(heard_code == code && heard_of.rank == 0);
    fence();
}

/* A line for stderr and one for stdout, written by the launcher. */
static void run_log(int argc, char **argv)
{
    pmix_info_t line[2];

    (void)argc;
    (void)argv;
    if (self.rank == 0) {
        PMIX_INFO_LOAD(&line[0], PMIX_LOG_STDERR, "logged to stderr\n", PMIX_STRING);
        PMIX_INFO_LOAD(&line[1], PMIX_LOG_STDOUT, "logged to stdout\n", PMIX_STRING);
        CHECK_OK(PMIx_Log(line, 2, NULL, 0));
    }
    fence();
}

/* ---- I/O forwarding -------------------------------------------------------------------------- */

static char pulled[64];

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source,
                      pmix_byte_object_t *bytes, pmix_info_t info[], size_t n_info)
{
    (void)id;
    (void)info;
    (void)n_info;
    if (channel == PMIX_FWD_STDOUT_CHANNEL && source->rank == 1 && bytes->size < sizeof(pulled) &&
        bytes->size > 0) {
        memcpy(pulled, bytes->bytes, bytes->size);
        signal_tell(&heard);
    }
}

/* Rank 0 gets what rank 1 writes; the launcher still writes it too. */
static void run_iof(int argc, char **argv)
{
    pmix_proc_t peer;

    (void)argc;
    (void)argv;
    PMIX_LOAD_PROCID(&peer, self.nspace, 1);
    if (self.rank == 0) {
        CHECK(PMIx_IOF_pull(&peer, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, NULL, NULL) >=
              0);
    }
    fence();
    if (self.rank == 1) {
        printf("forwarded twice\n");
        fflush(stdout);
    }
    if (self.rank == 0) {
        signal_wait(&heard, 1);
        CHECK(strcmp(pulled, "forwarded twice\n") == 0);
    }
    fence();
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void wait_for_ever(void)
{
    for (;;) {
        pause();
    }
}

/* Rank 1 ends the job with the code of argv[2]. */
static void run_abort(int argc, char **argv)
{
    fence();
    if (self.rank == 1) {
        PMIx_Abort(argc > 2 ? atoi(argv[2]) : 1, "had enough", NULL, 0);
    }
    wait_for_ever();
}

/* Rank 1 leaves with exit code 0 without PMIx_Finalize. */
static void run_nofinalize(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fence();
    if (self.rank == 1) {
        _exit(0);
    }
    wait_for_ever();
}

/* All wait until they are ended; the first line says that they are ready. */
static void run_wait(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fence();
    printf("ready\n");
    fflush(stdout);
    wait_for_ever();
}

static void run_quick(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fence();
}

/* Init and finalize, without the others. */
static void run_alone(int argc, char **argv)
{
    (void)argc;
    (void)argv;
}

int main(int argc, char **argv)
{
    static const struct service services[] = {
        {"death", run_death},
        {"notify", run_notify},
        {"log", run_log},
        {"iof", run_iof},
        {"abort", run_abort},
        {"wait", run_wait},
        {"nofinalize", run_nofinalize},
        {"quick", run_quick},
        {"alone", run_alone},
    };

    return client_main(argc, argv, services, sizeof(services) / sizeof(services[0]));
}
