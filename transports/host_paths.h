/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host layer does for transports: it proves who a peer is, maps a peer's memory, and
 * serves what a transport cannot move itself. A part of the transport interface (transport.h).
 */
#ifndef NXR_TRANSPORTS_HOST_PATHS_H
#define NXR_TRANSPORTS_HOST_PATHS_H

#include "util/symbol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct nxr_op;
struct nxr_peer;
struct nxr_segment;

/* The pid of a same-host peer, from the kernel; 0 if it is not known. */
pid_t nxr_peer_pid(const struct nxr_peer *peer);

/*
 * Is the process with that pid the peer, and may process_vm calls reach it? Proven by reading the
 * peer's nonce from the memory of that process. Returns 0, the errno of the call, or ESRCH.
 */
int nxr_peer_prove_pid(const struct nxr_peer *peer, pid_t pid);

/*
 * Map a peer's allocated memory of `nbytes` behind `fd`, which may be hostile: it must be a sealed
 * memfd of that size. NIXL_OK, NIXL_E_TRANSPORT, NIXL_E_NO_MEMORY.
 */
int nxr_memory_host_map(int fd, size_t nbytes, bool is_read_only, void **addr_p,
                        size_t *mapped_nbytes_p);
void nxr_memory_host_free(void *addr, size_t mapped_nbytes);

/*
 * What the library does within a host beside the transports: its owners set these functions before
 * anything starts, and the transports of a host call them. start, cancel and progress are as in the
 * struct nxr_transport.
 */
struct nxr_host_paths {
    /*
     * Staging, here for segments that only their owner's service thread can copy
     * (src/transfer/staging.h). It needs no progress. cancel: NIXL_INPROGRESS also if it does not
     * have the operation.
     */
    int (*staging_start)(struct nxr_op *op);
    int (*staging_cancel)(struct nxr_op *op);

    /*
     * The copy thread, for operations on host memory that put() and get() could do, but which
     * take long (src/transfer/copy_thread.h). It needs no progress. start: NIXL_E_UNSUPPORTED
     * if there is no such thread. cancel: NIXL_E_NOT_FOUND if it does not have the operation
     * (any more).
     */
    int (*copy_start)(struct nxr_op *op);
    int (*copy_cancel)(struct nxr_op *op);

    /*
     * Words that only the owner changes (src/host/atomic_ask.h). Is a put served as one? atomic_put
     * does it at once if a thread of the owner is there to do it, else NIXL_E_AGAIN.
     */
    bool (*atomic_serves_put)(const struct nxr_segment *segment, uint64_t offset, size_t nbytes);
    int (*atomic_put)(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes);
    int (*atomic_start)(struct nxr_op *op);
    int (*atomic_cancel)(struct nxr_op *op);
    int (*atomic_progress)(void);

    /*
     * process_vm calls do not reach the peer any more, with that errno: one of the two has changed
     * its user since the segment was opened. From now on the owner serves the segment's memory
     * (METHOD_BOUNCE). Any thread.
     */
    void (*lose_process_vm)(struct nxr_segment *segment, int error);
};
extern NXR_HIDDEN struct nxr_host_paths nxr_host_paths;

#endif
