/* SPDX-License-Identifier: Apache-2.0 */
/* The private directory of a job: where it is made, what is swept, and what a failure leaves. */
#include "config.h"

#include "launcher/tmpdir.h"

#include "test/unit/unit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[] = "/tmp/nixlrun-unit.XXXXXX";

static bool must_fail_open; /* opening the directory that was made */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    if (must_fail_open) {
        errno = EMFILE;
        return -1;
    }
    return __real_open(path, flags);
}

static void begin(void)
{
    cr_assert(mkdtemp(base) != NULL);
    setenv("XDG_RUNTIME_DIR", base, 1);
    cr_assert(tmpdir_share());
}

/* How many directories of jobs are in a place. */
static int count_in(const char *place)
{
    DIR *dir = opendir(place);
    struct dirent *entry;
    int n = 0;

    cr_assert(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        n += strncmp(entry->d_name, "nixlrun.", strlen("nixlrun.")) == 0;
    }
    closedir(dir);
    return n;
}

static void end(void)
{
    tmpdir_remove();
    rmdir(base);
}

TestSuite(tmpdir, .init = begin, .fini = end, .timeout = 60);

Test(tmpdir, it_is_made_in_the_first_place_for_its_owner_alone)
{
    const char *path = tmpdir_make();
    struct stat info;
    int fd;

    cr_assert(path != NULL);
    cr_expect_eq(strncmp(path, base, strlen(base)), 0, "%s", path);
    cr_assert_eq(stat(path, &info), 0);
    cr_expect_eq(info.st_mode & 07777, 0700);
    fd = open(path, O_RDONLY | O_DIRECTORY);
    cr_assert_geq(fd, 0);
    cr_expect_eq(flock(fd, LOCK_EX | LOCK_NB), -1, "it is locked");
    close(fd);
    tmpdir_remove();
    cr_expect_eq(count_in(base), 0);
}

/* A directory of this name with a file of that name in it; "": it is empty. */
static void leave(const char *name, mode_t mode, const char *file)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", base, name);
    cr_assert_eq(mkdir(path, mode), 0);
    if (file[0] != '\0') {
        snprintf(path, sizeof(path), "%s/%s/%s", base, name, file);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        cr_assert_geq(fd, 0);
        close(fd);
    }
}

/* Take it away again: it must be as leave() has left it. */
static void take(const char *name, const char *file)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s/%s", base, name, file);
    cr_expect(file[0] == '\0' || unlink(path) == 0, "%s: %m", path);
    snprintf(path, sizeof(path), "%s/%s", base, name);
    cr_expect_eq(rmdir(path), 0, "%s: %m", path);
}

Test(tmpdir, what_has_no_owner_is_swept)
{
    char data[PATH_MAX];
    int fd;

    leave("nixlrun.12.ab1", 0700, "nixlrun.12.ab1"); /* marked */
    snprintf(data, sizeof(data), "%s/nixlrun.12.ab1/data", base);
    cr_assert_eq(mkdir(data, 0700), 0);
    strcat(data, "/file");
    fd = open(data, O_WRONLY | O_CREAT, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    leave("nixlrun.13.ab2", 0700, ""); /* its owner died before it made the mark */
    cr_assert(tmpdir_make() != NULL);
    cr_expect_eq(count_in(base), 1, "only the new one");
}

Test(tmpdir, what_others_have_made_stays)
{
    static const struct {
        const char *name;
        mode_t mode;
        const char *file;
    } others[] = {
        {"nixlrun.results", 0755, "data"},
        {"nixlrun.left", 0700, ""},
        {"nixlrun.12", 0700, ""},
        {"nixlrun.12.ab3", 0700, "data"},           /* no mark */
        {"nixlrun.13.ab4", 0755, "nixlrun.13.ab4"}, /* we make none for other users */
        {"nixlrun.014.ab5", 0700, "nixlrun.014.ab5"},
        {"nixlrun.15.AB6", 0700, "nixlrun.15.AB6"},
        {"nixlrun.16.ab7.old", 0700, "nixlrun.16.ab7"},
        {"nixlrun.17.ab8", 0700, "nixlrun.17.ab9"}, /* the mark of another directory */
    };
    const size_t n = sizeof(others) / sizeof(others[0]);

    umask(022);
    for (size_t i = 0; i < n; i++) {
        leave(others[i].name, others[i].mode, others[i].file);
    }
    cr_assert(tmpdir_make() != NULL);
    cr_expect_eq(count_in(base), (int)n + 1);
    for (size_t i = 0; i < n; i++) {
        take(others[i].name, others[i].file);
    }
}

Test(tmpdir, one_that_cannot_be_locked_is_none_and_does_not_stay)
{
    const char *path;

    must_fail_open = true;
    path = tmpdir_make();
    must_fail_open = false;
    cr_expect(path == NULL, "%s", path);
    cr_expect_eq(count_in(base), 0);
}

/* Make directories in each other until the path has `nbytes`, or take them away again. */
static void make_deep(char *place, size_t nbytes)
{
    for (size_t used = strlen(place); used < nbytes; used = strlen(place)) {
        size_t left = nbytes - used - 1, part = left > 200 ? 100 : left;

        snprintf(place + used, PATH_MAX - used, "/%0*d", (int)part, 0);
        cr_assert_eq(mkdir(place, 0700), 0, "%s: %m", place);
    }
}

static void remove_deep(char *place)
{
    while (strlen(place) > strlen(base)) {
        cr_expect_eq(rmdir(place), 0);
        *strrchr(place, '/') = '\0';
    }
}

Test(tmpdir, where_the_name_is_too_long_the_next_place_is_taken)
{
    char place[PATH_MAX];
    const char *path;

    strcpy(place, base);
    make_deep(place, PATH_MAX - 16);
    setenv("XDG_RUNTIME_DIR", place, 1);
    path = tmpdir_make();
    cr_assert(path != NULL);
    cr_expect_neq(strncmp(path, base, strlen(base)), 0, "%s", path);
    remove_deep(place);
}
