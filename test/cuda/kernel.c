/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and kernels: the PTX is looked at for the names of its kernels, and what they do is done
 * here by the processor. What a kernel finds in its list is read when its turn comes, as on a GPU;
 * an address that the device does not reach would end the context there, and ends the process here.
 */
#include "test/cuda/kernel.h"
#include "test/cuda/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_module {
    char *image;
};

FAKE_API int cuModuleLoadData(struct fake_module **module_p, const void *image)
{
    struct fake_module *module;
    const char *text = image;

    ENTER();
    if (fake_current() == NULL) {
        return CU_INVALID_CONTEXT;
    }
    while (strncmp(text, "//", 2) == 0) {
        text += strcspn(text, "\n");
        text += *text != '\0';
    }
    if (strncmp(text, ".version ", 9) != 0) {
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
    const struct fake_kernel *kernel;
    char entry[64];

    ENTER();
    snprintf(entry, sizeof(entry), ".entry %s(", name);
    kernel = strcmp(name, fake_copy_kernel.name) == 0 ? &fake_copy_kernel : fake_reduce_find(name);
    if (strstr(module->image, entry) == NULL || kernel == NULL) {
        return CU_NOT_FOUND;
    }
    *function_p = kernel;
    return CU_OK;
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Memory that a kernel uses, once in the list of the work. */
static void use(struct fake_work *work, struct fake_range *range)
{
    int i = 0;

    while (i < FAKE_WORK_RANGES && work->ranges[i] != NULL && work->ranges[i] != range) {
        ++i;
    }
    if (i == FAKE_WORK_RANGES) {
        fake_misuse("a kernel uses more than %d allocations", FAKE_WORK_RANGES);
    }
    work->ranges[i] = range;
}

/* Under the lock. */
static char *reach(const struct fake_launch *launch, uint64_t addr, uint64_t nbytes,
                   struct fake_range **range_p)
{
    char *bytes;

    if (fake_stream_place(launch->stream, addr, nbytes, launch->kernel->name, &bytes, range_p) !=
            CU_OK ||
        *range_p == NULL) {
        fake_misuse("a kernel does not reach %lu bytes at %#lx", (unsigned long)nbytes,
                    (unsigned long)addr);
    }
    return bytes;
}

void fake_kernel_use(const struct fake_launch *launch, struct fake_work *work, uint64_t addr,
                     uint64_t nbytes)
{
    struct fake_range *range;

    reach(launch, addr, nbytes, &range);
    use(work, range);
}

char *fake_kernel_bytes(const struct fake_launch *launch, uint64_t addr, uint64_t nbytes)
{
    struct fake_range *range;
    char *bytes;

    pthread_mutex_lock(&fake_lock);
    bytes = reach(launch, addr, nbytes, &range);
    pthread_mutex_unlock(&fake_lock);
    return bytes;
}

void fake_kernel_run(const struct fake_work *work)
{
    struct fake_launch *launch = work->data;

    launch->kernel->run(launch);
    free(launch);
}

FAKE_API int cuLaunchKernel(const struct fake_kernel *function, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared, struct fake_stream *stream, void **arguments,
                            void **extra)
{
    struct fake_work work = {.kind = FAKE_KERNEL};
    struct fake_launch *launch;
    int result;

    ENTER();
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != function->n_threads ||
        block_y != 1 || block_z != 1 || shared != 0 || extra != NULL) {
        return CU_INVALID_VALUE;
    }
    launch = malloc(sizeof(*launch));
    if (launch == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    launch->kernel = function;
    launch->n_blocks = grid_x;
    function->take(launch, arguments);
    work.data = launch;
    pthread_mutex_lock(&fake_lock);
    launch->stream = fake_stream_find(stream);
    result = launch->stream != NULL ? CU_OK : CU_INVALID_CONTEXT;
    if (result == CU_OK) {
        function->look(launch, &work);
        result = fake_stream_add(launch->stream, &work);
    }
    pthread_mutex_unlock(&fake_lock);
    if (result != CU_OK) {
        free(launch);
    }
    return result;
}

/* ---- nixlrun_copy ---------------------------------------------------------------------------- */

static void copy_take(struct fake_launch *launch, void **arguments)
{
    memcpy(&launch->copy.pieces, arguments[0], sizeof(launch->copy.pieces));
    memcpy(&launch->copy.n_pieces, arguments[1], sizeof(launch->copy.n_pieces));
}

static void copy_look(const struct fake_launch *launch, struct fake_work *work)
{
    const struct nxr_kernel_piece *pieces = launch->copy.pieces;

    fake_kernel_use(launch, work, (uintptr_t)pieces, launch->copy.n_pieces * sizeof(pieces[0]));
    for (unsigned i = 0; i < launch->copy.n_pieces; ++i) {
        fake_kernel_use(launch, work, pieces[i].dst, pieces[i].nbytes);
        fake_kernel_use(launch, work, pieces[i].src, pieces[i].nbytes);
    }
}

static void copy_run(const struct fake_launch *launch)
{
    for (unsigned i = 0; i < launch->copy.n_pieces; ++i) {
        const struct nxr_kernel_piece *piece = &launch->copy.pieces[i];
        char *dst = fake_kernel_bytes(launch, piece->dst, piece->nbytes);

        memmove(dst, fake_kernel_bytes(launch, piece->src, piece->nbytes), piece->nbytes);
    }
}

const struct fake_kernel fake_copy_kernel = {NXR_KERNEL_COPY, NXR_KERNEL_COPY_THREADS, copy_take,
                                             copy_look, copy_run};
