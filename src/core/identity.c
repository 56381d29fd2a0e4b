/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing, naming and encoding the identities of processes. No state, no lock. */
#include "config.h"

#include "core/identity.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- comparing ------------------------------------------------------------------------------- */

enum nxr_identity_difference nxr_identity_compare(const struct nxr_identity *expected,
                                                  const struct nxr_identity *told)
{
    if (told->job != expected->job) {
        return NXR_IDENTITY_JOB;
    }
    if (told->rank != expected->rank) {
        return NXR_IDENTITY_RANK;
    }
    if (told->incarnation == expected->incarnation) {
        return NXR_IDENTITY_SAME;
    }
    return told->incarnation < expected->incarnation ? NXR_IDENTITY_EARLIER : NXR_IDENTITY_LATER;
}

const char *nxr_identity_explain(const char *what, const struct nxr_identity *expected,
                                 const struct nxr_identity *told, uint64_t own_job,
                                 char why[NXR_IDENTITY_WHY_NBYTES])
{
    static const char *const differences[] = {
        [NXR_IDENTITY_SAME] = "no difference",
        [NXR_IDENTITY_JOB] = "another job; start processes that work together with one launcher",
        [NXR_IDENTITY_RANK] = "another rank; give each process the rank that its launcher chose",
        [NXR_IDENTITY_EARLIER] =
            "an earlier process of that rank, which has ended; ask the process "
            "that took its place",
        [NXR_IDENTITY_LATER] = "a process that was started later as that rank; it is lost until "
                               "the program readmits it (nixl_peer_readmit)",
    };
    char expected_text[NXR_IDENTITY_TEXT_NBYTES], told_text[NXR_IDENTITY_TEXT_NBYTES];

    snprintf(why, NXR_IDENTITY_WHY_NBYTES, "%s %s where %s is expected: %s", what,
             nxr_identity_text(told, own_job, told_text),
             nxr_identity_text(expected, own_job, expected_text),
             differences[nxr_identity_compare(expected, told)]);
    return why;
}

/* ---- text and bytes -------------------------------------------------------------------------- */

const char *nxr_identity_text(const struct nxr_identity *identity, uint64_t own_job,
                              char text[NXR_IDENTITY_TEXT_NBYTES])
{
    char job[24] = "", start[24] = "";

    if (identity->job != own_job) {
        snprintf(job, sizeof(job), " of job %08" PRIx32, (uint32_t)(identity->job >> 32));
    }
    if (identity->incarnation > 0) {
        snprintf(start, sizeof(start), " (restart %" PRIu32 ")", identity->incarnation);
    }
    snprintf(text, NXR_IDENTITY_TEXT_NBYTES, "rank %" PRId32 "%s%s", identity->rank, job, start);
    return text;
}

static void identity_put(unsigned char *bytes, uint64_t value, int nbytes)
{
    for (int i = 0; i < nbytes; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t identity_get(const unsigned char *bytes, int nbytes)
{
    uint64_t value = 0;

    for (int i = 0; i < nbytes; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

void nxr_identity_write(const struct nxr_identity *identity,
                        unsigned char bytes[NXR_IDENTITY_NBYTES])
{
    identity_put(bytes, (uint32_t)identity->rank, 4);
    identity_put(bytes + 4, identity->incarnation, 4);
    identity_put(bytes + 8, identity->job, 8);
}

struct nxr_identity nxr_identity_read(const unsigned char bytes[NXR_IDENTITY_NBYTES])
{
    return (struct nxr_identity){.job = identity_get(bytes + 8, 8),
                                 .rank = (int32_t)identity_get(bytes, 4),
                                 .incarnation = (uint32_t)identity_get(bytes + 4, 4)};
}
