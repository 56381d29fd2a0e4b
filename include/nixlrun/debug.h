/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/debug.h
 * Shows what this rank does. nixlrun ps -w shows it from outside, of all ranks: nixlrun-observe(7).
 */
#ifndef NIXLRUN_DEBUG_H
#define NIXLRUN_DEBUG_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Write to a descriptor what this rank waits for, as lines of text: who it is, each thread that
 * sleeps in a call, with the rank, tag, word, region, channel or team that it waits for and since
 * when, while one does so for 50 ms or more what is queued unmatched and what is under way, and the
 * peers that are lost. Meant for people; the form may change.
 *
 * Takes no lock and allocates no memory, so it may be called in a signal handler, by a watchdog
 * thread, or by a debugger, whatever the other threads do. May block as write(2) does.
 * Threads: any.
 *
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG  @p fd cannot be written to
 * @return NIXL_E_TRANSPORT    it was not all written: the disk is full, or the reader is gone
 */
NIXL_API int nixl_debug_dump(int fd) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_DEBUG_H */
