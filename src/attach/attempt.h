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
#include "etcd/etcd.h"

#include <stdio.h>

struct addrinfo;

struct nxr_attempt {
    /* What the call asks for. */
    struct nxr_where where;
    const char *name, *schema;
    int64_t deadline;

    struct nxr_etcd *etcd; /* of all attempts; NULL: none yet */

    /* Of one attempt. */
    struct nxr_entry entry;      /* of a folder */
    struct nxr_etcd_found found; /* of etcd */
    unsigned n_tried;            /* how many contacts of an entry have been tried */
    bool is_outside;             /* of a folder: the local socket has been tried */
    unsigned char secret[NXR_PROOF_SECRET_NBYTES];
    struct nxr_intro_link intro;
    struct nxr_proof_talk talk;
    struct nxr_full_card card; /* the publisher's */
    int32_t number;            /* by which it names this process */
    int32_t job_size;          /* of its job */
    char who[160];             /* the publisher, in words */

    /* Its outcome. */
    int rank;
    bool is_found; /* there is a publisher, or there was one: the time is over, not the search */
    bool is_final; /* another attempt would fail likewise */
    bool is_away;  /* etcd did not answer */
    bool is_other; /* who answered is not the process that has made the entry */
    char why[2 * NXR_DIRECTORY_WHY_NBYTES];
};

/* NIXL_OK and `rank`; or the failure, `is_found`, `is_final` and `why`. */
int nxr_attempt_once(struct nxr_attempt *attempt);

/*
 * Does the process live that has made an entry in etcd? `attempt` has the entry, the name and the
 * deadline, and the secret, which it must know. NIXL_OK: it does; NIXL_E_NOT_FOUND: it has ended;
 * NIXL_E_TIMEOUT: nobody can say.
 */
int nxr_attempt_probe(struct nxr_attempt *attempt);

/* All attempts have been made. */
void nxr_attempt_end(struct nxr_attempt *attempt);

/* Why the attempt fails. */
#define NXR_SAY(_attempt, ...) snprintf((_attempt)->why, sizeof((_attempt)->why), __VA_ARGS__)

/* It fails for good. */
static inline int nxr_attempt_refuse(struct nxr_attempt *attempt, int status)
{
    attempt->is_final = true;
    return status;
}

#endif
