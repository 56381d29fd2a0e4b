/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on CUDA streams. Each rank has a stream that it holds back by a word in pinned memory: what
 * was queued on it must not have happened before that word is set, must then happen in the order of
 * the stream, and the host must be able to wait for it, asleep or not.
 */
#include "test/gpu/gpu.h"
#include "test/op_form.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBYTES ((size_t)1 << 20)
#define TAG    0x57e0

static struct fake_stream *stream;
static struct gpu_region data, words; /* words: host memory, signals */
static uint64_t *gate;                /* the stream waits until it is *gate >= level */
static uint64_t level;
static int other;

/* What is queued from here on waits for open_gate(). */
static void close_gate(void)
{
    GPU_OK(cu.cuStreamWaitValue64(stream, (uintptr_t)gate, ++level, CU_WAIT_GEQ));
}

static void open_gate(void)
{
    __atomic_store_n(gate, level, __ATOMIC_RELEASE);
}

static void queue_fill(uintptr_t addr, size_t nbytes, unsigned char value)
{
    GPU_OK(cu.cuMemsetD8Async(addr, value, nbytes, stream));
}

static void expect_bytes(uintptr_t addr, size_t nbytes, int value)
{
    unsigned char *bytes = malloc(nbytes);

    MPT_TRUE(bytes != NULL);
    gpu_read(bytes, addr, nbytes);
    MPT_CHECK_BYTES(bytes, nbytes, value);
    free(bytes);
}

/* ---- put and get ----------------------------------------------------------------------------- */

/*
 * The source is filled by the stream itself, between the call and the copy: a put that does not
 * wait for its turn takes the old bytes. The same for what a get finds at the peer.
 */
static void check_order(void)
{
    uintptr_t here = data.addr, there = data.addr + NBYTES;
    struct nixl_req *req = NULL;
    int32_t outcome;

    gpu_fill(&data, 0, NBYTES, 1);
    mpt_barrier();
    close_gate();
    queue_fill(here, NBYTES, 0x11);
    MPT_STATUS(nixl_put_x(other, data.region, 2 * NBYTES, (void *)here, NBYTES,
                          (struct nixl_op[]){op_stream(stream)}, &req),
               NIXL_INPROGRESS);
    queue_fill(here, NBYTES, 0x22);
    MPT_STATUS(nixl_req_test(&req), NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_cancel(&req, 0, &outcome), NIXL_INPROGRESS);
    MPT_STATUS(nixl_flush(other, 0), NIXL_INPROGRESS);
    open_gate();
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier();
    expect_bytes(data.addr + 2 * NBYTES, NBYTES, 0x11);
    close_gate();
    MPT_STATUS(nixl_get_x(other, data.region, 2 * NBYTES, (void *)there, NBYTES,
                          (struct nixl_op[]){op_stream(stream)}, &req),
               NIXL_INPROGRESS);
    GPU_OK(cu.cuMemcpyAsync(here, there, NBYTES, stream));
    open_gate();
    GPU_OK(cu.cuStreamSynchronize(stream));
    expect_bytes(here, NBYTES, 0x11);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier();
}

/* Nothing waits for the request; a marker without bytes follows it. */
static void check_unobserved(void)
{
    struct nixl_req *req = NULL;

    close_gate();
    queue_fill(data.addr, NBYTES, 0x33);
    MPT_OK(nixl_put_x(other, data.region, 2 * NBYTES, (void *)data.addr, NBYTES,
                      (struct nixl_op[]){op_stream(stream)}, NULL));
    MPT_STATUS(nixl_put_x(other, data.region, 0, (void *)data.addr, 0,
                          (struct nixl_op[]){op_stream(stream)}, &req),
               NIXL_INPROGRESS);
    MPT_STATUS(nixl_flush(other, 0), NIXL_INPROGRESS);
    open_gate();
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier();
    expect_bytes(data.addr + 2 * NBYTES, NBYTES, 0x33);
    mpt_barrier();
}

/* ---- notifications and signals --------------------------------------------------------------- */

static void check_notify(int round)
{
    static struct nixl_note note;
    unsigned char value = (unsigned char)(0x40 + round);

    close_gate();
    queue_fill(data.addr, NBYTES, value);
    MPT_OK(nixl_put_x(other, data.region, 2 * NBYTES, (void *)data.addr, NBYTES,
                      (struct nixl_op[]){op_stream_note(stream, TAG, &value, 1)}, NULL));
    MPT_OK(nixl_notify(other, TAG + 1, NULL, 0, MPT_PATIENCE)); /* must stay behind */
    open_gate();
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(other, 0, 0, MPT_PATIENCE, &note));
    MPT_EQ(note.tag, TAG);
    MPT_EQ(note.payload[0], value);
    expect_bytes(data.addr + 2 * NBYTES, NBYTES, value);
    MPT_OK(nixl_notify_recv(other, 0, 0, MPT_PATIENCE, &note));
    MPT_EQ(note.tag, TAG + 1);
    mpt_barrier();
}

/* The peer's stream sets a word of mine; first I wait on the host, then my stream does. */
static void check_signals(int round)
{
    const uint64_t *word = (const uint64_t *)words.addr;
    unsigned char value = (unsigned char)(0x80 + round);
    uint64_t wanted = 2 * (uint64_t)round + 1;

    close_gate();
    queue_fill(data.addr, NBYTES, value);
    MPT_OK(nixl_put_x(other, data.region, 2 * NBYTES, (void *)data.addr, NBYTES,
                      (struct nixl_op[]){op_stream(stream)}, NULL));
    MPT_OK(nixl_signal_x(other, words.region, 0, NIXL_SIGNAL_SET, wanted,
                         (struct nixl_op[]){op_stream(stream)}, NULL));
    open_gate();
    MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_GE, wanted, MPT_PATIENCE, NULL));
    expect_bytes(data.addr + 2 * NBYTES, NBYTES, value);
    GPU_OK(cu.cuStreamSynchronize(stream));
    mpt_barrier();
    MPT_OK(nixl_signal_wait_x(word, NIXL_COMPARE_GE, wanted + 1,
                              (struct nixl_op[]){op_stream(stream)}, NULL));
    GPU_OK(cu.cuMemcpyAsync(data.addr, data.addr + 2 * NBYTES, NBYTES, stream));
    MPT_EQ(cu.cuStreamQuery(stream), CU_NOT_READY);
    mpt_barrier(); /* both streams wait now, and the host goes on */
    gpu_fill(&data, NBYTES, NBYTES, 7000 + wanted);
    MPT_OK(nixl_put_signal(other, data.region, 2 * NBYTES, (void *)(data.addr + NBYTES), NBYTES,
                           words.region, 0, NIXL_SIGNAL_ADD, 1));
    GPU_OK(cu.cuStreamSynchronize(stream));
    GPU_CHECK(&data, 0, NBYTES, 7000 + wanted);
    mpt_barrier();
}

/* ---- closing --------------------------------------------------------------------------------- */

/* A word that is put at once, whatever is queued: by it rank 0 reports what it has queued. */
static void tell(uint64_t value)
{
    MPT_OK(nixl_put(1, words.region, 8, &value, sizeof(value)));
}

/* The owner's close waits for a copy that a stream has not come to yet. */
static void check_close(void)
{
    struct nixl_region *region;
    struct gpu_region brief;

    if (nixl_rank() == 1) {
        MPT_TRUE(gpu_region_make("brief", GPU_CUDA, NBYTES, &brief));
        mpt_barrier();
        MPT_OK(
            nixl_signal_wait((uint64_t *)words.addr + 1, NIXL_COMPARE_EQ, 1, MPT_PATIENCE, NULL));
        MPT_STATUS(nixl_region_close(brief.region, 0), NIXL_INPROGRESS);
        MPT_OK(nixl_notify(0, TAG + 2, NULL, 0, MPT_PATIENCE));
        MPT_OK(nixl_region_close(brief.region, MPT_PATIENCE));
    } else {
        static struct nixl_note note;

        MPT_OK(nixl_region_open("brief", &region));
        mpt_barrier();
        close_gate();
        MPT_OK(nixl_put_x(1, region, 0, (void *)data.addr, NBYTES,
                          (struct nixl_op[]){op_stream(stream)}, NULL));
        tell(1);
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(1, TAG + 2, UINT64_MAX, MPT_PATIENCE, &note));
        open_gate();
        GPU_OK(cu.cuStreamSynchronize(stream));
        MPT_STATUS(nixl_put_x(1, region, 0, (void *)data.addr, NBYTES,
                              (struct nixl_op[]){op_stream(stream)}, NULL),
                   NIXL_E_STALE);
        MPT_OK(nixl_flush(1, MPT_PATIENCE));
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
    mpt_barrier();
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static void check_refusals(void)
{
    static unsigned char bytes[64] __attribute__((aligned(8)));
    struct nixl_req *req = NULL;

    MPT_STATUS(
        nixl_put_x(other, words.region, 0, bytes, 8, (struct nixl_op[]){op_stream(stream)}, &req),
        NIXL_E_UNSUPPORTED);
    MPT_STATUS(
        nixl_get_x(other, words.region, 0, bytes, 8, (struct nixl_op[]){op_stream(stream)}, &req),
        NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_put_x(other, data.region, 3 * NBYTES, bytes, 1,
                          (struct nixl_op[]){op_stream(stream)}, &req),
               NIXL_E_RANGE);
    MPT_STATUS(
        nixl_put_x(other, data.region, 0, NULL, 1, (struct nixl_op[]){op_stream(stream)}, &req),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_put_x(99, data.region, 0, bytes, 1, (struct nixl_op[]){op_stream(stream)}, &req),
        NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_x(other, words.region, 4, NIXL_SIGNAL_SET, 1,
                             (struct nixl_op[]){op_stream(stream)}, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_x(other, words.region, 4096, NIXL_SIGNAL_SET, 1,
                             (struct nixl_op[]){op_stream(stream)}, NULL),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_signal_wait_x((uint64_t *)(void *)bytes, NIXL_COMPARE_EQ, 1,
                                  (struct nixl_op[]){op_stream(stream)}, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_signal_wait_x((uint64_t *)words.addr, NIXL_COMPARE_LT, 1,
                                  (struct nixl_op[]){op_stream(stream)}, NULL),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(
        nixl_signal_wait_x(NULL, NIXL_COMPARE_EQ, 1, (struct nixl_op[]){op_stream(stream)}, NULL),
        NIXL_E_INVALID_ARG);
    MPT_TRUE(req == NULL);
}

int main(int argc, char **argv)
{
    mpt_start();
    MPT_OK(nixl_init(NULL));
    MPT_EQ(nixl_size(), 2);
    other = 1 - nixl_rank();
    gpu_start();
    MPT_TRUE(gpu_region_make("data", GPU_CUDA, 3 * NBYTES, &data));
    MPT_TRUE(gpu_region_make("words", GPU_HOST, 4096, &words));
    GPU_OK(cu.cuStreamCreate(&stream, 1));
    GPU_OK(cu.cuMemHostAlloc((void **)&gate, 4096, 0));
    *gate = 0;
    mpt_barrier();
    check_order();
    check_unobserved();
    for (int round = 0; round < (argc > 1 ? atoi(argv[1]) : 20); round++) {
        check_notify(round % 16);
        check_signals(round);
    }
    check_close();
    check_refusals();
    mpt_barrier();
    GPU_OK(cu.cuStreamDestroy(stream));
    GPU_OK(cu.cuMemFreeHost(gate));
    gpu_region_end(&data);
    gpu_region_end(&words);
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
