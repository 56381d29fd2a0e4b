/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side of notifications, as used by the sending side: see notify.h. */
#ifndef NXR_SYNC_INBOX_H
#define NXR_SYNC_INBOX_H

/* Move what waits in the rings to the queue, as far as NIXLRUN_NOTE_QUEUE allows. Any thread. */
void nxr_inbox_drain(void);

#endif
