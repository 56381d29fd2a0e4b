/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank's end of the rendezvous. Joining is done by the calling thread, with deadlines; then a
 * thread of its own reads what happens to others. No lock: that thread only reads from the socket,
 * and is stopped before the socket is closed.
 */
#include "config.h"

#include "boot/rendezvous.h"
#include "boot/all_cards.h"
#include "boot/events.h"
#include "boot/rank_socket.h"
#include "core/node.h"
#include "nixlrun.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/hash.h"
#include "util/meet.h"
#include "util/rendezvous.h"
#include "util/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRY_ADDRESS_NS (3 * NXR_S) /* of an address, before the next one is tried */
#define MOST_NBYTES    (1u << 30)  /* of a message of nixlrun */

static int rv_fd = -1;
static pthread_t rv_reader;
static bool rv_has_reader;
static uint64_t rv_job;
static int rv_rank, rv_size;

bool nxr_rendezvous_is_given(void)
{
    const char *nspace = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");

    return nxr_env.rendezvous != NULL && nxr_env.rendezvous[0] != '\0' && nspace != NULL &&
           rank != NULL && nxr_rank_socket_is_of((unsigned)strtoul(rank, NULL, 10), nspace);
}

/* ---- the connection -------------------------------------------------------------------------- */

/* Wait until the socket is ready. False: not in time. */
static bool rv_wait(short events, int64_t deadline)
{
    struct pollfd polled = {.fd = rv_fd, .events = events};
    int n;

    do {
        int64_t now = nxr_now_ns();
        struct timespec left = nxr_timespec(deadline > now ? deadline - now : 0);

        n = ppoll(&polled, 1, deadline != INT64_MAX ? &left : NULL, NULL);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

/* NIXL_OK, NIXL_E_TIMEOUT or NIXL_E_TRANSPORT. */
static int rv_write(const void *bytes, size_t nbytes, int64_t deadline)
{
    while (nbytes > 0) {
        ssize_t n = send(rv_fd, bytes, nbytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN && !rv_wait(POLLOUT, deadline)) {
            return NIXL_E_TIMEOUT;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return NIXL_E_TRANSPORT;
        }
        bytes = (const char *)bytes + (n > 0 ? n : 0);
        nbytes -= n > 0 ? (size_t)n : 0;
    }
    return NIXL_OK;
}

static int rv_read(void *bytes, size_t nbytes, int64_t deadline)
{
    while (nbytes > 0) {
        ssize_t n = recv(rv_fd, bytes, nbytes, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN && !rv_wait(POLLIN, deadline)) {
            return NIXL_E_TIMEOUT;
        }
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return NIXL_E_TRANSPORT;
        }
        bytes = (char *)bytes + (n > 0 ? n : 0);
        nbytes -= n > 0 ? (size_t)n : 0;
    }
    return NIXL_OK;
}

static int rv_send(enum nxr_rv_kind kind, const void *bytes, size_t nbytes, int64_t deadline)
{
    const struct nxr_rv_head head = {.magic = NXR_RV_MAGIC,
                                     .version = NXR_RV_VERSION,
                                     .kind = (uint16_t)kind,
                                     .rank = rv_rank,
                                     .nbytes = (uint32_t)nbytes};
    int status = rv_write(&head, sizeof(head), deadline);

    return status == NIXL_OK ? rv_write(bytes, nbytes, deadline) : status;
}

/* Read a message, whose bytes free() frees. */
static int rv_take(struct nxr_rv_head *head, char **bytes_p, int64_t deadline)
{
    int status = rv_read(head, sizeof(*head), deadline);

    *bytes_p = NULL;
    if (status == NIXL_OK && (head->magic != NXR_RV_MAGIC || head->version != NXR_RV_VERSION ||
                              head->nbytes > MOST_NBYTES)) {
        return NIXL_E_TRANSPORT;
    }
    if (status == NIXL_OK) {
        *bytes_p = calloc((size_t)head->nbytes + 1, 1);
        status = *bytes_p != NULL ? rv_read(*bytes_p, head->nbytes, deadline) : NIXL_E_NO_MEMORY;
    }
    if (status != NIXL_OK) {
        free(*bytes_p);
        *bytes_p = NULL;
    }
    return status;
}

static void rv_close(void)
{
    if (rv_fd >= 0) {
        close(rv_fd);
        rv_fd = -1;
    }
}

/* Connect to one address. False, with errno. */
static bool rv_connect(const char *address, int port, int64_t deadline)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool is_6 = strchr(address, ':') != NULL;
    int one = 1, error = 0;
    socklen_t nbytes = sizeof(error);

    if (inet_pton(is_6 ? AF_INET6 : AF_INET, address,
                  is_6 ? (void *)&in6.sin6_addr : (void *)&in.sin_addr) != 1) {
        errno = EINVAL;
        return false;
    }
    rv_fd = socket(is_6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (rv_fd < 0) {
        return false;
    }
    setsockopt(rv_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(rv_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    if (connect(rv_fd, is_6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in,
                is_6 ? sizeof(in6) : sizeof(in)) == 0) {
        return true;
    }
    error = errno;
    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (rv_wait(POLLOUT, deadline)) {
            getsockopt(rv_fd, SOL_SOCKET, SO_ERROR, &error, &nbytes);
        }
    }
    if (error != 0) {
        rv_close();
    }
    errno = error;
    return error == 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

static int rv_explain(int status, const char *what, char *why, size_t why_nbytes)
{
    if (status == NIXL_E_TIMEOUT) {
        snprintf(why, why_nbytes,
                 "%s: no answer of nixlrun within NIXLRUN_INIT_TIMEOUT; have all ranks called "
                 "nixl_init?",
                 what);
        return status;
    }
    snprintf(why, why_nbytes, "%s: nixlrun has closed the connection, or does not answer as such",
             what);
    return NIXL_E_TRANSPORT;
}

/* Wait for that answer. */
static int rv_expect(enum nxr_rv_kind kind, const char *what, struct nxr_rv_head *head,
                     char **bytes_p, int64_t deadline, char *why, size_t why_nbytes)
{
    int status = rv_take(head, bytes_p, deadline);

    if (status == NIXL_OK && head->kind == NXR_RV_REFUSED) {
        snprintf(why, why_nbytes, "%s: nixlrun refuses: %.150s", what, *bytes_p);
    } else if (status != NIXL_OK || head->kind != kind) {
        status = rv_explain(status != NIXL_OK ? status : NIXL_E_TRANSPORT, what, why, why_nbytes);
    } else {
        return NIXL_OK;
    }
    free(*bytes_p);
    *bytes_p = NULL;
    return status != NIXL_OK ? status : NIXL_E_TRANSPORT;
}

/* Read "KEY,PORT,". The text of the addresses behind it; NULL: it is damaged. */
static const char *rv_parse(unsigned char key[NXR_RV_KEY_NBYTES], int *port_p)
{
    const char *at = nxr_env.rendezvous;
    int n = 0;

    for (int i = 0; i < NXR_RV_KEY_NBYTES; i++, at += 2) {
        unsigned byte;

        if (sscanf(at, "%2x%n", &byte, &n) != 1 || n != 2) {
            return NULL;
        }
        key[i] = (unsigned char)byte;
    }
    n = 0;
    return sscanf(at, ",%d,%n", port_p, &n) == 1 && n > 0 ? at + n : NULL;
}

/* Connect to the first address that answers. False, and `why`. */
static bool rv_reach(const char *addresses, int port, int64_t deadline, char *why,
                     size_t why_nbytes)
{
    char list[1024], *rest = NULL;

    snprintf(list, sizeof(list), "%s", addresses);
    for (char *one = strtok_r(list, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
        int64_t until = nxr_deadline(TRY_ADDRESS_NS);

        if (rv_connect(one, port, until < deadline ? until : deadline)) {
            return true;
        }
    }
    snprintf(why, why_nbytes,
             "no connection to nixlrun at %.120s, port %d: %s; ranks that may be started again "
             "need TCP from their hosts to that of nixlrun",
             addresses, port, strerror(errno));
    return false;
}

static int rv_take_places(struct nxr_boot_info *info, const char *bytes, size_t nbytes)
{
    struct nxr_rv_places places;
    int n_nodes = 0, *nodes;

    if (nbytes < sizeof(places)) {
        return NIXL_E_TRANSPORT;
    }
    memcpy(&places, bytes, sizeof(places));
    if (places.size <= info->self.rank ||
        nbytes != sizeof(places) + (size_t)places.size * sizeof(int32_t)) {
        return NIXL_E_TRANSPORT;
    }
    nodes = malloc((size_t)places.size * sizeof(*nodes));
    if (nodes == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    memcpy(nodes, bytes + sizeof(places), (size_t)places.size * sizeof(*nodes));
    info->size = rv_size = places.size;
    info->program = places.program;
    info->n_local = info->local_rank = 0;
    for (int rank = 0; rank < places.size; rank++) {
        n_nodes = nodes[rank] >= n_nodes ? nodes[rank] + 1 : n_nodes;
        if (nodes[rank] == nodes[info->self.rank]) {
            info->local_rank += rank < info->self.rank;
            info->n_local++;
        }
    }
    nxr_nodes_set(nodes, n_nodes);
    return NIXL_OK;
}

/*
 * A name of this host that only ranks of it have. Names of machines may be alike, and containers of
 * one machine count as hosts, so the engine's name for it and the network namespace are part of it.
 */
static void rv_name_host(char text[NXR_RV_HOST_MAX])
{
    static const char *const variables[] = {"PMIX_HOSTNAME", "SLURMD_NODENAME"};
    char host[HOST_NAME_MAX + 1] = "", parts[1024];
    struct stat info = {.st_ino = 0};
    int n;

    gethostname(host, sizeof(host) - 1);
    (void)stat("/proc/self/ns/net", &info);
    n = snprintf(parts, sizeof(parts), "%s|%.256s|%llu", host, nxr_env.hostid,
                 (unsigned long long)info.st_ino);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        n += snprintf(parts + n, sizeof(parts) - (size_t)n, "|%.256s", value != NULL ? value : "");
    }
    snprintf(text, NXR_RV_HOST_MAX, "%.40s:%016llx", host,
             (unsigned long long)nxr_hash(parts, (size_t)n));
}

int nxr_rendezvous_come(struct nxr_boot_info *info, int64_t timeout_ns, char *why,
                        size_t why_nbytes)
{
    static const char what[] = "joining the job";
    int64_t deadline = nxr_deadline(timeout_ns);
    struct nxr_rv_come come = {.pid = getpid(), .incarnation = info->self.incarnation};
    struct nxr_rv_head head;
    const char *addresses;
    char *bytes = NULL;
    int port, status;

    rv_rank = info->self.rank;
    rv_job = info->self.job;
    addresses = rv_parse(come.key, &port);
    if (addresses == NULL) {
        snprintf(why, why_nbytes, "NIXLRUN_RENDEZVOUS is damaged; it is set by nixlrun alone");
        return NIXL_E_TRANSPORT;
    }
    rv_name_host(come.host);
    if (!rv_reach(addresses, port, deadline, why, why_nbytes)) {
        return NIXL_E_TRANSPORT;
    }
    status = rv_send(NXR_RV_COME, &come, sizeof(come), deadline);
    if (status != NIXL_OK) {
        status = rv_explain(status, what, why, why_nbytes);
    } else {
        status = rv_expect(NXR_RV_PLACES, what, &head, &bytes, deadline, why, why_nbytes);
    }
    if (status == NIXL_OK) {
        status = rv_take_places(info, bytes, head.nbytes);
        if (status != NIXL_OK) {
            rv_explain(status, what, why, why_nbytes);
        }
    }
    free(bytes);
    if (status != NIXL_OK) {
        rv_close();
    }
    return status;
}

/* ---- what happens to others ------------------------------------------------------------------ */

static void rv_hear(const struct nxr_rv_head *head, const char *bytes)
{
    const struct nxr_identity owner = {.job = rv_job, .rank = head->rank};
    struct nxr_wireup_event event = {.rank = head->rank, .change = head->value};

    if (head->rank < 0 || head->rank >= rv_size) {
        return;
    }
    if (head->kind == NXR_RV_ENDED) {
        event.news = NXR_WIREUP_ENDED;
    } else if (head->kind == NXR_RV_JOINED &&
               nxr_card_parse(bytes, head->nbytes, &owner, &event.card) == NIXL_OK) {
        event.news = NXR_WIREUP_JOINED;
    } else {
        nxr_warn(BOOT, "news of nixlrun about %s are damaged; dropped",
                 nxr_identity_own_name(&owner));
        return;
    }
    nxr_boot_events_tell(&event);
}

static void *rv_read_news(void *unused)
{
    struct nxr_rv_head head;
    char *bytes;

    (void)unused;
    while (rv_take(&head, &bytes, INT64_MAX) == NIXL_OK) {
        rv_hear(&head, bytes);
        free(bytes);
    }
    nxr_boot_events_tell(&(struct nxr_wireup_event){.news = NXR_WIREUP_GONE, .rank = -1});
    return NULL;
}

int nxr_rendezvous_meet(const struct nxr_full_card *card, int64_t timeout_ns, char *why,
                        size_t why_nbytes)
{
    static const char what[] = "waiting for all ranks";
    int64_t deadline = nxr_deadline(timeout_ns);
    struct nxr_rv_head head;
    char *bytes = NULL;
    int status = rv_send(NXR_RV_CARD, card, card->head.nbytes, deadline);

    if (status != NIXL_OK) {
        return rv_explain(status, what, why, why_nbytes);
    }
    status = rv_expect(NXR_RV_MET, what, &head, &bytes, deadline, why, why_nbytes);
    if (status != NIXL_OK) {
        return status;
    }
    nxr_boot_events_known(head.value);
    if (nxr_all_cards_take(bytes, head.nbytes, rv_size) != PMIX_SUCCESS) {
        return rv_explain(NIXL_E_TRANSPORT, what, why, why_nbytes);
    }
    if (nxr_thread_start(&rv_reader, 0, rv_read_news, NULL) != 0) {
        snprintf(why, why_nbytes, "no thread can be made that hears of other ranks' returns");
        return NIXL_E_TRANSPORT;
    }
    rv_has_reader = true;
    return NIXL_OK;
}

void nxr_rendezvous_leave(void)
{
    if (rv_fd < 0) {
        return;
    }
    (void)rv_send(NXR_RV_LEFT, NULL, 0, nxr_deadline(NXR_S));
    shutdown(rv_fd, SHUT_RDWR);
    if (rv_has_reader) {
        pthread_join(rv_reader, NULL);
        rv_has_reader = false;
    }
    rv_close();
}
