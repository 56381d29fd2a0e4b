/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pseudo-terminals for the standard output of ranks: the C library then writes each line when it is
 * complete, so that none is lost when a rank is killed. They change no byte and are no controlling
 * terminal.
 */
#ifndef NIXLRUN_LAUNCHER_PTY_H
#define NIXLRUN_LAUNCHER_PTY_H

#include <sys/ioctl.h>

/*
 * We read fds[0], which fails with EIO after the last byte; fds[1] is for the rank. Both are closed
 * on exec. Returns 0 or -errno.
 */
int pty_open(const struct winsize *size, int fds[2]);

/* The size of our own terminal; 80 x 24 if there is none. */
struct winsize pty_own_size(void);

#endif
