/* SPDX-License-Identifier: Apache-2.0 */
/* sendmsg and recvmsg with SCM_RIGHTS. No state, no lock. */
#include "config.h"

#include "host/packet.h"
#include "nixlrun.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct ucred nxr_packet_other_end(int socket)
{
    struct ucred cred;
    socklen_t nbytes = sizeof(cred);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &nbytes) != 0) {
        cred = (struct ucred){.uid = (uid_t)-1};
    }
    return cred;
}

int nxr_packet_other_pidfd(int socket)
{
    int pidfd;
    socklen_t nbytes = sizeof(pidfd);

    return getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &nbytes) == 0 ? pidfd : -1;
}

void nxr_packet_close_fds(const int *fds, int n_fds)
{
    for (int i = 0; i < n_fds; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

int nxr_packet_send(int socket, const void *bytes, size_t nbytes, const int *fds, int n_fds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(NXR_WIRE_MAX_FDS * sizeof(int))];
    } control;
    struct iovec iov = {(void *)bytes, nbytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds > 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, (size_t)n_fds * sizeof(int));
    }
    if (sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
        return NIXL_OK;
    }
    return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS || errno == EINTR
               ? NIXL_E_AGAIN
               : NIXL_E_PEER_LOST;
}

static void take_fds(struct msghdr *msg, struct nxr_packet *packet)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(msg); header != NULL;
         header = CMSG_NXTHDR(msg, header)) {
        size_t n_came;

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        n_came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n_came; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (packet->n_fds < NXR_PACKET_MAX_FDS) {
                packet->fds[packet->n_fds++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

/*
 * Look at the first message. It stays in the socket's queue, and its descriptors are duplicated:
 * what cannot be received whole is not lost.
 */
static ssize_t packet_peek(int socket, struct msghdr *msg)
{
    ssize_t nbytes = recvmsg(socket, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_PEEK);

    /*
     * The other end has closed the connection before it read everything; what it had sent before is
     * still here, behind this error.
     */
    if (nbytes < 0 && errno == ECONNRESET) {
        nbytes = recvmsg(socket, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_PEEK);
    }
    return nbytes;
}

/*
 * Take the message that was looked at out of the queue: all of it, and its descriptors. The other
 * end may have closed the connection meanwhile, and that error comes first.
 */
static void packet_drop(int socket)
{
    char byte;

    if (recv(socket, &byte, sizeof(byte), MSG_DONTWAIT) < 0 && errno == ECONNRESET) {
        (void)recv(socket, &byte, sizeof(byte), MSG_DONTWAIT);
    }
}

int nxr_packet_receive(int socket, struct nxr_packet *packet)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(NXR_PACKET_MAX_FDS * sizeof(int))];
    struct iovec iov = {packet->bytes, sizeof(packet->bytes)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    ssize_t nbytes = packet_peek(socket, &msg);
    bool is_cut, is_too_many;

    if (nbytes <= 0) {
        return nbytes < 0 && (errno == EAGAIN || errno == EINTR) ? NIXL_E_AGAIN : NIXL_E_PEER_LOST;
    }
    packet->nbytes = (size_t)nbytes;
    packet->n_fds = 0;
    take_fds(&msg, packet);
    is_cut = (msg.msg_flags & MSG_CTRUNC) != 0;
    is_too_many = is_cut && packet->n_fds == NXR_PACKET_MAX_FDS;
    if (is_cut) {
        nxr_packet_close_fds(packet->fds, packet->n_fds);
    }
    if (is_cut && !is_too_many) {
        return NIXL_E_LIMIT;
    }
    packet_drop(socket);
    return is_too_many ? NIXL_E_INVALID_ARG : NIXL_OK;
}
