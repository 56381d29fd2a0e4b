/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to a process that has published a name: reading its entry, introducing this process,
 * and connecting, again and again until the timeout where another attempt may help. The calling
 * thread does it all. No state; job.lock only where the peer is made.
 */
#include "config.h"

#include "attach/attach.h"
#include "attach/directory.h"
#include "attach/introduction.h"
#include "control/wire.h"
#include "core/attached.h"
#include "core/wait.h"
#include "host/packet.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/random.h"
#include "util/status.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS   (5 * NXR_MS) /* how often to look for an entry that is not there */
#define POLL_NS   (1 * NXR_MS) /* how often to look for an answer */
#define ANSWER_NS (2 * NXR_S)  /* how long one attempt waits for an answer */

struct attempt {
    const char *dir, *name, *schema;
    int64_t deadline;
    struct nxr_entry entry;
    unsigned char secret[NXR_PROOF_SECRET_NBYTES];
    int fd;
    struct nxr_proof_talk talk;
    struct nxr_card card; /* the publisher's */
    int rank;
    bool has_entry; /* the last attempt has found one */
    bool is_final;  /* another attempt would fail likewise */
    char why[2 * NXR_DIRECTORY_WHY_NBYTES];
};

/* The attempt fails for good. */
static int attempt_refuse(struct attempt *attempt, int status)
{
    attempt->is_final = true;
    return status;
}

/* ---- the entry ------------------------------------------------------------------------------- */

static int attempt_check_publisher(struct attempt *attempt)
{
    const struct nxr_identity *publisher = &attempt->entry.publisher;

    if (publisher->job != nxr_job.self.job) {
        return NIXL_OK;
    }
    snprintf(attempt->why, sizeof(attempt->why), "the publisher is %s: use that number",
             nxr_identity_name(publisher));
    return attempt_refuse(attempt, NIXL_E_INVALID_ARG);
}

/* Read the entry and the secret. What does not fit together may be being replaced. */
static int attempt_read(struct attempt *attempt)
{
    int status;

    attempt->has_entry = false;
    if (nxr_attach_publishes(attempt->dir, attempt->name)) {
        snprintf(attempt->why, sizeof(attempt->why), "this process itself has published the name");
        return attempt_refuse(attempt, NIXL_E_INVALID_ARG);
    }
    status = nxr_directory_read(attempt->dir, attempt->name, &attempt->entry, attempt->why);
    if (status == NIXL_E_NOT_FOUND) {
        return access(attempt->dir, F_OK) == 0 ? status : attempt_refuse(attempt, status);
    }
    attempt->has_entry = true;
    if (status == NIXL_E_UNSUPPORTED || status == NIXL_E_ACCESS) {
        return attempt_refuse(attempt, status);
    }
    if (status == NIXL_OK) {
        status = attempt_check_publisher(attempt);
    }
    if (status == NIXL_OK) {
        status =
            nxr_directory_read_secret(attempt->dir, attempt->name, attempt->secret, attempt->why);
        attempt->is_final = status == NIXL_E_ACCESS;
    }
    if (status == NIXL_OK && !nxr_entry_is_proved(&attempt->entry, attempt->secret)) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "the entry of '%s' was not made with the secret beside it", attempt->name);
        return NIXL_E_TRANSPORT;
    }
    return status;
}

/* ---- the introduction ------------------------------------------------------------------------ */

static int attempt_open(struct attempt *attempt)
{
    struct sockaddr_un name;
    socklen_t name_nbytes = nxr_intro_address(attempt->entry.socket, &name);
    struct ucred other;

    attempt->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attempt->fd < 0) {
        snprintf(attempt->why, sizeof(attempt->why), "cannot make a socket: %s", strerror(errno));
        return attempt_refuse(attempt, NIXL_E_LIMIT);
    }
    if (connect(attempt->fd, (struct sockaddr *)&name, name_nbytes) != 0) {
        snprintf(attempt->why, sizeof(attempt->why),
                 errno == EAGAIN ? "process %d on '%s', which has published it, accepts no "
                                   "connection now"
                                 : "process %d on '%s', which has published it, has ended, or is "
                                   "on another host or in another network namespace",
                 attempt->entry.pid, attempt->entry.host);
        return NIXL_E_NOT_FOUND;
    }
    other = nxr_packet_other_end(attempt->fd);
    if (other.uid != geteuid()) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "the publisher runs as user %u, this process as user %u", other.uid, geteuid());
        return attempt_refuse(attempt, NIXL_E_ACCESS);
    }
    return NIXL_OK;
}

static bool attempt_has_answer(void *arg)
{
    struct pollfd entry = {.fd = ((struct attempt *)arg)->fd, .events = POLLIN};

    return poll(&entry, 1, 0) > 0;
}

/* Wait for the publisher's message. */
static int attempt_receive(struct attempt *attempt, union nxr_intro_message *message_p)
{
    int64_t until = nxr_now_ns() + ANSWER_NS;
    const char *why = "";
    int status;

    until = attempt->deadline < until ? attempt->deadline : until;
    do {
        status = nxr_wait(attempt_has_answer, attempt, POLL_NS);
    } while (status == NIXL_E_TIMEOUT && nxr_now_ns() < until);
    if (status != NIXL_OK) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "process %d, which has published it, does not "
                 "answer",
                 attempt->entry.pid);
        return NIXL_E_TIMEOUT;
    }
    status = nxr_intro_receive(attempt->fd, message_p, &why);
    if (status == NIXL_E_TRANSPORT) {
        snprintf(attempt->why, sizeof(attempt->why), "process %d, which has published it, sent %s",
                 attempt->entry.pid, why);
        return attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    }
    if (status != NIXL_OK) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "process %d, which has published it, closed the connection before it answered",
                 attempt->entry.pid);
        return NIXL_E_NOT_FOUND;
    }
    return NIXL_OK;
}

/* "decode v2, 4 KiB" as part of a message; long ones are cut. */
static int quote_nbytes(size_t nbytes)
{
    return nbytes < 120 ? (int)nbytes : 120;
}

static int attempt_refused(struct attempt *attempt, const struct nxr_intro_refused *refused)
{
    const struct nxr_card versions = {.flags = refused->head.flags};
    static const struct {
        int status;
        const char *text;
    } reasons[NXR_INTRO_N_REFUSALS] = {
        [NXR_INTRO_NAME] = {NIXL_E_NOT_FOUND, "the publisher does not know the name"},
        [NXR_INTRO_PROOF] = {NIXL_E_ACCESS, "the publisher says that this process does not know "
                                            "its secret"},
        [NXR_INTRO_HOST] = {NIXL_E_UNSUPPORTED, "the two do not share memory: another host, or "
                                                "NIXLRUN_TRANSPORTS of the publisher excludes shm"},
        [NXR_INTRO_ROOM] = {NIXL_E_LIMIT, "the publisher has no memory or no descriptor for one "
                                          "more (raise ulimit -n there)"},
    };

    attempt->is_final = true;
    if (refused->refusal == NXR_INTRO_SCHEMA) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "its schema is '%.*s' (%u bytes), and this process asks for '%.120s' (%zu bytes)",
                 quote_nbytes(refused->schema_nbytes), refused->schema, refused->schema_nbytes,
                 attempt->schema, strlen(attempt->schema));
        return NIXL_E_INVALID_ARG;
    }
    if (refused->refusal == NXR_INTRO_VERSIONS) {
        (void)nxr_wire_is_common(&versions, attempt->why, sizeof(attempt->why));
        return NIXL_E_UNSUPPORTED;
    }
    snprintf(attempt->why, sizeof(attempt->why), "%s", reasons[refused->refusal].text);
    return reasons[refused->refusal].status;
}

/* Receive a message of that type; anything else ends the attempt. */
static int attempt_expect(struct attempt *attempt, enum nxr_intro_type type,
                          union nxr_intro_message *message_p)
{
    int status = attempt_receive(attempt, message_p);

    if (status != NIXL_OK) {
        return status;
    }
    if (message_p->head.type == NXR_INTRO_REFUSED) {
        return attempt_refused(attempt, &message_p->refused);
    }
    if (message_p->head.type != type ||
        !nxr_identity_is(&message_p->head.from, &attempt->entry.publisher)) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "who listens there is not the process that has published the name");
        return attempt_refuse(attempt, NIXL_E_ACCESS);
    }
    return NIXL_OK;
}

static int attempt_send(struct attempt *attempt, const union nxr_intro_message *message)
{
    int status = nxr_intro_send(attempt->fd, message);

    if (status != NIXL_OK) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "process %d, which has published it, closed the connection", attempt->entry.pid);
        return NIXL_E_NOT_FOUND;
    }
    return NIXL_OK;
}

/* Ask, and have the publisher prove itself. */
static int attempt_ask(struct attempt *attempt)
{
    union nxr_intro_message message;
    unsigned char proof[NXR_PROOF_NBYTES];
    int status;

    attempt->talk.attacher = nxr_job.self;
    attempt->talk.publisher = attempt->entry.publisher;
    if (!nxr_random(attempt->talk.asked, sizeof(attempt->talk.asked))) {
        snprintf(attempt->why, sizeof(attempt->why), "no random numbers: getrandom: %s",
                 strerror(errno));
        return attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    }
    nxr_intro_init(&message, NXR_INTRO_ASK, &nxr_job.card.head);
    memcpy(message.ask.challenge, attempt->talk.asked, sizeof(attempt->talk.asked));
    snprintf(message.ask.name, sizeof(message.ask.name), "%s", attempt->name);
    status = attempt_send(attempt, &message);
    if (status == NIXL_OK) {
        status = attempt_expect(attempt, NXR_INTRO_CHALLENGE, &message);
    }
    if (status != NIXL_OK) {
        return status;
    }
    memcpy(attempt->talk.answered, message.challenge.challenge, sizeof(attempt->talk.answered));
    nxr_proof_of_talk(attempt->secret, true, &attempt->talk, proof);
    if (!nxr_proof_fits(proof, message.challenge.proof)) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "process %d, which says that it has published it, does not know the secret",
                 (int)nxr_packet_other_end(attempt->fd).pid);
        return attempt_refuse(attempt, NIXL_E_ACCESS);
    }
    return NIXL_OK;
}

/* Prove oneself, and take the publisher's card. */
static int attempt_prove(struct attempt *attempt)
{
    union nxr_intro_message message;
    struct nxr_full_card card;
    int status;

    nxr_intro_init(&message, NXR_INTRO_PROVE, &nxr_job.card.head);
    nxr_proof_of_talk(attempt->secret, false, &attempt->talk, message.prove.proof);
    message.prove.card = nxr_card_bare(&nxr_job.card);
    message.prove.schema_nbytes = (uint32_t)strlen(attempt->schema);
    memcpy(message.prove.schema, attempt->schema, message.prove.schema_nbytes);
    status = attempt_send(attempt, &message);
    if (status == NIXL_OK) {
        status = attempt_expect(attempt, NXR_INTRO_TAKEN, &message);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_card_parse(&message.taken.card, sizeof(message.taken.card), &attempt->entry.publisher,
                       &card) != NIXL_OK ||
        !nxr_identity_is(&card.head.identity, &attempt->entry.publisher) ||
        !nxr_wire_is_common(&card.head, attempt->why, sizeof(attempt->why))) {
        snprintf(attempt->why, sizeof(attempt->why), "the publisher's card is damaged");
        return attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    }
    attempt->card = card.head;
    return NIXL_OK;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* What has become of the connection; a peer that could not be connected is given up. */
static int attempt_judge(struct attempt *attempt, struct nxr_peer *peer, int status)
{
    if (status == NIXL_OK && nxr_peer_is_up(peer) && !nxr_peer_is_lost(peer) &&
        peer->transport != NULL) {
        attempt->rank = peer->rank;
        return NIXL_OK;
    }
    if (nxr_peer_is_lost(peer)) {
        snprintf(attempt->why, sizeof(attempt->why),
                 "process %d, which has published it, has ended", attempt->entry.pid);
        status = NIXL_E_NOT_FOUND;
    } else if (status == NIXL_OK) {
        snprintf(attempt->why, sizeof(attempt->why), "the two do not share memory: %s",
                 peer->why_not);
        status = attempt_refuse(attempt, NIXL_E_UNSUPPORTED);
    } else {
        snprintf(attempt->why, sizeof(attempt->why),
                 "process %d, which has published it, was not connected in time",
                 attempt->entry.pid);
        status = NIXL_E_TIMEOUT;
    }
    if (!nxr_peer_is_up(peer)) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_attached_end(peer);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    return status;
}

static int attempt_connect(struct attempt *attempt)
{
    struct nxr_peer *peer;
    bool is_new;
    int status;

    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_attach_peer(&attempt->card, attempt->name, &peer, &is_new);
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        snprintf(attempt->why, sizeof(attempt->why), "no memory or no descriptor for a peer");
        return attempt_refuse(attempt, status);
    }
    status = nxr_peer_connect(peer, nxr_env.resolve_timeout);
    return attempt_judge(attempt, peer, status);
}

/* ---- the call -------------------------------------------------------------------------------- */

static int attempt_once(struct attempt *attempt)
{
    int status = attempt_read(attempt);

    attempt->fd = -1;
    if (status == NIXL_OK) {
        status = attempt_open(attempt);
    }
    if (status == NIXL_OK) {
        status = attempt_ask(attempt);
    }
    if (status == NIXL_OK) {
        status = attempt_prove(attempt);
    }
    if (status == NIXL_OK) {
        status = attempt_connect(attempt);
    }
    if (attempt->fd >= 0) {
        close(attempt->fd); /* the publisher gives up a peer that is not connected now */
    }
    explicit_bzero(attempt->secret, sizeof(attempt->secret));
    return status;
}

static bool attach_never(void *arg)
{
    (void)arg;
    return false;
}

/* The time is over. */
static int attach_fail_timeout(const struct attempt *attempt, const char *where, int64_t timeout_ns)
{
    static const char operation[] = "nixl_attach";
    char names[300];

    if (attempt->has_entry) {
        return nxr_fail(NIXL_E_TIMEOUT, operation, -1, "", 0,
                        "cannot attach to '%s' in %s within %s: %s", attempt->name, where,
                        nxr_duration(timeout_ns).text, attempt->why);
    }
    nxr_directory_list(attempt->dir, names, sizeof(names));
    return nxr_fail(NIXL_E_NOT_FOUND, operation, -1, "", 0,
                    "nobody has published '%s' in %s within %s; published there: %s", attempt->name,
                    where, nxr_duration(timeout_ns).text, names);
}

int nixl_attach(const char *where, const char *name, const char *schema, int64_t timeout_ns,
                int *rank_p)
{
    static const char operation[] = "nixl_attach";
    struct attempt attempt = {.name = name};
    int status = nxr_attach_check(operation, where, name, &schema, &attempt.dir);

    if (status != NIXL_OK) {
        return status;
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    if (rank_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "rank_p is NULL");
    }
    attempt.schema = schema;
    attempt.deadline = timeout_ns != 0 ? nxr_deadline(timeout_ns) : INT64_MAX;
    for (;;) {
        int64_t left_ns;

        status = attempt_once(&attempt);
        if (status == NIXL_OK) {
            *rank_p = attempt.rank;
            return NIXL_OK;
        }
        if (attempt.is_final) {
            return nxr_fail(status, operation, -1, "", 0, "cannot attach to '%s' in %s: %s", name,
                            where, attempt.why);
        }
        if (timeout_ns == 0) {
            return NIXL_INPROGRESS;
        }
        left_ns = nxr_left(timeout_ns, attempt.deadline);
        if (nxr_now_ns() >= attempt.deadline) {
            return attach_fail_timeout(&attempt, where, timeout_ns);
        }
        (void)nxr_wait(attach_never, NULL, left_ns < LOOK_NS ? left_ns : LOOK_NS);
    }
}
