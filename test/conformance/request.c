/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on requests: completion, waiting for one of many, cancel, free. */
#include "conformance.h"

#include <stdlib.h>
#include <string.h>

#define TAG_DONE    0x4901
#define TAG_OUTCOME 0x4902

#define SLICE  32768
#define N_REQS 64

/* Start `n` puts of a slice each; NULL where a put was complete at once. */
static void start_puts(struct segment *segment, unsigned char *src, struct nixl_req **reqs,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int status;

        reqs[i] = NULL;
        mpt_fill(src + i * SLICE, SLICE, i + 100);
        status = nixl_put_x(conf.next, segment->region, i * SLICE, src + i * SLICE, SLICE, NULL,
                            &reqs[i]);
        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_EQ(reqs[i] != NULL, status == NIXL_INPROGRESS);
    }
}

static void check_puts(const struct segment *segment, size_t n)
{
    conf_tell(conf.next, TAG_DONE);
    conf_hear(conf.prev, TAG_DONE);
    for (size_t i = 0; i < n; i++) {
        MPT_CHECK(segment->bytes + i * SLICE, SLICE, i + 100);
    }
    memset(segment->bytes, 0, segment->nbytes);
    mpt_barrier();
}

static void requests_complete_in_any_order_of_waiting(void)
{
    struct segment segment = conf_segment("req", N_REQS * SLICE);
    unsigned char *src = malloc(N_REQS * SLICE);
    struct nixl_req *reqs[N_REQS];

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(20); round++) {
        start_puts(&segment, src, reqs, N_REQS);
        for (size_t i = N_REQS; i-- > 0;) {
            MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
            MPT_TRUE(reqs[i] == NULL);
        }
        check_puts(&segment, N_REQS);
    }
    conf_drop(&segment);
    free(src);
}

static void test_reports_completion_in_time(void)
{
    struct segment segment = conf_segment("req.test", N_REQS * SLICE);
    unsigned char *src = malloc(N_REQS * SLICE);
    struct nixl_req *reqs[N_REQS];
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    mpt_barrier();
    start_puts(&segment, src, reqs, N_REQS);
    for (size_t n_left = N_REQS; n_left > 0;) {
        n_left = 0;
        for (size_t i = 0; i < N_REQS; i++) {
            int status = nixl_req_test(&reqs[i]);

            MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
            MPT_EQ(reqs[i] != NULL, status == NIXL_INPROGRESS);
            n_left += status == NIXL_INPROGRESS;
        }
        MPT_LT(mpt_now_ns(), end_ns);
    }
    check_puts(&segment, N_REQS);
    conf_drop(&segment);
    free(src);
}

static void wait_any_reports_each_request_once(void)
{
    struct segment segment = conf_segment("req.any", N_REQS * SLICE);
    unsigned char *src = malloc(N_REQS * SLICE);
    struct nixl_req *reqs[N_REQS];
    size_t index, n_open = 0;

    mpt_barrier();
    start_puts(&segment, src, reqs, N_REQS);
    for (size_t i = 0; i < N_REQS; i++) {
        n_open += reqs[i] != NULL;
    }
    for (; n_open > 0; n_open--) {
        struct nixl_req *before[N_REQS];

        memcpy(before, reqs, sizeof(reqs));
        index = N_REQS;
        MPT_OK(nixl_req_wait_any(reqs, N_REQS, MPT_PATIENCE, &index));
        MPT_LT(index, N_REQS);
        MPT_TRUE(before[index] != NULL && reqs[index] == NULL);
    }
    index = 77;
    MPT_STATUS(nixl_req_wait_any(reqs, N_REQS, 0, &index), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_req_wait_any(reqs, 0, MPT_S, &index), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_req_wait_any(NULL, 3, MPT_S, &index), NIXL_E_INVALID_ARG);
    MPT_EQ(index, 77);
    check_puts(&segment, N_REQS);
    conf_drop(&segment);
    free(src);
}

static void gets_complete_too(void)
{
    struct segment segment = conf_segment("req.get", N_REQS * SLICE);
    unsigned char *dst = malloc(N_REQS * SLICE);
    struct nixl_req *reqs[N_REQS] = {0};

    for (size_t i = 0; i < N_REQS; i++) {
        mpt_fill(segment.bytes + i * SLICE, SLICE, i + (uint64_t)conf.rank);
    }
    mpt_barrier();
    for (size_t i = 0; i < N_REQS; i++) {
        int status = nixl_get_x(conf.next, segment.region, i * SLICE, dst + i * SLICE, SLICE, NULL,
                                &reqs[i]);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    }
    for (size_t i = 0; i < N_REQS; i++) {
        MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
        MPT_CHECK(dst + i * SLICE, SLICE, i + (uint64_t)conf.next);
    }
    conf_end(&segment);
    free(dst);
}

static void a_null_request_is_complete(void)
{
    struct nixl_req *req = NULL;
    int32_t outcome = NIXL_OUTCOME_PARTIAL;

    MPT_OK(nixl_req_test(&req));
    MPT_OK(nixl_req_wait(&req, 0));
    MPT_OK(nixl_req_wait(&req, NIXL_FOREVER));
    MPT_OK(nixl_req_cancel(&req, 0, &outcome));
    MPT_EQ(outcome, NIXL_OUTCOME_DONE);
    MPT_OK(nixl_req_cancel(&req, 0, NULL));
    MPT_OK(nixl_req_detach(&req));
    MPT_STATUS(nixl_req_test(NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_req_wait(NULL, 0), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_req_wait(&req, -1), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_req_cancel(NULL, 0, NULL), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_req_detach(NULL), NIXL_E_INVALID_ARG);
}

static void a_failed_start_makes_no_request(void)
{
    struct nixl_req *const canary = (struct nixl_req *)&conf;
    struct segment segment = conf_segment("req.failed", 64);
    struct nixl_req *req = canary;
    char byte = 0;

    mpt_barrier();
    MPT_OK(nixl_put(0, segment.region, 0, &byte, 1)); /* so that its size is known at once */
    MPT_STATUS(nixl_put_x(conf.size, segment.region, 0, &byte, 1, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(-1, segment.region, 0, &byte, 1, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, NULL, 0, &byte, 1, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, segment.region, 0, NULL, 1, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_get_x(0, segment.region, 0, NULL, 1, NULL, &req), NIXL_E_INVALID_ARG);
    MPT_STATUS(nixl_put_x(0, segment.region, 64, &byte, 1, NULL, &req), NIXL_E_RANGE);
    MPT_TRUE(req == canary);
    conf_end(&segment);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

#define BIG (8u << 20)

static void cancel_one(struct segment *segment, unsigned char *src, uint64_t seed)
{
    int32_t outcome = NIXL_OUTCOME_DONE;
    struct nixl_req *req = NULL;
    int status;

    mpt_fill(src, BIG, seed);
    status = nixl_put_x(conf.next, segment->region, 0, src, BIG, NULL, &req);
    if (status == NIXL_INPROGRESS) {
        status = nixl_req_cancel(&req, MPT_PATIENCE, &outcome);
    }
    MPT_OK(status);
    MPT_TRUE(req == NULL);
    memset(src, 0x99, BIG); /* a byte that moved now would be seen at the target */
    MPT_OK(nixl_notify(conf.next, TAG_DONE, &outcome, sizeof(outcome), MPT_PATIENCE));
}

static void check_canceled(const struct segment *segment, uint64_t seed)
{
    static struct nixl_note note;
    int32_t outcome;
    unsigned char *seen = malloc(BIG);

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.prev, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&outcome, note.payload, sizeof(outcome));
    memcpy(seen, segment->bytes, BIG);
    if (outcome == NIXL_OUTCOME_DONE) {
        MPT_CHECK(seen, BIG, seed);
    } else if (outcome == NIXL_OUTCOME_UNTOUCHED) {
        MPT_CHECK_BYTES(seen, BIG, 0x44);
    } else {
        MPT_EQ(outcome, NIXL_OUTCOME_PARTIAL);
    }
    for (int64_t end_ns = mpt_now_ns() + MPT_MS; mpt_now_ns() < end_ns;) {
        MPT_EQ(memcmp(seen, segment->bytes, BIG), 0);
    }
    free(seen);
}

/* M31 */
static void cancel_tells_what_was_done_and_no_byte_moves_later(void)
{
    struct segment segment = conf_segment("cancel", BIG);
    unsigned char *src = malloc(BIG);

    for (unsigned round = 0; round < conf_rounds(10); round++) {
        memset(segment.bytes, 0x44, BIG);
        mpt_barrier();
        cancel_one(&segment, src, round);
        check_canceled(&segment, round);
    }
    conf_end(&segment);
    free(src);
}

/* More puts of single words at once than any queue on the way holds. */
static void many_puts_of_words_are_under_way_at_once(void)
{
    enum { N_WORDS = 300 };
    struct segment segment = conf_segment("req.words", N_WORDS * sizeof(uint64_t));
    static uint64_t src[N_WORDS];
    static struct nixl_req *reqs[N_WORDS];

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        for (size_t i = 0; i < N_WORDS; i++) {
            int status;

            src[i] = (round + 1) * 1000 + i;
            status =
                nixl_put_x(conf.next, segment.region, i * 8, &src[i], 2u << i % 3, NULL, &reqs[i]);
            reqs[i] = status == NIXL_INPROGRESS ? reqs[i] : NULL;
            MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        }
        for (size_t i = 0; i < N_WORDS; i++) {
            MPT_OK(nixl_req_wait(&reqs[i], MPT_PATIENCE));
        }
        conf_tell(conf.next, TAG_DONE);
        conf_hear(conf.prev, TAG_DONE);
        for (size_t i = 0; i < N_WORDS; i++) {
            uint64_t expected = (round + 1) * 1000 + i;

            MPT_EQ(memcmp(segment.bytes + i * 8, &expected, 2u << i % 3), 0);
        }
        mpt_barrier();
    }
    conf_drop(&segment);
}

/* A caller that does not need the outcome passes NULL. */
static void cancel_needs_no_outcome(void)
{
    struct segment segment = conf_segment("cancel.null", BIG);
    unsigned char *src = malloc(BIG);

    memset(src, 0x44, BIG);
    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(10); round++) {
        struct nixl_req *req = NULL;
        int status = nixl_put_x(conf.next, segment.region, 0, src, BIG, NULL, &req);

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, NULL));
        MPT_TRUE(req == NULL);
    }
    conf_end(&segment);
    free(src);
}

/* ---- letting go ------------------------------------------------------------------------------ */

static void freed_requests_complete_by_themselves(void)
{
    struct segment segment = conf_segment("req.freed", N_REQS * SLICE);
    unsigned char *src = malloc(N_REQS * SLICE);
    struct nixl_req *reqs[N_REQS];

    mpt_barrier();
    start_puts(&segment, src, reqs, N_REQS);
    for (size_t i = 0; i < N_REQS; i++) {
        MPT_OK(nixl_req_detach(&reqs[i]));
        MPT_TRUE(reqs[i] == NULL);
    }
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    memset(src, 0x99, N_REQS * SLICE);
    check_puts(&segment, N_REQS);
    conf_drop(&segment);
    free(src);
}

#define GET_NBYTES (1u << 20)

/* The requests of two gets are freed; behind the flush their bytes are there. */
static void a_flush_waits_for_gets_that_were_freed(void)
{
    struct segment segment = conf_segment("req.get.freed", 2 * GET_NBYTES);
    unsigned char *dst = malloc(2 * GET_NBYTES);

    mpt_fill(segment.bytes, 2 * GET_NBYTES, (uint64_t)conf.rank);
    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(20); round++) {
        memset(dst, 0x99, 2 * GET_NBYTES);
        for (uint64_t i = 0; i < 2; i++) {
            struct nixl_req *req = NULL;
            int status = nixl_get_x(conf.next, segment.region, i * GET_NBYTES, dst + i * GET_NBYTES,
                                    GET_NBYTES, NULL, &req);

            MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
            MPT_OK(nixl_req_detach(&req));
        }
        MPT_OK(round % 2 == 0 ? nixl_flush(conf.next, MPT_PATIENCE)
                              : nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
        MPT_CHECK(dst, 2 * GET_NBYTES, (uint64_t)conf.next);
    }
    conf_end(&segment);
    free(dst);
}

/* M29: heard before its sender was told that the put is not there, or is not whole. */
static void a_notification_behind_a_canceled_put_says_so(void)
{
    struct segment segment = conf_segment("cancel.tell", BIG);
    unsigned char *src = calloc(1, BIG);
    static struct nixl_note note;

    mpt_barrier();
    for (unsigned round = 0; round < conf_rounds(50); round++) {
        int32_t outcome = NIXL_OUTCOME_DONE;
        struct nixl_req *req = NULL;
        int status = nixl_put_x(conf.next, segment.region, 0, src, BIG, NULL, &req), heard;

        MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
        conf_tell(conf.next, TAG_DONE);
        if (status == NIXL_INPROGRESS) {
            MPT_OK(nixl_req_cancel(&req, MPT_PATIENCE, &outcome));
        }
        MPT_OK(nixl_notify(conf.next, TAG_OUTCOME, &outcome, sizeof(outcome), MPT_PATIENCE));
        nixl_note_init(&note);
        heard = nixl_notify_recv(conf.prev, TAG_DONE, UINT64_MAX, MPT_PATIENCE, &note);
        MPT_EQ(note.rank, conf.prev);
        MPT_EQ(note.tag, TAG_DONE);
        MPT_OK(nixl_notify_recv(conf.prev, TAG_OUTCOME, UINT64_MAX, MPT_PATIENCE, &note));
        memcpy(&outcome, note.payload, sizeof(outcome));
        MPT_STATUS(heard, outcome == NIXL_OUTCOME_DONE ? NIXL_OK : NIXL_E_STALE);
    }
    conf_end(&segment);
    free(src);
}

/* ---- timeouts of the extended form ----------------------------------------------------------- */

/* Each call that looks up a segment, which nobody makes, within the call. */
static void use_what_is_not_there(const struct segment *segment, struct nixl_region *nowhere,
                                  struct nixl_xfer *xfer, const struct nixl_op *op,
                                  struct nixl_req **req_p)
{
    struct nixl_op signals = *op, durable = *op;
    uint64_t word = 1, fetched;

    signals.flags = NIXL_OP_SIGNAL;
    signals.signal_region = nowhere;
    durable.flags = NIXL_OP_DURABLE;
    MPT_STATUS(nixl_signal_x(conf.next, nowhere, 0, NIXL_SIGNAL_ADD, 1, op, req_p), NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_atomic_x(conf.next, nowhere, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, op,
                             &fetched, req_p),
               NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_atomic_compare_swap_x(conf.next, nowhere, 0, NIXL_TYPE_UINT64, &word, &word, op,
                                          &fetched, req_p),
               NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_put_x(conf.next, segment->region, 0, &word, 8, &signals, req_p),
               NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_put_x(conf.next, nowhere, 0, &word, 8, &durable, req_p), NIXL_E_TIMEOUT);
    MPT_STATUS(nixl_xfer_start_x(xfer, op, req_p), NIXL_E_TIMEOUT);
}

static void the_first_use_of_a_segment_keeps_the_timeout(void)
{
    struct segment segment = conf_segment("patience", 64);
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_region *nowhere;
    struct nixl_req *req = NULL;
    struct nixl_xfer *xfer;
    uint64_t word = 1;
    int64_t began_ns;

    MPT_OK(nixl_region_open("patience.nowhere", &nowhere));
    local.addr = &word;
    remote.region = nowhere;
    local.block_nbytes = remote.block_nbytes = sizeof(word);
    local.nblocks = remote.nblocks = 0;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, conf.next, &local, 1, &remote, 1, &xfer));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, 1, NULL));
    MPT_OK(nixl_xfer_set_index(xfer, NIXL_XFER_REMOTE, 0, 1, NULL));
    mpt_barrier();
    began_ns = mpt_now_ns();
    op.timeout_ns = NIXL_AT_ONCE;
    use_what_is_not_there(&segment, nowhere, xfer, &op, NULL);
    use_what_is_not_there(&segment, nowhere, xfer, &op, &req);
    op.timeout_ns = 5 * MPT_MS;
    use_what_is_not_there(&segment, nowhere, xfer, &op, NULL);
    use_what_is_not_there(&segment, nowhere, xfer, &op, &req);
    MPT_TRUE(req == NULL);
    MPT_LT(mpt_now_ns() - began_ns, 8 * MPT_S); /* NIXLRUN_RESOLVE_TIMEOUT is 10 s */
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_region_close(nowhere, MPT_PATIENCE));
    conf_end(&segment);
}

const struct guarantee conf_request[] = {
    {"request", NULL, 0},
    {"requests_complete_in_any_order_of_waiting", requests_complete_in_any_order_of_waiting, 0},
    {"test_reports_completion_in_time", test_reports_completion_in_time, 0},
    {"wait_any_reports_each_request_once", wait_any_reports_each_request_once, 0},
    {"gets_complete_too", gets_complete_too, 0},
    {"a_null_request_is_complete", a_null_request_is_complete, 0},
    {"a_failed_start_makes_no_request", a_failed_start_makes_no_request, 0},
    {"cancel_tells_what_was_done_and_no_byte_moves_later",
     cancel_tells_what_was_done_and_no_byte_moves_later, 0},
    {"a_notification_behind_a_canceled_put_says_so", a_notification_behind_a_canceled_put_says_so,
     0},
    {"cancel_needs_no_outcome", cancel_needs_no_outcome, 0},
    {"many_puts_of_words_are_under_way_at_once", many_puts_of_words_are_under_way_at_once, 0},
    {"freed_requests_complete_by_themselves", freed_requests_complete_by_themselves, 0},
    {"a_flush_waits_for_gets_that_were_freed", a_flush_waits_for_gets_that_were_freed, 0},
    {"the_first_use_of_a_segment_keeps_the_timeout", the_first_use_of_a_segment_keeps_the_timeout,
     CONF_HOST},
    {0},
};
