/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on the life of prepared transfers: starts, requests, notifications, cancel, ranges. */
#include "local.h"
#include "test/op_form.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TAG_NOTE 0x8e01
#define TAG_NEXT 0x8e02
#define TAG_GONE 0x8e03

#define BLOCK    4096
#define N_BLOCKS 64

/* Both sides alike: blocks of one size, in one entry each. */
struct pair {
    struct segment segment;
    unsigned char *seen; /* a copy of the own segment */
    struct local memory; /* the local side */
    struct nixl_blocks local, remote;
    uint64_t local_index[N_BLOCKS], remote_index[N_BLOCKS];
};

static void make_pair_of(struct pair *pair, const char *name, enum nixl_mem_kind local_kind)
{
    pair->segment = conf_segment(name, N_BLOCKS * BLOCK);
    pair->seen = malloc(N_BLOCKS * BLOCK);
    MPT_TRUE(pair->seen != NULL);
    pair->memory = conf_local("xfer.local", local_kind, N_BLOCKS * BLOCK);
    pair->local = pair->remote = (struct nixl_blocks)NIXL_BLOCKS_INIT;
    pair->local.addr = pair->memory.addr;
    pair->remote.region = pair->segment.region;
    pair->local.block_nbytes = pair->local.stride = BLOCK;
    pair->remote.block_nbytes = pair->remote.stride = BLOCK;
    pair->local.nblocks = pair->remote.nblocks = N_BLOCKS;
    pair->local.index = pair->local_index;
    pair->remote.index = pair->remote_index;
    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        pair->local_index[i] = i;
        pair->remote_index[i] = N_BLOCKS - 1 - i;
        mpt_fill(pair->memory.host + i * BLOCK, BLOCK, i + (uint64_t)conf.rank);
    }
    conf_push(&pair->memory, 0, N_BLOCKS * BLOCK);
    mpt_barrier();
}

static void make_pair(struct pair *pair, const char *name)
{
    make_pair_of(pair, name, conf.local_kind);
}

static void drop_pair(struct pair *pair)
{
    conf_end(&pair->segment);
    conf_drop_local(&pair->memory);
    free(pair->seen);
}

/* Look at the own segment. */
static const unsigned char *look(struct pair *pair)
{
    if (pair->segment.bytes != NULL) {
        return pair->segment.bytes;
    }
    conf_read_segment(&pair->segment, 0, pair->seen, N_BLOCKS * BLOCK);
    return pair->seen;
}

/* Fill the own segment. */
static void blank(struct pair *pair, int value)
{
    memset(pair->seen, value, N_BLOCKS * BLOCK);
    conf_fill_segment(&pair->segment, 0, pair->seen, N_BLOCKS * BLOCK);
}

/* The rank before has put its blocks here, in their order. */
static void check_all(struct pair *pair)
{
    const unsigned char *seen = look(pair);

    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        MPT_CHECK(seen + i * BLOCK, BLOCK, i + (uint64_t)conf.prev);
    }
}

static struct nixl_xfer *prepare(struct pair *pair, enum nixl_xfer_op op, int rank)
{
    struct nixl_xfer *xfer = NULL;

    MPT_OK(nixl_xfer_create(op, rank, &pair->local, 1, &pair->remote, 1, &xfer));
    MPT_TRUE(xfer != NULL);
    return xfer;
}

/* Start and wait. */
static void run(struct nixl_xfer *xfer)
{
    MPT_TRUE(nixl_xfer_start(xfer, NULL) >= NIXL_OK);
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
}

/* The rank before has put its block local_index[i] to our remote_index[i]. */
static void check_pair(struct pair *pair, int from, uint64_t n)
{
    const unsigned char *seen = look(pair);

    for (uint64_t i = 0; i < n; i++) {
        MPT_CHECK(seen + pair->remote_index[i] * BLOCK, BLOCK,
                  pair->local_index[i] + (uint64_t)from);
    }
}

static void an_index_may_change_between_starts(void)
{
    static struct pair pair;
    struct nixl_xfer *xfer;
    uint64_t state = 5;

    make_pair(&pair, "xfer.index");
    xfer = prepare(&pair, NIXL_XFER_PUT, conf.next);
    for (unsigned round = 0; round < conf_rounds(50); round++) {
        uint64_t n = 1 + mpt_random(&state) % N_BLOCKS;

        for (uint64_t i = 0; i < N_BLOCKS; i++) { /* the same at both ends: one seed */
            uint64_t j = mpt_random(&state) % (i + 1);

            pair.remote_index[i] = pair.remote_index[j];
            pair.remote_index[j] = i;
            pair.local_index[i] = mpt_random(&state) % N_BLOCKS;
        }
        MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, n, pair.local_index));
        MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 0, n, pair.remote_index));
        MPT_TRUE(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(TAG_NOTE, NULL, 0)}, NULL) >=
                 NIXL_OK);
        conf_hear(conf.prev, TAG_NOTE);
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
        check_pair(&pair, conf.prev, n);
        blank(&pair, 0);
        mpt_barrier();
    }
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, 0, pair.local_index));
    MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_INVALID_ARG); /* sides of different size */
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 0, 0, NULL));
    run(xfer); /* of nothing */
    MPT_OK(nixl_xfer_free(xfer));
    mpt_barrier();
    MPT_CHECK_BYTES(look(&pair), N_BLOCKS * BLOCK, 0);
    drop_pair(&pair);
}

static void a_notification_comes_behind_a_transfer(void)
{
    static struct nixl_note note;
    static struct pair pair;
    struct nixl_xfer *xfer;
    const char text[] = "all of it";

    make_pair(&pair, "xfer.note");
    xfer = prepare(&pair, NIXL_XFER_PUT, conf.next);
    for (unsigned round = 0; round < conf_rounds(100); round++) {
        MPT_TRUE(nixl_xfer_start_x(
                     xfer,
                     (struct nixl_op[]){op_note(TAG_NOTE + (uint64_t)round, text, sizeof(text))},
                     NULL) >= NIXL_OK);
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(conf.prev, TAG_NOTE + (uint64_t)round, UINT64_MAX, MPT_PATIENCE,
                                &note));
        MPT_EQ(note.nbytes, sizeof(text));
        MPT_EQ(memcmp(note.payload, text, sizeof(text)), 0);
        check_pair(&pair, conf.prev, N_BLOCKS);
        MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
        blank(&pair, 0);
        mpt_barrier();
    }
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

/* The owner hears when its memory was read, and may change it then. */
static void a_notification_comes_behind_the_last_read(void)
{
    static struct pair pair;
    struct nixl_xfer *xfer;

    make_pair(&pair, "xfer.read");
    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        mpt_fill(pair.seen + pair.remote_index[i] * BLOCK, BLOCK, i + (uint64_t)conf.rank);
    }
    conf_fill_segment(&pair.segment, 0, pair.seen, N_BLOCKS * BLOCK);
    mpt_barrier();
    xfer = prepare(&pair, NIXL_XFER_GET, conf.next);
    MPT_TRUE(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(TAG_NOTE, NULL, 0)}, NULL) >=
             NIXL_OK);
    conf_hear(conf.prev, TAG_NOTE);
    blank(&pair, 0);
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    conf_pull(&pair.memory, 0, N_BLOCKS * BLOCK);
    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        MPT_CHECK(pair.memory.host + i * BLOCK, BLOCK, i + (uint64_t)conf.next);
    }
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

static void neighbours_move_as_one(void)
{
    static struct pair pair;
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    struct nixl_xfer *xfer;
    struct nixl_blocks pieces[2];

    make_pair(&pair, "xfer.merge");
    xfer = prepare(&pair, NIXL_XFER_PUT, conf.next); /* the remote side runs backwards */
    run(xfer);
    MPT_OK(nixl_xfer_query(xfer, &info));
    MPT_EQ(info.npieces, N_BLOCKS);
    MPT_EQ(info.nblocks, N_BLOCKS);
    MPT_EQ(info.nbytes, N_BLOCKS * BLOCK);
    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        pair.remote_index[i] = i;
    }
    run(xfer);
    MPT_OK(nixl_xfer_query(xfer, &info));
    MPT_EQ(info.npieces, 1);
    MPT_EQ(info.nstarts, 2);
    MPT_OK(nixl_xfer_free(xfer));
    /* Across entries, too; and the sides need not be cut alike. */
    pieces[0] = pieces[1] = pair.local;
    pieces[0].index = pieces[1].index = NULL;
    pieces[0].nblocks = pieces[1].nblocks = 1;
    pieces[0].block_nbytes = 1000;
    pieces[1].offset = 1000;
    pieces[1].block_nbytes = N_BLOCKS * BLOCK - 1000;
    MPT_OK(nixl_xfer_create(NIXL_XFER_GET, conf.next, pieces, 2, &pair.remote, 1, &xfer));
    run(xfer);
    MPT_OK(nixl_xfer_query(xfer, &info));
    MPT_EQ(info.npieces, 1);
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

/* What the transport that moves the bytes of both sides is expected to do: 0 is not known. */
static uint64_t expected_mbps(const struct pair *pair)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;

    for (unsigned i = 0; !route.is_chosen; i++) {
        MPT_OK(nixl_route_query_segment(conf.next, pair->segment.region, pair->memory.addr, i,
                                        &route));
    }
    return route.bandwidth_mbps;
}

static void what_it_takes_is_estimated_and_measured(void)
{
    static struct pair pair;
    struct nixl_xfer_info before = NIXL_XFER_INFO_INIT, after = NIXL_XFER_INFO_INIT;
    struct nixl_xfer *xfer;

    make_pair(&pair, "xfer.cost");
    xfer = prepare(&pair, NIXL_XFER_PUT, conf.next);
    MPT_OK(nixl_xfer_query(xfer, &before));
    MPT_EQ(before.estimated_ns > 0, expected_mbps(&pair) > 0);
    MPT_EQ(before.nstarts, 0);
    MPT_EQ(before.took_ns, 0);
    run(xfer);
    MPT_OK(nixl_xfer_query(xfer, &after));
    MPT_EQ(after.nstarts, 1);
    MPT_TRUE(after.took_ns > 0);
    MPT_EQ(after.had_estimated_ns, before.estimated_ns);
    MPT_TRUE(after.estimated_ns > 0);
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void many_transfers_are_in_flight(void)
{
    enum { N_XFERS = 32 };
    static struct pair pair;
    struct nixl_xfer *xfers[N_XFERS];
    struct nixl_req *reqs[N_XFERS] = {0};
    size_t n_open = 0, index;

    make_pair(&pair, "xfer.flight");
    for (int i = 0; i < N_XFERS; i++) {
        pair.local.offset = pair.remote.offset = (uint64_t)i * 2 * BLOCK;
        pair.local.nblocks = pair.remote.nblocks = 2;
        pair.local.index = pair.remote.index = NULL;
        xfers[i] = prepare(&pair, NIXL_XFER_PUT, conf.next);
    }
    for (int i = 0; i < N_XFERS; i++) {
        int status =
            nixl_xfer_start_x(xfers[i], (struct nixl_op[]){op_note(TAG_NOTE, NULL, 0)}, &reqs[i]);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_EQ(reqs[i] != NULL, status == NIXL_INPROGRESS);
        n_open += reqs[i] != NULL;
    }
    for (; n_open > 0; n_open--) {
        MPT_OK(nixl_req_wait_any(reqs, N_XFERS, MPT_PATIENCE, &index));
        MPT_TRUE(reqs[index] == NULL);
    }
    for (int i = 0; i < N_XFERS; i++) {
        conf_hear(conf.prev, TAG_NOTE);
        MPT_OK(nixl_xfer_free(xfers[i]));
    }
    check_all(&pair);
    drop_pair(&pair);
}

/* A transfer that no call completes at once: a block of 256 KiB, put to the same place n times. */
static struct nixl_xfer *prepare_long(struct pair *pair, uint64_t n)
{
    pair->local.block_nbytes = pair->remote.block_nbytes = N_BLOCKS * BLOCK;
    pair->local.stride = pair->remote.stride = 0;
    pair->local.nblocks = pair->remote.nblocks = n;
    pair->local.index = pair->remote.index = NULL;
    return prepare(pair, NIXL_XFER_PUT, conf.next);
}

static void one_start_at_a_time(void)
{
    static struct pair pair;
    struct nixl_req *req = NULL;
    struct nixl_xfer *xfer;

    make_pair_of(&pair, "xfer.twice", NIXL_MEM_HOST);
    xfer = prepare_long(&pair, 1200);
    MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_INPROGRESS);
    MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_IN_USE);
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    MPT_OK(nixl_xfer_wait(xfer, 0));
    MPT_STATUS(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(TAG_NOTE, NULL, 0)}, &req),
               NIXL_INPROGRESS);
    MPT_TRUE(req != NULL);
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    conf_hear(conf.prev, TAG_NOTE);
    check_all(&pair);
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

static void sleep_through_a_transfer(struct nixl_xfer *xfer)
{
    struct pollfd fd = {.fd = nixl_event_fd(), .events = POLLIN};
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_req *req = NULL;
    int status;

    MPT_STATUS(nixl_xfer_start(xfer, &req), NIXL_INPROGRESS);
    while ((status = nixl_req_test(&req)) == NIXL_INPROGRESS) {
        while (nixl_event_recv(0, &event) == NIXL_OK) {
            MPT_EQ(event.type, NIXL_EVENT_REGION_CLOSED); /* of what came before */
        }
        if (nixl_event_arm() == NIXL_OK) {
            MPT_EQ(poll(&fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        }
    }
    MPT_OK(status);
    MPT_TRUE(req == NULL);
}

/* One rank after the other, so that nothing else wakes it. */
static void a_completed_transfer_wakes_the_event_fd(void)
{
    static struct pair pair;
    struct nixl_xfer *xfer;

    make_pair_of(&pair, "xfer.event", NIXL_MEM_HOST);
    xfer = prepare_long(&pair, 1200);
    for (int rank = 0; rank < conf.size; rank++) {
        if (rank != conf.rank) {
            conf_hear(rank, TAG_NEXT);
            continue;
        }
        sleep_through_a_transfer(xfer);
        for (int other = 0; other < conf.size; other++) {
            if (other != conf.rank) {
                conf_tell(other, TAG_NEXT);
            }
        }
    }
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

/* What the cancel of the rank before has said of the own segment. */
static int32_t hear_outcome(void)
{
    struct nixl_note note;
    int32_t outcome;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.prev, TAG_NEXT, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.nbytes, sizeof(outcome));
    memcpy(&outcome, note.payload, sizeof(outcome));
    return outcome;
}

static void a_canceled_transfer_moves_no_more(void)
{
    static struct pair pair;
    int32_t outcome = NIXL_OUTCOME_UNTOUCHED;
    struct nixl_xfer *xfer;
    struct nixl_req *req;

    make_pair(&pair, "xfer.cancel");
    blank(&pair, 7);
    mpt_barrier();
    xfer = prepare_long(&pair, 40000000); /* 10 TB: not done before the cancel, whoever waits */
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        MPT_STATUS(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(TAG_NOTE, NULL, 0)}, &req),
                   NIXL_INPROGRESS);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        MPT_TRUE(outcome == NIXL_OUTCOME_PARTIAL || outcome == NIXL_OUTCOME_UNTOUCHED);
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
        MPT_OK(nixl_notify(conf.next, TAG_NEXT, &outcome, sizeof(outcome), MPT_PATIENCE));
        if (hear_outcome() == NIXL_OUTCOME_UNTOUCHED) {
            MPT_CHECK_BYTES(look(&pair), N_BLOCKS * BLOCK, 7);
        }
        blank(&pair, 7);
        conf_tell(conf.prev, TAG_NEXT);
        conf_hear(conf.next, TAG_NEXT);
        MPT_CHECK_BYTES(look(&pair), N_BLOCKS * BLOCK, 7);
        mpt_barrier();
    }
    MPT_OK(nixl_xfer_free(xfer));
    mpt_barrier(); /* no notification came of what was canceled */
    drop_pair(&pair);
}

/* ---- ranges and closed segments -------------------------------------------------------------- */

static void indices_are_checked_before_a_byte_moves(void)
{
    static struct pair pair;
    struct nixl_xfer *xfer, *none = NULL;

    make_pair(&pair, "xfer.range");
    xfer = prepare(&pair, NIXL_XFER_PUT, conf.next);
    for (int side = 0; side < 2; side++) {
        uint64_t *index = side == 0 ? pair.remote_index : pair.local_index;
        uint64_t before = index[N_BLOCKS - 1];
        const uint64_t bad[] = {N_BLOCKS, UINT64_MAX, UINT64_MAX / BLOCK, 1ull << 62};

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) && side == 0; i++) {
            index[N_BLOCKS - 1] = bad[i];
            MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_RANGE);
            MPT_STATUS(
                nixl_xfer_create(NIXL_XFER_PUT, conf.next, &pair.local, 1, &pair.remote, 1, &none),
                NIXL_E_RANGE);
        }
        index[N_BLOCKS - 1] = UINT64_MAX; /* beyond any memory, on either side */
        MPT_STATUS(nixl_xfer_start(xfer, NULL), NIXL_E_RANGE);
        index[N_BLOCKS - 1] = before;
    }
    MPT_TRUE(none == NULL);
    mpt_barrier();
    MPT_CHECK_BYTES(look(&pair), N_BLOCKS * BLOCK, 0);
    mpt_barrier();
    run(xfer); /* good again */
    MPT_OK(nixl_xfer_free(xfer));
    /* An own region has an end, too. */
    pair.local.addr = NULL;
    pair.local.region = pair.segment.region;
    pair.local.offset = 1;
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, conf.rank, &pair.local, 1, &pair.remote, 1, &none),
               NIXL_E_RANGE);
    drop_pair(&pair);
}

static void a_transfer_finds_a_new_segment_again(void)
{
    static struct pair pair;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *there;
    struct nixl_xfer *xfer;
    int status;

    make_pair_of(&pair, "xfer.stale", NIXL_MEM_HOST);
    MPT_OK(nixl_region_open("xfer.stale", &there)); /* outlives the own segment */
    pair.remote.region = there;
    xfer = prepare(&pair, NIXL_XFER_PUT, conf.next);
    run(xfer);
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    conf_end(&pair.segment);
    conf_tell(conf.prev, TAG_GONE); /* comes behind the close; a barrier may not */
    conf_hear(conf.next, TAG_GONE);
    status = nixl_xfer_start(xfer, NULL);
    MPT_STATUS(status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, MPT_PATIENCE) : status,
               NIXL_E_STALE);
    mpt_barrier();
    pair.segment = conf_segment("xfer.stale", N_BLOCKS * BLOCK);
    MPT_OK(nixl_region_query(conf.next, there, MPT_PATIENCE, &info));
    MPT_TRUE(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(TAG_NOTE, NULL, 0)}, NULL) >=
             NIXL_OK);
    conf_hear(conf.prev, TAG_NOTE);
    check_pair(&pair, conf.prev, N_BLOCKS);
    MPT_OK(nixl_xfer_wait(xfer, MPT_PATIENCE));
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_region_close(there, MPT_PATIENCE));
    drop_pair(&pair);
}

/* The request of a start is freed; behind the flush what it reads is there. */
static void a_flush_waits_for_reads_that_were_freed(void)
{
    static struct pair pair;
    struct nixl_xfer *xfer;

    make_pair(&pair, "xfer.freed");
    mpt_fill(pair.segment.bytes, N_BLOCKS * BLOCK, (uint64_t)conf.rank);
    for (uint64_t i = 0; i < N_BLOCKS; i++) {
        pair.remote_index[i] = i;
    }
    mpt_barrier();
    xfer = prepare(&pair, NIXL_XFER_GET, conf.next);
    for (unsigned round = 0; round < conf_rounds(50); round++) {
        struct nixl_req *req = NULL;

        memset(pair.memory.host, 0x99, N_BLOCKS * BLOCK);
        conf_push(&pair.memory, 0, N_BLOCKS * BLOCK);
        MPT_TRUE(nixl_xfer_start(xfer, &req) >= NIXL_OK);
        MPT_OK(nixl_req_detach(&req));
        MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
        conf_pull(&pair.memory, 0, N_BLOCKS * BLOCK);
        MPT_CHECK(pair.memory.host, N_BLOCKS * BLOCK, (uint64_t)conf.next);
    }
    MPT_OK(nixl_xfer_free(xfer));
    drop_pair(&pair);
}

/* An atomic behind the end of a start finds the signal raised: it ends in its call, or later. */
static void a_transfer_ends_when_its_signal_is_raised(void)
{
    static struct pair pair;
    struct nixl_region *words;
    struct nixl_op op;

    make_pair(&pair, "xfer.raised");
    MPT_OK(nixl_region_alloc("xfer.raised.words", 8, NULL, &words));
    op = op_signal(words, 0, NIXL_SIGNAL_ADD, 1);
    mpt_barrier();
    for (uint64_t round = 1; round <= conf_rounds(50); round++) {
        struct nixl_req *req = NULL;
        struct nixl_xfer *xfer;
        uint64_t seen;

        pair.local.nblocks = pair.remote.nblocks = round % 2 == 0 ? N_BLOCKS : 1;
        xfer = prepare(&pair, NIXL_XFER_PUT, conf.next);
        MPT_TRUE(nixl_xfer_start_x(xfer, &op, &req) >= NIXL_OK);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        MPT_OK(nixl_atomic(conf.next, words, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &seen));
        MPT_EQ(seen, round);
        MPT_OK(nixl_xfer_free(xfer));
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(words, MPT_PATIENCE));
    drop_pair(&pair);
}

const struct guarantee conf_xfer[] = {
    {"xfer", NULL, 0},
    {"a_flush_waits_for_reads_that_were_freed", a_flush_waits_for_reads_that_were_freed, CONF_HOST},
    {"an_index_may_change_between_starts", an_index_may_change_between_starts, 0},
    {"a_notification_comes_behind_a_transfer", a_notification_comes_behind_a_transfer, 0},
    {"a_notification_comes_behind_the_last_read", a_notification_comes_behind_the_last_read, 0},
    {"neighbours_move_as_one", neighbours_move_as_one, 0},
    {"what_it_takes_is_estimated_and_measured", what_it_takes_is_estimated_and_measured, 0},
    {"a_transfer_ends_when_its_signal_is_raised", a_transfer_ends_when_its_signal_is_raised, 0},
    {"many_transfers_are_in_flight", many_transfers_are_in_flight, 0},
    {"one_start_at_a_time", one_start_at_a_time, CONF_HOST},
    {"a_completed_transfer_wakes_the_event_fd", a_completed_transfer_wakes_the_event_fd, CONF_HOST},
    {"a_canceled_transfer_moves_no_more", a_canceled_transfer_moves_no_more, 0},
    {"indices_are_checked_before_a_byte_moves", indices_are_checked_before_a_byte_moves, 0},
    {"a_transfer_finds_a_new_segment_again", a_transfer_finds_a_new_segment_again, CONF_HOST},
    {0},
};
