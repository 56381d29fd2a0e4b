/* SPDX-License-Identifier: Apache-2.0 */
/* The list of transports, and the functions for what a transport cannot do. */
#include "config.h"

#include "transports/transport.h"
#include "util/copy.h"

#include <assert.h>

const struct nxr_transport *nxr_transports[NXR_MAX_TRANSPORTS];
size_t nxr_n_transports;
struct nxr_host_paths nxr_host_paths;

void nxr_transport_register(const struct nxr_transport *transport)
{
    for (size_t i = 0; i < nxr_n_transports; i++) {
        if (nxr_transports[i] == transport) {
            return;
        }
    }
    assert(nxr_n_transports < NXR_MAX_TRANSPORTS);
    nxr_transports[nxr_n_transports++] = transport;
}

void nxr_copy_list(char *base, enum nxr_op_kind kind, const struct nxr_piece *pieces,
                   size_t n_pieces, uint64_t total_nbytes)
{
    bool is_put = kind == NXR_OP_PUT;

    if (nxr_copy_goes_past(total_nbytes)) {
        for (size_t i = 0; i < n_pieces; i++) {
            char *remote = base + pieces[i].offset, *local = pieces[i].local;

            nxr_copy_past(is_put ? remote : local, is_put ? local : remote, pieces[i].nbytes);
        }
        nxr_copy_past_end();
        return;
    }
    for (size_t i = 0; i < n_pieces; i++) {
        char *remote = base + pieces[i].offset, *local = pieces[i].local;

        nxr_copy(is_put ? remote : local, is_put ? local : remote, pieces[i].nbytes);
    }
}

bool nxr_no_serves(const struct nxr_segment *segment, const struct nxr_range *range)
{
    (void)segment;
    (void)range;
    return false;
}

bool nxr_no_segment_is_busy(const struct nxr_segment *segment)
{
    (void)segment;
    return false;
}

int nxr_no_put_notify(struct nxr_segment *segment, const struct nxr_put_notify *what)
{
    (void)segment;
    (void)what;
    return NIXL_E_AGAIN;
}

int nxr_no_put_signal(struct nxr_segment *segment, const struct nxr_put_signal *what)
{
    (void)segment;
    (void)what;
    return NIXL_E_AGAIN;
}

int nxr_no_move_list(struct nxr_segment *segment, enum nxr_op_kind kind,
                     const struct nxr_piece *pieces, size_t n_pieces, uint64_t total_nbytes,
                     size_t *n_done_p)
{
    (void)segment;
    (void)kind;
    (void)pieces;
    (void)n_pieces;
    (void)total_nbytes;
    *n_done_p = 0;
    return NIXL_E_AGAIN;
}

int nxr_no_start(struct nxr_op *op)
{
    (void)op;
    return NIXL_E_UNSUPPORTED;
}

int nxr_no_start_list(struct nxr_op *op)
{
    (void)op;
    return NIXL_E_UNSUPPORTED;
}

int nxr_no_cancel(struct nxr_op *op)
{
    (void)op;
    return NIXL_OK;
}

int nxr_no_progress(void)
{
    return 0;
}

int nxr_no_order(struct nxr_peer *peer)
{
    (void)peer;
    return NIXL_OK;
}

int nxr_no_atomic(struct nxr_segment *segment, const struct nxr_atomic *atomic, uint64_t *fetched_p)
{
    (void)segment;
    (void)atomic;
    (void)fetched_p;
    return NIXL_E_AGAIN;
}

int nxr_no_signal(struct nxr_segment *segment, const struct nxr_atomic *atomic)
{
    (void)segment;
    (void)atomic;
    return NIXL_E_AGAIN;
}
