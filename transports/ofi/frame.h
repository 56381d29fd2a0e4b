/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope of a message between two processes. libfabric delivers in order, but loses what was
 * under way when a connection breaks, and keeps no order across rails. So frames with content are
 * numbered, kept by the sender until the receiver has acknowledged them, and sent again if they
 * were lost; the receiver accepts each once, in order, from any rail.
 */
#ifndef NXR_OFI_FRAME_H
#define NXR_OFI_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define NXR_OFI_FRAME_MAGIC 0x6f66u
#define NXR_OFI_CONTENT_MAX (32 * 1024) /* the longest content of a frame */

enum nxr_ofi_frame_type {
    /* numbered */
    NXR_OFI_DATA = 1, /* a message of the core */
    /* not numbered; may be lost or arrive twice; the argument is in `seq` */
    NXR_OFI_ACK,    /* nothing but the acknowledgement; argument 1: something is missing after it */
    NXR_OFI_PING,   /* answer at once; argument: comes back. The content is the sender's address,
                     * or nothing where the receiver is known to have it */
    NXR_OFI_PONG,   /* the answer */
    NXR_OFI_FENCE,  /* close your rail (argument) to all, so that nothing old arrives there */
    NXR_OFI_FENCED, /* done; argument: that of FENCE */
    NXR_OFI_N_TYPES
};

struct nxr_ofi_frame {
    uint16_t magic;
    uint8_t type;
    uint8_t unused;
    uint32_t nbytes; /* of content, which follows, padded to 8 bytes */
    uint64_t to;     /* the receiver's id, as its address has it */
    uint64_t from;   /* the sender's */
    uint64_t seq;    /* number of this frame, from 1 on; or an argument */
    uint64_t ack;    /* the last of the receiver's frames that the sender has accepted */
};

static inline size_t nxr_ofi_frame_nbytes(size_t content_nbytes)
{
    return sizeof(struct nxr_ofi_frame) + ((content_nbytes + 7) & ~(size_t)7);
}

/*
 * Check an incoming frame: NULL, or what is wrong with it, in words. It must be addressed to
 * `own_id`. The bytes may be malformed; they are aligned to 8.
 */
const char *nxr_ofi_frame_check(const void *bytes, size_t nbytes, uint64_t own_id);

#endif
