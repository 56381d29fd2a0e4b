/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that streams of the user's have yet to raise. */
#ifndef NXR_SYNC_STREAM_SIGNAL_H
#define NXR_SYNC_STREAM_SIGNAL_H

#include "core/subsystem.h"

extern const struct nxr_subsystem nxr_stream_signal_subsystem;

#endif
