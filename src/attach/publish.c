/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publications of this process, and the introductions of those who come by them: one socket for
 * each publication, which the service thread watches. An introduction ends when the attacher
 * closes it; if the two are not connected by then, the attacher's number is given up.
 *
 * Lock: job.lock. A publication is in the list, and so excludes another one of its name, before its
 * files are made without the lock.
 */
#include "config.h"

#include "attach/attach.h"
#include "attach/directory.h"
#include "attach/introduction.h"
#include "control/wire.h"
#include "core/attached.h"
#include "core/route.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "host/packet.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/random.h"
#include "util/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STEP_NS          (5 * NXR_S) /* an attacher must take its next step within this */
#define PAUSE_NS         (50 * NXR_MS)
#define MAX_VISITS       64 /* introductions at one time */
#define ACCEPTS_PER_WAKE 16

struct publication {
    struct nxr_list link;
    struct nxr_watch watch;
    int listen_fd;
    int64_t listen_again_at; /* listening is paused: no descriptors; else INT64_MAX */
    int lock_fd;
    char *dir;
    unsigned char secret[NXR_PROOF_SECRET_NBYTES];
    struct nxr_entry entry;
    bool is_published; /* its files are complete */
};

/* An attacher that introduces itself. */
struct visit {
    struct nxr_list link;
    struct nxr_watch watch;
    int fd;
    const struct publication *publication;
    enum nxr_intro_type done; /* the last message to it; 0: none */
    struct nxr_proof_talk talk;
    struct nxr_peer *peer; /* that the introduction has made; NULL: none */
    int64_t until;
    bool is_closed; /* to be freed at the next tick */
};

static struct nxr_list publications = {&publications, &publications};
static struct nxr_list visits = {&visits, &visits};
static int n_visits;

/* ---- introductions --------------------------------------------------------------------------- */

static void visit_close(struct visit *visit)
{
    if (visit->is_closed) {
        return;
    }
    visit->is_closed = true;
    n_visits--;
    nxr_service_unwatch(visit->fd);
    close(visit->fd);
    if (visit->peer != NULL && !nxr_peer_is_up(visit->peer) && !nxr_peer_is_lost(visit->peer)) {
        nxr_attached_end(visit->peer);
    }
    visit->peer = NULL;
}

static void visit_refuse(struct visit *visit, enum nxr_intro_refusal refusal)
{
    const struct nxr_entry *entry = &visit->publication->entry;
    union nxr_intro_message message;

    nxr_intro_init(&message, NXR_INTRO_REFUSED, &nxr_job.card.head);
    message.refused.refusal = refusal;
    if (refusal == NXR_INTRO_SCHEMA) {
        message.refused.schema_nbytes = entry->schema_nbytes;
        memcpy(message.refused.schema, entry->schema, entry->schema_nbytes);
    }
    (void)nxr_intro_send(visit->fd, &message);
    visit_close(visit);
}

static void visit_take_ask(struct visit *visit, const struct nxr_intro_ask *ask)
{
    const struct publication *publication = visit->publication;
    const struct nxr_card versions = {.flags = ask->head.flags};
    union nxr_intro_message message;
    char why[160];

    visit->talk.attacher = ask->head.from;
    visit->talk.publisher = nxr_job.self;
    memcpy(visit->talk.asked, ask->challenge, sizeof(visit->talk.asked));
    if (!nxr_wire_is_common(&versions, why, sizeof(why))) {
        nxr_warn(HOST, "a process that wants to attach by '%s' is refused: %s",
                 publication->entry.name, why);
        visit_refuse(visit, NXR_INTRO_VERSIONS);
    } else if (strcmp(ask->name, publication->entry.name) != 0) {
        visit_refuse(visit, NXR_INTRO_NAME);
    } else if (!nxr_random(visit->talk.answered, sizeof(visit->talk.answered))) {
        visit_refuse(visit, NXR_INTRO_ROOM);
    } else {
        nxr_intro_init(&message, NXR_INTRO_CHALLENGE, &nxr_job.card.head);
        memcpy(message.challenge.challenge, visit->talk.answered, sizeof(visit->talk.answered));
        nxr_proof_of_talk(publication->secret, true, &visit->talk, message.challenge.proof);
        visit->done = NXR_INTRO_CHALLENGE;
        if (nxr_intro_send(visit->fd, &message) != NIXL_OK) {
            visit_close(visit);
        }
    }
}

/* Why an attacher is refused; 0: it is not. */
static enum nxr_intro_refusal visit_judge(const struct visit *visit,
                                          const struct nxr_intro_prove *prove,
                                          struct nxr_full_card *card_p)
{
    const struct nxr_entry *entry = &visit->publication->entry;
    unsigned char proof[NXR_PROOF_NBYTES];

    nxr_proof_of_talk(visit->publication->secret, false, &visit->talk, proof);
    if (!nxr_proof_fits(proof, prove->proof) ||
        nxr_card_parse(&prove->card, sizeof(prove->card), &visit->talk.attacher, card_p) !=
            NIXL_OK ||
        !nxr_identity_is(&card_p->head.identity, &visit->talk.attacher)) {
        return NXR_INTRO_PROOF;
    }
    if (prove->schema_nbytes != entry->schema_nbytes ||
        memcmp(prove->schema, entry->schema, entry->schema_nbytes) != 0) {
        return NXR_INTRO_SCHEMA;
    }
    return nxr_card_may_be_local(&nxr_job.card.head, &card_p->head) ? 0 : NXR_INTRO_HOST;
}

static void visit_take_proof(struct visit *visit, const struct nxr_intro_prove *prove)
{
    static const char *const reasons[NXR_INTRO_N_REFUSALS] = {
        [NXR_INTRO_PROOF] = "it does not know the secret",
        [NXR_INTRO_SCHEMA] = "its schema is another one",
        [NXR_INTRO_HOST] = "it does not share memory with this process",
        [NXR_INTRO_ROOM] = "no memory or no descriptor for one more",
    };
    struct nxr_full_card card;
    enum nxr_intro_refusal refusal = visit_judge(visit, prove, &card);
    union nxr_intro_message message;
    struct nxr_peer *peer;
    bool is_new;

    if (refusal == 0 &&
        nxr_attach_peer(&card.head, visit->publication->entry.name, &peer, &is_new) != NIXL_OK) {
        refusal = NXR_INTRO_ROOM;
    }
    if (refusal != 0) {
        nxr_warn(HOST, "%s wants to attach by '%s' and is refused: %s",
                 nxr_identity_name(&visit->talk.attacher), visit->publication->entry.name,
                 reasons[refusal]);
        visit_refuse(visit, refusal);
        return;
    }
    visit->peer = is_new ? peer : NULL;
    visit->done = NXR_INTRO_TAKEN;
    visit->until = nxr_deadline(nxr_env.resolve_timeout);
    nxr_intro_init(&message, NXR_INTRO_TAKEN, &nxr_job.card.head);
    message.taken.card = nxr_card_bare(&nxr_job.card);
    if (nxr_intro_send(visit->fd, &message) != NIXL_OK) {
        visit_close(visit);
    }
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
    status = nxr_intro_receive(visit->fd, &message, &why);
    if (status == NIXL_E_AGAIN) {
        return;
    }
    visit->until = nxr_now_ns() + STEP_NS;
    if (status == NIXL_OK && visit->done == 0 && message.head.type == NXR_INTRO_ASK) {
        visit_take_ask(visit, &message.ask);
    } else if (status == NIXL_OK && visit->done == NXR_INTRO_CHALLENGE &&
               message.head.type == NXR_INTRO_PROVE) {
        visit_take_proof(visit, &message.prove);
    } else {
        if (status != NIXL_E_PEER_LOST) {
            nxr_warn(HOST, "%s to '%s'; the connection is dropped", why,
                     visit->publication->entry.name);
        }
        visit_close(visit);
    }
}

static bool visit_new(const struct publication *publication, int fd)
{
    struct ucred other = nxr_packet_other_end(fd);
    struct visit *visit = other.uid == geteuid() ? calloc(1, sizeof(*visit)) : NULL;

    if (visit == NULL) {
        if (other.uid != geteuid()) {
            nxr_warn(HOST, "a process of user %u, which wants to attach by '%s', is refused",
                     other.uid, publication->entry.name);
        }
        return false;
    }
    visit->watch.fn = visit_ready;
    visit->fd = fd;
    visit->publication = publication;
    visit->until = nxr_now_ns() + STEP_NS;
    if (nxr_service_watch(fd, EPOLLIN, &visit->watch) != NIXL_OK) {
        free(visit);
        return false;
    }
    nxr_list_append(&visits, &visit->link);
    n_visits++;
    return true;
}

static void publication_ready(struct nxr_watch *watch, uint32_t events)
{
    struct publication *publication = nxr_list_entry(watch, struct publication, watch);

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_WAKE; i++) {
        int fd = accept4(publication->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            nxr_service_unwatch(publication->listen_fd);
            publication->listen_again_at = nxr_now_ns() + PAUSE_NS;
        }
        if (fd < 0) {
            return;
        }
        if (n_visits >= MAX_VISITS || !visit_new(publication, fd)) {
            close(fd); /* an attacher that means well comes again */
        }
    }
}

/* Listen again where descriptors were short. Returns when to call again. */
static int64_t publications_listen_again(int64_t now)
{
    struct nxr_list *link, *after;
    int64_t due = INT64_MAX;

    nxr_list_for_each (link, after, &publications) {
        struct publication *publication = nxr_list_entry(link, struct publication, link);

        if (publication->listen_again_at <= now) {
            publication->listen_again_at = INT64_MAX;
            nxr_service_watch(publication->listen_fd, EPOLLIN, &publication->watch);
        }
        due = publication->listen_again_at < due ? publication->listen_again_at : due;
    }
    return due;
}

static int64_t publish_tick(int64_t now)
{
    struct nxr_list *link, *after;
    int64_t due = publications_listen_again(now);

    nxr_list_for_each (link, after, &visits) {
        struct visit *visit = nxr_list_entry(link, struct visit, link);

        if (!visit->is_closed && visit->until <= now) {
            visit_close(visit);
        }
        if (visit->is_closed) {
            nxr_list_remove(&visit->link); /* no event of this round refers to it any more */
            free(visit);
        } else if (visit->until < due) {
            due = visit->until;
        }
    }
    return due;
}

/* ---- publications: under job.lock ------------------------------------------------------------ */

static struct publication *publication_find(const char *dir, const char *name)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publications) {
        struct publication *publication = nxr_list_entry(link, struct publication, link);

        if (strcmp(publication->dir, dir) == 0 && strcmp(publication->entry.name, name) == 0) {
            return publication;
        }
    }
    return NULL;
}

bool nxr_attach_publishes(const char *dir, const char *name)
{
    bool does;

    pthread_mutex_lock(&nxr_job.lock);
    does = publication_find(dir, name) != NULL;
    pthread_mutex_unlock(&nxr_job.lock);
    return does;
}

/* Take a publication out of the list, with those who have not finished their introduction. */
static void publication_close(struct publication *publication)
{
    struct nxr_list *link, *after;

    nxr_list_remove(&publication->link);
    if (publication->listen_fd >= 0) {
        nxr_service_unwatch(publication->listen_fd);
        close(publication->listen_fd);
        publication->listen_fd = -1;
    }
    nxr_list_for_each (link, after, &visits) {
        struct visit *visit = nxr_list_entry(link, struct visit, link);

        if (visit->publication == publication) {
            visit_close(visit);
        }
    }
}

static void publication_free(struct publication *publication)
{
    if (publication->lock_fd >= 0) {
        nxr_directory_release(publication->dir, publication->entry.name, publication->lock_fd);
    }
    free(publication->dir);
    explicit_bzero(publication->secret, sizeof(publication->secret));
    free(publication);
}

/* Listen on a socket of its own. NIXL_OK or the failure. */
static int publication_listen(struct publication *publication)
{
    struct sockaddr_un name;
    socklen_t name_nbytes = nxr_intro_address(publication->entry.socket, &name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), status;

    if (fd < 0 || bind(fd, (struct sockaddr *)&name, name_nbytes) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        status = nxr_status_of_errno(errno);
    } else {
        publication->watch.fn = publication_ready;
        publication->listen_fd = fd;
        status = nxr_service_watch(fd, EPOLLIN, &publication->watch);
    }
    if (status != NIXL_OK && fd >= 0) {
        publication->listen_fd = -1;
        close(fd);
    }
    return status;
}

/* ---- the calls ------------------------------------------------------------------------------- */

int nxr_attach_check(const char *operation, const char *where, const char *name,
                     const char **schema, const char **dir_p)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    *dir_p = nxr_directory_of(where);
    *schema = *schema != NULL ? *schema : "";
    if (*dir_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "where is '%.100s'; allowed: file:DIR, a folder",
                        where != NULL ? where : "");
    }
    if (!nxr_entry_is_name(name)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the name is '%.100s'; allowed: 1 to %d letters, digits, '.', '_' and '-', "
                        "the first no '.'",
                        name != NULL ? name : "", NIXL_PUBLISH_NAME_MAX);
    }
    if (strnlen(*schema, NIXL_SCHEMA_MAX + 1) > NIXL_SCHEMA_MAX) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the schema has more than %d bytes", NIXL_SCHEMA_MAX);
    }
    if (!nxr_route_is_allowed("shm")) {
        return nxr_fail(NIXL_E_UNSUPPORTED, operation, -1, "", 0,
                        "attached processes are reached by shared memory only, and "
                        "NIXLRUN_TRANSPORTS excludes shm");
    }
    return NIXL_OK;
}

static struct publication *publication_new(const char *dir, const char *name, const char *schema)
{
    struct publication *publication = calloc(1, sizeof(*publication));
    unsigned char socket[NXR_NONCE_NBYTES];

    if (publication == NULL || (publication->dir = strdup(dir)) == NULL ||
        !nxr_random(socket, sizeof(socket))) {
        free(publication != NULL ? publication->dir : NULL);
        free(publication);
        return NULL;
    }
    publication->listen_fd = publication->lock_fd = -1;
    publication->listen_again_at = INT64_MAX;
    nxr_entry_make(&nxr_job.card.head, name, schema, socket, &publication->entry);
    return publication;
}

/* Put it into the list, so that this process makes no second one. False: there is one. */
static bool publication_reserve(struct publication *publication)
{
    bool is_free;

    pthread_mutex_lock(&nxr_job.lock);
    is_free = publication_find(publication->dir, publication->entry.name) == NULL;
    if (is_free) {
        nxr_list_append(&publications, &publication->link);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_free;
}

/* Make its files and its socket; the entry comes last. */
static int publication_begin(struct publication *publication, char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct nxr_entry *entry = &publication->entry;
    int status = nxr_directory_claim(publication->dir, entry->name, publication->secret,
                                     &publication->lock_fd, why);

    if (status != NIXL_OK) {
        publication->lock_fd = -1;
        return status;
    }
    nxr_entry_prove(entry, publication->secret);
    pthread_mutex_lock(&nxr_job.lock);
    status = publication_listen(publication);
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "cannot listen on a socket: %s",
                 nixl_strerror(status));
        return status;
    }
    return nxr_directory_write(publication->dir, entry, why);
}

int nixl_publish(const char *where, const char *name, const char *schema)
{
    static const char operation[] = "nixl_publish";
    char why[NXR_DIRECTORY_WHY_NBYTES];
    struct publication *publication;
    const char *dir;
    int status = nxr_attach_check(operation, where, name, &schema, &dir);

    if (status != NIXL_OK) {
        return status;
    }
    publication = publication_new(dir, name, schema);
    if (publication == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a publication");
    }
    if (!publication_reserve(publication)) {
        publication_free(publication);
        return nxr_fail(NIXL_E_IN_USE, operation, -1, "", 0,
                        "this process has published '%s' in %s already", name, where);
    }
    status = publication_begin(publication, why);
    pthread_mutex_lock(&nxr_job.lock);
    publication->is_published = status == NIXL_OK;
    if (status != NIXL_OK) {
        publication_close(publication);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        publication_free(publication);
        return nxr_fail(status, operation, -1, "", 0, "cannot publish '%s' in %s: %s", name, where,
                        why);
    }
    return NIXL_OK;
}

int nixl_unpublish(const char *where, const char *name)
{
    static const char operation[] = "nixl_unpublish";
    const char *dir, *schema = NULL;
    struct publication *publication;
    int status = nxr_attach_check(operation, where, name, &schema, &dir);

    if (status != NIXL_OK) {
        return status;
    }
    pthread_mutex_lock(&nxr_job.lock);
    publication = publication_find(dir, name);
    if (publication != NULL && publication->is_published) {
        publication_close(publication);
    } else {
        publication = NULL;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (publication == NULL) {
        return nxr_fail(NIXL_E_NOT_FOUND, operation, -1, "", 0,
                        "this process has not published '%s' in %s", name, where);
    }
    publication_free(publication);
    return NIXL_OK;
}

/* The last finalize. The service thread still runs, and no call does. */
static void publish_quiesce(void)
{
    struct nxr_list ended, *link;

    nxr_list_init(&ended);
    pthread_mutex_lock(&nxr_job.lock);
    while (!nxr_list_is_empty(&publications)) {
        struct publication *publication =
            nxr_list_entry(publications.next, struct publication, link);

        publication_close(publication);
        nxr_list_append(&ended, &publication->link);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    while ((link = nxr_list_pop(&ended)) != NULL) {
        publication_free(nxr_list_entry(link, struct publication, link));
    }
}

/* Free the visits that publish_quiesce() has closed. */
static void publish_close(void)
{
    (void)publish_tick(INT64_MAX);
}

const struct nxr_subsystem nxr_publish_subsystem = {
    .name = "publish",
    .tick = publish_tick,
    .quiesce = publish_quiesce,
    .close = publish_close,
};
