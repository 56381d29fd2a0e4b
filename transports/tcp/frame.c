/* SPDX-License-Identifier: Apache-2.0 */
/* Checking incoming hellos and frames. Pure. */
#include "config.h"

#include "frame.h"

#include "address.h"
#include "transports/network.h"

_Static_assert(sizeof(struct nxr_tcp_hello) == 32, "the layout is fixed");
_Static_assert(sizeof(struct nxr_tcp_frame) == 16, "the layout is fixed");

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
