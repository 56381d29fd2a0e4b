/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: how device memory of this rank is reached from other hosts. A window is host memory that
 * this rank has for one peer, published under a name of its own, which no user can give: so a peer
 * puts into it, and gets from it, as with any region, by whatever way its network is best at. Then
 * the peer asks for a copy between a slot of the window and the device memory.
 */
#ifndef NXR_TRANSFER_WINDOW_H
#define NXR_TRANSFER_WINDOW_H

#include "region/publish.h"

/* The window that other ranks have for `rank`. */
void nxr_window_name(int rank, char *name, size_t name_nbytes);

/* Ask the owner of a part to copy between it and a slot of the window that it has for us. */
struct nxr_window_ask {
    uint32_t slot;
    bool is_put;
    uint64_t offset;
    uint64_t nbytes;
};

/* NIXL_INPROGRESS: nxr_stage_answered() follows, unless the peer dies. Else nothing was asked. */
int nxr_window_ask(struct nxr_part *part, const struct nxr_window_ask *ask);

/* Host memory up to that many bytes goes inside of a message, without a window. */
size_t nxr_window_small(const struct nxr_part *part, enum nxr_op_kind kind);

/* The last finalize: nobody reaches the windows any more. Without job.lock. */
void nxr_windows_close(void);

extern const struct nxr_subsystem nxr_windows_subsystem;

#endif
