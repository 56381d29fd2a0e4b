/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of CUDA memory begin with: the stand-in for NVIDIA's driver (test/cuda), loaded so
 * that the library finds it and nothing else, and device memory to look into.
 */
#ifndef TEST_UNIT_CUDA_CASE_H
#define TEST_UNIT_CUDA_CASE_H

#include "memory/cuda/cuda.h"

#include "test/unit/unit.h"

/* What must hold in whichever process: in one that the test has started it ends that, and fails. */
#define must(_condition) cuda_must((_condition), #_condition, __FILE__, __LINE__)
void cuda_must(bool holds, const char *what, const char *file, int line);

/* Load the stand-in, as set by its variables; and start the kind, which must go well. */
void cuda_load(void);
void cuda_start(void);

/* A function of the driver that the library does not use. */
void *cuda_function(const char *name);

/* Memory of the library's, on a device; the test ends where it cannot be had. */
struct nxr_memory cuda_alloc(size_t nbytes, const char *device);

/* Take the user's memory for a region. Returns as the kind's adopt(). */
int cuda_adopt(cu_address address, size_t nbytes, struct nxr_memory *memory_p, char *why,
               size_t why_nbytes);

/* Copy by the kind, and wait. Addresses in no range are host memory. Returns how it ended. */
int cuda_copy(void *dst, const void *src, size_t nbytes);

/* Wait for a copy that was started; the test fails unless it ends well. */
void cuda_wait(struct nxr_device_copy *copy);

/* Bytes that differ with the address and the seed. */
unsigned char cuda_byte(size_t index, unsigned seed);
void cuda_fill(void *device, size_t nbytes, unsigned seed);
bool cuda_holds(const void *device, size_t nbytes, unsigned seed);

/* No context is left current, as before the first call. */
void cuda_expect_no_context(void);

/* ---- two processes --------------------------------------------------------------------------- */

/*
 * Run `owner` in a process of its own, which has memory and hands it on by cuda_offer(); the test
 * goes on with the other end. The process must end well: cuda_owner_end() waits for it.
 */
struct cuda_owner {
    int socket;
    pid_t pid;
};
struct cuda_owner cuda_owner_start(void (*owner)(int socket));
void cuda_owner_end(struct cuda_owner *owner);

/* Owner: send a region, wait until the other has said that it is done with it. */
void cuda_offer(int socket, const struct nxr_memory *memory);
void cuda_await(int socket);

/* The other end: a segment as its key describes it, and the descriptor, or -1. */
int cuda_receive(const struct cuda_owner *owner, struct nxr_segment *segment);
void cuda_done(const struct cuda_owner *owner);

#endif
