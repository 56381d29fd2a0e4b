/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from a rank to the nixlrun-rank that stands between it and an engine: one datagram each,
 * to the abstract Unix socket that NIXLRUN_RANK_SOCKET names. The variable's value is
 * SOCKET:KEY:RANK:NAMESPACE. Messages without the key are ignored. Rank and namespace keep a
 * process of another job, which a rank may have started, from using the socket.
 */
#ifndef NXR_UTIL_RANK_MESSAGE_H
#define NXR_UTIL_RANK_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum nxr_rank_message_kind {
    NXR_RANK_JOINED,   /* nixl_init() has succeeded: nixl_finalize() must follow; with a
                          descriptor of the rank's observation page */
    NXR_RANK_LEFT,     /* the rank leaves, in nixl_finalize() or a failed nixl_init() */
    NXR_RANK_ENDS_JOB, /* end the whole job with the code `value` */
};

struct nxr_rank_message {
    uint64_t key;
    int32_t kind;
    int32_t value;
};

/*
 * If nixlrun itself is the launcher, PMIx_Job_control() carries that code instead, as an int under
 * this key.
 */
#define NXR_JOB_END_KEY "nixlrun.job.end"

#define NXR_RANK_SOCKET_FORMAT "%016llx:%016llx:%u:%s"

/* Fill in the address of the socket with this number. Returns its length. */
static inline socklen_t nxr_rank_socket_address(uint64_t name, struct sockaddr_un *address)
{
    int n;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "nixlrun-rank.%016llx",
                 (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

#endif
