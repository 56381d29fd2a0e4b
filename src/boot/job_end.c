/* SPDX-License-Identifier: Apache-2.0 */
/* Ending the job or one of its ranks, through the launcher if there is one. No lock, no state. */
#include "config.h"

#include "boot/boot.h"
#include "core/control.h"
#include "core/job.h"
#include "core/life.h"
#include "util/status.h"
#include "util/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
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

/*
 * Kill the process of a local peer, and no other. Its control page says that it has died or left
 * before the kernel can reuse its pid: if the page does not say so after pidfd_open(), the pidfd is
 * that process's. Returns 0 or an errno.
 */
static int job_end_kill_process(struct nxr_peer *peer)
{
    int pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0), error = 0;

    if (!nxr_life_check(peer) && atomic_load(&peer->control->life) != NXR_LIFE_FINISHED &&
        (pidfd >= 0 ? syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0)
                    : kill(peer->pid, SIGKILL)) != 0) {
        error = errno;
    }
    if (pidfd >= 0) {
        close(pidfd);
    }
    return error != ESRCH ? error : 0;
}

/* Kill a rank without the launcher, which works only on this host. */
static int job_end_kill_here(int rank)
{
    int status, error;
    struct nxr_peer *peer = nxr_peer_connected("nixl_rank_kill", rank, &status);

    if (peer == NULL) {
        return status;
    }
    if (nxr_peer_is_lost(peer)) {
        return NIXL_OK;
    }
    if (!nxr_peer_is_local(peer) || peer->pid <= 0) { /* 0 would be the group of this process */
        return nxr_fail(NIXL_E_UNSUPPORTED, "nixl_rank_kill", rank, "", 0,
                        "%s is %s, and this launcher cannot kill one rank", nxr_peer_name(peer),
                        nxr_peer_is_local(peer) ? "in a PID namespace that is not visible here"
                                                : "on another host");
    }
    error = job_end_kill_process(peer);
    return error == 0 ? NIXL_OK
                      : nxr_fail(NIXL_E_TRANSPORT, "nixl_rank_kill", rank, "", 0, "kill(%d): %s",
                                 (int)peer->pid, strerror(error));
}

int nixl_rank_kill(int rank)
{
    int status = nxr_check_ready("nixl_rank_kill");

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_own_rank(rank)) {
        return nxr_fail_own_rank("nixl_rank_kill", rank);
    }
    if (rank == nxr_job.rank) {
        raise(SIGKILL);
    }
    return nxr_boot_kill(rank) ? NIXL_OK : job_end_kill_here(rank);
}
