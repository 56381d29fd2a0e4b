/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publications of this process. Attachers come to their listeners (listener.c), and introduce
 * themselves (visit.c).
 *
 * Lock: job.lock. A publication is in the list, and so excludes another one of its name, before its
 * files and sockets are made without the lock.
 */
#include "config.h"

#include "attach/attach.h"
#include "attach/contacts.h"
#include "attach/directory.h"
#include "attach/directory_etcd.h"
#include "attach/entry_etcd.h"
#include "attach/lease_etcd.h"
#include "attach/listener.h"
#include "attach/place.h"
#include "attach/token.h"
#include "attach/visit.h"
#include "attach/where.h"
#include "core/subsystem.h"
#include "net/net.h"
#include "util/announce.h"
#include "util/env.h"
#include "util/log.h"
#include "util/random.h"
#include "util/status.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct publication {
    struct nxr_list link;
    struct nxr_listener *listener; /* NULL: none yet */
    struct nxr_listener *outer;    /* of a folder, for other hosts; NULL: none */
    struct nxr_folder folder;      /* none: it is not in a folder */
    int lock_fd;                   /* of a folder; else -1 */
    struct nxr_etcd_lease *lease;  /* of etcd; else NULL */
    char *text;                    /* where, as the program gave it */
    struct nxr_where where;
    struct nxr_entry entry;
    char schema[NIXL_SCHEMA_MAX + 1];
    unsigned char secret[NXR_PROOF_SECRET_NBYTES]; /* that attachers must know */
    bool is_published;                             /* it can be found */
};

static struct nxr_list publications = {&publications, &publications};

/* ---- under job.lock -------------------------------------------------------------------------- */

/*
 * A folder has many paths, and a path may come to mean another folder: what the program has
 * published by that text goes first, and then what is in that folder.
 */
static struct publication *publication_find(const char *where, const struct nxr_folder *folder,
                                            const char *name)
{
    struct publication *in_folder = NULL;
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publications) {
        struct publication *publication = nxr_list_entry(link, struct publication, link);

        if (strcmp(publication->entry.name, name) != 0) {
            continue;
        }
        if (strcmp(publication->text, where) == 0) {
            return publication;
        }
        if (nxr_folder_is(&publication->folder, folder)) {
            in_folder = publication;
        }
    }
    return in_folder;
}

/* The folder that a program names; none where it is no folder, or cannot be opened. */
static struct nxr_folder publication_folder(const struct nxr_where *where)
{
    struct nxr_folder folder = {.fd = -1};
    char why[NXR_DIRECTORY_WHY_NBYTES];

    if (where->kind == NXR_WHERE_FOLDER) {
        (void)nxr_folder_open(where->dir, &folder, why);
    }
    return folder;
}

bool nxr_attach_publishes(const struct nxr_where *where, const char *name)
{
    struct nxr_folder folder = publication_folder(where);
    bool does;

    pthread_mutex_lock(&nxr_job.lock);
    does = publication_find(where->text, &folder, name) != NULL;
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_folder_close(&folder);
    return does;
}

static bool publication_is_at(const struct publication *publication,
                              const struct nxr_listener *listener)
{
    return listener != NULL &&
           (publication->listener == listener || publication->outer == listener);
}

const char *nxr_publication_schema(const struct nxr_listener *listener, const char *name,
                                   const unsigned char **secret_p)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publications) {
        const struct publication *publication = nxr_list_entry(link, struct publication, link);

        if (publication_is_at(publication, listener) &&
            strcmp(publication->entry.name, name) == 0) {
            *secret_p = publication->secret;
            return publication->schema;
        }
    }
    return NULL;
}

/* Has another publication this listener, too, and its name? Attachers could not say which. */
static bool publication_has_double(const struct publication *publication,
                                   const struct nxr_listener *listener)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &publications) {
        const struct publication *other = nxr_list_entry(link, struct publication, link);

        if (other != publication && publication_is_at(other, listener) &&
            strcmp(other->entry.name, publication->entry.name) == 0) {
            return true;
        }
    }
    return false;
}

static void publication_let_go(const struct publication *publication,
                               struct nxr_listener **listener_p)
{
    if (*listener_p != NULL) {
        nxr_visits_end(*listener_p, publication->entry.name);
        nxr_listener_let_go(*listener_p);
        *listener_p = NULL;
    }
}

/* Take a publication out of the list, with those who have not finished their introduction. */
static void publication_close(struct publication *publication)
{
    nxr_list_remove(&publication->link);
    nxr_job.n_published--;
    publication_let_go(publication, &publication->listener);
    publication_let_go(publication, &publication->outer);
}

/* ---- without it ------------------------------------------------------------------------------ */

static void publication_free(struct publication *publication)
{
    if (publication->lease != NULL) {
        nxr_etcd_lease_end(publication->lease);
    }
    if (publication->lock_fd >= 0) {
        nxr_directory_release(&publication->folder, publication->entry.name, publication->lock_fd);
    }
    nxr_folder_close(&publication->folder);
    explicit_bzero(publication->secret, sizeof(publication->secret));
    free(publication->text);
    free(publication);
}

static struct publication *publication_new(const struct nxr_where *where, const char *name,
                                           const char *schema)
{
    struct publication *publication = calloc(1, sizeof(*publication));
    unsigned char socket[NXR_NONCE_NBYTES];

    if (publication == NULL || (publication->text = strdup(where->text)) == NULL ||
        !nxr_random(socket, sizeof(socket))) {
        free(publication != NULL ? publication->text : NULL);
        free(publication);
        return NULL;
    }
    publication->lock_fd = publication->folder.fd = -1;
    (void)nxr_where_parse(publication->text, &publication->where);
    nxr_entry_make(&nxr_job.card.head, name, schema, socket, &publication->entry);
    memcpy(publication->schema, schema, strlen(schema) + 1);
    return publication;
}

/* Put it into the list, so that this process makes no second one. False: there is one. */
static bool publication_reserve(struct publication *publication)
{
    bool is_free;

    pthread_mutex_lock(&nxr_job.lock);
    is_free =
        publication_find(publication->text, &publication->folder, publication->entry.name) == NULL;
    if (is_free) {
        nxr_list_append(&publications, &publication->link);
        nxr_job.n_published++;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_free;
}

/* Listen at a TCP port. Who attaches may be on another host, so the networks are opened. */
static int publication_listen(struct publication *publication, const struct nxr_where *port,
                              struct nxr_listener **listener_p, char why[NXR_LISTENER_WHY_NBYTES])
{
    int status = nxr_contacts_check(why, NXR_LISTENER_WHY_NBYTES);
    struct addrinfo *addresses;

    if (status != NIXL_OK) {
        return status;
    }
    addresses = nxr_where_resolve(port, true, why, NXR_LISTENER_WHY_NBYTES);
    if (addresses == NULL) {
        return NIXL_E_NOT_FOUND;
    }
    (void)nxr_net_open();
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_listener_tcp(port, addresses, publication->secret, listener_p, why);
    if (status == NIXL_OK && publication_has_double(publication, *listener_p)) {
        snprintf(why, NXR_LISTENER_WHY_NBYTES,
                 "this process has published the name at that port already, in another place: give "
                 "it another name there");
        status = NIXL_E_IN_USE;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    freeaddrinfo(addresses);
    return status;
}

static int publication_begin_at_port(struct publication *publication,
                                     char why[NXR_LISTENER_WHY_NBYTES])
{
    int status = nxr_attach_token_read(publication->secret, why);

    return status == NIXL_OK
               ? publication_listen(publication, &publication->where, &publication->listener, why)
               : status;
}

/* Listen where the user says, or at any port of all addresses, and name the contacts. */
static int publication_listen_outside(struct publication *publication,
                                      struct nxr_listener **listener_p, unsigned *n_contacts_p,
                                      char contacts[][NXR_CONTACT_NBYTES],
                                      char why[NXR_LISTENER_WHY_NBYTES])
{
    char reason[NXR_LISTENER_WHY_NBYTES];
    struct nxr_place place;
    int status = nxr_place_find(publication->text, &place, why);

    if (status != NIXL_OK) {
        return status;
    }
    status = publication_listen(publication, &place.port, listener_p, why);
    if (!place.is_named && (status == NIXL_E_NOT_FOUND || status == NIXL_E_UNSUPPORTED ||
                            status == NIXL_E_TRANSPORT)) { /* there is no IPv6 here */
        nxr_place_take_four(publication->text, &place);
        status = publication_listen(publication, &place.port, listener_p, why);
    }
    if (status != NIXL_OK && place.is_named) {
        snprintf(reason, sizeof(reason), "%s", why);
        snprintf(why, NXR_LISTENER_WHY_NBYTES, "NIXLRUN_PUBLISH_LISTEN: %.300s", reason);
    }
    if (status == NIXL_OK) {
        *n_contacts_p = nxr_contacts_find(place.port.host, (*listener_p)->port, contacts);
    }
    return status;
}

/* Listen, and have an entry in etcd say where. */
static int publication_begin_in_etcd(struct publication *publication,
                                     char why[NXR_DIRECTORY_WHY_NBYTES])
{
    int status = nxr_attach_token_read(publication->secret, why);
    struct nxr_etcd_entry entry;

    if (status == NIXL_OK &&
        !nxr_entry_etcd_make(&nxr_job.card.head, publication->entry.name, &entry)) {
        snprintf(why, NXR_DIRECTORY_WHY_NBYTES, "no random numbers: getrandom: %s",
                 strerror(errno));
        return NIXL_E_UNSUPPORTED;
    }
    if (status == NIXL_OK) {
        status = publication_listen_outside(publication, &publication->listener, &entry.n_contacts,
                                            entry.contacts, why);
    }
    return status == NIXL_OK ? nxr_etcd_lease_begin(&publication->where, &entry,
                                                    publication->secret, &publication->lease, why)
                             : status;
}

/* Have an entry in a folder name contacts for other hosts, if any may read it. */
static int publication_open_outside(struct publication *publication,
                                    char why[NXR_DIRECTORY_WHY_NBYTES])
{
    enum nxr_place_need need = nxr_place_need(publication->where.dir);
    struct nxr_entry *entry = &publication->entry;
    int status;

    if (need == NXR_PLACE_NONE) {
        return NIXL_OK;
    }
    status = publication_listen_outside(publication, &publication->outer, &entry->n_contacts,
                                        entry->contacts, why);
    if (status != NIXL_OK && need == NXR_PLACE_WISHED) {
        nxr_warn(
            HOST,
            "processes of other hosts will not reach '%s' in %s, a folder that hosts share: %s "
            "(NIXLRUN_PUBLISH_LISTEN=none if none should)",
            entry->name, publication->text, why);
        return NIXL_OK;
    }
    return status;
}

/* Make the files of a folder and the sockets; the entry comes last. */
static int publication_begin_in_folder(struct publication *publication,
                                       char why[NXR_DIRECTORY_WHY_NBYTES])
{
    struct nxr_entry *entry = &publication->entry;
    int status = nxr_directory_claim(&publication->folder, entry->name, publication->secret,
                                     &publication->lock_fd, why);

    if (status != NIXL_OK) {
        publication->lock_fd = -1;
        return status;
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_listener_local(entry->socket, publication->secret, &publication->listener, why);
    pthread_mutex_unlock(&nxr_job.lock);
    if (status == NIXL_OK) {
        status = publication_open_outside(publication, why);
    }
    if (status != NIXL_OK) {
        return status;
    }
    nxr_entry_prove(entry, publication->secret);
    return nxr_directory_write(&publication->folder, entry, why);
}

static int publication_begin(struct publication *publication, char why[NXR_DIRECTORY_WHY_NBYTES])
{
    switch (publication->where.kind) {
    case NXR_WHERE_FOLDER:
        return publication_begin_in_folder(publication, why);
    case NXR_WHERE_PORT:
        return publication_begin_at_port(publication, why);
    default:
        return publication_begin_in_etcd(publication, why);
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

int nxr_attach_check(const char *operation, const char *text, const char *name, const char **schema,
                     struct nxr_where *where_p)
{
    int status = nxr_check_ready(operation);
    char why[NXR_ETCD_WHY_NBYTES];

    if (status != NIXL_OK) {
        return status;
    }
    *schema = *schema != NULL ? *schema : "";
    if (!nxr_where_parse(text, where_p)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "where is '%.100s'; allowed: " NXR_WHERE_ALLOWED,
                        nxr_where_show(text).text);
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
    if (where_p->kind == NXR_WHERE_ETCD && nxr_directory_etcd_load(why) != NIXL_OK) {
        return nxr_fail(NIXL_E_UNSUPPORTED, operation, -1, "", 0, "%s", why);
    }
    return NIXL_OK;
}

static int fail_to_publish(int status, const char *where, const char *name, const char *why)
{
    return nxr_fail(status, "nixl_publish", -1, "", 0, "cannot publish '%s' in %s: %s", name, where,
                    why);
}

int nixl_publish(const char *where, const char *name, const char *schema)
{
    static const char operation[] = "nixl_publish";
    char why[NXR_DIRECTORY_WHY_NBYTES] = "";
    struct publication *publication;
    struct nxr_where place;
    int status = nxr_attach_check(operation, where, name, &schema, &place);

    if (status != NIXL_OK) {
        return status;
    }
    publication = publication_new(&place, name, schema);
    if (publication == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a publication");
    }
    if (place.kind == NXR_WHERE_FOLDER) {
        status = nxr_folder_open(publication->where.dir, &publication->folder, why);
    }
    if (status != NIXL_OK) {
        publication_free(publication);
        return fail_to_publish(status, where, name, why);
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
        return fail_to_publish(status, where, name, why);
    }
    return NIXL_OK;
}

/* This process has no such publication, or has not completed it. */
static int fail_not_published(const char *operation, const char *where, const char *name)
{
    return nxr_fail(NIXL_E_NOT_FOUND, operation, -1, "", 0,
                    "this process has not published '%s' in %s", name, where);
}

int nixl_unpublish(const char *where, const char *name)
{
    static const char operation[] = "nixl_unpublish";
    struct publication *publication;
    const char *schema = NULL;
    struct nxr_folder folder;
    struct nxr_where place;
    int status = nxr_attach_check(operation, where, name, &schema, &place);

    if (status != NIXL_OK) {
        return status;
    }
    folder = publication_folder(&place);
    pthread_mutex_lock(&nxr_job.lock);
    publication = publication_find(where, &folder, name);
    if (publication != NULL && publication->is_published) {
        publication_close(publication);
    } else {
        publication = NULL;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_folder_close(&folder);
    if (publication == NULL) {
        return fail_not_published(operation, where, name);
    }
    publication_free(publication);
    return NIXL_OK;
}

/*
 * Where others attach to a port: at what the user announces. A host that stands for all addresses
 * is no address to attach to: the name of this host is one.
 */
static int publication_tell_port(const struct publication *publication, char *text, size_t nbytes)
{
    const char *host = publication->where.host;
    uint16_t port = publication->listener->port;
    struct nxr_announced announced;

    if (nxr_announce_parse(nxr_env.announce, &announced) && announced.host[0] != '\0') {
        return nxr_where_write(announced.host, nxr_announce_port(&announced, port), text, nbytes);
    }
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        host = nxr_job.card.head.host;
    }
    return nxr_where_write(host, port, text, nbytes);
}

int nixl_publish_query(const char *where, const char *name, char *text, size_t text_nbytes)
{
    static const char operation[] = "nixl_publish_query";
    const struct publication *publication;
    const char *schema = NULL;
    struct nxr_folder folder;
    struct nxr_where place;
    int status = nxr_attach_check(operation, where, name, &schema, &place), needed = -1;

    if (status != NIXL_OK) {
        return status;
    }
    if (text == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "text is NULL");
    }
    folder = publication_folder(&place);
    pthread_mutex_lock(&nxr_job.lock);
    publication = publication_find(where, &folder, name);
    if (publication != NULL && publication->is_published) {
        needed = place.kind != NXR_WHERE_PORT
                     ? snprintf(text, text_nbytes, "%s", where)
                     : publication_tell_port(publication, text, text_nbytes);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    nxr_folder_close(&folder);
    if (needed < 0) {
        return fail_not_published(operation, where, name);
    }
    return (size_t)needed < text_nbytes ? NIXL_OK
                                        : nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                                                   "text has room for %zu bytes, and %d are needed",
                                                   text_nbytes, needed + 1);
}

/* ---- the subsystem --------------------------------------------------------------------------- */

static int64_t publish_tick(int64_t now)
{
    int64_t visits_due = nxr_visits_tick(now), listeners_due = nxr_listeners_tick(now);

    return visits_due < listeners_due ? visits_due : listeners_due;
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

/* Free what publish_quiesce() has closed. */
static void publish_close(void)
{
    (void)publish_tick(INT64_MAX);
    nxr_directory_etcd_reset();
}

const struct nxr_subsystem nxr_publish_subsystem = {
    .name = "publish",
    .tick = publish_tick,
    .quiesce = publish_quiesce,
    .close = publish_close,
};
