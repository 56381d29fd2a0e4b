/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory by process_vm_readv and process_vm_writev. They take a pid, which comes from
 * the kernel (SO_PEERCRED) and is verified. No state.
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

/* For one system call: the kernel moves at most about 2 GiB, and takes at most 1024 pieces. */
#define CALL_MAX_NBYTES (1ul << 30)
#define CALL_MAX_PIECES 128

void nxr_shm_choose_vm(struct nxr_segment *segment)
{
    pid_t pid = nxr_peer_pid(segment->peer);
    int error = 0;

    segment->method = NXR_METHOD_BOUNCE;
    if (!nxr_env.process_vm) {
        snprintf(segment->note, sizeof(segment->note), "NIXLRUN_PROCESS_VM is off");
    } else if (pid <= 0) {
        snprintf(segment->note, sizeof(segment->note),
                 "the peer's pid is not known in this pid namespace");
    } else if ((error = nxr_peer_prove_pid(segment->peer, pid)) != 0) {
        snprintf(segment->note, sizeof(segment->note), "process_vm_readv on pid %d: %s", (int)pid,
                 strerror(error));
    } else {
        segment->method = NXR_METHOD_PROCESS_VM;
        segment->pid = pid;
    }
    if (segment->method == NXR_METHOD_BOUNCE) {
        nxr_info(SHM, "registered memory goes through a bounce buffer: %s", segment->note);
    }
}

/* Progress in a list: byte `at` of pieces[index]. */
struct position {
    size_t index;
    size_t at;
};

/* Fill the vectors from that position on: with as many pieces as fit, up to what one call moves. */
static unsigned long shm_vm_gather(const struct nxr_segment *segment,
                                   const struct nxr_piece *pieces, size_t n_pieces,
                                   struct position from, struct iovec *here, struct iovec *there)
{
    size_t left = CALL_MAX_NBYTES;
    unsigned long n = 0;

    for (; n < CALL_MAX_PIECES && from.index < n_pieces && left > 0; n++) {
        const struct nxr_piece *piece = &pieces[from.index];
        size_t nbytes = piece->nbytes - from.at;

        nbytes = nbytes < left ? nbytes : left;
        here[n] = (struct iovec){(char *)piece->local + from.at, nbytes};
        there[n] = (struct iovec){(void *)(uintptr_t)(segment->key.addr + piece->offset + from.at),
                                  nbytes};
        left -= nbytes;
        from = (struct position){from.index + 1, 0};
    }
    return n;
}

/* The kernel may move less than was requested. */
static struct position shm_vm_advance(const struct nxr_piece *pieces, struct position from,
                                      size_t nbytes)
{
    while (nbytes > 0 && nbytes >= pieces[from.index].nbytes - from.at) {
        nbytes -= pieces[from.index].nbytes - from.at;
        from = (struct position){from.index + 1, 0};
    }
    from.at += nbytes;
    return from;
}

/* What a failed call means for the operation. NIXL_E_AGAIN: the owner has to do it. */
static int shm_vm_fail_call(struct nxr_segment *segment, int error)
{
    nxr_debug(SHM, "process_vm call on pid %d: %s", (int)segment->pid, strerror(error));
    if (error == EPERM || error == EACCES || error == ENOSYS) {
        nxr_host_paths.lose_process_vm(segment, error);
        return NIXL_E_AGAIN;
    }
    return error == EFAULT ? NIXL_E_TRANSPORT : nxr_status_of_errno(error);
}

int nxr_shm_vm_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                    const struct nxr_piece *pieces, size_t n_pieces, size_t *n_done_p)
{
    struct iovec here[CALL_MAX_PIECES], there[CALL_MAX_PIECES];
    struct position now = {0, 0};

    while (now.index < n_pieces) {
        unsigned long n = shm_vm_gather(segment, pieces, n_pieces, now, here, there);
        ssize_t moved = kind == NXR_OP_PUT ? process_vm_writev(segment->pid, here, n, there, n, 0)
                                           : process_vm_readv(segment->pid, here, n, there, n, 0);

        if (moved <= 0) {
            *n_done_p = now.index;
            return shm_vm_fail_call(segment, moved < 0 ? errno : EFAULT);
        }
        now = shm_vm_advance(pieces, now, (size_t)moved);
    }
    *n_done_p = n_pieces;
    return NIXL_OK;
}
