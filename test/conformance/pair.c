/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on paired operations: a buffer is used once, as it was exposed, and both sides come to
 * the same end. Every rank exposes buffers to the next one and uses those of the one before.
 */
#include "exchange.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TAG_TOKEN 0xd001
#define TAG_DONE  0xd002

#define NBYTES   ((size_t)1 << 20)
#define BLANK    0x3c
#define LIFETIME (600 * MPT_S)

struct token {
    char text[NIXL_TOKEN_MAX + 1];
};

static void give_token(int rank, const struct token *token)
{
    MPT_OK(nixl_notify(rank, TAG_TOKEN, token, strlen(token->text) + 1, MPT_PATIENCE));
}

static struct token get_token(int rank)
{
    static struct nixl_note note;
    struct token token;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_TRUE(note.nbytes <= sizeof(token));
    memcpy(&token, note.payload, note.nbytes);
    return token;
}

static struct nixl_req *expose(struct segment *segment, size_t offset, size_t nbytes,
                               enum nixl_pair_use use, struct token *token_p)
{
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_pair_expose(conf.next, segment->region, offset, nbytes, use, LIFETIME,
                                token_p->text, sizeof(token_p->text), &req),
               NIXL_INPROGRESS);
    MPT_TRUE(strlen(token_p->text) <= NIXL_TOKEN_MAX);
    return req;
}

static void end(int status, struct nixl_req **req)
{
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(req, MPT_PATIENCE) : status);
}

static void read_all(const struct token *token, void *dst, size_t nbytes)
{
    struct nixl_req *req = NULL;

    end(nixl_pair_read(token->text, dst, nbytes, &req), &req);
}

/* A token that may not be used, whatever for: nothing is touched. */
static void is_refused(const struct token *token, size_t nbytes, int expected)
{
    unsigned char *bytes = malloc(nbytes + 1);
    struct nixl_req *req = NULL;

    MPT_TRUE(bytes != NULL);
    memset(bytes, BLANK, nbytes);
    MPT_STATUS(nixl_pair_read(token->text, bytes, nbytes, &req), expected);
    MPT_CHECK_BYTES(bytes, nbytes, BLANK);
    MPT_STATUS(nixl_pair_decline(token->text), expected);
    MPT_TRUE(req == NULL);
    free(bytes);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void a_token_is_used_once(void)
{
    struct segment segment = conf_segment("pair.read", NBYTES);
    unsigned char *dst = malloc(NBYTES);
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    struct token mine, theirs;
    struct nixl_req *req;

    mpt_fill(segment.bytes, NBYTES, (uint64_t)conf.rank);
    req = expose(&segment, 0, NBYTES, NIXL_PAIR_READ, &mine);
    MPT_STATUS(nixl_req_test(&req), NIXL_INPROGRESS);
    give_token(conf.next, &mine);
    theirs = get_token(conf.prev);
    MPT_OK(nixl_pair_query(theirs.text, &info));
    MPT_TRUE(info.rank == conf.prev && info.use == NIXL_PAIR_READ && info.nbytes == NBYTES);
    read_all(&theirs, dst, NBYTES);
    MPT_CHECK(dst, NBYTES, (uint64_t)conf.prev);
    is_refused(&theirs, NBYTES, NIXL_E_STALE);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    mpt_barrier();
    is_refused(&theirs, NBYTES, NIXL_E_STALE);
    conf_end(&segment);
    free(dst);
}

static void what_is_written_is_visible_at_the_end(void)
{
    struct segment segment = conf_segment("pair.write", NBYTES);
    unsigned char *src = malloc(NBYTES);

    for (unsigned round = 0; round < conf_rounds(100); round++) {
        uint64_t seed = round + 1000u * (unsigned)conf.rank;
        struct token mine, theirs;
        struct nixl_req *req, *move;

        memset(segment.bytes, BLANK, NBYTES);
        mpt_fill(src, NBYTES, seed);
        req = expose(&segment, 64, NBYTES - 128, NIXL_PAIR_WRITE, &mine);
        give_token(conf.next, &mine);
        theirs = get_token(conf.prev);
        end(nixl_pair_write(theirs.text, src, NBYTES - 128, &move), &move);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_CHECK_BYTES(segment.bytes, 64, BLANK);
        MPT_CHECK(segment.bytes + 64, NBYTES - 128, round + 1000u * (unsigned)conf.next);
        MPT_CHECK_BYTES(segment.bytes + NBYTES - 64, 64, BLANK);
    }
    conf_end(&segment);
    free(src);
}

/* Sizes, offsets and uses at random, of which all ranks know the seed. */
static void buffers_of_any_shape_are_exposed(void)
{
    struct segment segment = conf_segment("pair.shape", NBYTES);
    unsigned char *local = malloc(NBYTES + 64);

    conf_need_world();
    for (unsigned round = 0; round < conf_rounds(200); round++) {
        size_t nbytes = conf_random_nbytes(NBYTES), shift = conf_random_shift();
        size_t offset = (size_t)(mpt_random(&conf_seed) % (NBYTES - nbytes + 1));
        bool is_read = mpt_random(&conf_seed) % 2 == 0;
        struct token mine, theirs;
        struct nixl_req *req, *move = NULL;

        memset(local, BLANK, nbytes + 64);
        mpt_fill(is_read ? segment.bytes + offset : local + shift, nbytes, (uint64_t)conf.rank);
        req = expose(&segment, offset, nbytes, is_read ? NIXL_PAIR_READ : NIXL_PAIR_WRITE, &mine);
        give_token(conf.next, &mine);
        theirs = get_token(conf.prev);
        end(is_read ? nixl_pair_read(theirs.text, local + shift, nbytes, &move)
                    : nixl_pair_write(theirs.text, local + shift, nbytes, &move),
            &move);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_CHECK(is_read ? local + shift : segment.bytes + offset, nbytes,
                  (uint64_t)(is_read ? conf.prev : conf.next));
    }
    conf_end(&segment);
    free(local);
}

#define N_AT_ONCE 100

static void many_are_exposed_at_once(void)
{
    struct segment segment = conf_segment("pair.many", N_AT_ONCE * 64);
    struct nixl_req *reqs[N_AT_ONCE];
    struct token token;
    unsigned char dst[64];
    size_t index;

    for (size_t i = 0; i < N_AT_ONCE; i++) {
        mpt_fill(segment.bytes + i * 64, 64, i);
        reqs[i] = expose(&segment, i * 64, 64, NIXL_PAIR_READ, &token);
        give_token(conf.next, &token);
    }
    for (size_t i = 0; i < N_AT_ONCE; i++) {
        token = get_token(conf.prev);
        read_all(&token, dst, sizeof(dst));
        MPT_CHECK(dst, sizeof(dst), i);
    }
    for (size_t i = 0; i < N_AT_ONCE; i++) {
        MPT_OK(nixl_req_wait_any(reqs, N_AT_ONCE, MPT_PATIENCE, &index));
        MPT_TRUE(reqs[index] == NULL);
    }
    conf_end(&segment);
}

/* ---- what is not done ------------------------------------------------------------------------ */

static void use_and_size_are_checked_first(void)
{
    struct segment segment = conf_segment("pair.check", 4096);
    unsigned char local[4096];
    struct token mine, theirs, bad;
    struct nixl_req *req, *none = NULL;

    mpt_fill(segment.bytes, 4096, (uint64_t)conf.rank);
    req = expose(&segment, 0, 4096, NIXL_PAIR_READ, &mine);
    memset(local, BLANK, sizeof(local));
    if (conf.size > 1) { /* it is for the next rank only */
        MPT_STATUS(nixl_pair_read(mine.text, local, 4096, &none), NIXL_E_INVALID_ARG);
        MPT_STATUS(nixl_pair_decline(mine.text), NIXL_E_INVALID_ARG);
    }
    give_token(conf.next, &mine);
    theirs = get_token(conf.prev);
    MPT_STATUS(nixl_pair_write(theirs.text, local, 4096, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_read(theirs.text, local, 4095, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_read(theirs.text, local, 0, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_read(theirs.text, NULL, 4096, &none), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_pair_read(theirs.text, local, 4096, NULL), NIXL_E_INVALID_ARG);
    for (size_t i = 0; i < strlen(theirs.text); i++) {
        bad = theirs;
        bad.text[i] = bad.text[i] == 'A' ? 'B' : 'A';
        MPT_STATUS(nixl_pair_read(bad.text, local, 4096, &none), NIXL_E_INVALID_ARG);
        bad.text[i] = '\0';
        MPT_STATUS(nixl_pair_read(bad.text, local, 4096, &none), NIXL_E_INVALID_ARG);
    }
    MPT_CHECK_BYTES(local, sizeof(local), BLANK);
    MPT_TRUE(none == NULL);
    read_all(&theirs, local, 4096); /* nothing of this has used it up */
    MPT_CHECK(local, 4096, (uint64_t)conf.prev);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    conf_end(&segment);
}

static void either_side_takes_it_back(void)
{
    struct segment segment = conf_segment("pair.cancel", 4096);
    int32_t outcome = NIXL_OUTCOME_PARTIAL;
    struct token mine, theirs;
    struct nixl_req *req = expose(&segment, 0, 4096, NIXL_PAIR_READ, &mine);

    give_token(conf.next, &mine);
    theirs = get_token(conf.prev);
    MPT_OK(nixl_pair_decline(theirs.text));
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    mpt_barrier();
    is_refused(&theirs, 4096, NIXL_E_CANCELED);
    mpt_barrier();

    req = expose(&segment, 0, 4096, NIXL_PAIR_READ, &mine);
    MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
    MPT_TRUE(req == NULL && outcome == NIXL_OUTCOME_UNTOUCHED);
    give_token(conf.next, &mine);
    theirs = get_token(conf.prev);
    is_refused(&theirs, 4096, NIXL_E_CANCELED);
    conf_end(&segment);
}

static void closing_a_region_takes_its_buffers_back(void)
{
    struct segment segment = conf_segment("pair.close", 4096),
                   other = conf_segment("pair.other", 4096);
    struct token mine, theirs, kept;
    struct nixl_req *req = expose(&segment, 0, 4096, NIXL_PAIR_READ, &mine);
    struct nixl_req *other_req = expose(&other, 0, 4096, NIXL_PAIR_READ, &kept);
    unsigned char local[4096];

    conf_drop(&segment);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_CANCELED);
    give_token(conf.next, &mine);
    give_token(conf.next, &kept);
    theirs = get_token(conf.prev);
    is_refused(&theirs, 4096, NIXL_E_CANCELED);
    theirs = get_token(conf.prev);
    read_all(&theirs, local, 4096);
    MPT_OK(nixl_req_wait(&other_req, MPT_PATIENCE));
    conf_end(&other);
}

/* A lifetime so short that it is over before any rank has the token. */
static void a_lifetime_ends_it(void)
{
    struct segment segment = conf_segment("pair.life", 4096);
    struct token mine, theirs;
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, segment.region, 0, 4096, NIXL_PAIR_WRITE, 1,
                                mine.text, sizeof(mine.text), &req),
               NIXL_INPROGRESS);
    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_EXPIRED);
    give_token(conf.next, &mine);
    theirs = get_token(conf.prev);
    MPT_STATUS(nixl_pair_decline(theirs.text), NIXL_E_EXPIRED);
    mpt_barrier();

    /* Nothing waits for that one; it ends nevertheless, also for the holder of its token. */
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, segment.region, 0, 4096, NIXL_PAIR_WRITE, 1,
                                mine.text, sizeof(mine.text), &req),
               NIXL_INPROGRESS);
    MPT_OK(nixl_req_detach(&req));
    conf_end(&segment);
}

/* ---- which rank ------------------------------------------------------------------------------ */

/* Every rank tries each token: one gets the bytes, the others get an error. */
static void one_of_many_partners_wins(void)
{
    struct segment segment = conf_segment("pair.race", 4096);
    unsigned char local[4096];

    mpt_fill(segment.bytes, 4096, (uint64_t)conf.rank);
    for (unsigned round = 0; round < conf_rounds(50); round++) {
        int exposer = (int)(round % (unsigned)conf.size), n_won = 0;
        struct token token;
        struct nixl_req *req = NULL, *move = NULL;
        int status;

        if (conf.rank == exposer) {
            MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, segment.region, 0, 4096, NIXL_PAIR_READ,
                                        NIXL_FOREVER, token.text, sizeof(token.text), &req),
                       NIXL_INPROGRESS);
            for (int rank = 0; rank < conf.size; rank++) {
                give_token(rank, &token);
            }
        }
        token = get_token(exposer);
        memset(local, BLANK, sizeof(local));
        status = nixl_pair_read(token.text, local, 4096, &move);
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_wait(&move, MPT_PATIENCE);
        }
        if (status == NIXL_OK) {
            MPT_CHECK(local, 4096, (uint64_t)exposer);
        } else {
            MPT_STATUS(status, NIXL_E_STALE);
            MPT_CHECK_BYTES(local, 4096, BLANK);
        }
        MPT_OK(nixl_notify(exposer, TAG_DONE, &status, sizeof(status), MPT_PATIENCE));
        for (int rank = 0; conf.rank == exposer && rank < conf.size; rank++) {
            static struct nixl_note note;

            nixl_note_init(&note);
            MPT_OK(nixl_notify_recv(rank, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
            n_won += memcmp(note.payload, &(int){NIXL_OK}, sizeof(int)) == 0;
        }
        if (conf.rank == exposer) {
            MPT_EQ(n_won, 1);
            MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        }
    }
    conf_end(&segment);
}

/* One rank after the other sleeps on its event fd until its partner is through. */
static void an_end_wakes_the_event_fd(void)
{
    struct segment segment = conf_segment("pair.event", 4096);
    struct pollfd fd = {.fd = nixl_event_fd(), .events = POLLIN};
    struct nixl_event event = NIXL_EVENT_INIT;
    unsigned char local[4096];
    struct token token;

    for (int rank = 0; rank < conf.size && conf.size > 1; rank++) {
        if (conf.rank == rank) {
            struct nixl_req *req = expose(&segment, 0, 4096, NIXL_PAIR_READ, &token);
            int status;

            give_token(conf.next, &token);
            while ((status = nixl_req_test(&req)) == NIXL_INPROGRESS) {
                while (nixl_event_recv(0, &event) == NIXL_OK) {
                }
                if (nixl_event_arm() == NIXL_OK) {
                    MPT_EQ(poll(&fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
                }
            }
            MPT_OK(status);
        } else if (conf.prev == rank) {
            token = get_token(rank);
            read_all(&token, local, 4096);
        }
        mpt_barrier();
    }
    conf_drop(&segment);
}

/* More than can be exposed at once, each used before the next one, and no call waits for them. */
static void a_detached_buffer_gives_its_slot_back(void)
{
    enum { MORE = 4096 + 8 };
    struct segment segment = conf_segment("pair.detached", 64);
    char bytes[64];

    for (int i = 0; i < MORE; i++) {
        struct nixl_req *req = NULL, *move = NULL;
        struct token token;

        MPT_STATUS(nixl_pair_expose(conf.rank, segment.region, 0, sizeof(bytes), NIXL_PAIR_READ,
                                    LIFETIME, token.text, sizeof(token.text), &req),
                   NIXL_INPROGRESS);
        MPT_OK(nixl_req_detach(&req));
        end(nixl_pair_read(token.text, bytes, sizeof(bytes), &move), &move);
    }
    mpt_barrier();
    conf_drop(&segment);
}

const struct guarantee conf_pair[] = {
    {"pair", NULL, 0},
    {"a_token_is_used_once", a_token_is_used_once, 0},
    {"what_is_written_is_visible_at_the_end", what_is_written_is_visible_at_the_end, 0},
    {"buffers_of_any_shape_are_exposed", buffers_of_any_shape_are_exposed, 0},
    {"many_are_exposed_at_once", many_are_exposed_at_once, 0},
    {"use_and_size_are_checked_first", use_and_size_are_checked_first, 0},
    {"either_side_takes_it_back", either_side_takes_it_back, 0},
    {"closing_a_region_takes_its_buffers_back", closing_a_region_takes_its_buffers_back, 0},
    {"a_lifetime_ends_it", a_lifetime_ends_it, 0},
    {"one_of_many_partners_wins", one_of_many_partners_wins, 0},
    {"an_end_wakes_the_event_fd", an_end_wakes_the_event_fd, 0},
    {"a_detached_buffer_gives_its_slot_back", a_detached_buffer_gives_its_slot_back, 0},
    {0},
};
