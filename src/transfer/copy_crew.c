/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew of the copy thread. Lock: crew_lock guards the threads and what they are called to; it
 * is a leaf, and never held while bytes move.
 */
#include "config.h"

#include "transfer/copy_crew.h"
#include "util/env.h"
#include "util/log.h"
#include "util/thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STACK_NBYTES (256 * 1024)
#define CREW_MAX     63
#define CREW_AUTO    7           /* more cores add little: they share the memory's channels */
#define EACH_NBYTES  (1ul << 20) /* less is not worth waking a thread, which takes some 10 us */

static pthread_mutex_t crew_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t crew_called = PTHREAD_COND_INITIALIZER;
static pthread_t crew[CREW_MAX];
static int n_crew;   /* threads that run */
static int n_most;   /* that may run; 0: none */
static int n_calls;  /* how many of those asleep are wanted */
static int n_online; /* cores of the host */
static bool (*crew_work)(void);
static bool crew_is_stopping;
static cpu_set_t crew_cpus;
static bool has_crew_cpus;

void nxr_copy_crew_init(int n_allowed, int n_sharing)
{
    int n_spare = n_sharing > 0 ? n_allowed / n_sharing - 2 : 0; /* the caller, the copy thread */
    int wanted = nxr_env.copy_threads > 0 ? (int)nxr_env.copy_threads - 1 : CREW_AUTO;

    n_most = n_spare < wanted ? n_spare : wanted;
    n_most = n_most < 0 ? 0 : n_most > CREW_MAX ? CREW_MAX : n_most;
    n_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    n_crew = n_calls = 0;
    crew_is_stopping = false;
    has_crew_cpus = sched_getaffinity(0, sizeof(crew_cpus), &crew_cpus) == 0;
}

int nxr_copy_crew_size(void)
{
    return n_most;
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* Sleep until called. False: the thread must end. */
static bool crew_wait(void)
{
    bool goes_on;

    pthread_mutex_lock(&crew_lock);
    while (n_calls == 0 && !crew_is_stopping) {
        pthread_cond_wait(&crew_called, &crew_lock);
    }
    n_calls -= n_calls > 0;
    goes_on = !crew_is_stopping;
    pthread_mutex_unlock(&crew_lock);
    return goes_on;
}

static void *crew_run(void *arg)
{
    (void)arg;
    if (has_crew_cpus) {
        sched_setaffinity(0, sizeof(crew_cpus), &crew_cpus); /* else its creator's */
    }
    nxr_thread_stand_back();
    while (crew_wait()) {
        while (crew_work()) {
        }
    }
    return NULL;
}

/* ---- calling --------------------------------------------------------------------------------- */

int nxr_copy_crew_idle_cores(const char *loadavg, int n_cores)
{
    int n_running;

    /* Its decimals have points, which are none in the locale that the program may have set. */
    if (sscanf(loadavg, "%*s %*s %*s %d/", &n_running) != 1 || n_running < 1) {
        return 0;
    }
    return n_running < n_cores ? n_cores - n_running : 0;
}

static int count_idle_cores(void)
{
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    char text[128];
    ssize_t n;

    if (fd < 0) {
        return 0;
    }
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return nxr_copy_crew_idle_cores(text, n_online);
}

int (*nxr_copy_crew_count_idle)(void) = count_idle_cores;

/* Caller holds crew_lock. As many as can be had. */
static void crew_grow(int n)
{
    while (n_crew < n) {
        int error = nxr_thread_start(&crew[n_crew], STACK_NBYTES, crew_run, NULL);

        if (error != 0) {
            nxr_info(CORE, "large copies are carried by %d threads less: %s", n_most - n_crew,
                     strerror(error));
            n_most = n_crew;
            return;
        }
        n_crew++;
    }
}

void nxr_copy_crew_call(size_t nbytes, bool (*work)(void))
{
    size_t n_useful = nbytes / EACH_NBYTES;
    int n_idle;

    if (n_most == 0 || nbytes < NXR_CREW_FROM_NBYTES) {
        return;
    }
    n_idle = nxr_copy_crew_count_idle() - 1; /* the copy thread takes one */
    n_idle = n_idle < n_most ? n_idle : n_most;
    if (n_idle <= 0) {
        return;
    }
    pthread_mutex_lock(&crew_lock);
    if (!crew_is_stopping) {
        n_calls = (size_t)n_idle < n_useful ? n_idle : (int)n_useful;
        crew_work = work;
        crew_grow(n_calls);
        for (int i = 0; i < n_calls; i++) {
            pthread_cond_signal(&crew_called);
        }
    }
    pthread_mutex_unlock(&crew_lock);
}

void nxr_copy_crew_stop(void)
{
    pthread_mutex_lock(&crew_lock);
    crew_is_stopping = true;
    pthread_cond_broadcast(&crew_called);
    pthread_mutex_unlock(&crew_lock);
    for (int i = 0; i < n_crew; i++) {
        pthread_join(crew[i], NULL);
    }
    n_crew = 0;
}
