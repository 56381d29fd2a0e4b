/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP network's addresses, hellos and frames: what is taken lies within its limits, and the
 * paths to be tried are ones that there are, each once; there is one from both sides, or from none.
 */
/* sources: transports/tcp/address.c transports/tcp/frame.c src/util/announce.c */
#include "transports/tcp/address.h"
#include "transports/tcp/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static unsigned count_paths(const struct nxr_tcp_address *a, const struct nxr_tcp_address *b)
{
    uint8_t order[NXR_TCP_MAX_PATHS];
    unsigned n = nxr_tcp_order(a, b, order), seen = 0;

    check(n <= b->n_paths);
    for (unsigned i = 0; i < n; i++) {
        check(order[i] < b->n_paths && (seen & (1u << order[i])) == 0);
        seen |= 1u << order[i];
    }
    return n;
}

/* Each address is in one pair, and both sides count as many. */
static void try_pairs(const struct nxr_tcp_address *a, const struct nxr_tcp_address *b)
{
    struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS], others[NXR_TCP_MAX_RAILS];
    unsigned n = nxr_tcp_pairs(a, b, pairs), mine = 0, theirs = 0;

    check(n <= NXR_TCP_MAX_RAILS && nxr_tcp_pairs(b, a, others) == n);
    for (unsigned i = 0; i < n; i++) {
        check(pairs[i].mine < a->n_paths && (mine & (1u << pairs[i].mine)) == 0);
        check(pairs[i].theirs < b->n_paths && (theirs & (1u << pairs[i].theirs)) == 0);
        mine |= 1u << pairs[i].mine;
        theirs |= 1u << pairs[i].theirs;
    }
}

static void try_order(const struct nxr_tcp_address *a, const struct nxr_tcp_address *b)
{
    check((count_paths(a, b) > 0) == (count_paths(b, a) > 0));
    try_pairs(a, b);
}

static void try_address(const uint8_t *data, size_t nbytes)
{
    struct nxr_tcp_address address, first, rest;

    if (nxr_tcp_address_parse(data, nbytes, &address) != NULL) {
        return;
    }
    check(address.n_paths >= 1 && address.n_paths <= NXR_TCP_MAX_PATHS);
    check(nxr_tcp_address_nbytes(address.n_paths) == nbytes);
    check(count_paths(&address, &address) == address.n_paths); /* the own host */
    first = rest = address;
    first.n_paths = (uint8_t)(1 + address.n_paths / 2);
    rest.n_paths = (uint8_t)(address.n_paths - address.n_paths / 2);
    memmove(rest.paths, rest.paths + address.n_paths / 2, rest.n_paths * sizeof(rest.paths[0]));
    try_order(&first, &rest);
    rest.host++;
    try_order(&first, &rest);
    try_order(&address, &rest);
}

static void try_hello(const uint8_t *data, size_t nbytes)
{
    struct nxr_tcp_hello hello;

    if (nbytes >= sizeof(hello)) {
        memcpy(&hello, data, sizeof(hello));
        for (enum nxr_tcp_hello_type type = NXR_TCP_HELLO; type <= NXR_TCP_RAIL; type++) {
            check(nxr_tcp_hello_check(&hello, type, 2) != NULL ||
                  (hello.to == 2 && hello.type == type));
        }
    }
}

static void try_frame(const uint8_t *data, size_t nbytes)
{
    struct nxr_tcp_frame frame;

    if (nbytes >= sizeof(frame)) {
        memcpy(&frame, data, sizeof(frame));
        check(nxr_tcp_frame_check(&frame) != NULL ||
              (frame.nbytes > 0 && frame.nbytes <= NXR_TCP_MESSAGE_NBYTES &&
               frame.bulk_nbytes <= SIZE_MAX / 2));
    }
}

/* A plan, then a piece: one that fits stays within the bytes that were told. */
static void try_pieces(const uint8_t *data, size_t nbytes)
{
    struct nxr_tcp_frame frame;
    struct nxr_tcp_plan plan;
    struct nxr_tcp_piece piece;

    if (nbytes < sizeof(frame) + sizeof(plan) + sizeof(piece)) {
        return;
    }
    memcpy(&frame, data, sizeof(frame));
    memcpy(&plan, data + sizeof(frame), sizeof(plan));
    memcpy(&piece, data + sizeof(frame) + sizeof(plan), sizeof(piece));
    if (nxr_tcp_plan_frame_check(&frame) != NULL ||
        nxr_tcp_plan_check(&plan, frame.bulk_nbytes, 1) != NULL ||
        nxr_tcp_piece_check(&piece, plan.number) != NULL) {
        return;
    }
    check(plan.number > 1 && piece.number > 0 && piece.number <= plan.number);
    if (nxr_tcp_piece_fits(&piece, frame.bulk_nbytes, plan.piece_nbytes)) {
        uint64_t at = (uint64_t)piece.index * plan.piece_nbytes;

        check(at < frame.bulk_nbytes && piece.nbytes <= frame.bulk_nbytes - at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct nxr_tcp_address address = {0};

    try_address(data, nbytes);
    try_hello(data, nbytes);
    try_frame(data, nbytes);
    try_pieces(data, nbytes);
    /* The magic, the number of paths and the sum are put right: else nothing would come past. */
    if (nbytes >= nxr_tcp_address_nbytes(1) && nbytes <= sizeof(address)) {
        memcpy(&address, data, nbytes);
        address.magic = NXR_TCP_ADDRESS_MAGIC;
        address.version = NXR_TCP_LAYOUT_VERSION;
        address.n_paths =
            (uint8_t)((nbytes - nxr_tcp_address_nbytes(0)) / sizeof(address.paths[0]));
        for (unsigned i = 0; i < address.n_paths; i++) {
            address.paths[i].family = address.paths[i].family % 2 == 0 ? 4 : 6;
        }
        nxr_tcp_address_seal(&address);
        try_address((const uint8_t *)&address, nxr_tcp_address_nbytes(address.n_paths));
    }
    return 0;
}
