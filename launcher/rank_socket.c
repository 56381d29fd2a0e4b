/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of nixlrun-rank. All users of the host can see its name, but not its key. */
#include "config.h"

#include "launcher/rank_socket.h"
#include "util/random.h"

#include <stdlib.h>
#include <unistd.h>

static const char variable[] = "NIXLRUN_RANK_SOCKET";
static uint64_t key;

/* Give the program the name of the socket and the key. */
static void rank_socket_name(uint64_t name, const char *rank, const char *nspace)
{
    char value[512];

    snprintf(value, sizeof(value), NXR_RANK_SOCKET_FORMAT, (unsigned long long)name,
             (unsigned long long)key, (unsigned)strtoul(rank, NULL, 10), nspace);
    setenv(variable, value, 1);
}

int rank_socket_open(void)
{
    const char *nspace = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
    struct sockaddr_un address;
    uint64_t name;
    int fd;

    unsetenv(variable); /* of an outer job that we may be in */
    if (nspace == NULL || rank == NULL || !nxr_random(&name, sizeof(name)) ||
        !nxr_random(&key, sizeof(key))) {
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (bind(fd, (struct sockaddr *)&address, nxr_rank_socket_address(name, &address)) != 0) {
        close(fd);
        return -1;
    }
    rank_socket_name(name, rank, nspace);
    return fd;
}

/* The descriptor that came with a message; -1: none. */
static int descriptor_of(struct msghdr *header)
{
    const struct cmsghdr *control = CMSG_FIRSTHDR(header);
    int fd = -1;

    if (control != NULL && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
        control->cmsg_len == CMSG_LEN(sizeof(fd))) {
        memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    }
    return fd;
}

bool rank_socket_read(int fd, struct nxr_rank_message *message, int *sent_fd_p)
{
    while (fd >= 0) {
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        struct iovec piece = {message, sizeof(*message)};
        struct msghdr header = {.msg_iov = &piece,
                                .msg_iovlen = 1,
                                .msg_control = control,
                                .msg_controllen = sizeof(control)};
        ssize_t n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);

        if (n < 0) {
            break;
        }
        *sent_fd_p = descriptor_of(&header);
        if (n == (ssize_t)sizeof(*message) && (header.msg_flags & MSG_TRUNC) == 0 &&
            message->key == key) {
            return true;
        }
        if (*sent_fd_p >= 0) {
            close(*sent_fd_p);
        }
    }
    return false;
}
