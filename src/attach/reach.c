/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and reaching publishers. No state; job.lock only to look for a publication. */
#include "config.h"

#include "attach/reach.h"
#include "attach/attach.h"
#include "attach/directory_etcd.h"
#include "attach/entry_etcd.h"
#include "attach/token.h"
#include "core/wait.h"
#include "host/local_socket.h"
#include "host/packet.h"
#include "util/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POLL_NS   (1 * NXR_MS)   /* how often to look for an answer */
#define ANSWER_NS (2 * NXR_S)    /* how long one attempt waits for an answer */
#define NEXT_NS   (500 * NXR_MS) /* ... for a connection, if there is another address */
#define READ_NS   (5 * NXR_S)    /* how long etcd has to answer */
#define WATCH_NS  (10 * NXR_S)   /* how long its news are waited for before it is asked again */
#define DEAD_NS   (500 * NXR_MS) /* likewise, while there is an entry whose owner does not answer */
#define AWAY_NS   (200 * NXR_MS) /* before etcd is tried again */

int nxr_reach_check(struct nxr_attempt *attempt)
{
    if (attempt->talk.publisher.job != nxr_job.self.job) {
        return NIXL_OK;
    }
    NXR_SAY(attempt, "the publisher is %s: use that number",
            nxr_identity_name(&attempt->talk.publisher));
    return nxr_attempt_refuse(attempt, NIXL_E_INVALID_ARG);
}

/* ---- the entry of a folder ------------------------------------------------------------------- */

/* Read the secret beside the entry. What does not fit together may be being replaced. */
static int reach_read_secret(struct nxr_attempt *attempt)
{
    int status =
        nxr_directory_read_secret(attempt->where.dir, attempt->name, attempt->secret, attempt->why);

    attempt->is_final = status == NIXL_E_ACCESS;
    if (status == NIXL_OK && !nxr_entry_is_proved(&attempt->entry, attempt->secret)) {
        NXR_SAY(attempt, "the entry of '%s' was not made with the secret beside it", attempt->name);
        return NIXL_E_TRANSPORT;
    }
    return status;
}

static int reach_read_entry(struct nxr_attempt *attempt)
{
    const char *dir = attempt->where.dir;
    int status = nxr_directory_read(dir, attempt->name, &attempt->entry, attempt->why);

    if (status == NIXL_E_NOT_FOUND) {
        return access(dir, F_OK) == 0 ? status : nxr_attempt_refuse(attempt, status);
    }
    attempt->is_found = true;
    if (status == NIXL_E_UNSUPPORTED || status == NIXL_E_ACCESS) {
        return nxr_attempt_refuse(attempt, status);
    }
    if (status != NIXL_OK) {
        return status;
    }
    attempt->talk.publisher = attempt->entry.publisher;
    if (nxr_entry_is_of_host(&attempt->entry, &nxr_job.card.head)) {
        snprintf(attempt->who, sizeof(attempt->who), "process %d", attempt->entry.pid);
    } else {
        snprintf(attempt->who, sizeof(attempt->who), "process %d on another host, '%s'",
                 attempt->entry.pid, attempt->entry.host);
    }
    status = nxr_reach_check(attempt);
    return status == NIXL_OK ? reach_read_secret(attempt) : status;
}

/* ---- reaching the publisher ------------------------------------------------------------------ */

/* Nobody listens on the socket of the entry, and nothing else is tried. */
static void reach_explain_local(struct nxr_attempt *attempt)
{
    const struct nxr_entry *entry = &attempt->entry;

    if (nxr_entry_is_of_host(entry, &nxr_job.card.head)) {
        NXR_SAY(attempt,
                "process %d on '%s', which has published it, has ended, or is in another network "
                "namespace without the NIXLRUN_SHARED_DIR of this one: publish at tcp://HOST:PORT, "
                "or with NIXLRUN_PUBLISH_LISTEN=HOST:PORT, for those",
                entry->pid, entry->host);
    } else {
        NXR_SAY(attempt,
                "process %d, which has published it, is on another host, '%s', and does not listen "
                "for other hosts: set NIXLRUN_PUBLISH_LISTEN=HOST:PORT there, or publish at "
                "tcp://HOST:PORT",
                entry->pid, entry->host);
    }
}

static int reach_open_local(struct nxr_attempt *attempt)
{
    struct ucred other;
    int fd, status = nxr_local_socket_connect(NXR_INTRO_SOCKET, attempt->entry.socket, &fd);

    if (status == NIXL_E_LIMIT) {
        NXR_SAY(attempt, "cannot make a socket: %s", strerror(errno));
        return nxr_attempt_refuse(attempt, status);
    }
    if (status == NIXL_E_AGAIN) {
        NXR_SAY(attempt, "process %d on '%s', which has published it, accepts no connection now",
                attempt->entry.pid, attempt->entry.host);
        return NIXL_E_NOT_FOUND;
    }
    if (status != NIXL_OK) {
        reach_explain_local(attempt);
        return NIXL_E_NOT_FOUND;
    }
    attempt->intro.fd = fd;
    attempt->n_tried = attempt->entry.n_contacts; /* it lives, here */
    other = nxr_packet_other_end(fd);
    if (other.uid != geteuid()) {
        NXR_SAY(attempt, "the publisher runs as user %u, this process as user %u", other.uid,
                geteuid());
        return nxr_attempt_refuse(attempt, NIXL_E_ACCESS);
    }
    return NIXL_OK;
}

static bool reach_never(void *arg)
{
    (void)arg;
    return false;
}

static bool reach_has_event(void *arg)
{
    return poll(arg, 1, 0) > 0;
}

/* Wait for events of the introduction's descriptor, within one attempt. False: none came. */
bool nxr_reach_await(struct nxr_attempt *attempt, short events)
{
    struct pollfd entry = {.fd = attempt->intro.fd, .events = events};
    bool is_one_of_many = events == POLLOUT && nxr_reach_has_more(attempt);
    int64_t until = nxr_now_ns() + (is_one_of_many ? NEXT_NS : ANSWER_NS);
    int status;

    until = attempt->deadline < until ? attempt->deadline : until;
    do {
        status = nxr_wait(reach_has_event, &entry, POLL_NS);
    } while (status == NIXL_E_TIMEOUT && nxr_now_ns() < until);
    return status == NIXL_OK;
}

/* Connect to one address. 0, or an errno. */
static int reach_connect_to(struct nxr_attempt *attempt, const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t nbytes = sizeof(int);
    int error = 0;
    const int one = 1;

    if (fd < 0) {
        return errno;
    }
    attempt->intro = (struct nxr_intro_link){.fd = fd, .is_stream = true};
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        error = errno;
    }
    if (error == EINPROGRESS) {
        error = nxr_reach_await(attempt, POLLOUT) ? 0 : ETIMEDOUT;
    }
    if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &nbytes) != 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        attempt->intro.fd = -1;
    }
    return error;
}

/* Connect to that host and port. NIXL_E_NOT_FOUND: nobody listens there; NIXL_E_TIMEOUT. */
static int reach_open_port(struct nxr_attempt *attempt, const struct nxr_where *port)
{
    struct addrinfo *addresses = nxr_where_resolve(port, false, attempt->why, sizeof(attempt->why));
    int error = 0;

    if (addresses == NULL) {
        return NIXL_E_TIMEOUT; /* a name server may know it later */
    }
    for (const struct addrinfo *at = addresses; at != NULL && attempt->intro.fd < 0;
         at = at->ai_next) {
        error = reach_connect_to(attempt, at);
    }
    freeaddrinfo(addresses);
    if (error == EMFILE || error == ENFILE) {
        NXR_SAY(attempt, "cannot make a socket: %s", strerror(error));
        return nxr_attempt_refuse(attempt, NIXL_E_LIMIT);
    }
    if (attempt->intro.fd < 0) {
        NXR_SAY(attempt,
                error == ECONNREFUSED ? "nobody listens there (%s)" : "it is not reached (%s)",
                strerror(error));
        return error == ECONNREFUSED ? NIXL_E_NOT_FOUND : NIXL_E_TIMEOUT;
    }
    return NIXL_OK;
}

static int reach_open_known_port(struct nxr_attempt *attempt)
{
    int status = reach_open_port(attempt, &attempt->where);

    if (status == NIXL_OK) {
        attempt->is_found = true;
        snprintf(attempt->who, sizeof(attempt->who), "the process that listens there");
    }
    return status == NIXL_E_TIMEOUT ? NIXL_E_NOT_FOUND : status;
}

/* ---- etcd ------------------------------------------------------------------------------------ */

/* Read the entry. That etcd is away is no reason to give up. */
static int reach_ask_etcd(struct nxr_attempt *attempt, const char *key)
{
    int64_t until = nxr_now_ns() + READ_NS;
    int status = NIXL_OK;

    until = attempt->deadline < until ? attempt->deadline : until;
    if (attempt->etcd == NULL) {
        status = nxr_directory_etcd_take(&attempt->where, &attempt->etcd, attempt->why);
    }
    if (status == NIXL_OK) {
        status = nxr_etcd->read(attempt->etcd, key, until, &attempt->found, attempt->why);
    }
    if (status == NIXL_E_AGAIN) {
        attempt->is_found = attempt->is_away = true;
        return NIXL_E_TIMEOUT;
    }
    return status == NIXL_OK ? status : nxr_attempt_refuse(attempt, status);
}

/* What the entry says, if it was made by who knows the token. */
static int reach_take_entry(struct nxr_attempt *attempt, const char *key)
{
    const struct nxr_etcd_entry *entry = &attempt->found.entry;

    if (!attempt->found.is_there) {
        NXR_SAY(attempt, "etcd has no key '%.200s'", key);
        return NIXL_E_NOT_FOUND;
    }
    attempt->is_found = true;
    if (!attempt->found.is_entry || strcmp(entry->name, attempt->name) != 0) {
        NXR_SAY(attempt, "the key '%.200s' in etcd has no entry of that name: %s", key,
                attempt->found.is_entry ? "it is that of another name" : attempt->found.fault);
        return NIXL_E_TRANSPORT;
    }
    if (!nxr_entry_etcd_is_proved(entry, key, attempt->secret)) {
        NXR_SAY(attempt,
                "the entry in etcd was made with another token than that of this process (by "
                "process %d on '%.100s'), or was changed",
                entry->pid, entry->host);
        return nxr_attempt_refuse(attempt, NIXL_E_ACCESS);
    }
    attempt->talk.publisher = nxr_entry_etcd_identity(entry);
    snprintf(attempt->who, sizeof(attempt->who), "process %d on '%.100s'", entry->pid, entry->host);
    return nxr_reach_check(attempt);
}

static int reach_find_in_etcd(struct nxr_attempt *attempt)
{
    char key[NXR_ETCD_KEY_NBYTES];
    int status;

    nxr_directory_etcd_key(&attempt->where, attempt->name, key);
    status = reach_ask_etcd(attempt, key);
    return status == NIXL_OK ? reach_take_entry(attempt, key) : status;
}

void nxr_reach_await_entry(struct nxr_attempt *attempt)
{
    int64_t limit = attempt->found.is_there ? DEAD_NS : WATCH_NS, until;
    char key[NXR_ETCD_KEY_NBYTES], why[NXR_ETCD_WHY_NBYTES];
    int status = NIXL_E_AGAIN;

    if (!attempt->is_away) {
        nxr_directory_etcd_key(&attempt->where, attempt->name, key);
        until = nxr_now_ns() + limit;
        until = attempt->deadline < until ? attempt->deadline : until;
        status = nxr_etcd->await(attempt->etcd, key, attempt->found.revision, until, why);
    }
    if (status != NIXL_OK && status != NIXL_E_TIMEOUT) {
        (void)nxr_wait(reach_never, NULL, AWAY_NS);
    }
}

/* ---- contacts of entries --------------------------------------------------------------------- */

/* Connect to the next contact of an entry. */
static int reach_open_contact(struct nxr_attempt *attempt, const char *contact)
{
    char reason[sizeof(attempt->why)];
    struct nxr_where port;
    int status = NIXL_E_NOT_FOUND;

    attempt->n_tried++;
    if (nxr_where_parse(contact, &port) && port.kind == NXR_WHERE_PORT && port.port != 0) {
        status = reach_open_port(attempt, &port);
    } else {
        NXR_SAY(attempt, "that is no address");
    }
    if (status == NIXL_E_NOT_FOUND || status == NIXL_E_TIMEOUT) {
        snprintf(reason, sizeof(reason), "%s", attempt->why);
        NXR_SAY(attempt, "%s, which has published it, is not at %.200s: %.200s%s", attempt->who,
                contact, reason,
                status == NIXL_E_NOT_FOUND ? "; it has ended, or that address is not its own" : "");
    }
    return status;
}

/* At first by the local socket. Its owner is not certain to be on the host that the entry names. */
static int reach_open_in_folder(struct nxr_attempt *attempt)
{
    int status = NIXL_E_NOT_FOUND;

    if (!attempt->is_outside) {
        attempt->is_outside = true;
        status = reach_open_local(attempt);
    }
    return status == NIXL_E_NOT_FOUND && nxr_reach_has_more(attempt)
               ? reach_open_contact(attempt, attempt->entry.contacts[attempt->n_tried])
               : status;
}

/* ---- all forms ------------------------------------------------------------------------------- */

int nxr_reach_find(struct nxr_attempt *attempt)
{
    int status = NIXL_OK;

    if (nxr_attach_publishes(&attempt->where, attempt->name)) {
        NXR_SAY(attempt, "this process itself has published the name");
        return nxr_attempt_refuse(attempt, NIXL_E_INVALID_ARG);
    }
    if (attempt->where.kind == NXR_WHERE_FOLDER) {
        return reach_read_entry(attempt);
    }
    status = nxr_attach_token_read(attempt->secret, attempt->why);
    if (status != NIXL_OK) {
        return nxr_attempt_refuse(attempt, status);
    }
    return attempt->where.kind == NXR_WHERE_ETCD ? reach_find_in_etcd(attempt) : NIXL_OK;
}

int nxr_reach_open(struct nxr_attempt *attempt)
{
    switch (attempt->where.kind) {
    case NXR_WHERE_FOLDER:
        return reach_open_in_folder(attempt);
    case NXR_WHERE_PORT:
        return reach_open_known_port(attempt);
    default:
        return reach_open_contact(attempt, attempt->found.entry.contacts[attempt->n_tried]);
    }
}

bool nxr_reach_has_more(const struct nxr_attempt *attempt)
{
    switch (attempt->where.kind) {
    case NXR_WHERE_FOLDER:
        return attempt->n_tried < attempt->entry.n_contacts;
    case NXR_WHERE_ETCD:
        return attempt->n_tried < attempt->found.entry.n_contacts;
    default:
        return false;
    }
}

void nxr_reach_close(struct nxr_attempt *attempt)
{
    if (attempt->intro.fd >= 0) {
        close(attempt->intro.fd);
    }
    attempt->intro = (struct nxr_intro_link){.fd = -1};
}
