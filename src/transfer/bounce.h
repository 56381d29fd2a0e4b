/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's side of bounce buffers (staging_buffer.h). It runs on the service thread. */
#ifndef NXR_TRANSFER_BOUNCE_H
#define NXR_TRANSFER_BOUNCE_H

extern const struct nxr_subsystem nxr_bounce_subsystem;

#endif
