/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The upcalls of PMIx: the queue from its threads to ours, and the way back, by which its thread
 * gives our answers. The queue has the only lock of the launcher.
 */
#include "config.h"

#include "launcher/processes.h"
#include "launcher/server.h"
#include "launcher/sink.h"
#include "util/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* All that an ended rank has sent is served once PMIx's thread went idle so often without more. */
#define N_IDLE  2
#define IDLE_NS (2 * NXR_S)   /* it takes microseconds to go idle, unless it is stuck */
#define LOOK_NS (50 * NXR_US) /* between two looks at its state */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_over = PTHREAD_COND_INITIALIZER;
static struct upcall *queue_first, **queue_last = &queue_first; /* guarded by queue_lock */
static uint64_t n_turns_asked, n_turns;                         /* likewise */
static pid_t pmix_thread;                                       /* likewise */
static const void *_Atomic last_queued; /* done_arg of the upcall that was queued last */

static void queue_ready(struct loop_fd *watch, uint32_t events);
static struct loop_fd queue_watch = {.fd = -1, .ready = queue_ready};

/*
 * PMIx's thread calls this, and gives all answers. PMIx 5 reports the end of a group twice, without
 * an answer in between, and frees the group's data at each answer: so the second report gets none.
 */
pmix_status_t upcall_queue(const struct upcall *call)
{
    struct upcall *copy;
    uint64_t one = 1;

    if (call->done_arg != NULL && call->done_arg == last_queued) {
        return PMIX_SUCCESS;
    }
    copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        return PMIX_ERR_NOMEM;
    }
    last_queued = call->done_arg;
    *copy = *call;
    copy->next = NULL;
    pthread_mutex_lock(&queue_lock);
    *queue_last = copy;
    queue_last = &copy->next;
    pthread_mutex_unlock(&queue_lock);
    if (write(queue_watch.fd, &one, sizeof(one)) < 0) {
        return PMIX_SUCCESS; /* the counter is full: the loop is awake */
    }
    return PMIX_SUCCESS;
}

/* Serve what is queued. Did any of it come from this process? */
static bool queue_serve(const pmix_proc_t *proc)
{
    struct upcall *call, *next;
    bool is_from_it = false;

    pthread_mutex_lock(&queue_lock);
    call = queue_first;
    queue_first = NULL;
    queue_last = &queue_first;
    pthread_mutex_unlock(&queue_lock);
    for (; call != NULL; call = next) {
        next = call->next;
        is_from_it = is_from_it || (proc != NULL && PMIX_CHECK_PROCID(proc, &call->from));
        call->serve(call);
    }
    return is_from_it;
}

void server_serve(void)
{
    (void)queue_serve(NULL);
}

/*
 * Have a function called on PMIx's thread. It is the end of a call that changes nothing, since
 * there is no such client.
 */
static void on_pmix_thread(pmix_op_cbfunc_t function, void *arg)
{
    pmix_proc_t nobody;

    PMIX_LOAD_PROCID(&nobody, "nixlrun.turn", 0);
    PMIx_server_deregister_client(&nobody, function, arg);
}

static void turn_ended(pmix_status_t status, void *arg)
{
    (void)status;
    (void)arg;
    pthread_mutex_lock(&queue_lock);
    n_turns++;
    pmix_thread = gettid();
    pthread_cond_signal(&turn_over);
    pthread_mutex_unlock(&queue_lock);
}

/*
 * Have PMIx's thread call a function of ours. False: it is stuck. PMIx 4.2 may lock what it has
 * freed when ranks of a program die in PMIx_Fence().
 */
static bool wait_for_a_turn(int64_t end_ns)
{
    const struct timespec until = nxr_timespec(end_ns);
    bool is_late, was_stuck;

    pthread_mutex_lock(&queue_lock);
    was_stuck = n_turns < n_turns_asked;
    n_turns_asked += !was_stuck;
    pthread_mutex_unlock(&queue_lock);
    if (was_stuck) {
        return false;
    }
    on_pmix_thread(turn_ended, NULL);
    pthread_mutex_lock(&queue_lock);
    while (n_turns < n_turns_asked &&
           pthread_cond_clockwait(&turn_over, &queue_lock, CLOCK_MONOTONIC, &until) == 0) {
    }
    is_late = n_turns < n_turns_asked;
    pthread_mutex_unlock(&queue_lock);
    if (is_late) {
        sink_say("PMIx's thread in nixlrun does not answer: what ranks ask for may be lost");
    }
    return !is_late;
}

/*
 * Wait until PMIx's thread sleeps: then it has polled its connections and has read everything. A
 * function that it calls for us is no proof of that, since it runs all such functions before it
 * polls again. False: it is stuck.
 */
static bool wait_until_idle(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    int64_t end_ns = nxr_deadline(IDLE_NS);

    if (!wait_for_a_turn(end_ns)) {
        return false;
    }
    while (strchr("RD", process_letter(pmix_thread)) != NULL && nxr_now_ns() < end_ns) {
        nanosleep(&pause, NULL);
    }
    return true;
}

void server_hear_out(const struct rank *rank)
{
    const pmix_proc_t proc = rank_proc(rank);
    int n_idle = 0;

    while (n_idle < N_IDLE && rank->is_connected && wait_until_idle()) {
        n_idle = queue_serve(&proc) ? 0 : n_idle + 1;
    }
}

static void queue_ready(struct loop_fd *watch, uint32_t events)
{
    uint64_t count;

    (void)events;
    if (read(watch->fd, &count, sizeof(count)) > 0) {
        server_serve();
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void upcall_free(struct upcall *call)
{
    if (call->answer != NULL) {
        PMIX_INFO_FREE(call->answer, call->n_answer);
    }
    if (call->found != NULL) {
        PMIX_PDATA_FREE(call->found, call->n_found);
    }
    free(call->text);
    free(call->own_procs);
    free(call);
}

static void release_answer(void *arg)
{
    upcall_free(arg);
}

/* On PMIx's thread. 4.2 passes no function with some upcalls, so each is tested. */
static void give_answer(pmix_status_t status, void *arg)
{
    struct upcall *call = arg;

    (void)status;
    last_queued = NULL; /* PMIx frees it, and may use that address again */
    if (call->info_done != NULL) {
        call->info_done(call->status, call->answer, call->n_answer, call->done_arg, release_answer,
                        call);
        return;
    }
    if (call->op_done != NULL) {
        call->op_done(call->status, call->done_arg);
    } else if (call->lookup_done != NULL) {
        call->lookup_done(call->status, call->found, call->n_found, call->done_arg);
    } else if (call->spawn_done != NULL) {
        call->spawn_done(call->status, call->text, call->done_arg);
    } else if (call->modex_done != NULL) {
        call->modex_done(call->status, call->blob, call->blob_nbytes, call->done_arg, free,
                         call->blob);
    }
    upcall_free(call);
}

/*
 * PMIx 4.2 puts the answer to a query or a look-up into its list of what it sends to that client,
 * on the thread that answers and without a lock. Its own thread sends from that list, so that a
 * message may be lost. That thread gives all answers, therefore.
 */
void upcall_answer(struct upcall *call, pmix_status_t status)
{
    loop_timer_clear(&call->timer);
    call->status = status;
    on_pmix_thread(give_answer, call);
}

void upcall_answer_info(struct upcall *call, pmix_status_t status, pmix_info_t *info, size_t n)
{
    call->answer = info;
    call->n_answer = n;
    upcall_answer(call, status);
}

int upcalls_open(void)
{
    queue_watch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue_watch.fd < 0 || loop_watch(&queue_watch, EPOLLIN) != 0) {
        sink_say("cannot create an event descriptor: %s", strerror(errno));
        return -1;
    }
    return 0;
}
