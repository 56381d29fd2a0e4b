/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on signals: comparisons, waiting, waking, and the data that they bring along. */
#include "conformance.h"
#include "test/op_form.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_READ  0x0501
#define TAG_WOKEN 0x0502
#define TAG_LATE  0x0503

#define BLOCK 70000

static uint64_t *word_at(const struct segment *segment, size_t offset)
{
    return (uint64_t *)(void *)(segment->bytes + offset);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What each comparison says of a word that is less, equal, greater; 2^63 is a large one. */
static void signals_compare_unsigned(void)
{
    static const uint64_t words[] = {6, 7, 1ull << 63};
    static const bool is_true[][3] = {
        [NIXL_COMPARE_EQ] = {0, 1, 0}, [NIXL_COMPARE_NE] = {1, 0, 1}, [NIXL_COMPARE_LT] = {1, 0, 0},
        [NIXL_COMPARE_LE] = {1, 1, 0}, [NIXL_COMPARE_GT] = {0, 0, 1}, [NIXL_COMPARE_GE] = {0, 1, 1},
    };

    for (int compare = NIXL_COMPARE_EQ; compare <= NIXL_COMPARE_GE; compare++) {
        for (int i = 0; i < 3; i++) {
            uint64_t seen = 42;
            int status = nixl_signal_wait(&words[i], (enum nixl_compare)compare, 7, 0, &seen);

            MPT_EQ(status, is_true[compare][i] ? NIXL_OK : NIXL_INPROGRESS);
            MPT_EQ(seen, is_true[compare][i] ? words[i] : 42);
            if (is_true[compare][i]) {
                MPT_OK(
                    nixl_signal_wait(&words[i], (enum nixl_compare)compare, 7, NIXL_FOREVER, NULL));
            }
        }
    }
}

static void a_signal_wait_keeps_its_timeout(void)
{
    static const int64_t timeouts[] = {1, 20 * MPT_US, 3 * MPT_MS, 60 * MPT_MS};
    const uint64_t word = 1;
    const uint64_t *words[] = {&word, &word};

    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
        uint64_t seen = 42;
        size_t index = 42;
        int64_t start_ns = mpt_now_ns();

        MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_EQ, 2, timeouts[i], &seen), NIXL_E_TIMEOUT);
        MPT_GE(mpt_now_ns() - start_ns, timeouts[i]);
        MPT_STATUS(nixl_signal_wait_any(words, 2, NIXL_COMPARE_EQ, 2, timeouts[i], &index, &seen),
                   NIXL_E_TIMEOUT);
        MPT_GE(mpt_now_ns() - start_ns, 2 * timeouts[i]);
        MPT_TRUE(seen == 42 && index == 42);
    }
    MPT_TEXT(nixl_last_error()->text, "after 60 ms: none of 2 signals is == 2; the first is 1");
    MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_GE, 2, MPT_MS, NULL), NIXL_E_TIMEOUT);
    MPT_TEXT(nixl_last_error()->text, "after 1 ms: signal is 1; waiting for >= 2");
}

static void wait_any_names_the_signal(void)
{
    enum { N = 5 };
    struct segment segment = conf_segment("any", N * 64);
    const uint64_t *words[N];

    for (size_t i = 0; i < N; i++) {
        words[i] = word_at(&segment, i * 64);
    }
    mpt_barrier();
    for (uint64_t round = 1; round <= conf_rounds(100); round++) {
        size_t chosen = round % N, index = 42;
        uint64_t seen = 0;

        MPT_OK(nixl_signal_set(conf.next, segment.region, chosen * 64, round));
        MPT_OK(nixl_signal_wait_any(words, N, NIXL_COMPARE_EQ, round, MPT_PATIENCE, &index, &seen));
        MPT_EQ(index, chosen);
        MPT_EQ(seen, round);
        MPT_STATUS(nixl_signal_wait_any(words, N, NIXL_COMPARE_GT, round, 0, &index, NULL),
                   NIXL_INPROGRESS);
        MPT_OK(nixl_signal_wait_any(words + chosen, 1, NIXL_COMPARE_GE, round, 0, NULL, NULL));
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    conf_end(&segment);
}

/* What each comparison says of words of a type that are less, equal and greater than `value`. */
static void compare_words(enum nixl_type type, const void *const words[3], const void *value)
{
    static const bool is_true[][3] = {
        [NIXL_COMPARE_EQ] = {0, 1, 0}, [NIXL_COMPARE_NE] = {1, 0, 1}, [NIXL_COMPARE_LT] = {1, 0, 0},
        [NIXL_COMPARE_LE] = {1, 1, 0}, [NIXL_COMPARE_GT] = {0, 0, 1}, [NIXL_COMPARE_GE] = {0, 1, 1},
    };
    size_t nbytes = type == NIXL_TYPE_INT32 || type == NIXL_TYPE_UINT32 ? 4 : 8;

    for (int i = 0; i < 3 * (NIXL_COMPARE_GE + 1); i++) {
        enum nixl_compare compare = (enum nixl_compare)(i / 3);
        unsigned char seen[8];
        int status;

        memset(seen, 0xdd, sizeof(seen));
        status = nixl_word_wait(words[i % 3], type, compare, value, 0, seen);
        MPT_EQ(status, is_true[compare][i % 3] ? NIXL_OK : NIXL_INPROGRESS);
        MPT_EQ(memcmp(seen, words[i % 3], nbytes) == 0, status == NIXL_OK);
        MPT_CHECK_BYTES(seen + nbytes, 8 - nbytes, 0xdd);
    }
}

static void words_compare_as_numbers_of_their_type(void)
{
    static const int32_t i32[] = {INT32_MIN, -1, 1};
    static const uint32_t u32[] = {0, INT32_MAX, UINT32_MAX};
    static const int64_t i64[] = {INT64_MIN, -1, INT64_MAX};
    static const uint64_t u64[] = {1, INT64_MAX, UINT64_MAX};

    compare_words(NIXL_TYPE_INT32, (const void *[]){&i32[0], &i32[1], &i32[2]}, &i32[1]);
    compare_words(NIXL_TYPE_UINT32, (const void *[]){&u32[0], &u32[1], &u32[2]}, &u32[1]);
    compare_words(NIXL_TYPE_INT64, (const void *[]){&i64[0], &i64[1], &i64[2]}, &i64[1]);
    compare_words(NIXL_TYPE_UINT64, (const void *[]){&u64[0], &u64[1], &u64[2]}, &u64[1]);
}

/* Every third 32-bit word of the segment is one; the neighbour counts one of them down. */
static void wait_any_looks_at_words_with_a_stride(void)
{
    enum { N = 7, STRIDE = 12 };
    struct segment segment = conf_segment("stride", N * STRIDE);
    const int32_t less = -1;
    int32_t wanted[N] = {0};

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(100); round++) {
        size_t chosen = round % N, index = 42;
        int32_t seen = 42;

        wanted[chosen]--;
        MPT_OK(nixl_atomic(conf.next, segment.region, chosen * STRIDE, NIXL_TYPE_INT32,
                           NIXL_ATOMIC_ADD, &less, NULL));
        MPT_OK(nixl_word_wait(segment.bytes + chosen * STRIDE, NIXL_TYPE_INT32, NIXL_COMPARE_LE,
                              &wanted[chosen], MPT_PATIENCE, &seen));
        MPT_EQ(seen, wanted[chosen]);
        MPT_OK(nixl_word_wait_any(segment.bytes, STRIDE, N, NIXL_TYPE_INT32, NIXL_COMPARE_EQ,
                                  &wanted[chosen], MPT_PATIENCE, &index, &seen));
        MPT_TRUE(index <= chosen && wanted[index] == wanted[chosen]);
        MPT_OK(nixl_word_wait_any(segment.bytes + chosen * STRIDE, STRIDE, N - chosen,
                                  NIXL_TYPE_INT32, NIXL_COMPARE_EQ, &wanted[chosen], 0, &index,
                                  NULL));
        MPT_EQ(index, 0);
        mpt_barrier();
    }
    MPT_STATUS(nixl_word_wait_any(segment.bytes, STRIDE, N, NIXL_TYPE_INT32, NIXL_COMPARE_GT,
                                  &(int32_t){0}, MPT_MS, NULL, NULL),
               NIXL_E_TIMEOUT);
    conf_end(&segment);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* All ranks add to a signal of each: it counts them all. */
static void signals_of_all_ranks_are_counted(void)
{
    struct segment segment = conf_segment("count", 64);
    unsigned rounds = conf_rounds(200);
    uint64_t seen = 0;

    mpt_barrier();
    for (unsigned round = 0; round < rounds; round++) {
        for (int rank = 0; rank < conf.size; rank++) {
            MPT_OK(nixl_signal_add(rank, segment.region, 8, 3));
        }
    }
    MPT_OK(nixl_signal_wait(word_at(&segment, 8), NIXL_COMPARE_GE,
                            3ull * rounds * (unsigned)conf.size, MPT_PATIENCE, &seen));
    MPT_EQ(seen, 3ull * rounds * (unsigned)conf.size);
    conf_end(&segment);
}

/* Blocks by put and put_nb, then a signal: whoever sees it sees all of them. */
static void a_signal_shows_every_earlier_put(void)
{
    struct segment segment = conf_segment("shows", 2 * BLOCK + 64);
    unsigned char *src = malloc(2 * BLOCK);
    uint64_t base = (2 * BLOCK + 7) / 8 * 8;

    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(200); round++) {
        size_t nbytes = round % 4 == 0 ? BLOCK - round : 1 + round % 300;
        struct nixl_req *req = NULL;
        int status;

        mpt_fill(src, nbytes, round);
        mpt_fill(src + BLOCK, nbytes, ~round);
        MPT_OK(nixl_put(conf.next, segment.region, 0, src, nbytes));
        status = nixl_put_x(conf.next, segment.region, BLOCK, src + BLOCK, nbytes, NULL, &req);
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_detach(&req);
        }
        MPT_OK(status);
        MPT_OK(round % 2 == 0 ? nixl_signal_set(conf.next, segment.region, base, round)
                              : nixl_signal_add(conf.next, segment.region, base, 1));
        MPT_OK(
            nixl_signal_wait(word_at(&segment, base), NIXL_COMPARE_EQ, round, MPT_PATIENCE, NULL));
        MPT_CHECK(segment.bytes, nbytes, round);
        MPT_CHECK(segment.bytes + BLOCK, nbytes, ~round);
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    conf_end(&segment);
    free(src);
}

/* The signal is in another region than the data, which may be allocated and registered. */
static void put_signal_shows_its_data(void)
{
    struct segment segment = conf_segment("put_signal", BLOCK);
    struct nixl_region *signals = NULL;
    static unsigned char src[BLOCK];
    const uint64_t *word;

    MPT_OK(nixl_region_alloc("put_signal.word", 64, NULL, &signals));
    word = nixl_region_addr(signals);
    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(300); round++) {
        size_t nbytes = round % 8 == 0 ? 65537 + round : round % 513;

        mpt_fill(src, nbytes, round);
        MPT_OK(nixl_put_signal(conf.next, segment.region, 3, src, nbytes, signals, 0,
                               NIXL_SIGNAL_ADD, 2));
        MPT_OK(nixl_signal_wait(word, NIXL_COMPARE_GE, 2ull * round, MPT_PATIENCE, NULL));
        MPT_CHECK(segment.bytes + 3, nbytes, round);
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(signals, MPT_PATIENCE));
    conf_drop(&segment);
}

/* One of a put, a put with its signal, and a signal, none of which is waited for. */
static void start_or_free(int status, struct nixl_req **req_p)
{
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_detach(req_p) : status);
}

/* Whoever sees the signal sees the data that was put before it; the sender waits for nothing. */
static void signals_that_are_not_waited_for_come_behind_their_data(void)
{
    enum { SIGNALS = 2 * BLOCK / 8 * 8 + 64 };
    struct segment segment = conf_segment("signal_nb", SIGNALS + 64);
    unsigned char *src = malloc(2 * BLOCK);

    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(200); round++) {
        size_t nbytes = round % 4 == 0 ? BLOCK - round : 1 + round % 300;
        struct nixl_req *reqs[3] = {NULL};

        mpt_fill(src, nbytes, round);
        mpt_fill(src + BLOCK, nbytes, ~round);
        start_or_free(nixl_put_x(conf.next, segment.region, 0, src, nbytes, NULL, &reqs[0]),
                      &reqs[0]);
        start_or_free(
            nixl_put_x(conf.next, segment.region, BLOCK, src + BLOCK, nbytes,
                       (struct nixl_op[]){op_signal(segment.region, SIGNALS, NIXL_SIGNAL_ADD, 2)},
                       &reqs[1]),
            &reqs[1]);
        start_or_free(nixl_signal_x(conf.next, segment.region, SIGNALS + 8, NIXL_SIGNAL_SET, round,
                                    NULL, &reqs[2]),
                      &reqs[2]);
        MPT_OK(nixl_signal_wait(word_at(&segment, SIGNALS), NIXL_COMPARE_EQ, 2ull * round,
                                MPT_PATIENCE, NULL));
        MPT_CHECK(segment.bytes, nbytes, round);
        MPT_CHECK(segment.bytes + BLOCK, nbytes, ~round);
        MPT_OK(nixl_signal_wait(word_at(&segment, SIGNALS + 8), NIXL_COMPARE_EQ, round,
                                MPT_PATIENCE, NULL));
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    }
    conf_end(&segment);
    free(src);
}

static void get_signal_shows_its_data(void)
{
    struct segment segment = conf_segment("get_signal", BLOCK);
    unsigned char *dst = malloc(BLOCK);
    uint64_t signal = 0;

    mpt_fill(segment.bytes, BLOCK, 5u + (unsigned)conf.rank);
    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(100); round++) {
        size_t nbytes = round % 4 == 0 ? BLOCK : round % 500;
        struct nixl_req *req = NULL;
        int status;

        memset(dst, 0, BLOCK);
        status = nixl_get_x(conf.next, segment.region, 0, dst, nbytes,
                            (struct nixl_op[]){op_own_signal(
                                &signal, round % 2 == 0 ? NIXL_SIGNAL_SET : NIXL_SIGNAL_ADD,
                                round % 2 == 0 ? round : 1)},
                            &req);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_OK(nixl_signal_wait(&signal, NIXL_COMPARE_EQ, round, MPT_PATIENCE, NULL));
        MPT_CHECK(dst, nbytes, 5u + (unsigned)conf.next);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
    conf_end(&segment);
    free(dst);
}

/* The word is what the last one has set, whatever it was. */
static void put_signal_sets_its_signal(void)
{
    struct segment segment = conf_segment("set_signal", 1024 + 8);
    static unsigned char src[1024];

    mpt_barrier();
    for (unsigned round = 1; round <= conf_rounds(100); round++) {
        size_t nbytes = 1 + round % 1024;
        uint64_t value = round * 0x100000001ull, seen = 0;

        mpt_fill(src, nbytes, round);
        MPT_OK(nixl_put_signal(conf.next, segment.region, 0, src, nbytes, segment.region, 1024,
                               NIXL_SIGNAL_SET, value));
        MPT_OK(
            nixl_signal_wait(word_at(&segment, 1024), NIXL_COMPARE_GE, value, MPT_PATIENCE, &seen));
        MPT_EQ(seen, value);
        MPT_CHECK(segment.bytes, nbytes, round);
        conf_tell(conf.prev, TAG_READ);
        conf_hear(conf.next, TAG_READ);
    }
    conf_end(&segment);
}

/* Nothing is moved for a signal that cannot be, and no signal is raised for data that cannot. */
static void put_signal_does_both_or_nothing(void)
{
    struct segment segment = conf_segment("both", 64);
    uint64_t word = 1;

    mpt_barrier();
    MPT_STATUS(nixl_put_signal(conf.next, segment.region, 0, &word, 8, segment.region, 64,
                               NIXL_SIGNAL_ADD, 1),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_put_signal(conf.next, segment.region, 0, &word, 8, segment.region, 12,
                               NIXL_SIGNAL_ADD, 1),
               NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_signal(conf.next, segment.region, 0, &word, 8, NULL, 8, NIXL_SIGNAL_ADD, 1),
               NIXL_E_INVALID_ARG);
    MPT_TEXT(nixl_last_error()->operation, "nixl_put_signal");
    MPT_STATUS(nixl_put_signal(conf.next, segment.region, 60, &word, 8, segment.region, 8,
                               NIXL_SIGNAL_SET, 1),
               NIXL_E_RANGE);
    MPT_STATUS(nixl_put_signal(conf.next, segment.region, 0, NULL, 8, segment.region, 8,
                               NIXL_SIGNAL_SET, 1),
               NIXL_E_INVALID_ARG);
    mpt_barrier();
    MPT_CHECK_BYTES(segment.bytes, 64, 0);
    conf_end(&segment);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

/* Sleepers look by themselves once a second: whoever comes back well before was woken. */
#define WOKEN (400 * MPT_MS)

#define N_WAYS 5

/* The way to raise a signal by one, of five. */
static void raise_signal(struct segment *segment, unsigned way, uint64_t value)
{
    uint64_t data = 1;

    MPT_OK(way == 0   ? nixl_signal_set(conf.partner, segment->region, 64, value)
           : way == 1 ? nixl_signal_add(conf.partner, segment->region, 64, 1)
           : way == 2 ? nixl_put_signal(conf.partner, segment->region, 0, &data, 8, segment->region,
                                        64, NIXL_SIGNAL_ADD, 1)
           : way == 3 ? nixl_put_signal(conf.partner, segment->region, 0, &data, 8, segment->region,
                                        64, NIXL_SIGNAL_SET, value)
                      : nixl_atomic(conf.partner, segment->region, 64, NIXL_TYPE_UINT64,
                                    NIXL_ATOMIC_ADD, &data, NULL));
}

/* Sleep until the signal has that value; the partner hears whether this was in less than WOKEN. */
static bool sleep_for_signal(const struct segment *segment, uint64_t value)
{
    int64_t start_ns = mpt_now_ns();
    bool is_woken;

    MPT_OK(nixl_signal_wait(word_at(segment, 64), NIXL_COMPARE_GE, value, MPT_PATIENCE, NULL));
    is_woken = mpt_now_ns() - start_ns < WOKEN;
    conf_tell(conf.partner, is_woken ? TAG_WOKEN : TAG_LATE);
    return is_woken;
}

/* Raise the signal of a rank that sleeps by then, and wait for its answer. */
static bool wake_by_signal(struct segment *segment, unsigned way, uint64_t value)
{
    const struct timespec while_asleep = {.tv_nsec = 5 * MPT_MS};
    static struct nixl_note note;

    nanosleep(&while_asleep, NULL);
    raise_signal(segment, way, value);
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.partner, TAG_WOKEN, ~(uint64_t)1, MPT_PATIENCE, &note));
    return note.tag == TAG_WOKEN;
}

/*
 * Each way must wake the sleeper so often. On a machine that stops for a moment a sleeper that was
 * woken comes late, too: such a turn is not counted, and there is time for many of them.
 */
static void a_sleeper_is_woken_by_a_signal(void)
{
    struct segment segment = conf_segment("sleeper", 128);
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;
    uint64_t value = 0;

    mpt_barrier();
    for (unsigned n = 0; conf.partner >= 0 && n < conf_rounds(20);) {
        value++;
        n += conf.rank % 2 == 0 ? wake_by_signal(&segment, n % N_WAYS, value)
                                : sleep_for_signal(&segment, value);
        MPT_LT(mpt_now_ns(), end_ns);
    }
    conf_end(&segment);
}

/* Arm the event fd, past all events: those about what came before may be late. */
static void arm(void)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int status;

    do {
        while (nixl_event_recv(0, &event) == NIXL_OK) {
        }
        status = nixl_event_arm();
    } while (status == NIXL_INPROGRESS);
    MPT_OK(status);
}

/* Arm, look, poll: a signal that comes after the look makes the descriptor readable. */
static void a_signal_makes_the_event_fd_readable(void)
{
    struct segment segment = conf_segment("event_fd", 64);
    struct pollfd ready = {.fd = nixl_event_fd(), .events = POLLIN};
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    mpt_barrier();
    if (conf.rank == 1) {
        do { /* but for late events nothing makes it readable */
            MPT_LT(mpt_now_ns(), end_ns);
            arm();
            MPT_STATUS(nixl_signal_wait(word_at(&segment, 0), NIXL_COMPARE_EQ, 5, 0, NULL),
                       NIXL_INPROGRESS);
        } while (poll(&ready, 1, 0) != 0);
        MPT_OK(nixl_signal_add(0, segment.region, 0, 1));
        MPT_EQ(poll(&ready, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        MPT_OK(nixl_signal_wait(word_at(&segment, 0), NIXL_COMPARE_EQ, 5, MPT_PATIENCE, NULL));
    } else if (conf.rank == 0) {
        MPT_OK(nixl_signal_wait(word_at(&segment, 0), NIXL_COMPARE_EQ, 1, MPT_PATIENCE, NULL));
        MPT_OK(nixl_signal_set(1, segment.region, 0, 5));
    }
    conf_end(&segment);
}

const struct guarantee conf_signal[] = {
    {"signal", NULL, 0},
    {"signals_compare_unsigned", signals_compare_unsigned, 0},
    {"a_signal_wait_keeps_its_timeout", a_signal_wait_keeps_its_timeout, 0},
    {"wait_any_names_the_signal", wait_any_names_the_signal, 0},
    {"words_compare_as_numbers_of_their_type", words_compare_as_numbers_of_their_type, 0},
    {"wait_any_looks_at_words_with_a_stride", wait_any_looks_at_words_with_a_stride, 0},
    {"signals_of_all_ranks_are_counted", signals_of_all_ranks_are_counted, 0},
    {"a_signal_shows_every_earlier_put", a_signal_shows_every_earlier_put, 0},
    {"put_signal_shows_its_data", put_signal_shows_its_data, 0},
    {"signals_that_are_not_waited_for_come_behind_their_data",
     signals_that_are_not_waited_for_come_behind_their_data, 0},
    {"get_signal_shows_its_data", get_signal_shows_its_data, 0},
    {"put_signal_sets_its_signal", put_signal_sets_its_signal, 0},
    {"put_signal_does_both_or_nothing", put_signal_does_both_or_nothing, 0},
    {"a_sleeper_is_woken_by_a_signal", a_sleeper_is_woken_by_a_signal, CONF_PEERS},
    {"a_signal_makes_the_event_fd_readable", a_signal_makes_the_event_fd_readable, CONF_PEERS},
    {0},
};
