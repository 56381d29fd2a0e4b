/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams in the making. Each is made by a thread of its own; if there is no timeout, the caller
 * makes it itself, and the list has it, too, so that no other call does the same. Lock:
 * makings_lock guards the lists and the fields of both structures except `is_done`, which the
 * thread sets last.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/making.h"
#include "core/request.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/status.h"
#include "util/thread.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_NBYTES (256u << 10)
#define WHY_NBYTES   300
#define AGAIN_NS     (1 * NXR_S) /* how often a waiter records what it waits for */

#define SPLIT_KEY 0x74696c7073u /* distinguishes nixl_team_split() from nixl_team_create() */

/* How many calls with a key have ended. */
struct use {
    struct nxr_list link;
    uint64_t key;
    uint64_t n_ended;
};

struct nxr_making {
    struct nxr_list link;
    struct nxr_wanted wanted; /* with a copy of the ranks */
    uint64_t call;            /* its number */
    pthread_t thread;         /* not if the waiter makes it */
    bool has_waiter;
    bool is_taken;             /* nobody asks for the result any more: freed once it is done */
    bool has_inherited;        /* owns the team that is divided: the program has freed it */
    struct nixl_req *req;      /* ends with it, and stores the team in *team_p; NULL: none */
    struct nixl_team **team_p; /* ... */

    /* Written by the thread before is_done. */
    atomic_bool is_done;
    int status;
    int failed_rank;
    char why[WHY_NBYTES];
    struct nixl_team *team;
};

static pthread_mutex_t makings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list uses = {&uses, &uses};
static struct nxr_list makings = {&makings, &makings};
static pthread_cond_t makings_end = PTHREAD_COND_INITIALIZER; /* a making is done */

/* ---- numbers of calls: all under the lock ---------------------------------------------------- */

/* The table entry of a key; NULL: there is none yet. */
static struct use *find_use(uint64_t key)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &uses) {
        struct use *use = nxr_list_entry(link, struct use, link);

        if (use->key == key) {
            return use;
        }
    }
    return NULL;
}

/* The number of the next call with a key; 0: no memory. */
static uint64_t making_next_call(uint64_t key)
{
    struct use *use = find_use(key);

    if (use == NULL) {
        use = calloc(1, sizeof(*use));
        if (use == NULL) {
            return 0;
        }
        use->key = key;
        nxr_list_append(&uses, &use->link);
    }
    return nxr_hash_mix(key, use->n_ended + 1);
}

/* A call has ended, with the same outcome on all members. */
static void count_end(uint64_t key)
{
    struct use *use = find_use(key);

    if (use != NULL) {
        use->n_ended++;
    }
}

/* There will be no more calls with that key. */
static void making_forget(uint64_t key)
{
    struct use *use = find_use(key);

    if (use != NULL) {
        nxr_list_remove(&use->link);
        free(use);
    }
}

/* ---- one attempt ----------------------------------------------------------------------------- */

static void keep_failure(struct nxr_making *making)
{
    const struct nixl_error *error = nixl_last_error();

    making->failed_rank = error->rank;
    snprintf(making->why, sizeof(making->why), "%s", error->text);
}

/* Give the request the result. Returns the request, to be ended. Caller holds the lock. */
static struct nixl_req *fulfil(struct nxr_making *making)
{
    struct nixl_req *req = making->req;

    if (req != NULL) {
        making->req = NULL;
        making->is_taken = true;
        req->owned = NULL;
        if (making->status == NIXL_OK) {
            *making->team_p = making->team;
            making->team = NULL;
        } else {
            nxr_request_keep_failure(req, making->failed_rank, making->why);
        }
    }
    return req;
}

/*
 * The team that is divided is freed: no call can take the new one any more, unless one waits for
 * it. Returns it, to be dropped, or NULL. Caller holds the lock.
 */
static struct nixl_team *making_abandon(struct nxr_making *making)
{
    struct nixl_team *unclaimed = NULL;

    if (!making->has_waiter) {
        unclaimed = making->team;
        making->team = NULL;
        making->is_taken = true;
    }
    return unclaimed;
}

/* The attempt, from its begin to its end, in the thread that makes the team. */
static void making_run(struct nxr_making *making)
{
    const struct nxr_wanted *wanted = &making->wanted;
    struct nixl_team *inherited = NULL, *unclaimed = NULL;
    struct nixl_req *req;
    int status = nxr_team_make(wanted, making->call, &making->team);

    making->failed_rank = -1;
    if (status != NIXL_OK) {
        keep_failure(making);
    }
    pthread_mutex_lock(&makings_lock);
    making->status = status;
    count_end(wanted->key);
    req = fulfil(making);
    if (making->has_inherited) {
        inherited = wanted->divided;
        unclaimed = making_abandon(making);
        making_forget(wanted->key);
    }
    atomic_store_explicit(&making->is_done, true, memory_order_release);
    pthread_cond_broadcast(&makings_end);
    pthread_mutex_unlock(&makings_lock);
    if (inherited != NULL) {
        nxr_team_drop(inherited);
    }
    if (unclaimed != NULL) {
        nxr_team_drop(unclaimed);
    }
    if (req != NULL) {
        nxr_request_end(req, status);
    }
}

static void *making_make(void *arg)
{
    making_run(arg);
    nxr_leaving_end_work();
    nxr_wake_self();
    return NULL;
}

/* Caller holds the lock and the last reference; the making is done. */
static void making_free(struct nxr_making *making)
{
    pthread_join(making->thread, NULL);
    nxr_list_remove(&making->link);
    free((int *)(uintptr_t)making->wanted.ranks);
    free(making);
}

/* Create a new attempt and start its thread. NULL: no memory or thread. Caller holds the lock. */
static struct nxr_making *making_new(const struct nxr_wanted *wanted)
{
    uint64_t call = making_next_call(wanted->key);
    size_t nbytes = (size_t)wanted->size * sizeof(int);
    struct nxr_making *making = calloc(1, sizeof(*making));
    int *ranks = malloc(nbytes);

    if (call == 0 || making == NULL || ranks == NULL) {
        goto err_free;
    }
    memcpy(ranks, wanted->ranks, nbytes);
    making->wanted = *wanted;
    making->wanted.ranks = ranks;
    making->call = call;
    nxr_list_append(&makings, &making->link);
    nxr_leaving_begin_work();
    if (nxr_thread_start(&making->thread, STACK_NBYTES, making_make, making) == 0) {
        return making;
    }
    nxr_leaving_end_work();
    nxr_list_remove(&making->link);
err_free:
    free(ranks);
    free(making);
    return NULL;
}

/* ---- finding it ------------------------------------------------------------------------------ */

/*
 * The making with this key whose result was not taken; or NULL. A failure, or that the caller is in
 * no team, is a result, too: a new attempt instead would wait for members that have theirs. Caller
 * holds the lock.
 */
static struct nxr_making *making_find(uint64_t key)
{
    struct nxr_list *link, *after;
    struct nxr_making *found = NULL;

    nxr_list_for_each (link, after, &makings) {
        struct nxr_making *making = nxr_list_entry(link, struct nxr_making, link);

        if (making->is_taken && atomic_load(&making->is_done)) {
            making_free(making);
        } else if (making->wanted.key == key) {
            found = making;
        }
    }
    return found;
}

/* May this call take up the making? Nothing else may wait for it. Records the failure. */
static int check_same(const struct nxr_making *making, const struct nxr_wanted *wanted)
{
    const struct nxr_choice *begun = &making->wanted.choice;

    if (making->has_waiter || making->req != NULL) {
        return nxr_fail(NIXL_E_IN_USE, wanted->operation, -1, "", 0, "%s",
                        wanted->kind == NXR_TEAM_OF_COLOR
                            ? "another call or request is splitting the team"
                            : "another call or request is creating a team of the same ranks");
    }
    if (begun->color != wanted->choice.color || begun->key != wanted->choice.key) {
        return nxr_fail(NIXL_E_INVALID_ARG, wanted->operation, -1, "", 0,
                        "color %d and key %d; a call that timed out began to split the team with "
                        "color %d and key %d: use these again",
                        (int)wanted->choice.color, (int)wanted->choice.key, (int)begun->color,
                        (int)begun->key);
    }
    return NIXL_OK;
}

static struct nxr_making *find_or_make(const struct nxr_wanted *wanted, int *status_p)
{
    struct nxr_making *making = making_find(wanted->key);

    *status_p = NIXL_OK;
    if (making == NULL) {
        making = making_new(wanted);
        if (making == NULL) {
            *status_p = nxr_fail(NIXL_E_NO_MEMORY, wanted->operation, -1, "", 0,
                                 "no memory or thread for a team");
        }
        return making;
    }
    *status_p = check_same(making, wanted);
    return *status_p == NIXL_OK ? making : NULL;
}

/*
 * Without a timeout, and if nothing has been started, no thread is needed. Other calls find the
 * making with its waiter. False: something has been started.
 */
static bool make_here(const struct nxr_wanted *wanted, struct nixl_team **team_p, int *status_p)
{
    struct nxr_making here = {.wanted = *wanted, .has_waiter = true};

    pthread_mutex_lock(&makings_lock);
    if (making_find(wanted->key) != NULL) {
        pthread_mutex_unlock(&makings_lock);
        return false;
    }
    here.call = making_next_call(wanted->key);
    if (here.call != 0) {
        nxr_list_append(&makings, &here.link);
    }
    pthread_mutex_unlock(&makings_lock);
    if (here.call == 0) {
        *status_p =
            nxr_fail(NIXL_E_NO_MEMORY, wanted->operation, -1, "", 0, "no memory for a team");
        return true;
    }
    making_run(&here);
    pthread_mutex_lock(&makings_lock);
    nxr_list_remove(&here.link);
    pthread_mutex_unlock(&makings_lock);
    *status_p = here.status;
    if (here.status == NIXL_OK) {
        *team_p = here.team;
    }
    return true;
}

uint64_t nxr_making_split_key(const struct nixl_team *team)
{
    return nxr_hash_mix(team->id, SPLIT_KEY);
}

bool nxr_making_inherit(struct nixl_team *team)
{
    uint64_t key = nxr_making_split_key(team);
    struct nixl_team *unclaimed = NULL;
    struct nxr_making *making;
    bool is_under_way;

    pthread_mutex_lock(&makings_lock);
    making = making_find(key);
    is_under_way = making != NULL && !atomic_load(&making->is_done);
    if (is_under_way) {
        making->has_inherited = true;
    } else {
        if (making != NULL) {
            unclaimed = making_abandon(making);
        }
        making_forget(key);
    }
    pthread_mutex_unlock(&makings_lock);
    if (unclaimed != NULL) {
        nxr_team_drop(unclaimed);
    }
    return is_under_way;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool making_is_done(void *arg)
{
    struct nxr_making *making = arg;

    return atomic_load_explicit(&making->is_done, memory_order_acquire);
}

/* All members must come. */
static void making_describe(const void *about, struct nxr_wait_record *record)
{
    const struct nxr_wanted *wanted = about;

    nxr_describe(record, NXR_WAIT_TEAM, wanted->operation, -1);
    record->team = wanted->key;
    nxr_describe_members(record, wanted->ranks, wanted->size);
}

/*
 * Wait until a making is done. The thread that makes the team drives progress, so this one does not
 * spin, and does not sleep on the doorbell, which rings whenever something arrives.
 */
static int making_await(struct nxr_making *making, const struct nxr_wanted *wanted,
                        int64_t timeout_ns)
{
    struct nxr_waiting waiting = {
        .describe = making_describe, .about = wanted, .since_ns = nxr_now_ns()};
    int64_t left_ns = timeout_ns;

    if (timeout_ns == 0) {
        return nxr_wait(making_is_done, making, 0);
    }
    while (!making_is_done(making) && left_ns > 0) {
        int64_t longest_ns = nxr_waiting_sleeps(&waiting, AGAIN_NS), now_ns = nxr_now_ns();
        struct timespec until =
            nxr_timespec(now_ns + (left_ns < longest_ns ? left_ns : longest_ns));

        pthread_mutex_lock(&makings_lock);
        if (!making_is_done(making)) {
            pthread_cond_clockwait(&makings_end, &makings_lock, CLOCK_MONOTONIC, &until);
        }
        pthread_mutex_unlock(&makings_lock);
        left_ns =
            timeout_ns == NIXL_FOREVER ? left_ns : timeout_ns - (nxr_now_ns() - waiting.since_ns);
    }
    nxr_waiting_ends(&waiting);
    return making_is_done(making) ? NIXL_OK : NIXL_E_TIMEOUT;
}

/* Take the result. Caller holds the lock. */
static int making_take(struct nxr_making *making, const char *operation, struct nixl_team **team_p)
{
    int status = making->status;

    if (status == NIXL_OK) {
        *team_p = making->team;
    } else {
        nxr_fail(status, operation, making->failed_rank, "", 0, "%s", making->why);
    }
    making_free(making);
    return status;
}

int nxr_making_wait(const struct nxr_wanted *wanted, int64_t timeout_ns, struct nixl_team **team_p)
{
    struct nxr_making *making;
    int status = NIXL_OK;

    if (timeout_ns == NIXL_FOREVER && make_here(wanted, team_p, &status)) {
        return status;
    }
    pthread_mutex_lock(&makings_lock);
    making = find_or_make(wanted, &status);
    if (making != NULL) {
        making->has_waiter = true;
    }
    pthread_mutex_unlock(&makings_lock);
    if (making == NULL) {
        return status;
    }
    status = making_await(making, wanted, timeout_ns);
    pthread_mutex_lock(&makings_lock);
    making->has_waiter = false;
    if (status == NIXL_OK) {
        status = making_take(making, wanted->operation, team_p);
    } else if (status == NIXL_E_TIMEOUT) {
        nxr_fail(status, wanted->operation, -1, "", 0,
                 "not all members joined in time; the next such call continues from here");
    }
    pthread_mutex_unlock(&makings_lock);
    return status;
}

/* End a request for a team; the progress of the making is kept. */
static void making_leave(struct nixl_req *req)
{
    struct nxr_making *making;

    pthread_mutex_lock(&makings_lock);
    making = req->owned;
    if (making != NULL) {
        making->req = NULL;
        req->owned = NULL;
    }
    pthread_mutex_unlock(&makings_lock);
    if (making != NULL) {
        nxr_request_end(req, NIXL_E_CANCELED);
    }
}

/* Requests that wait for a team; `owned` is the making until then. */
static const struct nxr_req_owner making_owner = {.stop = making_leave};

int nxr_making_start(const struct nxr_wanted *wanted, struct nixl_team **team_p,
                     struct nixl_req **req_p)
{
    struct nixl_req *req = nxr_request_new(wanted->operation, &making_owner, NULL);
    struct nxr_making *making;
    int status = NIXL_OK;

    if (req == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, wanted->operation, -1, "", 0, "no memory for a request");
    }
    pthread_mutex_lock(&makings_lock);
    making = find_or_make(wanted, &status);
    if (making == NULL) {
        pthread_mutex_unlock(&makings_lock);
        free(req);
        return status;
    }
    *req_p = req;
    req->op.nbytes_done = 1; /* if canceled, it may have changed any bytes */
    req->owned = making;
    making->req = req;
    making->team_p = team_p;
    status = atomic_load(&making->is_done) ? making->status : NIXL_INPROGRESS;
    req = status != NIXL_INPROGRESS ? fulfil(making) : NULL;
    pthread_mutex_unlock(&makings_lock);
    if (req != NULL) {
        nxr_request_end(req, status);
    }
    return NIXL_INPROGRESS;
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* A making that no call waits for; NULL: there is none. A thread that still waits frees its own. */
static struct nxr_making *find_left(void)
{
    struct nxr_list *link, *after;
    struct nxr_making *found = NULL;

    pthread_mutex_lock(&makings_lock);
    nxr_list_for_each (link, after, &makings) {
        struct nxr_making *making = nxr_list_entry(link, struct nxr_making, link);

        found = making->has_waiter ? found : making;
    }
    pthread_mutex_unlock(&makings_lock);
    return found;
}

void nxr_makings_stop(void)
{
    struct nxr_making *making;
    struct nxr_list *link;

    nxr_agreements_set_stopping(true);
    nxr_wake_self();
    while ((making = find_left()) != NULL) {
        struct nixl_team *team;

        (void)nxr_wait(making_is_done, making, NIXL_FOREVER);
        pthread_mutex_lock(&makings_lock);
        team = making->team;
        making_free(making);
        pthread_mutex_unlock(&makings_lock);
        if (team != NULL) {
            nxr_team_drop(team);
        }
    }
    while ((link = nxr_list_pop(&uses)) != NULL) {
        free(nxr_list_entry(link, struct use, link));
    }
    nxr_agreements_set_stopping(false);
}
