/* SPDX-License-Identifier: Apache-2.0 */
/* Trying two movers: see file_trial.h. */
#include "config.h"

#include "memory/file/file_trial.h"

/* A turn ends with the first of these. */
#define ENOUGH_NBYTES ((uint64_t)16 << 20)
#define ENOUGH_OPS    64
#define ENOUGH_NS     250000000 /* with two operations */

#define BETTER 1.05 /* cuFile is taken if it is so much faster: else less of the system is used */

enum nxr_file_by nxr_file_trial_next(const struct nxr_file_trial *trial)
{
    if (!nxr_file_trial_is_over(trial)) {
        return trial->n_turns % NXR_FILE_BYS == 0 ? NXR_FILE_STAGED : NXR_FILE_BY_CUFILE;
    }
    return trial->rates[NXR_FILE_BY_CUFILE] > trial->rates[NXR_FILE_STAGED] * BETTER
               ? NXR_FILE_BY_CUFILE
               : NXR_FILE_STAGED;
}

static enum nxr_file_by other_than(enum nxr_file_by by)
{
    return by == NXR_FILE_STAGED ? NXR_FILE_BY_CUFILE : NXR_FILE_STAGED;
}

/* Count the time up to now, if they are alone. */
static void see(struct nxr_file_trial *trial, enum nxr_file_by by, int64_t now)
{
    if (trial->from_ns[by] != 0) {
        trial->busy_ns[by] += now - trial->seen_ns[by];
        trial->seen_ns[by] = now;
    }
}

void nxr_file_trial_begin(struct nxr_file_trial *trial, enum nxr_file_by by, int64_t now)
{
    enum nxr_file_by other = other_than(by);

    see(trial, other, now);
    trial->from_ns[other] = 0;
    if (trial->n_flying[by]++ == 0 && trial->n_flying[other] == 0) {
        trial->from_ns[by] = trial->seen_ns[by] = now;
    }
}

static bool is_enough(const struct nxr_file_trial *trial, enum nxr_file_by by)
{
    return trial->busy_ns[by] > 0 && trial->n_ops[by] > 0 &&
           (trial->nbytes[by] >= ENOUGH_NBYTES || trial->n_ops[by] >= ENOUGH_OPS ||
            (trial->busy_ns[by] >= ENOUGH_NS && trial->n_ops[by] > 1));
}

static void turn_end(struct nxr_file_trial *trial, enum nxr_file_by by)
{
    double rate = (double)trial->nbytes[by] / (double)trial->busy_ns[by];

    trial->rates[by] = rate > trial->rates[by] ? rate : trial->rates[by];
    trial->busy_ns[by] = 0;
    trial->nbytes[by] = 0;
    trial->n_ops[by] = 0;
    trial->n_turns++;
}

bool nxr_file_trial_end(struct nxr_file_trial *trial, enum nxr_file_by by, uint64_t nbytes,
                        int64_t now)
{
    see(trial, by, now);
    if (trial->from_ns[by] != 0) {
        trial->nbytes[by] += nbytes;
        trial->n_ops[by]++;
    } else if (trial->n_flying[other_than(by)] == 0) {
        trial->from_ns[by] = trial->seen_ns[by] = now;
    }
    if (--trial->n_flying[by] == 0) {
        trial->from_ns[by] = 0;
    }
    if (nxr_file_trial_is_over(trial) || by != nxr_file_trial_next(trial) ||
        !is_enough(trial, by)) {
        return false;
    }
    turn_end(trial, by);
    return nxr_file_trial_is_over(trial);
}
