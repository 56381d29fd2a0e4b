/* SPDX-License-Identifier: Apache-2.0 */
/* storage/directory: names, what is opened beneath one, descriptors, what is not durable. */
#include "config.h"

#include "storage/directory/beneath.h"
#include "storage/directory/directory.h"
#include "storage/directory/opened.h"
#include "storage/directory/unsynced.h"

#include "test/unit/directory_case.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

TestSuite(directory, .init = set_up, .fini = take_down);

static void make_file(const char *name)
{
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    cr_assert(fd >= 0);
    close(fd);
}

Test(directory, names)
{
    static const char *const good[] = {"a", "a/b", "..a", "a..", ".a", "...", "a/.b/c d", "-"};
    static const char *const bad[] = {"",   "/",   "/a",   "a/",    "a//b", ".",
                                      "..", "./a", "a/..", "a/./b", "../a", ".nixlrun-1"};
    char why[200], name[300] = "";

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(nxr_beneath_is_name(good[i], why, sizeof(why)), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        cr_expect(not(nxr_beneath_is_name(bad[i], why, sizeof(why))), "%s", bad[i]);
        cr_expect(why[0] != '\0');
    }
    memset(name, 'x', 255);
    cr_expect(nxr_beneath_is_name(name, why, sizeof(why)));
    name[255] = 'x';
    cr_expect(not(nxr_beneath_is_name(name, why, sizeof(why))));
}

static int n_made;

static void made(const struct nxr_beneath_making *making, const char *path, size_t path_nbytes)
{
    (void)making;
    cr_expect(path_nbytes <= strlen(path));
    n_made++;
}

Test(directory, parents)
{
    const struct nxr_beneath_making making = {0700, made};
    const char *base = NULL;
    int fd;

    cr_expect(eq(int, nxr_beneath_parent(root, "a/b/c", NULL, &base), -ENOENT));
    fd = nxr_beneath_parent(root, "a/b/c", &making, &base);
    cr_assert(fd >= 0);
    cr_expect(eq(int, n_made, 2));
    cr_expect(eq(str, (char *)base, (char *)"c"));
    close(fd);
    fd = nxr_beneath_parent(root, "a/x/c", &making, &base);
    cr_assert(fd >= 0);
    cr_expect(eq(int, n_made, 3));
    close(fd);
    make_file("f");
    cr_expect(eq(int, nxr_beneath_parent(root, "f/b/c", &making, &base), -ENOTDIR));
    /* Nothing is made behind a link that leads out. */
    cr_assert(eq(int, symlinkat("/tmp", root, "out"), 0));
    cr_expect(eq(int, nxr_beneath_parent(root, "out/b/c", &making, &base), -EXDEV));
    cr_expect(eq(int, n_made, 3));
}

Test(directory, descriptors)
{
    struct nxr_opened_cache cache;
    struct nxr_opened *opened[3];
    static const char *const names[] = {"a", "b", "c"};
    const struct nxr_object_settings settings = {.n_descriptors = 2, .files = &nxr_storage_threads};

    nxr_opened_cache_init(&cache, root, &settings);
    for (int i = 0; i < 3; i++) { /* all are used: none can be closed */
        make_file(names[i]);
        opened[i] =
            nxr_opened_add(&cache, names[i], openat(root, names[i], O_RDONLY | O_NONBLOCK), false);
        cr_assert(opened[i] != NULL);
        cr_expect(eq(int, fcntl(opened[i]->file.fd, F_GETFL) & O_NONBLOCK, 0));
    }
    cr_expect(eq(int, (int)cache.n, 3));
    for (int i = 0; i < 3; i++) {
        nxr_opened_release(&cache, opened[i]);
    }
    cr_expect(eq(int, (int)cache.n, 2));
    cr_expect(nxr_opened_find(&cache, "a", false) == NULL);
    opened[1] = nxr_opened_find(&cache, "b", false);
    cr_assert(opened[1] != NULL);
    cr_assert(eq(int, renameat(root, "a", root, "b"), 0)); /* another file of that name */
    nxr_opened_release(&cache, opened[1]);
    cr_expect(nxr_opened_find(&cache, "b", false) == NULL);
    cr_expect(nxr_opened_find(&cache, "c", true) == NULL); /* it is open for reading */
    cr_expect(eq(int, (int)cache.n, 0));
    cr_expect(nxr_opened_add(&cache, "d", openat(root, ".", O_RDONLY), false) == NULL);
    cr_expect(eq(int, errno, EISDIR));
    nxr_opened_cache_end(&cache);
}

Test(directory, a_file_that_others_rename_is_not_written_in_place)
{
    const struct nxr_object_settings settings = {
        .n_descriptors = 2, .writes_in_place = true, .files = &nxr_storage_threads};
    struct nxr_opened_cache cache;
    struct nxr_opened *opened;

    nxr_opened_cache_init(&cache, root, &settings);
    make_file("a");
    opened = nxr_opened_add(&cache, "a", openat(root, "a", O_RDWR), true);
    cr_assert(opened != NULL);
    cr_assert(eq(int, (int)write(opened->file.fd, "x", 1), 1));
    nxr_opened_release(&cache, opened);
    opened = nxr_opened_find(&cache, "a", true);
    cr_assert(opened != NULL);
    nxr_opened_release(&cache, opened);
    cr_assert(eq(int, renameat(root, "a", root, "kept"), 0));
    cr_expect(nxr_opened_find(&cache, "a", true) == NULL);
    nxr_opened_cache_end(&cache);
}

/* Linux before 6.13 writes times of inodes by a clock that ticks. It stands still here. */
static struct timespec tick; /* 0: no */

int fstat(int fd, struct stat *stat)
{
    int outcome = fstatat(fd, "", stat, AT_EMPTY_PATH);

    if (outcome == 0 && tick.tv_sec != 0) {
        stat->st_ctim = tick;
    }
    return outcome;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock == CLOCK_REALTIME_COARSE && tick.tv_sec != 0) {
        *time = tick;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, time);
}

Test(directory, a_file_that_others_rename_at_once_is_not_read)
{
    const struct nxr_object_settings settings = {.n_descriptors = 2, .files = &nxr_storage_threads};
    struct nxr_opened_cache cache;
    struct nxr_opened *opened;

    nxr_opened_cache_init(&cache, root, &settings);
    make_file("a");
    cr_assert(eq(int, clock_gettime(CLOCK_REALTIME_COARSE, &tick), 0));
    opened = nxr_opened_add(&cache, "a", openat(root, "a", O_RDONLY), false);
    cr_assert(opened != NULL);
    nxr_opened_release(&cache, opened);
    opened = nxr_opened_find(&cache, "a", false);
    cr_assert(opened != NULL);
    nxr_opened_release(&cache, opened);
    cr_assert(eq(int, renameat(root, "a", root, "kept"), 0));
    cr_expect(nxr_opened_find(&cache, "a", false) == NULL);
    tick.tv_sec = 0;
    nxr_opened_cache_end(&cache);
}

Test(directory, a_file_that_was_changed_before_the_tick_is_not_looked_up)
{
    const struct nxr_object_settings settings = {.n_descriptors = 2, .files = &nxr_storage_threads};
    struct nxr_opened_cache cache;
    struct nxr_opened *opened;

    nxr_opened_cache_init(&cache, root, &settings);
    make_file("a");
    opened = nxr_opened_add(&cache, "a", openat(root, "a", O_RDONLY), false);
    cr_assert(opened != NULL);
    for (int i = 0; i < 10000 && !opened->is_settled; i++) {
        nxr_opened_release(&cache, opened);
        cr_assert(nxr_opened_find(&cache, "a", false) == opened);
        usleep(1000);
    }
    cr_expect(opened->is_settled);
    nxr_opened_release(&cache, opened);
    cr_assert(eq(int, renameat(root, "a", root, "kept"), 0));
    cr_expect(nxr_opened_find(&cache, "a", false) == NULL);
    nxr_opened_cache_end(&cache);
}

static struct nxr_opened_cache opened_files; /* of whoever syncs; none is open */

static void unsynced_init(struct nxr_unsynced *unsynced)
{
    const struct nxr_object_settings settings = {.n_descriptors = 2, .files = &nxr_storage_threads};

    nxr_opened_cache_init(&opened_files, root, &settings);
    nxr_unsynced_init(unsynced, &opened_files);
}

/* ---- descriptors that have run out ----------------------------------------------------------- */

static unsigned turn_before;
static atomic_int n_tries;

/* Fails until something was released. */
static int try_open(void)
{
    atomic_fetch_add(&n_tries, 1);
    return nxr_opened_turn() == turn_before ? -EMFILE : 7;
}

static void *wait_for_one(void *arg)
{
    nxr_opened_work_begin();
    *(int *)arg = NXR_OPENED_TRY(try_open());
    nxr_opened_work_end();
    return NULL;
}

Test(directory, who_wants_a_descriptor_waits_while_others_work)
{
    pthread_t thread;
    int fd = 0;

    turn_before = nxr_opened_turn();
    nxr_opened_work_begin();
    cr_assert(eq(int, pthread_create(&thread, NULL, wait_for_one, &fd), 0));
    while (atomic_load(&n_tries) == 0) {
        usleep(1000);
    }
    usleep(20000); /* most probably it waits now */
    nxr_opened_work_end();
    pthread_join(thread, NULL);
    cr_expect(eq(int, fd, 7));
    /* Nobody can release one: it fails. Nor if all who work wait, of which the last one fails. */
    turn_before = nxr_opened_turn();
    wait_for_one(&fd);
    cr_expect(eq(int, fd, -EMFILE));
    cr_expect(eq(int, nxr_opened_scarce.n_working + nxr_opened_scarce.n_waiting, 0));
    turn_before = nxr_opened_turn();
    nxr_opened_work_begin();
    cr_assert(eq(int, pthread_create(&thread, NULL, wait_for_one, &fd), 0));
    for (bool waits = false; !waits;) {
        pthread_mutex_lock(&nxr_opened_scarce.lock);
        waits = nxr_opened_scarce.n_waiting == 1;
        pthread_mutex_unlock(&nxr_opened_scarce.lock);
    }
    cr_expect(eq(int, NXR_OPENED_TRY(try_open()), -EMFILE));
    nxr_opened_work_end();
    pthread_join(thread, NULL);
    cr_expect(eq(int, fd, 7));
}

/* ---- what is not durable --------------------------------------------------------------------- */

Test(directory, unsynced)
{
    struct nxr_unsynced unsynced;
    char name[40], what[100] = "";

    unsynced_init(&unsynced);
    make_file("a");
    for (int i = 0; i < 3; i++) {
        nxr_unsynced_add_file(&unsynced, "a");
        nxr_unsynced_add_file(&unsynced, "gone");
        nxr_unsynced_add_parent(&unsynced, "a", 1);
        nxr_unsynced_add_parent(&unsynced, "b/c", 3);
    }
    cr_expect(eq(int, (int)unsynced.files.n, 2));
    cr_expect(eq(int, (int)unsynced.directories.n, 2));
    cr_expect(eq(int, nxr_unsynced_sync(&unsynced, what, sizeof(what)), 0));
    cr_expect(eq(int, (int)unsynced.files.n, 0));
    /* What cannot be opened is tried again. */
    cr_assert(eq(int, symlinkat("/dev/null", root, "out"), 0));
    nxr_unsynced_add_file(&unsynced, "out");
    cr_expect(eq(int, nxr_unsynced_sync(&unsynced, what, sizeof(what)), EXDEV));
    cr_expect(eq(str, what, (char *)"fdatasync of 'out'"));
    cr_expect(eq(int, (int)unsynced.files.n, 1));
    cr_assert(eq(int, unlinkat(root, "out", 0), 0));
    cr_expect(eq(int, nxr_unsynced_sync(&unsynced, what, sizeof(what)), 0));
    /* A directory is gone, with all in it, if others have put a file in its place. */
    nxr_unsynced_add_file(&unsynced, "a/b");
    nxr_unsynced_add_parent(&unsynced, "a/b", 3);
    cr_expect(eq(int, nxr_unsynced_sync(&unsynced, what, sizeof(what)), 0));
    /* Too many are the whole file system. */
    for (int i = 0; i < NXR_UNSYNCED_MAX + 10; i++) {
        snprintf(name, sizeof(name), "%d", i);
        nxr_unsynced_add_file(&unsynced, name);
    }
    cr_expect(unsynced.files.is_beyond);
    cr_expect(eq(int, (int)unsynced.files.n, NXR_UNSYNCED_MAX));
    cr_expect(eq(int, nxr_unsynced_sync(&unsynced, what, sizeof(what)), 0));
    cr_expect(not(unsynced.files.is_beyond));
    nxr_unsynced_end(&unsynced);
}

/* ---- what the kernel has lost ---------------------------------------------------------------- */

/* So many calls fail from now on. Then they succeed, as in the kernel, which has lost the bytes. */
static int n_bad_files, n_bad_directories, n_bad_systems;

static int told_fd = -1; /* the one descriptor that was open when they were lost */

static int sync_or_fail(int *n_p, long number, int fd)
{
    if (fd == told_fd) {
        told_fd = -1;
        *n_p = 1;
    }
    if (*n_p > 0) {
        --*n_p;
        errno = EIO;
        return -1;
    }
    return (int)syscall(number, fd);
}

int fdatasync(int fd)
{
    return sync_or_fail(&n_bad_files, SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return sync_or_fail(&n_bad_directories, SYS_fsync, fd);
}

int syncfs(int fd)
{
    return sync_or_fail(&n_bad_systems, SYS_syncfs, fd);
}

static struct nxr_unsynced lost;

/* Flush twice: the outcome stays. `text` NULL: it succeeds. */
static void expect_sync(const char *text)
{
    for (int i = 0; i < 2; i++) {
        char what[100] = "";

        cr_expect(eq(int, nxr_unsynced_sync(&lost, what, sizeof(what)), text != NULL ? EIO : 0));
        cr_expect(eq(str, what, (char *)(text != NULL ? text : "")));
    }
}

static void fail_file(const char *name)
{
    n_bad_files = 1;
    nxr_unsynced_add_file(&lost, name);
}

Test(directory, a_file_that_failed_to_sync_stays_failed)
{
    unsynced_init(&lost);
    make_file("a");
    make_file("b");
    make_file("c");
    fail_file("b");
    nxr_unsynced_add_parent(&lost, "b", 1);
    expect_sync("fdatasync of 'b'");
    cr_expect(eq(int, (int)lost.directories.n, 1)); /* a name does not go before its bytes */
    nxr_unsynced_add_file(&lost, "b");              /* written again in place */
    expect_sync("fdatasync of 'b'");
    fail_file("a"); /* what failed first is told first */
    expect_sync("fdatasync of 'b'");
    nxr_unsynced_heal(&lost, "b"); /* it was put anew */
    expect_sync("fdatasync of 'a'");
    cr_assert(eq(int, renameat(root, "c", root, "a"), 0)); /* others have replaced it */
    expect_sync(NULL);
    cr_expect(eq(int, (int)lost.directories.n, 0));
    fail_file("a");
    expect_sync("fdatasync of 'a'");
    cr_assert(eq(int, unlinkat(root, "a", 0), 0)); /* others have removed it */
    expect_sync(NULL);
    nxr_unsynced_end(&lost);
}

Test(directory, a_directory_that_failed_to_sync_stays_failed)
{
    unsynced_init(&lost);
    cr_assert(eq(int, mkdirat(root, "d", 0700), 0));
    n_bad_directories = 1;
    nxr_unsynced_add_parent(&lost, "d/a", 3);
    expect_sync("fsync of 'd'");
    nxr_unsynced_heal(&lost, "d");
    nxr_unsynced_add_parent(&lost, "d/b", 3);
    expect_sync("fsync of 'd'");
    cr_assert(eq(int, unlinkat(root, "d", AT_REMOVEDIR), 0));
    expect_sync(NULL);
    n_bad_directories = 1;
    nxr_unsynced_add_parent(&lost, "a", 1);
    expect_sync("fsync of ''");
    nxr_unsynced_end(&lost);
}

Test(directory, a_file_system_that_failed_to_sync_stays_failed)
{
    char name[40];

    unsynced_init(&lost);
    for (int i = 0; i < NXR_UNSYNCED_MAX + 1; i++) {
        snprintf(name, sizeof(name), "%d", i);
        nxr_unsynced_add_file(&lost, name);
    }
    n_bad_systems = 1;
    expect_sync("syncfs");
    nxr_unsynced_heal(&lost, "1");
    nxr_unsynced_add_file(&lost, "1");
    expect_sync("syncfs");
    nxr_unsynced_end(&lost);
}

/* Another process was told first: who opens the file only now learns nothing. */
Test(directory, a_file_that_is_open_is_synced_by_the_descriptor_that_wrote)
{
    struct nxr_opened *opened;

    unsynced_init(&lost);
    make_file("a");
    opened = nxr_opened_add(&opened_files, "a", openat(root, "a", O_RDWR | O_CLOEXEC), true);
    cr_assert(opened != NULL);
    told_fd = opened->file.fd;
    nxr_opened_release(&opened_files, opened);
    nxr_unsynced_add_file(&lost, "a");
    expect_sync("fdatasync of 'a'");
    cr_expect(eq(int, (int)nxr_opened_scarce.n_in_use, 0));
    nxr_unsynced_end(&lost);
    nxr_opened_cache_end(&opened_files);
}

/* ---- files that are being written ------------------------------------------------------------ */

/* How flock() fails: ENOSYS, as on file systems without it, or EBADF, as NFS does to readers. */
static int flock_error;

int flock(int fd, int operation)
{
    if (flock_error == ENOSYS ||
        (flock_error == EBADF && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)) {
        errno = flock_error;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static bool is_there(const char *name)
{
    return faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct nxr_object_store *store_open(void)
{
    const struct nxr_object_settings settings = {
        .path = where, .mode = 0600, .n_descriptors = 2, .files = &nxr_storage_threads};
    struct nxr_object_store *store = NULL;
    char why[200] = "";

    cr_assert(eq(int, nxr_object_directory.open(&settings, &store, why, sizeof(why)), 0), "%s",
              why);
    store->has_unnamed = false; /* as on NFS */
    return store;
}

Test(directory, only_the_rests_of_dead_writers_are_removed)
{
    static const char *const others[] = {".nixlrun-", ".nixlrun-notes", ".nixlrun-0123456789abcde",
                                         ".nixlrun-0123456789abcdef0", ".nixlrun-0123456789abcdeX"};
    struct nxr_object_store *store = store_open();
    struct nxr_unfinished unfinished;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        make_file(others[i]);
    }
    make_file(".nixlrun-0123456789abcdef");
    cr_assert(eq(int, symlinkat(".nixlrun-notes", root, ".nixlrun-aaaaaaaaaaaaaaaa"), 0));
    cr_assert(eq(int, mkfifoat(root, ".nixlrun-bbbbbbbbbbbbbbbb", 0600), 0));
    cr_assert(eq(int, nxr_unfinished_make(store, &unfinished), 0));
    flock_error = EBADF;
    nxr_unfinished_clean(root);
    cr_expect(not(is_there(".nixlrun-0123456789abcdef")));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cr_expect(is_there(others[i]), "%s", others[i]);
    }
    cr_expect(is_there(".nixlrun-aaaaaaaaaaaaaaaa"));
    cr_expect(is_there(".nixlrun-bbbbbbbbbbbbbbbb"));
    cr_expect(is_there(unfinished.name), "its writer lives");
    nxr_unfinished_drop(store, &unfinished);
    nxr_object_directory.close(store);
}

Test(directory, a_file_system_without_locks_has_unfinished_files)
{
    struct nxr_object_store *store = store_open();
    struct nxr_unfinished unfinished;

    flock_error = ENOSYS;
    cr_assert(eq(int, nxr_unfinished_make(store, &unfinished), 0));
    nxr_unfinished_clean(root);
    cr_expect(eq(int, nxr_unfinished_publish(store, &unfinished, "a"), 0));
    cr_expect(is_there("a"));
    nxr_unfinished_drop(store, &unfinished);
    nxr_object_directory.close(store);
}
