/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a name means this host. Users name it by addresses and aliases too, and another
 * host's name may differ from ours only in the domain. So the addresses of a name decide, unless it
 * is exactly ours. A name that does not resolve is compared without its domain.
 *
 * Lock: none; one thread.
 */
#include "config.h"

#include "launcher/here.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

/* Is one of the names the other without its domain? */
static bool is_same_host(const char *a, const char *b)
{
    size_t n = strcspn(a, ".");

    return strcspn(b, ".") == n && memcmp(a, b, n) == 0 && (a[n] == '\0' || b[n] == '\0');
}

static bool here_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;

        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static bool is_equal(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family) {
        return false;
    }
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *in_a = (const void *)a, *in_b = (const void *)b;

        return in_a->sin_addr.s_addr == in_b->sin_addr.s_addr;
    }
    return a->sa_family == AF_INET6 &&
           IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                              &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr);
}

/* Is it the address of an interface of this host? */
static bool is_ours(const struct sockaddr *address, const struct ifaddrs *interfaces)
{
    for (; interfaces != NULL; interfaces = interfaces->ifa_next) {
        if (interfaces->ifa_addr != NULL && is_equal(address, interfaces->ifa_addr)) {
            return true;
        }
    }
    return here_is_loopback(address);
}

static bool has_ours(const struct addrinfo *found)
{
    struct ifaddrs *interfaces = NULL;
    bool is_found = false;

    if (getifaddrs(&interfaces) != 0) {
        interfaces = NULL;
    }
    for (; found != NULL && !is_found; found = found->ai_next) {
        is_found = is_ours(found->ai_addr, interfaces);
    }
    if (interfaces != NULL) {
        freeifaddrs(interfaces);
    }
    return is_found;
}

bool here_is(const char *name)
{
    static bool is_server_lost; /* it is not queried again: each query may take seconds */
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char here[HOST_NAME_MAX + 1] = "";
    bool is_here;
    int error;

    gethostname(here, sizeof(here) - 1);
    if (strcmp(name, here) == 0 || strcmp(name, "localhost") == 0) {
        return true;
    }
    hints.ai_flags = is_server_lost ? AI_NUMERICHOST : 0;
    error = getaddrinfo(name, NULL, &hints, &found);
    if (error != 0) {
        is_server_lost = is_server_lost || error == EAI_AGAIN;
        return is_same_host(name, here);
    }
    is_here = has_ours(found);
    freeaddrinfo(found);
    return is_here;
}
