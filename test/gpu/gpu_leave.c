/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving with GPU memory still open on both sides: each rank has put into memory of every kind of
 * the other one, on a stream, has flushed and synchronised, and closes nothing. nixl_finalize() of
 * both returns at once, as nothing is in flight, and the memory can be freed behind it.
 */
#include "test/gpu/gpu.h"
#include "test/op_form.h"

#include <stdio.h>

#define NBYTES ((size_t)1 << 20)

static const enum gpu_way ways[] = {GPU_CUDA, GPU_MALLOC, GPU_VMM, GPU_POOL};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

/* Far below NIXLRUN_FINALIZE_TIMEOUT (10 s), far above what a loaded machine needs. */
#define SOON (4 * MPT_S)

static struct gpu_region regions[N_WAYS];

static void put_to(int other, struct fake_stream *stream)
{
    for (size_t i = 0; i < N_WAYS; i++) {
        void *src = (void *)regions[0].addr;
        int status = nixl_put_x(other, regions[i].region, 0, src, NBYTES / 2,
                                (struct nixl_op[]){op_stream(stream)}, NULL);

        if (status == NIXL_E_UNSUPPORTED) { /* the GPU does not reach such memory of another */
            printf("# %s: %s\n", gpu_way_names[ways[i]], nixl_last_error()->text);
            status = nixl_put(other, regions[i].region, 0, src, NBYTES / 2);
        }
        MPT_OK(status);
    }
    GPU_OK(cu.cuStreamSynchronize(stream));
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
}

int main(void)
{
    struct fake_stream *stream;
    int64_t began, took;
    char name[32];

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    gpu_start();
    for (size_t i = 0; i < N_WAYS; i++) {
        snprintf(name, sizeof(name), "way %zu", i);
        MPT_TRUE(gpu_region_make(name, ways[i], NBYTES, &regions[i]));
    }
    GPU_OK(cu.cuStreamCreate(&stream, 1));
    put_to(1 - nixl_rank(), stream);
    mpt_barrier();
    began = mpt_now_ns();
    MPT_OK(nixl_finalize());
    took = mpt_now_ns() - began;
    if (took > SOON) {
        mpt_fail(__FILE__, __LINE__, "nixl_finalize() took %lld ms; allowed: %lld",
                 (long long)(took / MPT_MS), (long long)(SOON / MPT_MS));
    }
    for (size_t i = 1; i < N_WAYS; i++) {
        gpu_memory_end(&regions[i]);
    }
    GPU_OK(cu.cuStreamDestroy(stream));
    gpu_stop();
    return mpt_passed();
}
