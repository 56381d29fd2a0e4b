/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions of the contracts between folders, in builds with --enable-debug only. All sources of a
 * build must agree on that, also tests: therefore this header includes the configuration itself.
 */
#ifndef NXR_UTIL_DEBUG_H
#define NXR_UTIL_DEBUG_H

#include "config.h"

#ifdef NXR_DEBUG
#include <assert.h>
#define NXR_ASSERT(_promise) assert(_promise)
#else
#define NXR_ASSERT(_promise) ((void)0)
#endif

#endif
