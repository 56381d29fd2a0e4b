/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport: peers on this host. Allocated regions are mapped and copied to directly;
 * registered memory is reached by process_vm_readv/writev, and if the kernel forbids that,
 * through a bounce buffer that the owner's service thread serves.
 */
#ifndef NXR_TRANSPORTS_SHM_H
#define NXR_TRANSPORTS_SHM_H

#include "transports/transport.h"

extern const struct nxr_transport nxr_transport_shm;

/* Determine how registered memory of this peer can be reached; sets method, pid and note. */
void nxr_shm_choose_vm(struct nxr_segment *segment);

/*
 * Copy to or from the owner's memory by system calls, many pieces in each; the segment was entered.
 * NIXL_OK, NIXL_E_AGAIN (the segment has METHOD_BOUNCE now), or the failure. *n_done_p: how many
 * pieces are done, counted from the first.
 */
int nxr_shm_vm_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                    const struct nxr_piece *pieces, size_t n_pieces, size_t *n_done_p);

/* The same for one piece. */
static inline int nxr_shm_vm_move(struct nxr_segment *segment, enum nxr_op_kind kind,
                                  uint64_t offset, void *local, size_t nbytes)
{
    const struct nxr_piece piece = {offset, local, nbytes};
    size_t n_done;

    return nxr_shm_vm_list(segment, kind, &piece, 1, &n_done);
}

#endif
