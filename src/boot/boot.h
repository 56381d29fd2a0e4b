/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining the job: which rank this is, and the cards of the others. Uses only the part of PMIx that
 * every engine supports (put, a collecting fence, get), with deadlines of our own, since engines
 * ignore PMIx's. Without a launcher's environment the process is a job of one rank, and nothing
 * here communicates.
 */
#ifndef NXR_BOOT_BOOT_H
#define NXR_BOOT_BOOT_H

#include "core/card.h"
#include "core/wireup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nxr_boot_info {
    struct nxr_identity self; /* its job is 0 without a launcher */
    int size;
    int n_local;     /* ranks of the job on this host, if the launcher reports it; else size */
    int local_rank;  /* this rank's index among them */
    int program;     /* index among the programs of the job; 0 if the launcher does not report it */
    bool is_alone;   /* no launcher */
    bool may_return; /* the launcher starts ranks again whose processes have failed */
};

/* Takes news of the launcher; on any thread. */
typedef void nxr_boot_event_fn(const struct nxr_wireup_event *event);

/*
 * Join. NIXL_OK; or NIXL_E_TRANSPORT, NIXL_E_TIMEOUT, or NIXL_E_UNSUPPORTED for a rank that
 * was started again, and one line in `why`.
 */
int nxr_boot_start(int64_t timeout_ns, struct nxr_boot_info *info_p, char *why, size_t why_nbytes);

/*
 * Call `event_fn` for every event from the launcher, until nxr_boot_stop(). Events since
 * nxr_boot_start() are delivered within this call.
 */
void nxr_boot_listen(nxr_boot_event_fn *event_fn);

/*
 * Publish this rank's card and wait until all living ranks have published theirs. Returns the same
 * statuses as nxr_boot_start().
 */
int nxr_boot_exchange(const struct nxr_full_card *card, int64_t timeout_ns, char *why,
                      size_t why_nbytes);

/*
 * How many ranks of this host, this one included, may run on the same cores, as the cards tell that
 * were exchanged. 1 without a launcher.
 */
int nxr_boot_count_sharing(const struct nxr_card *mine);

/* What the launcher does for ranks that have joined. */
extern const struct nxr_wireup nxr_boot_wireup;

/* Leave. Bounded by `timeout_ns`. */
void nxr_boot_stop(int64_t timeout_ns);

/*
 * Is the launcher nixlrun? It prints some messages itself, which a rank then need not repeat. False
 * once PMIx has been left.
 */
bool nxr_boot_is_nixlrun(void);

/*
 * Ask the launcher to end the job with this code. Returns if there is none, or it does not answer.
 */
void nxr_boot_abort(int exit_code, const char *why);

/*
 * Ask nixlrun, or the nixlrun-rank before this process, to end the job normally with this code.
 * False: there is neither, or it does not answer.
 */
bool nxr_boot_end_job(int exit_code);

/* Ask nixlrun to kill a rank. False: the launcher is another one, or it does not answer. */
bool nxr_boot_kill(int rank);

#endif
