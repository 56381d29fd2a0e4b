/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt to attach. No state; job.lock only where the peer is made. */
#include "config.h"

#include "attach/attempt.h"
#include "attach/attach.h"
#include "attach/connect.h"
#include "attach/directory_etcd.h"
#include "attach/entry_etcd.h"
#include "attach/reach.h"
#include "control/wire.h"
#include "core/wait.h"
#include "host/packet.h"
#include "net/net.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/random.h"
#include "util/status.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* ---- the introduction ------------------------------------------------------------------------ */

/* Is it at an address that an entry names, which may be another process's by now? */
static bool attempt_is_at_contact(const struct nxr_attempt *attempt)
{
    return attempt->intro.is_stream && attempt->where.kind != NXR_WHERE_PORT;
}

/*
 * Who listens there is not the publisher. That is what becomes of the entry of a process that was
 * killed, in etcd until its lease ends: a later attempt may find another entry.
 */
static int attempt_meets_other(struct nxr_attempt *attempt)
{
    if (attempt_is_at_contact(attempt)) {
        NXR_SAY(attempt, "%s, which has published it, has ended: another process has its port",
                attempt->who);
        attempt->is_other = true;
        return NIXL_E_NOT_FOUND;
    }
    NXR_SAY(attempt, "who listens there is not the process that has published the name");
    return nxr_attempt_refuse(attempt, NIXL_E_ACCESS);
}

/* What an entry says of the process there; without one it may be any program. */
static const char *attempt_is_of(const struct nxr_attempt *attempt)
{
    return attempt->where.kind == NXR_WHERE_PORT ? "" : ", which has published it,";
}

/* Wait for the publisher's message. */
static int attempt_receive(struct nxr_attempt *attempt, union nxr_intro_message *message_p)
{
    const char *why = "";
    int status;

    do {
        if (!nxr_reach_await(attempt, POLLIN)) {
            NXR_SAY(attempt, "%s%s does not answer", attempt->who, attempt_is_of(attempt));
            return NIXL_E_TIMEOUT;
        }
        status = nxr_intro_receive(&attempt->intro, message_p, &why);
    } while (status == NIXL_E_AGAIN);
    if (status == NIXL_E_TRANSPORT && attempt_is_at_contact(attempt)) {
        return attempt_meets_other(attempt);
    }
    if (status == NIXL_E_TRANSPORT || status == NIXL_E_UNSUPPORTED) {
        NXR_SAY(attempt, "%s sent %s", attempt->who, why);
        return nxr_attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    }
    if (status != NIXL_OK) {
        NXR_SAY(attempt, "%s%s closed the connection before it answered", attempt->who,
                attempt_is_of(attempt));
        return NIXL_E_NOT_FOUND;
    }
    return NIXL_OK;
}

/* "decode v2, 4 KiB" as part of a message; long ones are cut. */
static int quote_nbytes(size_t nbytes)
{
    return nbytes < 120 ? (int)nbytes : 120;
}

static int attempt_refused(struct nxr_attempt *attempt, const struct nxr_intro_refused *refused)
{
    const struct nxr_card versions = {.flags = refused->head.flags};
    static const struct {
        int status;
        const char *text;
    } reasons[NXR_INTRO_N_REFUSALS] = {
        [NXR_INTRO_NAME] = {NIXL_E_NOT_FOUND, "the process there has not published the name"},
        [NXR_INTRO_PROOF] = {NIXL_E_ACCESS, "the publisher says that this process does not know "
                                            "its secret"},
        [NXR_INTRO_ROOM] = {NIXL_E_LIMIT, "the publisher has no memory or no descriptor for one "
                                          "more (raise ulimit -n there)"},
    };

    attempt->is_final = refused->refusal != NXR_INTRO_NAME;
    attempt->is_found = attempt->is_final || attempt->where.kind != NXR_WHERE_PORT;
    if (refused->refusal == NXR_INTRO_SCHEMA) {
        NXR_SAY(attempt,
                "its schema is '%.*s' (%u bytes), and this process asks for '%.120s' (%zu bytes)",
                quote_nbytes(refused->schema_nbytes), refused->schema, refused->schema_nbytes,
                attempt->schema, strlen(attempt->schema));
        return NIXL_E_INVALID_ARG;
    }
    if (refused->refusal == NXR_INTRO_VERSIONS) {
        (void)nxr_wire_is_common(&versions, attempt->why, sizeof(attempt->why));
        return NIXL_E_UNSUPPORTED;
    }
    NXR_SAY(attempt, "%s", reasons[refused->refusal].text);
    return reasons[refused->refusal].status;
}

/* Receive a message of that type; anything else ends the attempt. */
static int attempt_expect(struct nxr_attempt *attempt, enum nxr_intro_type type,
                          union nxr_intro_message *message_p)
{
    bool is_first = type == NXR_INTRO_CHALLENGE && attempt->where.kind == NXR_WHERE_PORT;
    int status = attempt_receive(attempt, message_p);

    if (status != NIXL_OK) {
        return status;
    }
    if (message_p->head.type == NXR_INTRO_REFUSED) {
        return attempt_refused(attempt, &message_p->refused);
    }
    if (is_first) {
        attempt->talk.publisher = message_p->head.from; /* its proof will show it */
    }
    if (message_p->head.type != type ||
        !nxr_identity_is(&message_p->head.from, &attempt->talk.publisher)) {
        return attempt_meets_other(attempt);
    }
    return NIXL_OK;
}

static int attempt_send(struct nxr_attempt *attempt, const union nxr_intro_message *message)
{
    int status = nxr_intro_send(&attempt->intro, message);

    if (status != NIXL_OK) {
        NXR_SAY(attempt, "%s, which has published it, closed the connection", attempt->who);
        return NIXL_E_NOT_FOUND;
    }
    return NIXL_OK;
}

/* Who listens there does not know the secret. */
static int attempt_refuse_liar(struct nxr_attempt *attempt)
{
    if (attempt->where.kind != NXR_WHERE_FOLDER) {
        NXR_SAY(attempt, "who listens there has another token, or none");
    } else if (attempt->intro.is_stream) {
        NXR_SAY(attempt,
                "who listens at %.200s and says that it has published it does not know "
                "the secret",
                attempt->entry.contacts[attempt->n_tried - 1]);
    } else {
        NXR_SAY(attempt,
                "process %d, which says that it has published it, does not know the secret",
                (int)nxr_packet_other_end(attempt->intro.fd).pid);
    }
    return nxr_attempt_refuse(attempt, NIXL_E_ACCESS);
}

/* Open the networks, unless it is certain that shared memory reaches the publisher. */
static void attempt_open_networks(const struct nxr_intro_challenge *challenge)
{
    struct nxr_card theirs = {.flags = challenge->head.flags,
                              .socket_space = challenge->socket_space};

    memcpy(theirs.host, challenge->host, sizeof(theirs.host));
    memcpy(theirs.boot_id, challenge->boot_id, sizeof(theirs.boot_id));
    if (nxr_connect_may_need_networks(&theirs)) {
        (void)nxr_net_open();
    }
}

/* Ask, and have the publisher prove itself. */
static int attempt_ask(struct nxr_attempt *attempt)
{
    union nxr_intro_message message;
    unsigned char proof[NXR_PROOF_NBYTES];
    int status;

    if (!nxr_random(attempt->talk.asked, sizeof(attempt->talk.asked))) {
        NXR_SAY(attempt, "no random numbers: getrandom: %s", strerror(errno));
        return nxr_attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    }
    attempt->talk.attacher = nxr_job.self;
    snprintf(attempt->talk.name, sizeof(attempt->talk.name), "%s", attempt->name);
    nxr_intro_init(&message, NXR_INTRO_ASK, &nxr_job.card.head);
    memcpy(message.ask.challenge, attempt->talk.asked, sizeof(attempt->talk.asked));
    memcpy(message.ask.name, attempt->talk.name, sizeof(message.ask.name));
    status = attempt_send(attempt, &message);
    if (status == NIXL_OK) {
        status = attempt_expect(attempt, NXR_INTRO_CHALLENGE, &message);
    }
    if (status != NIXL_OK) {
        return status;
    }
    memcpy(attempt->talk.answered, message.challenge.challenge, sizeof(attempt->talk.answered));
    nxr_proof_of_talk(attempt->secret, NXR_PROOF_PUBLISHER, &attempt->talk, NULL, 0, proof);
    if (!nxr_proof_fits(proof, message.challenge.proof)) {
        return attempt_refuse_liar(attempt);
    }
    attempt_open_networks(&message.challenge);
    return nxr_reach_check(attempt);
}

/* The message by which this process proves itself. */
static void attempt_make_proof(const struct nxr_attempt *attempt, union nxr_intro_message *message)
{
    const struct nxr_peer *known;

    pthread_mutex_lock(&nxr_job.lock);
    known = nxr_attach_known(&attempt->talk.publisher);
    nxr_intro_init(message, NXR_INTRO_PROVE, &nxr_job.card.head);
    message->prove.number = known != NULL ? known->rank : (int32_t)nxr_n_numbers();
    message->prove.job_size = nxr_job.size;
    message->prove.card = nxr_job.card;
    pthread_mutex_unlock(&nxr_job.lock);
    message->prove.schema_nbytes = (uint32_t)strlen(attempt->schema);
    memcpy(message->prove.schema, attempt->schema, message->prove.schema_nbytes);
    nxr_intro_make_proof(message, attempt->secret, &attempt->talk, message->prove.proof);
}

/* Prove oneself, and take the publisher's card. */
static int attempt_prove(struct nxr_attempt *attempt)
{
    const struct nxr_identity *publisher = &attempt->talk.publisher;
    unsigned char proof[NXR_PROOF_NBYTES];
    union nxr_intro_message message;
    int status;

    attempt_make_proof(attempt, &message);
    status = attempt_send(attempt, &message);
    if (status == NIXL_OK) {
        status = attempt_expect(attempt, NXR_INTRO_TAKEN, &message);
    }
    if (status != NIXL_OK) {
        return status;
    }
    nxr_intro_make_proof(&message, attempt->secret, &attempt->talk, proof);
    if (!nxr_proof_fits(proof, message.taken.proof)) {
        return attempt_refuse_liar(attempt);
    }
    if (nxr_card_parse(&message.taken.card, message.taken.card.head.nbytes, publisher,
                       &attempt->card) != NIXL_OK ||
        !nxr_identity_is(&attempt->card.head.identity, publisher)) {
        NXR_SAY(attempt, "the publisher's card is damaged");
        return nxr_attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    }
    attempt->number = message.taken.number;
    attempt->job_size = message.taken.job_size;
    return NIXL_OK;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* A folder is mostly that of one host: say that the two are on different ones. */
static void attempt_tell_far(const struct nxr_attempt *attempt, const char *network)
{
    if (network != NULL && !nxr_entry_is_of_host(&attempt->entry, &nxr_job.card.head)) {
        nxr_info(HOST, "'%s' in %s is %s; it is attached by %s", attempt->name, attempt->where.text,
                 attempt->who, network);
    }
}

static int attempt_connect(struct nxr_attempt *attempt)
{
    const struct nxr_met met = {&attempt->card, attempt->number, attempt->job_size, attempt->name};
    struct nxr_connecting connecting = {
        .who = attempt->who, .what = ", which has published it,", .deadline = attempt->deadline};
    int status = nxr_connect_met(&met, &connecting);

    attempt->rank = connecting.rank;
    attempt->is_final = connecting.is_final;
    if (status != NIXL_OK) {
        NXR_SAY(attempt, "%s", connecting.why);
    } else if (attempt->where.kind == NXR_WHERE_FOLDER) {
        attempt_tell_far(attempt, connecting.network);
    }
    return status;
}

/*
 * Connect to the publisher, and have it prove itself. Where it has several contacts, one may be
 * that of another process by now, or of another host: the next one is tried.
 */
static int attempt_meet(struct nxr_attempt *attempt)
{
    int status;

    do {
        nxr_reach_close(attempt);
        status = nxr_reach_open(attempt);
        if (status == NIXL_OK) {
            status = attempt_ask(attempt);
        }
    } while (status != NIXL_OK && !attempt->is_final && nxr_reach_has_more(attempt));
    return status;
}

static void attempt_reset(struct nxr_attempt *attempt)
{
    attempt->is_found = attempt->is_final = attempt->is_away = false;
    attempt->is_outside = false;
    attempt->n_tried = 0;
    attempt->intro = (struct nxr_intro_link){.fd = -1};
}

int nxr_attempt_once(struct nxr_attempt *attempt)
{
    int status;

    attempt_reset(attempt);
    status = nxr_reach_find(attempt);
    if (status == NIXL_OK) {
        status = attempt_meet(attempt);
    }
    if (status == NIXL_OK) {
        status = attempt_prove(attempt);
    }
    if (status == NIXL_OK) {
        status = attempt_connect(attempt);
    }
    nxr_reach_close(attempt); /* the publisher gives up a peer that is not connected now */
    explicit_bzero(attempt->secret, sizeof(attempt->secret));
    return status;
}

int nxr_attempt_probe(struct nxr_attempt *attempt)
{
    int status, verdict = NIXL_E_NOT_FOUND;

    attempt_reset(attempt);
    attempt->talk.publisher = nxr_entry_etcd_identity(&attempt->found.entry);
    while (nxr_reach_has_more(attempt) && verdict != NIXL_OK) {
        bool has_ended;

        attempt->is_final = attempt->is_other = false;
        status = nxr_reach_open(attempt);
        has_ended = status == NIXL_E_NOT_FOUND;
        if (status == NIXL_OK) {
            status = attempt_ask(attempt);
            has_ended = attempt->is_other;
        }
        if (status == NIXL_OK || attempt->is_final) {
            verdict = NIXL_OK; /* it has answered, though perhaps not as this process would like */
        } else if (!has_ended) {
            verdict = NIXL_E_TIMEOUT;
        }
        nxr_reach_close(attempt);
    }
    return verdict;
}

void nxr_attempt_end(struct nxr_attempt *attempt)
{
    if (attempt->etcd != NULL) {
        nxr_directory_etcd_give(&attempt->where, attempt->etcd);
        attempt->etcd = NULL;
    }
}
