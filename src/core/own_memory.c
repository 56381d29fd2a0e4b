/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this rank makes for the job and gives up at its end: its control page, which peers map, the
 * descriptor that wakes it, and what is kept of peers. No lock: only init.c calls it, while no
 * other thread is in the library.
 */
#include "config.h"

#include "core/attached.h"
#include "core/job.h"
#include "core/observe.h"
#include "core/own_memory.h"
#include "core/returned.h"
#include "core/stats.h"
#include "core/trace.h"
#include "util/status.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int nxr_own_memory_make(void)
{
    int status = nxr_control_create(&nxr_job.self, nxr_job.size, nxr_job.card.head.nonce,
                                    &nxr_job.control, &nxr_job.control_fd);
    struct nxr_card bare;

    if (status != NIXL_OK) {
        return nxr_fail(status, "nixl_init", -1, "", 0, "cannot create the rank's control page");
    }
    nxr_job.card.head.pid = getpid();
    nxr_job.card.head.control_fd = nxr_job.control_fd;
    bare = nxr_card_bare(&nxr_job.card);
    memcpy(nxr_job.control->card, &bare, sizeof(bare));
    nxr_job.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (nxr_job.event_fd < 0) {
        return nxr_fail(NIXL_E_LIMIT, "nixl_init", -1, "", errno,
                        "cannot make the descriptor that wakes this rank: eventfd: %s; `ulimit "
                        "-n` says how many a process may have",
                        strerror(errno));
    }
    return NIXL_OK;
}

void nxr_own_memory_drop(void)
{
    if (nxr_job.peers != NULL) {
        nxr_inflight_reset();
        nxr_returned_reset();
        nxr_attached_reset();
        nxr_peers_free();
    }
    if (nxr_job.event_fd >= 0) {
        close(nxr_job.event_fd);
    }
    if (nxr_job.control != NULL) {
        nxr_control_destroy(nxr_job.control, nxr_job.control_fd);
    }
    nxr_job.control = NULL;
    nxr_job.event_fd = -1;
    nxr_trace_close();
    nxr_stats_close();
    nxr_observe_close();
}
