/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of the memory model in nixlrun(7) with device memory and CUDA streams: rank 0 writes
 * into the device memory of rank 1, which looks for old bytes in each round.
 *
 *     gpu_litmus [ROUNDS]
 */
#include "test/gpu/gpu.h"
#include "test/op_form.h"

#include <stdio.h>
#include <stdlib.h>

#define NBYTES ((size_t)64 << 10)
#define TAG    0x11d0

static struct fake_stream *stream;
static struct gpu_region data, words; /* words: host memory */

static unsigned char byte_of(uint64_t round)
{
    return (unsigned char)(1 + round % 251);
}

static void tell(int to)
{
    MPT_OK(nixl_notify(to, TAG, NULL, 0, MPT_PATIENCE));
}

static void hear(int from)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(from, TAG, UINT64_MAX, MPT_PATIENCE, &note));
}

/* Rank 1: a copy on its own stream, queued after what it heard, finds the bytes of the round. */
static void check_by_stream(uint64_t round)
{
    static unsigned char bytes[NBYTES];

    GPU_OK(cu.cuMemcpyAsync(data.addr + NBYTES, data.addr, NBYTES, stream));
    GPU_OK(cu.cuStreamSynchronize(stream));
    gpu_read(bytes, data.addr + NBYTES, NBYTES);
    MPT_CHECK_BYTES(bytes, NBYTES, byte_of(round));
}

/* Rank 0: its stream fills the source and puts it; the call returns before that. */
static void queue_put(uint64_t round)
{
    const struct nixl_op op = op_stream(stream);
    struct nixl_req *req = NULL;
    int status;

    GPU_OK(cu.cuMemsetD8Async(data.addr, byte_of(round), NBYTES, stream));
    status = nixl_put_x(1, data.region, 0, (const void *)data.addr, NBYTES, &op, &req);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    MPT_OK(nixl_req_detach(&req));
}

/* M22: from host memory into device memory. */
static void a_notification_shows_a_put_to_a_device(uint64_t round)
{
    static unsigned char bytes[NBYTES];

    if (nixl_rank() == 0) {
        for (size_t i = 0; i < NBYTES; i++) {
            bytes[i] = byte_of(round);
        }
        MPT_OK(nixl_put(1, data.region, 0, bytes, NBYTES));
        tell(1);
        hear(1);
    } else {
        hear(0);
        check_by_stream(round);
        tell(0);
    }
}

/* M20: the host's notification waits for the stream. */
static void a_notification_shows_a_put_on_a_stream(uint64_t round)
{
    if (nixl_rank() == 0) {
        queue_put(round);
        tell(1);
        hear(1);
    } else {
        hear(0);
        check_by_stream(round);
        tell(0);
    }
}

/* M20: so does its signal, and its flush. */
static void a_signal_shows_a_put_on_a_stream(uint64_t round)
{
    uint64_t *word = (uint64_t *)words.addr;

    if (nixl_rank() == 0) {
        queue_put(round);
        if (round % 2 == 0) {
            MPT_OK(nixl_flush(1, MPT_PATIENCE));
        }
        MPT_OK(nixl_signal_set(1, words.region, 0, round));
        hear(1);
    } else {
        MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_GE, round, MPT_PATIENCE, NULL));
        check_by_stream(round);
        tell(0);
    }
}

/* M21: from stream to stream; no host orders anything. */
static void a_stream_shows_its_put_to_a_stream(uint64_t round)
{
    const struct nixl_op op = op_stream(stream);

    if (nixl_rank() == 0) {
        queue_put(round);
        MPT_OK(nixl_signal_x(1, words.region, 64, NIXL_SIGNAL_SET, round, &op, NULL));
        hear(1);
    } else {
        MPT_OK(
            nixl_signal_wait_x((uint64_t *)(words.addr + 64), NIXL_COMPARE_GE, round, &op, NULL));
        check_by_stream(round);
        tell(0);
    }
}

/* M19: a stream takes the shorter way around, a host does not. */
static void a_stream_compares_around_zero(uint64_t round)
{
    uint64_t *word = (uint64_t *)(words.addr + 128);
    const struct nixl_op op = op_stream(stream);

    MPT_OK(nixl_signal_set(nixl_rank(), words.region, 128, round % 16));
    MPT_STATUS(nixl_signal_wait(word, NIXL_COMPARE_GE, UINT64_MAX - 16, 0, NULL), NIXL_INPROGRESS);
    MPT_OK(nixl_signal_wait_x(word, NIXL_COMPARE_GE, UINT64_MAX - 16, &op, NULL));
    GPU_OK(cu.cuStreamSynchronize(stream));
}

static const struct {
    const char *name;
    void (*run)(uint64_t round);
} tests[] = {
    {"a_notification_shows_a_put_to_a_device", a_notification_shows_a_put_to_a_device},
    {"a_notification_shows_a_put_on_a_stream", a_notification_shows_a_put_on_a_stream},
    {"a_signal_shows_a_put_on_a_stream", a_signal_shows_a_put_on_a_stream},
    {"a_stream_shows_its_put_to_a_stream", a_stream_shows_its_put_to_a_stream},
    {"a_stream_compares_around_zero", a_stream_compares_around_zero},
};

int main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 200;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    gpu_start();
    MPT_TRUE(gpu_region_make("data", GPU_CUDA, 2 * NBYTES, &data));
    MPT_TRUE(gpu_region_make("words", GPU_HOST, 4096, &words));
    GPU_OK(cu.cuStreamCreate(&stream, 1));
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        int64_t start_ns;

        mpt_barrier();
        start_ns = mpt_now_ns();
        for (uint64_t round = 1; round <= rounds; round++) {
            tests[i].run(round);
        }
        printf("%s: %" PRIu64 " rounds, %.0f ms\n", tests[i].name, rounds,
               (double)(mpt_now_ns() - start_ns) / 1e6);
        fflush(stdout);
    }
    mpt_barrier();
    GPU_OK(cu.cuStreamDestroy(stream));
    gpu_region_end(&data);
    gpu_region_end(&words);
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
