/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages about agreeing on a team, and what they change of the attempts of this process. Lock:
 * job.lock, which the callers hold.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/reform_say.h"
#include "control/dispatch.h"
#include "util/clock.h"

#include <string.h>

/* The team rank of a process; -1: not a member. */
static int reform_member_of(const struct nxr_reform *reform, const struct nxr_peer *peer)
{
    for (int i = 0; i < reform->size; i++) {
        if (nxr_identity_is(&reform->members[i], &peer->identity)) {
            return i;
        }
    }
    return -1;
}

/* Somebody has another list. */
static void take_other_list(struct nxr_reform *reform, struct nxr_peer *peer,
                            const struct nxr_wire_reform *message)
{
    union nxr_wire_message answer = nxr_reform_message(reform, NXR_REFORM_REFUSE);
    int member = reform_member_of(reform, peer);
    int64_t now = nxr_now_ns();

    if (message->step == NXR_REFORM_JOIN || message->step == NXR_REFORM_PROPOSE) {
        answer.reform.epoch = message->epoch;
        (void)nxr_reform_send(peer, &answer);
    }
    if (member >= 0) {
        atomic_store(&reform->is_disputed, true);
        nxr_reform_news(reform);
    }
    /* Members that do not coordinate leave it to the one that does. */
    if (member >= 0 && (nxr_reform_is_mine(reform) || member == reform->coordinator)) {
        struct nxr_reform_member *about = &reform->about[member];

        about->refused_at = about->has_refused ? about->refused_at : now;
        about->refused_last = now;
        about->has_refused = true;
        about->has_accepted = false;
        about->list = message->list;
        about->set = message->set;
        about->size = message->size;
    }
}

/* The coordinator has given up because this process has another list. */
static void take_disagreement(struct nxr_reform *reform, int from,
                              const struct nxr_wire_reform *message)
{
    const struct nxr_reform_failure failure = {.status = NIXL_E_INVALID_ARG,
                                               .member = from,
                                               .cause = NXR_REFORM_DISAGREES,
                                               .other_size = message->size,
                                               .is_other_order = message->set == reform->set};

    if (from == reform->coordinator && message->list == reform->list) {
        nxr_reform_give_up(reform, &failure);
    }
}

/* A member gives up. Unless a member is lost, it may call again: the others may wait for that. */
static void take_withdrawal(struct nxr_reform *reform, int from,
                            const struct nxr_wire_reform *message)
{
    bool is_loss = message->status == NIXL_E_PEER_LOST && message->member >= 0 &&
                   message->member < reform->size && message->member != reform->me;
    const struct nxr_reform_failure lost = {
        .status = NIXL_E_PEER_LOST, .member = message->member, .has_left = message->has_left != 0};
    /* This process itself is not lost, whatever a member takes it for. */
    int status =
        message->status == NIXL_E_PEER_LOST && !is_loss ? NIXL_E_CANCELED : message->status;
    const struct nxr_verdict verdict = {.status = status,
                                        .member = is_loss ? message->member : from,
                                        .has_left = is_loss && message->has_left != 0};

    if (reform->state == NXR_REFORM_COMMITTED) {
        (void)nxr_agreement_write(reform->epoch, &verdict);
    } else if (reform->state == NXR_REFORM_GATHERING && is_loss) {
        nxr_reform_give_up(reform, &lost);
    } else if (reform->state == NXR_REFORM_GATHERING) {
        nxr_reform_new_epoch(reform);
    }
    nxr_reform_news(reform);
}

static void take_at_coordinator(struct nxr_reform *reform, int from,
                                const struct nxr_wire_reform *message)
{
    bool is_current = message->epoch == reform->epoch;

    if (message->step == NXR_REFORM_ABORT && is_current) {
        take_withdrawal(reform, from, message);
    } else if (reform->state != NXR_REFORM_GATHERING) {
        return;
    } else if (message->step == NXR_REFORM_JOIN) {
        reform->about[from].has_refused = false;
        (void)nxr_reform_tell(reform, from, NXR_REFORM_PROPOSE);
    } else if (message->step == NXR_REFORM_ACCEPT && is_current) {
        reform->about[from].has_refused = false;
        reform->about[from].has_accepted = reform->about[from].has_called = true;
        nxr_reform_news(reform);
    }
}

static void take_proposal(struct nxr_reform *reform, const struct nxr_wire_reform *message)
{
    /* The first one of a new attempt does not know yet who is about to call. */
    bool knows_missing = message->epoch == reform->epoch || reform->heard_at == 0;

    reform->about[reform->coordinator].has_refused = false;
    reform->heard_at = nxr_now_ns();
    reform->epoch = message->epoch;
    reform->state = NXR_REFORM_ACCEPTED;
    if (knows_missing) {
        memcpy(reform->missing, message->missing, sizeof(reform->missing));
    }
    if (reform->me < NXR_REFORM_NAMED) {
        reform->missing[reform->me / 64] &= ~(UINT64_C(1) << (reform->me % 64));
    }
    nxr_agreement_admit(reform->epoch);
    (void)nxr_reform_tell(reform, reform->coordinator, NXR_REFORM_ACCEPT);
    nxr_reform_news(reform);
}

/*
 * The coordinator gives up. If its time is over, it may call again, and this member waits for that
 * as long as it wants; it remembers who was missing.
 */
static void take_abort(struct nxr_reform *reform, const struct nxr_wire_reform *message)
{
    bool is_member = message->member >= 0 && message->member < reform->size;

    if (message->status == NIXL_E_TIMEOUT || message->status == NIXL_E_CANCELED) {
        reform->state = NXR_REFORM_GATHERING;
        reform->epoch = 0;
        reform->heard_at = nxr_now_ns();
        memcpy(reform->missing, message->missing, sizeof(reform->missing));
        return;
    }
    reform->failure = (struct nxr_reform_failure){
        .status = message->status,
        .member = is_member ? message->member : reform->coordinator,
        .has_left = message->has_left != 0,
        .cause = message->cause,
        .other_size = message->size,
        .is_other_order = message->set == reform->set,
    };
    memcpy(reform->failure.missing, message->missing, sizeof(message->missing));
    reform->state = NXR_REFORM_FAILED;
    nxr_reform_news(reform);
}

static void take_at_member(struct nxr_reform *reform, const struct nxr_wire_reform *message)
{
    bool is_waiting = reform->state == NXR_REFORM_GATHERING || reform->state == NXR_REFORM_ACCEPTED;
    bool is_current = reform->state == NXR_REFORM_ACCEPTED && message->epoch == reform->epoch;

    if (message->step == NXR_REFORM_PROPOSE && is_waiting && message->epoch != 0) {
        take_proposal(reform, message);
    } else if (message->step == NXR_REFORM_COMMIT && is_current) {
        reform->state = NXR_REFORM_COMMITTED;
        nxr_reform_news(reform);
    } else if (message->step == NXR_REFORM_ABORT && is_current) {
        take_abort(reform, message);
    }
}

static void reform_take(const struct nxr_control_source *source, const union nxr_wire_message *wire)
{
    const struct nxr_wire_reform *message = &wire->reform;
    struct nxr_reform *reform = nxr_reform_in(message->context);
    bool is_waiting = reform != NULL && (reform->state == NXR_REFORM_GATHERING ||
                                         reform->state == NXR_REFORM_ACCEPTED);
    bool is_of_list = message->step == NXR_REFORM_JOIN || message->step == NXR_REFORM_PROPOSE ||
                      message->step == NXR_REFORM_REFUSE;
    int from;

    if (reform == NULL) {
        return;
    }
    if (is_waiting && is_of_list && message->list != reform->list) {
        take_other_list(reform, source->peer, message);
        return;
    }
    from = reform_member_of(reform, source->peer);
    if (is_waiting && message->step == NXR_REFORM_ABORT && message->epoch == 0) {
        take_disagreement(reform, from, message);
    } else if (from >= 0 && nxr_reform_is_mine(reform)) {
        take_at_coordinator(reform, from, message);
    } else if (from >= 0 && from == reform->coordinator) {
        take_at_member(reform, message);
    }
}

void nxr_reform_register(void)
{
    nxr_control_register(NXR_WIRE_REFORM, reform_take);
}
