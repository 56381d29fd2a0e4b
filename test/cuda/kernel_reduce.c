/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions as a kernel does them, by the library's loops for the processor, whose bits they have
 * to give. What a GPU refuses, addresses that are not aligned, ends the process.
 */
#include "collective/combine.h"
#include "test/cuda/kernel.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static enum nixl_reduce_op operation_of(unsigned op)
{
    switch (op) {
    case NXR_KERNEL_SUM:
        return NIXL_REDUCE_SUM;
    case NXR_KERNEL_PROD:
        return NIXL_REDUCE_PROD;
    case NXR_KERNEL_MIN:
    case NXR_KERNEL_MIN_SIGNED:
        return NIXL_REDUCE_MIN;
    case NXR_KERNEL_MAX:
    case NXR_KERNEL_MAX_SIGNED:
        return NIXL_REDUCE_MAX;
    case NXR_KERNEL_AND:
        return NIXL_REDUCE_AND;
    case NXR_KERNEL_OR:
        return NIXL_REDUCE_OR;
    default:
        return NIXL_REDUCE_XOR;
    }
}

/* By the number of the kernel: unsigned, and the same with a sign. */
static const enum nixl_type types[][2] = {
    {NIXL_TYPE_UINT8, NIXL_TYPE_INT8},      {NIXL_TYPE_UINT16, NIXL_TYPE_INT16},
    {NIXL_TYPE_UINT32, NIXL_TYPE_INT32},    {NIXL_TYPE_UINT64, NIXL_TYPE_INT64},
    {NIXL_TYPE_FLOAT16, NIXL_TYPE_FLOAT16}, {NIXL_TYPE_BFLOAT16, NIXL_TYPE_BFLOAT16},
    {NIXL_TYPE_FLOAT, NIXL_TYPE_FLOAT},     {NIXL_TYPE_DOUBLE, NIXL_TYPE_DOUBLE},
};

static void take(struct fake_launch *launch, void **arguments);
static void look(const struct fake_launch *launch, struct fake_work *work);
static void run(const struct fake_launch *launch);

#define KERNEL(_name)                                                                              \
    {                                                                                              \
        NXR_KERNEL_REDUCE _name, NXR_KERNEL_REDUCE_THREADS, take, look, run                        \
    }
static const struct fake_kernel kernels[] = {KERNEL("u8"),  KERNEL("u16"), KERNEL("u32"),
                                             KERNEL("u64"), KERNEL("f16"), KERNEL("b16"),
                                             KERNEL("f32"), KERNEL("f64")};
#define N_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

const struct fake_kernel *fake_reduce_find(const char *name)
{
    for (size_t i = 0; i < N_KERNELS; ++i) {
        if (strcmp(name, kernels[i].name) == 0) {
            return &kernels[i];
        }
    }
    return NULL;
}

static struct nxr_combine combine_of(const struct fake_launch *launch)
{
    unsigned op = launch->reduction.op;
    bool is_signed = op == NXR_KERNEL_MIN_SIGNED || op == NXR_KERNEL_MAX_SIGNED;
    const struct nixl_reduce_args args = {.type = types[launch->kernel - kernels][is_signed],
                                          .op = operation_of(op)};

    if (!nxr_combine_is_valid(args.type, args.op)) {
        fake_misuse("%s has no operation %u", launch->kernel->name, op);
    }
    return nxr_combine_choose(&args);
}

static uint64_t nbytes_of(const struct fake_launch *launch, size_t element)
{
    const struct nxr_kernel_reduction *what = &launch->reduction;

    return (what->n_head + what->n_tail) * element + what->n_words * NXR_KERNEL_WORD_NBYTES;
}

static void check(const struct nxr_kernel_reduction *what, uint64_t addr, size_t element)
{
    if (addr % element != 0 ||
        (what->n_words > 0 && (addr + what->n_head * element) % NXR_KERNEL_WORD_NBYTES != 0)) {
        fake_misuse("a kernel is given %#lx, which is not aligned", (unsigned long)addr);
    }
}

static void take(struct fake_launch *launch, void **arguments)
{
    memcpy(&launch->reduction, arguments[0], sizeof(launch->reduction));
}

static void look(const struct fake_launch *launch, struct fake_work *work)
{
    const struct nxr_kernel_reduction *what = &launch->reduction;
    size_t element = combine_of(launch).element_nbytes;
    uint64_t nbytes = nbytes_of(launch, element);

    for (unsigned i = 0; i < what->n_srcs; ++i) {
        check(what, what->srcs[i], element);
        fake_kernel_use(launch, work, what->srcs[i], nbytes);
    }
    for (unsigned i = 0; i < what->n_dsts; ++i) {
        check(what, what->dsts[i], element);
        fake_kernel_use(launch, work, what->dsts[i], nbytes);
    }
    if (what->done != 0) {
        fake_kernel_use(launch, work, what->done, launch->n_blocks * sizeof(uint64_t));
    }
}

static void run(const struct fake_launch *launch)
{
    const struct nxr_kernel_reduction *what = &launch->reduction;
    const struct nxr_combine combine = combine_of(launch);
    uint64_t nbytes = nbytes_of(launch, combine.element_nbytes);
    const void *srcs[NXR_KERNEL_REDUCE_MAX];
    void *result = malloc(nbytes);

    if (result == NULL) {
        fake_misuse("there is no memory for the result of a kernel");
    }
    for (unsigned i = 0; i < what->n_srcs; ++i) {
        srcs[i] = fake_kernel_bytes(launch, what->srcs[i], nbytes);
    }
    nxr_combine_all(&combine, result, srcs, what->n_srcs, nbytes);
    for (unsigned i = 0; i < what->n_dsts; ++i) {
        memcpy(fake_kernel_bytes(launch, what->dsts[i], nbytes), result, nbytes);
    }
    free(result);
    if (what->done != 0) {
        _Atomic uint64_t *done =
            (void *)fake_kernel_bytes(launch, what->done, launch->n_blocks * sizeof(uint64_t));

        for (unsigned i = 0; i < launch->n_blocks; ++i) {
            atomic_store(&done[i], 1);
        }
    }
}
