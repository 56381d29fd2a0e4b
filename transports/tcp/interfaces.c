/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IP addresses of this process: those of all interfaces that are up, or of those that the user
 * has named. The fastest interface comes first, and others try them in that order. A bridge to the
 * host's own containers, and then loopback, count only if they are named or if there is nothing
 * else. Link-local addresses, which IPv6 creates by itself, are left out: they are valid on their
 * link only. No lock.
 */
#include "config.h"

#include "tcp.h"
#include "transports/interface.h"
#include "transports/reason.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is the interface named in NIXLRUN_NET_DEVICES? */
static bool tcp_interfaces_is_named(const char *name)
{
    const char *at = nxr_tcp.core->devices;
    size_t nbytes = strlen(name);

    while (*at != '\0') {
        size_t length = strcspn(at, ",");

        if (length == nbytes && memcmp(at, name, nbytes) == 0) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

static unsigned count_bits(const unsigned char *mask, size_t nbytes)
{
    unsigned n = 0;

    while (n < nbytes * 8 && (mask[n / 8] & (0x80u >> n % 8)) != 0) {
        n++;
    }
    return n;
}

/* False: not an address that others can use. */
static bool make_path(const struct ifaddrs *entry, struct nxr_tcp_path *path)
{
    const void *addr = entry->ifa_addr, *mask = entry->ifa_netmask;

    *path = (struct nxr_tcp_path){0};
    if (mask == NULL) {
        return false;
    }
    if (entry->ifa_addr->sa_family == AF_INET) {
        path->family = 4;
        memcpy(path->ip, &((const struct sockaddr_in *)addr)->sin_addr, 4);
        path->prefix_nbits = (uint8_t)count_bits(
            (const unsigned char *)&((const struct sockaddr_in *)mask)->sin_addr, 4);
        return true;
    }
    if (entry->ifa_addr->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)addr)->sin6_addr;

        path->family = 6;
        memcpy(path->ip, six, 16);
        path->prefix_nbits = (uint8_t)count_bits(
            (const unsigned char *)&((const struct sockaddr_in6 *)mask)->sin6_addr, 16);
        return !IN6_IS_ADDR_LINKLOCAL(six);
    }
    return false;
}

/* Mbit/s; 0: not reported. */
static long speed_of(const char *name)
{
    char path[64], text[32] = "";
    long speed;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fgets(text, sizeof(text), file) == NULL) {
        text[0] = '\0';
    }
    fclose(file);
    speed = strtol(text, NULL, 10);
    return speed > 0 ? speed : 0;
}

/* Insert before those of slower interfaces. If there are too many, the last one is dropped. */
static void insert_path(const struct nxr_tcp_path *path, const char *name, long speed)
{
    struct nxr_tcp_address *address = &nxr_tcp.address;
    unsigned at = address->n_paths, last;

    while (at > 0 && speed_of(nxr_tcp.names[at - 1]) < speed) {
        at--;
    }
    if (at == NXR_TCP_MAX_PATHS) {
        return;
    }
    last = address->n_paths < NXR_TCP_MAX_PATHS ? address->n_paths++ : NXR_TCP_MAX_PATHS - 1;
    for (; last > at; last--) {
        address->paths[last] = address->paths[last - 1];
        memcpy(nxr_tcp.names[last], nxr_tcp.names[last - 1], sizeof(nxr_tcp.names[0]));
    }
    address->paths[at] = *path;
    snprintf(nxr_tcp.names[at], sizeof(nxr_tcp.names[0]), "%s", name);
}

static enum nxr_extent tcp_interfaces_extent_of(const struct ifaddrs *entry)
{
    return (entry->ifa_flags & IFF_LOOPBACK) != 0 ? NXR_EXTENT_PROCESSES
                                                  : nxr_interface_extent(entry->ifa_name);
}

static void add_paths(const struct ifaddrs *list, enum nxr_extent extent)
{
    bool has_names = nxr_tcp.core->devices[0] != '\0';

    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        struct nxr_tcp_path path;

        if (entry->ifa_addr != NULL && (entry->ifa_flags & IFF_UP) != 0 &&
            (entry->ifa_flags & IFF_RUNNING) != 0 &&
            (!has_names || tcp_interfaces_is_named(entry->ifa_name)) &&
            tcp_interfaces_extent_of(entry) == extent && make_path(entry, &path)) {
            insert_path(&path, entry->ifa_name, speed_of(entry->ifa_name));
        }
    }
}

int nxr_tcp_find_paths(char *why, size_t why_nbytes)
{
    const char *devices = nxr_tcp.core->devices;
    struct ifaddrs *list;

    if (getifaddrs(&list) != 0) {
        snprintf(why, why_nbytes, "cannot list the network interfaces: %s", strerror(errno));
        return NIXL_E_TRANSPORT;
    }
    add_paths(list, NXR_EXTENT_HOSTS);
    if (nxr_tcp.address.n_paths == 0 || devices[0] != '\0') {
        add_paths(list, NXR_EXTENT_HOST);
    }
    if (nxr_tcp.address.n_paths == 0 || devices[0] != '\0') {
        add_paths(list, NXR_EXTENT_PROCESSES);
    }
    freeifaddrs(list);
    if (nxr_tcp.address.n_paths > 0) {
        return NIXL_OK;
    }
    if (devices[0] != '\0') {
        snprintf(why, why_nbytes,
                 "no interface that NIXLRUN_NET_DEVICES=%.100s names is up and has an address",
                 devices);
    } else {
        snprintf(why, why_nbytes, "no interface is up and has an address");
    }
    return NIXL_E_NO_DEVICE;
}

socklen_t nxr_tcp_sockaddr(const struct nxr_tcp_path *path, struct sockaddr_storage *name)
{
    memset(name, 0, sizeof(*name));
    if (path->family == 4) {
        struct sockaddr_in *four = (struct sockaddr_in *)name;

        four->sin_family = AF_INET;
        four->sin_port = htons(path->port);
        memcpy(&four->sin_addr, path->ip, 4);
        return sizeof(*four);
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)name;

    six->sin6_family = AF_INET6;
    six->sin6_port = htons(path->port);
    memcpy(&six->sin6_addr, path->ip, 16);
    return sizeof(*six);
}

static bool is_at(const struct nxr_tcp_path *path, const struct sockaddr_storage *name)
{
    const void *ip = path->family == 4
                         ? (const void *)&((const struct sockaddr_in *)(const void *)name)->sin_addr
                         : &((const struct sockaddr_in6 *)(const void *)name)->sin6_addr;

    return name->ss_family == (path->family == 4 ? AF_INET : AF_INET6) &&
           memcmp(path->ip, ip, path->family == 4 ? 4 : 16) == 0;
}

static int path_at(const struct nxr_tcp_address *address, const struct sockaddr_storage *name)
{
    for (unsigned i = 0; i < address->n_paths; i++) {
        if (is_at(&address->paths[i], name)) {
            return (int)i;
        }
    }
    return -1;
}

int nxr_tcp_own_path(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t nbytes = sizeof(name);

    return getsockname(fd, (struct sockaddr *)&name, &nbytes) == 0
               ? path_at(&nxr_tcp.address, &name)
               : -1;
}

int nxr_tcp_other_path(int fd, const struct nxr_tcp_address *theirs)
{
    struct sockaddr_storage name = {0};
    socklen_t nbytes = sizeof(name);

    return getpeername(fd, (struct sockaddr *)&name, &nbytes) == 0 ? path_at(theirs, &name) : -1;
}

void nxr_tcp_name_of_source(int fd, char *name, size_t name_nbytes)
{
    int path = nxr_tcp_own_path(fd);

    snprintf(name, name_nbytes, "%s", path >= 0 ? nxr_tcp.names[path] : "");
}

void nxr_tcp_ends_text(int fd, char *text, size_t text_nbytes)
{
    struct sockaddr_storage name = {0};
    socklen_t nbytes = sizeof(name);
    char own[64] = "?", other[64] = "?";

    if (getsockname(fd, (struct sockaddr *)&name, &nbytes) == 0) {
        nxr_sockaddr_text((struct sockaddr *)&name, nbytes, own, sizeof(own));
    }
    nbytes = sizeof(name);
    if (getpeername(fd, (struct sockaddr *)&name, &nbytes) == 0) {
        nxr_sockaddr_text((struct sockaddr *)&name, nbytes, other, sizeof(other));
    }
    snprintf(text, text_nbytes, "%s to %s", own, other);
}

void nxr_tcp_path_text(const struct nxr_tcp_path *path, char *text, size_t text_nbytes)
{
    char ip[INET6_ADDRSTRLEN] = "?";

    inet_ntop(path->family == 4 ? AF_INET : AF_INET6, path->ip, ip, sizeof(ip));
    snprintf(text, text_nbytes, "%s/%u", ip, path->prefix_nbits);
}
