/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to a process of another job that this one has met, on behalf of a call. The calling
 * thread waits, and makes progress meanwhile. No state; job.lock only where the peer is made and
 * where the outcome is judged.
 */
#ifndef NXR_ATTACH_CONNECT_H
#define NXR_ATTACH_CONNECT_H

#include "attach/attach.h"

struct nxr_connecting {
    const char *who;  /* the other process in words, with... */
    const char *what; /* ... what it is, for a text about its end */
    int64_t deadline; /* of the call; INT64_MAX: NIXLRUN_RESOLVE_TIMEOUT alone limits the wait */

    /* The outcome. */
    int rank;
    const char *network; /* that reaches it; NULL: shared memory does */
    bool is_final;       /* another attempt would fail likewise */
    char why[2 * NXR_WHY_NBYTES];
};

/*
 * Make the peer of that process, connect to it, and tell the program. NIXL_OK and `rank`; or the
 * failure, `is_final` and `why`; then the peer is given up unless it was attached before.
 */
int nxr_connect_met(const struct nxr_met *met, struct nxr_connecting *connecting);

/* Is it uncertain that shared memory reaches the process of that card, so networks must be open? */
bool nxr_connect_may_need_networks(const struct nxr_card *theirs);

#endif
