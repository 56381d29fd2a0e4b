/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of where a name is published. No state, no lock. */
#include "config.h"

#include "attach/where.h"
#include "nixlrun.h"

#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rest of a text that begins so; NULL: it does not. */
static const char *where_behind(const char *text, const char *beginning)
{
    size_t nbytes = strlen(beginning);

    return strncmp(text, beginning, nbytes) == 0 ? text + nbytes : NULL;
}

/* A decimal number up to 65535, and nothing else. */
static bool read_port(const char *text, uint16_t *port_p)
{
    size_t n_digits = strspn(text, "0123456789");
    long port = strtol(text, NULL, 10);

    *port_p = (uint16_t)port;
    return n_digits > 0 && n_digits <= 5 && text[n_digits] == '\0' && port <= UINT16_MAX;
}

/* HOST:PORT, where an IPv6 address stands in brackets. */
static bool read_host_and_port(const char *text, struct nxr_where *where_p)
{
    bool is_bracketed = text[0] == '[';
    const char *host = text + is_bracketed, *end = strchr(host, is_bracketed ? ']' : ':');
    size_t nbytes = end != NULL ? (size_t)(end - host) : 0;

    if (nbytes == 0 || nbytes >= sizeof(where_p->host)) {
        return false;
    }
    memcpy(where_p->host, host, nbytes);
    where_p->host[nbytes] = '\0';
    end += is_bracketed;
    return *end == ':' && read_port(end + 1, &where_p->port);
}

/* ---- etcd ------------------------------------------------------------------------------------ */

#define DEFAULT_PREFIX "nixlrun"

/* HOST:PORT, several with commas between them; ports from 1 on. */
static bool read_endpoints(const char *text, size_t nbytes, struct nxr_where *where_p)
{
    char copy[NXR_WHERE_ENDPOINTS_NBYTES], *next = copy;
    struct nxr_where one;

    if (nbytes >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, nbytes);
    copy[nbytes] = '\0';
    memcpy(where_p->endpoints, copy, nbytes + 1);
    while (next != NULL) {
        if (!read_host_and_port(strsep(&next, ","), &one) || one.port == 0 ||
            strpbrk(one.host, "@?#%\\ ") != NULL) {
            return false;
        }
    }
    return true;
}

/* "/a/b/", or nothing; what no key should have is refused. */
static bool read_prefix(const char *text, struct nxr_where *where_p)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    size_t nbytes;

    text += text[0] == '/';
    nbytes = strlen(text);
    nbytes -= nbytes > 0 && text[nbytes - 1] == '/';
    if (nbytes == 0) {
        snprintf(where_p->prefix, sizeof(where_p->prefix), DEFAULT_PREFIX);
        return text[0] == '\0';
    }
    if (nbytes >= sizeof(where_p->prefix) || strspn(text, allowed) < nbytes || text[0] == '/' ||
        text[nbytes - 1] == '/') {
        return false;
    }
    memcpy(where_p->prefix, text, nbytes);
    where_p->prefix[nbytes] = '\0';
    return strstr(where_p->prefix, "//") == NULL;
}

/* What follows etcd://. */
static bool read_etcd(const char *text, struct nxr_where *where_p)
{
    size_t nbytes = strcspn(text, "/");
    const char *at = memchr(text, '@', nbytes), *host = at != NULL ? at + 1 : text;
    size_t user_nbytes = at != NULL ? (size_t)(at - text) : 0;

    where_p->kind = NXR_WHERE_ETCD;
    if (user_nbytes >= sizeof(where_p->user) || (at != NULL && user_nbytes == 0) ||
        strcspn(text, ":,[") < user_nbytes) {
        return false;
    }
    memcpy(where_p->user, text, user_nbytes);
    where_p->user[user_nbytes] = '\0';
    return read_endpoints(host, nbytes - (size_t)(host - text), where_p) &&
           read_prefix(text + nbytes, where_p);
}

struct nxr_where_shown nxr_where_show(const char *text)
{
    const char *at, *behind = NULL;
    struct nxr_where_shown shown;

    text = text != NULL ? text : "";
    at = strrchr(text, '@');
    if (at != NULL) {
        behind = strstr(text, "://");
    }
    if (behind != NULL && behind < at &&
        memchr(behind + 3, ':', (size_t)(at - behind - 3)) != NULL) {
        snprintf(shown.text, sizeof(shown.text), "%.*s://...%s", (int)(behind - text), text, at);
    } else {
        snprintf(shown.text, sizeof(shown.text), "%s", text);
    }
    return shown;
}

/* ---- all forms ------------------------------------------------------------------------------- */

bool nxr_where_parse(const char *text, struct nxr_where *where_p)
{
    const char *rest;

    *where_p = (struct nxr_where){.text = text};
    if (text == NULL) {
        return false;
    }
    rest = where_behind(text, "file:");
    if (rest != NULL) {
        where_p->dir = rest;
        return rest[0] != '\0' && strlen(rest) < PATH_MAX - NIXL_PUBLISH_NAME_MAX - 32;
    }
    where_p->is_tls = where_behind(text, "etcds://") != NULL;
    rest = where_behind(text, where_p->is_tls ? "etcds://" : "etcd://");
    if (rest != NULL) {
        return read_etcd(rest, where_p);
    }
    where_p->kind = NXR_WHERE_PORT;
    rest = where_behind(text, "tcp://");
    return rest != NULL && read_host_and_port(rest, where_p);
}

int nxr_where_write(const char *host, uint16_t port, char *text, size_t nbytes)
{
    bool is_ipv6 = strchr(host, ':') != NULL;

    return snprintf(text, nbytes, "tcp://%s%s%s:%u", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
                    port);
}

struct addrinfo *nxr_where_resolve(const struct nxr_where *where, bool is_passive, char *why,
                                   size_t why_nbytes)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | (is_passive ? AI_PASSIVE : 0)};
    struct addrinfo *found = NULL;
    char port[8];
    int error;

    snprintf(port, sizeof(port), "%u", where->port);
    error = getaddrinfo(where->host, port, &hints, &found);
    if (error != 0) {
        snprintf(why, why_nbytes, "the host '%.120s' is not known: %s", where->host,
                 gai_strerror(error));
        return NULL;
    }
    return found;
}
