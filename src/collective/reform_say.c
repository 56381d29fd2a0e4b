/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attempt to agree on a team says to the other members, also when it gives up. Lock:
 * job.lock, which all callers hold.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/reform_say.h"
#include "core/service.h"
#include "core/wait.h"

#include <string.h>

void nxr_reform_news(struct nxr_reform *reform)
{
    atomic_fetch_add_explicit(&reform->n_news, 1, memory_order_release);
    nxr_wake_self();
}

/* ---- saying ---------------------------------------------------------------------------------- */

union nxr_wire_message nxr_reform_message(const struct nxr_reform *reform,
                                          enum nxr_reform_step step)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_REFORM);
    message.reform.context = reform->context;
    message.reform.epoch = reform->epoch;
    message.reform.list = reform->list;
    message.reform.set = reform->set;
    message.reform.size = reform->size;
    message.reform.step = step;
    message.reform.member = -1;
    return message;
}

bool nxr_reform_send(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    if (peer == NULL || !nxr_peer_is_up(peer) || peer->transport == NULL) {
        if (peer != NULL) {
            nxr_peer_want(peer);
        }
        return false;
    }
    nxr_peer_tell(peer, message);
    nxr_service_kick();
    return true;
}

/* Returns how many are marked. */
static int reform_mark(const struct nxr_reform *reform, bool also_called, uint64_t *missing)
{
    int n = 0;

    for (int i = 0; i < reform->size && i < NXR_REFORM_NAMED; i++) {
        const struct nxr_reform_member *about = &reform->about[i];

        if (i != reform->me && !about->has_accepted && (also_called || !about->has_called)) {
            missing[i / 64] |= UINT64_C(1) << (i % 64);
            n++;
        }
    }
    return n;
}

/* Those whose time was over a little earlier have waited for the others, too. */
void nxr_reform_mark_missing(const struct nxr_reform *reform, uint64_t *missing)
{
    if (reform_mark(reform, false, missing) == 0) {
        (void)reform_mark(reform, true, missing);
    }
}

bool nxr_reform_tell(const struct nxr_reform *reform, int member, enum nxr_reform_step step)
{
    union nxr_wire_message message = nxr_reform_message(reform, step);

    if (step == NXR_REFORM_PROPOSE) {
        nxr_reform_mark_missing(reform, message.reform.missing);
    }
    return nxr_reform_send(nxr_peer_get_locked(reform->ranks[member]), &message);
}

static void tell_abort(const struct nxr_reform *reform, int member)
{
    const struct nxr_reform_failure *failure = &reform->failure;
    union nxr_wire_message message = nxr_reform_message(reform, NXR_REFORM_ABORT);

    message.reform.status = failure->status;
    message.reform.member = failure->member;
    message.reform.has_left = failure->has_left;
    message.reform.cause = failure->cause;
    memcpy(message.reform.missing, failure->missing, sizeof(failure->missing));
    if (failure->cause == NXR_REFORM_DISAGREES) { /* what the other one has */
        message.reform.size = failure->other_size;
        message.reform.set = reform->about[failure->member].set;
    }
    (void)nxr_reform_send(nxr_peer_get_locked(reform->ranks[member]), &message);
}

/* That it has refused is why this attempt fails: its own is told by the list that it has. */
static void tell_refuser(const struct nxr_reform *reform, int member)
{
    union nxr_wire_message message = nxr_reform_message(reform, NXR_REFORM_ABORT);

    message.reform.epoch = 0;
    message.reform.list = reform->about[member].list;
    message.reform.status = reform->failure.status;
    message.reform.cause = NXR_REFORM_DISAGREES;
    (void)nxr_reform_send(nxr_peer_get_locked(reform->ranks[member]), &message);
}

/* ---- giving up ------------------------------------------------------------------------------- */

/* A member that has accepted: those that make the team must not wait for it. */
static void withdraw(const struct nxr_reform *reform)
{
    const struct nxr_reform_failure *failure = &reform->failure;
    int member = failure->member >= 0 ? failure->member : reform->me;
    bool is_gone = failure->status == NIXL_E_PEER_LOST && failure->has_left;
    bool has_left = is_gone && nxr_peer_has_left(reform->ranks[member]);
    const struct nxr_verdict verdict = {
        .status = failure->status,
        .member = member,
        .has_left = has_left,
        .cause = is_gone && !has_left ? NXR_VERDICT_LEAVES : NXR_VERDICT_STATUS,
    };

    (void)nxr_agreement_write(reform->epoch, &verdict);
    tell_abort(reform, reform->coordinator);
}

void nxr_reform_give_up(struct nxr_reform *reform, const struct nxr_reform_failure *failure)
{
    reform->failure = *failure;
    if (nxr_reform_is_mine(reform)) {
        for (int i = 0; i < reform->size; i++) {
            if (reform->about[i].has_accepted) {
                tell_abort(reform, i);
            } else if (reform->about[i].has_refused && failure->cause == NXR_REFORM_DISAGREES) {
                tell_refuser(reform, i);
            }
        }
    } else if (reform->state == NXR_REFORM_ACCEPTED) {
        withdraw(reform);
    }
    reform->state = NXR_REFORM_FAILED;
    nxr_reform_news(reform);
}
