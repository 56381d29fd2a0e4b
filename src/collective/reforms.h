/* SPDX-License-Identifier: Apache-2.0 */
/* Teams that are re-formed: what the end of this process's part in the job calls. */
#ifndef NXR_COLLECTIVE_REFORMS_H
#define NXR_COLLECTIVE_REFORMS_H

/* End all that was started (last finalize). */
void nxr_reforms_stop(void);

#endif
