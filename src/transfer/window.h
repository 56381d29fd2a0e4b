/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: how other hosts access device memory of this rank. A window is host memory that this
 * rank keeps for one peer. It is published under a name that no user can choose, so the peer puts
 * to it and gets from it like any region, by whatever method suits its network best. The peer also
 * asks this rank to copy between a slot of the window and the device memory.
 */
#ifndef NXR_TRANSFER_WINDOW_H
#define NXR_TRANSFER_WINDOW_H

#include "region/publish.h"

/* The window that other ranks have for `rank`. */
void nxr_window_name(int rank, char *name, size_t name_nbytes);

/* Ask the owner of a segment to copy between it and a slot of the window that it has for us. */
struct nxr_window_ask {
    uint32_t slot;
    bool is_put;
    uint64_t offset;
    uint64_t nbytes;
};

/*
 * NIXL_INPROGRESS: nxr_staging_answered() will be called, unless the peer dies. Other: nothing was
 * sent.
 */
int nxr_window_ask(struct nxr_segment *segment, const struct nxr_window_ask *ask);

/* The largest transfer with host memory that goes inside a message, without a window. */
size_t nxr_window_small(const struct nxr_segment *segment, enum nxr_op_kind kind);

/* The last finalize: nobody uses the windows any more. Without job.lock. */
void nxr_windows_close(void);

extern const struct nxr_subsystem nxr_windows_subsystem;

#endif
