/* SPDX-License-Identifier: Apache-2.0 */
/* Attachers that introduce themselves to this process. Lock: job.lock. */
#include "config.h"

#include "attach/visit.h"
#include "attach/attach.h"
#include "attach/introduction.h"
#include "control/wire.h"
#include "core/attached.h"
#include "host/packet.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STEP_NS     (5 * NXR_S)    /* an attacher must take its next step within this */
#define PATIENCE_NS (200 * NXR_MS) /* ... or within this if others wait */
#define MAX_VISITS  64             /* introductions at one time */

#define SHOWN_NBYTES 120 /* of a schema */
#define WHY_NBYTES   480

struct visit {
    struct nxr_list link;
    struct nxr_watch watch;
    struct nxr_intro_link intro;
    struct nxr_listener *listener;
    enum nxr_intro_type done; /* the last message to it; 0: none */
    struct nxr_proof_talk talk;
    unsigned char secret[NXR_PROOF_SECRET_NBYTES]; /* of the name that it has asked for */
    int number; /* of the peer that the introduction has made; -1: none */
    int64_t began_at;
    int64_t until;
    bool is_closed; /* to be freed at the next tick */
};

static struct nxr_list visits = {&visits, &visits}; /* by age */
static int n_visits;

static void visit_close(struct visit *visit)
{
    struct nxr_peer *peer = nxr_attached_find(visit->number);

    if (visit->is_closed) {
        return;
    }
    visit->is_closed = true;
    n_visits--;
    nxr_service_unwatch(visit->intro.fd);
    close(visit->intro.fd);
    if (peer != NULL && !nxr_peer_is_up(peer) && !nxr_peer_is_lost(peer)) {
        nxr_attached_end(peer);
    }
}

static void visit_send(struct visit *visit, const union nxr_intro_message *message)
{
    visit->done = (enum nxr_intro_type)message->head.type;
    if (nxr_intro_send(&visit->intro, message) != NIXL_OK) {
        visit_close(visit);
    }
}

/* Its schema is told to an attacher that has proved itself and asks for another one. */
static void visit_refuse(struct visit *visit, enum nxr_intro_refusal refusal, const char *schema)
{
    union nxr_intro_message message;

    nxr_intro_init(&message, NXR_INTRO_REFUSED, &nxr_job.card.head);
    message.refused.refusal = refusal;
    if (schema != NULL) {
        message.refused.schema_nbytes = (uint32_t)strlen(schema);
        memcpy(message.refused.schema, schema, message.refused.schema_nbytes);
    }
    visit_send(visit, &message);
    visit_close(visit);
}

/* The secret of the name that is asked for; whether it is published is told after the proof. */
static void visit_find_secret(struct visit *visit)
{
    const unsigned char *secret = visit->listener->secret;

    (void)nxr_publication_schema(visit->listener, visit->talk.name, &secret);
    memcpy(visit->secret, secret, sizeof(visit->secret));
}

/* Where this process is: an attacher elsewhere opens its networks. */
static void visit_tell_host(struct nxr_intro_challenge *challenge)
{
    const struct nxr_card *own = &nxr_job.card.head;

    memcpy(challenge->host, own->host, sizeof(challenge->host));
    memcpy(challenge->boot_id, own->boot_id, sizeof(challenge->boot_id));
    challenge->socket_space = own->socket_space;
}

static void visit_take_ask(struct visit *visit, const struct nxr_intro_ask *ask)
{
    const struct nxr_card versions = {.flags = ask->head.flags};
    union nxr_intro_message message;
    char why[160];

    visit->talk.attacher = ask->head.from;
    visit->talk.publisher = nxr_job.self;
    memcpy(visit->talk.name, ask->name, sizeof(visit->talk.name)); /* ends with a zero */
    memcpy(visit->talk.asked, ask->challenge, sizeof(visit->talk.asked));
    visit_find_secret(visit);
    if (!nxr_wire_is_common(&versions, why, sizeof(why))) {
        nxr_warn(HOST, "a process that wants to attach by '%s' is refused: %s", ask->name, why);
        visit_refuse(visit, NXR_INTRO_VERSIONS, NULL);
    } else if (!nxr_random(visit->talk.answered, sizeof(visit->talk.answered))) {
        visit_refuse(visit, NXR_INTRO_ROOM, NULL);
    } else {
        nxr_intro_init(&message, NXR_INTRO_CHALLENGE, &nxr_job.card.head);
        memcpy(message.challenge.challenge, visit->talk.answered, sizeof(visit->talk.answered));
        visit_tell_host(&message.challenge);
        nxr_proof_of_talk(visit->secret, NXR_PROOF_PUBLISHER, &visit->talk, NULL, 0,
                          message.challenge.proof);
        visit_send(visit, &message);
    }
}

/*
 * Why an attacher is refused; 0: it is not. *schema_p: of the publication, if its schema is
 * another one.
 */
static enum nxr_intro_refusal visit_judge(const struct visit *visit,
                                          const union nxr_intro_message *message,
                                          struct nxr_full_card *card_p, const char **schema_p)
{
    const struct nxr_intro_prove *prove = &message->prove;
    const unsigned char *secret;
    unsigned char proof[NXR_PROOF_NBYTES];
    const char *schema;

    *schema_p = NULL;
    nxr_intro_make_proof(message, visit->secret, &visit->talk, proof);
    if (!nxr_proof_fits(proof, prove->proof) ||
        nxr_card_parse(&prove->card, prove->card.head.nbytes, &visit->talk.attacher, card_p) !=
            NIXL_OK ||
        !nxr_identity_is(&card_p->head.identity, &visit->talk.attacher)) {
        return NXR_INTRO_PROOF;
    }
    schema = nxr_publication_schema(visit->listener, visit->talk.name, &secret);
    if (schema == NULL) {
        return NXR_INTRO_NAME;
    }
    if (prove->schema_nbytes != strlen(schema) ||
        memcmp(prove->schema, schema, prove->schema_nbytes) != 0) {
        *schema_p = schema;
        return NXR_INTRO_SCHEMA;
    }
    return 0;
}

/* The attacher is taken: tell it this process's card, and its number. */
static void visit_take(struct visit *visit, const struct nxr_peer *peer)
{
    union nxr_intro_message message;

    visit->until = nxr_deadline(nxr_env.resolve_timeout);
    nxr_intro_init(&message, NXR_INTRO_TAKEN, &nxr_job.card.head);
    message.taken.number = peer->rank;
    message.taken.job_size = nxr_job.size;
    message.taken.card = nxr_job.card;
    nxr_intro_make_proof(&message, visit->secret, &visit->talk, message.taken.proof);
    visit_send(visit, &message);
}

/* "its schema is 'A' (1 bytes), and 'kv' is published with 'B' (1 bytes)"; long ones are cut. */
static void visit_say_schema(const struct nxr_intro_prove *prove, const char *name,
                             const char *schema, char *why, size_t nbytes)
{
    snprintf(why, nbytes,
             "its schema is '%.*s' (%u bytes), and '%s' is published with '%.*s' (%zu bytes)",
             prove->schema_nbytes < SHOWN_NBYTES ? (int)prove->schema_nbytes : SHOWN_NBYTES,
             prove->schema, prove->schema_nbytes, name, SHOWN_NBYTES, schema, strlen(schema));
}

/* Log why an attacher that has tried to prove itself is not taken. */
static void visit_say_refusal(const struct visit *visit, const struct nxr_intro_prove *prove,
                              enum nxr_intro_refusal refusal, const char *schema)
{
    static const char *const reasons[NXR_INTRO_N_REFUSALS] = {
        [NXR_INTRO_NAME] = "this process has not published it",
        [NXR_INTRO_PROOF] = "it does not know the secret",
        [NXR_INTRO_ROOM] = "no memory or no descriptor for one more",
    };
    char why[WHY_NBYTES] = "";

    if (refusal == NXR_INTRO_SCHEMA && schema != NULL) {
        visit_say_schema(prove, visit->talk.name, schema, why, sizeof(why));
    } else {
        snprintf(why, sizeof(why), "%s", reasons[refusal] != NULL ? reasons[refusal] : "");
    }
    nxr_log(refusal == NXR_INTRO_NAME ? NIXL_LOG_INFO : NIXL_LOG_WARN, HOST,
            "%s wants to attach by '%s' and is refused: %s",
            nxr_identity_name(&visit->talk.attacher), visit->talk.name, why);
}

static void visit_take_proof(struct visit *visit, const union nxr_intro_message *message)
{
    struct nxr_full_card card;
    const struct nxr_met met = {&card, message->prove.number, message->prove.job_size,
                                visit->talk.name};
    const char *schema;
    enum nxr_intro_refusal refusal = visit_judge(visit, message, &card, &schema);
    struct nxr_peer *peer;
    bool is_new;

    if (refusal == 0 && nxr_attach_peer(&met, &peer, &is_new) != NIXL_OK) {
        refusal = NXR_INTRO_ROOM;
    }
    if (refusal != 0) {
        visit_say_refusal(visit, &message->prove, refusal, schema);
        visit_refuse(visit, refusal, schema);
        return;
    }
    visit->number = is_new ? peer->rank : -1;
    visit_take(visit, peer);
}

/* What it sent is no introduction, or none of this version. */
static void visit_drop(struct visit *visit, int status, const char *why)
{
    if (status != NIXL_E_PEER_LOST) {
        nxr_warn(HOST, "%s%s%s; the connection is dropped", why,
                 visit->talk.name[0] != '\0' ? " to " : "", visit->talk.name);
    }
    if (status == NIXL_E_UNSUPPORTED) {
        visit_refuse(visit, NXR_INTRO_VERSIONS, NULL);
    }
    visit_close(visit);
}

/* The attacher has sent something, or has gone. */
static void visit_ready(struct nxr_watch *watch, uint32_t events)
{
    struct visit *visit = nxr_list_entry(watch, struct visit, watch);
    union nxr_intro_message message;
    const char *why = "an introduction out of turn";
    int status;

    (void)events;
    if (visit->is_closed) {
        return;
    }
    status = nxr_intro_receive(&visit->intro, &message, &why);
    if (status == NIXL_E_AGAIN) {
        return;
    }
    visit->until = nxr_now_ns() + STEP_NS;
    if (status == NIXL_OK && visit->done == 0 && message.head.type == NXR_INTRO_ASK) {
        visit_take_ask(visit, &message.ask);
    } else if (status == NIXL_OK && visit->done == NXR_INTRO_CHALLENGE &&
               message.head.type == NXR_INTRO_PROVE) {
        visit_take_proof(visit, &message);
    } else {
        visit_drop(visit, status, why != NULL ? why : "an introduction out of turn");
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Make room for one more: end the oldest that has not proved itself for too long. */
static bool visits_make_room(void)
{
    int64_t latest = nxr_now_ns() - PATIENCE_NS;
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &visits) {
        struct visit *visit = nxr_list_entry(link, struct visit, link);

        if (n_visits >= MAX_VISITS && !visit->is_closed && visit->done != NXR_INTRO_TAKEN &&
            visit->began_at < latest) {
            visit_close(visit);
        }
    }
    return n_visits < MAX_VISITS;
}

/* A local attacher must be of this user. */
static bool visit_is_allowed(const struct nxr_listener *listener, int fd)
{
    struct ucred other = {.uid = geteuid()};

    if (!listener->is_stream) {
        other = nxr_packet_other_end(fd);
    }
    if (other.uid != geteuid()) {
        nxr_warn(HOST, "a process of user %u, which wants to attach, is refused", other.uid);
    }
    return other.uid == geteuid();
}

bool nxr_visit_begin(struct nxr_listener *listener, int fd)
{
    struct visit *visit = NULL;

    if (visits_make_room() && visit_is_allowed(listener, fd)) {
        visit = calloc(1, sizeof(*visit));
    }
    if (visit == NULL) {
        return false;
    }
    visit->watch.fn = visit_ready;
    visit->intro.fd = fd;
    visit->intro.is_stream = listener->is_stream;
    visit->listener = listener;
    visit->number = -1;
    visit->began_at = nxr_now_ns();
    visit->until = visit->began_at + STEP_NS;
    if (nxr_service_watch(fd, EPOLLIN, &visit->watch) != NIXL_OK) {
        free(visit);
        return false;
    }
    nxr_list_append(&visits, &visit->link);
    n_visits++;
    return true;
}

void nxr_visits_end(const struct nxr_listener *listener, const char *name)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &visits) {
        struct visit *visit = nxr_list_entry(link, struct visit, link);

        if (visit->listener == listener && (name == NULL || strcmp(visit->talk.name, name) == 0)) {
            visit_close(visit);
        }
    }
}

int64_t nxr_visits_tick(int64_t now)
{
    struct nxr_list *link, *after;
    int64_t due = INT64_MAX;

    nxr_list_for_each (link, after, &visits) {
        struct visit *visit = nxr_list_entry(link, struct visit, link);

        if (!visit->is_closed && visit->until <= now) {
            visit_close(visit);
        }
        if (visit->is_closed) {
            nxr_list_remove(&visit->link); /* no event of this round refers to it any more */
            explicit_bzero(visit->secret, sizeof(visit->secret));
            free(visit);
        } else if (visit->until < due) {
            due = visit->until;
        }
    }
    return due;
}
