/* SPDX-License-Identifier: Apache-2.0 */
/* How cases of the protocol between hosts begin: rank 1 is connected by the simulated network. */
#ifndef NET_CASE_H
#define NET_CASE_H

#include "fake_net.h"

#include "core/request.h"
#include "region/segment_request.h"
#include "test/unit/unit.h"

enum { LARGE = 20000 }; /* bytes that do not go inside of a message */

static char buffer[LARGE];

static struct net_peer *np;

static inline void start(void)
{
    fake_start();
    np = fake_link(1);
}

static inline void start_rma(void)
{
    start();
    fake.attr.is_rma_better = true;
}

static inline void stop(void)
{
    fake_stop();
    cr_expect(eq(int, fake.n_open_eps, 0));
}

/* At once if it is small, else started: what the transfer folder does with an operation. */
static inline int case_submit(struct nxr_op *op)
{
    struct nxr_segment *segment = op->segment;
    const struct nxr_transport *transport = segment->transport;
    int status = NIXL_E_AGAIN;

    nxr_request_hand_to(op, transport);
    if (op->kind == NXR_OP_PUT && op->nbytes <= segment->put_at_once) {
        status = transport->put(segment, op->offset, op->local, op->nbytes);
    } else if (op->kind == NXR_OP_GET && op->nbytes <= segment->get_at_once) {
        status = transport->get(segment, op->offset, op->local, op->nbytes);
    }
    return status == NIXL_E_AGAIN ? transport->start(op) : status;
}

static inline int case_begin(struct nixl_region *region, const struct nxr_op *what,
                             struct nixl_req **req_p)
{
    static const struct nxr_req_owner owner = {.has_peer = true, .start = case_submit};
    struct nxr_op op = *what;

    op.segment = nxr_region_segment(region, 1);
    return op.segment != NULL
               ? nxr_request_make_at("test", &owner, &op, req_p)
               : nxr_region_request("test", region, 1, &owner, &op, NULL, NULL, req_p);
}

/* Like nixl_put_x() and nixl_get_x() to and from rank 1. */
static inline int put_nb_from(struct nixl_region *region, uint64_t offset, const void *src,
                              size_t nbytes, struct nixl_req **req_p)
{
    const struct nxr_op op = {
        .kind = NXR_OP_PUT, .offset = offset, .local = (void *)src, .nbytes = nbytes};

    return case_begin(region, &op, req_p);
}

static inline int put_nb(struct nixl_region *region, size_t nbytes, struct nixl_req **req_p)
{
    return put_nb_from(region, 0, buffer, nbytes, req_p);
}

static inline int get_nb(struct nixl_region *region, size_t nbytes, struct nixl_req **req_p)
{
    const struct nxr_op op = {.kind = NXR_OP_GET, .local = buffer, .nbytes = nbytes};

    return case_begin(region, &op, req_p);
}

/* Like nixl_put(), which waits. */
static inline int put(struct nixl_region *region, uint64_t offset, size_t nbytes)
{
    struct nixl_req *req = NULL;
    int status = put_nb_from(region, offset, buffer, nbytes, &req);

    return status == NIXL_INPROGRESS ? nixl_req_wait(&req, NIXL_FOREVER) : status;
}

static inline struct nxr_net_put own_put(size_t nbytes)
{
    return (struct nxr_net_put){
        .generation = fake_job.own_key.generation, .nbytes = nbytes, .id = fake_job.own_key.id};
}

static inline void receive_note(int rank, uint64_t tag)
{
    const struct nxr_net_note note = {.tag = tag};

    fake_coming(rank, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
}

/* The tag of the next notification of rank 1; 0: there is none. */
static inline uint64_t next_tag(void)
{
    return fake_next_tag(1);
}

#endif
