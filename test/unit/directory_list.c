/* SPDX-License-Identifier: Apache-2.0 */
/* storage/directory: lists of what is beneath a directory. */
#include "storage/directory/directory.h"
#include "util/pool.h"

#include "test/unit/directory_case.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TestSuite(directory_list, .init = set_up, .fini = take_down, .timeout = 120);

static void make_file(int at, const char *name)
{
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    cr_assert(fd >= 0);
    close(fd);
}

static struct nxr_object_store listed;
static int list_error;
static char last_found[NXR_OBJECT_KEY_MAX + 1];
static sem_t was_listed;

static bool found_one(struct nxr_object_io *io, const char *key,
                      const struct nxr_object_found *found)
{
    (void)io;
    cr_expect(eq(u64, found->nbytes, 0));
    snprintf(last_found, sizeof(last_found), "%s", key);
    return true;
}

static void list_all(void *item)
{
    list_error = nxr_directory_walk(&listed, item);
    sem_post(&was_listed);
}

/* List the directory in a thread as the engine's are. */
static void expect_last(const char *name)
{
    struct nxr_pool pool = NXR_POOL_INIT(list_all, offsetof(struct nxr_object_io, next));
    struct nxr_object_io io = {.action = NXR_OBJECT_LIST, .each = found_one};
    struct timespec deadline;

    listed.root = root;
    cr_assert(eq(int, clock_gettime(CLOCK_REALTIME, &deadline), 0));
    deadline.tv_sec += 60;
    cr_assert(eq(int, sem_init(&was_listed, 0, 0), 0));
    cr_assert(eq(int, nxr_pool_start(&pool), 0));
    nxr_pool_submit(&pool, &io);
    cr_assert(eq(int, sem_timedwait(&was_listed, &deadline), 0));
    nxr_pool_stop(&pool);
    cr_expect(eq(int, list_error, 0));
    cr_expect(eq(str, last_found, (char *)name));
}

/* Whoever may write into a directory makes what others list there. */
Test(directory_list, the_deepest_names_are_listed_with_few_descriptors)
{
    struct rlimit limit, few;
    char name[NXR_OBJECT_KEY_MAX + 1] = "";
    int at = dup(root);

    for (size_t n = 0; n + 2 < NXR_OBJECT_KEY_MAX; n += 2) {
        int next;

        cr_assert(eq(int, mkdirat(at, "a", 0700), 0));
        next = openat(at, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cr_assert(next >= 0);
        close(at);
        at = next;
        strcat(name, "a/");
    }
    strcat(name, "f");
    make_file(at, "f");
    cr_assert(eq(int, mkdirat(at, "g", 0700), 0));
    make_file(at, "g/x"); /* no key is so long */
    close(at);
    expect_last(name);
    cr_assert(eq(int, getrlimit(RLIMIT_NOFILE, &limit), 0));
    few = (struct rlimit){(rlim_t)root + 20, limit.rlim_max};
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &few), 0));
    last_found[0] = '\0';
    expect_last(name);
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
}

Test(directory_list, links_to_directories_are_not_walked)
{
    cr_assert(eq(int, mkdirat(root, "a", 0700), 0));
    make_file(root, "a/f");
    cr_assert(eq(int, symlinkat("a", root, "b"), 0));
    expect_last("a/f");
}

static bool found_last(struct nxr_object_io *io, const char *key,
                       const struct nxr_object_found *found)
{
    atomic_store(io->is_canceled, true);
    return found_one(io, key, found);
}

/* A list of millions of files takes minutes, which nobody waits for whose deadline has passed. */
Test(directory_list, one_that_is_canceled_ends_at_once)
{
    atomic_bool is_canceled = false;
    struct nxr_object_io io = {
        .action = NXR_OBJECT_LIST, .each = found_last, .is_canceled = &is_canceled};

    listed.root = root;
    make_file(root, "a");
    make_file(root, "b");
    cr_expect(eq(int, nxr_directory_walk(&listed, &io), ECANCELED));
    cr_expect(eq(str, last_found, (char *)"a"));
    last_found[0] = '\0';
    cr_expect(eq(int, nxr_directory_walk(&listed, &io), ECANCELED)); /* as it reads the names */
    cr_expect(eq(str, last_found, (char *)""));
}
