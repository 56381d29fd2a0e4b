/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending messages to nixlrun-rank. A socket is opened for each message, so that the program may
 * close any descriptor. No lock: there is no state.
 */
#include "config.h"

#include "boot/rank_socket.h"
#include "core/observe.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <sys/time.h>
#include <unistd.h>

#define TELL_S 5

/* With a descriptor, unless it is -1. */
static bool rank_socket_send(uint64_t name, struct nxr_rank_message *message, int with_fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {message, sizeof(*message)};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    const struct timeval limit = {.tv_sec = TELL_S};
    struct sockaddr_un address;
    socklen_t nbytes = nxr_rank_socket_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_sent = false;

    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        header.msg_name = &address;
        header.msg_namelen = nbytes;
        if (with_fd >= 0) {
            struct cmsghdr *rights = (struct cmsghdr *)control;

            *rights = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(with_fd)),
                                       .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(rights), &with_fd, sizeof(with_fd));
            header.msg_control = control;
            header.msg_controllen = sizeof(control);
        }
        is_sent = sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)sizeof(*message);
    }
    if (!is_sent) {
        nxr_debug(BOOT, "cannot send to nixlrun-rank: %s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return is_sent;
}

/* Read the variable, if it is about this rank. */
static bool rank_socket_parse(unsigned rank, const char *nspace, unsigned long long *name,
                              unsigned long long *key)
{
    unsigned meant;
    int n = 0;

    return nxr_env.rank_socket != NULL && /* else nixl_init() has not read the environment */
           sscanf(nxr_env.rank_socket, "%16llx:%16llx:%u:%n", name, key, &meant, &n) == 3 &&
           n != 0 && meant == rank && strcmp(nxr_env.rank_socket + n, nspace) == 0;
}

bool nxr_rank_socket_is_of(unsigned rank, const char *nspace)
{
    unsigned long long name, key;

    return rank_socket_parse(rank, nspace, &name, &key);
}

bool nxr_rank_socket_send(unsigned rank, const char *nspace, enum nxr_rank_message_kind kind,
                          int value)
{
    unsigned long long name, key;

    if (!rank_socket_parse(rank, nspace, &name, &key)) {
        return false;
    }
    return rank_socket_send(
        name, &(struct nxr_rank_message){.key = key, .kind = (int32_t)kind, .value = value},
        kind == NXR_RANK_JOINED ? nxr_observe_fd() : -1);
}
