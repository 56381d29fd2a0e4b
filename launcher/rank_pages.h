/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank counts and has traced, told by the nixlrun-rank before it to nixlrun, which keeps
 * copies of these sections of the rank's observation page, and reads them as those of its own host.
 * A report of kind RANK_REPORT_PAGE has up to RANK_PAGES_PART bytes of a section; its value is the
 * section's id, and behind it stand, as text, where they lie in it, its size, its version, and the
 * bytes as hexadecimal digits. Bytes that were never sent are 0.
 *
 * Counters are sent as they change, so often that all ranks of a job together send the same however
 * many there are, and at the end; a trace is sent at the end. Nothing more comes of a rank whose
 * nixlrun-rank was killed.
 */
#ifndef NIXLRUN_LAUNCHER_RANK_PAGES_H
#define NIXLRUN_LAUNCHER_RANK_PAGES_H

#include "util/observe.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RANK_PAGES_PART 256

/* Behind the value. */
#define RANK_PAGES_FORMAT "%llu %llu %u %n"

/* Counters come each second from a job of that many ranks, half as often from twice as many. */
#define RANK_PAGES_RANKS_PER_S 64

/* ---- nixlrun-rank (rank_pages.c) ------------------------------------------------------------- */

/* Sends a part: bytes of that section from an offset on. */
typedef void rank_pages_send_fn(pid_t pid, const struct nxr_observe_section *section, size_t offset,
                                const void *bytes, size_t nbytes);

/* Send what has changed in the counters of a page, if it is time. Once per second. */
void rank_pages_look(int fd, rank_pages_send_fn *send);

/* Another page: nothing of it was sent. */
void rank_pages_forget(void);

/* Send all that nixlrun does not have: the process has ended. */
void rank_pages_end(int fd, rank_pages_send_fn *send);

/* ---- nixlrun (foreign_pages.c) --------------------------------------------------------------- */

/* A part has arrived, `text` stands behind the value. What no nixlrun-rank sends is dropped. */
void foreign_pages_take(int rank, int section, const char *text);

#endif
