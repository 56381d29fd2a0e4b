/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges for NVIDIA's Nsight Systems (NVTX), which NIXLRUN_NVTX asks for: each call of this library
 * and its parts from begin to end, in the domain "nixlrun", named by call and rank. They are made
 * at the places that the trace has (core/trace.h), which keeps what both want. No lock.
 */
#ifndef NXR_CORE_NVTX_H
#define NXR_CORE_NVTX_H

#include "util/symbol.h"

#include <stdbool.h>
#include <stdint.h>

/* Ranges are wanted. It stays so until the next nixl_init(): each range that was begun ends. */
extern NXR_HIDDEN bool nxr_nvtx_is_on;

/* Begin, if they are wanted. nxr_env is read. True: they are. */
bool nxr_nvtx_open(void);

/* A range of the calling thread; ranges of a thread nest. `peer`: -1, none. */
void nxr_nvtx_push(const char *name, int peer, uint64_t nbytes);
void nxr_nvtx_pop(void);

#endif
