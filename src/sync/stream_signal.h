/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that streams of the user's raise and wait for. */
#ifndef NXR_SYNC_STREAM_SIGNAL_H
#define NXR_SYNC_STREAM_SIGNAL_H

#include "core/subsystem.h"
#include "transports/transport.h"

/*
 * Queue the change of a signal, or a wait for one, on a CUDA stream. NIXL_OK: queued; or the
 * failure, recorded.
 */
int nxr_stream_signal(const char *operation, int rank, struct nixl_region *region,
                      const struct nxr_atomic *atomic, void *stream);
int nxr_stream_wait(const char *operation, const uint64_t *word, enum nixl_compare compare,
                    uint64_t value, void *stream);

extern const struct nxr_subsystem nxr_stream_signal_subsystem;

#endif
