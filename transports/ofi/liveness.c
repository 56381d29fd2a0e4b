/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the peer's process still there? Over TCP, libfabric reports nothing when a peer that it
 * wants to connect to is gone: it asks to be called again, forever. And a connection that has
 * lost packets may be silent for many seconds although the peer lives: its kernel retransmits at
 * growing intervals. So this module probes by itself: it opens a new connection, each time, to
 * the port that the peer listens on.
 *
 * A refusal comes from the peer's kernel: the process is gone, though the host is not. Silence says
 * nothing. If the connection is accepted, we send a greeting of a version that does not exist.
 * libfabric reads and refuses it in the progress of the process, and closes the connection in
 * order: so the process runs. A process that is stopped does not read, and if it has ended, its
 * kernel closes the connection by a reset, since the greeting was not read.
 */
#include "config.h"

#include "repair.h"
#include "util/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROBE_NS    (250 * NXR_MS) /* from one probe to the next */
#define PATIENCE_NS (1 * NXR_S)

/*
 * The header of libfabric's greetings (struct ofi_ctrl_hdr). Anything longer would be left partly
 * unread.
 */
#define GREETING_NBYTES 32

/* The next path to try. */
static unsigned next_path(const struct nxr_net_ep *ep)
{
    unsigned path = ep->probe_path;

    do {
        path = (path + 1) % nxr_ofi.n_rails;
    } while (ep->paths[path].theirs < 0);
    return path;
}

void nxr_ofi_liveness_end(struct nxr_net_ep *ep)
{
    if (ep->is_probing) {
        close(ep->probe_fd);
    }
    ep->is_probing = false;
}

/* There is no connection, for that reason of connect(). */
static void ofi_liveness_fail(struct nxr_net_ep *ep, int error)
{
    ep->paths[ep->probe_path].probe_error = error;
    ep->n_refused = error == ECONNREFUSED ? ep->n_refused + 1 : 0;
    nxr_ofi_liveness_end(ep);
}

static void ofi_liveness_start(struct nxr_net_ep *ep)
{
    const struct nxr_ofi_rail *rail;
    struct sockaddr_storage name = {0};

    ep->probe_path = next_path(ep);
    rail = &nxr_ofi.rails[ep->probe_path];
    memcpy(&name, ep->address.rails[ep->paths[ep->probe_path].theirs].name, NXR_OFI_NAME_NBYTES);
    ep->probe_fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ep->probe_fd >= 0) {
        const struct sockaddr *to = (const struct sockaddr *)&name;

        ep->is_probing = true;
        ep->has_entered = false;
        ep->probe_at = nxr_ofi.now;
        if (connect(ep->probe_fd, to, (socklen_t)rail->name_nbytes) != 0 && errno != EINPROGRESS) {
            ofi_liveness_fail(ep, errno); /* which the socket does not keep */
        }
    }
}

/* The connection was accepted or refused. */
static void ofi_liveness_greet(struct nxr_net_ep *ep)
{
    unsigned char greeting[GREETING_NBYTES];
    socklen_t nbytes = sizeof(int);
    int error = 0;

    getsockopt(ep->probe_fd, SOL_SOCKET, SO_ERROR, &error, &nbytes);
    if (error != 0) {
        ofi_liveness_fail(ep, error);
        return;
    }
    ep->paths[ep->probe_path].probe_error = NXR_OFI_TAKEN;
    ep->n_refused = 0;
    memset(greeting, 0xff, sizeof(greeting));
    ep->has_entered =
        send(ep->probe_fd, greeting, sizeof(greeting), MSG_NOSIGNAL) == (ssize_t)sizeof(greeting);
    if (!ep->has_entered) {
        nxr_ofi_liveness_end(ep);
    }
}

/* The connection was closed, in order or by a reset. */
static void ofi_liveness_hear(struct nxr_net_ep *ep)
{
    char byte;

    if (recv(ep->probe_fd, &byte, sizeof(byte), MSG_DONTWAIT) == 0) {
        ep->ran_at = nxr_ofi.now;
    }
    nxr_ofi_liveness_end(ep);
}

/* A refusal may also come from a rail that is being reopened: so all rails must refuse, twice. */
bool nxr_ofi_liveness_probe(struct nxr_net_ep *ep)
{
    struct pollfd event = {.fd = ep->probe_fd, .events = ep->has_entered ? POLLIN : POLLOUT};

    if (!nxr_ofi.rails[0].is_software) {
        return false;
    }
    if (!ep->is_probing) {
        if (nxr_ofi.now >= ep->probe_at + PROBE_NS) {
            ofi_liveness_start(ep);
        }
        return false;
    }
    if (poll(&event, 1, 0) > 0) {
        if (ep->has_entered) {
            ofi_liveness_hear(ep);
        } else {
            ofi_liveness_greet(ep);
        }
    } else if (nxr_ofi.now >= ep->probe_at + PATIENCE_NS) {
        if (ep->paths[ep->probe_path].probe_error == 0) {
            ep->paths[ep->probe_path].probe_error = ETIMEDOUT; /* says less than what came before */
        }
        nxr_ofi_liveness_end(ep);
    }
    return ep->n_refused >= 2 * nxr_ofi.n_rails;
}
