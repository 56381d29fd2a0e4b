/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel knows of a connection on which nothing is heard: does what was sent arrive at the
 * other host? It tells apart a host that is gone, a process that does not run, and a network that
 * carries short packets and loses long ones. No state.
 */
#include "config.h"

#include "connection.h"

#include <linux/tcp.h> /* has more of the structure than netinet/tcp.h */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* Sent bytes that the other host has not acknowledged; what it tells survives a reset. */
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
                 ": do packets of %u bytes pass, or is an MTU on the way smaller?",
                 info.tcpi_snd_mss);
    }
    return false;
}
