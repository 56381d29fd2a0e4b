/* SPDX-License-Identifier: Apache-2.0 */
/* Identities of processes: what distinguishes two of them, their names, and their bytes. */
#include "config.h"

#include "core/identity.h"

#include "test/unit/unit.h"
#include <limits.h>
#include <stdio.h>

#define JOB UINT64_C(0x7f3a0c5212345678)

static const struct nxr_identity expected = {.job = JOB, .rank = 3, .incarnation = 1};

TestSuite(identity, .timeout = 120);

static enum nxr_identity_difference compare(uint64_t job, int rank, uint32_t incarnation)
{
    const struct nxr_identity told = {job, rank, incarnation};
    enum nxr_identity_difference difference = nxr_identity_compare(&expected, &told);

    cr_expect_eq(nxr_identity_is(&expected, &told), difference == NXR_IDENTITY_SAME);
    cr_expect_eq(nxr_identity_is(&told, &expected), difference == NXR_IDENTITY_SAME);
    return difference;
}

Test(identity, the_first_difference_is_named)
{
    cr_expect_eq(compare(JOB, 3, 1), NXR_IDENTITY_SAME);
    cr_expect_eq(compare(JOB + 1, 3, 1), NXR_IDENTITY_JOB);
    cr_expect_eq(compare(JOB ^ UINT64_C(1) << 63, 2, 0), NXR_IDENTITY_JOB);
    cr_expect_eq(compare(JOB, 2, 1), NXR_IDENTITY_RANK);
    cr_expect_eq(compare(JOB, -3, 0), NXR_IDENTITY_RANK);
    cr_expect_eq(compare(JOB, 3, 0), NXR_IDENTITY_EARLIER);
    cr_expect_eq(compare(JOB, 3, 2), NXR_IDENTITY_LATER);
    cr_expect_eq(compare(JOB, 3, UINT32_MAX), NXR_IDENTITY_LATER);
}

static void is_named(uint64_t job, int rank, uint32_t incarnation, const char *name)
{
    const struct nxr_identity identity = {job, rank, incarnation};
    char text[NXR_IDENTITY_TEXT_NBYTES];

    cr_expect_str_eq(nxr_identity_text(&identity, JOB, text), name);
}

Test(identity, names)
{
    is_named(JOB, 3, 0, "rank 3");
    is_named(JOB, 3, 1, "rank 3 (restart 1)");
    is_named(0, 0, 0, "rank 0 of job 00000000");
    is_named(~JOB, 3, 0, "rank 3 of job 80c5f3ad");
    is_named(~JOB, INT_MIN, UINT32_MAX, "rank -2147483648 of job 80c5f3ad (restart 4294967295)");
}

static void is_explained(uint64_t job, int rank, uint32_t incarnation, const char *begin)
{
    const struct nxr_identity told = {job, rank, incarnation};
    char why[NXR_IDENTITY_WHY_NBYTES];

    cr_expect_eq(strncmp(nxr_identity_explain("a message of", &expected, &told, JOB, why), begin,
                         strlen(begin)),
                 0, "%s", why);
    cr_expect(strchr(why, ';') != NULL, "%s: it says what to do", why);
}

Test(identity, a_difference_is_explained)
{
    is_explained(
        ~JOB, 3, 1,
        "a message of rank 3 of job 80c5f3ad (restart 1) where rank 3 (restart 1) is expected: "
        "another job; ");
    is_explained(
        JOB, 2, 1,
        "a message of rank 2 (restart 1) where rank 3 (restart 1) is expected: another rank; ");
    is_explained(JOB, 3, 0,
                 "a message of rank 3 where rank 3 (restart 1) is expected: an earlier process of "
                 "that rank, "
                 "which has ended; ");
    is_explained(
        JOB, 3, 2,
        "a message of rank 3 (restart 2) where rank 3 (restart 1) is expected: a process that was "
        "started later as that rank; ");
}

/* The longest text fits. */
Test(identity, an_explanation_is_not_cut)
{
    const struct nxr_identity low = {1, INT_MIN, UINT32_MAX - 1}, high = {1, INT_MIN, UINT32_MAX};
    const struct nxr_identity other = {2, INT_MIN, UINT32_MAX};
    char why[NXR_IDENTITY_WHY_NBYTES];

    cr_expect_lt(strlen(nxr_identity_explain("a message of", &low, &high, 0, why)),
                 sizeof(why) - 1);
    cr_expect_lt(strlen(nxr_identity_explain("a message of", &high, &low, 0, why)),
                 sizeof(why) - 1);
    cr_expect_lt(strlen(nxr_identity_explain("a message of", &other, &low, 0, why)),
                 sizeof(why) - 1);
}

/* Tokens of other versions have them, too: they never change. */
Test(identity, its_bytes_are_fixed)
{
    static const struct nxr_identity example = {UINT64_C(0x0123456789abcdef), 3, 0xfffffffe};
    static const unsigned char right[NXR_IDENTITY_NBYTES] = {
        3, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    unsigned char bytes[NXR_IDENTITY_NBYTES];

    nxr_identity_write(&example, bytes);
    cr_expect_eq(memcmp(bytes, right, sizeof(right)), 0);
}

Test(identity, what_is_written_is_read)
{
    const struct nxr_identity all[] = {
        {0, 0, 0}, expected, {UINT64_MAX, INT_MAX, UINT32_MAX}, {1, INT_MIN, 1}, {1, -1, 0}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        unsigned char bytes[NXR_IDENTITY_NBYTES];
        struct nxr_identity read;

        nxr_identity_write(&all[i], bytes);
        read = nxr_identity_read(bytes);
        cr_expect(nxr_identity_is(&all[i], &read), "%zu", i);
    }
}
