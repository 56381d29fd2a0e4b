/* SPDX-License-Identifier: Apache-2.0 */
/* A warning for a process that was started as one of several but is a job of its own. */
#ifndef NXR_BOOT_ALONE_H
#define NXR_BOOT_ALONE_H

/*
 * For a process without PMIx: warn once if the environment shows that another launcher has started
 * several. Only the first of them warns.
 */
void nxr_alone_warn(void);

#endif
