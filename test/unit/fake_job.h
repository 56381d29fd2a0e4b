/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A made-up job for the tests of one folder: this process is rank 0 of 3 and has an own region; no
 * other process exists and no service thread runs. The job has the subsystems of the folder that is
 * tested and of those below it: the program's FAKE_FOLDER_... (test/unit/local.mk) says which.
 * Without one it has all of the library.
 */
#ifndef FAKE_JOB_H
#define FAKE_JOB_H

#include "core/card.h"
#include "core/job.h"
#include "region/publish.h"

#include <stdlib.h>

/* Ranks 0 to 2 of a job whose processes were all started twice. */
#define FAKE_JOB         UINT64_C(0x7f3a0c5212345678)
#define FAKE_INCARNATION 1u
enum { FAKE_SIZE = 3, FAKE_OWN_NBYTES = 256 };

struct fake_job {
    char *own; /* the own region "own" */
    struct nxr_key own_key;
    struct nxr_published *published;
};
extern struct fake_job fake_job;

/* A condition that a test itself relies on. */
static inline void fake_must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/*
 * Make the job, once for each process. Each card has an address of address_nbytes zeros in each of
 * two networks; 0: none.
 */
void fake_job_start(size_t address_nbytes);

/* Forget all other ranks and what they have sent. */
void fake_job_stop(void);

/* The card of a rank. */
const struct nxr_full_card *fake_card(int rank);

/* The rank is dead. */
void fake_lose(int rank);

#endif
