/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the job or one of its ranks, through the launcher if there is one. No lock, no state. */
#include "config.h"

#include "boot/boot.h"
#include "core/job.h"
#include "util/status.h"
#include "util/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void nixl_abort(int exit_code, const char *why)
{
    bool is_rank = nxr_is_joined();
    const char *reason = why != NULL ? why : "no reason given";
    struct nxr_signal_guard guard;

    exit_code = exit_code != 0 ? exit_code : 1;
    nxr_signal_guard_begin(&guard); /* stderr may be a closed pipe */
    if (!is_rank) {
        fprintf(stderr, "nixlrun: abort: %s\n", reason);
    } else if (!nxr_boot_is_nixlrun()) {
        fprintf(stderr, "nixlrun: %s on %s aborts the job: %s\n",
                nxr_identity_own_name(&nxr_job.self), nxr_job.card.head.host, reason);
    }
    nxr_signal_guard_end(&guard);
    if (is_rank) {
        nxr_boot_abort(exit_code, reason);
    }
    _exit(exit_code);
}

void nixl_job_end(int exit_code, const char *why)
{
    if (why != NULL) {
        fprintf(stderr, "nixlrun: %s ends the job with code %d: %s\n",
                nxr_identity_own_name(&nxr_job.self), exit_code & 0xff, why);
    }
    if (atomic_load(&nxr_job.state) == NXR_STATE_READY && !nxr_boot_end_job(exit_code & 0xff)) {
        nxr_boot_abort(exit_code & 0xff, why != NULL ? why : "the job is ended");
    }
    _exit(exit_code);
}

/* Kill a rank without the launcher, which works only on this host. */
static int job_end_kill_here(int rank)
{
    int status;
    const struct nxr_peer *peer = nxr_peer_connected("nixl_rank_kill", rank, &status);

    if (peer == NULL) {
        return status == NIXL_E_PEER_LOST ? NIXL_OK : status;
    }
    if (!nxr_peer_is_local(peer)) {
        return nxr_fail(NIXL_E_UNSUPPORTED, "nixl_rank_kill", rank, "", 0,
                        "%s is on another host, and this launcher cannot kill one rank",
                        nxr_peer_name(peer));
    }
    if (kill(peer->pid, SIGKILL) != 0 && errno != ESRCH) {
        return nxr_fail(NIXL_E_TRANSPORT, "nixl_rank_kill", rank, "", 0, "kill(%d): %s",
                        (int)peer->pid, strerror(errno));
    }
    return NIXL_OK;
}

int nixl_rank_kill(int rank)
{
    int status = nxr_check_ready("nixl_rank_kill");

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_own_rank(rank)) {
        return nxr_fail_rank("nixl_rank_kill", rank);
    }
    if (rank == nxr_job.rank) {
        raise(SIGKILL);
    }
    return nxr_boot_kill(rank) ? NIXL_OK : job_end_kill_here(rank);
}
