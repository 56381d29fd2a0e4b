/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank tells the nixlrun-rank that stands between it and an engine: one datagram each, to
 * the abstract Unix socket that NIXLRUN_RANK_LINK names. Its value is SOCKET:KEY:RANK:NAMESPACE:
 * whoever does not know the key is not heard, and a process of another job, which a rank may have
 * started, is not meant.
 */
#ifndef NXR_UTIL_RANK_WORD_H
#define NXR_UTIL_RANK_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum nxr_rank_word_kind {
    NXR_RANK_JOINED,   /* nixl_init() has succeeded: nixl_finalize() is to come */
    NXR_RANK_LEFT,     /* it has come */
    NXR_RANK_ENDS_JOB, /* the whole job is to end with the code `value` */
};

struct nxr_rank_word {
    uint64_t key;
    int32_t kind;
    int32_t value;
};

/* Where nixlrun is the launcher itself, the last is an int that PMIx_Job_control() takes. */
#define NXR_JOB_END_KEY "nixlrun.job.end"

#define NXR_RANK_LINK_FORMAT "%016llx:%016llx:%u:%s"

/* The address of the socket with this number. Returns its length. */
static inline socklen_t nxr_rank_link_address(uint64_t name, struct sockaddr_un *address)
{
    int n;

    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    n = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "nixlrun-rank.%016llx",
                 (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

#endif
