/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a module that takes a signal: the handlers of the program stay, of all its threads. */
#include "config.h"

#include "util/clock.h"
#include "util/env.h"
#include "util/module.h"

#include "test/unit/unit.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void (*within)(void); /* is called when the library is loaded, before dlopen() returns */
static pthread_t other;
static atomic_int other_id; /* of the thread that loads it, too */
static atomic_bool is_other_within, is_over;

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);

void *__wrap_dlopen(const char *path, int flags)
{
    void *library = __real_dlopen(path, flags);

    cr_assert(library != NULL, "%s", dlerror());
    within();
    return library;
}

/* The module is built beside this program. */
static void find_folder(void)
{
    static char folder[4096];
    char program[2048];
    ssize_t nbytes = readlink("/proc/self/exe", program, sizeof(program));

    cr_assert_gt(nbytes, 0);
    while (program[nbytes - 1] != '/') {
        nbytes--;
    }
    snprintf(folder, sizeof(folder), "%.*s.libs", (int)nbytes, program);
    nxr_env.module_dir = folder;
}

TestSuite(module, .init = find_folder, .timeout = 120);

static void handle(int number)
{
    (void)number;
}

static void install(int number)
{
    const struct sigaction action = {.sa_handler = handle};

    cr_assert_eq(sigaction(number, &action, NULL), 0);
}

static bool is_installed(int number)
{
    struct sigaction action;

    cr_assert_eq(sigaction(number, NULL, &action), 0);
    return action.sa_handler == handle;
}

static void load(void)
{
    char why[256] = "";
    void *library;

    cr_expect(nxr_module_load("taker", "nxr_taker", &library, why, sizeof(why)) != NULL, "%s", why);
}

static void nothing(void)
{
    cr_expect(not(is_installed(SIGUSR2)), "the module takes the signal");
}

Test(module, handlers_are_as_before)
{
    within = nothing;
    install(SIGUSR2);
    load();
    cr_expect(is_installed(SIGUSR2));
}

static void install_others(void)
{
    install(SIGUSR1);
    install(SIGUSR2);
}

/* By another thread, which does not know that a module is loaded. */
Test(module, handlers_that_the_program_installs_meanwhile_stay)
{
    within = install_others;
    load();
    cr_expect(is_installed(SIGUSR1));
    cr_expect(is_installed(SIGUSR2));
}

static void await(bool (*is_so)(void))
{
    int64_t until = nxr_now_ns() + 30 * NXR_S;

    while (!is_so()) {
        cr_assert_lt(nxr_now_ns(), until);
        sched_yield();
    }
}

static bool first_is_over(void)
{
    return atomic_load(&is_over);
}

/* It waits for the lock, unless there is none. */
static bool other_is_held(void)
{
    char path[64], state = ' ';
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&other_id));
    file = fopen(path, "r");
    if (file != NULL) {
        cr_assert_eq(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
    return state == 'S' || atomic_load(&is_other_within);
}

static void *load_too(void *unused)
{
    atomic_store(&other_id, (int)gettid());
    load();
    return unused;
}

static void be_two(void)
{
    if (pthread_equal(pthread_self(), other)) {
        atomic_store(&is_other_within, true);
        await(first_is_over);
        return;
    }
    cr_assert_eq(pthread_create(&other, NULL, load_too, NULL), 0);
    await(other_is_held);
}

/* The second one must not take the module's handler for the program's. */
Test(module, two_loads_at_once_leave_the_handlers)
{
    within = be_two;
    install(SIGUSR2);
    load();
    atomic_store(&is_over, true);
    cr_assert_eq(pthread_join(other, NULL), 0);
    cr_expect(is_installed(SIGUSR2));
}
