/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over a connection. First three hellos: the process that connects says which rank it
 * wants and which rank it is; the other one answers; the first confirms. Until it confirms it may
 * give the connection up, and nothing is lost. Then frames, each with a message and possibly bulk
 * behind it.
 */
#ifndef NXR_TCP_FRAME_H
#define NXR_TCP_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define NXR_TCP_HELLO_MAGIC 0x6874786eu /* "nxth" */
#define NXR_TCP_FRAME_MAGIC 0x6674786eu /* "nxtf" */

/* The longest message: a put of 32 KiB and what the core adds to it. */
#define NXR_TCP_MESSAGE_NBYTES (33 * 1024)

enum nxr_tcp_hello_type {
    NXR_TCP_HELLO = 1, /* shows `connect_secret` of the receiver and `answer` of the sender */
    NXR_TCP_ANSWER,    /* shows `answer` of the sender, which was connected to */
    NXR_TCP_CONFIRM,   /* as HELLO; frames follow, both ways */
};

struct nxr_tcp_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t from; /* ranks, each in its own job */
    uint32_t to;
    uint64_t connect_secret;
    uint64_t answer;
};

/* The message follows, then the bulk, without gaps. */
struct nxr_tcp_frame {
    uint32_t magic;
    uint32_t nbytes; /* of the message */
    uint64_t bulk_nbytes;
};

/* Check input: NULL, or what is wrong with it, in words. */
const char *nxr_tcp_hello_check(const struct nxr_tcp_hello *hello, enum nxr_tcp_hello_type type,
                                uint32_t to);
const char *nxr_tcp_frame_check(const struct nxr_tcp_frame *frame);

#endif
