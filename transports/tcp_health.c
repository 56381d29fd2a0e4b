/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of a connection on which nothing is heard: does what was sent arrive at the
 * other host? This distinguishes a host that is gone, a process that does not run, and a network
 * that carries short packets but loses long ones. No state.
 */
#include "config.h"

#include "tcp_health.h"

#include "reason.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/tcp.h> /* has more of the structure than netinet/tcp.h */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_LIMIT_US 500000

#define ESTABLISHED 1 /* of tcpi_state; its name is in netinet/tcp.h, which excludes linux/tcp.h */

/* Sent bytes that the other host has not acknowledged; computed so that it survives a reset. */
static int64_t unheard_nbytes(const struct tcp_info *info)
{
    return (int64_t)(info->tcpi_bytes_sent - info->tcpi_bytes_retrans - info->tcpi_bytes_acked);
}

bool nxr_tcp_health(int fd, char *line, size_t line_nbytes)
{
    struct tcp_info info = {0};
    socklen_t nbytes = sizeof(info);
    int64_t unheard;

    line[0] = '\0';
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &nbytes) != 0 ||
        nbytes < offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof(info.tcpi_bytes_retrans)) {
        return false; /* Linux before 4.19 */
    }
    unheard = unheard_nbytes(&info);
    if (unheard <= 0 || info.tcpi_retransmits == 0) {
        return unheard <= 0;
    }
    snprintf(line, line_nbytes, "%lld bytes that were sent are not acknowledged after %u tries",
             (long long)unheard, info.tcpi_retransmits);
    if (unheard >= info.tcpi_snd_mss) {
        size_t used = strlen(line);

        snprintf(line + used, line_nbytes - used,
                 ": do packets of %u bytes pass, or is an MTU on the path smaller?",
                 info.tcpi_snd_mss);
    }
    return false;
}

/*
 * Has the kernel asked the other one for room, or whether it is there, without an answer? Linux
 * answers such questions at most every 500 ms (tcp_invalid_ratelimit). Those for room begin with
 * shorter intervals, which double; so only a question counts that came later than that after the
 * one before. The kernel counts no backoff where it asks whether the other is there.
 */
static bool tcp_health_is_asking(const struct tcp_info *info)
{
    uint64_t next_us = (uint64_t)info->tcpi_rto
                       << (info->tcpi_backoff < 16 ? info->tcpi_backoff : 16);

    return info->tcpi_probes > 0 && (info->tcpi_backoff == 0 || next_us / 2 > RATE_LIMIT_US);
}

bool nxr_tcp_acked(int fd, struct nxr_tcp_acked *acked_p)
{
    struct tcp_info info = {0};
    socklen_t nbytes = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &nbytes) != 0 ||
        nbytes < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked)) {
        return false; /* Linux before 4.1 */
    }
    *acked_p =
        (struct nxr_tcp_acked){.nbytes = info.tcpi_bytes_acked,
                               .is_awaited = info.tcpi_unacked > 0 || tcp_health_is_asking(&info),
                               .round_trip_us = info.tcpi_rtt};
    return true;
}

int64_t nxr_tcp_silent_ms(int fd)
{
    struct tcp_info info = {0};
    socklen_t nbytes = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &nbytes) != 0 ||
        nbytes < offsetof(struct tcp_info, tcpi_bytes_sent) + sizeof(info.tcpi_bytes_sent) ||
        info.tcpi_state != ESTABLISHED || info.tcpi_bytes_received + info.tcpi_bytes_sent > 0) {
        return -1;
    }
    return info.tcpi_last_data_recv; /* before the first byte: since it was established */
}

/* The IP address in a socket name. Returns its size; 0: it has none. */
static size_t tcp_health_find_ip(const struct sockaddr_storage *name, const void **ip_p)
{
    const struct sockaddr_in *in = (const void *)name;
    const struct sockaddr_in6 *in6 = (const void *)name;

    if (name->ss_family == AF_INET) {
        *ip_p = &in->sin_addr;
        return sizeof(in->sin_addr);
    }
    if (name->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        *ip_p = in6->sin6_addr.s6_addr + 12;
        return sizeof(in->sin_addr);
    }
    *ip_p = &in6->sin6_addr;
    return name->ss_family == AF_INET6 ? sizeof(in6->sin6_addr) : 0;
}

/* Is it a socket whose remote address occurs in those bytes? If so, describe its remote end. */
static bool leads_to(int fd, const void *bytes, size_t nbytes, char *end, size_t end_nbytes)
{
    struct sockaddr_storage name = {0};
    socklen_t name_nbytes = sizeof(name);
    const void *ip;
    size_t ip_nbytes;

    if (getpeername(fd, (struct sockaddr *)&name, &name_nbytes) != 0) {
        return false;
    }
    ip_nbytes = tcp_health_find_ip(&name, &ip);
    if (ip_nbytes == 0 || memmem(bytes, nbytes, ip, ip_nbytes) == NULL) {
        return false;
    }
    nxr_sockaddr_text((const struct sockaddr *)&name, name_nbytes, end, end_nbytes);
    return true;
}

void nxr_tcp_health_to(const void *bytes, size_t nbytes, char *line, size_t line_nbytes)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    bool is_heard = true;
    unsigned n = 0;

    line[0] = '\0';
    while (folder != NULL && line[0] == '\0' && (entry = readdir(folder)) != NULL) {
        char end[64], text[200];
        int fd = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : -1;

        if (fd < 0 || !leads_to(fd, bytes, nbytes, end, sizeof(end))) {
            continue;
        }
        n++;
        is_heard &= nxr_tcp_health(fd, text, sizeof(text));
        if (text[0] != '\0') {
            snprintf(line, line_nbytes, "to %s: %s", end, text);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    if (line[0] == '\0' && n > 0 && is_heard) {
        snprintf(line, line_nbytes, "%s", NXR_TCP_HEARD);
    }
}
