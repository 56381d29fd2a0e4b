/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for, in words: from a record that another process may have written. */
#ifndef NXR_UTIL_WAIT_TEXT_H
#define NXR_UTIL_WAIT_TEXT_H

#include "util/observe.h"

#define NXR_WAIT_TEXT_NBYTES 320

/*
 * "waits in nixl_notify_recv for tag 42 from rank 1"; `size`: of the job, whose ranks are named as
 * such. Returns `text`.
 */
const char *nxr_wait_text(const struct nxr_wait_record *record, int size,
                          char text[NXR_WAIT_TEXT_NBYTES]);

/* "tag 41 from rank 1, 8 bytes, and 3 more"; "" if there are none. Returns `text`. */
const char *nxr_wait_notes_text(const struct nxr_wait_notes *notes, int size,
                                char text[NXR_WAIT_TEXT_NBYTES]);

/* "3 to rank 1, 1 to rank 4"; "" if there are none. Returns `text`. */
const char *nxr_wait_flights_text(const struct nxr_wait_flights *flights, int size,
                                  char text[NXR_WAIT_TEXT_NBYTES]);

/* A copy of the wait that can be trusted to have ends of texts and a known kind. */
struct nxr_wait_record nxr_wait_checked(const struct nxr_wait_record *record);

#endif
