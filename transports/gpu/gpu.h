/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This folder holds the transports for GPU memory on one host, one for each kind of memory that a
 * peer can open: cuda_ipc and vulkan_ipc. Their common part is gpu.c: it opens a peer's memory
 * here, so that this process's GPU can copy to and from it, while a slot of the owner's keeps the
 * owner from freeing it. The memory kind opens it (nxr_device_import()), and src/memory/move.c
 * copies.
 */
#ifndef NXR_TRANSPORTS_GPU_H
#define NXR_TRANSPORTS_GPU_H

#include "transports/transport.h"

extern const struct nxr_transport nxr_transport_cuda_ipc, nxr_transport_vulkan_ipc;

/* Is the peer on this host, and is it memory of `own` kind? As reach() of the table. */
int nxr_gpu_reach(enum nixl_mem_kind own, enum nixl_scope_kind scope, enum nixl_mem_kind kind,
                  char *why, size_t why_nbytes);

/* segment_open() and segment_close(): the owner cannot free the memory between the two. */
int nxr_gpu_segment_open(struct nxr_segment *segment, int fd, const struct nxr_remote_key *remote);
void nxr_gpu_segment_close(struct nxr_segment *segment);

/* probe(): always possible; a driver is first queried when GPU memory is used. */
int nxr_gpu_probe(char *why, size_t why_nbytes);

/* fence() and flush(): what has ended is visible. */
int nxr_gpu_order(struct nxr_peer *peer);

/* The table of a transport for one kind: its name, its cost, and its reach(). */
#define NXR_GPU_TRANSPORT(_name, _cost, _reach)                                                    \
    {                                                                                              \
        .name = (_name), .cost = (_cost), .probe = nxr_gpu_probe, .reach = (_reach),               \
        .serves = nxr_device_serves, .segment_open = nxr_gpu_segment_open,                         \
        .segment_close = nxr_gpu_segment_close, .segment_is_busy = nxr_device_segment_is_busy,     \
        .put = nxr_device_put, .get = nxr_device_get, .put_notify = nxr_no_put_notify,             \
        .put_signal = nxr_no_put_signal, .move_list = nxr_no_move_list, .start = nxr_device_start, \
        .start_list = nxr_device_start, .cancel = nxr_device_cancel, .progress = nxr_no_progress,  \
        .fence = nxr_gpu_order, .flush = nxr_gpu_order, .atomic = nxr_no_atomic,                   \
        .signal = nxr_no_signal,                                                                   \
    }

#endif
