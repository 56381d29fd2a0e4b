/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of Vulkan's in CUDA: a descriptor of the CPU renderer of Mesa, which is a memfd with one
 * page before the bytes. That no CPU renderer shares a device with CUDA is what the caller must
 * see by the UUIDs; a test that makes them agree gets here. And kernels, which there are none of.
 */
#define _GNU_SOURCE
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fake_external {
    char *memory; /* with the page before it */
    size_t nbytes;
    int n_buffers;
};

FAKE_API int cuImportExternalMemory(struct fake_external **external_p,
                                    const struct cu_external_memory *memory)
{
    struct fake_external *external;
    struct stat status;
    void *mapped;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (memory->type != CU_EXTERNAL_OPAQUE_FD || fstat(memory->handle.fd, &status) != 0 ||
        !S_ISREG(status.st_mode) ||
        (unsigned long long)status.st_size < memory->nbytes + FAKE_HEAD_NBYTES) {
        return CU_INVALID_VALUE;
    }
    external = calloc(1, sizeof(*external));
    mapped = mmap(NULL, memory->nbytes + FAKE_HEAD_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                  memory->handle.fd, 0);
    if (external == NULL || mapped == MAP_FAILED) {
        free(external);
        return CU_OUT_OF_MEMORY;
    }
    external->memory = mapped;
    external->nbytes = memory->nbytes;
    close(memory->handle.fd); /* the driver's own from now on */
    *external_p = external;
    return CU_OK;
}

FAKE_API int cuExternalMemoryGetMappedBuffer(uintptr_t *addr_p, struct fake_external *external,
                                             const struct cu_external_buffer *buffer)
{
    struct fake_backing *backing = NULL;
    struct fake_range *range = NULL;
    uintptr_t addr;

    ENTER();
    if (buffer->flags != 0 || buffer->nbytes == 0 || buffer->offset > external->nbytes ||
        buffer->nbytes > external->nbytes - buffer->offset) {
        return CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    addr = fake_reserve(buffer->nbytes);
    backing = addr != 0 ? fake_backing_new(1, fake_physical(fake_current()->device), 0) : NULL;
    if (backing != NULL) {
        range = fake_range_add(addr, buffer->nbytes,
                               external->memory + FAKE_HEAD_NBYTES + buffer->offset, FAKE_EXTERNAL,
                               backing);
    }
    pthread_mutex_unlock(&fake_lock);
    if (range == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    ++external->n_buffers;
    *addr_p = addr;
    return CU_OK;
}

FAKE_API int cuDestroyExternalMemory(struct fake_external *external)
{
    ENTER();
    munmap(external->memory, external->nbytes + FAKE_HEAD_NBYTES);
    free(external);
    return CU_OK;
}
