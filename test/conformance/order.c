/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on order and visibility: notifications, fence and flush after puts, and targets that
 * compute and call nothing.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TAG_DATA 0x0d01
#define TAG_READ 0x0d02

#define SLICE    8192
#define N_SLICES 16

/* ---- notifications after data ---------------------------------------------------------------- */

/* Sizes of one round's slices: mostly small, sometimes all of a slice. */
static size_t slice_nbytes(unsigned round, unsigned slice)
{
    uint64_t state = round * 1000ull + slice;
    uint64_t random = mpt_random(&state);

    return random % 4 == 0 ? SLICE : 1 + random / 4 % 200;
}

static void send_slices(struct segment *segment, unsigned round, bool is_nb, unsigned char *src)
{
    struct nixl_req *req;
    int status;

    for (unsigned i = 0; i < N_SLICES; i++) {
        size_t nbytes = slice_nbytes(round, i);

        mpt_fill(src + i * SLICE, nbytes, round * 77ull + i);
        if (!is_nb) {
            MPT_OK(nixl_put(conf.next, segment->region, i * SLICE, src + i * SLICE, nbytes));
            continue;
        }
        status =
            nixl_put_x(conf.next, segment->region, i * SLICE, src + i * SLICE, nbytes, NULL, &req);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        if (status == NIXL_INPROGRESS) {
            MPT_OK(nixl_req_detach(&req));
        }
    }
}

static void check_slices(const struct segment *segment, unsigned round)
{
    for (unsigned i = 0; i < N_SLICES; i++) {
        MPT_CHECK(segment->bytes + i * SLICE, slice_nbytes(round, i), round * 77ull + i);
    }
}

static void stress_visibility(const char *name, bool is_nb)
{
    struct segment segment = conf_segment(name, N_SLICES * SLICE);
    unsigned char *src = malloc(N_SLICES * SLICE);

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(300); round++) {
        send_slices(&segment, round, is_nb, src);
        conf_tell(conf.next, TAG_DATA);
        conf_hear(conf.prev, TAG_DATA);
        check_slices(&segment, round);
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
        /*
         * They have ended, as the answer shows, but ThreadSanitizer cannot see it: a first put may
         * be the service thread's, and the order between the two goes through the other process.
         */
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    }
    conf_end(&segment);
    free(src);
}

static void a_notification_shows_every_earlier_put(void)
{
    stress_visibility("visible", false);
}

static void a_notification_shows_every_earlier_put_nb(void)
{
    stress_visibility("visible.nb", true);
}

static void put_notify_shows_its_data(void)
{
    struct segment segment = conf_segment("put_notify", 70000);
    static unsigned char src[70000];
    static struct nixl_note note;

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(300); round++) {
        size_t nbytes = round % 8 == 0 ? 65537 + round : round % 513;

        mpt_fill(src, nbytes, round);
        MPT_OK(nixl_put_notify(conf.next, segment.region, 3, src, nbytes, TAG_DATA, &round,
                               sizeof(round), MPT_PATIENCE));
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(conf.prev, TAG_DATA, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_EQ(note.nbytes, sizeof(round));
        MPT_EQ(memcmp(note.payload, &round, sizeof(round)), 0);
        MPT_CHECK(segment.bytes + 3, nbytes, round);
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    conf_end(&segment);
}

/*
 * The owner overwrites its segment as soon as it hears that it was read: the reader must not see
 * that.
 */
static void get_notify_tells_after_the_last_byte_was_read(void)
{
    struct segment segment = conf_segment("get_notify", 70000);
    static unsigned char dst[70000];

    for (unsigned round = 0; round < conf_rounds(200); round++) {
        size_t nbytes = round % 4 == 0 ? 70000 : 1 + round % 700;

        mpt_fill(segment.bytes, nbytes, round);
        conf_tell(conf.prev, TAG_DATA);
        conf_hear(conf.next, TAG_DATA);
        MPT_OK(nixl_get_notify(conf.next, segment.region, 0, dst, nbytes, TAG_READ, NULL, 0,
                               MPT_PATIENCE));
        conf_hear(conf.prev, TAG_READ);
        memset(segment.bytes, 0xbb, nbytes);
        MPT_CHECK(dst, nbytes, round);
    }
    conf_end(&segment);
}

/* ---- other threads' puts --------------------------------------------------------------------- */

#define N_THREADS 4

struct putter {
    struct segment *segment;
    unsigned index, round;
    pthread_t thread;
    unsigned char src[SLICE];
};

static void *put_a_slice(void *arg)
{
    struct putter *putter = arg;

    mpt_fill(putter->src, SLICE, putter->round * 10ull + putter->index);
    MPT_OK(nixl_put(conf.next, putter->segment->region, putter->index * SLICE, putter->src, SLICE));
    return NULL;
}

/* M5: those of other threads, which are joined before. */
static void a_notification_shows_puts_of_other_threads(void)
{
    static struct putter putters[N_THREADS];
    struct segment segment = conf_segment("threads", N_THREADS * SLICE);

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(60); round++) {
        for (unsigned i = 0; i < N_THREADS; i++) {
            putters[i].segment = &segment;
            putters[i].index = i;
            putters[i].round = round;
            MPT_EQ(pthread_create(&putters[i].thread, NULL, put_a_slice, &putters[i]), 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++) {
            MPT_EQ(pthread_join(putters[i].thread, NULL), 0);
        }
        conf_tell(conf.next, TAG_DATA);
        conf_hear(conf.prev, TAG_DATA);
        for (unsigned i = 0; i < N_THREADS; i++) {
            MPT_CHECK(segment.bytes + i * SLICE, SLICE, round * 10ull + i);
        }
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    conf_end(&segment);
}

/* ---- fence and flush ------------------------------------------------------------------------- */

/* Words at the start of a segment that peers put to: what has come, and what was read. */
#define FLAG_OFFSET 0
#define ACK_OFFSET  64
#define DATA_OFFSET 128

static uint64_t *word_at(const struct segment *segment, size_t offset)
{
    return (uint64_t *)(void *)(segment->bytes + offset);
}

/* Data, then `between`, then a flag, all by put; the target sees the flag in its memory only. */
static void ordered_puts(const char *name, int (*between)(int rank))
{
    struct segment segment = conf_segment(name, DATA_OFFSET + SLICE);
    unsigned char *src = malloc(SLICE);

    mpt_barrier();
    for (uint64_t round = 1; round <= conf_rounds(1000); round++) {
        size_t nbytes = 1 + round * 997 % SLICE;

        mpt_fill(src, nbytes, round);
        MPT_OK(nixl_put(conf.next, segment.region, DATA_OFFSET, src, nbytes));
        MPT_OK(between(conf.next));
        MPT_OK(nixl_put(conf.next, segment.region, FLAG_OFFSET, &round, 8));
        conf_spin(word_at(&segment, FLAG_OFFSET), round);
        MPT_CHECK(segment.bytes + DATA_OFFSET, nbytes, round);
        MPT_OK(nixl_put(conf.prev, segment.region, ACK_OFFSET, &round, 8));
        conf_spin(word_at(&segment, ACK_OFFSET), round);
    }
    conf_end(&segment);
    free(src);
}

static int flush_one(int rank)
{
    return nixl_flush(rank, MPT_PATIENCE);
}

static int flush_all(int rank)
{
    (void)rank;
    return nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE);
}

static int fence_all(int rank)
{
    (void)rank;
    return nixl_fence(NIXL_ALL_RANKS);
}

static void fence_orders_puts(void)
{
    ordered_puts("fence", nixl_fence);
    ordered_puts("fence.all", fence_all);
}

static void flush_makes_puts_visible(void)
{
    ordered_puts("flush", flush_one);
    ordered_puts("flush.all", flush_all);
}

static void fence_orders_a_get_after_a_put(void)
{
    struct segment segment = conf_segment("fence.get", N_SLICES * SLICE);
    unsigned char src[700], dst[700];

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(500); round++) {
        size_t offset = (size_t)conf.rank % N_SLICES * SLICE;

        mpt_fill(src, sizeof(src), round);
        MPT_OK(nixl_put(conf.next, segment.region, offset, src, sizeof(src)));
        MPT_OK(nixl_fence(conf.next));
        MPT_OK(nixl_get(conf.next, segment.region, offset, dst, sizeof(dst)));
        MPT_CHECK(dst, sizeof(dst), round);
    }
    conf_end(&segment);
}

/* ---- passive targets ------------------------------------------------------------------------- */

static void use_partner(struct segment *segment, unsigned char *memory, size_t nbytes)
{
    uint64_t done = 1;

    for (unsigned round = 0; round < 20; round++) {
        mpt_fill(memory, nbytes, round);
        MPT_OK(nixl_put(conf.partner, segment->region, 64, memory, nbytes));
        MPT_OK(nixl_flush(conf.partner, MPT_PATIENCE));
        memset(memory, 0, nbytes);
        MPT_OK(nixl_get(conf.partner, segment->region, 64, memory, nbytes));
        MPT_CHECK(memory, nbytes, round);
    }
    MPT_OK(nixl_put(conf.partner, segment->region, 0, &done, 8));
}

/* M23: the target makes no call, and spins on its own memory until its partner is done. */
static void a_target_that_computes_stays_passive(void)
{
    struct segment segment = conf_segment("passive", (1u << 20) + 64);
    unsigned char *memory = malloc(1u << 20);

    mpt_barrier();
    for (int turn = 0; turn < 2 && conf.partner >= 0; turn++) {
        if (conf.rank % 2 == turn) {
            use_partner(&segment, memory, 1u << 20);
        } else {
            conf_spin(word_at(&segment, 0), 1);
        }
    }
    conf_end(&segment);
    free(memory);
}

/* The first use of a region, of a ring and of a peer, too, must not need the target's calls. */
static void a_first_use_stays_passive(void)
{
    struct segment segment = conf_segment("passive.first", 4096),
                   mine = conf_segment("passive.word", 64);
    uint64_t word = 7;

    mpt_barrier();
    if (conf.rank == 0) {
        for (int rank = 1; rank < conf.size; rank++) {
            MPT_OK(nixl_put(rank, segment.region, 8, &word, 8));
            MPT_OK(nixl_flush(rank, MPT_PATIENCE));
            MPT_OK(nixl_notify(rank, TAG_DATA, NULL, 0, MPT_PATIENCE));
            MPT_OK(nixl_put(rank, mine.region, 0, &word, 8));
        }
    } else {
        conf_spin(word_at(&mine, 0), 7);
        MPT_EQ(*word_at(&segment, 8), 7);
        conf_hear(0, TAG_DATA);
    }
    conf_end(&segment);
    conf_drop(&mine);
}

const struct guarantee conf_order[] = {
    {"notify", NULL, 0},
    {"a_notification_shows_every_earlier_put", a_notification_shows_every_earlier_put, 0},
    {"a_notification_shows_every_earlier_put_nb", a_notification_shows_every_earlier_put_nb, 0},
    {"a_notification_shows_puts_of_other_threads", a_notification_shows_puts_of_other_threads,
     CONF_THREADS},
    {"put_notify", NULL, 0},
    {"put_notify_shows_its_data", put_notify_shows_its_data, 0},
    {"get_notify_tells_after_the_last_byte_was_read", get_notify_tells_after_the_last_byte_was_read,
     0},
    {"fence", NULL, 0},
    {"fence_orders_puts", fence_orders_puts, 0},
    {"fence_orders_a_get_after_a_put", fence_orders_a_get_after_a_put, 0},
    {"flush", NULL, 0},
    {"flush_makes_puts_visible", flush_makes_puts_visible, 0},
    {"put", NULL, 0},
    {"a_target_that_computes_stays_passive", a_target_that_computes_stays_passive, CONF_PEERS},
    {"a_first_use_stays_passive", a_first_use_stays_passive, CONF_PEERS},
    {0},
};
