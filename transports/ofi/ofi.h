/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the libfabric network share. There is one state: the core opens a network once
 * at a time, and calls it from one thread at a time.
 *
 * A rail is one endpoint on one device. A path leads to one peer over one rail. A path carries
 * nothing before the peer has answered a PING there, which proves it. Messages take one way at a
 * time (message.c); reads and writes are cut over all of them (rma.c). What was under way on a path
 * that fails or falls silent is sent again elsewhere (repair.c), and the path has to be proven
 * again.
 */
#ifndef NXR_OFI_H
#define NXR_OFI_H

#include "address.h"
#include "frame.h"
#include "transports/network.h"
#include "transports/rail.h"
#include "util/list.h"
#include "util/locality.h"
#include "util/symbol.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define NXR_OFI_N_RECEIVES     2            /* buffers for messages per rail */
#define NXR_OFI_RECEIVE_NBYTES (128 * 1024) /* of each */
#define NXR_OFI_N_CONTROLS     64           /* frames without content under way per rail */
#define NXR_OFI_OUTBOX_NBYTES  (256 * 1024) /* messages kept per peer until acknowledged */
#define NXR_OFI_N_PEER_LISTS   256
#define NXR_OFI_MAX_ASIDE      1024 /* peers that the core does not have, besides the job's size */
#define NXR_OFI_API            FI_VERSION(1, 17)

/* What a completion refers to. */
enum nxr_ofi_posted_kind { NXR_OFI_RECEIVE, NXR_OFI_SLOT, NXR_OFI_CONTROL, NXR_OFI_PIECE };

/* First member of everything that is passed to libfabric as a context. */
struct nxr_ofi_posted {
    enum nxr_ofi_posted_kind kind;
};

struct nxr_ofi_receive {
    struct nxr_ofi_posted posted;
    struct fid_mr *mr;
    bool is_posted;
    _Alignas(64) unsigned char bytes[NXR_OFI_RECEIVE_NBYTES];
};

struct nxr_ofi_control {
    struct nxr_ofi_posted posted;
    bool is_busy;
    struct nxr_ofi_frame frame;
    struct nxr_ofi_address address; /* the content of a question */
};

struct nxr_ofi_rail {
    unsigned index;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct nxr_ofi_receive *receives; /* [NXR_OFI_N_RECEIVES], and a spare one */
    struct nxr_ofi_control *controls; /* [NXR_OFI_N_CONTROLS] */
    struct fid_mr *controls_mr;
    unsigned n_unposted; /* receives that could not be reposted */
    unsigned n_used_up;  /* ... that were used up since the queue was last empty */
    unsigned n_stirs;    /* how many times connections still have to be stirred (receive.c) */
    int wait_fd;         /* readable when there is work; -1: the provider has none */
    size_t inject_nbytes;
    uint64_t mr_mode;
    bool is_ip;         /* the provider's names are IP addresses */
    bool is_software;   /* the processor moves the bytes, by sockets of the kernel */
    bool has_hmem;      /* it takes device memory; which kinds, registering shows */
    bool must_reset;    /* as soon as no completion is being handled */
    int64_t rest_until; /* after a reset: until then reads and writes go elsewhere */
    char device[64];
    unsigned char name[NXR_OFI_NAME_NBYTES]; /* of the endpoint */
    size_t name_nbytes;
};

#define NXR_OFI_TAKEN (-1) /* a connection was accepted */

/* The path to one peer over one rail. */
struct nxr_ofi_path {
    int theirs; /* their rail; -1: not reachable by this one */
    fi_addr_t addr;
    unsigned n_pieces;      /* under way here */
    struct nxr_list pieces; /* ... these */
    struct nxr_list fenced; /* pieces that wait until the peer has closed its endpoint */
    bool must_fence;        /* the peer was not asked to yet, or has not answered */
    bool is_proven;         /* the peer has answered here, and nothing has failed since */
    bool is_asked;          /* libfabric has accepted a PING since the path became unproven */
    bool was_proven;        /* it has been proven before */
    int64_t moved_at;       /* when anything of the peer last completed or arrived here */
    int64_t pinged_at;      /* 0: no answer is awaited */
    int64_t ping_after;     /* while unproven: when to ask again; the pause doubles each time */
    int64_t pause_ns;
    uint64_t fence;   /* number of the last FENCE */
    int64_t fence_at; /* when it was sent; 0: not yet */
    int probe_error;  /* of connect(), when the last probe ended; 0: none has; or NXR_OFI_TAKEN */
    struct nxr_net_rail count; /* open while the core has the peer */
};

/* A peer: what the core calls an endpoint, or a process that has sent us something. */
struct nxr_net_ep {
    struct nxr_list hash_link;
    struct nxr_list aside_link; /* nxr_ofi.aside, while the core does not have it */
    struct nxr_ofi_address address;
    struct nxr_ofi_path paths[NXR_OFI_MAX_RAILS];
    unsigned message_path;

    void *cookie; /* the core's */
    bool is_open; /* the core has it */
    bool is_failed;
    bool is_reached;   /* a path was proven */
    int64_t wanted_at; /* when the core last tried to reach it; 0: never */
    bool must_tell;    /* ... and the core was not told yet */
    char why[300];

    /* Out: a ring of slots, in the order of their numbers. */
    struct nxr_ofi_outbox *outbox; /* NULL: nothing was sent yet */
    uint64_t next_seq;             /* of the next counted frame */
    uint64_t posted_seq;           /* the last one that was passed to libfabric */
    uint64_t acked_seq;
    int64_t acked_at;          /* when that grew, or the outbox began to fill */
    struct nxr_list post_link; /* nxr_ofi.posting: something waits for room */
    int64_t close_at;          /* not 0: closed by the core, the outbox is drained until then */
    bool is_probing;           /* liveness.c */
    bool has_entered;          /* the connection was accepted, and the greeting sent */
    int probe_fd;
    unsigned probe_path, n_refused;
    int64_t probe_at;
    int64_t ran_at;    /* when its process last sent something or answered a probe; 0: never */
    int64_t broken_at; /* when a path first failed; 0 once something has moved again */
    uint64_t fences[NXR_OFI_MAX_RAILS]; /* the peer's last FENCE for each own rail; 0: none */
    bool must_answer_fence[NXR_OFI_MAX_RAILS];

    /* In. */
    uint64_t taken_seq; /* the last counted frame that was taken */
    uint64_t told_seq;  /* ... the last one that was acknowledged to the sender */
    size_t untold_nbytes;
    bool is_gap_told;
    struct nxr_list ack_link; /* nxr_ofi.acking */

    /* Reads and writes. */
    struct nxr_list waiting;  /* struct nxr_ofi_piece: to be sent (again) */
    struct nxr_list starting; /* struct nxr_ofi_rma: not fully cut yet */
    struct nxr_list rmas;     /* all that have not ended */
    unsigned n_rmas;
};

#define NXR_OFI_MAX_GPUS 16 /* rails are treated as for host memory beyond these */

/* Distance of the rails from some memory, by rail number. */
struct nxr_ofi_near {
    char pci[32]; /* of the GPU; "": host memory */
    unsigned far[NXR_OFI_MAX_RAILS];
};

struct nxr_ofi {
    const struct nxr_net_core *core; /* NULL: not open */
    struct nxr_ofi_rail rails[NXR_OFI_MAX_RAILS];
    unsigned n_rails;
    struct nxr_ofi_address address; /* own */
    hwloc_topology_t topology;      /* NULL: a single rail, no device memory, or not available */
    struct nxr_ofi_near nears[1 + NXR_OFI_MAX_GPUS]; /* host memory, then GPUs as they were met */
    unsigned n_nears;
    struct nxr_net_attr attr;
    struct nxr_list peers[NXR_OFI_N_PEER_LISTS];
    struct nxr_list aside;   /* struct nxr_net_ep by aside_link: the one heard last is the last */
    struct nxr_list posting; /* struct nxr_net_ep by post_link */
    struct nxr_list acking;  /* ... by ack_link */
    struct nxr_list ended;   /* struct nxr_ofi_rma that end in the next progress() */
    struct nxr_list mems;    /* struct nxr_net_mem */
    struct nxr_list free_rmas, free_pieces;
    size_t max_piece_nbytes; /* the most that every rail moves in one operation */
    struct nxr_net_ep *last; /* the peer that was found last */
    unsigned n_aside;        /* peers that the core does not have */
    unsigned n_to_tell;      /* peers with must_tell */
    unsigned n_closing;      /* peers with close_at */
    unsigned n_pieces;       /* under way */
    int64_t now;             /* of this round */
    int64_t repair_at;       /* when to check for silence next; 0: never */
    int64_t strangers_at;    /* when to look for strangers next */
    int n_descriptors;       /* in use when there were none */
    int strangers_end;       /* all have lower descriptors; 0: nobody is to be reset later */
    unsigned n_refused;      /* how often sleep was refused since something has moved */
    int epoll_fd, timer_fd;
    int64_t timer_at; /* when the timer rings; 0: it is off */
};

extern NXR_HIDDEN struct nxr_ofi nxr_ofi;

/* ---- provider.c ------------------------------------------------------------------------------ */

/* Choose provider and devices: fills nxr_ofi.rails[].info, nearest first. */
int nxr_ofi_choose(char *why, size_t why_nbytes);

/* The user's name for the device: the interface, or the adapter without its suffix. */
void nxr_ofi_device_name(const struct fi_info *info, char *name, size_t nbytes);

/* Is it libfabric's own TCP, "net" or, from 1.18 on, "tcp"? */
bool nxr_ofi_is_own_tcp(void);

/* ---- near.c ---------------------------------------------------------------------------------- */

/* Sort by distance from the CPUs of this process; equally distant ones keep their order. */
void nxr_ofi_nearest_first(const struct fi_info *found[NXR_OFI_MAX_RAILS], unsigned n);

/* Called when no rail takes device memory, or at the end. */
void nxr_ofi_forget_topology(void);

/* Distance from the memory of a GPU, or of the host, named by `pci` of struct nxr_net_op. */
const struct nxr_ofi_near *nxr_ofi_near_of(const char *pci);

/* ---- rail.c ---------------------------------------------------------------------------------- */

int nxr_ofi_rail_open(struct nxr_ofi_rail *rail, char *why, size_t why_nbytes);

/* stop() closes the endpoint: libfabric uses no memory of ours any more. close() frees the rest. */
void nxr_ofi_rail_stop(struct nxr_ofi_rail *rail);
void nxr_ofi_rail_close(struct nxr_ofi_rail *rail);

/*
 * Close the endpoint and open it again under the same name: nothing that was under way arrives here
 * any more. NIXL_OK, or a failure: it is closed, and may be tried again.
 */
int nxr_ofi_rail_reopen(struct nxr_ofi_rail *rail);

/* As fi_cq_read(), which also drives the provider. */
ssize_t nxr_ofi_cq_read(struct nxr_ofi_rail *rail, void *entries, size_t n);

/* Handle completions and arrived messages. Returns how many. */
int nxr_ofi_rail_progress(struct nxr_ofi_rail *rail);

/* ---- registration.c -------------------------------------------------------------------------- */

/* Instead of a key: a number that was never used and cannot be guessed. */
#define NXR_OFI_NEW_KEY 0

/* Register memory of some kind, or of the host. 0 or a failure of libfabric. */
struct nxr_ofi_bytes {
    void *addr;
    size_t nbytes;
    enum nixl_mem_kind kind;
};
int nxr_ofi_rail_register_kind(struct nxr_ofi_rail *rail, const struct nxr_ofi_bytes *bytes,
                               uint64_t access, uint64_t key, struct fid_mr **mr_p);
int nxr_ofi_rail_register(struct nxr_ofi_rail *rail, const void *bytes, size_t nbytes,
                          uint64_t access, uint64_t key, struct fid_mr **mr_p);
void nxr_ofi_mr_close(struct fid_mr *mr);
void *nxr_ofi_mr_desc(struct fid_mr *mr);

/* ---- receive.c ------------------------------------------------------------------------------- */

/* 0 or a failure of libfabric; nxr_ofi_buffers_free() follows in either case. */
int nxr_ofi_buffers_make(struct nxr_ofi_rail *rail);
void nxr_ofi_buffers_free(struct nxr_ofi_rail *rail);

/* The endpoint was closed: libfabric uses none of the buffers any more. */
void nxr_ofi_buffers_let_go(struct nxr_ofi_rail *rail);

/* Post what is not posted. */
void nxr_ofi_receives_post(struct nxr_ofi_rail *rail);

/* libfabric has released a receive buffer. */
void nxr_ofi_receive_used_up(struct nxr_ofi_rail *rail, struct nxr_ofi_receive *receive);

/* Unblock a connection that may have found no buffer; false: not now. The rail is open. */
bool nxr_ofi_can_stir(const struct nxr_ofi_rail *rail);
bool nxr_ofi_stir(struct nxr_ofi_rail *rail);

/* ---- sleep.c --------------------------------------------------------------------------------- */

int nxr_ofi_sleep_open(void);
void nxr_ofi_sleep_close(void);

/* Find the descriptor of a rail's queue and sleep on it, too. NIXL_E_UNSUPPORTED: none. */
int nxr_ofi_watch_rail(struct nxr_ofi_rail *rail);
void nxr_ofi_unwatch_rail(struct nxr_ofi_rail *rail);

/* If the timer has expired, silence it until it is set again. */
void nxr_ofi_hush_timer(void);
int nxr_ofi_event_fd(void);
int nxr_ofi_arm(void);

/* ---- strangers.c ----------------------------------------------------------------------------- */

/* At most once a second: end the connections of strangers who say nothing. */
void nxr_ofi_strangers_look(void);

/* ---- peer.c ---------------------------------------------------------------------------------- */

int nxr_ofi_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p);
void nxr_ofi_ep_close(struct nxr_net_ep *ep, bool is_orderly);

/* Finish an endpoint that was closed in order, when all is sent or its time is over. */
void nxr_ofi_ep_finish_close(struct nxr_net_ep *ep);
struct nxr_net_ep *nxr_ofi_peer_find(uint64_t id);
struct nxr_net_ep *nxr_ofi_peer_make(const struct nxr_ofi_address *address);
void nxr_ofi_peers_free(void);

/* Forget those that are aside too many. Not while peers are visited. */
void nxr_ofi_peers_shed(void);

/* The results of the probes, path by path. */
void nxr_ofi_peer_text(const struct nxr_net_ep *ep, char *line, size_t line_nbytes);

/* As ep_reach, ep_state and ep_runs of a network. */
int nxr_ofi_ep_reach(struct nxr_net_ep *ep);
bool nxr_ofi_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes);
bool nxr_ofi_ep_runs(struct nxr_net_ep *ep, int64_t within_ns);

/* The peer cannot be reached: end its operations; the next progress() reports it to the core. */
void nxr_ofi_peer_fail(struct nxr_net_ep *ep, const char *why);
int nxr_ofi_tell_failures(void);

/* Insert the names of all peers into a rail that was reopened. */
void nxr_ofi_peers_insert(struct nxr_ofi_rail *rail);

/* Call `visit` for each peer. */
void nxr_ofi_peers_each(void (*visit)(struct nxr_net_ep *ep, unsigned rail), unsigned rail);

/* ---- aside.c --------------------------------------------------------------------------------- */

/* The core does not have the peer (any more); or it has it from now on. */
void nxr_ofi_aside_add(struct nxr_net_ep *ep);
void nxr_ofi_aside_remove(struct nxr_net_ep *ep);

/* A peer that the core does not have has spoken. */
void nxr_ofi_aside_heard(struct nxr_net_ep *ep);

/* libfabric has released something of a peer, which may be at rest now. */
void nxr_ofi_aside_rest(struct nxr_net_ep *ep);

/* If there are too many: the oldest that is at rest; else NULL. */
struct nxr_net_ep *nxr_ofi_aside_surplus(void);

/* ---- message.c, outbox.c --------------------------------------------------------------------- */

int nxr_ofi_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                 size_t bulk_nbytes, struct nxr_net_op *op);

/* A frame arrived. */
void nxr_ofi_take(struct nxr_ofi_rail *rail, const void *bytes, size_t nbytes);

/* Send a frame without content; false: no room now. */
bool nxr_ofi_send_control(struct nxr_net_ep *ep, unsigned path, enum nxr_ofi_frame_type type,
                          uint64_t argument);

/* Pass to libfabric what waits in the outbox; true: something moved. */
bool nxr_ofi_post_messages(struct nxr_net_ep *ep);
void nxr_ofi_send_again(struct nxr_net_ep *ep);
bool nxr_ofi_send_acks(void);

#endif
