/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is anybody there? Over TCP libfabric says nothing when a peer it wants to connect to is gone: it
 * asks to be called again, for ever. So we knock ourselves at the port that the peer listens at. A
 * refusal is the kernel of its host speaking: the process is gone, though the host is not. Silence
 * says nothing, and an open door is closed again at once.
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

#define KNOCK_NS    (250 * NXR_MS) /* from one to the next */
#define PATIENCE_NS (1 * NXR_S)

/* The next way to try. */
static unsigned next_way(const struct nxr_net_ep *ep)
{
    unsigned way = ep->knock_way;

    do {
        way = (way + 1) % nxr_ofi.n_rails;
    } while (ep->ways[way].theirs < 0);
    return way;
}

static void ofi_knock_start(struct nxr_net_ep *ep)
{
    const struct nxr_ofi_rail *rail;
    struct sockaddr_storage name = {0};

    ep->knock_way = next_way(ep);
    rail = &nxr_ofi.rails[ep->knock_way];
    memcpy(&name, ep->address.rails[ep->ways[ep->knock_way].theirs].name, NXR_OFI_NAME_NBYTES);
    ep->knock_fd = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ep->knock_fd >= 0) {
        (void)connect(ep->knock_fd, (const struct sockaddr *)&name, (socklen_t)rail->name_nbytes);
        ep->is_knocking = true;
        ep->knock_at = nxr_ofi.now;
    }
}

void nxr_ofi_knock_end(struct nxr_net_ep *ep)
{
    if (ep->is_knocking) {
        close(ep->knock_fd);
    }
    ep->is_knocking = false;
}

/*
 * A refusal may also be a rail that is being opened again: it counts when they all refuse, twice.
 */
bool nxr_ofi_knock(struct nxr_net_ep *ep)
{
    struct pollfd event = {.fd = ep->knock_fd, .events = POLLOUT};
    socklen_t nbytes = sizeof(int);
    int error = 0;

    if (!nxr_ofi.rails[0].is_software) {
        return false;
    }
    if (!ep->is_knocking) {
        if (nxr_ofi.now >= ep->knock_at + KNOCK_NS) {
            ofi_knock_start(ep);
        }
        return false;
    }
    if (poll(&event, 1, 0) > 0) {
        getsockopt(ep->knock_fd, SOL_SOCKET, SO_ERROR, &error, &nbytes);
        ep->ways[ep->knock_way].knock_error = error != 0 ? error : NXR_OFI_TAKEN;
        ep->n_refused = error == ECONNREFUSED ? ep->n_refused + 1 : 0;
        nxr_ofi_knock_end(ep);
    } else if (nxr_ofi.now >= ep->knock_at + PATIENCE_NS) {
        if (ep->ways[ep->knock_way].knock_error == 0) {
            ep->ways[ep->knock_way].knock_error = ETIMEDOUT; /* says less than what came before */
        }
        nxr_ofi_knock_end(ep);
    }
    return ep->n_refused >= 2 * nxr_ofi.n_rails;
}
