/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the TCP network share. There is one state, since the core opens a network once
 * at a time and calls it from one thread at a time.
 *
 * An endpoint is what the core sends to; a connection is what two processes talk over. An endpoint
 * always sends on the first connection to its peer that is confirmed, no matter which side made it;
 * input is read from all. So there is one connection between two processes, or, if both connected
 * at the same moment, two that each carry one direction. Rails, which share bulk with it, come on
 * top: rails.h.
 */
#ifndef NXR_TCP_H
#define NXR_TCP_H

#include "address.h"
#include "frame.h"
#include "transports/network.h"
#include "util/list.h"
#include "util/symbol.h"

#include <net/if.h>
#include <sys/socket.h>

#define NXR_TCP_MAX_OUTS   64  /* what one endpoint may have under way */
#define NXR_TCP_WHY_NBYTES 400 /* why it has failed, in words */
#define NXR_TCP_MAX_HOT    4   /* connections that are polled without asking epoll */

/* How much is read at a time if it is not known what comes. */
#define NXR_TCP_BUFFER_NBYTES ((size_t)64 * 1024)
#define NXR_TCP_FIRST_NBYTES  ((size_t)4 * 1024) /* ... while little comes, or bulk */

struct nxr_tcp_conn;
struct nxr_tcp_rails;

/* A descriptor in the epoll instance. */
struct nxr_tcp_watch {
    void (*ready)(struct nxr_tcp_watch *watch, uint32_t events);
    int fd; /* -1: none */
};

/* Something to be done at a certain time. */
struct nxr_tcp_timer {
    struct nxr_list link; /* nxr_tcp.timers */
    void (*rings)(struct nxr_tcp_timer *timer);
    int64_t at;
};

/* An outgoing message and its bulk. */
struct nxr_tcp_out {
    struct nxr_tcp_frame frame;
    const void *bytes;
    const void *bulk;
    struct nxr_net_op *op;
};

struct nxr_net_ep {
    struct nxr_list link; /* one of nxr_tcp's lists of endpoints */
    void *peer;
    struct nxr_tcp_process *process; /* that it leads to; NULL: it is being closed */
    struct nxr_tcp_conn *conn;       /* to send on; NULL: not yet, or it has failed */
    struct nxr_tcp_conn *trying;     /* the one that is being made */
    struct nxr_tcp_rails *rails;     /* NULL: no bulk was sent yet that could be spread */

    /* Out: a ring, the oldest message at `first`; n_sent bytes of that were sent. */
    struct nxr_tcp_out outs[NXR_TCP_MAX_OUTS];
    unsigned first;
    unsigned n_outs;
    size_t n_sent;

    bool has_failed;
    char why[NXR_TCP_WHY_NBYTES]; /* ... */

    /* The core has closed it: what is left may go until close_at. */
    bool is_closing;
    bool is_shut; /* all was sent, and nothing follows */
    int64_t close_at;
    struct nxr_tcp_timer close_timer;

    /* Connecting: connect.c. */
    struct nxr_tcp_timer retry_timer;
    bool is_waiting; /* for retry_timer */
    unsigned n_paths;
    unsigned next_path;
    unsigned n_refused; /* since the first path was last tried */
    uint8_t paths[NXR_TCP_MAX_PATHS];
    struct {
        const char *why;        /* of the last failed attempt; NULL: none has failed yet */
        char from[IF_NAMESIZE]; /* the interface that it used; "": unknown */
    } tries[NXR_TCP_MAX_PATHS]; /* in the order of `paths` */
    struct nxr_tcp_address address;
};

/* What this process keeps for each other one: processes.c. */
struct nxr_tcp_process {
    struct nxr_list link;  /* nxr_tcp.processes */
    uint64_t answer;       /* of its address */
    struct nxr_net_ep *ep; /* NULL: none, or it was closed */
    struct nxr_list conns; /* confirmed ones */
    struct nxr_list rails; /* ... which carry pieces only */
    uint64_t last_number;  /* of its plans of pieces */
};

#define NXR_TCP_N_BUCKETS 256

struct nxr_tcp {
    const struct nxr_net_core *core; /* NULL: not open */
    int epoll_fd;
    int64_t timer_at; /* when the timer is set to expire; 0: it is off */
    bool is_progressing;
    struct nxr_tcp_address address;    /* of the paths on which this process listens */
    struct nxr_announced announced;    /* the path that others are told first */
    char names[NXR_TCP_MAX_PATHS][16]; /* of the interfaces of the paths */
    struct nxr_net_attr attr;
    struct nxr_list processes[NXR_TCP_N_BUCKETS]; /* struct nxr_tcp_process */
    unsigned char *buffer;                        /* NXR_TCP_BUFFER_NBYTES, and a message */

    struct nxr_list eps, failed, closing; /* in use; failed and not yet reported; being closed */
    struct nxr_list conns, dead;          /* all connections; those to be freed */
    struct nxr_list timers;
    struct nxr_list ended; /* operations that ended outside of progress() */
    struct nxr_tcp_conn *hot[NXR_TCP_MAX_HOT];
    unsigned n_hot;
    unsigned n_strangers; /* connections of others that have not identified themselves */
    unsigned n_blocked;   /* connections that wait for room */
    unsigned n_rounds;
    unsigned n_found; /* events of connections, counted */
};

extern NXR_HIDDEN struct nxr_tcp nxr_tcp;

/* ---- interfaces.c ---------------------------------------------------------------------------- */

/* The own addresses, without ports. NIXL_OK, or a failure and one line in `why`. */
int nxr_tcp_find_paths(char *why, size_t why_nbytes);

socklen_t nxr_tcp_sockaddr(const struct nxr_tcp_path *path, struct sockaddr_storage *name);
/* Which path of this process, or of the other one, an end of a connection is at; -1: of none. */
int nxr_tcp_own_path(int fd);
int nxr_tcp_other_path(int fd, const struct nxr_tcp_address *theirs);

/* The interface that the kernel has chosen for a connection; "": none yet, or unknown. */
void nxr_tcp_name_of_source(int fd, char *name, size_t name_nbytes);
void nxr_tcp_path_text(const struct nxr_tcp_path *path, char *text, size_t text_nbytes);

/* The ends of a connection: "10.0.0.1 port 4711 to 10.0.0.2 port 4712". */
void nxr_tcp_ends_text(int fd, char *text, size_t text_nbytes);

/* ---- events.c: what is waited for ------------------------------------------------------------ */

int nxr_tcp_events_open(void);
void nxr_tcp_events_close(void);
int nxr_tcp_watch(struct nxr_tcp_watch *watch, uint32_t events);
void nxr_tcp_watch_change(struct nxr_tcp_watch *watch, uint32_t events);
void nxr_tcp_unwatch(struct nxr_tcp_watch *watch);

/* Handle what is ready, waiting at most that long. Returns how many events. */
int nxr_tcp_handle_events(int timeout_ms);

void nxr_tcp_timer_set(struct nxr_tcp_timer *timer, int64_t after_ns);
void nxr_tcp_timer_end(struct nxr_tcp_timer *timer);

/* Run the timers that have expired. Returns how many. */
int nxr_tcp_ring(void);

/* ---- listen.c: connections of others --------------------------------------------------------- */

/* Listen on all own paths, at ports of that range, or any, and fill in the ports. */
int nxr_tcp_listen(struct nxr_port_range range, char *why, size_t why_nbytes);
void nxr_tcp_listen_end(void);

/* Log a stranger's connection, rate-limited. */
void nxr_tcp_tell_stranger(int fd, const char *what);

/* Another process has made a rail: it replaces an earlier one between the same addresses. */
void nxr_tcp_rail_accepted(struct nxr_tcp_conn *conn);

/* ---- processes.c ----------------------------------------------------------------------------- */

void nxr_tcp_processes_init(void);

/* The process with that `answer`. NULL: none is known. */
struct nxr_tcp_process *nxr_tcp_process_find(uint64_t answer);

/* The same, made if need be. NULL: no memory. */
struct nxr_tcp_process *nxr_tcp_process_get(uint64_t answer);

/* Forget it (NULL: nothing) if it has neither an endpoint nor a connection. */
void nxr_tcp_process_let_go(struct nxr_tcp_process *process);

/* ---- endpoint.c ------------------------------------------------------------------------------ */

int nxr_tcp_ep_open(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p);
void nxr_tcp_ep_close(struct nxr_net_ep *ep, bool is_orderly);

/* The endpoint sends on that connection from now on. */
void nxr_tcp_ep_adopt(struct nxr_net_ep *ep, struct nxr_tcp_conn *conn);

/* The endpoint has no connection and gets none: progress() reports it. */
void nxr_tcp_ep_fail(struct nxr_net_ep *ep, const char *why);

/* As ep_reach and ep_state of a network. */
int nxr_tcp_ep_reach(struct nxr_net_ep *ep);
bool nxr_tcp_ep_state(struct nxr_net_ep *ep, char *line, size_t line_nbytes);

/*
 * One step of all that are being closed, and report those that failed. Returns how many things
 * moved.
 */
int nxr_tcp_endpoints_progress(void);

/* Wait for those that are being closed, within their deadlines; then end all. */
void nxr_tcp_endpoints_end(void);

/* ---- connect.c ------------------------------------------------------------------------------- */

/*
 * Start, or continue with the next path after one that has failed. `why` must be static: it is
 * kept. is_refusal: it failed for good, by a refusal.
 */
void nxr_tcp_connect(struct nxr_net_ep *ep);
void nxr_tcp_connect_failed(struct nxr_net_ep *ep, const char *why, bool is_refusal);
void nxr_tcp_connect_end(struct nxr_net_ep *ep);

/* The result for each path: "10.0.0.2 port 4711 by eth0: no answer; ...". */
void nxr_tcp_connect_text(const struct nxr_net_ep *ep, char *line, size_t line_nbytes);

/* ---- outbox.c -------------------------------------------------------------------------------- */

int nxr_tcp_send(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                 size_t bulk_nbytes, struct nxr_net_op *op);

/* As rebase() of struct nxr_network. */
bool nxr_tcp_rebase(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bulk);

/* Send what the kernel takes of what waits. Returns how many messages were sent. */
int nxr_tcp_flush(struct nxr_net_ep *ep);

/* End all that waits. */
void nxr_tcp_outs_end(struct nxr_net_ep *ep, int status);

/* ---- ops.c ----------------------------------------------------------------------------------- */

/* End an operation: the core is told now, or in the next progress(). */
void nxr_tcp_op_end(struct nxr_net_op *op, int status);

/* Report operations that ended outside of progress(). Returns how many. */
int nxr_tcp_tell_ended(void);

#endif
