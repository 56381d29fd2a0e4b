/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on channels whose slots are memory of the kind that `segment=` names. What a
 * producer is given is the consumer's slot where CUDA can open it, else host memory: it fills
 * either by CUDA.
 */
#include "conformance.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SLOT   65537
#define NSLOTS 3

/* ---- as a program with CUDA does it ---------------------------------------------------------- */

static void *cuda;

static void *cuda_call(const char *name)
{
    void *call = dlsym(cuda, name);

    MPT_TRUE(call != NULL);
    return call;
}

static void open_cuda(void)
{
    int (*init)(unsigned), (*retain)(void **, int), (*set_current)(void *);
    void *context = NULL;

    if (cuda != NULL) {
        return;
    }
    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    MPT_TRUE(cuda != NULL);
    *(void **)&init = cuda_call("cuInit");
    *(void **)&retain = cuda_call("cuDevicePrimaryCtxRetain");
    *(void **)&set_current = cuda_call("cuCtxSetCurrent");
    MPT_EQ(init(0), 0);
    MPT_EQ(retain(&context, 0), 0);
    MPT_EQ(set_current(context), 0);
}

/* Device memory or host memory; done when the call has returned. */
static void copy_by_cuda(void *dst, const void *src, size_t nbytes)
{
    int (*copy)(uintptr_t, uintptr_t, size_t), (*synchronize)(void);

    open_cuda();
    *(void **)&copy = cuda_call("cuMemcpy");
    *(void **)&synchronize = cuda_call("cuCtxSynchronize");
    MPT_EQ(copy((uintptr_t)dst, (uintptr_t)src, nbytes), 0);
    MPT_EQ(synchronize(), 0);
}

/* ---- items ----------------------------------------------------------------------------------- */

static size_t size_of(unsigned item)
{
    return item % 5 == 0 ? item % 2 * SLOT : item * 7919u % SLOT;
}

static void produce(struct nixl_channel *out, unsigned item)
{
    unsigned char *bytes = malloc(SLOT);
    void *slot;

    MPT_TRUE(bytes != NULL);
    mpt_fill(bytes, size_of(item), item + (uint64_t)conf.rank);
    MPT_OK(nixl_channel_acquire(out, MPT_PATIENCE, &slot));
    if (conf.segment_kind == NIXL_MEM_CUDA && size_of(item) > 0) {
        copy_by_cuda(slot, bytes, size_of(item));
    } else {
        memcpy(slot, bytes, size_of(item));
    }
    MPT_OK(nixl_channel_publish(out, size_of(item)));
    free(bytes);
}

/* The slot is memory of a region of this rank, from which it puts into another one. */
static void consume(struct nixl_channel *in, const struct segment *host, unsigned item)
{
    size_t nbytes;
    void *slot;
    int rank;

    MPT_OK(nixl_channel_recv(in, MPT_PATIENCE, &slot, &nbytes, &rank));
    MPT_EQ(rank, conf.prev);
    MPT_EQ(nbytes, size_of(item));
    MPT_OK(nixl_put(conf.rank, host->region, 0, slot, nbytes));
    MPT_OK(nixl_flush(conf.rank, MPT_PATIENCE));
    MPT_CHECK(host->addr, nbytes, item + (uint64_t)conf.prev);
    MPT_OK(nixl_channel_release(in, slot));
}

static void items_lie_in_memory_of_any_kind(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_channel *in, *out;
    struct segment host = {.nbytes = SLOT};
    unsigned n_out = 0, n = 4 * NSLOTS + 1;

    MPT_OK(nixl_region_alloc("kind.items", SLOT, NULL, &host.region));
    host.addr = nixl_region_addr(host.region);
    params.kind = conf.segment_kind;
    MPT_OK(nixl_channel_open("kind.channel", conf.prev, NIXL_CHANNEL_CONSUMER, SLOT, NSLOTS,
                             &params, &in));
    MPT_OK(nixl_channel_open("kind.channel", conf.next, NIXL_CHANNEL_PRODUCER, SLOT, NSLOTS, NULL,
                             &out));
    for (unsigned n_in = 0; n_in < n; n_in++) {
        for (; n_out < n && n_out < n_in + NSLOTS; n_out++) {
            produce(out, n_out);
        }
        consume(in, &host, n_in);
    }
    mpt_barrier();
    MPT_OK(nixl_channel_close(out, MPT_PATIENCE));
    MPT_OK(nixl_channel_close(in, MPT_PATIENCE));
    conf_drop(&host);
}

const struct guarantee conf_kinds_channel[] = {
    {"channel", NULL, 0},
    {"items_lie_in_memory_of_any_kind", items_lie_in_memory_of_any_kind, 0},
    {0},
};
