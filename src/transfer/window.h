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

extern const struct nxr_subsystem nxr_windows_subsystem;

#endif
