/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who cancels a request: a put that goes on with a word changes its kind, and has no transport for
 * a moment. The transport and the owner are played here; nothing runs beside the test.
 */
#include "config.h"

#include "core/job.h"
#include "core/request.h"
#include "transports/transport.h"

#include "test/unit/unit.h"

#include <stdlib.h>

static int transport_cancel(struct nxr_op *op)
{
    op->is_cancelled = true;
    return NIXL_INPROGRESS;
}

static int atomic_cancel(struct nxr_op *op)
{
    (void)op;
    cr_fatal("a put is canceled by the transport that has it");
}

static const struct nxr_transport transport = {.name = "played", .cancel = transport_cancel};
static struct nxr_control control;
static struct nxr_peer peer = {.transport = &transport};
static struct nxr_segment segment = {.peer = &peer, .transport = &transport};

static int take(struct nxr_op *op)
{
    nxr_request_hand_to(op, &transport);
    return NIXL_INPROGRESS;
}

/* Of a word: the transport is not known before the call of its mover. */
static int take_without_transport(struct nxr_op *op)
{
    (void)op;
    return NIXL_INPROGRESS;
}

static const struct nxr_req_owner owner = {
    .has_peer = true, .start = take, .cancel_word = atomic_cancel};
static const struct nxr_req_owner slow_owner = {
    .has_peer = true, .start = take_without_transport, .cancel_word = atomic_cancel};

static void begin(void)
{
    nxr_job.control = &control;
}

static struct nixl_req *begin_put(const struct nxr_req_owner *its_owner)
{
    const struct nxr_op put = {.kind = NXR_OP_PUT, .segment = &segment, .nbytes = 8};
    struct nixl_req *req = nxr_request_new("nixl_put_x", its_owner, NULL);

    cr_assert(ne(ptr, req, NULL));
    req->after.segment = &segment;
    nxr_request_begin(req, &put);
    return req;
}

TestSuite(request, .init = begin);

/* The put ends between the choice and the call: what was chosen does not look at its transport. */
Test(request, a_put_that_goes_on_with_a_word_is_canceled_by_its_transport)
{
    struct nixl_req *req = begin_put(&owner);
    int (*cancel)(struct nxr_op *) = NULL;

    cr_expect(not(nxr_request_withdraw(req, &cancel)));
    cr_assert(cancel == transport_cancel);
    nxr_op_done(&req->op, NIXL_OK);
    cr_expect(eq(int, req->op.kind, NXR_OP_ATOMIC));
    cr_expect(eq(ptr, (void *)req->op.transport, NULL));
    cr_expect(eq(int, cancel(&req->op), NIXL_INPROGRESS));
}

Test(request, a_word_that_has_not_begun_ends_at_once)
{
    struct nixl_req *req = begin_put(&owner);

    nxr_op_done(&req->op, NIXL_OK);
    cr_expect(eq(int, nxr_request_stop(req), NIXL_OK));
    cr_expect(eq(int, req->status, NIXL_E_CANCELED));
    cr_expect(not(nxr_request_start_begun()), "it was taken out of the list");
}

Test(request, a_word_that_begins_has_nobody_who_cancels_it)
{
    struct nixl_req *req = begin_put(&slow_owner);

    nxr_op_done(&req->op, NIXL_OK);
    cr_assert(nxr_request_start_begun());
    cr_expect(eq(int, nxr_request_stop(req), NIXL_INPROGRESS));
    cr_expect(eq(int, req->status, NIXL_INPROGRESS));
}
