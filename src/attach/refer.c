/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call that attaches to another rank of a job which is attached already: one question after the
 * other until the timeout, where another one may help. No state; job.lock only to look at peers.
 */
#include "config.h"

#include "attach/connect.h"
#include "attach/referral.h"
#include "control/question.h"
#include "core/wait.h"
#include "net/net.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"

#include <stdio.h>
#include <string.h>

#define REFER_CALL "nixl_attach_rank"
#define LOOK_NS    (20 * NXR_MS) /* before the next question */

#define SAY(_call, ...) snprintf((_call)->why, sizeof((_call)->why), __VA_ARGS__)

struct refer_call {
    /* What the call asks for. */
    int through;
    struct nxr_identity wanted; /* of any incarnation */
    int64_t deadline;

    /* Its outcome. */
    int rank;
    bool is_final;
    char why[2 * NXR_WHY_NBYTES];
};

static bool refer_never(void *arg)
{
    (void)arg;
    return false;
}

static int refer_refuse(struct refer_call *call, int status)
{
    call->is_final = true;
    return status;
}

/* Whom to ask. NIXL_OK and the peer. Caller holds job.lock. */
static int refer_choose(struct refer_call *call, struct nxr_peer **peer_p)
{
    if (call->through == nxr_job.rank) {
        *peer_p = nxr_referral_contact(call->wanted.job);
        SAY(call, "this process is attached to no living process of that job; allowed: a rank of "
                  "this job that is; or attach to one first");
        return *peer_p != NULL ? NIXL_OK : refer_refuse(call, NIXL_E_NOT_FOUND);
    }
    *peer_p = nxr_peer_get_locked(call->through);
    if (*peer_p == NULL) {
        SAY(call, "no memory for the peer to ask");
        return refer_refuse(call, NIXL_E_NO_MEMORY);
    }
    if (nxr_peer_is_lost(*peer_p)) {
        SAY(call, "%s, which is to be asked, is lost or has left", nxr_peer_name(*peer_p));
        return refer_refuse(call, NIXL_E_PEER_LOST);
    }
    return NIXL_OK;
}

/* Ask one process. NIXL_OK: *message is its answer, of whatever status. */
static int refer_ask(struct refer_call *call, union nxr_wire_message *message)
{
    int64_t left = nxr_left(nxr_env.resolve_timeout, call->deadline);
    struct nxr_peer *peer = NULL;
    int status;

    left = left < nxr_env.resolve_timeout ? left : nxr_env.resolve_timeout;
    pthread_mutex_lock(&nxr_job.lock);
    status = refer_choose(call, &peer);
    if (status == NIXL_OK) {
        nxr_referral_make(message, call->wanted.job, call->wanted.rank);
        if (nxr_peer_is_attached(peer)) {
            snprintf(message->refer.name, sizeof(message->refer.name), "%s", nxr_attach_name(peer));
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_question_ask(peer, message, left > LOOK_NS ? left : LOOK_NS);
    if (status != NIXL_OK) {
        SAY(call, "%s, which was asked, %s", nxr_peer_name(peer),
            status == NIXL_E_TIMEOUT ? "does not answer"
                                     : (status == NIXL_E_PEER_LOST ? "is lost" : "is not reached"));
        call->is_final = status == NIXL_E_UNSUPPORTED;
    }
    return status;
}

/* Connect to the process that has answered. */
static int refer_connect(struct refer_call *call, const struct nxr_wire_referred *referred)
{
    struct nxr_full_card card;
    const struct nxr_met met = {&card, referred->number, referred->job_size, referred->name};
    struct nxr_connecting connecting = {.what = ", which is asked for,",
                                        .deadline = call->deadline};
    int status;

    if (nxr_card_parse(&referred->card, referred->card.head.nbytes, &call->wanted, &card) !=
        NIXL_OK) {
        SAY(call, "its card is damaged, or of another version of nixlrun");
        return refer_refuse(call, NIXL_E_UNSUPPORTED);
    }
    connecting.who = nxr_identity_name(&card.head.identity);
    status = nxr_connect_met(&met, &connecting);
    call->rank = connecting.rank;
    call->is_final = connecting.is_final;
    if (status != NIXL_OK) {
        SAY(call, "%s", connecting.why);
    }
    return status == NIXL_E_NOT_FOUND ? NIXL_E_PEER_LOST : status;
}

/* One attempt. NIXL_OK and the number, or the failure in words, and whether it is final. */
static int refer_once(struct refer_call *call)
{
    union nxr_wire_message message;
    int status;

    call->is_final = false;
    status = refer_ask(call, &message);
    if (status == NIXL_OK && message.referred.status == NIXL_E_AGAIN) {
        (void)nxr_net_open();
        status = refer_ask(call, &message);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (message.referred.status == NIXL_OK) {
        return refer_connect(call, &message.referred);
    }
    SAY(call, "%s", message.referred.why);
    call->is_final =
        message.referred.status != NIXL_E_PEER_LOST && message.referred.status != NIXL_E_TIMEOUT;
    return message.referred.status;
}

static int refer_try(struct refer_call *call, int64_t timeout_ns)
{
    const struct nxr_reason reason = {
        .kind = NXR_WAIT_ATTACH, .call = REFER_CALL, .peer = call->through};

    for (;;) {
        int status = refer_once(call);
        int64_t left;

        if (status == NIXL_OK || call->is_final || timeout_ns == 0 ||
            nxr_now_ns() >= call->deadline) {
            return status;
        }
        left = nxr_left(timeout_ns, call->deadline);
        (void)nxr_wait_as(refer_never, NULL, left < LOOK_NS ? left : LOOK_NS, nxr_describe_reason,
                          &reason);
    }
}

static int refer_check(const char *operation, int through, uint64_t job, int job_rank)
{
    const struct nxr_peer *peer;

    if (!nxr_is_rank(through)) {
        return nxr_fail_rank(operation, through);
    }
    if (job == nxr_job.self.job) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, through, "", 0,
                        "that is this job, whose ranks have their ranks as numbers; allowed: the "
                        "job of an attached process, which nixl_peer_query() tells");
    }
    if (job_rank < 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, through, "", 0,
                        "job_rank is %d; allowed: a rank of that job, 0 or more", job_rank);
    }
    peer = nxr_attached_find(through);
    if (peer != NULL && peer->identity.job != job) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, through, "", 0,
                        "rank %d is %s, which makes only ranks of its own job known; allowed: a "
                        "process of the job that is wanted, or a rank of this one",
                        through, nxr_peer_name(peer));
    }
    return NIXL_OK;
}

int nixl_attach_rank(int through, uint64_t job, int job_rank, int64_t timeout_ns, int *rank_p)
{
    static const char operation[] = REFER_CALL;
    struct refer_call call = {.through = through, .wanted = {job, job_rank, 0}};
    int status = nxr_check_ready(operation), known;

    if (status == NIXL_OK) {
        status = refer_check(operation, through, job, job_rank);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, through, timeout_ns);
    }
    if (rank_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, through, "", 0, "rank_p is NULL");
    }
    known = nxr_peer_number(job, job_rank);
    if (known >= 0) {
        *rank_p = known;
        return NIXL_OK;
    }
    call.deadline = timeout_ns != 0 ? nxr_deadline(timeout_ns) : INT64_MAX;
    status = refer_try(&call, timeout_ns);
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, through, "", 0, "cannot attach to %s: %s",
                        nxr_identity_name(&call.wanted), call.why);
    }
    *rank_p = call.rank;
    return NIXL_OK;
}
