/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on the extended form of operations, on contexts and on completion queues. A row of
 * ranks does the same in a ring: each puts to its next rank and hears from the one before.
 */
#include "conformance.h"
#include "test/op_form.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SMALL ((size_t)256)
#define LARGE ((size_t)3 << 20)
#define WORDS ((size_t)64) /* bytes behind the data, for signals */

enum { TAG_DATA = 0xc001, TAG_LATER = 0xc002, TAG_META = 0xc003 };

static _Thread_local struct nixl_note note;

/* What a rank has from the one before it, and a buffer for its next one. */
struct ring {
    struct segment segment;
    struct nixl_region *words; /* signals: host memory of the library's */
    uint64_t *own_words;
    unsigned char *buffer;
};

static struct ring ring_make(const char *name)
{
    struct ring ring = {.segment = conf_segment(name, LARGE), .buffer = malloc(LARGE)};

    MPT_TRUE(ring.buffer != NULL);
    MPT_OK(nixl_region_alloc("words of the ring", WORDS, NULL, &ring.words));
    ring.own_words = nixl_region_addr(ring.words);
    mpt_barrier();
    return ring;
}

static void ring_drop(struct ring *ring)
{
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
    mpt_barrier();
    MPT_OK(nixl_region_close(ring->words, MPT_PATIENCE));
    conf_drop(&ring->segment);
    free(ring->buffer);
}

static bool ring_holds(const struct ring *ring, unsigned char byte, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (ring->segment.bytes[i] != byte) {
            return false;
        }
    }
    return true;
}

static void receive(int rank, uint64_t tag, const struct nixl_op *op)
{
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv_x(rank, tag, UINT64_MAX, op, &note));
    MPT_EQ(note.rank, rank);
}

/* One round of the ring: a put of that many bytes with `op`, in whichever way it ends. */
static void put_round(struct ring *ring, size_t nbytes, unsigned char byte, struct nixl_op *op)
{
    struct nixl_req *req = (struct nixl_req *)ring; /* must be overwritten */
    int status;

    memset(ring->buffer, byte, nbytes);
    status = nixl_put_x(conf.next, ring->segment.region, 0, ring->buffer, nbytes, op, &req);
    if (status == NIXL_INPROGRESS) {
        MPT_TRUE(req != NULL);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else {
        MPT_OK(status);
        MPT_TRUE(req == NULL);
    }
}

/* ---- what follows ---------------------------------------------------------------------------- */

static void a_notification_follows_the_data(void)
{
    static const size_t sizes[] = {8, SMALL, 200000, LARGE};
    struct ring ring = ring_make("extended");

    for (unsigned i = 0; i < 4 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t nbytes = sizes[i / 4];
        struct nixl_op op = op_note(TAG_DATA + i, "text", 4);

        put_round(&ring, nbytes, (unsigned char)(i + 1), &op);
        receive(conf.prev, TAG_DATA + i, NULL);
        MPT_EQ(note.nbytes, 4);
        MPT_EQ(memcmp(note.payload, "text", 4), 0);
        MPT_TRUE(ring_holds(&ring, (unsigned char)(i + 1), nbytes));
        mpt_barrier();
    }
    ring_drop(&ring);
}

static void a_notification_behind_a_put_keeps_its_place(void)
{
    struct ring ring = ring_make("extended place");
    struct nixl_op op = op_note(TAG_DATA, NULL, 0);
    struct nixl_req *req;
    int status;

    for (unsigned round = 0; round < conf_rounds(20); round++) {
        memset(ring.buffer, (int)round, LARGE);
        status = nixl_put_x(conf.next, ring.segment.region, 0, ring.buffer, LARGE, &op, &req);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_OK(nixl_notify(conf.next, TAG_LATER, NULL, 0, MPT_PATIENCE));
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(conf.prev, 0, 0, MPT_PATIENCE, &note));
        MPT_EQ(note.tag, TAG_DATA);
        MPT_TRUE(ring_holds(&ring, (unsigned char)round, LARGE));
        receive(conf.prev, TAG_LATER, NULL);
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
        mpt_barrier();
    }
    ring_drop(&ring);
}

/* How a put of one byte ends, at once or later. */
static int put_ends(const struct ring *ring, uint64_t offset, const struct nixl_op *op)
{
    struct nixl_req *req;
    int status = nixl_put_x(conf.next, ring->segment.region, offset, ring->buffer, 1, op, &req);

    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status;
}

static void nothing_follows_what_fails(void)
{
    struct ring ring = ring_make("extended failing");
    struct nixl_op op = op_note(TAG_DATA, NULL, 0);

    for (int i = 0; i < 2; i++) { /* first while the segment is looked up, then at once */
        MPT_EQ(put_ends(&ring, LARGE, &op), NIXL_E_RANGE);
    }
    op = op_signal(ring.words, WORDS, NIXL_SIGNAL_ADD, 1);
    MPT_EQ(put_ends(&ring, 0, &op), NIXL_E_RANGE);
    op = op_signal(ring.words, 0, NIXL_SIGNAL_ADD, 1);
    MPT_EQ(put_ends(&ring, LARGE, &op), NIXL_E_RANGE);
    MPT_OK(nixl_notify(conf.next, TAG_LATER, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.prev, 0, 0, MPT_PATIENCE, &note));
    MPT_EQ(note.tag, TAG_LATER);
    MPT_EQ(ring.own_words[0], 0);
    ring_drop(&ring);
}

static void a_signal_and_a_notification_follow_the_data(void)
{
    struct ring ring = ring_make("extended both");
    struct nixl_op op;

    for (unsigned round = 1; round <= 6; round++) {
        size_t nbytes = round % 2 == 0 ? LARGE : SMALL;

        op = op_signal(ring.words, 8, NIXL_SIGNAL_ADD, 1);
        op.flags |= NIXL_OP_NOTE;
        op.tag = TAG_DATA;
        put_round(&ring, nbytes, (unsigned char)round, &op);
        MPT_OK(nixl_signal_wait(&ring.own_words[1], NIXL_COMPARE_EQ, round, MPT_PATIENCE, NULL));
        MPT_TRUE(ring_holds(&ring, (unsigned char)round, nbytes));
        receive(conf.prev, TAG_DATA, NULL);
        mpt_barrier();
    }
    ring_drop(&ring);
}

static void a_get_notifies_and_signals_when_it_has_the_data(void)
{
    struct ring ring = ring_make("extended get");
    uint64_t signal = 0;
    struct nixl_op op = op_own_signal(&signal, NIXL_SIGNAL_SET, 7);
    struct nixl_req *req;
    int status;

    memset(ring.segment.bytes, 40 + conf.rank, LARGE);
    mpt_barrier();
    op.flags |= NIXL_OP_NOTE;
    op.tag = TAG_DATA;
    status = nixl_get_x(conf.next, ring.segment.region, 0, ring.buffer, LARGE, &op, &req);
    if (status == NIXL_INPROGRESS) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    } else {
        MPT_OK(status);
    }
    MPT_EQ(signal, 7);
    MPT_EQ(ring.buffer[LARGE - 1], 40 + conf.next);
    receive(conf.prev, TAG_DATA, NULL);
    ring_drop(&ring);
}

static void a_prepared_transfer_notifies_and_signals(void)
{
    struct ring ring = ring_make("extended xfer");
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_op op = op_signal(ring.words, 16, NIXL_SIGNAL_ADD, 5);
    struct nixl_xfer *xfer;

    op.flags |= NIXL_OP_NOTE;
    op.tag = TAG_DATA;
    local.addr = ring.buffer;
    remote.region = ring.segment.region;
    local.block_nbytes = remote.block_nbytes = LARGE / 16;
    local.stride = remote.stride = LARGE / 16;
    local.nblocks = remote.nblocks = 16;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
    for (unsigned round = 1; round <= 3; round++) {
        memset(ring.buffer, (int)round, LARGE);
        MPT_OK(nixl_xfer_start_x(xfer, &op, NULL)); /* waits */
        receive(conf.prev, TAG_DATA, NULL);
        MPT_TRUE(ring_holds(&ring, (unsigned char)round, LARGE));
        MPT_OK(
            nixl_signal_wait(&ring.own_words[2], NIXL_COMPARE_EQ, 5 * round, MPT_PATIENCE, NULL));
        mpt_barrier();
    }
    MPT_OK(nixl_xfer_free(xfer));
    ring_drop(&ring);
}

static void a_flush_can_be_started(void)
{
    struct ring ring = ring_make("extended flush");
    struct nixl_req *put, *flush;

    memset(ring.buffer, 9, LARGE);
    if (nixl_put_x(conf.next, ring.segment.region, 0, ring.buffer, LARGE, NULL, &put) ==
        NIXL_INPROGRESS) {
        MPT_OK(nixl_req_detach(&put));
    }
    if (nixl_flush_x(conf.next, ring.segment.region, NULL, &flush) == NIXL_INPROGRESS) {
        MPT_OK(nixl_req_wait(&flush, MPT_PATIENCE));
    }
    mpt_barrier();
    MPT_TRUE(ring_holds(&ring, 9, LARGE));
    MPT_OK(nixl_flush_x(NIXL_ALL_RANKS, NULL, NULL, NULL));
    ring_drop(&ring);
}

/* The bytes are there before a request is asked. */
static void a_flush_of_gets_waits_for_them(void)
{
    struct ring ring = ring_make("extended flush of gets");
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_req *get, *flush;

    op.flags = NIXL_OP_GETS;
    memset(ring.segment.bytes, 7, LARGE);
    mpt_barrier();
    for (int is_started = 0; is_started < 2; is_started++) {
        int status;

        memset(ring.buffer, 0, LARGE);
        status = nixl_get_x(conf.next, ring.segment.region, 0, ring.buffer, LARGE, NULL, &get);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        if (is_started == 0) {
            MPT_OK(nixl_flush_x(conf.next, ring.segment.region, &op, NULL));
        } else if (nixl_flush_x(NIXL_ALL_RANKS, NULL, &op, &flush) == NIXL_INPROGRESS) {
            MPT_OK(nixl_req_wait(&flush, MPT_PATIENCE));
        }
        MPT_CHECK_BYTES(ring.buffer, LARGE, 7);
        MPT_OK(nixl_req_test(&get));
    }
    mpt_barrier();
    ring_drop(&ring);
}

static void a_request_ends_at_its_deadline(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_team *team = NULL;
    struct nixl_req *req;

    /* A team that the others never make. */
    op.timeout_ns = 50 * MPT_MS;
    if (conf.rank == 0 && conf.size > 1) {
        MPT_EQ(nixl_team_create_x((int[]){0, 1}, 2, &op, &team, &req), NIXL_INPROGRESS);
        MPT_EQ(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_TIMEOUT);
        MPT_TRUE(team == NULL);
    }
    mpt_barrier();
    if (conf.rank <= 1 && conf.size > 1) { /* the next call takes it up */
        MPT_OK(nixl_team_create((int[]){0, 1}, 2, MPT_PATIENCE, &team));
        MPT_OK(nixl_team_free(team));
    }
    mpt_barrier();
}

/* ---- contexts -------------------------------------------------------------------------------- */

static struct nixl_op in_context(struct nixl_context *context)
{
    struct nixl_op op = NIXL_OP_INIT;

    op.context = context;
    return op;
}

static void contexts_do_not_take_each_others_notifications(void)
{
    struct nixl_context *first, *second;
    struct nixl_op at_once = NIXL_OP_INIT;
    struct nixl_op ops[3] = {NIXL_OP_INIT};

    MPT_OK(nixl_context_open("conformance one", NULL, &first));
    MPT_OK(nixl_context_open("conformance two", NULL, &second));
    ops[1] = in_context(first);
    ops[2] = in_context(second);
    for (int i = 2; i >= 0; i--) {
        MPT_OK(nixl_notify_x(conf.next, TAG_META, &i, sizeof(i), &ops[i], NULL));
    }
    for (int i = 0; i < 3; i++) {
        int got;

        receive(conf.prev, TAG_META, &ops[i]);
        memcpy(&got, note.payload, sizeof(got));
        MPT_EQ(got, i);
    }
    at_once.timeout_ns = NIXL_AT_ONCE;
    for (int i = 1; i < 3; i++) {
        at_once.context = ops[i].context;
        nixl_note_init(&note);
        MPT_EQ(nixl_notify_recv_x(NIXL_ANY_RANK, 0, 0, &at_once, &note), NIXL_INPROGRESS);
    }
    MPT_OK(nixl_context_close(first));
    MPT_OK(nixl_context_close(second));
    mpt_barrier();
}

static void what_comes_before_a_context_is_opened_waits_for_it(void)
{
    struct nixl_context *context;
    struct nixl_op op;

    if (conf.rank % 2 == 0) {
        MPT_OK(nixl_context_open("conformance early", NULL, &context));
        op = in_context(context);
        MPT_OK(nixl_notify_x(conf.next, TAG_META, "early", 5, &op, NULL));
    }
    mpt_barrier();
    if (conf.rank % 2 != 0) {
        MPT_OK(nixl_context_open("conformance early", NULL, &context));
        op = in_context(context);
        receive(conf.prev, TAG_META, &op);
        MPT_EQ(note.nbytes, 5);
    }
    mpt_barrier();
    if (conf.size % 2 != 0 && conf.rank == 0) {
        receive(conf.prev, TAG_META, &op); /* the last and the first one are both even */
    }
    MPT_OK(nixl_context_close(context));
    mpt_barrier();
}

static void names_of_regions_and_teams_are_a_contexts_own(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_region *plain, *scoped, *opened;
    struct nixl_team *team, *scoped_team;
    struct nixl_context *context;
    struct nixl_op op;
    char byte = 0;

    MPT_OK(nixl_context_open("conformance names", NULL, &context));
    op = in_context(context);
    params.context = context;
    MPT_OK(nixl_region_alloc("same name", 64, NULL, &plain));
    MPT_OK(nixl_region_alloc("same name", 64, &params, &scoped));
    *(char *)nixl_region_addr(plain) = 'p';
    *(char *)nixl_region_addr(scoped) = 's';
    MPT_OK(nixl_region_open_x("same name", &op, &opened));
    mpt_barrier();
    MPT_OK(nixl_get(conf.next, opened, 0, &byte, 1));
    MPT_EQ(byte, 's');
    MPT_OK(nixl_get(conf.next, plain, 0, &byte, 1));
    MPT_EQ(byte, 'p');
    MPT_OK(nixl_team_world_x(&op, &scoped_team, NULL));
    MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
    MPT_OK(nixl_barrier_x(scoped_team, &op, NULL));
    MPT_OK(nixl_barrier(team, MPT_PATIENCE));
    MPT_OK(nixl_team_free(scoped_team));
    MPT_OK(nixl_team_free(team));
    MPT_OK(nixl_region_close(opened, MPT_PATIENCE));
    MPT_OK(nixl_region_close(scoped, MPT_PATIENCE));
    MPT_OK(nixl_region_close(plain, MPT_PATIENCE));
    MPT_OK(nixl_context_close(context));
    mpt_barrier();
}

static void a_context_is_opened_once(void)
{
    struct nixl_context *context, *again = NULL;

    MPT_OK(nixl_context_open("conformance once", NULL, &context));
    MPT_EQ(nixl_context_open("conformance once", NULL, &again), NIXL_E_NAME_IN_USE);
    MPT_TRUE(again == NULL);
    MPT_OK(nixl_context_close(context));
    MPT_EQ(nixl_context_close(context), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_context_open("conformance once", NULL, &context));
    MPT_OK(nixl_context_close(context));
}

/* ---- completion queues ----------------------------------------------------------------------- */

/* Take entries until there are `n`. */
static void take_entries(struct nixl_cq *cq, struct nixl_cq_entry *entries, size_t n)
{
    for (size_t have = 0, got; have < n; have += got) {
        MPT_OK(nixl_cq_wait(cq, entries + have, n - have, MPT_PATIENCE, &got));
        MPT_TRUE(got > 0 && got <= n - have);
    }
}

static void a_queue_reports_every_operation_once(void)
{
    enum { MANY = 40 };
    struct ring ring = ring_make("queue");
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entries[MANY];
    bool is_told[MANY] = {false};
    size_t n_started = 0, got;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        n_started = 0;
        for (int i = 0; i < MANY; i++) {
            int status;

            is_told[i] = true;
            op.user_data = (uint64_t)i;
            status =
                i % 4 == 0
                    ? nixl_put_x(conf.next, ring.segment.region, (uint64_t)(i / 4) * (LARGE / 16),
                                 ring.buffer, LARGE / 16, &op, NULL)
                    : nixl_put_x(conf.next, ring.segment.region, LARGE - (uint64_t)(i + 1) * SMALL,
                                 ring.buffer, SMALL, &op, NULL);
            if (status == NIXL_INPROGRESS) {
                is_told[i] = false;
                n_started++;
            } else {
                MPT_OK(status);
            }
        }
        if (n_started > 0) {
            take_entries(op.cq, entries, n_started);
        }
        for (size_t i = 0; i < n_started; i++) {
            MPT_EQ(entries[i].kind, NIXL_CQ_OPERATION);
            MPT_EQ(entries[i].status, NIXL_OK);
            MPT_EQ(entries[i].rank, conf.next);
            MPT_TRUE(entries[i].user_data < MANY && !is_told[entries[i].user_data]);
            is_told[entries[i].user_data] = true;
        }
        MPT_EQ(nixl_cq_wait(op.cq, entries, MANY, 0, &got), NIXL_INPROGRESS);
    }
    MPT_OK(nixl_cq_close(op.cq));
    ring_drop(&ring);
}

/* Sleep on the queue's descriptor until it has an entry. */
static void sleep_on(struct nixl_cq *cq, int fd, struct nixl_cq_entry *entry)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    size_t n;
    int status;

    while ((status = nixl_cq_wait(cq, entry, 1, 0, &n)) == NIXL_INPROGRESS) {
        status = nixl_cq_arm(cq);
        if (status == NIXL_OK) {
            MPT_EQ(poll(&poll_fd, 1, (int)(MPT_PATIENCE / MPT_MS)), 1);
        }
    }
    MPT_OK(status);
    MPT_EQ(n, 1);
}

static void a_queues_descriptor_wakes_for_each_kind(void)
{
    struct ring ring = ring_make("queue kinds");
    struct nixl_cq_params params = NIXL_CQ_PARAMS_INIT;
    struct nixl_op op = NIXL_OP_INIT, sending;
    struct nixl_cq_entry entry;
    int fd;

    MPT_OK(nixl_context_open("conformance queue", NULL, &op.context));
    sending = in_context(op.context);
    params.context = op.context;
    params.flags = NIXL_CQ_NOTES;
    MPT_OK(nixl_cq_open(&params, &op.cq));
    fd = nixl_cq_fd(op.cq);
    MPT_GE(fd, 0);
    MPT_EQ(nixl_context_close(op.context), NIXL_E_IN_USE);
    for (unsigned round = 1; round <= conf_rounds(30); round++) {
        op.user_data = round;
        MPT_EQ(nixl_signal_wait_x(&ring.own_words[3], NIXL_COMPARE_GE, round, &op, NULL),
               NIXL_INPROGRESS);
        mpt_barrier();
        MPT_OK(nixl_notify_x(conf.next, TAG_META, &round, sizeof(round), &sending, NULL));
        sleep_on(op.cq, fd, &entry);
        MPT_EQ(entry.kind, NIXL_CQ_NOTE);
        MPT_EQ(entry.rank, conf.prev);
        MPT_EQ(entry.value, TAG_META);
        MPT_EQ(entry.nbytes, sizeof(round));
        MPT_EQ(memcmp(entry.data, &round, sizeof(round)), 0);
        mpt_barrier();
        MPT_OK(nixl_signal_add(conf.next, ring.words, 24, 1));
        sleep_on(op.cq, fd, &entry);
        MPT_EQ(entry.kind, NIXL_CQ_SIGNAL);
        MPT_EQ(entry.user_data, round);
        MPT_EQ(entry.value, round);
    }
    MPT_OK(nixl_cq_close(op.cq));
    MPT_OK(nixl_context_close(op.context));
    ring_drop(&ring);
}

static void a_queue_stops_what_it_is_told_to(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    uint64_t word = 0;
    size_t n;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    op.user_data = 11;
    MPT_EQ(nixl_signal_wait_x(&word, NIXL_COMPARE_EQ, 1, &op, NULL), NIXL_INPROGRESS);
    MPT_OK(nixl_cq_cancel(op.cq, 12));
    MPT_EQ(nixl_cq_wait(op.cq, &entry, 1, 0, &n), NIXL_INPROGRESS);
    MPT_OK(nixl_cq_cancel(op.cq, 11));
    take_entries(op.cq, &entry, 1);
    MPT_EQ(entry.status, NIXL_E_CANCELED);
    MPT_EQ(entry.user_data, 11);
    MPT_OK(nixl_cq_close(op.cq));
    MPT_EQ(nixl_cq_close(op.cq), NIXL_E_INVALID_ARG);
}

static void collectives_are_reported_too(void)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    struct nixl_team *team = NULL;
    int status;

    MPT_OK(nixl_cq_open(NULL, &op.cq));
    status = nixl_team_world_x(&op, &team, NULL);
    if (status == NIXL_INPROGRESS) {
        take_entries(op.cq, &entry, 1);
        status = entry.status;
    }
    MPT_OK(status);
    MPT_EQ(nixl_team_size(team), conf.size);
    status = nixl_barrier_x(team, &op, NULL);
    if (status == NIXL_INPROGRESS) {
        take_entries(op.cq, &entry, 1);
        status = entry.status;
    }
    MPT_OK(status);
    MPT_OK(nixl_team_free(team));
    MPT_OK(nixl_cq_close(op.cq));
    mpt_barrier();
}

const struct guarantee conf_extended[] = {
    {"extended form", NULL, 0},
    {"a_notification_follows_the_data", a_notification_follows_the_data, CONF_HOST},
    {"a_notification_behind_a_put_keeps_its_place", a_notification_behind_a_put_keeps_its_place,
     CONF_HOST},
    {"nothing_follows_what_fails", nothing_follows_what_fails, CONF_HOST},
    {"a_signal_and_a_notification_follow_the_data", a_signal_and_a_notification_follow_the_data,
     CONF_HOST},
    {"a_get_notifies_and_signals_when_it_has_the_data",
     a_get_notifies_and_signals_when_it_has_the_data, CONF_HOST},
    {"a_prepared_transfer_notifies_and_signals", a_prepared_transfer_notifies_and_signals,
     CONF_HOST},
    {"a_flush_can_be_started", a_flush_can_be_started, CONF_HOST},
    {"a_flush_of_gets_waits_for_them", a_flush_of_gets_waits_for_them, CONF_HOST},
    {"a_request_ends_at_its_deadline", a_request_ends_at_its_deadline, 0},
    {"contexts", NULL, 0},
    {"contexts_do_not_take_each_others_notifications",
     contexts_do_not_take_each_others_notifications, 0},
    {"what_comes_before_a_context_is_opened_waits_for_it",
     what_comes_before_a_context_is_opened_waits_for_it, CONF_PEERS},
    {"names_of_regions_and_teams_are_a_contexts_own", names_of_regions_and_teams_are_a_contexts_own,
     CONF_HOST},
    {"a_context_is_opened_once", a_context_is_opened_once, 0},
    {"completion queues", NULL, 0},
    {"a_queue_reports_every_operation_once", a_queue_reports_every_operation_once, CONF_HOST},
    {"a_queues_descriptor_wakes_for_each_kind", a_queues_descriptor_wakes_for_each_kind, CONF_HOST},
    {"a_queue_stops_what_it_is_told_to", a_queue_stops_what_it_is_told_to, 0},
    {"collectives_are_reported_too", collectives_are_reported_too, 0},
    {NULL, NULL, 0},
};
