/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Introductions at the publisher. One ends when the attacher closes it; if the two are not
 * connected by then, the attacher's number is given up. Only a limited number of attachers may
 * introduce themselves at one time; of those that have not proved themselves the slowest makes room
 * for others. Caller holds job.lock.
 */
#ifndef NXR_ATTACH_VISIT_H
#define NXR_ATTACH_VISIT_H

#include "attach/listener.h"

/* An attacher has connected. False: it is refused, and the descriptor stays the caller's. */
bool nxr_visit_begin(struct nxr_listener *listener, int fd);

/* End those at that listener who have asked for that name; NULL: for any. */
void nxr_visits_end(const struct nxr_listener *listener, const char *name);

/* End those that are too slow; free what has ended. Returns when to call again. */
int64_t nxr_visits_tick(int64_t now);

#endif
