/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks on different hosts: a head, then records, each padded to 8 bytes. Fixed
 * layouts in the byte order of the machine (a job runs on machines of one kind; the magic reveals
 * a different order). nxr_net_check_head() and nxr_net_next_record() are the only parsers. The
 * function that takes a record checks its contents against the state of this process.
 */
#ifndef NXR_NET_WIRE_H
#define NXR_NET_WIRE_H

#include "control/wire.h"
#include "transports/network.h"

#define NXR_NET_MAGIC   0x4e52584eu /* "NXRN" */
#define NXR_NET_VERSION 11u

struct nxr_net_head {
    uint32_t magic;
    uint16_t version;
    uint16_t unused;
    struct nxr_identity from; /* the sender */
    uint64_t token; /* from the receiver's card: the sender has read it, so it is of the job */
};
_Static_assert(sizeof(struct nxr_net_head) == 32, "fixed on the wire");

enum nxr_net_type {
    NXR_NET_HELLO = 1,  /* the sender's card; the first record */
    NXR_NET_CONTROL,    /* a union nxr_wire_message */
    NXR_NET_CLOSED_ACK, /* to NXR_WIRE_CLOSED: I no longer read or write your region */
    NXR_NET_PUT,
    NXR_NET_BULK_PUT, /* first in its message; its bytes are the bulk that follows the message */
    NXR_NET_REFUSED,  /* a put of yours was dropped */
    NXR_NET_GET,
    NXR_NET_GOT,
    NXR_NET_BULK_GOT, /* like BULK_PUT */
    NXR_NET_NOTE,
    NXR_NET_CREDIT, /* the position in my ring for you that you may not pass */
    NXR_NET_ATOMIC,
    NXR_NET_ATOMIC_DONE,
    NXR_NET_FLUSH,   /* answer when all that I sent before is visible */
    NXR_NET_FLUSHED, /* it is */
    NXR_NET_PING,
    NXR_NET_PONG,
    NXR_NET_BYE,            /* I leave the job in order */
    NXR_NET_STAGE,          /* copy between my window on your side and your device memory */
    NXR_NET_STAGED,         /* the copy is done, or failed */
    NXR_NET_HEARD,          /* to REFUSED: my program has been told */
    NXR_NET_TAKES,          /* I send over this network, since those before it did not reach you */
    NXR_NET_HELLO_ATTACHED, /* as HELLO, to a process of another job */
    NXR_NET_N_TYPES
};

struct nxr_net_record {
    uint16_t type; /* enum nxr_net_type */
    uint16_t unused;
    uint32_t nbytes; /* of the body that follows, without padding */
};

struct nxr_net_hello_attached { /* with the sender's card behind it */
    int32_t number; /* by which the sender names the receiver, which echoes it (peer->place) */
    uint32_t unused;
};

struct nxr_net_region { /* CLOSED_ACK */
    uint64_t generation;
    uint32_t id;
    uint32_t unused;
};

struct nxr_net_put { /* PUT, with the bytes behind it; BULK_PUT */
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes; /* for BULK_PUT; 0 in PUT */
    uint32_t id;
    uint32_t is_own; /* into memory of the library, see struct nxr_key */
};

struct nxr_net_refused {
    uint64_t generation;
    uint32_t id;
    int32_t status;
    uint64_t n_dropped; /* of your puts and signals; returned by HEARD */
};

struct nxr_net_get {
    uint64_t move; /* returned in the answer */
    uint64_t generation;
    uint64_t offset;
    uint64_t nbytes;
    uint32_t id;
    uint32_t is_bulk; /* answer with BULK_GOT */
};

struct nxr_net_got { /* GOT, with the bytes behind it; BULK_GOT */
    uint64_t move;
    uint64_t nbytes; /* for BULK_GOT; 0 in GOT */
    int32_t status;
    uint32_t unused;
};

struct nxr_net_note { /* with the payload behind it */
    uint64_t context;
    uint64_t tag;
    uint64_t is_late; /* a put that it waited for has failed */
};

struct nxr_net_atomic {
    uint64_t ask; /* returned in the answer; 0: a signal, answered only by REFUSED */
    struct nxr_wire_atomic what;
};

struct nxr_net_atomic_done {
    uint64_t ask;
    struct nxr_wire_atomic_done what;
};

struct nxr_net_stamp { /* CREDIT, FLUSH, FLUSHED, HEARD, PING, PONG */
    uint64_t value;
};

struct nxr_net_stage {
    uint64_t generation; /* 0: end the copy of that slot early, if that can be done */
    uint64_t offset;
    uint64_t nbytes;
    uint32_t id;
    uint16_t slot; /* of the window */
    uint16_t is_put;
};

struct nxr_net_takes {
    char network[8];
};

struct nxr_net_staged {
    uint32_t slot;
    int32_t status;
};

static inline size_t nxr_net_padded(size_t nbytes)
{
    return (nbytes + 7) & ~(size_t)7;
}

/*
 * Check the head of a message to the rank that has `token`. NULL: it is valid and copied to
 * *head_p, and whether its sender is known is still to be checked; else what is wrong.
 */
const char *nxr_net_check_head(const void *bytes, size_t nbytes, uint64_t token,
                               struct nxr_net_head *head_p);

/*
 * The record at *at_p of a message. Its body is at least as long as its type needs, and exactly
 * as long if the type has a fixed length. *at_p then points behind the record. NULL: the end of
 * the message (*why_p is NULL), or no valid record (*why_p says what is wrong).
 */
const struct nxr_net_record *nxr_net_next_record(const unsigned char *bytes, size_t nbytes,
                                                 size_t *at_p, const char **why_p);

static inline const void *nxr_net_body(const struct nxr_net_record *record)
{
    return record + 1;
}

/* What follows the fixed part of a body: notes, bytes, keys. */
static inline const void *nxr_net_payload(const struct nxr_net_record *record, size_t fixed_nbytes,
                                          size_t *nbytes_p)
{
    *nbytes_p = record->nbytes - fixed_nbytes;
    return (const char *)(record + 1) + fixed_nbytes;
}

#endif
