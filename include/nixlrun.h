/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun.h
 * Move memory between the processes of a job, by rank.
 *
 * The contract of libnixlrun. These rules hold for every call:
 *
 * - A call that can fail returns `int`: NIXL_OK (0), NIXL_INPROGRESS (1) or a negative NIXL_E_*.
 *   nixl_last_error() gives the detail of the calling thread's last failure.
 * - Outputs come last, end in `_p`, and are untouched when the call fails.
 * - Timeouts are relative, in nanoseconds. NIXL_FOREVER waits without limit. With 0 the call only
 *   tests: a wait that would block returns NIXL_INPROGRESS, a start that would block returns
 *   NIXL_E_AGAIN and has no effect. A wait that runs out of time returns NIXL_E_TIMEOUT. A
 *   negative timeout is NIXL_E_INVALID_ARG.
 * - A call without a timeout argument ends within NIXLRUN_OP_TIMEOUT (60 s unless set); the first
 *   use of a peer's segment of a region waits up to NIXLRUN_RESOLVE_TIMEOUT (10 s) for its owner to
 *   publish it.
 * - Structs that the caller fills or receives start with `size_t struct_nbytes`, set by their
 *   _INIT macro, so that they can grow at their end: a program works with a library that is older
 *   or newer than the header it was compiled with. In an input, zero is the default of every
 *   field, so a zeroed struct with its size in struct_nbytes is valid; languages other than C make
 *   it so. An entry of an array takes struct_nbytes bytes, the same number in all entries. The
 *   library takes fields that the caller's struct does not have as zero, and fails with
 *   NIXL_E_UNSUPPORTED if a byte is set that it does not know. Of an output it writes at most
 *   struct_nbytes bytes, and zeroes what it does not know. A size that no version has is
 *   NIXL_E_INVALID_ARG.
 * - Every call fails with NIXL_E_NOT_INIT before nixl_init() and after the last nixl_finalize(),
 *   and with NIXL_E_FORKED in a forked child.
 * - "Threads: any" means any number of threads at once at NIXL_THREAD_MULTIPLE, the default.
 *
 * nixlrun(7) states the guarantees on order and visibility.
 *
 * The calls are declared in nixlrun/, by subject; the includes below are in reading order. Programs
 * include this file: declarations may move between the others.
 */
#ifndef NIXLRUN_H
#define NIXLRUN_H

#include <nixlrun/base.h>
#include <nixlrun/job.h>
#include <nixlrun/context.h>
#include <nixlrun/route.h>
#include <nixlrun/log.h>
#include <nixlrun/debug.h>
#include <nixlrun/region.h>
#include <nixlrun/file.h>
#include <nixlrun/object.h>
#include <nixlrun/directory.h>
#include <nixlrun/request.h>
#include <nixlrun/op.h>
#include <nixlrun/put_get.h>
#include <nixlrun/cq.h>
#include <nixlrun/notify.h>
#include <nixlrun/event.h>
#include <nixlrun/attach.h>
#include <nixlrun/xfer.h>
#include <nixlrun/type.h>
#include <nixlrun/atomic.h>
#include <nixlrun/signal.h>
#include <nixlrun/channel.h>
#include <nixlrun/pair.h>
#include <nixlrun/grant.h>
#include <nixlrun/team.h>
#include <nixlrun/collective.h>
#include <nixlrun/reduce.h>
#include <nixlrun/stats.h>

#endif /* NIXLRUN_H */
