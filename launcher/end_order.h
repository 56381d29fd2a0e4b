/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which children end. waitid() returns several dead children in the order in which
 * they were started, so a rank that exits because another one failed may come first.
 */
#ifndef LAUNCHER_END_ORDER_H
#define LAUNCHER_END_ORDER_H

#include <sys/types.h>

/* Watch a child. If the kernel has no pidfds, or no descriptor is left, its order is not known. */
void end_order_watch(pid_t pid);

/* The first child to end that was not returned before; 0: none. It may not be reapable yet. */
pid_t end_order_next(void);

#endif
