/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a program without the system calls that profiles of container runtimes forbid, and on an old
 * kernel's terms: no calls on the memory of other processes, no pidfd of any kind, no futex_waitv.
 *
 *     confined PROGRAM [ARGUMENT...]
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SO_PEERPIDFD_ 77

#define LOAD(_field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, _field))
#define FAIL(_error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (_error))

/* The next statement if the loaded word is that number, else the one after it. */
#define IF(_number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (_number), 0, 1)

int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        LOAD(nr),          IF(SYS_process_vm_readv),
        FAIL(EPERM),       IF(SYS_process_vm_writev),
        FAIL(EPERM),       IF(SYS_pidfd_open),
        FAIL(EPERM),       IF(SYS_pidfd_send_signal),
        FAIL(EPERM),       IF(SYS_futex_waitv),
        FAIL(EPERM),       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 3),
        LOAD(args[2]),     IF(SO_PEERPIDFD_),
        FAIL(ENOPROTOOPT), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (argc < 2) {
        fprintf(stderr, "usage: confined PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        perror("confined: seccomp");
        return 77;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
