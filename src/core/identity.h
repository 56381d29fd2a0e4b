/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process a rank is: its job, its rank there, and which start of that rank it is. Ranks tell
 * each other their whole identity, and whatever names a process is compared with it, so that
 * nothing of another job, of another rank or of an ended process is taken for that of a living one.
 *
 * In cards and in messages the struct is its own encoding: 16 bytes in the byte order of the
 * machine, as all records between ranks. What leaves the job, such as a token, has the bytes of
 * nxr_identity_write(). No state, no lock.
 */
#ifndef NXR_CORE_IDENTITY_H
#define NXR_CORE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nxr_identity {
    uint64_t job;         /* the same for all ranks of a job, different for another job */
    int32_t rank;         /* in its job */
    uint32_t incarnation; /* how often the rank had been started before: 0 for its first process */
};
_Static_assert(sizeof(struct nxr_identity) == 16 && offsetof(struct nxr_identity, rank) == 8 &&
                   offsetof(struct nxr_identity, incarnation) == 12,
               "fixed on the wire");

static inline bool nxr_identity_is(const struct nxr_identity *a, const struct nxr_identity *b)
{
    return a->job == b->job && a->rank == b->rank && a->incarnation == b->incarnation;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What distinguishes a process from the one that is expected; the first of these that differs. */
enum nxr_identity_difference {
    NXR_IDENTITY_SAME,
    NXR_IDENTITY_JOB,
    NXR_IDENTITY_RANK,
    NXR_IDENTITY_EARLIER, /* the same rank: a process started before the expected one */
    NXR_IDENTITY_LATER,   /* ... or after it */
};

enum nxr_identity_difference nxr_identity_compare(const struct nxr_identity *expected,
                                                  const struct nxr_identity *told);

#define NXR_IDENTITY_WHY_NBYTES 340

/*
 * Explain a difference in one line: both processes, what differs, and what the user can do.
 * `what` begins the line, for example "a message of". Returns `why`.
 */
const char *nxr_identity_explain(const char *what, const struct nxr_identity *expected,
                                 const struct nxr_identity *told, uint64_t own_job,
                                 char why[NXR_IDENTITY_WHY_NBYTES]);

/* ---- text and bytes -------------------------------------------------------------------------- */

#define NXR_IDENTITY_TEXT_NBYTES 72

/*
 * The name of a process for users: "rank 3"; "rank 3 (restart 1)" for its second start; "rank 3 of
 * job 7f3a0c52" if its job is not own_job. Returns `text`.
 */
const char *nxr_identity_text(const struct nxr_identity *identity, uint64_t own_job,
                              char text[NXR_IDENTITY_TEXT_NBYTES]);

/* The name of a process of the own job; the text lives as long as the block. */
#define nxr_identity_own_name(_identity)                                                           \
    nxr_identity_text((_identity), (_identity)->job, (char[NXR_IDENTITY_TEXT_NBYTES]){0})

#define NXR_IDENTITY_NBYTES 16

/* Rank, incarnation, job; lowest byte first. */
void nxr_identity_write(const struct nxr_identity *identity,
                        unsigned char bytes[NXR_IDENTITY_NBYTES]);

/* Reads any bytes; whether there is such a rank is the caller's to check. */
struct nxr_identity nxr_identity_read(const unsigned char bytes[NXR_IDENTITY_NBYTES]);

#endif
