/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by CUDA over the stand-in, whose copies are late: every pair of ends, many pieces, many at
 * once, a user's stream, and what happens after an error.
 */
#include "cuda_case.h"
#include "util/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

TestSuite(cuda_copy, .timeout = 120);

/* A copy between memory of any kind. */
static struct nxr_device_copy make(struct nxr_device_piece *pieces, size_t n_pieces)
{
    return (struct nxr_device_copy){
        .pieces = pieces,
        .n_pieces = n_pieces,
        .dst = nxr_range_find(pieces[0].dst),
        .src = nxr_range_find(pieces[0].src),
    };
}

static void across_devices(void)
{
    struct nxr_memory first, second, third;

    cuda_start();
    first = cuda_alloc(3 * MIB, "0");
    second = cuda_alloc(3 * MIB, "1");
    third = cuda_alloc(3 * MIB, "0");
    cuda_fill(first.addr, 3 * MIB, 7);
    cr_assert(eq(int, cuda_copy(second.addr, first.addr, 3 * MIB), NIXL_OK));
    cr_expect(cuda_holds(second.addr, 3 * MIB, 7));
    cr_assert(eq(int, cuda_copy(third.addr, second.addr, 3 * MIB), NIXL_OK));
    cr_expect(cuda_holds(third.addr, 3 * MIB, 7));
    cr_assert(eq(int, cuda_copy(third.addr, first.addr, 0), NIXL_OK));
    cuda_expect_no_context();
    nxr_memory_cuda.release(&first);
    nxr_memory_cuda.release(&second);
    nxr_memory_cuda.release(&third);
    nxr_memory_cuda.stop();
}

Test(cuda_copy, across_devices)
{
    across_devices();
}

Test(cuda_copy, across_devices_that_do_not_reach_each_other)
{
    setenv("FAKECUDA_P2P", "0", 1);
    across_devices();
}

Test(cuda_copy, mapped_memory_across_devices)
{
    setenv("FAKECUDA_FAIL", "cuIpcGetMemHandle=801", 1);
    across_devices();
}

/* Pieces of many sizes, empty ones too, scattered: more than fit into one batch. */
static void many_pieces(void)
{
    enum { N = 700, STRIDE = 8192 };
    static struct nxr_device_piece there[N], back[N];
    struct nxr_memory memory;
    struct nxr_device_copy copy;
    unsigned char *bytes = malloc(N * STRIDE), *seen = calloc(N, STRIDE);

    cuda_start();
    memory = cuda_alloc(N * STRIDE, NULL);
    for (size_t i = 0; i < N * STRIDE; i++) {
        bytes[i] = cuda_byte(i, 8);
    }
    for (size_t i = 0; i < N; i++) {
        size_t nbytes = i % 5 == 0 ? 0 : (i * 37) % STRIDE;
        size_t slot = (i * 311) % N; /* 311 and 700 have no common divisor */
        char *device = (char *)memory.addr + slot * STRIDE;

        there[i] = (struct nxr_device_piece){device, bytes + i * STRIDE, nbytes};
        back[i] = (struct nxr_device_piece){seen + i * STRIDE, device, nbytes};
    }
    copy = make(there, N);
    cr_assert(eq(int, nxr_memory_cuda.copy_start(&copy), NIXL_INPROGRESS));
    cuda_wait(&copy);
    copy = make(back, N);
    cr_assert(eq(int, nxr_memory_cuda.copy_start(&copy), NIXL_INPROGRESS));
    cuda_wait(&copy);
    for (size_t i = 0; i < N; i++) {
        cr_assert(eq(int, memcmp(seen + i * STRIDE, bytes + i * STRIDE, there[i].nbytes), 0),
                  "piece %zu", i);
        cr_assert(eq(u8, seen[i * STRIDE + there[i].nbytes], 0), "piece %zu is too long", i);
    }
    free(bytes);
    free(seen);
    nxr_memory_cuda.release(&memory);
}

Test(cuda_copy, many_pieces)
{
    many_pieces();
}

Test(cuda_copy, many_pieces_without_batches)
{
    setenv("FAKECUDA_VERSION", "12000", 1);
    many_pieces();
    cr_expect(eq(ptr, nxr_cu.MemcpyBatchAsync, NULL));
}

Test(cuda_copy, many_pieces_where_batches_fail)
{
    setenv("FAKECUDA_FAIL", "cuMemcpyBatchAsync=801", 1);
    many_pieces();
}

Test(cuda_copy, many_at_once_in_a_stream)
{
    enum { N = 24 };
    struct nxr_device_piece pieces[N];
    struct nxr_device_copy copies[N];
    struct nxr_memory memory, other;

    setenv("FAKECUDA_DELAY_US", "500", 1);
    cuda_start();
    memory = cuda_alloc(N * 64 * KIB, NULL);
    other = cuda_alloc(N * 64 * KIB, NULL);
    cuda_fill(memory.addr, memory.nbytes, 9);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            pieces[i] = (struct nxr_device_piece){(char *)other.addr + i * 64 * KIB,
                                                  (char *)memory.addr + i * 64 * KIB, 64 * KIB};
            copies[i] = make(&pieces[i], 1);
            cr_assert(eq(int, nxr_memory_cuda.copy_start(&copies[i]), NIXL_INPROGRESS));
        }
        for (size_t i = 0; i < N; i++) { /* also if the last is asked for first */
            cuda_wait(&copies[round == 1 ? N - 1 - i : i]);
        }
    }
    cr_expect(cuda_holds(other.addr, other.nbytes, 9));
    nxr_memory_cuda.release(&memory);
    nxr_memory_cuda.release(&other);
    nxr_memory_cuda.stop();
}

static int64_t expected_end(const struct nxr_device_copy *copy)
{
    return (intptr_t)copy->state[NXR_CUDA_COPY_END];
}

static void start_now(struct nxr_device_copy *copy)
{
    copy->began_ns = nxr_now_ns();
    cr_assert(eq(int, nxr_memory_cuda.copy_start(copy), NIXL_INPROGRESS));
}

/* Of large copies, once one has shown how long they take; what waits in a lane comes later. */
Test(cuda_copy, ends_are_expected)
{
    const size_t nbytes = 8 * MIB;
    struct nxr_memory from, to;
    struct nxr_device_piece piece, small;
    struct nxr_device_copy first, second, third;

    setenv("FAKECUDA_DELAY_US", "1000", 1);
    cuda_start();
    from = cuda_alloc(nbytes, NULL);
    to = cuda_alloc(nbytes, NULL);
    cuda_fill(from.addr, nbytes, 12);
    piece = (struct nxr_device_piece){to.addr, from.addr, nbytes};
    small = (struct nxr_device_piece){to.addr, from.addr, 64 * KIB};
    first = make(&piece, 1);
    start_now(&first);
    cr_expect(eq(i64, expected_end(&first), 0), "nothing is known");
    cuda_wait(&first);
    first = make(&piece, 1), second = make(&piece, 1), third = make(&small, 1);
    start_now(&first);
    start_now(&second);
    start_now(&third);
    cr_expect(gt(i64, expected_end(&first), first.began_ns));
    cr_expect(eq(i64, expected_end(&second) - expected_end(&first),
                 expected_end(&first) - first.began_ns));
    cr_expect(eq(i64, expected_end(&third), 0), "small ones are not worth it");
    nxr_memory_cuda.copy_arm(&first);
    nxr_memory_cuda.copy_arm(&second);
    cuda_wait(&first);
    cuda_wait(&second);
    cuda_wait(&third);
    cr_expect(cuda_holds(to.addr, nbytes, 12));
    nxr_memory_cuda.release(&from);
    nxr_memory_cuda.release(&to);
    nxr_memory_cuda.stop();
}

static void *copy_in_a_thread(void *argument)
{
    char *window = argument;
    unsigned seed = (unsigned)(uintptr_t)window;

    for (int i = 0; i < 50; i++) {
        cuda_fill(window, 64 * KIB, seed + (unsigned)i);
        if (!cuda_holds(window, 64 * KIB, seed + (unsigned)i)) {
            return window;
        }
    }
    return NULL;
}

Test(cuda_copy, threads)
{
    pthread_t threads[12];
    struct nxr_memory memory;
    void *failed;

    cuda_start();
    memory = cuda_alloc(12 * 64 * KIB, NULL);
    for (size_t i = 0; i < 12; i++) {
        cr_assert(eq(
            int,
            pthread_create(&threads[i], NULL, copy_in_a_thread, (char *)memory.addr + i * 64 * KIB),
            0));
    }
    for (size_t i = 0; i < 12; i++) {
        pthread_join(threads[i], &failed);
        cr_expect(eq(ptr, failed, NULL));
    }
    nxr_memory_cuda.release(&memory);
}

/* The memory behind it was closed between the submission of an operation and its start. */
Test(cuda_copy, segment_that_is_in_no_range)
{
    static _Atomic uint64_t generation = 1;
    struct nxr_memory memory;
    struct nxr_segment segment = {.method = NXR_METHOD_DEVICE,
                                  .generation = 1,
                                  .generation_now = &generation,
                                  .key = {.generation = 1},
                                  .import = (struct nxr_import *)&generation};
    static char bytes[64];

    cuda_start();
    memory = cuda_alloc(MIB, NULL);
    segment.addr = memory.addr;
    nxr_memory_cuda.release(&memory);
    memory = cuda_alloc(64 * KIB, NULL);
    segment.addr = nxr_range_find(segment.addr) == NULL ? segment.addr : (char *)&segment;
    cr_expect(eq(int, nxr_device_put(&segment, 0, bytes, sizeof(bytes)), NIXL_E_STALE));
    cr_expect(eq(int, nxr_device_get(&segment, 0, bytes, sizeof(bytes)), NIXL_E_STALE));
    cr_expect(eq(int, nxr_device_put(&segment, 0, memory.addr, 64), NIXL_E_STALE));
    cr_expect(eq(u32, atomic_load(&segment.n_copies), 0));
    nxr_memory_cuda.release(&memory);
}

/* Behind what was queued in a stream of the user's. */
Test(cuda_copy, stream_of_the_users)
{
    struct nxr_memory memory, other;
    struct nxr_device_piece piece;
    struct nxr_device_copy copy;
    cu_stream stream;

    setenv("FAKECUDA_DELAY_US", "20000", 1);
    cuda_start();
    memory = cuda_alloc(MIB, NULL);
    other = cuda_alloc(MIB, NULL);
    cr_assert(nxr_cuda_enter(nxr_cuda_context(&nxr_cuda.devices[0])));
    cr_assert(eq(uint, nxr_cu.StreamCreate(&stream, CU_STREAM_IS_NON_BLOCKING), CU_OK));
    cr_assert(eq(uint, nxr_cu.MemsetD8Async((uintptr_t)memory.addr, 0x77, MIB, stream), CU_OK));
    piece = (struct nxr_device_piece){other.addr, memory.addr, MIB};
    copy = make(&piece, 1);
    copy.stream = stream;
    cr_assert(eq(int, nxr_memory_cuda.copy_start(&copy), NIXL_INPROGRESS));
    nxr_memory_cuda.copy_arm(&copy);
    cuda_wait(&copy);
    cr_expect(eq(uint, nxr_cu.StreamDestroy(stream), CU_OK));
    nxr_cuda_leave(true);
    {
        unsigned char *bytes = malloc(MIB);

        cr_assert(eq(int, cuda_copy(bytes, other.addr, MIB), NIXL_OK));
        for (size_t i = 0; i < MIB; i++) {
            cr_assert(eq(u8, bytes[i], 0x77), "byte %zu", i);
        }
        free(bytes);
    }
    nxr_memory_cuda.release(&memory);
    nxr_memory_cuda.release(&other);
    nxr_memory_cuda.stop();
}

/* An armed copy ends like any other, the last of its stream or one before it. */
Test(cuda_copy, armed)
{
    enum { N = 12 };
    struct nxr_device_piece pieces[N];
    struct nxr_device_copy copies[N];
    struct nxr_memory memory, other;

    setenv("FAKECUDA_DELAY_US", "2000", 1);
    cuda_start();
    memory = cuda_alloc(N * KIB, "0");
    other = cuda_alloc(N * KIB, "1");
    cuda_fill(memory.addr, memory.nbytes, 10);
    for (size_t i = 0; i < N; i++) {
        pieces[i] = (struct nxr_device_piece){(char *)other.addr + i * KIB,
                                              (char *)memory.addr + i * KIB, KIB};
        copies[i] = make(&pieces[i], 1);
        cr_assert(eq(int, nxr_memory_cuda.copy_start(&copies[i]), NIXL_INPROGRESS));
        if (i % 3 != 1) {
            nxr_memory_cuda.copy_arm(&copies[i]);
        }
    }
    for (size_t i = 0; i < N; i++) {
        cuda_wait(&copies[i]);
    }
    cr_expect(cuda_holds(other.addr, other.nbytes, 10));
    nxr_memory_cuda.release(&memory);
    nxr_memory_cuda.release(&other);
    nxr_memory_cuda.stop();
}

/* One copy where that function fails, and whether the device is given up. */
static void expect_failure(const char *which, int status, bool is_given_up)
{
    struct nxr_memory memory;
    char bytes[64] = {0};

    setenv("FAKECUDA_FAIL", which, 1);
    cuda_start();
    memory = cuda_alloc(100, "0");
    for (int i = 0; i < 2; i++) {
        cr_expect(eq(int, cuda_copy(memory.addr, bytes, sizeof(bytes)), status));
        cr_expect(eq(int, nxr_cuda.devices[0].is_broken, is_given_up));
        cuda_expect_no_context();
    }
    nxr_memory_cuda.release(&memory);
    nxr_memory_cuda.stop();
}

Test(cuda_copy, error_that_ends_the_device)
{
    expect_failure("cuStreamQuery=700", NIXL_E_TRANSPORT, true);
}

Test(cuda_copy, copy_that_cannot_be_queued)
{
    expect_failure("cuMemcpyAsync=1", NIXL_E_UNSUPPORTED, false);
}
