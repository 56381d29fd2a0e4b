/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory between two processes that were started separately, also in containers:
 *
 *     attach_gpu give WHERE             publish it: memory of nixl_region_alloc(), of cuMemAlloc()
 *     attach_gpu take WHERE METHOD...   attach, print how bytes move to each, and move them; the
 *                                       methods that nixl_route_query_segment() is to name
 *
 * The owner compares what the other one has put.
 */
#include "test/mp/mptest.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME   "gpu"
#define NBYTES ((size_t)3 << 20)

enum { TAG_COME = 1, TAG_DONE, SEED = 40 };

static const char *const names[] = {"allocated", "cuMemAlloc"};
static struct nixl_region *regions[2];
static char *bytes;

/* ---- the owner ------------------------------------------------------------------------------- */

static void *cuda_call(void *cuda, const char *name)
{
    void *call = dlsym(cuda, name);

    MPT_TRUE(call != NULL);
    return call;
}

static void *memory_of_cuda(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context = NULL;
    int (*init)(unsigned), (*retain)(void **, int), (*set_current)(void *);
    int (*allocate)(uintptr_t *, size_t);
    uintptr_t address = 0;

    MPT_TRUE(cuda != NULL);
    *(void **)&init = cuda_call(cuda, "cuInit");
    *(void **)&retain = cuda_call(cuda, "cuDevicePrimaryCtxRetain");
    *(void **)&set_current = cuda_call(cuda, "cuCtxSetCurrent");
    *(void **)&allocate = cuda_call(cuda, "cuMemAlloc_v2");
    MPT_EQ(init(0), 0);
    MPT_EQ(retain(&context, 0), 0);
    MPT_EQ(set_current(context), 0);
    MPT_EQ(allocate(&address, NBYTES), 0);
    return (void *)address; /* until this process ends */
}

static void give(const char *where)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_note note;

    params.kind = NIXL_MEM_CUDA;
    MPT_OK(nixl_region_alloc(names[0], NBYTES, &params, &regions[0]));
    MPT_OK(nixl_region_register(names[1], memory_of_cuda(), NBYTES, &params, &regions[1]));
    for (unsigned i = 0; i < 2; i++) {
        mpt_fill(bytes, NBYTES, SEED + i);
        MPT_OK(nixl_put(0, regions[i], 0, bytes, NBYTES));
    }
    MPT_OK(nixl_flush(0, MPT_PATIENCE));
    MPT_OK(nixl_publish(where, NAME, ""));
    puts("published");
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_COME, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(nixl_notify_recv(note.rank, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
    for (unsigned i = 0; i < 2; i++) {
        MPT_OK(nixl_get(0, regions[i], 0, bytes, NBYTES));
        MPT_CHECK(bytes, NBYTES, SEED + 2 + i);
    }
    MPT_OK(nixl_notify(note.rank, TAG_DONE, NULL, 0, MPT_PATIENCE));
}

/* ---- the other one --------------------------------------------------------------------------- */

/* How do bytes of host memory move to that segment? */
static void tell_route(int rank, unsigned which, const char *method)
{
    struct nixl_route_info info = NIXL_ROUTE_INFO_INIT;
    unsigned index = 0;

    do {
        MPT_OK(nixl_route_query_segment(rank, regions[which], NULL, index++, &info));
    } while (!info.is_chosen);
    printf("%s: %s, %s: %s\n", names[which], info.transport, info.method, info.why);
    MPT_TEXT(info.method, method);
}

static void take(const char *where, char **methods)
{
    struct nixl_note note;
    int rank;

    MPT_OK(nixl_attach(where, NAME, "", MPT_PATIENCE, &rank));
    MPT_OK(nixl_notify(rank, TAG_COME, NULL, 0, MPT_PATIENCE));
    for (unsigned i = 0; i < 2; i++) {
        MPT_OK(nixl_region_open(names[i], &regions[i]));
        tell_route(rank, i, methods[i]);
        MPT_OK(nixl_get(rank, regions[i], 0, bytes, NBYTES));
        MPT_CHECK(bytes, NBYTES, SEED + i);
        mpt_fill(bytes, NBYTES, SEED + 2 + i);
        MPT_OK(nixl_put(rank, regions[i], 0, bytes, NBYTES));
    }
    MPT_OK(nixl_flush(rank, MPT_PATIENCE));
    MPT_OK(nixl_notify(rank, TAG_DONE, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
}

int main(int argc, char **argv)
{
    mpt_start();
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPT_OK(nixl_init(NULL));
    bytes = malloc(NBYTES);
    MPT_TRUE(bytes != NULL);
    if (argc == 3 && strcmp(argv[1], "give") == 0) {
        give(argv[2]);
    } else {
        MPT_TRUE(argc == 5 && strcmp(argv[1], "take") == 0);
        take(argv[2], argv + 3);
    }
    for (unsigned i = 0; i < 2; i++) {
        MPT_OK(nixl_region_close(regions[i], MPT_PATIENCE));
    }
    free(bytes);
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
