/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durable puts, prepared transfers and flushes. A durable put is a request that goes on with a SYNC
 * when its bytes have arrived, unless the kind of storage has done that at once (has_synced); a
 * durable flush, or prepared transfer, has one request for each file. Lock: durables_lock, for
 * these two, a leaf.
 */
#include "config.h"

#include "core/form.h"
#include "core/service.h"
#include "host/atomic_ask.h"
#include "host/atomic_serve.h"
#include "region/segment_request.h"
#include "transfer/durable.h"
#include "transfer/op.h"
#include "transfer/transfer.h"
#include "util/status.h"

#include <stdlib.h>

static const struct nxr_atomic durable_sync = {.op = NXR_ATOMIC_SYNC};

/* What is to be asked for. */
struct durable_part {
    struct durable_part *next;
    struct nxr_segment *segment;
    struct nixl_req *req;
};

/* A flush or a prepared transfer that waits for its files. */
struct nxr_durable {
    struct nxr_list link;
    struct nixl_req *req;       /* NULL: it was stopped */
    uint32_t n_left;            /* files; and 1 while they are being asked for */
    int status;                 /* the first failure */
    int rank;                   /* ... at that rank */
    struct durable_part *parts; /* until they are begun */
};

static pthread_mutex_t durables_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list durables = {&durables, &durables};

/* ---- one file -------------------------------------------------------------------------------- */

static struct nxr_op sync_op(struct nxr_segment *segment)
{
    return (struct nxr_op){
        .kind = NXR_OP_ATOMIC, .segment = segment, .nbytes = 1, .atomic = durable_sync};
}

/* A put, or the SYNC behind it. */
static int durable_op_start(struct nxr_op *op)
{
    struct nxr_segment *segment = op->segment;
    int status;

    if (op->kind != NXR_OP_ATOMIC) {
        return nxr_op_submit(op);
    }
    nxr_request_hand_to(op, segment->transport);
    status = nxr_peer_is_remote(segment->peer)     ? segment->transport->start(op)
             : segment->peer->rank == nxr_job.rank ? nxr_atomic_start_device(op)
                                                   : nxr_host_atomic_start(op);
    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(segment);
    }
    return nxr_op_status(status, segment);
}

static int durable_op_cancel(struct nxr_op *op)
{
    if (nxr_peer_is_remote(op->segment->peer)) {
        return op->segment->transport->cancel(op);
    }
    return op->segment->peer->rank == nxr_job.rank ? NIXL_INPROGRESS : nxr_host_atomic_cancel(op);
}

static const struct nxr_req_owner durable_put_owner = {.has_peer = true,
                                                       .start = durable_op_start,
                                                       .cancel_word = durable_op_cancel,
                                                       .describe = nxr_op_describe};

/* ---- puts ------------------------------------------------------------------------------------ */

int nxr_durable_check(const char *operation, enum nxr_op_kind kind, int rank,
                      const struct nxr_segment *segment)
{
    const char *why = kind == NXR_OP_GET ? "a get changes no file"
                      : segment != NULL && !nxr_segment_is_storage(segment)
                          ? "the region is memory at that rank, which lasts no longer than its "
                            "process; allowed: files and objects"
                          : NULL;

    return why == NULL ? NIXL_OK : nxr_form_refuse(operation, rank, "NIXL_OP_DURABLE", why);
}

/* What was put before becomes durable, although nothing is put. */
static int durable_sync_start(const char *operation, struct nxr_segment *segment,
                              struct nxr_after *signal, struct nixl_req **req_p)
{
    struct nixl_req *req = nxr_request_new(operation, &durable_put_owner, NULL);
    const struct nxr_op sync = sync_op(segment);

    if (req == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, segment->peer->rank, "", 0,
                        "no memory for a request");
    }
    nxr_request_take_signal(req, signal);
    nxr_request_begin(req, &sync);
    *req_p = req;
    return NIXL_INPROGRESS;
}

int nxr_durable_put(const char *operation, int rank, struct nixl_region *region,
                    const struct nxr_piece *what, nxr_find_fn *find, struct nxr_after *signal,
                    struct nixl_req **req_p)
{
    const struct nxr_op put = {.kind = NXR_OP_PUT,
                               .offset = what->offset,
                               .local = what->local,
                               .nbytes = what->nbytes,
                               .is_durable = true};
    struct nxr_after after = {.atomic = durable_sync};
    struct nixl_req *req = NULL;
    uint64_t offset = what->offset;
    int status = nxr_transfer_check(operation, rank, region, what->local, what->nbytes);

    if (status == NIXL_OK) {
        status = find(operation, rank, region, NIXL_ACCESS_NO_PUT, &offset, what->nbytes,
                      &after.segment);
    }
    if (status == NIXL_OK) {
        status = nxr_durable_check(operation, NXR_OP_PUT, rank, after.segment);
    }
    if (status == NIXL_OK) {
        status = nxr_transfer_report_refusal(operation, after.segment->peer);
    }
    if (status != NIXL_OK) {
        return status;
    }
    status = what->nbytes == 0 ? durable_sync_start(operation, after.segment, signal, &req)
                               : nxr_region_request(operation, region, rank, &durable_put_owner,
                                                    &put, &after, signal, &req);
    if (status != NIXL_INPROGRESS) {
        return status;
    }
    nxr_request_start_begun();
    if (nxr_request_is_done(req)) {
        return nxr_request_finish(operation, &req);
    }
    *req_p = req;
    return NIXL_INPROGRESS;
}

/* ---- flushes and prepared transfers ---------------------------------------------------------- */

/* One file is durable, or will not be. With the last one, the request ends. */
static void durable_leave(struct nxr_durable *durable, int status, int rank)
{
    struct nixl_req *req = NULL;
    bool is_last;

    pthread_mutex_lock(&durables_lock);
    if (durable->status == NIXL_OK && status != NIXL_OK) {
        durable->status = status;
        durable->rank = rank;
    }
    is_last = --durable->n_left == 0;
    if (is_last) {
        req = durable->req;
        nxr_list_remove(&durable->link);
    }
    pthread_mutex_unlock(&durables_lock);
    if (!is_last) {
        return;
    }
    if (req != NULL) {
        req->lost_rank = durable->rank >= 0 ? durable->rank : req->lost_rank;
        nxr_request_end(req, durable->status);
    }
    free(durable);
}

static void durable_part_ended(struct nixl_req *req, int status)
{
    durable_leave(req->owned, status, req->peer->rank);
}

static const struct nxr_req_owner durable_part_owner = {.has_peer = true,
                                                        .is_unflushed = true,
                                                        .start = durable_op_start,
                                                        .cancel_word = durable_op_cancel,
                                                        .ended = durable_part_ended,
                                                        .describe = nxr_op_describe};

struct nxr_durable *nxr_durable_new(struct nixl_req *req)
{
    struct nxr_durable *durable = calloc(1, sizeof(*durable));

    if (durable != NULL) {
        nxr_list_init(&durable->link);
        durable->req = req;
        durable->n_left = 1;
        durable->rank = -1;
    }
    return durable;
}

void nxr_durable_add(struct nxr_durable *durable, struct nxr_segment *segment)
{
    struct durable_part *part;

    for (part = durable->parts; part != NULL; part = part->next) {
        if (part->segment->peer == segment->peer &&
            part->segment->key.generation == segment->key.generation &&
            part->segment->id == segment->id) {
            return;
        }
    }
    part = calloc(1, sizeof(*part));
    if (part != NULL) {
        part->req = nxr_request_new(durable->req->operation, &durable_part_owner, durable);
    }
    if (part == NULL || part->req == NULL) {
        free(part);
        durable->status = NIXL_E_NO_MEMORY; /* nobody else has it yet */
        return;
    }
    part->segment = segment;
    part->req->peer = segment->peer;
    part->next = durable->parts;
    durable->parts = part;
    durable->n_left++;
}

void nxr_durable_list(struct nxr_durable *durable)
{
    pthread_mutex_lock(&durables_lock);
    nxr_list_append(&durables, &durable->link);
    pthread_mutex_unlock(&durables_lock);
}

void nxr_durable_drop(struct nxr_durable *durable)
{
    while (durable->parts != NULL) {
        struct durable_part *part = durable->parts;

        durable->parts = part->next;
        free(part->req);
        free(part);
    }
    free(durable);
}

void nxr_durable_begin(struct nxr_durable *durable)
{
    while (durable->parts != NULL) {
        struct durable_part *part = durable->parts;
        const struct nxr_op op = sync_op(part->segment);

        durable->parts = part->next;
        nxr_request_abandon(part->req);
        nxr_request_queue(part->req, &op);
        free(part);
    }
    nxr_service_kick();
    durable_leave(durable, NIXL_OK, -1);
}

static void durable_found(struct nxr_segment *segment, void *arg)
{
    nxr_durable_add(arg, segment);
}

void nxr_durable_run(struct nixl_req *req, const struct nixl_region *region, int first, int last)
{
    struct nxr_durable *durable = nxr_durable_new(req);

    if (durable == NULL) {
        nxr_request_end(req, NIXL_E_NO_MEMORY);
        return;
    }
    for (int rank = first; rank <= last; rank++) {
        if (nxr_is_rank(rank)) {
            nxr_regions_find_storage(rank, region, durable_found, durable);
        }
    }
    nxr_durable_list(durable);
    nxr_durable_begin(durable);
}

void nxr_durable_stop(struct nixl_req *req)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&durables_lock);
    nxr_list_for_each (link, after, &durables) {
        struct nxr_durable *durable = nxr_list_entry(link, struct nxr_durable, link);

        if (durable->req == req) {
            durable->req = NULL;
            is_found = true;
        }
    }
    pthread_mutex_unlock(&durables_lock);
    if (is_found) {
        nxr_request_end(req, NIXL_E_CANCELED);
    }
}
