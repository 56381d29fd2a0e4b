/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for all ranks, by queries to nixlrun or by PMIx's fence. No state, no lock. */
#include "config.h"

#include "boot/meeting.h"
#include "boot/call.h"
#include "util/clock.h"
#include "util/meet.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_NS   (1 * NXR_S) /* for what the server of this host has or has not */
#define FENCE_NS (2 * NXR_S) /* for a fence that may not end */

/* ---- PMIx's fence ---------------------------------------------------------------------------- */

/* Only a fence that collects data is a barrier under every engine. */
void nxr_meeting_fence(const char *nspace, pmix_op_cbfunc_t ended_fn, void *arg)
{
    pmix_proc_t everybody;
    pmix_info_t collect;
    bool yes = true;
    pmix_status_t status;

    PMIX_LOAD_PROCID(&everybody, nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    status = PMIx_Fence_nb(&everybody, 1, &collect, 1, ended_fn, arg);
    if (status != PMIX_SUCCESS) {
        ended_fn(status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status, arg);
    }
}

static pmix_status_t fence(const char *nspace, int64_t timeout_ns)
{
    struct nxr_call *call = nxr_call_new();

    if (call == NULL) {
        return PMIX_ERR_NOMEM;
    }
    nxr_meeting_fence(nspace, nxr_call_ended, call);
    return nxr_call_wait(call, timeout_ns);
}

/*
 * A rank that dies in a fence, or is still leaving, ends the fence early for all that are in it.
 * The two cases cannot be told apart here: a caller that may only be early tries again.
 */
pmix_status_t nxr_meeting_by_fence(const char *nspace, bool may_be_early, int64_t timeout_ns)
{
    const struct timespec nap = nxr_timespec(NXR_MS);
    int64_t deadline = nxr_deadline(timeout_ns), left_ns = timeout_ns;
    pmix_status_t status;

    for (;;) {
        status = fence(nspace, left_ns);
        if (status != PMIX_ERR_PARTIAL_SUCCESS) {
            return status;
        }
        if (!may_be_early) {
            return PMIX_SUCCESS;
        }
        nanosleep(&nap, NULL);
        left_ns = deadline == INT64_MAX ? INT64_MAX : deadline - nxr_now_ns();
        if (left_ns <= 0) {
            return PMIX_ERR_TIMEOUT;
        }
    }
}

/* ---- what the launcher's server has ---------------------------------------------------------- */

/* A question to the server. The thread that asks it keeps it after PMIX_ERR_TIMEOUT. */
struct ask {
    pmix_proc_t proc;
    char key[PMIX_MAX_KEYLEN + 1];
    int size;            /* of the job */
    int64_t deadline_ns; /* of a question about all ranks */
    uint32_t number;     /* the answer to one about a number */
};

static struct ask *ask_new(const pmix_proc_t *proc, const char *key)
{
    struct ask *ask = calloc(1, sizeof(*ask));

    if (ask != NULL) {
        ask->proc = *proc;
        snprintf(ask->key, sizeof(ask->key), "%s", key);
    }
    return ask;
}

/* Get a value, or the failure if there is none yet. */
static pmix_status_t get_at_once(const struct ask *ask, pmix_value_t **value_p)
{
    bool yes = true;
    pmix_info_t at_once;

    PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    return PMIx_Get(&ask->proc, ask->key, &at_once, 1, value_p);
}

static pmix_status_t ask_number(void *arg)
{
    struct ask *ask = arg;
    pmix_value_t *value = NULL;
    pmix_status_t status = get_at_once(ask, &value);

    if (status == PMIX_SUCCESS) {
        ask->number = value->type == PMIX_UINT32 ? value->data.uint32 : 1;
        PMIX_VALUE_RELEASE(value);
    }
    return status;
}

uint32_t nxr_meeting_count_former(const pmix_proc_t *self, const char *key, int64_t timeout_ns)
{
    struct ask *ask = ask_new(self, key);
    uint32_t n_former = 0;

    if (ask == NULL) {
        return 0;
    }
    if (nxr_call_blocking(ask_number, ask, timeout_ns < ASK_NS ? timeout_ns : ASK_NS) ==
        PMIX_ERR_TIMEOUT) {
        return 0;
    }
    n_former = ask->number;
    free(ask);
    return n_former;
}

static pmix_status_t await_key_of_all(void *arg)
{
    const struct timespec nap = nxr_timespec(NXR_MS);
    struct ask *ask = arg;

    for (int rank = 0; rank < ask->size; rank++) {
        pmix_value_t *value = NULL;

        ask->proc.rank = (pmix_rank_t)rank;
        while (get_at_once(ask, &value) != PMIX_SUCCESS) {
            if (nxr_now_ns() >= ask->deadline_ns) {
                return PMIX_ERR_NOT_FOUND; /* PMIX_ERR_TIMEOUT would leave `ask` to a thread */
            }
            nanosleep(&nap, NULL);
        }
        PMIX_VALUE_RELEASE(value);
    }
    return PMIX_SUCCESS;
}

pmix_status_t nxr_meeting_by_key(const char *nspace, int size, const char *key, int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns);
    pmix_proc_t all;
    struct ask *ask;
    pmix_status_t status =
        nxr_meeting_by_fence(nspace, true, timeout_ns < FENCE_NS ? timeout_ns : FENCE_NS);

    if (status != PMIX_SUCCESS && status != PMIX_ERR_TIMEOUT) {
        return status;
    }
    PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
    ask = ask_new(&all, key);
    if (ask == NULL) {
        return PMIX_ERR_NOMEM;
    }
    ask->size = size;
    ask->deadline_ns = deadline;
    timeout_ns = deadline == INT64_MAX ? INT64_MAX : deadline - nxr_now_ns();
    status = nxr_call_blocking(await_key_of_all, ask, timeout_ns > 0 ? timeout_ns : 0);
    if (status != PMIX_ERR_TIMEOUT) {
        free(ask);
    }
    return status == PMIX_ERR_NOT_FOUND ? PMIX_ERR_TIMEOUT : status;
}

/* ---- by nixlrun: to join --------------------------------------------------------------------- */

/*
 * A query and its answer. It has two holders: the waiting thread, which may give up first, and PMIx
 * until it has answered.
 */
struct question {
    _Atomic int holders;
    struct nxr_call *call;
    pmix_query_t *query;
    void *answer; /* NULL: none yet, or taken by the caller */
    size_t nbytes;
};

static void question_release(struct question *question)
{
    if (atomic_fetch_sub(&question->holders, 1) == 1) {
        PMIX_QUERY_FREE(question->query, 1);
        free(question->answer);
        free(question);
    }
}

/* A query of the launcher itself, with room for more qualifiers behind two. NULL: no memory. */
static pmix_query_t *query_new(const char *key, const pmix_proc_t *self, size_t n_more)
{
    bool yes = true;
    pmix_query_t *query;
    pmix_status_t status;

    PMIX_QUERY_CREATE(query, 1);
    if (query == NULL) {
        return NULL;
    }
    PMIX_ARGV_APPEND(status, query->keys, key);
    if (status != PMIX_SUCCESS) {
        PMIX_QUERY_FREE(query, 1);
        return NULL;
    }
    PMIX_QUERY_QUALIFIERS_CREATE(query, 2 + n_more);
    if (query->qualifiers == NULL) {
        PMIX_QUERY_FREE(query, 1);
        return NULL;
    }
    PMIX_INFO_LOAD(&query->qualifiers[0], PMIX_QUERY_REFRESH_CACHE, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&query->qualifiers[1], PMIX_PROCID, self, PMIX_PROC);
    return query;
}

/* The query by which a rank joins, with its card. NULL: no memory. */
static pmix_query_t *query_to_join(const pmix_proc_t *self, const void *card, size_t nbytes)
{
    pmix_byte_object_t object = {.bytes = (char *)(uintptr_t)card, .size = nbytes};
    pmix_query_t *query = query_new(NXR_MEET_KEY, self, 2);
    pid_t pid = getpid();

    if (query != NULL) {
        PMIX_INFO_LOAD(&query->qualifiers[2], NXR_MEET_KEY, &object, PMIX_BYTE_OBJECT);
        PMIX_INFO_LOAD(&query->qualifiers[3], PMIX_PROC_PID, &pid, PMIX_PID);
    }
    return query;
}

static struct question *question_new(const pmix_proc_t *self, const void *card, size_t nbytes)
{
    struct question *question = calloc(1, sizeof(*question));

    if (question == NULL) {
        return NULL;
    }
    atomic_init(&question->holders, 2);
    question->query = query_to_join(self, card, nbytes);
    question->call = question->query != NULL ? nxr_call_new() : NULL;
    if (question->call == NULL) {
        atomic_store(&question->holders, 1);
        question_release(question);
        return NULL;
    }
    return question;
}

/* Copy the answer out of the results; on PMIx's thread. */
static pmix_status_t keep_answer(struct question *question, const pmix_info_t *info, size_t n_info)
{
    for (size_t i = 0; i < n_info; i++) {
        const pmix_byte_object_t *bytes = &info[i].value.data.bo;

        if (PMIX_CHECK_KEY(&info[i], NXR_MEET_KEY) && info[i].value.type == PMIX_BYTE_OBJECT &&
            bytes->size > 0) {
            question->answer = malloc(bytes->size);
            if (question->answer == NULL) {
                return PMIX_ERR_NOMEM;
            }
            memcpy(question->answer, bytes->bytes, bytes->size);
            question->nbytes = bytes->size;
            return PMIX_SUCCESS;
        }
    }
    return PMIX_ERR_NOT_FOUND;
}

static void answer_came(pmix_status_t status, pmix_info_t *info, size_t n_info, void *arg,
                        pmix_release_cbfunc_t release_fn, void *release_arg)
{
    struct question *question = arg;

    if (status == PMIX_SUCCESS) {
        status = keep_answer(question, info, n_info);
    }
    if (release_fn != NULL) {
        release_fn(release_arg);
    }
    nxr_call_ended(status, question->call);
    question_release(question);
}

pmix_status_t nxr_meeting_of_cards(const pmix_proc_t *self, const void *card, size_t card_nbytes,
                                   int64_t timeout_ns, void **answer_p, size_t *nbytes_p)
{
    struct question *question = question_new(self, card, card_nbytes);
    pmix_status_t status;

    if (question == NULL) {
        return PMIX_ERR_NOMEM;
    }
    status = PMIx_Query_info_nb(question->query, 1, answer_came, question);
    if (status != PMIX_SUCCESS) { /* PMIx has not accepted it: no callback follows */
        nxr_call_ended(status, question->call);
        atomic_fetch_sub(&question->holders, 1);
    }
    status = nxr_call_wait(question->call, timeout_ns);
    if (status == PMIX_SUCCESS) {
        *answer_p = question->answer;
        *nbytes_p = question->nbytes;
        question->answer = NULL;
    }
    question_release(question);
    return status;
}

/* ---- by nixlrun: to leave -------------------------------------------------------------------- */

struct leaving {
    pmix_query_t *query;
    pmix_op_cbfunc_t ended_fn;
    void *arg;
};

static void leaving_end(struct leaving *leaving, pmix_status_t status)
{
    leaving->ended_fn(status, leaving->arg);
    PMIX_QUERY_FREE(leaving->query, 1);
    free(leaving);
}

static void all_leave(pmix_status_t status, pmix_info_t *info, size_t n_info, void *arg,
                      pmix_release_cbfunc_t release_fn, void *release_arg)
{
    (void)info;
    (void)n_info;
    if (release_fn != NULL) {
        release_fn(release_arg);
    }
    leaving_end(arg, status);
}

void nxr_meeting_to_leave(const pmix_proc_t *self, pmix_op_cbfunc_t ended_fn, void *arg)
{
    struct leaving *leaving = malloc(sizeof(*leaving));
    pmix_query_t *query = query_new(NXR_MEET_LEAVE_KEY, self, 0);
    pmix_status_t status;

    if (leaving == NULL || query == NULL) {
        free(leaving);
        if (query != NULL) {
            PMIX_QUERY_FREE(query, 1);
        }
        ended_fn(PMIX_ERR_NOMEM, arg);
        return;
    }
    *leaving = (struct leaving){query, ended_fn, arg};
    status = PMIx_Query_info_nb(query, 1, all_leave, leaving);
    if (status != PMIX_SUCCESS) { /* no callback follows */
        leaving_end(leaving, status);
    }
}
