/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over a connection. First three hellos: the process that connects says which rank it
 * wants and which rank it is; the other one answers; the first confirms. Until it confirms it may
 * give the connection up, and nothing is lost. Then frames, each with a message and possibly bulk
 * behind it.
 */
#ifndef NXR_TCP_FRAME_H
#define NXR_TCP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_TCP_HELLO_MAGIC 0x6874786eu /* "nxth" */
#define NXR_TCP_FRAME_MAGIC 0x6674786eu /* "nxtf" */
#define NXR_TCP_PLAN_MAGIC  0x7374786eu /* "nxts" */
#define NXR_TCP_PIECE_MAGIC 0x7074786eu /* "nxtp" */
#define NXR_TCP_ACK_MAGIC   0x6b74786eu /* "nxtk" */

#define NXR_TCP_ACK_OF_PLAN 0xffffffffu /* as the index of a piece */

/* The longest message: a put of 32 KiB and what the core adds to it. */
#define NXR_TCP_MESSAGE_NBYTES (33 * 1024)

enum nxr_tcp_hello_type {
    NXR_TCP_HELLO = 1, /* shows `connect_secret` of the receiver and `answer` of the sender */
    NXR_TCP_ANSWER,    /* shows `answer` of the sender, which was connected to */
    NXR_TCP_CONFIRM,   /* as HELLO; frames follow, both ways */
    NXR_TCP_RAIL,      /* as HELLO, for a further connection, which carries pieces only */
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

/*
 * Bulk that is spread over several connections ("striped"). On the ordered stream a frame with
 * NXR_TCP_PLAN_MAGIC, whose message begins with the plan and has no bulk behind it. The owner
 * answers with an ack of the plan. Then pieces, in any order and on any connection, except that
 * only the ordered stream may carry some before that ack. The owner acks each on the connection by
 * which it came. The numbers of plans rise: a piece of one that is known no more is dropped.
 */
struct nxr_tcp_plan {
    uint64_t number;       /* > 0 */
    uint32_t piece_nbytes; /* of all pieces but the last */
    uint32_t unused;       /* 0 */
};

/* The bytes follow. */
struct nxr_tcp_piece {
    uint32_t magic;
    uint32_t index;
    uint64_t number; /* of its plan */
    uint64_t nbytes;
};

struct nxr_tcp_ack {
    uint32_t magic;
    uint32_t index; /* of the piece, or NXR_TCP_ACK_OF_PLAN */
    uint64_t number;
};

/* How many pieces that makes, and how long one of them is. */
static inline uint64_t nxr_tcp_n_pieces(uint64_t nbytes, uint32_t piece_nbytes)
{
    return nbytes / piece_nbytes + (nbytes % piece_nbytes != 0);
}

static inline uint64_t nxr_tcp_piece_nbytes(uint64_t nbytes, uint32_t piece_nbytes, uint32_t index)
{
    uint64_t rest = nbytes - (uint64_t)index * piece_nbytes;

    return rest < piece_nbytes ? rest : piece_nbytes;
}

/* Check input: NULL, or what is wrong with it, in words. */
const char *nxr_tcp_hello_check(const struct nxr_tcp_hello *hello, enum nxr_tcp_hello_type type,
                                uint32_t to);
const char *nxr_tcp_frame_check(const struct nxr_tcp_frame *frame);

/* Of a frame with NXR_TCP_PLAN_MAGIC, before and after its plan has arrived. */
const char *nxr_tcp_plan_frame_check(const struct nxr_tcp_frame *frame);
const char *nxr_tcp_plan_check(const struct nxr_tcp_plan *plan, uint64_t bulk_nbytes,
                               uint64_t last_number);

/* Of a piece by itself; and as one of a plan for that many bytes. */
const char *nxr_tcp_piece_check(const struct nxr_tcp_piece *piece, uint64_t last_number);
bool nxr_tcp_piece_fits(const struct nxr_tcp_piece *piece, uint64_t nbytes, uint32_t piece_nbytes);

#endif
