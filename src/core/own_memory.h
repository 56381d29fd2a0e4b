/* SPDX-License-Identifier: Apache-2.0 */
/* What this rank makes for the job and gives up at its end. */
#ifndef NXR_CORE_OWN_MEMORY_H
#define NXR_CORE_OWN_MEMORY_H

/* Make control page and event descriptor. NIXL_OK, or the failure of nixl_init, recorded. */
int nxr_own_memory_make(void);

/* Give all of it up, also after a failed nxr_own_memory_make(). */
void nxr_own_memory_drop(void);

#endif
