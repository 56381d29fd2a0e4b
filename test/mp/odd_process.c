/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are no plain programs, and joins that fail.
 *
 *     odd_process namespace  makes a PID namespace for its children, so no more threads
 *     odd_process socket     the socket to PMIx's server breaks while the rank joins
 *     odd_process random     the kernel refuses random numbers
 *     odd_process fork       forks while it joins, and after it has left
 *     odd_process leave      two threads leave at once what was joined once
 *     odd_process again      another process of rank 1 comes behind one that was killed
 *     odd_process twice      another process of each rank comes behind one that has left in order
 *     odd_process program N  its number in the job is N, and its place is what the variables say
 */
#include "config.h"

#include "mptest.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_no_random, is_cut, must_fork;
static int n_sent_nowhere;
static __thread bool must_meet;
static atomic_int n_met;

/* A child of that moment is no rank. Without the alarm it could wait for a lock without end. */
static void fork_now(void)
{
    pid_t pid = fork();
    int status = -1;

    MPT_TRUE(pid >= 0);
    if (pid == 0) {
        alarm(20);
        _exit(nixl_init(NULL) == NIXL_E_FORKED && nixl_rank() == NIXL_E_FORKED ? 0 : 1);
    }
    MPT_EQ(waitpid(pid, &status, 0), pid);
    MPT_EQ(status, 0);
}

/* Those of the libraries, too: a program's own function goes before the C library's. */
NIXL_API ssize_t getrandom(void *bytes, size_t nbytes, unsigned flags)
{
    if (must_fork) {
        must_fork = false;
        fork_now();
    }
    if (has_no_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, nbytes, flags);
}

NIXL_API ssize_t send(int fd, const void *bytes, size_t nbytes, int flags)
{
    if (is_cut && shutdown(fd, SHUT_WR) == 0) {
        n_sent_nowhere++;
    }
    return syscall(SYS_sendto, fd, bytes, nbytes, flags, NULL, 0);
}

/* Both that leave have found the library in use when the first of them takes a lock. */
NIXL_API int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int (*real)(pthread_mutex_t *);
    int64_t end_ns;

    if (must_meet) {
        must_meet = false;
        atomic_fetch_add(&n_met, 1);
        for (end_ns = mpt_now_ns() + MPT_PATIENCE; atomic_load(&n_met) < 2; sched_yield()) {
            MPT_LT(mpt_now_ns(), end_ns);
        }
    }
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return real(mutex);
}

static void make_namespace(void)
{
    MPT_OK(nixl_init(NULL));
    mpt_barrier();
    if (unshare(CLONE_NEWPID) != 0) {
        mpt_skip("no right to make a PID namespace");
    }
    MPT_OK(nixl_finalize());
}

static void cut_socket(void)
{
    signal(SIGPIPE, SIG_DFL);
    is_cut = true;
    MPT_TRUE(nixl_init(NULL) != NIXL_OK);
    is_cut = false;
    MPT_TRUE(n_sent_nowhere > 0);
}

static void refuse_random(void)
{
    has_no_random = true;
    MPT_EQ(nixl_init(NULL), NIXL_E_UNSUPPORTED);
    has_no_random = false;
    MPT_TRUE(strstr(nixl_last_error()->text, "getrandom: Function not implemented") != NULL);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_finalize());
}

/* Be a rank in another process, and end there by SIGKILL or in order. */
static void be_another(bool is_killed)
{
    pid_t pid = fork();
    int status = 0;

    MPT_TRUE(pid >= 0);
    if (pid == 0) {
        MPT_OK(nixl_init(NULL));
        if (is_killed) {
            kill(getpid(), SIGKILL);
        }
        MPT_OK(nixl_finalize());
        _exit(0);
    }
    MPT_EQ(waitpid(pid, &status, 0), pid);
    MPT_EQ(status, is_killed ? SIGKILL : 0);
}

static int number_of(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? atoi(text) : -1;
}

static void come_again(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    if (number_of("RANK") != 1) {
        MPT_OK(nixl_init(NULL));
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        MPT_EQ(event.rank, 1);
        MPT_OK(nixl_finalize());
        return;
    }
    be_another(true);
    for (int i = 0; i < 3; i++) {
        MPT_EQ(nixl_init(NULL), NIXL_E_UNSUPPORTED);
        MPT_TRUE(strstr(nixl_last_error()->text, "rank 1 was started again") != NULL);
    }
}

static void fork_twice(void)
{
    must_fork = true;
    MPT_OK(nixl_init(NULL));
    MPT_TRUE(!must_fork);
    fork_now();
    MPT_OK(nixl_finalize());
    be_another(false);
}

static void *leave(void *arg)
{
    must_meet = true;
    *(int *)arg = nixl_finalize();
    return NULL;
}

static void leave_at_once(void)
{
    pthread_t thread;
    int here, there;

    MPT_OK(nixl_init(NULL));
    MPT_EQ(pthread_create(&thread, NULL, leave, &there), 0);
    leave(&here);
    MPT_EQ(pthread_join(thread, NULL), 0);
    MPT_EQ(atomic_load(&n_met), 2);
    MPT_EQ(here == NIXL_OK ? there : here, NIXL_E_NOT_INIT);
    MPT_OK(here == NIXL_OK ? here : there);
    MPT_OK(nixl_init(NULL));
    MPT_TRUE(nixl_rank() >= 0);
    MPT_OK(nixl_finalize());
}

static void come_twice(void)
{
    be_another(false);
    MPT_OK(nixl_init(NULL));
    MPT_OK(nixl_finalize());
}

static void find_place(int program)
{
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_program(), program);
    MPT_EQ(nixl_rank(), number_of("RANK"));
    MPT_EQ(nixl_size(), number_of("WORLD_SIZE"));
    MPT_EQ(nixl_local_rank(), number_of("LOCAL_RANK"));
    MPT_EQ(nixl_local_size(), number_of("LOCAL_SIZE"));
    MPT_OK(nixl_finalize());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    if (strcmp(what, "namespace") == 0) {
        make_namespace();
    } else if (strcmp(what, "socket") == 0) {
        cut_socket();
    } else if (strcmp(what, "again") == 0) {
        come_again();
    } else if (strcmp(what, "fork") == 0) {
        fork_twice();
    } else if (strcmp(what, "leave") == 0) {
        leave_at_once();
    } else if (strcmp(what, "twice") == 0) {
        come_twice();
    } else if (strcmp(what, "program") == 0 && argc == 3) {
        find_place(atoi(argv[2]));
    } else {
        MPT_TEXT(what, "random");
        refuse_random();
    }
    return mpt_passed();
}
