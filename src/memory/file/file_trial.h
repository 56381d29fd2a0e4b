/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of two movers of bytes is faster, found out by the program's own operations: they go in
 * turns by the one and the other, twice, and each mover's better turn counts. Only the time counts
 * in which operations of one mover alone are under way. If some were when the last one of the other
 * ended, it counts from the end of the first of them on: so a program that keeps many under way
 * measures the same for both.
 *
 * Pure: times are given, and the caller has the lock.
 */
#ifndef NXR_MEMORY_FILE_FILE_TRIAL_H
#define NXR_MEMORY_FILE_FILE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum nxr_file_by { NXR_FILE_STAGED, NXR_FILE_BY_CUFILE, NXR_FILE_BYS };

#define NXR_FILE_TURNS 4 /* in all */

struct nxr_file_trial {
    uint32_t n_flying[NXR_FILE_BYS];
    int64_t from_ns[NXR_FILE_BYS]; /* from when on they count; 0: they do not */
    int64_t seen_ns[NXR_FILE_BYS]; /* ... and up to when that is in busy_ns */
    int64_t busy_ns[NXR_FILE_BYS]; /* of the mover's present turn, as the next two */
    uint64_t nbytes[NXR_FILE_BYS];
    uint32_t n_ops[NXR_FILE_BYS];
    double rates[NXR_FILE_BYS]; /* bytes per nanosecond, of the better turn; 0: none yet */
    uint32_t n_turns;           /* over */
};

/* By what the next operation goes; all from the end of the trial on. */
enum nxr_file_by nxr_file_trial_next(const struct nxr_file_trial *trial);

static inline bool nxr_file_trial_is_over(const struct nxr_file_trial *trial)
{
    return trial->n_turns >= NXR_FILE_TURNS;
}

/* An operation begins, by either. `now` is not 0. */
void nxr_file_trial_begin(struct nxr_file_trial *trial, enum nxr_file_by by, int64_t now);

/* It has ended; nbytes is 0 if it failed. True: the trial is over by that. */
bool nxr_file_trial_end(struct nxr_file_trial *trial, enum nxr_file_by by, uint64_t nbytes,
                        int64_t now);

#endif
