/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order children end. waitid() tells of several that have ended in the order of their
 * start, so that a rank which exits because another one has failed could be taken for the first.
 */
#ifndef LAUNCHER_END_ORDER_H
#define LAUNCHER_END_ORDER_H

#include <sys/types.h>

/* Remember when it ends; not where the kernel or the limit of descriptors forbids it. */
void end_order_watch(pid_t pid);

/* The child that ended first of those that were not told of before; 0: none. It is not reaped. */
pid_t end_order_next(void);

#endif
