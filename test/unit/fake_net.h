/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The made-up job with its other ranks on other hosts, behind a network that does what a test tells
 * it to. Nothing happens by itself: there is no service thread, and a round is driven by
 * fake_round(). There is a second network where a test asks for it, to which the same applies.
 */
#ifndef FAKE_NET_H
#define FAKE_NET_H

#include "fake_job.h"

#include "net/clients.h"
#include "net/connect.h"
#include "net/in.h"
#include "net/move.h"
#include "net/out.h"
#include "nixlrun.h"

enum { FAKE_MESSAGE_NBYTES = 8192, FAKE_SMALL = 1024 };
#define FAKE_SEGMENT_NBYTES ((size_t)512 << 20)

/* A message that the core has sent; its bytes are a copy, its bulk is not. */
struct fake_sent {
    struct nxr_list link;
    int rank;
    unsigned net; /* by which one: 0 or 1 */
    const void *bulk;
    size_t bulk_nbytes;
    size_t nbytes;
    _Alignas(8) unsigned char bytes[];
};

/* A message that the next round delivers. */
struct fake_message {
    struct nxr_list link;
    size_t nbytes;
    _Alignas(8) unsigned char bytes[];
};

/* Bulk that has been placed. */
struct fake_landing {
    struct nxr_list link;
    void *cookie;
};

struct fake {
    struct nxr_net_attr attr; /* may be changed before a rank is connected */
    struct nxr_net_attr second_attr;
    int reach[2];             /* what ep_reach says, NIXL_OK at first */
    unsigned n_reached[2];    /* ... and how often it was asked */
    bool was_connected;       /* what the network says of the path to a silent peer, and */
    const char *known;        /* ... in words; NULL: nothing */
    int64_t ran_ago_ns;       /* when its process last showed that it runs; 0: never */
    int answer;               /* of send, write and read */
    unsigned n_room;          /* after so many sends it is NIXL_E_AGAIN; 0: never */
    int mem_answer;           /* of mem_register */
    size_t key_nbytes;        /* ... the size of its keys, from 1 to 4 */
    uint32_t shown_access;    /* ... with that access */
    unsigned n_shown;         /* how often that was called, */
    enum nixl_mem_kind shown; /* ... and with what */
    enum nixl_mem_kind moved; /* what the last write or read had for the local side, */
    const char *moved_pci;    /* ... and of which GPU */
    struct nxr_list sent;     /* struct fake_sent */
    struct nxr_list ops;      /* accepted and not ended: the scratch of struct nxr_net_op */
    struct nxr_list coming;   /* struct fake_message */
    const struct nxr_identity *sender; /* of messages that come; NULL: the rank they are sent by */
    struct nxr_list landings;          /* struct fake_landing */
    unsigned offset;                   /* of messages from an aligned address, below 8 */
    int64_t now; /* of rounds, and until the next one; 0: what the clock says */
    int n_open_eps;
    int n_open_keys;
    unsigned n_driven; /* how often a network was driven */
    int n_moved;       /* writes and reads that were accepted */
    unsigned sum;      /* of all bulk that was sent */
    bool was_late;     /* the last notification that fake_next_tag() took */
};
extern struct fake fake;

static inline unsigned fake_length(struct nxr_list *list)
{
    struct nxr_list *link, *after;
    unsigned n = 0;

    nxr_list_for_each (link, after, list) {
        n++;
    }
    return n;
}

/* Make the job and open its network; undo that, with everything that is still under way. */
void fake_start(void);
void fake_start_two(void);
void fake_stop(void);

/* A network says that a rank cannot be reached there. */
void fake_fail(int rank, unsigned net);

/* Connect a rank, which has sent nothing yet. */
struct net_peer *fake_link(int rank);

/*
 * A region whose segment of that rank has FAKE_SEGMENT_NBYTES, with the key of the network if
 * is_rma.
 */
struct nixl_region *fake_region(int rank, bool is_rma);

/* The same for a region that was asked for: its key comes in the next round. */
void fake_key_coming(int rank, bool is_rma);

/* Drive the network, at the time fake.now. */
void fake_round(void);

/* A message of one record comes, in the next round or at once. */
void fake_coming(int rank, enum nxr_net_type type, const void *body, size_t body_nbytes,
                 const void *payload, size_t payload_nbytes);
void fake_receive(int rank, enum nxr_net_type type, const void *body, size_t body_nbytes,
                  const void *payload, size_t payload_nbytes);
void fake_greet(int rank);
void fake_control_coming(int rank, const union nxr_wire_message *message);

/*
 * Bulk is announced: where it is placed, or NULL. Then so many bytes of the oldest come, and the
 * oldest, or n-th, lands.
 */
void *fake_bulk(int rank, enum nxr_net_type type, const void *body, size_t body_nbytes,
                size_t nbytes);
/* ... with a flush asked for in the same header. */
void *fake_bulk_and_flush(int rank, const struct nxr_net_put *put, uint64_t flush, size_t nbytes);
void fake_landing(size_t nbytes);
void fake_land(unsigned index, int status);

/* What the network has accepted ends: the n-th, or all. */
void fake_end_op(unsigned index, int status);
void fake_end_ops(int status);
unsigned fake_n_ops(void);

/* How many records of that type were sent, and the body of one, from 0, or of the last; NULL. */
unsigned fake_n_sent(enum nxr_net_type type);
unsigned fake_n_controls_sent(enum nxr_wire_type type);
const void *fake_nth(enum nxr_net_type type, unsigned index);
const void *fake_last(enum nxr_net_type type);
unsigned fake_n_messages(void);
void fake_forget_sent(void);

/*
 * The tag of the next notification of that rank, from its ring, which must have no other reader; 0:
 * there is none.
 */
uint64_t fake_next_tag(int rank);

#endif
