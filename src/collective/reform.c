/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attempts of this process to agree on a team, and what their callers do; reform.h has the
 * protocol, reform_take.c what messages do. Lock: job.lock.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/reform_say.h"
#include "core/event.h"
#include "core/life.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/random.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS  (200 * NXR_MS) /* until everything is said again */
#define SILENT_NS (1 * NXR_S)    /* then the coordinator does not answer */

/*
 * How long members may disagree: one may have called again already after a death, or without a
 * member that leaves, of which the other is about to learn.
 */
#define DISAGREE_NS (1 * NXR_S)

static struct nxr_list reforms = {&reforms, &reforms};

/* ---- reasons to give up ---------------------------------------------------------------------- */

static void give_up_of(struct nxr_reform *reform, int status, int member)
{
    const struct nxr_reform_failure failure = {.status = status, .member = member};

    nxr_reform_give_up(reform, &failure);
}

static void give_up_late(struct nxr_reform *reform, int64_t now)
{
    struct nxr_reform_failure failure = {
        .status = NIXL_E_TIMEOUT, .member = -1, .cause = NXR_REFORM_MISSING};

    if (nxr_reform_is_mine(reform)) {
        nxr_reform_mark_missing(reform, failure.missing);
    } else if (reform->heard_at != 0 && now < reform->heard_at + SILENT_NS) {
        memcpy(failure.missing, reform->missing, sizeof(failure.missing));
    } else {
        failure.is_silent = true;
    }
    nxr_reform_give_up(reform, &failure);
}

/*
 * Does a member have another list, and has it had time to learn of deaths? -1: no. Who does not
 * coordinate leaves it to the coordinator, if that one answers.
 */
static int find_disagreeing(struct nxr_reform *reform, int64_t now)
{
    int64_t after_ns = nxr_reform_is_mine(reform) ? DISAGREE_NS : 3 * DISAGREE_NS;

    for (int i = 0; i < reform->size; i++) {
        struct nxr_reform_member *about = &reform->about[i];

        about->has_refused = about->has_refused && now < about->refused_last + 3 * AGAIN_NS;
        if (about->has_refused &&
            (now >= about->refused_at + after_ns || now >= reform->deadline)) {
            return i;
        }
    }
    return -1;
}

static void give_up_disagreeing(struct nxr_reform *reform, int member)
{
    const struct nxr_reform_member *about = &reform->about[member];
    const struct nxr_reform_failure failure = {.status = NIXL_E_INVALID_ARG,
                                               .member = member,
                                               .cause = NXR_REFORM_DISAGREES,
                                               .other_size = about->size,
                                               .is_other_order = about->set == reform->set};

    nxr_reform_give_up(reform, &failure);
}

/* ---- steps of the caller --------------------------------------------------------------------- */

/* A member whose process has ended for this one; -1: none. */
static int find_lost(const struct nxr_reform *reform, bool *has_left_p)
{
    for (int i = 0; i < reform->size; i++) {
        const struct nxr_peer *peer =
            i != reform->me ? nxr_peer_get_locked(reform->ranks[i]) : NULL;

        if (i == reform->me) {
            continue;
        }
        if (peer == NULL || nxr_peer_is_lost(peer) ||
            !nxr_identity_is(&peer->identity, &reform->members[i])) {
            *has_left_p = nxr_peer_has_left(reform->ranks[i]);
            return i;
        }
    }
    return -1;
}

/*
 * Note whom this process waits for. The coordinator waits for all members that have not accepted,
 * the others wait for the coordinator. Returns a member that was already awaited and never comes
 * because it is leaving; -1: none.
 */
static int find_leaving(struct nxr_reform *reform)
{
    int leaving = -1;

    for (int i = 0; i < reform->size; i++) {
        struct nxr_reform_member *about = &reform->about[i];
        bool is_awaited = nxr_reform_is_mine(reform) ? i != reform->me && !about->has_accepted
                                                     : i == reform->coordinator;

        leaving = is_awaited && about->is_awaited && about->never_comes ? i : leaving;
        about->is_awaited = is_awaited;
        about->never_comes = false;
    }
    return leaving;
}

/*
 * Ask those whether they leave, at once if others seem to know it already: those have called again,
 * and wait only so long for this attempt to fail, too. Without the lock.
 */
static void look_for_leaving(struct nxr_reform *reform)
{
    bool is_disputed = atomic_load(&reform->is_disputed);

    for (int i = 0; i < reform->size; i++) {
        struct nxr_reform_member *about = &reform->about[i];

        if (about->is_awaited) {
            if (is_disputed || nxr_leaving_is_known(reform->ranks[i])) {
                nxr_leaving_hurry(&about->leaving, reform->ranks[i]);
            }
            about->never_comes = nxr_leaving_never_comes(&about->leaving, reform->ranks[i]);
        } else {
            about->leaving.awaited = 0;
        }
    }
}

/* Say what is due to all that can be reached. Returns who never can; -1: none. */
static int say_due(struct nxr_reform *reform, int64_t now)
{
    bool is_due = now >= reform->send_at;
    int unreached = -1;

    for (int i = 0; i < reform->size; i++) {
        struct nxr_reform_member *about = &reform->about[i];
        bool is_concerned = nxr_reform_is_mine(reform)
                                ? i != reform->me
                                : i == reform->coordinator && reform->state == NXR_REFORM_GATHERING;

        about->must_send = is_concerned && (about->must_send || is_due);
        if (about->must_send &&
            nxr_reform_tell(reform, i,
                            nxr_reform_is_mine(reform) ? NXR_REFORM_PROPOSE : NXR_REFORM_JOIN)) {
            about->must_send = false;
        } else if (about->must_send) {
            const struct nxr_peer *peer = nxr_peer_find(reform->ranks[i]);

            unreached = peer != NULL && peer->transport == NULL &&
                                atomic_load(&peer->connection) >= NXR_CONNECTION_UP
                            ? i
                            : unreached;
        }
    }
    reform->send_at = is_due ? now + AGAIN_NS : reform->send_at;
    return unreached;
}

/* All have accepted? Then they make the team. */
static void try_to_commit(struct nxr_reform *reform)
{
    for (int i = 0; i < reform->size; i++) {
        if (i != reform->me && !reform->about[i].has_accepted) {
            return;
        }
    }
    reform->state = NXR_REFORM_COMMITTED;
    for (int i = 0; i < reform->size; i++) {
        if (i != reform->me) {
            (void)nxr_reform_tell(reform, i, NXR_REFORM_COMMIT);
        }
    }
}

/* Caller holds job.lock. */
static void reform_step(struct nxr_reform *reform)
{
    struct nxr_reform_failure lost = {.status = NIXL_E_PEER_LOST};
    int64_t now = nxr_now_ns();
    int member;

    if (reform->state == NXR_REFORM_FAILED || reform->state == NXR_REFORM_COMMITTED) {
        return;
    }
    lost.member = find_lost(reform, &lost.has_left);
    if (lost.member >= 0) {
        nxr_reform_give_up(reform, &lost);
    } else if ((lost.member = find_leaving(reform)) >= 0) {
        lost.has_left = true;
        nxr_reform_give_up(reform, &lost);
    } else if (atomic_load(&reform->is_canceled) || nxr_agreements_are_stopping()) {
        give_up_of(reform, NIXL_E_CANCELED, -1);
    } else if ((member = say_due(reform, now)) >= 0) {
        give_up_of(reform, NIXL_E_UNSUPPORTED, member);
    } else if ((member = find_disagreeing(reform, now)) >= 0) {
        give_up_disagreeing(reform, member);
    } else if (now >= reform->deadline) {
        give_up_late(reform, now);
    } else if (nxr_reform_is_mine(reform)) {
        try_to_commit(reform);
    }
}

static bool reform_has_news(void *arg)
{
    const struct nxr_reform *reform = arg;

    if (atomic_load_explicit(&reform->n_news, memory_order_acquire) != reform->n_news_seen ||
        nxr_event_n_deaths() != reform->n_deaths_seen || nxr_agreements_are_stopping()) {
        return true;
    }
    for (int i = 0; i < reform->size; i++) {
        const struct nxr_peer *peer =
            reform->about[i].must_send ? nxr_peer_find(reform->ranks[i]) : NULL;

        if (peer != NULL && nxr_peer_is_up(peer)) {
            return true;
        }
    }
    return false;
}

/* Notice deaths that only a look finds. */
static void look_at_lives(const struct nxr_reform *reform)
{
    for (int i = 0; i < reform->size; i++) {
        struct nxr_peer *peer = i != reform->me ? nxr_peer_find(reform->ranks[i]) : NULL;

        if (peer != NULL) {
            (void)nxr_life_check(peer);
        }
    }
}

/* How long to sleep until something is to be said or looked for. */
static int64_t reform_sleep(const struct nxr_reform *reform)
{
    int64_t sleep_ns = nxr_left(reform->timeout_ns, reform->deadline);

    sleep_ns = sleep_ns < AGAIN_NS ? sleep_ns : AGAIN_NS;
    for (int i = 0; i < reform->size; i++) {
        sleep_ns = nxr_leaving_sleep(&reform->about[i].leaving, sleep_ns);
    }
    return sleep_ns;
}

static enum nxr_reform_state reform_go_on(struct nxr_reform *reform)
{
    enum nxr_reform_state state;

    reform->n_news_seen = atomic_load_explicit(&reform->n_news, memory_order_acquire);
    reform->n_deaths_seen = nxr_event_n_deaths();
    look_at_lives(reform);
    look_for_leaving(reform);
    pthread_mutex_lock(&nxr_job.lock);
    reform_step(reform);
    state = reform->state;
    pthread_mutex_unlock(&nxr_job.lock);
    if (state == NXR_REFORM_GATHERING || state == NXR_REFORM_ACCEPTED) {
        (void)nxr_wait(reform_has_news, reform, reform_sleep(reform));
    }
    return state;
}

/* ---- the attempt ----------------------------------------------------------------------------- */

struct nxr_reform *nxr_reform_in(uint64_t context)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &reforms) {
        struct nxr_reform *reform = nxr_list_entry(link, struct nxr_reform, link);

        if (reform->context == context) {
            return reform;
        }
    }
    return NULL;
}

/* Enter the list. NIXL_INPROGRESS: an attempt that was canceled is about to end. */
static int reform_enter(struct nxr_reform *reform)
{
    const struct nxr_reform *other;
    int status = NIXL_OK;

    pthread_mutex_lock(&nxr_job.lock);
    other = nxr_reform_in(reform->context);
    if (other == NULL) {
        nxr_list_append(&reforms, &reform->link);
    } else {
        status = atomic_load(&other->is_canceled) ? NIXL_INPROGRESS : NIXL_E_IN_USE;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

struct entering {
    struct nxr_reform *reform;
    int status;
};

static bool reform_has_entered(void *arg)
{
    struct entering *entering = arg;

    entering->status = reform_enter(entering->reform);
    return entering->status != NIXL_INPROGRESS;
}

static int reform_enter_within(struct nxr_reform *reform, int64_t timeout_ns)
{
    struct entering entering = {.reform = reform, .status = NIXL_OK};
    int status = nxr_wait(reform_has_entered, &entering, timeout_ns);

    if (status == NIXL_INPROGRESS || (status == NIXL_OK && entering.status == NIXL_OK)) {
        reform->has_begun = status == NIXL_OK;
        return status;
    }
    return nxr_fail(NIXL_E_IN_USE, reform->operation, -1, "", 0,
                    "another call or request of this process re-forms a team in this context; "
                    "allowed: one at a time in each context");
}

static void reform_prepare(struct nxr_reform *reform)
{
    nxr_list_init(&reform->link);
    reform->deadline = nxr_deadline(reform->timeout_ns);
    reform->failure.member = -1;
    reform->list = (uint64_t)reform->size;
    for (int i = 0; i < reform->size; i++) {
        const struct nxr_identity *member = &reform->members[i];
        const struct nxr_identity *lowest = &reform->members[reform->coordinator];
        uint64_t one =
            nxr_hash_mix(member->job, (uint64_t)member->incarnation << 32 | (uint32_t)member->rank);

        reform->list = nxr_hash_mix(reform->list, one);
        reform->set += one;
        if (member->job < lowest->job ||
            (member->job == lowest->job && member->rank < lowest->rank)) {
            reform->coordinator = i;
        }
    }
}

/* A number that no other attempt has. */
static uint64_t reform_random(void)
{
    static _Atomic uint64_t n_made;
    uint64_t epoch = 0;

    if (!nxr_random(&epoch, sizeof(epoch)) || epoch == 0) {
        epoch = nxr_hash_mix((uint64_t)nxr_now_ns(), nxr_job.self.job + (uint32_t)nxr_job.rank);
        epoch = nxr_hash_mix(epoch, atomic_fetch_add(&n_made, 1)) | 1;
    }
    return epoch;
}

void nxr_reform_new_epoch(struct nxr_reform *reform)
{
    reform->epoch = reform_random();
    nxr_agreement_admit(reform->epoch);
    for (int i = 0; i < reform->size; i++) {
        reform->about[i].has_accepted = false;
    }
    reform->send_at = 0; /* propose at once */
}

int nxr_reform_begin(struct nxr_reform *reform, int64_t timeout_ns)
{
    reform->about = calloc((size_t)reform->size, sizeof(*reform->about));
    if (reform->about == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, reform->operation, -1, "", 0,
                        "no memory for a list of members");
    }
    reform_prepare(reform);
    if (nxr_reform_is_mine(reform)) {
        nxr_reform_new_epoch(reform);
    }
    return reform_enter_within(reform, timeout_ns);
}

int nxr_reform_agree(struct nxr_reform *reform)
{
    enum nxr_reform_state state;
    int status = reform->has_begun ? NIXL_OK : reform_enter_within(reform, reform->timeout_ns);

    if (status == NIXL_OK) {
        do {
            state = reform_go_on(reform);
        } while (state == NXR_REFORM_GATHERING || state == NXR_REFORM_ACCEPTED);
        status = state == NXR_REFORM_COMMITTED ? NIXL_OK : nxr_reform_fail(reform);
    }
    return status;
}

void nxr_reform_end(struct nxr_reform *reform)
{
    if (reform->about != NULL) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_list_remove(&reform->link);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    free(reform->about);
    reform->about = NULL;
    nxr_wake_self(); /* who waits to enter */
}

void nxr_reform_cancel(struct nxr_reform *reform)
{
    atomic_store(&reform->is_canceled, true);
    nxr_reform_news(reform);
}
