/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations for a while, every byte verified: each rank owns memory of every kind, and
 * every rank has a slice of each part that it alone writes. What it wrote there it remembers, and
 * gets it back at random, with the local side in memory of every kind.
 *
 *     gpu_soak [SECONDS [SEED]]
 */
#include "test/gpu/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE     ((size_t)256 << 10)
#define MAX_RANKS 16
#define TAG_DATA  0x50a

static const enum gpu_way ways[] = {GPU_HOST, GPU_CUDA, GPU_VULKAN, GPU_MALLOC, GPU_VMM, GPU_POOL};
#define N_PARTS (sizeof(ways) / sizeof(ways[0]))

static struct gpu_region parts[N_PARTS];
static bool have[N_PARTS];
static struct gpu_region local[GPU_VULKAN + 1]; /* by way */
static bool have_local[GPU_VULKAN + 1];
static unsigned char *shadows[MAX_RANKS][N_PARTS]; /* of this rank's slices */
static uint64_t seed;
static int rank, size;
static uint64_t n_operations, n_bytes, n_received;

static size_t random_nbytes(void)
{
    uint64_t random = mpt_random(&seed);

    return 1 + (random % 4 == 0 ? random / 4 % SLICE : random / 4 % 5000);
}

/* Memory of the rank's own that the operation works on. */
static const struct gpu_region *random_local(void)
{
    unsigned way;

    do {
        way = (unsigned)(mpt_random(&seed) % (GPU_VULKAN + 1));
    } while (!have_local[way]);
    return &local[way];
}

static unsigned random_part(void)
{
    unsigned part;

    do {
        part = (unsigned)(mpt_random(&seed) % N_PARTS);
    } while (!have[part]);
    return part;
}

static void receive(int64_t timeout_ns)
{
    static struct nixl_note note;
    int status;

    nixl_note_init(&note);
    while ((status = nixl_notify_recv(NIXL_ANY_RANK, TAG_DATA, UINT64_MAX, timeout_ns, &note)) ==
           NIXL_OK) {
        uint64_t place, nbytes, pattern;
        unsigned part;

        /* The writer waits for the answer: its slice here is as it was when it was announced. */
        memcpy(&place, note.payload, 8);
        memcpy(&nbytes, note.payload + 8, 8);
        memcpy(&pattern, note.payload + 16, 8);
        memcpy(&part, note.payload + 24, 4);
        GPU_CHECK(&parts[part], place, nbytes, pattern);
        MPT_OK(nixl_notify(note.rank, TAG_DATA + 1, NULL, 0, MPT_PATIENCE));
        n_received++;
    }
    MPT_TRUE(status == NIXL_INPROGRESS || status == NIXL_E_TIMEOUT);
}

/* Until the receiver has looked at what was announced; meanwhile do the same for others. */
static void await_answer(int other)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    while (nixl_notify_recv(other, TAG_DATA + 1, UINT64_MAX, 0, &note) != NIXL_OK) {
        receive(0);
    }
}

static void one_put(int other, unsigned part, uint64_t at, size_t nbytes)
{
    const struct gpu_region *from = random_local();
    uint64_t place = (uint64_t)rank * SLICE + at, kind = mpt_random(&seed) % 3, pattern;
    unsigned char message[28];
    struct nixl_req *req = NULL;
    int status;

    pattern = mpt_random(&seed);
    gpu_fill(from, 0, nbytes, pattern);
    mpt_fill(shadows[other][part] + at, nbytes, pattern);
    if (kind == 0) {
        MPT_OK(nixl_put(other, parts[part].region, place, (void *)from->addr, nbytes));
    } else if (kind == 1) {
        status =
            nixl_put_x(other, parts[part].region, place, (void *)from->addr, nbytes, NULL, &req);
        MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    } else {
        uint64_t length = nbytes;

        memcpy(message, &place, 8);
        memcpy(message + 8, &length, 8);
        memcpy(message + 16, &pattern, 8);
        memcpy(message + 24, &part, 4);
        MPT_OK(nixl_put_notify(other, parts[part].region, place, (void *)from->addr, nbytes,
                               TAG_DATA, message, sizeof(message), MPT_PATIENCE));
        await_answer(other);
    }
}

static void one_get(int other, unsigned part, uint64_t at, size_t nbytes)
{
    static unsigned char bytes[SLICE];
    const struct gpu_region *to = random_local();
    uint64_t place = (uint64_t)rank * SLICE + at;
    struct nixl_req *req = NULL;
    int status;

    MPT_OK(nixl_fence(other));
    status = nixl_get_x(other, parts[part].region, place, (void *)to->addr, nbytes, NULL, &req);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
    if (to->way == GPU_CUDA) {
        gpu_read(bytes, to->addr, nbytes);
    } else if (to->way == GPU_HOST) {
        memcpy(bytes, (void *)to->addr, nbytes);
    } else {
        MPT_OK(nixl_get(rank, to->region, 0, bytes, nbytes));
    }
    if (memcmp(bytes, shadows[other][part] + at, nbytes) != 0) {
        mpt_fail(__FILE__, __LINE__, "%zu bytes at %llu of %s memory of rank %d, got into %s",
                 nbytes, (unsigned long long)place, gpu_way_names[ways[part]], other,
                 gpu_way_names[to->way]);
    }
}

static void step(void)
{
    int other = (int)(mpt_random(&seed) % (uint64_t)size);
    unsigned part = random_part();
    size_t nbytes = random_nbytes();
    uint64_t at = mpt_random(&seed) % (SLICE - nbytes + 1);

    if (mpt_random(&seed) % 2 == 0) {
        one_put(other, part, at, nbytes);
    } else {
        one_get(other, part, at, nbytes);
    }
    n_operations++;
    n_bytes += nbytes;
    receive(0);
}

/* Every rank has the parts that this one has: they run on one machine. Each begins with zeros. */
static void make_parts(void)
{
    static unsigned char zeros[SLICE];
    char name[32];

    for (unsigned i = 0; i < N_PARTS; i++) {
        snprintf(name, sizeof(name), "soak %u", i);
        have[i] = gpu_region_make(name, ways[i], (size_t)size * SLICE, &parts[i]);
    }
    for (unsigned way = 0; way <= GPU_VULKAN; way++) {
        snprintf(name, sizeof(name), "local %u", way);
        have_local[way] = gpu_region_make(name, (enum gpu_way)way, SLICE, &local[way]);
    }
    mpt_barrier();
    for (int other = 0; other < size; other++) {
        for (unsigned i = 0; i < N_PARTS; i++) {
            shadows[other][i] = calloc(1, SLICE);
            MPT_TRUE(shadows[other][i] != NULL);
            if (have[i]) {
                MPT_OK(nixl_put(other, parts[i].region, (uint64_t)rank * SLICE, zeros, SLICE));
            }
        }
    }
}

/* Answers others until all have said that they are over. */
static void leave(void)
{
    static struct nixl_note note;
    int n_over = 0;

    for (int other = 0; other < size; other++) {
        MPT_OK(nixl_notify(other, TAG_DATA + 2, NULL, 0, MPT_PATIENCE));
    }
    while (n_over < size) {
        nixl_note_init(&note);
        n_over += nixl_notify_recv(NIXL_ANY_RANK, TAG_DATA + 2, UINT64_MAX, 0, &note) == NIXL_OK;
        receive(0);
    }
}

int main(int argc, char **argv)
{
    int64_t end_ns;

    mpt_start();
    MPT_OK(nixl_init(NULL));
    rank = nixl_rank();
    size = nixl_size();
    MPT_TRUE(size <= MAX_RANKS);
    seed = (argc > 2 ? strtoull(argv[2], NULL, 0) : 1) * 1000003 + (uint64_t)rank;
    gpu_start();
    make_parts();
    mpt_barrier();
    end_ns = mpt_now_ns() + (argc > 1 ? atoi(argv[1]) : 1) * MPT_S;
    do {
        step();
    } while (mpt_now_ns() < end_ns);
    leave();
    printf("# rank %d: %llu operations, %llu MiB, %llu notifications checked\n", rank,
           (unsigned long long)n_operations, (unsigned long long)(n_bytes >> 20),
           (unsigned long long)n_received);
    mpt_barrier();
    for (unsigned i = 0; i < N_PARTS; i++) {
        if (have[i]) {
            gpu_region_end(&parts[i]);
        }
        for (int other = 0; other < size; other++) {
            free(shadows[other][i]);
        }
    }
    for (unsigned way = 0; way <= GPU_VULKAN; way++) {
        if (have_local[way]) {
            gpu_region_end(&local[way]);
        }
    }
    gpu_stop();
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
