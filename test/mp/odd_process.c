/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are no plain programs, and joins that fail.
 *
 *     odd_process namespace  makes a PID namespace for its children, so no more threads
 *     odd_process socket     the socket to PMIx's server breaks while the rank joins
 *     odd_process random     the kernel refuses random numbers
 */
#include "config.h"

#include "mptest.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_no_random, is_cut;
static int n_sent_nowhere;

/* Those of the libraries, too: a program's own function goes before the C library's. */
NIXL_API ssize_t getrandom(void *bytes, size_t nbytes, unsigned flags)
{
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
    MPT_EQ(nixl_init(NULL), NIXL_ERR_UNSUPPORTED);
    has_no_random = false;
    MPT_TRUE(strstr(nixl_last_error()->text, "getrandom: Function not implemented") != NULL);
    MPT_OK(nixl_init(NULL));
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
    } else {
        MPT_TEXT(what, "random");
        refuse_random();
    }
    return mpt_passed();
}
