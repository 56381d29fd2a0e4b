/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a file that others change at the same time. */
#include "config.h"

#include "memory/file/file.h"
#include "test/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(file_grow, .timeout = 60);

struct sizes {
    int own, other; /* two opens of one file */
};

static struct sizes open_twice(void)
{
    char path[] = "/tmp/nixlrun-file-grow-XXXXXX", link[64];
    struct sizes sizes = {.own = mkostemp(path, O_CLOEXEC)};

    cr_assert_geq(sizes.own, 0);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", sizes.own);
    sizes.other = open(link, O_RDWR | O_CLOEXEC);
    cr_assert_geq(sizes.other, 0);
    unlink(path);
    return sizes;
}

static void close_both(const struct sizes *sizes)
{
    close(sizes->own);
    close(sizes->other);
}

static off_t size_of(const struct sizes *sizes)
{
    struct stat stat;

    cr_assert_eq(fstat(sizes->own, &stat), 0);
    return stat.st_size;
}

/* As another process that is just about to set the size. */
static void hold_size(const struct sizes *sizes, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1, .l_len = 1};

    cr_assert_eq(fcntl(sizes->other, F_OFD_SETLK, &lock), 0);
}

Test(file_grow, it_becomes_longer_and_never_shorter)
{
    struct sizes sizes = open_twice();
    uint64_t before = 7;

    cr_expect_eq(nxr_file_grow(sizes.own, 4096, &before), 0);
    cr_expect_eq(before, 0);
    cr_expect_eq(size_of(&sizes), 4096);
    cr_expect_eq(nxr_file_grow(sizes.other, 100, &before), 0);
    cr_expect_eq(before, 4096);
    cr_expect_eq(size_of(&sizes), 4096);
    close_both(&sizes);
}

static void *grow(void *arg)
{
    const struct sizes *sizes = arg;
    uint64_t before = 0;

    cr_expect_eq(nxr_file_grow(sizes->own, 4096, &before), 0);
    cr_expect_eq(before, 8192, "it looked before the other one had set it");
    return NULL;
}

Test(file_grow, what_another_one_sets_meanwhile_counts)
{
    struct sizes sizes = open_twice();
    pthread_t thread;

    hold_size(&sizes, F_WRLCK);
    cr_assert_eq(pthread_create(&thread, NULL, grow, &sizes), 0);
    usleep(20000); /* it may look at the size now, if it does not wait */
    cr_assert_eq(ftruncate(sizes.other, 8192), 0);
    hold_size(&sizes, F_UNLCK);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(size_of(&sizes), 8192);
    close_both(&sizes);
}

Test(file_grow, a_holder_that_is_stopped_is_no_hang)
{
    struct sizes sizes = open_twice();
    uint64_t before = 0;

    hold_size(&sizes, F_WRLCK);
    cr_expect_eq(nxr_file_grow(sizes.own, 4096, &before), EBUSY);
    cr_expect_eq(size_of(&sizes), 0);
    close_both(&sizes);
}

Test(file_grow, it_is_cut_only_where_it_ends)
{
    struct sizes sizes = open_twice();
    uint64_t before;

    cr_assert_eq(nxr_file_grow(sizes.own, 8192, &before), 0);
    cr_expect_eq(nxr_file_cut(sizes.own, 4096, 0), 0);
    cr_expect_eq(size_of(&sizes), 8192, "another one has extended it");
    cr_expect_eq(nxr_file_cut(sizes.own, 8192, 5000), 0);
    cr_expect_eq(size_of(&sizes), 5000);
    close_both(&sizes);
}
