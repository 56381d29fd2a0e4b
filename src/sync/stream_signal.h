/* SPDX-License-Identifier: Apache-2.0 */
/* Leaving the library while streams of the user's are to raise signals. */
#ifndef NXR_SYNC_STREAM_SIGNAL_H
#define NXR_SYNC_STREAM_SIGNAL_H

/* From now on they touch nothing of the library. */
void nxr_stream_signals_leave(void);

#endif
