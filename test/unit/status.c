/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, their texts, the last failure of a thread, and errno's translation. */
#include "util/status.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

static const struct {
    const char *name;
    int status;
} statuses[] = {
#define ENTRY(_name, _value, _text) {#_name, NIXL_##_name},
    NIXL_STATUS_LIST(ENTRY)
#undef ENTRY
};
#define N_STATUSES ((int)(sizeof(statuses) / sizeof(statuses[0])))

TestSuite(status, .timeout = 120);

Test(status, values_are_pinned)
{
    cr_expect(eq(int, NIXL_OK, 0));
    cr_expect(eq(int, NIXL_INPROGRESS, 1));
    cr_expect(eq(int, NIXL_E_INVALID_ARG, -1));
    cr_expect(eq(int, NIXL_E_STALE, -7));
    cr_expect(eq(int, NIXL_E_TIMEOUT, -10));
    cr_expect(eq(int, NIXL_E_PEER_LOST, -16));
    cr_expect(eq(int, NIXL_E_INTERNAL, -19));
    cr_expect(eq(int, NIXL_E_EXPIRED, -20));
    cr_expect(eq(int, NIXL_E_ACCESS, -21));
    cr_expect(eq(int, NIXL_E_STORAGE, -22));
    cr_expect(eq(int, N_STATUSES, 24));
    for (int i = 2; i < N_STATUSES; i++) {
        cr_expect(eq(int, statuses[i].status, 1 - i), "%s", statuses[i].name);
    }
}

Test(status, every_status_has_a_text_of_its_own)
{
    for (int i = 0; i < N_STATUSES; i++) {
        cr_expect(gt(sz, strlen(nixl_strerror(statuses[i].status)), 0));
        for (int j = 0; j < i; j++) {
            cr_expect_str_neq(nixl_strerror(statuses[i].status), nixl_strerror(statuses[j].status));
        }
    }
}

Test(status, other_values_have_a_text_too)
{
    static const int cases[] = {2, -23, 12345, INT_MAX, INT_MIN};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect_str_eq(nixl_strerror(cases[i]), "unknown status");
    }
}

Test(status, there_is_no_failure_at_first)
{
    const struct nixl_error *error = nixl_last_error();

    cr_expect(eq(sz, error->struct_nbytes, sizeof(*error)));
    cr_expect(eq(int, error->status, NIXL_OK));
    cr_expect(eq(int, error->rank, -1));
    cr_expect_str_eq(error->operation, "");
    cr_expect_str_eq(error->transport, "");
    cr_expect_str_eq(error->text, "");
}

static void *fail_in_a_thread(void *arg)
{
    (void)arg;
    cr_expect(eq(int, nixl_last_error()->status, NIXL_OK), "a new thread has no failure");
    nxr_fail(NIXL_E_RANGE, "nixl_get", 1, "self", 0, "of the other thread");
    return NULL;
}

Test(status, the_last_failure_is_the_threads_own)
{
    const struct nixl_error *error;
    pthread_t thread;

    errno = ENOENT;
    cr_expect(eq(int, nxr_fail(NIXL_E_STALE, "nixl_put", 7, "shm", EPERM, "region %s", "kv"),
                 NIXL_E_STALE));
    cr_expect(eq(int, errno, ENOENT), "errno is kept");
    pthread_create(&thread, NULL, fail_in_a_thread, NULL);
    pthread_join(thread, NULL);
    error = nixl_last_error();
    cr_expect(eq(int, error->status, NIXL_E_STALE));
    cr_expect(eq(int, error->rank, 7));
    cr_expect(eq(int, error->native_code, EPERM));
    cr_expect_str_eq(error->operation, "nixl_put");
    cr_expect_str_eq(error->transport, "shm");
    cr_expect_str_eq(error->text, "region kv");
}

Test(status, a_long_detail_is_cut)
{
    char words[4096];

    memset(words, 'w', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    nxr_fail(NIXL_E_INTERNAL, "nixl_put", -1, "", 0, "%s", words);
    cr_expect(lt(sz, strlen(nixl_last_error()->text), 1024));
    cr_expect(gt(sz, strlen(nixl_last_error()->text), 100));
}

Test(status, a_detail_is_one_line)
{
    nxr_fail(NIXL_E_NOT_FOUND, "nixl_put", -1, "", 0, "region '%s'", "of two\nlines");
    cr_expect_str_eq(nixl_last_error()->text, "region 'of two lines'");
}

Test(status, errno_is_translated)
{
    cr_expect(eq(int, nxr_status_of_errno(0), NIXL_OK));
    cr_expect(eq(int, nxr_status_of_errno(ENOMEM), NIXL_E_NO_MEMORY));
    cr_expect(eq(int, nxr_status_of_errno(ENOSPC), NIXL_E_NO_MEMORY));
    cr_expect(eq(int, nxr_status_of_errno(EMFILE), NIXL_E_LIMIT));
    cr_expect(eq(int, nxr_status_of_errno(EPERM), NIXL_E_UNSUPPORTED));
    cr_expect(eq(int, nxr_status_of_errno(ESRCH), NIXL_E_PEER_LOST));
    cr_expect(eq(int, nxr_status_of_errno(ECONNRESET), NIXL_E_PEER_LOST));
    cr_expect(eq(int, nxr_status_of_errno(ETIMEDOUT), NIXL_E_TIMEOUT));
    cr_expect(eq(int, nxr_status_of_errno(EINVAL), NIXL_E_INVALID_ARG));
    cr_expect(eq(int, nxr_status_of_errno(EIO), NIXL_E_TRANSPORT));
}

Test(status, durations_are_readable)
{
    cr_expect_str_eq(nxr_duration(0).text, "0 ns");
    cr_expect_str_eq(nxr_duration(999).text, "999 ns");
    cr_expect_str_eq(nxr_duration(1500).text, "1.5 us");
    cr_expect_str_eq(nxr_duration(20000000).text, "20 ms");
    cr_expect_str_eq(nxr_duration(2000000000).text, "2 s");
    cr_expect_str_eq(nxr_duration(61500000000).text, "61.5 s");
}

Test(status, what_is_only_tried_hides_no_failure)
{
    nxr_fail(NIXL_E_RANGE, "nixl_put", 3, "shm", 0, "%s", "the failure");
    nxr_fail_quiet_begin();
    cr_expect(eq(int, nxr_fail(NIXL_E_STALE, "nixl_signal_set", 1, "", 0, "tried"), NIXL_E_STALE));
    nxr_fail_quiet_end();
    cr_expect(eq(int, nixl_last_error()->rank, 3));
    cr_expect_str_eq(nixl_last_error()->text, "the failure");
    nxr_fail(NIXL_E_STALE, "nixl_signal_set", 1, "", 0, "recorded again");
    cr_expect(eq(int, nixl_last_error()->rank, 1));
}
