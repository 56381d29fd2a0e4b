/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PMIx client. Every call that may block runs as its _nb form, or on a thread of its own, under
 * our deadline: a late answer finds a heap object that it frees or nobody looks at, never a stack.
 *
 * Lock: `lock` guards the objects that are shared with PMIx's progress thread.
 */
#include "config.h"

#include "boot/boot.h"
#include "nixlrun.h"
#include "util/clock.h"
#include "util/log.h"

#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CARD_KEY "nixlrun.card"

static pmix_proc_t myself;
static bool is_connected;
static unsigned n_connects; /* how often this process has joined the job */
static nxr_boot_event_fn *on_event;

/* ---- one call under a deadline -------------------------------------------------------------- */

/* A call in progress. Two hold it, the caller and the answer; who lets go last frees it. */
struct call {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int holders;
    bool is_done;
    pmix_status_t status;
    pmix_status_t (*blocking_fn)(void); /* for calls that have no _nb form */
};

static struct call *call_new(void)
{
    struct call *call = calloc(1, sizeof(*call));
    pthread_condattr_t attributes;

    if (call != NULL) {
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_mutex_init(&call->lock, NULL);
        pthread_cond_init(&call->ended, &attributes);
        pthread_condattr_destroy(&attributes);
        call->holders = 2;
    }
    return call;
}

static void call_release(struct call *call)
{
    bool is_last;

    pthread_mutex_lock(&call->lock);
    is_last = --call->holders == 0;
    pthread_mutex_unlock(&call->lock);
    if (is_last) {
        pthread_cond_destroy(&call->ended);
        pthread_mutex_destroy(&call->lock);
        free(call);
    }
}

static void call_finish(struct call *call, pmix_status_t status)
{
    pthread_mutex_lock(&call->lock);
    call->is_done = true;
    call->status = status;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->lock);
    call_release(call);
}

static void call_ended(pmix_status_t status, void *arg)
{
    call_finish(arg, status);
}

/* Wait for the answer and let the call go. PMIX_ERR_TIMEOUT if none came. */
static pmix_status_t call_wait(struct call *call, int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);
    struct timespec until = nxr_timespec(deadline);
    pmix_status_t status = PMIX_ERR_TIMEOUT;

    pthread_mutex_lock(&call->lock);
    while (!call->is_done) {
        if (deadline == INT64_MAX) {
            pthread_cond_wait(&call->ended, &call->lock);
        } else if (pthread_cond_timedwait(&call->ended, &call->lock, &until) != 0) {
            break;
        }
    }
    if (call->is_done) {
        status = call->status;
    }
    pthread_mutex_unlock(&call->lock);
    call_release(call);
    return status;
}

static void *run_blocking(void *arg)
{
    struct call *call = arg;

    call_finish(call, call->blocking_fn());
    return NULL;
}

/* Run a blocking PMIx call on a thread of its own; a call that hangs keeps that thread. */
static pmix_status_t call_blocking(pmix_status_t (*fn)(void), int64_t timeout_ns)
{
    struct call *call = call_new();
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    if (call == NULL) {
        return PMIX_ERR_NOMEM;
    }
    call->blocking_fn = fn;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, run_blocking, call);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        call->holders = 1;
        call_release(call);
        return PMIX_ERR_NOMEM;
    }
    return call_wait(call, timeout_ns);
}

static int explain(pmix_status_t status, const char *what, char *why, size_t why_nbytes)
{
    if (status == PMIX_ERR_TIMEOUT) {
        snprintf(
            why, why_nbytes,
            "%s: no answer within NIXLRUN_INIT_TIMEOUT; is the launcher of PMIX_NAMESPACE=%.60s "
            "alive, and did all ranks call nixl_init?",
            what, myself.nspace[0] != '\0' ? myself.nspace : getenv("PMIX_NAMESPACE"));
        return NIXL_ERR_TIMEOUT;
    }
    snprintf(
        why, why_nbytes,
        "%s: %s (%d); PMIX_NAMESPACE=%.60s is set, so a launcher's server should answer; unset it "
        "to run alone",
        what, PMIx_Error_string(status), status, getenv("PMIX_NAMESPACE"));
    return NIXL_ERR_TRANSPORT;
}

/* ---- joining -------------------------------------------------------------------------------- */

static pmix_status_t init_pmix(void)
{
    return PMIx_Init(&myself, NULL, 0);
}

/* A number of the job, whatever integer type the engine gives it; -1 if it gives none. */
static long job_number(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    pmix_status_t status;
    long number = -1;

    PMIX_LOAD_PROCID(&proc, myself.nspace, rank);
    status = PMIx_Get(&proc, key, NULL, 0, &value);
    if (status == PMIX_SUCCESS && value != NULL) {
        PMIX_VALUE_GET_NUMBER(status, value, number, long);
        PMIX_VALUE_RELEASE(value);
    }
    return status == PMIX_SUCCESS ? number : -1;
}

/* A death, or the loss of the server. Runs on PMIx's thread. */
static void handle_event(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                         pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                         pmix_event_notification_cbfunc_fn_t done_fn, void *done_arg)
{
    const pmix_proc_t *affected = source;

    (void)handler;
    (void)results;
    (void)n_results;
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC) {
            affected = info[i].value.data.proc;
        }
    }
    if (status == PMIX_ERR_LOST_CONNECTION) {
        on_event(-1);
    } else if (affected != NULL && PMIX_CHECK_NSPACE(affected->nspace, myself.nspace) &&
               PMIX_RANK_IS_VALID(affected->rank)) {
        on_event((int)affected->rank);
    }
    if (done_fn != NULL) {
        done_fn(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
    }
}

/*
 * Codes must be named: some servers give a default handler nothing. Not every engine can: no error.
 */
static void watch_events(void)
{
    static pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED,
                                    PMIX_ERR_EXIT_NONZERO_TERM, PMIX_ERR_PROC_TERM_WO_SYNC,
                                    PMIX_ERR_LOST_CONNECTION};

    PMIx_Register_event_handler(codes, sizeof(codes) / sizeof(codes[0]), NULL, 0, handle_event,
                                NULL, NULL);
}

int nxr_boot_start(int64_t timeout_ns, nxr_boot_event_fn *event_fn, struct nxr_boot_info *info_p,
                   char *why, size_t why_nbytes)
{
    const char *nspace = getenv("PMIX_NAMESPACE");
    struct nxr_boot_info info = {.rank = 0, .size = 1, .n_local = 1, .is_alone = true};
    pmix_status_t status;
    long size, n_local, incarnation;

    on_event = event_fn;
    if (nspace == NULL || nspace[0] == '\0') {
        *info_p = info;
        return NIXL_OK;
    }
    status = call_blocking(init_pmix, timeout_ns);
    if (status != PMIX_SUCCESS) {
        return explain(status, "PMIx_Init", why, why_nbytes);
    }
    is_connected = true;
    n_connects++;
    size = job_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
    if (size < 1 || size > INT32_MAX || myself.rank >= (unsigned long)size) {
        snprintf(why, why_nbytes, "the launcher says rank %u of %ld ranks, which cannot be",
                 myself.rank, size);
        nxr_boot_stop(timeout_ns);
        return NIXL_ERR_TRANSPORT;
    }
    incarnation = job_number(myself.rank, PMIX_REINCARNATION);
    n_local = job_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE);
    info.n_local = n_local > 0 && n_local <= size ? (int)n_local : (int)size;
    info.rank = (int)myself.rank;
    info.size = (int)size;
    info.incarnation = incarnation > 0 ? (uint32_t)incarnation : 0;
    info.is_alone = false;
    watch_events();
    *info_p = info;
    return NIXL_OK;
}

/* A fence that collects data is the one that is a barrier under every engine. */
static pmix_status_t collecting_fence(int64_t timeout_ns)
{
    struct call *call = call_new();
    pmix_proc_t everybody;
    pmix_info_t collect;
    bool yes = true;
    pmix_status_t status;

    if (call == NULL) {
        return PMIX_ERR_NOMEM;
    }
    PMIX_LOAD_PROCID(&everybody, myself.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    status = PMIx_Fence_nb(&everybody, 1, &collect, 1, call_ended, call);
    if (status != PMIX_SUCCESS) {
        call_finish(call, status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status);
    }
    return call_wait(call, timeout_ns);
}

/*
 * The fence of joining. A process that joins again may be faster than others that are still
 * leaving: the server then ends the fence without them, for all who are in it, and they try again.
 */
static pmix_status_t joining_fence(int64_t timeout_ns)
{
    const struct timespec nap = nxr_timespec(NXR_MS);
    int64_t deadline = nxr_deadline(timeout_ns), left_ns = timeout_ns;
    pmix_status_t status;

    for (;;) {
        status = collecting_fence(left_ns);
        if (status != PMIX_ERR_PARTIAL_SUCCESS || n_connects == 1) {
            return status;
        }
        nanosleep(&nap, NULL);
        left_ns = deadline == INT64_MAX ? INT64_MAX : deadline - nxr_now_ns();
        if (left_ns <= 0) {
            return PMIX_ERR_TIMEOUT;
        }
    }
}

int nxr_boot_exchange(const struct nxr_card *card, int64_t timeout_ns, char *why, size_t why_nbytes)
{
    pmix_value_t value;
    pmix_status_t status;

    if (!is_connected) {
        return NIXL_OK;
    }
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)card;
    value.data.bo.size = sizeof(*card);
    status = PMIx_Put(PMIX_GLOBAL, CARD_KEY, &value);
    if (status == PMIX_SUCCESS) {
        status = PMIx_Commit();
    }
    if (status != PMIX_SUCCESS) {
        return explain(status, "PMIx_Commit", why, why_nbytes);
    }
    status = joining_fence(timeout_ns);
    return status == PMIX_SUCCESS ? NIXL_OK : explain(status, "PMIx_Fence", why, why_nbytes);
}

int nxr_boot_barrier(int64_t timeout_ns)
{
    pmix_status_t status = is_connected ? collecting_fence(timeout_ns) : PMIX_SUCCESS;

    return status == PMIX_SUCCESS       ? NIXL_OK
           : status == PMIX_ERR_TIMEOUT ? NIXL_ERR_TIMEOUT
                                        : NIXL_ERR_TRANSPORT;
}

/* ---- cards of others ------------------------------------------------------------------------- */

struct card_ask {
    int rank;
    nxr_boot_card_fn *card_fn;
};

static void card_came(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct card_ask *ask = arg;
    struct nxr_card card;
    bool is_good = status == PMIX_SUCCESS && value != NULL && value->type == PMIX_BYTE_OBJECT &&
                   nxr_card_parse(value->data.bo.bytes, value->data.bo.size, ask->rank, &card) == 0;

    if (!is_good) {
        nxr_debug(BOOT, "no card of rank %d: %s", ask->rank, PMIx_Error_string(status));
    }
    ask->card_fn(ask->rank, is_good ? &card : NULL);
    free(ask);
}

void nxr_boot_get_card(int rank, nxr_boot_card_fn *card_fn)
{
    struct card_ask *ask = malloc(sizeof(*ask));
    pmix_proc_t proc;
    pmix_status_t status = PMIX_ERR_NOMEM;

    if (ask != NULL) {
        *ask = (struct card_ask){rank, card_fn};
        PMIX_LOAD_PROCID(&proc, myself.nspace, (pmix_rank_t)rank);
        status = PMIx_Get_nb(&proc, CARD_KEY, NULL, 0, card_came, ask);
    }
    if (status != PMIX_SUCCESS) {
        free(ask);
        nxr_debug(BOOT, "cannot ask for the card of rank %d: %s", rank, PMIx_Error_string(status));
        card_fn(rank, NULL);
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

static pmix_status_t finalize_pmix(void)
{
    return PMIx_Finalize(NULL, 0);
}

void nxr_boot_stop(int64_t timeout_ns)
{
    if (!is_connected) {
        return;
    }
    is_connected = false;
    if (call_blocking(finalize_pmix, timeout_ns) == PMIX_ERR_TIMEOUT) {
        nxr_warn(BOOT, "PMIx_Finalize did not return in time; left behind");
    }
}

bool nxr_boot_is_nixlrun(void)
{
    return is_connected && strncmp(myself.nspace, "nixlrun.", strlen("nixlrun.")) == 0;
}

static struct {
    int exit_code;
    const char *why;
} abort_request;

static pmix_status_t abort_pmix(void)
{
    return PMIx_Abort(abort_request.exit_code, abort_request.why, NULL, 0);
}

void nxr_boot_abort(int exit_code, const char *why)
{
    if (is_connected) {
        abort_request.exit_code = exit_code;
        abort_request.why = why;
        call_blocking(abort_pmix, 5 * NXR_S);
    }
}
