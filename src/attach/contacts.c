/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the addresses of this host at which others reach it. No state, no lock. */
#include "config.h"

#include "attach/contacts.h"
#include "attach/where.h"
#include "nixlrun.h"
#include "util/announce.h"
#include "util/env.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

struct contacts {
    char (*at)[NXR_CONTACT_NBYTES];
    unsigned n;
};

static void contact_add(struct contacts *contacts, const char *host, uint16_t port)
{
    if (contacts->n < NXR_MAX_CONTACTS) {
        nxr_where_write(host, port, contacts->at[contacts->n++], NXR_CONTACT_NBYTES);
    }
}

/* Is it an address by which another host may reach this one? */
static bool interface_is_outer(const struct ifaddrs *interface, int family)
{
    const struct sockaddr_in6 *six = (const void *)interface->ifa_addr;

    return interface->ifa_addr != NULL && interface->ifa_addr->sa_family == family &&
           (interface->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP &&
           (family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr));
}

static void contacts_of_family(struct contacts *contacts, const struct ifaddrs *interfaces,
                               int family, uint16_t port)
{
    socklen_t nbytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    char host[NI_MAXHOST];

    for (; interfaces != NULL; interfaces = interfaces->ifa_next) {
        if (interface_is_outer(interfaces, family) &&
            getnameinfo(interfaces->ifa_addr, nbytes, host, sizeof(host), NULL, 0,
                        NI_NUMERICHOST) == 0) {
            contact_add(contacts, host, port);
        }
    }
}

/* The address that the user announces, with the port that it has there. */
static void contact_add_announced(struct contacts *contacts, uint16_t port)
{
    struct nxr_announced announced;

    if (nxr_announce_parse(nxr_env.announce, &announced) && announced.host[0] != '\0') {
        contact_add(contacts, announced.host, nxr_announce_port(&announced, port));
    }
}

int nxr_contacts_check(char *why, size_t why_nbytes)
{
    struct nxr_announced announced;

    if (nxr_announce_parse(nxr_env.announce, &announced)) {
        return NIXL_OK;
    }
    snprintf(why, why_nbytes, "NIXLRUN_ANNOUNCE is '%.100s'; allowed: " NXR_ANNOUNCE_ALLOWED,
             nxr_env.announce);
    return NIXL_E_INVALID_ARG;
}

unsigned nxr_contacts_find(const char *host, uint16_t port, char contacts[][NXR_CONTACT_NBYTES])
{
    bool is_any_four = strcmp(host, "0.0.0.0") == 0, is_any_six = strcmp(host, "::") == 0;
    struct contacts found = {.at = contacts};
    struct ifaddrs *interfaces = NULL;

    contact_add_announced(&found, port);
    if (!is_any_four && !is_any_six) {
        contact_add(&found, host, port);
        return found.n;
    }
    if (getifaddrs(&interfaces) == 0) {
        contacts_of_family(&found, interfaces, AF_INET, port);
        if (is_any_six) {
            contacts_of_family(&found, interfaces, AF_INET6, port);
        }
        freeifaddrs(interfaces);
    }
    if (found.n == 0) {
        contact_add(&found, "127.0.0.1", port); /* nothing leaves this host */
    }
    return found.n;
}
