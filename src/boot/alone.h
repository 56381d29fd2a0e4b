/* SPDX-License-Identifier: Apache-2.0 */
/* A process that was started as one of several, and is alone. */
#ifndef NXR_BOOT_ALONE_H
#define NXR_BOOT_ALONE_H

/*
 * For a process without PMIx: warn once if the environment says that another launcher has started
 * several; the first of them does it for all.
 */
void nxr_alone_warn(void);

#endif
