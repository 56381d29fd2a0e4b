/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the UCX network share. There is one state, as there is one worker: the core
 * opens a network once at a time and calls it from one thread at a time.
 */
#ifndef NXR_UCX_H
#define NXR_UCX_H

#include "transports/network.h"
#include "transports/rail.h"
#include "util/list.h"
#include "util/symbol.h"

#include <ucp/api/ucp.h>

#include <stdint.h>

/* Message types: the number of the handler at the receiver. */
enum {
    NXR_UCX_MESSAGE = 1,
    NXR_UCX_BULK = 2,
    NXR_UCX_HELLO = 3,
    NXR_UCX_BULK_HEAD = 4,
    NXR_UCX_PIECE = 5,
};

/* The kinds of network that a rank has, as bits in its address. */
enum {
    NXR_UCX_HAS_TCP = 1,
    NXR_UCX_HAS_RDMA = 2,
};

/*
 * The longest message, and the longest put that goes inside a message. UCX cuts an eager message
 * into pieces of its transport's size and joins them again, in order on the message lane.
 */
#define NXR_UCX_MESSAGE_NBYTES     (64 * 1024)
#define NXR_UCX_PUT_MESSAGE_NBYTES (8 * 1024)

/*
 * Over TCP, bulk up to this goes in one message with its header, copied by UCX; longer bulk follows
 * its header in pieces (bulk.c), a limited number in a round. Measured between two namespaces
 * (cubic, beside raw TCP with 99 us and 6.9 ms): 1 MiB and 64 MiB took 145 us and 9.2 ms in pieces
 * of 128 KiB, 177 us and 10.8 ms in pieces of 64 KiB, 215 us and 15.9 ms by UCX's rendezvous. 64
 * KiB took 27 us in one message and 30 us in pieces.
 */
#define NXR_UCX_EAGER_NBYTES   ((size_t)128 * 1024)
#define NXR_UCX_PIECE_NBYTES   ((size_t)128 * 1024)
#define NXR_UCX_PIECES_A_ROUND 8

/*
 * How many operations one endpoint may have under way: more are refused, so that UCX's queues stay
 * bounded.
 */
#define NXR_UCX_MAX_OPERATIONS 1024

#define NXR_UCX_MAX_DEVICES 32
#define NXR_UCX_LIST_NBYTES (NXR_UCX_MAX_DEVICES * NXR_UCX_NAME_NBYTES)
#define NXR_UCX_NAME_NBYTES 48 /* a transport and its device, "rc_mlx5/mlx5_0:1" */

#define NXR_UCX_N_BUCKETS     256
#define NXR_UCX_MAX_STRANGERS 1024 /* besides one for each rank of the job */

/* What this process keeps for another one, with or without an endpoint: sender.c. */
struct nxr_ucx_sender {
    struct nxr_list link;          /* nxr_ucx.senders */
    uint64_t id;                   /* of its address */
    unsigned n_endpoints;          /* here */
    struct nxr_list stranger_link; /* nxr_ucx.strangers, if it has none */
    bool has_ended;                /* it had some, which the core has closed */
    struct nxr_list bulks;         /* incoming ones, in order */
    size_t skip;                   /* bytes that arrive before those, and belong to none */
    struct nxr_list cut_link;      /* nxr_ucx.cut */
    bool was_heard;                /* a message from it arrived */
};

struct nxr_ucx {
    const struct nxr_net_core *core; /* NULL: not open */
    ucp_context_h context;
    ucp_worker_h worker;
    int event_fd;
    int64_t timer_at_ns; /* when event_fd is readable for a close; 0: never */
    uint64_t id;         /* of this process, random: messages have it as their header */
    bool is_progressing; /* inside progress(), from where the core may be called */
    bool is_inside;      /* inside a callback of UCX */
    bool is_idle;        /* UCX had nothing to do, and nothing was started since */
    bool must_hear;      /* hear the peer before opening: endpoint.c */
    struct nxr_list senders[NXR_UCX_N_BUCKETS]; /* struct nxr_ucx_sender */
    struct nxr_list strangers;                  /* those without an endpoint, by age */
    unsigned n_strangers;

    /* Endpoints: in use, to be connected, failed but not yet reported, being closed, abandoned. */
    struct nxr_list endpoints, wanted, failed, closing, abandoned;
    struct nxr_list landings; /* bulk that UCX receives */
    struct nxr_list ended;    /* operations that ended outside of progress() */

    /*
     * bulk.c: endpoints that have bulk, heads that UCX still holds, processes whose remaining
     * pieces never arrive
     */
    struct nxr_list bulk_eps, heads, cut;

    struct nxr_net_rail rail; /* received bytes; UCX does not report who sent them */
    struct nxr_net_attr attr;
    unsigned kinds; /* NXR_UCX_HAS_* */
    unsigned n_devices;
    char devices[NXR_UCX_MAX_DEVICES][NXR_UCX_NAME_NBYTES];
};

extern NXR_HIDDEN struct nxr_ucx nxr_ucx;

/* ---- settings.c: what UCX is asked for ------------------------------------------------------- */

/*
 * A configuration for ucp_init(), with or without adapters, and with those devices if the user has
 * not chosen any ("": all); to be released by ucp_config_release().
 */
ucs_status_t nxr_ucx_settings(const struct nxr_net_core *core, bool has_rdma, const char *devices,
                              ucp_config_t **config_p);

/* ---- devices.c: what the context uses -------------------------------------------------------- */

int nxr_ucx_find_devices(void);

/*
 * Do the devices include, besides others, a bridge to this host's containers that the user has not
 * named? If so, `list` is set to those others, as UCX takes them; else to "".
 */
bool nxr_ucx_list_outward(char *list, size_t list_nbytes);
void nxr_ucx_fill_attr(void);

/* ---- log.c: UCX's lines ---------------------------------------------------------------------- */

/* Between these calls UCX's log lines are kept and nothing is printed. */
void nxr_ucx_log_start(void);
void nxr_ucx_log_stop(void);

/* Pass the kept lines to the core. */
int nxr_ucx_log_tell(void);
bool nxr_ucx_log_is_empty(void);

/* Remove the last kept warning and return it; "" if there is none. */
void nxr_ucx_log_take(char *line, size_t line_nbytes);

/* ---- sender.c -------------------------------------------------------------------------------- */

void nxr_ucx_senders_init(void);
void nxr_ucx_senders_free(void);

/* The sender of a message with that header; NULL: it has another one, or there is no memory. */
struct nxr_ucx_sender *nxr_ucx_sender_of(const void *header, size_t header_nbytes);

/* That of an endpoint, which it has until the endpoint lets it go. NULL: no memory. */
struct nxr_ucx_sender *nxr_ucx_sender_hold(uint64_t id);
void nxr_ucx_sender_let_go(struct nxr_ucx_sender *sender);

/* ---- endpoint.c ------------------------------------------------------------------------------ */

struct nxr_net_ep {
    struct nxr_list link;
    struct nxr_list operations;
    unsigned n_operations;
    struct nxr_list bulks;     /* outgoing, in order */
    struct nxr_list bulk_link; /* nxr_ucx.bulk_eps */
    ucp_ep_h ucp;              /* NULL until something is sent, and after it was closed */
    void *peer;
    struct nxr_ucx_sender *sender;
    bool has_sent_hello;
    bool is_connected; /* the other host has accepted the connection */
    bool is_open;      /* everything may be sent */
    bool has_failed;
    bool is_closing;          /* the core has closed it */
    bool is_orderly;          /* ... and what was accepted is still being sent */
    bool has_flushed;         /* ... and the flush that waits for that was started */
    void *flush;              /* the request that a step of opening waits for, or of its close */
    int64_t deadline_ns;      /* of an orderly close; 0: it has not begun */
    ucs_status_t failure;     /* why, if has_failed */
    struct nxr_net_rail rail; /* what is sent, while the core has it */
    size_t address_nbytes;    /* UCX's own address */
    unsigned char address[];
};

int nxr_ucx_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p);
void nxr_ucx_ep_close(struct nxr_net_ep *ep, bool is_orderly);

/* As ep_reach and ep_state of a network. */
int nxr_ucx_ep_reach(struct nxr_net_ep *ep);
bool nxr_ucx_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes);

/*
 * May something be sent? NIXL_OK; NIXL_E_AGAIN: it is being connected, or has enough under way;
 * or NIXL_E_TRANSPORT. is_first: NIXL_OK also for an endpoint that is not open; what is sent then
 * must leave immediately and carry this process's id, so that the other side knows that it was
 * reached.
 */
int nxr_ucx_ep_use(struct nxr_net_ep *ep, bool is_first);

/* A message arrived; its header is the id of its sender, or nothing. */
void nxr_ucx_heard(const void *header, size_t header_nbytes);

/* Connect, report failures, continue closes. Returns how many things moved. */
int nxr_ucx_endpoints_progress(void);

/* At the end: close() closes all at once; free(), when UCX is gone, ends what UCX has not ended. */
void nxr_ucx_endpoints_close(void);
void nxr_ucx_endpoints_free(void);

/* Make event_fd readable after this time; 0: never. */
void nxr_ucx_set_timer(int64_t after_ns);

/* ---- operation.c: what the core waits for ---------------------------------------------------- */

/*
 * Turn what a call of UCX returned into a status of the interface; an operation that continues is
 * kept. The call must have been given nxr_ucx_sent() as its callback and `op` as its user data.
 */
int nxr_ucx_started(struct nxr_net_ep *ep, struct nxr_net_op *op, ucs_status_ptr_t request);
void nxr_ucx_sent(void *request, ucs_status_t status, void *op);

/* Keep an operation of this module's own. */
void nxr_ucx_keep(struct nxr_net_ep *ep, struct nxr_net_op *op);

/* End an operation, now or in the next progress(). */
void nxr_ucx_end(struct nxr_net_op *op, int status);
void nxr_ucx_cancel_all(struct nxr_net_ep *ep);
int nxr_ucx_tell_ended(void);

/* ---- message.c ------------------------------------------------------------------------------- */

ucs_status_t nxr_ucx_set_handler(unsigned id, ucp_am_recv_callback_t handler);
ucs_status_t nxr_ucx_messages_start(void);
void nxr_ucx_messages_stop(void);
int nxr_ucx_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                 size_t bulk_nbytes, struct nxr_net_op *op);

/* ---- bulk.c ---------------------------------------------------------------------------------- */

ucs_status_t nxr_ucx_bulks_start(void);

/* As the module's send(), on an open way. */
int nxr_ucx_bulk_send(struct nxr_net_ep *ep, const void *header, size_t header_nbytes,
                      const void *bytes, size_t nbytes, struct nxr_net_op *op);

/* As rebase() of struct nxr_network: what UCX itself sends, it does not move. */
bool nxr_ucx_bulk_rebase(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bytes);

/* End what an endpoint has under way. */
void nxr_ucx_bulks_stop(struct nxr_net_ep *ep, int status);

/* No more is expected from that process: progress() ends incomplete bulk. */
void nxr_ucx_bulks_cut(struct nxr_ucx_sender *sender);

/* Give back what has come of its bulks, and forget them. */
void nxr_ucx_bulks_forget(struct nxr_ucx_sender *sender);

/* Send what there is room for. Returns how many pieces. */
int nxr_ucx_bulks_progress(void);

/* At the end, when UCX is gone. */
void nxr_ucx_bulks_free(void);

/* ---- rma.c ----------------------------------------------------------------------------------- */

int nxr_ucx_mem_register(void *addr, size_t nbytes, enum nixl_mem_kind kind, uint32_t access,
                         struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p);
void nxr_ucx_mem_release(struct nxr_net_mem *mem);
int nxr_ucx_key_open(struct nxr_net_ep *ep, const void *bytes, size_t nbytes,
                     struct nxr_net_key **key_p);
void nxr_ucx_key_close(struct nxr_net_key *key);
int nxr_ucx_write(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, const void *src,
                  size_t nbytes, struct nxr_net_op *op);
int nxr_ucx_read(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                 size_t nbytes, struct nxr_net_op *op);

#endif
