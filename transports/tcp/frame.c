/* SPDX-License-Identifier: Apache-2.0 */
/* Checking incoming hellos and frames. Pure. */
#include "config.h"

#include "frame.h"

#include "address.h"
#include "transports/network.h"
#include "transports/stripe.h"

_Static_assert(sizeof(struct nxr_tcp_hello) == 32, "the layout is fixed");
_Static_assert(sizeof(struct nxr_tcp_frame) == 16, "the layout is fixed");
_Static_assert(sizeof(struct nxr_tcp_plan) == 16, "the layout is fixed");
_Static_assert(sizeof(struct nxr_tcp_piece) == 24, "the layout is fixed");
_Static_assert(sizeof(struct nxr_tcp_ack) == 16, "the layout is fixed");

const char *nxr_tcp_hello_check(const struct nxr_tcp_hello *hello, enum nxr_tcp_hello_type type,
                                uint32_t to)
{
    if (hello->magic != NXR_TCP_HELLO_MAGIC) {
        return "it does not speak a rank's protocol";
    }
    if (hello->version != NXR_TCP_LAYOUT_VERSION || hello->type != (uint16_t)type) {
        return "it speaks another version, or out of turn";
    }
    return hello->to == to ? NULL : "it asks for another rank";
}

const char *nxr_tcp_frame_check(const struct nxr_tcp_frame *frame)
{
    if (frame->magic != NXR_TCP_FRAME_MAGIC) {
        return "received data that is not a frame";
    }
    if (frame->nbytes == 0 || frame->nbytes > NXR_TCP_MESSAGE_NBYTES) {
        return "received a frame with a message of the wrong length";
    }
    if (frame->bulk_nbytes > SIZE_MAX / 2 ||
        (frame->bulk_nbytes > 0 && frame->nbytes > NXR_NET_HEADER_NBYTES)) {
        return "received a frame with bulk data of the wrong length";
    }
    return NULL;
}

const char *nxr_tcp_plan_frame_check(const struct nxr_tcp_frame *frame)
{
    if (frame->nbytes <= sizeof(struct nxr_tcp_plan) ||
        frame->nbytes > sizeof(struct nxr_tcp_plan) + NXR_NET_HEADER_NBYTES) {
        return "received a plan of pieces with a message of the wrong length";
    }
    if (frame->bulk_nbytes == 0 || frame->bulk_nbytes > SIZE_MAX / 2) {
        return "received a plan of pieces for the wrong number of bytes";
    }
    return NULL;
}

const char *nxr_tcp_plan_check(const struct nxr_tcp_plan *plan, uint64_t bulk_nbytes,
                               uint64_t last_number)
{
    if (plan->number <= last_number) {
        return "received a plan of pieces with an old number";
    }
    if (plan->piece_nbytes < NXR_STRIPE_PIECE_MIN || plan->piece_nbytes > NXR_STRIPE_PIECE_MAX ||
        nxr_tcp_n_pieces(bulk_nbytes, plan->piece_nbytes) >= NXR_TCP_ACK_OF_PLAN) {
        return "received a plan with pieces of the wrong length";
    }
    return NULL;
}

const char *nxr_tcp_piece_check(const struct nxr_tcp_piece *piece, uint64_t last_number)
{
    if (piece->number == 0 || piece->number > last_number) {
        return "received a piece before its plan";
    }
    if (piece->nbytes == 0 || piece->nbytes > NXR_STRIPE_PIECE_MAX) {
        return "received a piece of the wrong length";
    }
    return NULL;
}

bool nxr_tcp_piece_fits(const struct nxr_tcp_piece *piece, uint64_t nbytes, uint32_t piece_nbytes)
{
    return piece->index < nxr_tcp_n_pieces(nbytes, piece_nbytes) &&
           piece->nbytes == nxr_tcp_piece_nbytes(nbytes, piece_nbytes, piece->index);
}
