/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt to attach: finding the publisher, introducing this process to it, and connecting. The
 * calling thread does it all, and makes progress meanwhile. No state; job.lock only where the peer
 * is made.
 */
#ifndef NXR_ATTACH_ATTEMPT_H
#define NXR_ATTACH_ATTEMPT_H

#include "attach/directory.h"
#include "attach/introduction.h"
#include "attach/where.h"

#include <stdio.h>

struct addrinfo;

struct nxr_attempt {
    /* What the call asks for. */
    struct nxr_where where;
    const char *name, *schema;
    int64_t deadline;

    /* Of one attempt. */
    struct nxr_entry entry; /* of a folder */
    unsigned char secret[NXR_PROOF_SECRET_NBYTES];
    struct nxr_intro_link intro;
    struct nxr_proof_talk talk;
    struct nxr_full_card card; /* the publisher's */
    int32_t number;            /* by which it names this process */
    char who[160];             /* the publisher, in words */

    /* Its outcome. */
    int rank;
    bool is_found; /* there is a publisher, or there was one: the time is over, not the search */
    bool is_final; /* another attempt would fail likewise */
    char why[2 * NXR_DIRECTORY_WHY_NBYTES];
};

/* NIXL_OK and `rank`; or the failure, `is_found`, `is_final` and `why`. */
int nxr_attempt_once(struct nxr_attempt *attempt);

/* Why the attempt fails. */
#define NXR_SAY(_attempt, ...) snprintf((_attempt)->why, sizeof((_attempt)->why), __VA_ARGS__)

/* It fails for good. */
static inline int nxr_attempt_refuse(struct nxr_attempt *attempt, int status)
{
    attempt->is_final = true;
    return status;
}

#endif
