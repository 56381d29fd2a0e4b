/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once: several threads of every rank put, get, notify, receive, make and close
 * regions at random for a while, and check all that they see.
 *
 *     stress [MILLISECONDS [vulkan|cuda]]
 */
#include "mptest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_WORKERS 4
#define SLICE     16384

#define TAG_NOTE  0x5700
#define TAG_TOTAL 0x5701

static struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
static struct nixl_region *common;
static int size;
static int64_t end_ns;
static _Atomic uint64_t *n_sent;    /* per rank: notes for it */
static _Atomic uint64_t n_received; /* here, from all */

struct worker {
    pthread_t thread;
    unsigned index;
    uint64_t seed;
    unsigned char memory[SLICE], again[SLICE];
    struct nixl_note note;
};

/* The slice of a peer's segment that only this thread uses: what it put there must be there. */
static void put_and_get(struct worker *worker)
{
    int other = (int)(mpt_random(&worker->seed) % (uint64_t)size);
    uint64_t place = ((uint64_t)nixl_rank() * N_WORKERS + worker->index) * SLICE;
    size_t nbytes = 1 + mpt_random(&worker->seed) % SLICE;
    struct nixl_req *req = NULL;
    int status;

    mpt_fill(worker->memory, nbytes, worker->seed);
    if (worker->seed % 2 == 0) {
        MPT_OK(nixl_put(other, common, place, worker->memory, nbytes));
    } else {
        status = nixl_put_x(other, common, place, worker->memory, nbytes, NULL, &req);
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_wait(&req, MPT_PATIENCE);
        }
        MPT_OK(status);
    }
    MPT_OK(worker->seed % 4 < 2 ? nixl_fence(other) : nixl_flush(other, MPT_PATIENCE));
    MPT_OK(nixl_get(other, common, place, worker->again, nbytes));
    MPT_EQ(memcmp(worker->memory, worker->again, nbytes), 0);
}

static void send_note(struct worker *worker)
{
    int other = (int)(mpt_random(&worker->seed) % (uint64_t)size);
    uint64_t random = mpt_random(&worker->seed);
    size_t nbytes = 8 + random % (random % 8 == 0 ? NIXL_NOTE_MAX - 8 : 100);

    memcpy(worker->memory, &worker->seed, 8);
    mpt_fill(worker->memory + 8, nbytes - 8, worker->seed);
    MPT_OK(nixl_notify(other, TAG_NOTE, worker->memory, nbytes, MPT_PATIENCE));
    atomic_fetch_add(&n_sent[other], 1);
}

static bool receive_note(struct worker *worker, int64_t timeout_ns)
{
    uint64_t seed;
    int status;

    nixl_note_init(&worker->note);
    status = nixl_notify_recv(NIXL_ANY_RANK, TAG_NOTE, UINT64_MAX, timeout_ns, &worker->note);
    if (status != NIXL_OK) {
        MPT_TRUE(status == NIXL_INPROGRESS || status == NIXL_E_TIMEOUT);
        return false;
    }
    memcpy(&seed, worker->note.payload, 8);
    MPT_CHECK(worker->note.payload + 8, worker->note.nbytes - 8, seed);
    atomic_fetch_add(&n_received, 1);
    return true;
}

/* A region that comes and goes, and a look at another rank's of the same name. */
static void use_short_lived(struct worker *worker)
{
    int other = (int)(mpt_random(&worker->seed) % (uint64_t)size);
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = NULL;
    char name[32];
    int status;

    snprintf(name, sizeof(name), "short.%u", worker->index);
    if (worker->seed % 2 == 0) {
        MPT_OK(nixl_region_alloc(name, SLICE, &params, &region));
    } else {
        MPT_OK(nixl_region_register(name, worker->again, SLICE, NULL, &region));
    }
    status = nixl_region_query(other, region, 200 * MPT_US, &info);
    if (status == NIXL_OK) {
        status = nixl_put(other, region, 0, worker->memory, 100);
        MPT_STATUS(status, status == NIXL_E_STALE ? NIXL_E_STALE : NIXL_OK);
    } else {
        MPT_STATUS(status, NIXL_E_TIMEOUT);
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void drop_events(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;

    while (nixl_event_recv(0, &event) == NIXL_OK) {
        MPT_EQ(event.type, NIXL_EVENT_REGION_CLOSED);
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    while (mpt_now_ns() < end_ns) {
        switch (mpt_random(&worker->seed) % 8) {
        case 0:
            use_short_lived(worker);
            break;
        case 1:
            drop_events();
            break;
        case 2:
        case 3:
            send_note(worker);
            break;
        case 4:
        case 5:
            receive_note(worker, worker->seed % 16 == 0 ? 100 * MPT_US : 0);
            break;
        default:
            put_and_get(worker);
        }
    }
    return NULL;
}

/* All notes that were sent to this rank must come; each rank tells every other how many. */
static void settle(struct worker *worker)
{
    uint64_t n_expected = 0;

    for (int rank = 0; rank < size; rank++) {
        uint64_t n = n_sent[rank];

        MPT_OK(nixl_notify(rank, TAG_TOTAL, &n, 8, MPT_PATIENCE));
    }
    for (int rank = 0; rank < size; rank++) {
        uint64_t n;

        nixl_note_init(&worker->note);
        MPT_OK(nixl_notify_recv(rank, TAG_TOTAL, UINT64_MAX, MPT_PATIENCE, &worker->note));
        memcpy(&n, worker->note.payload, 8);
        n_expected += n;
    }
    while (n_received < n_expected) {
        MPT_TRUE(receive_note(worker, MPT_PATIENCE));
    }
    MPT_EQ(n_received, n_expected);
    MPT_TRUE(!receive_note(worker, 0));
    printf("%" PRIu64 " notes received\n", n_expected);
}

int main(int argc, char **argv)
{
    struct worker *workers = calloc(N_WORKERS, sizeof(*workers));
    int status;

    mpt_start();
    if (argc > 2) {
        params.kind = strcmp(argv[2], "cuda") == 0 ? NIXL_MEM_CUDA : NIXL_MEM_VULKAN;
    }
    MPT_OK(nixl_init(NULL));
    size = nixl_size();
    n_sent = calloc((size_t)size, sizeof(*n_sent));
    status = nixl_region_alloc("common", (size_t)size * N_WORKERS * SLICE, &params, &common);
    if (status == NIXL_E_NO_DEVICE) {
        mpt_skip("%s", nixl_last_error()->text);
    }
    MPT_OK(status);
    mpt_barrier();
    end_ns = mpt_now_ns() + (argc > 1 ? atoi(argv[1]) : 1000) * MPT_MS;
    for (unsigned i = 0; i < N_WORKERS; i++) {
        workers[i].index = i;
        workers[i].seed = (uint64_t)mpt_now_ns() * 31 + i;
        MPT_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < N_WORKERS; i++) {
        MPT_EQ(pthread_join(workers[i].thread, NULL), 0);
    }
    settle(&workers[0]);
    mpt_barrier();
    MPT_OK(nixl_region_close(common, MPT_PATIENCE));
    MPT_OK(nixl_finalize());
    free((void *)n_sent);
    free(workers);
    return mpt_passed();
}
