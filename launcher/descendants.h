/* SPDX-License-Identifier: Apache-2.0 */
/* Killing all that this process, a subreaper, has started. */
#ifndef NIXLRUN_LAUNCHER_DESCENDANTS_H
#define NIXLRUN_LAUNCHER_DESCENDANTS_H

/* Signal each child of this process. */
void descendants_signal(int signal);

/* SIGKILL all children, and theirs as they fall to us, until none is left. Reaps them. */
void descendants_kill(void);

#endif
