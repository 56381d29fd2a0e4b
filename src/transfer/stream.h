/* SPDX-License-Identifier: Apache-2.0 */
/* Leaving the library while streams of the user's are to raise signals. */
#ifndef NXR_TRANSFER_STREAM_H
#define NXR_TRANSFER_STREAM_H

/* From now on they touch nothing of the library. */
void nxr_stream_leave(void);

#endif
