/* SPDX-License-Identifier: Apache-2.0 */
/* What every engine needs: the guardian, the event loop, our standard files and signals. */
#ifndef NIXLRUN_LAUNCHER_FOUNDATION_H
#define NIXLRUN_LAUNCHER_FOUNDATION_H

#include "launcher/guardian.h"
#include "launcher/loop.h"
#include "launcher/signals.h"

#include <sys/resource.h>

/*
 * Open all of it, in the one order that works. `mask` is the one from signals_block(). Call it
 * before any thread exists. Returns 0 or -errno.
 */
int foundation_open(const sigset_t *mask, const struct signals_actions *actions);

/*
 * Raise a limit as far as we may. Only the soft one, and only ours: the guardian keeps the user's.
 * Returns what it is then; RLIM_INFINITY if there is none.
 */
rlim_t foundation_raise_limit(int resource);

/* Say that the job needs `needed` descriptors, more than the `limit`. */
void foundation_say_few_fds(int np, rlim_t needed, rlim_t limit);

#endif
