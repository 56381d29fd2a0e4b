/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: the thread of each. It owns the client of etcd and all of the struct, but for what the
 * lock covers and `is_ending`. Lock: the lease's own, a leaf.
 *
 * Whether an entry that is there already may be replaced, is not a matter of trust in etcd: its
 * owner is asked to prove itself. Only if nobody listens at its addresses, or another process does,
 * has it ended. Nobody else can have put a newer entry meanwhile, since the transaction that
 * replaces it names the revision of the one that was judged.
 */
#include "config.h"

#include "attach/lease_etcd.h"
#include "attach/attempt.h"
#include "attach/directory_etcd.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RENEW_NS   (NXR_ETCD_LEASE_SECONDS * NXR_S / 4)
#define ANSWER_NS  (6 * NXR_S)                            /* for one request */
#define BEGIN_NS   (8 * NXR_S)                            /* until etcd must have answered once */
#define OWNER_NS   ((NXR_ETCD_LEASE_SECONDS + 3) * NXR_S) /* until an unreachable owner has ended */
#define PROBE_NS   (2 * NXR_S)                            /* for an owner to answer */
#define REVOKE_NS  (1 * NXR_S)
#define LEAST_NS   (100 * NXR_MS) /* before the next attempt after a failure */
#define MOST_NS    (3 * NXR_S)
#define MAX_ROUNDS 16 /* of one claim */
#define LOOK_NS    (5 * NXR_MS)

struct nxr_etcd_lease {
    pthread_t thread;
    struct nxr_etcd *etcd;
    struct nxr_where where;
    char key[NXR_ETCD_KEY_NBYTES];
    struct nxr_etcd_entry entry;
    unsigned char secret[NXR_PROOF_SECRET_NBYTES];
    int64_t id;   /* etcd's number of the lease; 0: none */
    bool is_away; /* the entry is not certain to be there, and that has been said */
    char why[2 * NXR_ETCD_WHY_NBYTES];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_ending;     /* under lock */
    atomic_int outcome; /* of the first claim; NIXL_INPROGRESS: none yet */
};

static bool lease_is_ending(struct nxr_etcd_lease *lease)
{
    bool is_ending;

    pthread_mutex_lock(&lease->lock);
    is_ending = lease->is_ending;
    pthread_mutex_unlock(&lease->lock);
    return is_ending;
}

/* Sleep for that long, or until the lease is to end. */
static void lease_sleep(struct nxr_etcd_lease *lease, int64_t ns)
{
    struct timespec until = nxr_timespec(nxr_now_ns() + ns);
    int error = 0;

    pthread_mutex_lock(&lease->lock);
    while (!lease->is_ending && error == 0) {
        error = pthread_cond_timedwait(&lease->changed, &lease->lock, &until);
    }
    pthread_mutex_unlock(&lease->lock);
}

static int64_t answer_until(void)
{
    return nxr_now_ns() + ANSWER_NS;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/*
 * Does the owner of an entry live? NIXL_E_NOT_FOUND: it has ended; NIXL_E_IN_USE: it lives;
 * NIXL_E_TIMEOUT: it is not known.
 */
static int lease_judge(struct nxr_etcd_lease *lease, const struct nxr_etcd_found *found)
{
    struct nxr_attempt attempt = {.where = lease->where,
                                  .name = lease->entry.name,
                                  .schema = "",
                                  .deadline = nxr_now_ns() + PROBE_NS,
                                  .found = *found};
    const struct nxr_etcd_entry *entry = &found->entry;
    int status;

    if (!found->is_entry) {
        snprintf(lease->why, sizeof(lease->why),
                 "the key '%.200s' of etcd has something else (%s): remove it, or use another "
                 "prefix",
                 lease->key, found->fault);
        return NIXL_E_IN_USE;
    }
    memcpy(attempt.secret, lease->secret, sizeof(attempt.secret));
    snprintf(attempt.who, sizeof(attempt.who), "process %d on '%.100s'", entry->pid, entry->host);
    status = nxr_attempt_probe(&attempt);
    explicit_bzero(attempt.secret, sizeof(attempt.secret));
    if (status == NIXL_OK) {
        snprintf(lease->why, sizeof(lease->why), "%s has published the name and lives",
                 attempt.who);
        return NIXL_E_IN_USE;
    }
    snprintf(lease->why, sizeof(lease->why),
             "%s has published the name, and its lease has not ended, but it does not answer: "
             "%.300s",
             attempt.who, attempt.why);
    return status;
}

/*
 * Another entry is there. NIXL_OK: try again; *expected_p: the revision that may be replaced, or 0,
 * since the entry's owner has not been found to have ended.
 */
static int lease_dispute(struct nxr_etcd_lease *lease, const struct nxr_etcd_found *found,
                         int64_t until, int64_t *expected_p)
{
    char why[NXR_ETCD_WHY_NBYTES];
    int status;

    if (found->is_entry && strcmp(found->entry.id, lease->entry.id) == 0) {
        *expected_p = found->mod_revision; /* it is this one: an answer of etcd was lost */
        return NIXL_OK;
    }
    status = lease_judge(lease, found);
    if (status == NIXL_E_NOT_FOUND) {
        nxr_info(HOST, "'%s' was published in etcd by process %d on '%s', which has ended",
                 lease->entry.name, found->entry.pid, found->entry.host);
        *expected_p = found->mod_revision;
        return NIXL_OK;
    }
    if (status != NIXL_E_TIMEOUT) {
        return status;
    }
    if (nxr_now_ns() >= until) {
        return NIXL_E_IN_USE;
    }
    status = nxr_etcd->await(lease->etcd, lease->key, found->revision, until, why);
    return status == NIXL_E_TIMEOUT || status == NIXL_E_AGAIN ? NIXL_OK : status;
}

/* Put the entry under the lease, which may have to be granted first. */
static int lease_claim(struct nxr_etcd_lease *lease)
{
    int64_t expected = 0, owner_until = nxr_now_ns() + OWNER_NS;
    struct nxr_etcd_found found;
    bool is_put = false;
    int status = NIXL_OK;

    for (int round = 0; round < MAX_ROUNDS && status == NIXL_OK && !is_put; round++) {
        if (lease->id == 0) {
            status = nxr_etcd->grant(lease->etcd, NXR_ETCD_LEASE_SECONDS, answer_until(),
                                     &lease->id, lease->why);
        }
        if (status == NIXL_OK) {
            status = nxr_etcd->put(lease->etcd, lease->key, &lease->entry, lease->id, expected,
                                   answer_until(), &is_put, &found, lease->why);
        }
        if (status == NIXL_E_NOT_FOUND) { /* the lease has ended meanwhile */
            lease->id = 0;
            status = NIXL_OK;
        } else if (status == NIXL_OK && !is_put) {
            expected = 0;
            if (found.is_there) {
                status = lease_dispute(lease, &found, owner_until, &expected);
            }
        }
    }
    return status == NIXL_OK && !is_put ? NIXL_E_AGAIN : status;
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* Renew the lease, and see that the entry is there. */
static int lease_renew(struct nxr_etcd_lease *lease)
{
    struct nxr_etcd_found found = {.is_there = false};
    int status = nxr_etcd->keep_alive(lease->etcd, lease->id, answer_until(), lease->why);

    if (status == NIXL_E_NOT_FOUND) {
        nxr_info(HOST, "etcd has ended the lease of '%s'; its entry is put again",
                 lease->entry.name);
        lease->id = 0;
        return lease_claim(lease);
    }
    if (status == NIXL_OK) {
        status = nxr_etcd->read(lease->etcd, lease->key, answer_until(), &found, lease->why);
    }
    if (status != NIXL_OK || (found.is_there && found.is_entry && found.lease == lease->id &&
                              strcmp(found.entry.id, lease->entry.id) == 0)) {
        return status;
    }
    return lease_claim(lease);
}

/* Say once that the entry may not be there, and once that it is again. */
static void lease_tell(struct nxr_etcd_lease *lease, int status)
{
    if (status != NIXL_OK && !lease->is_away) {
        nxr_warn(HOST,
                 "'%s' may not be found in %s: %s. It is tried again; attached processes go on",
                 lease->entry.name, lease->where.text, lease->why);
    } else if (status == NIXL_OK && lease->is_away) {
        nxr_warn(HOST, "'%s' is found in %s again", lease->entry.name, lease->where.text);
    }
    lease->is_away = status != NIXL_OK;
}

static void lease_hold(struct nxr_etcd_lease *lease)
{
    int64_t pause_ns = RENEW_NS, failure_ns = LEAST_NS;

    while (!lease_is_ending(lease)) {
        int status;

        lease_sleep(lease, pause_ns);
        if (lease_is_ending(lease)) {
            return;
        }
        status = lease->id != 0 ? lease_renew(lease) : lease_claim(lease);
        if (status == NIXL_E_CANCELED) {
            continue;
        }
        lease_tell(lease, status);
        pause_ns = status == NIXL_OK ? RENEW_NS : failure_ns;
        failure_ns = status == NIXL_OK ? LEAST_NS : 2 * failure_ns;
        failure_ns = failure_ns < MOST_NS ? failure_ns : MOST_NS;
    }
}

/* The first claim: a while is given to an etcd that is just starting. */
static int lease_claim_first(struct nxr_etcd_lease *lease)
{
    int64_t until = nxr_now_ns() + BEGIN_NS;
    int status;

    do {
        status = lease_claim(lease);
        if (status != NIXL_E_AGAIN) {
            return status;
        }
        lease_sleep(lease, 2 * LEAST_NS);
    } while (nxr_now_ns() < until && !lease_is_ending(lease));
    return NIXL_E_TIMEOUT;
}

static void *lease_run(void *arg)
{
    char why[NXR_ETCD_WHY_NBYTES];
    struct nxr_etcd_lease *lease = arg;
    int status = lease_claim_first(lease);

    atomic_store_explicit(&lease->outcome, status, memory_order_release);
    nxr_wake_self();
    if (status == NIXL_OK) {
        lease_hold(lease);
    }
    if (lease->id != 0 &&
        nxr_etcd->revoke(lease->etcd, lease->id, nxr_now_ns() + REVOKE_NS, why) != NIXL_OK) {
        nxr_info(HOST, "the entry of '%s' in etcd ends with its lease, within %d s: %s",
                 lease->entry.name, NXR_ETCD_LEASE_SECONDS, why);
    }
    return NULL;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void lease_free(struct nxr_etcd_lease *lease)
{
    if (lease->etcd != NULL) {
        nxr_etcd->close(lease->etcd);
    }
    pthread_cond_destroy(&lease->changed);
    pthread_mutex_destroy(&lease->lock);
    explicit_bzero(lease->secret, sizeof(lease->secret));
    free(lease);
}

static struct nxr_etcd_lease *lease_of_entry(const struct nxr_where *where,
                                             const struct nxr_etcd_entry *entry,
                                             const unsigned char secret[NXR_PROOF_SECRET_NBYTES])
{
    struct nxr_etcd_lease *lease = calloc(1, sizeof(*lease));
    pthread_condattr_t by_clock;

    if (lease == NULL) {
        return NULL;
    }
    pthread_mutex_init(&lease->lock, NULL);
    pthread_condattr_init(&by_clock);
    pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&lease->changed, &by_clock);
    pthread_condattr_destroy(&by_clock);
    lease->where = *where;
    lease->entry = *entry;
    memcpy(lease->secret, secret, sizeof(lease->secret));
    nxr_directory_etcd_key(where, entry->name, lease->key);
    nxr_entry_etcd_prove(&lease->entry, lease->key, secret);
    atomic_init(&lease->outcome, NIXL_INPROGRESS);
    return lease;
}

static bool lease_has_outcome(void *arg)
{
    struct nxr_etcd_lease *lease = arg;

    return atomic_load_explicit(&lease->outcome, memory_order_acquire) != NIXL_INPROGRESS;
}

int nxr_etcd_lease_begin(const struct nxr_where *where, const struct nxr_etcd_entry *entry,
                         const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                         struct nxr_etcd_lease **lease_p, char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_lease *lease = lease_of_entry(where, entry, secret);
    int status = NIXL_E_NO_MEMORY, error;

    snprintf(why, NXR_ETCD_WHY_NBYTES, "no memory for a lease");
    if (lease == NULL) {
        return status;
    }
    status = nxr_directory_etcd_open(where, &lease->etcd, why);
    if (status != NIXL_OK) {
        lease_free(lease);
        return status;
    }
    error = nxr_thread_start(&lease->thread, 0, lease_run, lease);
    if (error != 0) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "cannot start a thread: %s", strerror(error));
        lease_free(lease);
        return NIXL_E_LIMIT;
    }
    while (nxr_wait(lease_has_outcome, lease, LOOK_NS) == NIXL_E_TIMEOUT) {
    }
    status = atomic_load(&lease->outcome);
    if (status != NIXL_OK) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "%.*s", NXR_ETCD_WHY_NBYTES - 1, lease->why);
        nxr_etcd_lease_end(lease);
        return status;
    }
    *lease_p = lease;
    return NIXL_OK;
}

void nxr_etcd_lease_end(struct nxr_etcd_lease *lease)
{
    pthread_mutex_lock(&lease->lock);
    lease->is_ending = true;
    pthread_cond_signal(&lease->changed);
    pthread_mutex_unlock(&lease->lock);
    nxr_etcd->interrupt(lease->etcd);
    pthread_join(lease->thread, NULL);
    lease_free(lease);
}
