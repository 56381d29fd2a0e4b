/* SPDX-License-Identifier: Apache-2.0 */
/* Checking incoming envelopes: is this one for us, and is all of it here? */
#include "config.h"

#include "frame.h"

#include <stdbool.h>

_Static_assert(sizeof(struct nxr_ofi_frame) == 40, "the layout is fixed");

static bool is_counted(uint8_t type)
{
    return type == NXR_OFI_DATA;
}

static bool may_have_content(uint8_t type)
{
    return is_counted(type) || type == NXR_OFI_PING;
}

const char *nxr_ofi_frame_check(const void *bytes, size_t nbytes, uint64_t own_id)
{
    const struct nxr_ofi_frame *frame = bytes;

    if (nbytes < sizeof(*frame)) {
        return "shorter than a frame";
    }
    if (frame->magic != NXR_OFI_FRAME_MAGIC || frame->type == 0 || frame->type >= NXR_OFI_N_TYPES) {
        return "not a frame";
    }
    if (frame->to != own_id) {
        return "a frame for another process";
    }
    if (frame->nbytes > NXR_OFI_CONTENT_MAX || nbytes != nxr_ofi_frame_nbytes(frame->nbytes)) {
        return "a frame of the wrong length";
    }
    if (is_counted(frame->type) && frame->seq == 0) {
        return "a frame with a wrong number";
    }
    if (!may_have_content(frame->type) && frame->nbytes != 0) {
        return "a frame with content that has none";
    }
    return frame->from == 0 ? "a frame without a sender" : NULL;
}
