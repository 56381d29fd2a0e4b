/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls about a grant: renew and query ask its owner, whose library answers; revoke is the
 * owner's. Lock: lent_lock, as the owner.
 */
#include "config.h"

#include "grant/grant.h"
#include "control/dispatch.h"
#include "control/question.h"
#include "core/request.h"
#include "core/service.h"
#include "core/trace.h"
#include "core/wait.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"
#include "util/struct.h"

#include <string.h>

_Static_assert(NXR_WIRE_NONCE_NBYTES == NXR_TOKEN_NONCE_NBYTES, "a token's");

/* ---- at the owner ---------------------------------------------------------------------------- */

/* The slot of a grant that this rank has made, if it still has that grant. Caller holds the lock.
 */
static struct nxr_lent *find_lent(uint32_t slot, uint32_t turn, const unsigned char *nonce)
{
    struct nxr_lent *lent = nxr_lent_at(slot);

    return lent != NULL && lent->turn == turn && turn != 0 &&
                   memcmp(lent->nonce, nonce, sizeof(lent->nonce)) == 0
               ? lent
               : NULL;
}

/* How much of its lifetime is left. */
static int64_t lent_left(const struct nxr_lent *lent, int64_t now)
{
    return lent->expires_at == INT64_MAX ? NIXL_FOREVER
           : lent->expires_at > now      ? lent->expires_at - now
                                         : 0;
}

/* What is known of a grant. Caller holds the lock. */
static void tell_lent(const struct nxr_lent *lent, int64_t now, struct nxr_wire_grant *told)
{
    const struct nxr_grant_record *record = nxr_lent_record(lent);
    uint64_t word = atomic_load(&record->word);
    uint32_t uses = nxr_grant_word_uses(word);

    told->state = nxr_grant_word_state(word, lent->turn);
    told->rights = record->rights;
    told->uses_left = uses == NXR_GRANT_ANY_USES ? UINT32_MAX : uses;
    told->left_ns = told->state == NIXL_GRANT_OPEN ? lent_left(lent, now) : 0;
    told->nbytes = record->nbytes;
    (void)nxr_lent_user(lent, &told->n_users);
}

/* Answer a question, asked by any process or by this one. Any thread; job.lock may be held. */
static void answer_renew(const struct nxr_wire_renew *asked, struct nxr_wire_grant *told)
{
    int64_t now = nxr_now_ns();
    bool must_kick = false;
    struct nxr_lent *lent;

    pthread_mutex_lock(&nxr_lent_lock);
    lent = find_lent(asked->slot, asked->turn, asked->nonce);
    if (lent != NULL) {
        if (lent->req != NULL && lent->expires_at <= now) { /* the timer has yet to notice it */
            nxr_lent_shut(lent, NIXL_GRANT_EXPIRED);
        }
        tell_lent(lent, now, told);
    }
    if (lent != NULL && told->state == NIXL_GRANT_OPEN && asked->lifetime_ns > 0) {
        must_kick = nxr_lent_expires(lent, nxr_deadline(asked->lifetime_ns));
        told->left_ns = asked->lifetime_ns;
    }
    pthread_mutex_unlock(&nxr_lent_lock);
    if (must_kick) {
        nxr_service_kick();
    }
}

/* A peer asks. Holds job.lock. */
static void take_renew(const struct nxr_control_source *source,
                       const union nxr_wire_message *question)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_GRANT);
    message.grant.ask = question->renew.ask;
    answer_renew(&question->renew, &message.grant);
    nxr_peer_tell(source->peer, &message);
}

void nxr_grant_register_messages(void)
{
    nxr_control_register(NXR_WIRE_RENEW, take_renew);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int read_grant_token(const char *operation, const char *text, struct nxr_token *token,
                            int *rank_p)
{
    int status = nxr_token_read(operation, text, token, rank_p);

    return status == NIXL_OK && token->use != NXR_TOKEN_GRANT
               ? nxr_token_refuse(operation, *rank_p, NIXL_E_INVALID_ARG,
                                  "it is not of a grant: nixl_pair_expose() has made it")
               : status;
}

static int fail_ask(const char *operation, int rank, int status)
{
    switch (status) {
    case NIXL_E_PEER_LOST:
        return nxr_peer_fail_lost(operation, rank, "");
    case NIXL_E_UNSUPPORTED:
        return nxr_peer_fail_unreached(operation, nxr_peer_find(rank));
    case NIXL_E_CANCELED:
        return nxr_fail(status, operation, rank, "", 0, "nixl_question_cancel() has ended it");
    default:
        return nxr_fail(status, operation, rank, "", 0,
                        "%s, which owns the grant, has not answered within %s "
                        "(NIXLRUN_OP_TIMEOUT)",
                        nxr_rank_name(rank), nxr_duration(nxr_env.op_timeout).text);
    }
}

/* Ask another rank, as the question says. */
static int ask_owner(const char *operation, const struct nxr_token *token, int rank,
                     union nxr_wire_message *message)
{
    int status = nxr_token_check_maker(operation, token, rank);

    if (status != NIXL_OK) {
        return status;
    }
    status = nxr_question_ask_openly(nxr_peer_find(rank), message, nxr_env.op_timeout);
    return status == NIXL_OK ? status : fail_ask(operation, rank, status);
}

/* Ask the owner of a token: NIXL_OK and what it has told, or the failure, recorded. */
static int ask_about(const char *operation, const char *text, int64_t lifetime_ns, int *rank_p,
                     struct nxr_wire_grant *told)
{
    union nxr_wire_message message;
    struct nxr_token token;
    int status = read_grant_token(operation, text, &token, rank_p);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_wire_init(&message, NXR_WIRE_RENEW);
    message.renew.slot = token.slot;
    message.renew.turn = token.turn;
    message.renew.lifetime_ns = lifetime_ns;
    memcpy(message.renew.nonce, token.nonce, sizeof(token.nonce));
    if (*rank_p == nxr_job.rank) {
        const struct nxr_wire_renew asked = message.renew;

        status = nxr_token_check_maker(operation, &token, *rank_p);
        nxr_wire_init(&message, NXR_WIRE_GRANT);
        answer_renew(&asked, &message.grant);
    } else {
        status = ask_owner(operation, &token, *rank_p, &message);
    }
    *told = message.grant;
    return status == NIXL_OK && told->state == 0 ? nxr_grant_refuse(operation, *rank_p, 0) : status;
}

int nixl_grant_renew(const char *token, int64_t lifetime_ns)
{
    static const char operation[] = "nixl_grant_renew";
    struct nxr_wire_grant told = {0};
    int rank, status = nxr_check_ready(operation);

    if (status == NIXL_OK && lifetime_ns <= 0) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                          "lifetime_ns is %lld; allowed: more than 0, or NIXL_FOREVER",
                          (long long)lifetime_ns);
    }
    if (status == NIXL_OK) {
        status = ask_about(operation, token, lifetime_ns, &rank, &told);
    }
    return status == NIXL_OK && told.state != NIXL_GRANT_OPEN
               ? nxr_grant_refuse(operation, rank, told.state)
               : status;
}

int nixl_grant_query(const char *token, struct nixl_grant_info *info_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_grant_info, NIXL_GRANT_INFO_INIT, nbytes);
    static const char operation[] = "nixl_grant_query";
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    struct nxr_wire_grant told = {0};
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK) {
        status = nxr_struct_check(operation, "info_p", &type, info_p);
    }
    if (status == NIXL_OK) {
        status = ask_about(operation, token, 0, &info.rank, &told);
    }
    if (status != NIXL_OK) {
        return status;
    }
    info.state = told.state;
    info.rights = told.rights;
    info.uses_left = told.uses_left;
    info.nusers = told.n_users;
    info.left_ns = told.left_ns;
    info.nbytes = told.nbytes;
    nxr_struct_write(&type, &info, info_p);
    return NIXL_OK;
}

/* ---- revoking -------------------------------------------------------------------------------- */

/* A grant that is being revoked. */
struct revoking {
    const struct nxr_token *token;
    int user; /* that is inside; -1: nobody is */
};

static bool revoking_is_over(void *arg)
{
    struct revoking *revoking = arg;
    const struct nxr_token *token = revoking->token;
    struct nxr_lent *lent;
    uint32_t n_users;

    revoking->user = -1;
    pthread_mutex_lock(&nxr_lent_lock);
    lent = find_lent(token->slot, token->turn, token->nonce);
    if (lent != NULL && lent->req != NULL) {
        nxr_lent_shut(lent, NIXL_GRANT_REVOKED);
        nxr_lent_watch(nxr_lent_look(lent));
        if (lent->req != NULL) {
            revoking->user = nxr_lent_user(lent, &n_users);
        }
    }
    pthread_mutex_unlock(&nxr_lent_lock);
    return revoking->user < 0;
}

/* Has this process made the token? One of a former turn is right as far as can be known. */
static int check_own(const char *operation, const struct nxr_token *token, int rank)
{
    struct nxr_lent *lent;
    bool is_known;

    if (rank != nxr_job.rank || !nxr_identity_is(&token->maker, &nxr_job.self)) {
        return nxr_token_refuse(operation, rank, NIXL_E_INVALID_ARG,
                                "another process made it, and only that one can revoke the grant");
    }
    pthread_mutex_lock(&nxr_lent_lock);
    lent = nxr_lent_at(token->slot);
    is_known = lent != NULL && token->turn != 0 && token->turn <= lent->turn &&
               (token->turn < lent->turn || find_lent(token->slot, token->turn, token->nonce));
    pthread_mutex_unlock(&nxr_lent_lock);
    return is_known ? NIXL_OK
                    : nxr_token_refuse(operation, rank, NIXL_E_INVALID_ARG,
                                       "it is forged: there was never such a grant");
}

static int call_grant_revoke(const char *token, int64_t timeout_ns)
{
    static const char operation[] = "nixl_grant_revoke";
    struct revoking revoking;
    struct nxr_token read;
    int rank, status = read_grant_token(operation, token, &read, &rank);

    if (status == NIXL_OK && timeout_ns < 0) {
        status = nxr_fail_timeout(operation, -1, timeout_ns);
    }
    if (status == NIXL_OK) {
        status = check_own(operation, &read, rank);
    }
    if (status != NIXL_OK) {
        return status;
    }
    revoking.token = &read;
    status = nxr_wait_as(
        revoking_is_over, &revoking, timeout_ns, nxr_describe_reason,
        &(const struct nxr_reason){.kind = NXR_WAIT_GRANT, .peer = -1, .call = operation});
    return status == NIXL_E_TIMEOUT
               ? nxr_fail(status, operation, revoking.user, "", 0,
                          "%s has begun to use the grant and has not ended after %s; no operation "
                          "begins any more, but the blocks are not free yet",
                          nxr_rank_name(revoking.user), nxr_duration(timeout_ns).text)
               : status;
}

int nixl_grant_revoke(const char *token, int64_t timeout_ns)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_grant_revoke", -1, 0, 0,
                      call_grant_revoke(token, timeout_ns));
}
