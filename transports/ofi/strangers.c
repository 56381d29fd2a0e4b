/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers who connect to a rail's port and say nothing. libfabric's own TCP keeps such a
 * connection, and its descriptor, as long as the stranger does. Here it is reset, which libfabric
 * notices in its next progress as an error, and closes the descriptor. (A mere shutdown() it reads
 * as an end, and then may forget the descriptor: rail.c, nxr_ofi_cq_read().)
 *
 * A process of the job sends libfabric's greeting as soon as it is connected. If the network loses
 * the greeting for so long that the connection counts as a stranger's, the process finds that the
 * connection has ended, and makes a new one. The port itself and connections that are not
 * established yet are never touched.
 *
 * libfabric does not reveal its descriptors: they are found by the port, among those below the
 * lowest free one. This needs no further descriptor, so that it works when none is left, and is
 * done only after many have come into use.
 */
#include "config.h"

#include "repair.h"
#include "transports/tcp_health.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>

#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_NS   (1 * NXR_S)
#define MANY      64 /* descriptors more than when nobody was silent */
#define SILENT_MS 3000

/* The lowest descriptor that is not in use. */
static int lowest_free(void)
{
    struct rlimit limit = {0};
    int fd = fcntl(nxr_ofi.epoll_fd, F_DUPFD_CLOEXEC, 0);

    if (fd >= 0) {
        close(fd);
    } else if (getrlimit(RLIMIT_NOFILE, &limit) == 0) { /* all are in use */
        fd = limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX;
    }
    return fd;
}

/* The name of a socket of either family, or of another. */
union socket_name {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

static bool is_same_end(const union socket_name *name, const struct nxr_ofi_rail *rail)
{
    union socket_name own;

    memcpy(&own, rail->name, sizeof(own));
    if (!rail->is_ip || name->any.sa_family != own.any.sa_family ||
        name->in.sin_port != own.in.sin_port) { /* in6 has its port in the same place */
        return false;
    }
    return own.any.sa_family == AF_INET
               ? name->in.sin_addr.s_addr == own.in.sin_addr.s_addr
               : memcmp(&name->in6.sin6_addr, &own.in6.sin6_addr, sizeof(own.in6.sin6_addr)) == 0;
}

/* Does it belong to the port of a rail? */
static bool is_at_port(int fd)
{
    union socket_name name;
    socklen_t nbytes = sizeof(name);

    memset(&name, 0, sizeof(name));
    if (getsockname(fd, &name.any, &nbytes) != 0) {
        return false;
    }
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        if (is_same_end(&name, &nxr_ofi.rails[i])) {
            return true;
        }
    }
    return false;
}

struct silent_ones {
    int n_reset, n_young;
};

/* Reset the connections below that descriptor that have been silent for SILENT_MS. */
static struct silent_ones reset_silent(int end_fd)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct silent_ones found = {0, 0};

    for (int fd = 0; fd < end_fd; fd++) {
        int64_t silent_ms = is_at_port(fd) ? nxr_tcp_silent_ms(fd) : -1;

        if (silent_ms >= SILENT_MS) {
            found.n_reset += connect(fd, &nobody, sizeof(nobody)) == 0;
        } else if (silent_ms >= 0) {
            found.n_young++;
        }
    }
    return found;
}

void nxr_ofi_strangers_look(void)
{
    int lowest;

    if (nxr_ofi.now < nxr_ofi.strangers_at) {
        return;
    }
    nxr_ofi.strangers_at = nxr_ofi.now + LOOK_NS;
    lowest = lowest_free();
    nxr_ofi.n_descriptors = lowest < nxr_ofi.n_descriptors ? lowest : nxr_ofi.n_descriptors;
    if ((lowest - nxr_ofi.n_descriptors >= MANY || nxr_ofi.strangers_end > 0) &&
        nxr_ofi_is_own_tcp()) {
        /* Those that were reset leave free descriptors below those of others. */
        int end = lowest > nxr_ofi.strangers_end ? lowest : nxr_ofi.strangers_end;
        struct silent_ones found = reset_silent(end);

        nxr_ofi.strangers_end = found.n_young > 0 ? end : 0;
        nxr_ofi.n_descriptors = lowest - found.n_reset - found.n_young;
        nxr_ofi_repair_within(LOOK_NS);
    }
}
