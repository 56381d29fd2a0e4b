/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and kernels: the PTX is looked at for the names of its kernels, and what they do is done
 * here by the processor. What a kernel finds in its list is read when its turn comes, as on a GPU;
 * an address that the device does not reach would end the context there, and ends the process here.
 */
#include "memory/kernel.h"
#include "test/cuda/fake.h"
#include "test/cuda/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_kernel {
    const char *name;
    unsigned n_threads;
};

struct fake_module {
    char *image;
};

static const struct fake_kernel copy_kernel = {NXR_KERNEL_COPY, NXR_KERNEL_COPY_THREADS};

FAKE_API int cuModuleLoadData(struct fake_module **module_p, const void *image)
{
    struct fake_module *module;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    if (strncmp(image, ".version ", 9) != 0) {
        return CU_INVALID_VALUE;
    }
    module = malloc(sizeof(*module));
    if (module == NULL || (module->image = strdup(image)) == NULL) {
        free(module);
        return CU_OUT_OF_MEMORY;
    }
    *module_p = module;
    return CU_OK;
}

FAKE_API int cuModuleUnload(struct fake_module *module)
{
    ENTER();
    free(module->image);
    free(module);
    return CU_OK;
}

FAKE_API int cuModuleGetFunction(const struct fake_kernel **function_p, struct fake_module *module,
                                 const char *name)
{
    char entry[64];

    ENTER();
    snprintf(entry, sizeof(entry), ".entry %s(", name);
    if (strstr(module->image, entry) == NULL || strcmp(name, copy_kernel.name) != 0) {
        return CU_NOT_FOUND;
    }
    *function_p = &copy_kernel;
    return CU_OK;
}

/* ---- nixlrun_copy ---------------------------------------------------------------------------- */

struct copy {
    struct fake_stream *stream;
    const struct nxr_kernel_piece *pieces;
    unsigned n_pieces;
};

/* Memory that a kernel uses, once in the list of the work. */
static void use(struct fake_work *work, struct fake_range *range)
{
    int i = 0;

    while (i < FAKE_WORK_RANGES && work->ranges[i] != NULL && work->ranges[i] != range) {
        ++i;
    }
    if (i == FAKE_WORK_RANGES) {
        fake_misuse("a kernel copies between more than two allocations");
    }
    work->ranges[i] = range;
}

/* Where the bytes are; under the lock. */
static char *reach(struct fake_stream *stream, uint64_t addr, uint64_t nbytes,
                   struct fake_range **range_p)
{
    char *bytes;

    if (fake_stream_place(stream, addr, nbytes, NXR_KERNEL_COPY, &bytes, range_p) != CU_OK ||
        *range_p == NULL) {
        fake_misuse("a kernel does not reach %lu bytes at %#lx", (unsigned long)nbytes,
                    (unsigned long)addr);
    }
    return bytes;
}

void fake_kernel_run(const struct fake_work *work)
{
    const struct copy *copy = work->data;

    for (unsigned i = 0; i < copy->n_pieces; ++i) {
        const struct nxr_kernel_piece *piece = &copy->pieces[i];
        struct fake_range *range;
        char *dst, *src;

        pthread_mutex_lock(&fake_lock);
        dst = reach(copy->stream, piece->dst, piece->nbytes, &range);
        src = reach(copy->stream, piece->src, piece->nbytes, &range);
        pthread_mutex_unlock(&fake_lock);
        memmove(dst, src, piece->nbytes);
    }
    free(work->data);
}

FAKE_API int cuLaunchKernel(const struct fake_kernel *function, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared, struct fake_stream *stream, void **arguments,
                            void **extra)
{
    struct fake_work work = {.kind = FAKE_KERNEL};
    struct copy *copy;
    int result;

    ENTER();
    if (function != &copy_kernel || grid_x == 0 || grid_y != 1 || grid_z != 1 ||
        block_x != function->n_threads || block_y != 1 || block_z != 1 || shared != 0 ||
        extra != NULL) {
        return CU_INVALID_VALUE;
    }
    copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    memcpy(&copy->pieces, arguments[0], sizeof(copy->pieces));
    memcpy(&copy->n_pieces, arguments[1], sizeof(copy->n_pieces));
    work.data = copy;
    pthread_mutex_lock(&fake_lock);
    copy->stream = fake_stream_find(stream);
    result = copy->stream != NULL ? CU_OK : CU_INVALID_CONTEXT;
    if (result == CU_OK) {
        reach(copy->stream, (uintptr_t)copy->pieces, copy->n_pieces * sizeof(copy->pieces[0]),
              &work.ranges[0]);
        for (unsigned i = 0; i < copy->n_pieces; ++i) {
            struct fake_range *range;

            reach(copy->stream, copy->pieces[i].dst, copy->pieces[i].nbytes, &range);
            use(&work, range);
            reach(copy->stream, copy->pieces[i].src, copy->pieces[i].nbytes, &range);
            use(&work, range);
        }
        result = fake_stream_add(copy->stream, &work);
    }
    pthread_mutex_unlock(&fake_lock);
    if (result != CU_OK) {
        free(copy);
    }
    return result;
}
