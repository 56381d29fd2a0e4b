/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many small pieces by the kernel, which the stand-in runs: whether it is used, what it copies, and
 * what is done where it cannot be used. That the kernel's own text is right is seen on a GPU only.
 */
#include "cuda_case.h"
#include "util/clock.h"
#include "util/env.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define STRIDE 8192

TestSuite(cuda_scatter, .timeout = 120);

/* Own memory on two devices, and pieces from one to the other. */
static struct nxr_memory from, to;
static struct nxr_device_piece pieces[NXR_LIST_MAX];

static void make_memory(size_t nbytes, const char *device)
{
    cuda_start();
    nxr_env.cuda_kernel = true;
    from = cuda_alloc(nbytes, "0");
    to = cuda_alloc(nbytes, device);
    cuda_fill(from.addr, nbytes, 3);
    cuda_fill(to.addr, nbytes, 4);
}

static void give_back(void)
{
    nxr_memory_cuda.release(&from);
    nxr_memory_cuda.release(&to);
    cuda_expect_no_context();
    nxr_memory_cuda.stop();
}

/* Pieces of many sizes and alignments, empty ones too, not in the order of their addresses. */
static size_t cut(size_t i, size_t n)
{
    size_t slot = (i * 311) % n, nbytes = i % 7 == 0 ? 0 : (i * 37) % (STRIDE - 64);
    char *dst = (char *)to.addr + slot * STRIDE, *src = (char *)from.addr + slot * STRIDE;

    pieces[i] =
        (struct nxr_device_piece){dst + i % 19, src + (i % 3 == 0 ? i % 19 : i % 5), nbytes};
    return nbytes;
}

/* Is every byte of the pieces there, and none beside them changed? */
static void check(size_t n)
{
    unsigned char *bytes = malloc(to.nbytes), *seen = malloc(to.nbytes);

    for (size_t i = 0; i < to.nbytes; i++) {
        bytes[i] = cuda_byte(i, 4);
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)((char *)pieces[i].dst - (char *)to.addr);
        size_t there = (size_t)((const char *)pieces[i].src - (char *)from.addr);

        for (size_t k = 0; k < pieces[i].nbytes; k++) {
            bytes[at + k] = cuda_byte(there + k, 3);
        }
    }
    cr_assert(eq(int, cuda_copy(seen, to.addr, to.nbytes), NIXL_OK));
    cr_assert(eq(int, memcmp(seen, bytes, to.nbytes), 0));
    free(bytes);
    free(seen);
}

/* The lane remembers the copy: it stays where it is until it has ended. */
static void start(struct nxr_device_copy *copy, size_t n, cu_stream stream)
{
    *copy = (struct nxr_device_copy){
        .pieces = pieces, .n_pieces = n, .dst = to.range, .src = from.range, .stream = stream};
    cr_assert(eq(int, nxr_memory_cuda.copy_start(copy), NIXL_INPROGRESS));
}

/* Several times, so that lists are used again; and whether it was the kernel. */
static void copy_pieces(const char *device, bool is_by_kernel)
{
    enum { N = 600 };

    setenv("FAKECUDA_DELAY_US", "20", 1); /* whoever looks too early is found out */
    make_memory(N * STRIDE, device);
    for (size_t i = 0; i < N; i++) {
        cut(i, N);
    }
    for (int round = 0; round < 3; round++) {
        struct nxr_device_copy copy;

        start(&copy, N, NULL);
        cr_expect(eq(int, copy.state[NXR_CUDA_COPY_LIST] != NULL, is_by_kernel));
        if (round == 1) {
            nxr_memory_cuda.copy_arm(&copy);
        }
        cuda_wait(&copy);
        cr_expect(eq(ptr, copy.state[NXR_CUDA_COPY_LIST], NULL));
        check(N);
        cuda_fill(to.addr, to.nbytes, 4);
    }
    cr_expect(le(uint, nxr_cuda.devices[0].kernel.n_lists, 1));
    give_back();
}

Test(cuda_scatter, in_a_device)
{
    copy_pieces("0", true);
}

Test(cuda_scatter, across_devices)
{
    copy_pieces("1", true);
}

Test(cuda_scatter, across_devices_with_mapped_memory)
{
    setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle=801", 1);
    copy_pieces("1", true);
}

Test(cuda_scatter, across_devices_that_do_not_reach_each_other)
{
    setenv("FAKECUDA_P2P", "0", 1);
    copy_pieces("1", false);
}

Test(cuda_scatter, module_that_is_not_loaded)
{
    setenv("FAKECUDA_FAIL", "cuModuleLoadData=222", 1);
    copy_pieces("0", false);
}

Test(cuda_scatter, module_without_the_kernel)
{
    setenv("FAKECUDA_FAIL", "cuModuleGetFunction=500", 1);
    copy_pieces("0", false);
}

Test(cuda_scatter, kernel_that_is_not_launched)
{
    setenv("FAKECUDA_FAIL", "cuLaunchKernel=701", 1);
    copy_pieces("0", false);
}

Test(cuda_scatter, no_page_locked_memory)
{
    setenv("FAKECUDA_FAIL", "cuMemHostAlloc=2", 1);
    copy_pieces("0", false);
}

Test(cuda_scatter, by_the_users_wish)
{
    enum { N = 8 };
    struct nxr_device_copy copy;

    make_memory(N * STRIDE, "0");
    nxr_env.cuda_kernel = false;
    for (size_t i = 0; i < N; i++) {
        cut(i, N);
    }
    start(&copy, N, NULL);
    cr_expect(eq(ptr, copy.state[NXR_CUDA_COPY_LIST], NULL));
    cuda_wait(&copy);
    check(N);
    give_back();
}

/* What is copied by kernels at a time is limited: more has no list, until one is given back. */
Test(cuda_scatter, lists_are_limited_and_used_again)
{
    enum { MOST = 64, MANY = 100 };
    static struct nxr_cuda_list *lists[MANY];
    struct nxr_device_copy copy = {0};
    size_t n = 0;

    make_memory(4096, "0");
    cr_assert(nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0])));
    while (n < MANY && (lists[n] = nxr_cuda_list_take(&nxr_cuda.devices[0].kernel)) != NULL) {
        n++;
    }
    cr_assert(eq(sz, n, MOST));
    copy.state[NXR_CUDA_COPY_DEVICE] = &nxr_cuda.devices[0];
    for (size_t i = 0; i < n; i++) {
        copy.state[NXR_CUDA_COPY_LIST] = lists[i];
        nxr_cuda_list_give(&copy);
        cr_expect(eq(ptr, copy.state[NXR_CUDA_COPY_LIST], NULL));
        cr_expect(eq(ptr, nxr_cuda_list_take(&nxr_cuda.devices[0].kernel), lists[i]));
    }
    for (size_t i = 0; i < n; i++) {
        copy.state[NXR_CUDA_COPY_LIST] = lists[i];
        nxr_cuda_list_give(&copy);
    }
    nxr_cuda_leave(true);
    give_back();
}

/* Large pieces are left to the driver. */
Test(cuda_scatter, large_pieces)
{
    struct nxr_device_copy copy;

    make_memory(4 * MIB, "1");
    for (size_t i = 0; i < 2; i++) {
        pieces[i] = (struct nxr_device_piece){(char *)to.addr + i * MIB,
                                              (char *)from.addr + (2 + i) * MIB, MIB};
    }
    start(&copy, 2, NULL);
    cr_expect(eq(ptr, copy.state[NXR_CUDA_COPY_LIST], NULL));
    cuda_wait(&copy);
    check(2);
    give_back();
}

/* As many pieces as there may be, some cut. */
Test(cuda_scatter, long_list)
{
    const size_t n_small = NXR_LIST_MAX - 40, n_large = 40, nbytes = 82 * MIB;
    uint64_t *words = malloc(nbytes), *seen = malloc(nbytes);
    struct nxr_device_copy copy;
    size_t at = 0;

    cuda_start();
    nxr_env.cuda_kernel = true;
    from = cuda_alloc(nbytes, "0");
    to = cuda_alloc(nbytes, "1");
    for (size_t i = 0; i < nbytes / sizeof(words[0]); i++) {
        words[i] = i * 0x9e3779b97f4a7c15u;
    }
    cr_assert(eq(int, cuda_copy(from.addr, words, nbytes), NIXL_OK));
    for (size_t i = 0; i < NXR_LIST_MAX; i++) {
        size_t piece = i < n_small ? 1500 : (nbytes - n_small * 1500) / n_large;

        pieces[i] = (struct nxr_device_piece){(char *)to.addr + at, (char *)from.addr + at, piece};
        at += piece;
    }
    start(&copy, NXR_LIST_MAX, NULL);
    cr_expect(ne(ptr, copy.state[NXR_CUDA_COPY_LIST], NULL));
    nxr_memory_cuda.copy_arm(&copy);
    cuda_wait(&copy);
    cr_assert(eq(int, cuda_copy(seen, to.addr, nbytes), NIXL_OK));
    cr_expect(eq(int, memcmp(seen, words, at), 0));
    free(words);
    free(seen);
    give_back();
}

/* Several lists under way in one stream: a list is not written while a kernel may read it. */
Test(cuda_scatter, many_at_once)
{
    enum { N = 20, EACH = 30 };
    static struct nxr_device_copy copies[N];

    setenv("FAKECUDA_DELAY_US", "500", 1);
    make_memory(N * EACH * STRIDE, "1");
    for (size_t i = 0; i < N * EACH; i++) {
        cut(i, N * EACH);
    }
    for (size_t i = 0; i < N; i++) {
        copies[i] = (struct nxr_device_copy){
            .pieces = pieces + i * EACH, .n_pieces = EACH, .dst = to.range, .src = from.range};
        cr_assert(eq(int, nxr_memory_cuda.copy_start(&copies[i]), NIXL_INPROGRESS));
        cr_expect(ne(ptr, copies[i].state[NXR_CUDA_COPY_LIST], NULL));
    }
    for (size_t i = 0; i < N; i++) {
        cuda_wait(&copies[i]);
    }
    check(N * EACH);
    give_back();
}

/* In two lanes, so that the next has begun where one ends; their ends are expected as of one. */
Test(cuda_scatter, long_lists_take_turns)
{
    enum { N = 1024, LISTS = 3 };
    static struct nxr_device_copy copies[LISTS];
    int64_t ends[LISTS];

    setenv("FAKECUDA_DELAY_US", "5000", 1);
    make_memory(N * STRIDE, "1");
    for (size_t i = 0; i < N; i++) {
        pieces[i] = (struct nxr_device_piece){(char *)to.addr + i * STRIDE,
                                              (char *)from.addr + i * STRIDE, STRIDE};
    }
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < LISTS; i++) {
            copies[i] = (struct nxr_device_copy){.pieces = pieces,
                                                 .n_pieces = N,
                                                 .dst = to.range,
                                                 .src = from.range,
                                                 .began_ns = nxr_now_ns()};
            cr_assert(eq(int, nxr_memory_cuda.copy_start(&copies[i]), NIXL_INPROGRESS));
            ends[i] = (intptr_t)copies[i].state[NXR_CUDA_COPY_END];
        }
        cr_expect(
            ne(ptr, copies[0].state[NXR_CUDA_COPY_LANE], copies[1].state[NXR_CUDA_COPY_LANE]));
        cr_expect(
            eq(ptr, copies[0].state[NXR_CUDA_COPY_LANE], copies[2].state[NXR_CUDA_COPY_LANE]));
        cr_expect(eq(int, ends[0] > 0, round > 0), "known once one was seen");
        cr_expect(eq(int, ends[1] > ends[0] && ends[2] > ends[1], round > 0));
        for (size_t i = 0; i < LISTS; i++) {
            cuda_wait(&copies[i]);
        }
    }
    check(N);
    give_back();
}

/* Behind what was queued in a stream of the user's, of our context and of none of ours. */
Test(cuda_scatter, stream_of_the_users)
{
    enum { N = 12 };
    struct nxr_device_copy copy;
    cu_stream stream;

    setenv("FAKECUDA_DELAY_US", "5000", 1);
    make_memory(N * STRIDE, "0");
    for (size_t i = 0; i < N; i++) {
        cut(i, N);
    }
    cr_assert(nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0])));
    cr_assert(eq(uint, nxr_cu.StreamCreate(&stream, CU_STREAM_IS_NON_BLOCKING), CU_OK));
    start(&copy, N, stream);
    cr_expect(ne(ptr, copy.state[NXR_CUDA_COPY_LIST], NULL));
    cuda_wait(&copy);
    cr_expect(eq(uint, nxr_cu.StreamDestroy(stream), CU_OK));
    nxr_cuda_leave(true);
    check(N);
    give_back();
}
