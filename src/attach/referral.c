/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking referrals: passing them on, and becoming known to those who come by them. The service
 * thread does it, whatever the program does. Lock: job.lock.
 */
#include "config.h"

#include "attach/referral.h"
#include "attach/connect.h"
#include "control/dispatch.h"
#include "control/question.h"
#include "core/attached.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "net/net.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/thread.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REFERRALS 1024         /* under way at one time */
#define LOOK_NS       (1 * NXR_MS) /* while the next process is being connected */
#define GUEST_NS      (30 * NXR_S) /* who was made known must connect within this */

/* A question that is under way here. */
struct referral {
    struct nxr_list link;
    struct nxr_identity asker;
    int asker_number;
    int to;       /* the next process; this rank: it is asked for itself */
    uint64_t ask; /* of the question that was passed on; 0: not yet */
    int64_t until;
    struct nxr_wire_refer refer;
};

/* A process that was made known by one, and has not connected yet. */
struct guest {
    struct nxr_list link;
    int number;
    int64_t until;
};

static struct nxr_list referrals = {&referrals, &referrals};
static struct nxr_list referral_guests = {&referral_guests, &referral_guests};
static int n_referrals;
static uint64_t referral_last_ask = NXR_QUESTION_OTHERS;

static pthread_t opener;
static bool has_opener; /* the thread is to be joined */

/* ---- questions ------------------------------------------------------------------------------- */

struct nxr_peer *nxr_referral_contact(uint64_t job)
{
    struct nxr_peer *peer = atomic_load(&nxr_job.attached);

    while (peer != NULL && (peer->identity.job != job || !peer->is_joined || peer->is_detached ||
                            nxr_peer_is_lost(peer) || !nxr_peer_is_up(peer))) {
        peer = atomic_load(&peer->next);
    }
    return peer;
}

/* The living attached process of that rank; NULL: there is none. */
static const struct nxr_peer *referral_known(uint64_t job, int job_rank)
{
    const struct nxr_peer *peer = atomic_load(&nxr_job.attached);

    while (peer != NULL && (peer->identity.job != job || peer->identity.rank != job_rank ||
                            peer->is_detached || nxr_peer_is_lost(peer))) {
        peer = atomic_load(&peer->next);
    }
    return peer;
}

void nxr_referral_make(union nxr_wire_message *message, uint64_t job, int job_rank)
{
    const struct nxr_peer *known = referral_known(job, job_rank);

    nxr_wire_init(message, NXR_WIRE_REFER);
    message->refer.job = job;
    message->refer.rank = job_rank;
    message->refer.number = known != NULL ? known->rank : (int32_t)nxr_n_numbers();
    message->refer.job_size = nxr_job.size;
    message->refer.has_networks = nxr_net_has_begun();
    message->refer.card = nxr_job.card;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer_init(union nxr_wire_message *answer, const struct nxr_wire_refer *refer)
{
    nxr_wire_init(answer, NXR_WIRE_REFERRED);
    answer->referred.ask = refer->ask;
    answer->referred.job_size = nxr_job.size;
    memcpy(answer->referred.name, refer->name, sizeof(answer->referred.name));
}

NIXL_PRINTF(3, 4)
static void answer_fail(union nxr_wire_message *answer, int status, const char *format, ...)
{
    va_list arguments;

    answer->referred.status = status;
    va_start(arguments, format);
    vsnprintf(answer->referred.why, sizeof(answer->referred.why), format, arguments);
    va_end(arguments);
}

/* Answer the asker, unless it has ended. */
static void referral_answer(const struct referral *referral, const union nxr_wire_message *answer)
{
    struct nxr_peer *asker =
        nxr_is_rank(referral->asker_number) ? nxr_peer_find(referral->asker_number) : NULL;

    if (asker != NULL && nxr_identity_is(&asker->identity, &referral->asker) &&
        !nxr_peer_is_lost(asker)) {
        nxr_peer_tell(asker, answer);
    }
}

static void referral_end(struct referral *referral, const union nxr_wire_message *answer)
{
    referral_answer(referral, answer);
    nxr_list_remove(&referral->link);
    n_referrals--;
    free(referral);
}

/* The next process has ended, is not reached or does not answer. */
static void referral_fail(struct referral *referral, int status, const char *what, const char *why)
{
    union nxr_wire_message answer;

    answer_init(&answer, &referral->refer);
    answer_fail(&answer, status, "%s %s%s%s", nxr_rank_name(referral->to), what,
                why[0] != '\0' ? ": " : "", why);
    referral_end(referral, &answer);
}

/* ---- the process that is asked for ----------------------------------------------------------- */

static void *referral_open_networks(void *unused)
{
    (void)nxr_net_open();
    nxr_service_kick();
    return unused;
}

/* Open the networks beside the service thread. False: they are being opened. */
static bool referral_have_networks(void)
{
    if (nxr_net_has_begun()) {
        return true;
    }
    if (!has_opener) {
        has_opener = nxr_thread_start(&opener, 0, referral_open_networks, NULL) == 0;
        if (!has_opener) {
            nxr_warn(HOST, "no thread to open the networks with");
        }
    }
    return !has_opener;
}

/* It was made known: it must connect. A card that has got addresses meanwhile replaces its own. */
static int referral_expect(struct nxr_peer *peer, bool is_new, const struct nxr_full_card *card)
{
    struct guest *guest;

    if (!is_new) {
        if (!nxr_peer_is_up(peer) && peer->full_card != NULL) {
            *peer->full_card = *card;
        }
        return NIXL_OK;
    }
    guest = calloc(1, sizeof(*guest));
    if (guest == NULL) {
        nxr_attached_end(peer);
        return NIXL_E_NO_MEMORY;
    }
    guest->number = peer->rank;
    guest->until = nxr_now_ns() + GUEST_NS;
    nxr_list_append(&referral_guests, &guest->link);
    nxr_service_kick();
    return NIXL_OK;
}

/* Make the process of that card known here, and answer with the own one. */
static void referral_meet(const struct nxr_wire_refer *refer, union nxr_wire_message *answer)
{
    struct nxr_wire_referred *referred = &answer->referred;
    struct nxr_full_card card;
    const struct nxr_met met = {&card, refer->number, refer->job_size, refer->name};
    struct nxr_peer *peer;
    bool is_new;
    int status;

    if (nxr_card_parse(&refer->card, refer->card.head.nbytes, &refer->card.head.identity, &card) !=
        NIXL_OK) {
        answer_fail(answer, NIXL_E_UNSUPPORTED,
                    "the card is damaged, or of another version of nixlrun");
        return;
    }
    referred->card = nxr_job.card;
    if (nxr_connect_may_need_networks(&card.head) && refer->has_networks == 0) {
        referred->status = NIXL_E_AGAIN;
        return;
    }
    status = nxr_attach_peer(&met, &peer, &is_new);
    if (status == NIXL_OK) {
        status = referral_expect(peer, is_new, &card);
    }
    if (status != NIXL_OK) {
        answer_fail(answer, status, "%s has no memory or no descriptor for one more",
                    nxr_identity_name(&nxr_job.self));
        return;
    }
    referred->number = peer->rank;
}

/* This rank is asked for. False: its networks are being opened. */
static bool referral_take_here(struct referral *referral)
{
    const struct nxr_wire_refer *refer = &referral->refer;
    union nxr_wire_message answer;

    if (nxr_connect_may_need_networks(&refer->card.head) && !referral_have_networks()) {
        return false;
    }
    answer_init(&answer, refer);
    referral_meet(refer, &answer);
    referral_end(referral, &answer);
    return true;
}

/* ---- passing on ------------------------------------------------------------------------------ */

/* Pass it on once the next process is connected. Returns when to look again. */
static int64_t referral_pass_on(struct referral *referral, struct nxr_peer *next)
{
    int connection = atomic_load(&next->connection);
    union nxr_wire_message message;

    if (connection == NXR_CONNECTION_REMOTE || (nxr_peer_is_up(next) && next->transport == NULL)) {
        referral_fail(referral, NIXL_E_UNSUPPORTED, "is not reached by the rank that was asked",
                      next->why_not);
        return INT64_MAX;
    }
    if (connection != NXR_CONNECTION_UP) {
        nxr_peer_want(next);
        return nxr_now_ns() + LOOK_NS;
    }
    message.refer = referral->refer;
    message.refer.header.from = nxr_job.self;
    message.refer.ask = referral->ask = ++referral_last_ask;
    if (nxr_peer_is_attached(next)) {
        snprintf(message.refer.name, sizeof(message.refer.name), "%s", nxr_attach_name(next));
    }
    nxr_peer_tell(next, &message);
    return referral->until;
}

/* A step of one that is under way. Returns when to take the next one. */
static int64_t referral_step(struct referral *referral, int64_t now)
{
    struct nxr_peer *next;

    if (!nxr_is_joined()) { /* others have joined already; the cards of the job are not here yet */
        return now + LOOK_NS;
    }
    if (referral->to == nxr_job.rank) {
        return referral_take_here(referral) ? INT64_MAX : referral->until;
    }
    next = nxr_is_own_rank(referral->to) ? nxr_peer_get_locked(referral->to)
                                         : nxr_attached_find(referral->to);
    if (next == NULL || nxr_peer_is_lost(next)) {
        referral_fail(referral, NIXL_E_PEER_LOST, "is lost to the rank that was asked", "");
        return INT64_MAX;
    }
    if (now >= referral->until) {
        referral_fail(referral, NIXL_E_TIMEOUT, "does not answer the rank that was asked", "");
        return INT64_MAX;
    }
    return referral->ask == 0 ? referral_pass_on(referral, next) : referral->until;
}

/* Whom to ask next; -1: nobody, and the answer says why. */
static int referral_route(const struct nxr_wire_refer *refer, const struct nxr_peer *asker,
                          union nxr_wire_message *answer)
{
    const struct nxr_identity *told = &refer->card.head.identity;
    const struct nxr_peer *contact;
    bool is_for_here = refer->job == nxr_job.self.job;

    /* Of an attached process, a process of its job; of a rank, that rank, or one that comes here.
     */
    if (nxr_peer_is_attached(asker)
            ? !is_for_here || told->job != asker->identity.job
            : (is_for_here ? told->job == nxr_job.self.job || refer->rank != nxr_job.rank
                           : !nxr_identity_is(told, &asker->identity))) {
        answer_fail(answer, NIXL_E_ACCESS, "a rank makes only those of its own job known");
        return -1;
    }
    if (!is_for_here) {
        contact = nxr_referral_contact(refer->job);
        if (contact == NULL) {
            answer_fail(answer, NIXL_E_NOT_FOUND,
                        "%s, which was asked, is attached to no living process of that job",
                        nxr_identity_name(&nxr_job.self));
        }
        return contact != NULL ? contact->rank : -1;
    }
    if (!nxr_is_own_rank(refer->rank)) {
        answer_fail(answer, NIXL_E_INVALID_ARG, "the job has ranks 0 to %d", nxr_job.size - 1);
        return -1;
    }
    return refer->rank;
}

static void referral_take(const struct nxr_control_source *source,
                          const union nxr_wire_message *message)
{
    const struct nxr_wire_refer *refer = &message->refer;
    struct referral *referral = NULL;
    union nxr_wire_message answer;
    int to;

    answer_init(&answer, refer);
    to = referral_route(refer, source->peer, &answer);
    if (to >= 0 && n_referrals < MAX_REFERRALS) {
        referral = calloc(1, sizeof(*referral));
    }
    if (to >= 0 && referral == NULL) {
        answer_fail(&answer, NIXL_E_LIMIT, "%s has too many referrals under way, or no memory",
                    nxr_identity_name(&nxr_job.self));
    }
    if (referral == NULL) {
        nxr_peer_tell(source->peer, &answer);
        return;
    }
    referral->asker = source->peer->identity;
    referral->asker_number = source->peer->rank;
    referral->to = to;
    referral->until = nxr_deadline(nxr_env.resolve_timeout);
    referral->refer = *refer;
    nxr_list_append(&referrals, &referral->link);
    n_referrals++;
    if (referral_step(referral, nxr_now_ns()) != INT64_MAX) {
        nxr_service_kick();
    }
}

/* The answer to a question of this process, or to one that it has passed on. */
static void referral_take_answer(const struct nxr_control_source *source,
                                 const union nxr_wire_message *message)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &referrals) {
        struct referral *referral = nxr_list_entry(link, struct referral, link);

        if (referral->ask == message->referred.ask && referral->to == source->peer->rank) {
            union nxr_wire_message answer = *message;

            answer.referred.header.from = nxr_job.self;
            answer.referred.ask = referral->refer.ask;
            if (nxr_peer_is_attached(source->peer)) {
                snprintf(answer.referred.name, sizeof(answer.referred.name), "%s",
                         nxr_attach_name(source->peer));
            }
            referral_end(referral, &answer);
            return;
        }
    }
    nxr_question_answered(source, message);
}

static void referral_register(void)
{
    nxr_control_register(NXR_WIRE_REFER, referral_take);
    nxr_control_register(NXR_WIRE_REFERRED, referral_take_answer);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* One that does not connect is given up, unless this process itself looks for a way to it. */
static bool guest_is_done(const struct guest *guest, int64_t now)
{
    struct nxr_peer *peer = nxr_attached_find(guest->number);

    if (peer == NULL || nxr_peer_is_lost(peer) || nxr_peer_is_up(peer)) {
        return true;
    }
    if (now < guest->until) {
        return false;
    }
    if (!nxr_attach_is_asking(peer)) {
        nxr_attached_end(peer);
    }
    return true;
}

static int64_t guests_tick(int64_t now)
{
    struct nxr_list *link, *after;
    int64_t due = INT64_MAX;

    nxr_list_for_each (link, after, &referral_guests) {
        struct guest *guest = nxr_list_entry(link, struct guest, link);

        if (guest_is_done(guest, now)) {
            nxr_list_remove(link);
            free(guest);
        } else {
            due = guest->until < due ? guest->until : due;
        }
    }
    return due;
}

static int64_t referral_tick(int64_t now)
{
    int64_t due = guests_tick(now);
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &referrals) {
        int64_t step = referral_step(nxr_list_entry(link, struct referral, link), now);

        due = step < due ? step : due;
    }
    return due;
}

/* The next tick finds what waits for it. */
static void referral_peer_ended(struct nxr_peer *peer)
{
    (void)peer;
    if (n_referrals > 0) {
        nxr_service_kick();
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void referral_quiesce(void)
{
    pthread_t thread;
    bool must_join;

    pthread_mutex_lock(&nxr_job.lock);
    must_join = has_opener;
    thread = opener;
    has_opener = false;
    pthread_mutex_unlock(&nxr_job.lock);
    if (must_join) {
        pthread_join(thread, NULL);
    }
}

static void referral_close(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&referrals)) != NULL) {
        free(nxr_list_entry(link, struct referral, link));
    }
    while ((link = nxr_list_pop(&referral_guests)) != NULL) {
        free(nxr_list_entry(link, struct guest, link));
    }
    n_referrals = 0;
}

const struct nxr_subsystem nxr_referral_subsystem = {
    .name = "referral",
    .register_handlers = referral_register,
    .tick = referral_tick,
    .peer_ended = referral_peer_ended,
    .quiesce = referral_quiesce,
    .close = referral_close,
};
