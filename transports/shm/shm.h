/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport: peers on this host. Allocated regions are mapped and copied to directly;
 * registered memory is reached by process_vm_readv/writev, and where the kernel forbids that,
 * through a bounce buffer that the owner's service thread serves.
 */
#ifndef NXR_TRANSPORTS_SHM_H
#define NXR_TRANSPORTS_SHM_H

#include "transports/transport.h"

/* Find out how registered memory of this peer can be reached; sets method, pid and note. */
void nxr_shm_choose_vm(struct nxr_part *part);

/*
 * Copy to or from the owner's memory by a system call; the part was entered. NIXL_OK or the
 * failure.
 */
int nxr_shm_vm_write(struct nxr_part *part, uint64_t offset, const void *src, size_t nbytes);
int nxr_shm_vm_read(struct nxr_part *part, uint64_t offset, void *dst, size_t nbytes);

#endif
