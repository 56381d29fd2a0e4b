/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of a Unix socket: their descriptors, and what a broken connection looks like. */
#include "host/packet.h"

#include "test/unit/unit.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int dying = -1; /* this end of a connection is closed after the next look at a message */

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t nbytes = syscall(SYS_recvmsg, fd, msg, flags);

    if (dying >= 0) {
        close(dying);
        dying = -1;
    }
    return nbytes;
}

static int lowest_free_fd(void)
{
    int fd = dup(STDERR_FILENO);

    close(fd);
    return fd;
}

static void send_fds(int to, int n)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {0};
    struct iovec iov = {(char[]){'x'}, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
    struct cmsghdr *header = (struct cmsghdr *)control;

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++) {
        memcpy(CMSG_DATA(header) + (size_t)i * sizeof(int), &to, sizeof(int));
    }
    cr_assert(eq(int, (int)sendmsg(to, &msg, MSG_NOSIGNAL), 1));
}

Test(packet, descriptors_that_are_too_many_are_all_closed)
{
    struct nxr_packet packet;
    int ends[2], before;

    cr_assert(zero(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)));
    before = lowest_free_fd();
    send_fds(ends[0], NXR_PACKET_MAX_FDS);
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_OK));
    cr_expect(eq(int, packet.n_fds, NXR_PACKET_MAX_FDS));
    nxr_packet_close_fds(packet.fds, packet.n_fds);
    cr_expect(eq(int, lowest_free_fd(), before));
    send_fds(ends[0], NXR_PACKET_MAX_FDS + 3);
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, lowest_free_fd(), before), "none of them is left");
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_AGAIN));
    close(ends[0]);
    close(ends[1]);
}

Test(packet, one_for_which_no_descriptor_is_left_waits)
{
    struct nxr_packet packet;
    struct rlimit old, low;
    int ends[2], before;

    cr_assert(zero(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)));
    before = lowest_free_fd();
    send_fds(ends[0], 2);
    cr_assert(zero(int, getrlimit(RLIMIT_NOFILE, &old)));
    low = (struct rlimit){(rlim_t)before + 1, old.rlim_max};
    cr_assert(zero(int, setrlimit(RLIMIT_NOFILE, &low)));
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_LIMIT));
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_LIMIT));
    cr_assert(zero(int, setrlimit(RLIMIT_NOFILE, &old)));
    cr_expect(eq(int, lowest_free_fd(), before));
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_OK), "it is there still");
    cr_expect(eq(int, packet.n_fds, 2));
    nxr_packet_close_fds(packet.fds, packet.n_fds);
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_AGAIN));
    close(ends[0]);
    close(ends[1]);
}

Test(packet, a_broken_connection_is_no_lack_of_messages)
{
    struct nxr_packet packet;
    int ends[2], unconnected = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    cr_assert(ge(int, unconnected, 0));
    cr_assert(zero(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)));
    cr_expect(eq(int, nxr_packet_receive(unconnected, &packet), NIXL_E_PEER_LOST));
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_AGAIN));
    close(ends[0]);
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_PEER_LOST));
    close(ends[1]);
    close(unconnected);
}

Test(packet, what_was_sent_before_a_reset_is_received)
{
    struct nxr_packet packet;
    int ends[2];

    cr_assert(zero(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)));
    cr_assert(eq(int, (int)send(ends[0], "last", 4, MSG_NOSIGNAL), 4));
    cr_assert(eq(int, (int)send(ends[1], "unread", 6, MSG_NOSIGNAL), 6));
    close(ends[0]);
    cr_assert(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_OK));
    cr_expect(eq(sz, packet.nbytes, 4));
    cr_expect(zero(int, memcmp(packet.bytes, "last", 4)));
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_PEER_LOST));
    close(ends[1]);
}

Test(packet, what_was_looked_at_before_a_reset_is_received_once)
{
    struct nxr_packet packet;
    int ends[2];

    cr_assert(zero(int, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)));
    cr_assert(eq(int, (int)send(ends[0], "last", 4, MSG_NOSIGNAL), 4));
    cr_assert(eq(int, (int)send(ends[1], "unread", 6, MSG_NOSIGNAL), 6));
    dying = ends[0];
    cr_assert(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_OK));
    cr_expect(eq(sz, packet.nbytes, 4));
    cr_expect(eq(int, nxr_packet_receive(ends[1], &packet), NIXL_E_PEER_LOST));
    close(ends[1]);
}
