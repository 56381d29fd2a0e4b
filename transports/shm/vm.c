/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory by process_vm_readv and process_vm_writev. They take a pid: it comes from the
 * kernel (SO_PEERCRED), and is proven by reading the peer's nonce in its own memory. No state.
 */
#include "config.h"

#include "shm.h"
#include "util/env.h"
#include "util/log.h"
#include "util/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#define NONCE_NBYTES 16

/*
 * Read the nonce where the peer says that it has it. NIXL_OK, or the errno of the call, or EPERM.
 */
static int prove_pid(const struct nxr_part *part, pid_t pid)
{
    unsigned char nonce[NONCE_NBYTES];
    struct iovec here = {nonce, sizeof(nonce)};
    struct iovec there = {(void *)(uintptr_t)nxr_peer_nonce_addr(part->peer), sizeof(nonce)};

    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof(nonce)) {
        return errno;
    }
    return memcmp(nonce, nxr_peer_nonce(part->peer), sizeof(nonce)) == 0 ? 0 : ESRCH;
}

void nxr_shm_choose_vm(struct nxr_part *part)
{
    pid_t pid = nxr_peer_pid(part->peer);
    int error = 0;

    part->method = NXR_METHOD_BOUNCE;
    if (!nxr_env.process_vm) {
        snprintf(part->note, sizeof(part->note), "NIXLRUN_PROCESS_VM is off");
    } else if (pid <= 0) {
        snprintf(part->note, sizeof(part->note),
                 "the peer's pid is not known in this pid namespace");
    } else if ((error = prove_pid(part, pid)) != 0) {
        snprintf(part->note, sizeof(part->note), "process_vm_readv on pid %d: %s", (int)pid,
                 strerror(error));
    } else {
        part->method = NXR_METHOD_PROCESS_VM;
        part->pid = pid;
    }
    if (part->method == NXR_METHOD_BOUNCE) {
        nxr_info(SHM, "registered memory goes through a bounce buffer: %s", part->note);
    }
}

typedef ssize_t vm_call(pid_t pid, const struct iovec *here, unsigned long n_here,
                        const struct iovec *there, unsigned long n_there, unsigned long flags);

/* The kernel moves at most about 2 GiB a call, and may move less. */
static int move(vm_call *call, const struct nxr_part *part, uint64_t offset, char *local,
                size_t nbytes)
{
    const size_t max_nbytes = 1ul << 30;
    char *remote = (char *)(uintptr_t)(part->key.addr + offset);

    while (nbytes > 0) {
        size_t piece = nbytes < max_nbytes ? nbytes : max_nbytes;
        struct iovec here = {local, piece};
        struct iovec there = {remote, piece};
        ssize_t moved = call(part->pid, &here, 1, &there, 1, 0);

        if (moved <= 0) {
            int error = moved < 0 ? errno : EFAULT;

            nxr_debug(SHM, "process_vm call on pid %d: %s", (int)part->pid, strerror(error));
            return error == EFAULT ? NIXL_ERR_TRANSPORT : nxr_status_of_errno(error);
        }
        local += moved;
        remote += moved;
        nbytes -= (size_t)moved;
    }
    return NIXL_OK;
}

int nxr_shm_vm_write(struct nxr_part *part, uint64_t offset, const void *src, size_t nbytes)
{
    return move(process_vm_writev, part, offset, (char *)src, nbytes);
}

int nxr_shm_vm_read(struct nxr_part *part, uint64_t offset, void *dst, size_t nbytes)
{
    return move(process_vm_readv, part, offset, dst, nbytes);
}
