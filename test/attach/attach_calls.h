/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call about one rank, between two attached processes that each make one of these. One pair
 * at a time: the names of regions are the same for all.
 */
#ifndef NXR_TEST_ATTACH_CALLS_H
#define NXR_TEST_ATTACH_CALLS_H

/* `rank` is the other one's number. A failed check ends the process. */
void attach_calls_visit(int rank);
void attach_calls_serve(int rank);

/*
 * A folder is one, whatever path names it; the link beside it leads there. Publishes the name by
 * several paths, says "published", waits for a line, and unpublishes from elsewhere.
 */
void attach_calls_paths(const char *where, const char *name);

#endif
