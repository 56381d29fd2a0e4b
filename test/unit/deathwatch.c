/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that watches for deaths ends whenever it is asked to, also while it begins, and by
 * itself where the kernel does not let it watch.
 */
#include "host/deathwatch.h"
#include "core/job.h"

#include "test/unit/unit.h"
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

enum { ROUNDS = 20000, LOOKS = 3000 };

Test(deathwatch, ends_whenever_it_is_told_to, .timeout = 60)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_deathwatch_changed();
        pthread_mutex_unlock(&nxr_job.lock);
        for (volatile int spin = i * 7 % 40000; spin > 0; spin--) {
        }
        nxr_deathwatch_stop();
    }
}

/* futex_waitv fails with this errno from now on, as seccomp filters of containers have it. */
static void forbid_futex_waitv(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_waitv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    cr_assert(eq(int, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0));
    cr_assert(eq(int, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0));
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    cr_assert(tasks != NULL);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        n += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return n;
}

static void expect_no_watch(int error)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    int n_before = count_threads(), n_looks = 0;

    forbid_futex_waitv(error);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_deathwatch_changed();
    pthread_mutex_unlock(&nxr_job.lock);
    while (count_threads() > n_before && n_looks++ < LOOKS) {
        nanosleep(&pause, NULL);
    }
    cr_expect(lt(int, n_looks, LOOKS), "the thread watches on although it gets errno %d", error);
    nxr_deathwatch_stop();
}

Test(deathwatch, ends_where_the_kernel_has_no_way_to_watch, .timeout = 60)
{
    expect_no_watch(ENOSYS);
}

Test(deathwatch, ends_where_a_filter_forbids_to_watch, .timeout = 60)
{
    expect_no_watch(EPERM);
}
