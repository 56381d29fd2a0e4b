/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are killed at random moments of a put, a get, a notification or a change of a word.
 *
 *     fault_storm put|get|notify|word [registered|vulkan|cuda]
 *
 * M32: rank 0 talks with all victims, the last rank with none of them; all between are victims that
 * shoot themselves. Both survivors must hear of each death once, every call on a victim must end
 * with NIXL_E_PEER_LOST, what a victim had sent must arrive whole, and the survivors must go on.
 */
#include "mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG_STREAM 0xfa01
#define TAG_LIFE   0xfa02

#define NBYTES (1u << 20)

static int rank, size;
static struct nixl_region *region;
static unsigned char memory[NBYTES];
static uint64_t seed;

static bool is_victim(int other)
{
    return other != 0 && other != size - 1;
}

/* ---- one step of traffic with a peer; both sides do the same ----------------------------------
 */

static size_t random_nbytes(size_t limit)
{
    uint64_t random = mpt_random(&seed);

    return random % 4 == 0 ? random / 4 % limit : random / 4 % 200;
}

static int step_put(int other)
{
    return nixl_put(other, region, 0, memory, random_nbytes(NBYTES));
}

static int step_get(int other)
{
    return nixl_get(other, region, 0, memory, random_nbytes(NBYTES));
}

/* By turns an atomic, a signal and a put of a word. */
static int step_word(int other)
{
    static unsigned n_steps;
    const uint64_t one = 1;

    n_steps++;
    return n_steps % 3 == 0 ? nixl_put(other, region, 8, &one, 8)
           : n_steps % 3 == 1
               ? nixl_signal_add(other, region, 16, 1)
               : nixl_atomic(other, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL);
}

struct stream {
    uint64_t n_sent, n_received;
};
static struct stream *streams;

static int receive_stream(int other)
{
    static struct nixl_note note;
    uint64_t number;
    int status;

    for (;;) {
        nixl_note_init(&note);
        status = nixl_notify_recv(other, TAG_STREAM, UINT64_MAX, 0, &note);
        if (status != NIXL_OK) {
            return status == NIXL_INPROGRESS ? NIXL_OK : status;
        }
        memcpy(&number, note.payload, 8);
        MPT_EQ(number, streams[other].n_received);
        MPT_CHECK(note.payload + 8, note.nbytes - 8, number);
        streams[other].n_received++;
    }
}

/* Send one notification and take all that came; a full queue is no reason to stop taking. */
static int step_notify(int other)
{
    unsigned char message[NIXL_NOTE_MAX];
    size_t nbytes = 8 + random_nbytes(NIXL_NOTE_MAX - 8);
    int status;

    memcpy(message, &streams[other].n_sent, 8);
    mpt_fill(message + 8, nbytes - 8, streams[other].n_sent);
    status = nixl_notify(other, TAG_STREAM, message, nbytes, 0);
    if (status == NIXL_OK) {
        streams[other].n_sent++;
    } else if (status != NIXL_E_AGAIN) {
        MPT_STATUS(status, NIXL_E_PEER_LOST);
        MPT_EQ(nixl_peer_state(nixl_last_error()->rank), NIXL_PEER_LOST);
    }
    return receive_stream(other);
}

static int (*step)(int other);

/* ---- the three roles --------------------------------------------------------------------------
 */

/* Shoots the process while its main thread is somewhere in its traffic. */
static void *shoot(void *arg)
{
    const struct timespec *delay = arg;

    nanosleep(delay, NULL);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void be_victim(void)
{
    struct timespec delay = {.tv_nsec = (long)(mpt_random(&seed) % 30000000)};
    pthread_t thread;

    MPT_EQ(pthread_create(&thread, NULL, shoot, &delay), 0);
    for (;;) {
        MPT_OK(step(0));
    }
}

static void expect_deaths(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    bool *is_told = calloc((size_t)size, sizeof(*is_told));

    for (int n_left = size - 2; n_left > 0; n_left--) {
        MPT_OK(nixl_event_recv(MPT_PATIENCE, &event));
        MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
        MPT_TRUE(is_victim(event.rank) && !is_told[event.rank]);
        is_told[event.rank] = true;
        MPT_EQ(nixl_peer_state(event.rank), NIXL_PEER_LOST);
    }
    MPT_STATUS(nixl_event_recv(0, &event), NIXL_INPROGRESS);
    free(is_told);
}

/* Every kind of call on the dead ends without a wait. */
static void call_the_dead(int dead)
{
    static struct nixl_note note;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *other = NULL;
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_put(dead, region, 0, memory, 8), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_last_error()->rank, dead);
    MPT_STATUS(nixl_get(dead, region, 0, memory, 8), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_put_x(dead, region, 0, memory, 8, NULL, &req), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_notify(dead, 1, NULL, 0, 0), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_put_notify(dead, region, 0, memory, 8, 1, NULL, 0, 0), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_signal_add(dead, region, 0, 1), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_fence(dead), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_flush(dead, 0), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_region_query(dead, region, 0, &info), NIXL_E_PEER_LOST);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(dead, TAG_LIFE, UINT64_MAX, NIXL_FOREVER, &note), NIXL_E_PEER_LOST);
    MPT_OK(nixl_region_open("unknown", &other));
    MPT_STATUS(nixl_put(dead, other, 0, memory, 8), NIXL_E_PEER_LOST);
    MPT_OK(nixl_region_close(other, MPT_PATIENCE));
}

static void be_talker(void)
{
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    bool *is_lost = calloc((size_t)size, sizeof(*is_lost));

    for (int n_left = size - 2; n_left > 0;) {
        for (int other = 1; other < size - 1; other++) {
            int status = is_lost[other] ? NIXL_OK : step(other);

            if (status != NIXL_OK) {
                MPT_STATUS(status, NIXL_E_PEER_LOST);
                MPT_EQ(nixl_peer_state(other), NIXL_PEER_LOST);
                is_lost[other] = true;
                n_left--;
            }
        }
        MPT_LT(mpt_now_ns(), end_ns);
    }
    expect_deaths();
    for (int other = 1; other < size - 1; other++) {
        call_the_dead(other);
    }
    free(is_lost);
}

/* The two that live use everything with each other. */
static void go_on(int other)
{
    static struct nixl_note note;

    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t there;

        MPT_OK(nixl_put_notify(other, region, 8 * i, &i, 8, TAG_LIFE, &i, 8, MPT_PATIENCE));
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(other, TAG_LIFE, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_OK(nixl_get(rank, region, 8 * i, &there, 8));
        MPT_EQ(memcmp(note.payload, &there, 8), 0);
    }
    MPT_OK(nixl_flush(other, MPT_PATIENCE));
    /* Neither leaves before the other's flush was answered: no rank waits in nixl_finalize. */
    MPT_OK(nixl_notify(other, TAG_LIFE + 1, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(other, TAG_LIFE + 1, UINT64_MAX, MPT_PATIENCE, &note));
}

/* The segment of every rank: allocated, the caller's own, or memory of a device. */
static void make_region(const char *how)
{
    static unsigned char own[NBYTES];
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    int status;

    if (strcmp(how, "registered") == 0) {
        MPT_OK(nixl_region_register("storm", own, NBYTES, NULL, &region));
        return;
    }
    params.kind = strcmp(how, "vulkan") == 0 ? NIXL_MEM_VULKAN
                  : strcmp(how, "cuda") == 0 ? NIXL_MEM_CUDA
                                             : NIXL_MEM_HOST;
    status = nixl_region_alloc("storm", NBYTES, &params, &region);
    if (status == NIXL_E_NO_DEVICE) {
        mpt_skip("%s", nixl_last_error()->text);
    }
    MPT_OK(status);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";

    mpt_start();
    step = strcmp(kind, "put") == 0    ? step_put
           : strcmp(kind, "get") == 0  ? step_get
           : strcmp(kind, "word") == 0 ? step_word
                                       : step_notify;
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    seed = (uint64_t)mpt_now_ns();
    printf("seed %" PRIu64 "\n", seed);
    streams = calloc((size_t)size, sizeof(*streams));
    make_region(argc > 2 ? argv[2] : "");
    mpt_barrier();
    if (is_victim(rank)) {
        be_victim();
    } else if (rank == 0) {
        be_talker();
        go_on(size - 1);
    } else {
        expect_deaths();
        go_on(0);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    mpt_finalize();
    free(streams);
    return mpt_passed();
}
