/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network interface: what the core asks of a library that moves bytes between hosts.
 *
 * A network is a loadable module, transports/NAME/, that exports one constant table,
 * nxr_network_NAME. The protocol between ranks (puts, gets, notifications, words, keys, deaths) is
 * implemented once, by the core (src/net/); a module only moves messages in order, moves bulk, and
 * reports what arrives. It includes this header, the public ones, other headers of transports/ and
 * src/util, nothing else of nixlrun, and calls the core through the functions that were passed to
 * open().
 *
 * Common rules: one thread at a time is inside a module (the core's lock), except that reach() may
 * be called by any thread at any time after open(). The core's functions are called from progress()
 * and close() only, except log(), which may be called from everywhere. Functions return NIXL_OK,
 * NIXL_INPROGRESS or NIXL_E_*; they never block, exit, fork, install a signal handler or write to
 * stdout; every descriptor is CLOEXEC if the library allows it. Nothing is started before open(),
 * and nothing but probe() and open() is called after close(), which ends keys and registrations,
 * too. From within the core's functions, and so from within progress(), the core calls ep_open(),
 * ep_reach(), send(), write() and read(), but never progress(), ep_close() or close().
 *
 * Builds with --enable-debug assert what each side promises to the other.
 */
#ifndef NXR_NETWORK_H
#define NXR_NETWORK_H

#include "nixlrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_NETWORK_ABI        18
#define NXR_NET_ADDRESS_NBYTES 768 /* the longest address of a rank in one network */
#define NXR_NET_KEY_NBYTES     512 /* the longest key of registered memory */
#define NXR_NET_HEADER_NBYTES  256 /* the longest message in front of bulk; see send() */

/* The module's own: its end of the path to a peer, registered memory, a peer's key. */
struct nxr_net_ep;
struct nxr_net_mem;
struct nxr_net_key;

/*
 * What the owner of a region adds to its key for a peer on another host. Fixed layout, checked on
 * arrival; all zeros between ranks of one host.
 */
struct nxr_remote_key {
    char network[8]; /* that reads and writes the region with `bytes`; "": none does */
    uint32_t
        takes_bulk;  /* 1: a processor can place bulk, in host memory or memory mapped like it */
    uint32_t nbytes; /* of the module's key */
    unsigned char bytes[NXR_NET_KEY_NBYTES];
};

/* ---- what the core offers -------------------------------------------------------------------- */

/*
 * Something that the module has accepted and will end later, exactly once, even if the endpoint
 * fails or is closed. The core owns it and keeps it valid until ended().
 */
struct nxr_net_op {
    void *scratch[4];               /* the module's, while it has the operation */
    enum nixl_mem_kind memory_kind; /* of the local bytes of a write or read */

    /*
     * The GPU that holds them, by its PCI address, such as 0000:3b:00.0; valid for as long as the
     * call takes. "" or NULL: host memory, or not known.
     */
    const char *pci;
};

/* Where is counted what one rail carries to and from one peer; transports/rail.h adds to it. */
struct nxr_stats_named;
struct nxr_net_rail {
    struct nxr_stats_named *sent, *received; /* NULL: nowhere */
};

enum nxr_net_log { NXR_NET_ERROR, NXR_NET_WARN, NXR_NET_INFO, NXR_NET_DEBUG };

struct nxr_net_core {
    int rank;
    int size;

    /*
     * CLOCK_MONOTONIC when progress() was called, so that a round reads the clock only once.
     * Outside of progress() it may be stale by any amount.
     */
    const int64_t *now_ns;

    /*
     * A whole message arrived. The bytes stay valid until the function returns. They may lie at any
     * address; at a multiple of 8 they need not be copied.
     */
    void (*received)(const void *bytes, size_t nbytes);

    /*
     * A message with bulk behind it arrived (its header before every message that was sent later).
     * incoming() returns where to place the nbytes; the address stays valid until landed(), or
     * until redirect() names another. NULL: nowhere, drop them and do not call landed(). A module
     * that places bulk piece by piece reports each piece by landing(): nothing else may be heard
     * for long of a sender behind a slow link.
     */
    void *(*incoming)(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p);
    void (*landing)(void *cookie, size_t nbytes);
    void (*landed)(void *cookie, int status);

    /* An accepted operation has ended: NIXL_OK, NIXL_E_CANCELED, NIXL_E_TRANSPORT. */
    void (*ended)(struct nxr_net_op *op, int status);

    /*
     * The peer behind an endpoint cannot be reached any more, or was never reached and will not be.
     * Its operations end as failed; the core closes the endpoint later. `why` says why in words,
     * with the library's own text.
     */
    void (*ep_failed)(void *peer, struct nxr_net_ep *ep, const char *why);

    void (*log)(enum nxr_net_log level, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

    /*
     * Begin and end counting for a rail, named as users know it, and the peer of an endpoint, or
     * NULL for one that is not known. May be called outside of progress(). rail_open() is NULL:
     * nothing is counted. `rail_p` is to be closed before its endpoint is.
     */
    void (*rail_open)(const char *network, void *peer, const char *name,
                      struct nxr_net_rail *rail_p);
    void (*rail_close)(struct nxr_net_rail *rail);

    /* The user's NIXLRUN_* that concern this network; "" if not set, never NULL. */
    const char *devices;  /* NIXLRUN_NET_DEVICES: names, comma separated; "" for all */
    const char *provider; /* NIXLRUN_OFI_PROVIDER */
    const char *announce; /* NIXLRUN_ANNOUNCE, and NIXLRUN_TCP_PORTS, see util/announce.h: */
    const char *ports;    /* ... of networks whose address is of IP and their own to choose */
    bool prefers_rma;     /* NIXLRUN_NET_METHOD=rma: reads and writes where messages would do */
    bool wants_devices;   /* NIXLRUN_NET_GPU is not "never": query device_kinds */
    bool wants_copied;    /* NIXLRUN_NET_GPU=always: ... and copied_kinds */
};

/* ---- what the module is ---------------------------------------------------------------------- */

/* Valid after open(). Times were measured on such hardware, for comparing routes. */
struct nxr_net_attr {
    size_t message_nbytes; /* the longest message that send() takes without bulk, >= 4608 */

    /*
     * How bulk moves: behind a message (the target's processor places it), or by write() and
     * read(). At least one; if both, is_rma_better says which one the core uses.
     */
    bool has_bulk; /* send() takes bulk */
    bool has_rma;  /* write() and read() */
    bool is_rma_better;

    /*
     * A message that is sent after write() was called arrives after the write's bytes are visible.
     * Otherwise the core waits for the end of the write before it sends anything that must not
     * overtake it.
     */
    bool orders_writes;

    size_t
        put_message_nbytes; /* puts up to this go inside a message, measured; <= message_nbytes */
    size_t get_message_nbytes; /* gets up to this are answered inside a message; 0: by read() */
    size_t list_get_nbytes;    /* ... of a list's gets, many in one message; 0: as others */

    /*
     * Device memory that mem_register(), write() and read() take, as bits by enum nixl_mem_kind,
     * queried from the library at run time. An adapter reads and writes device_kinds by itself;
     * memory of copied_kinds is copied by the library on the way, as the core could do. No other
     * device memory is passed to the module, and none at all as messages or bulk.
     */
    unsigned device_kinds;
    unsigned copied_kinds;

    /*
     * The module treats everything that the processor reads and writes as host memory,
     * whatever mapped it: no adapter has to pin it.
     */
    bool takes_mappings;

    unsigned latency_ns;     /* a small message, one way */
    unsigned bandwidth_mbps; /* MB/s of a large transfer, all rails */
    unsigned n_rails;
    bool has_fixed_rail; /* the first rail carries all messages: if it is cut, the peer is lost */
    char library[64];    /* library and version, and where it was loaded from if known */
    char devices[160];   /* what it uses, in words, such as "tcp on eth0, eth1" */
};

struct nxr_network {
    uint32_t abi;     /* NXR_NETWORK_ABI */
    const char *name; /* as NIXLRUN_TRANSPORTS takes it */

    /*
     * Can it be used on this machine? Cheap, starts nothing. NIXL_OK, or NIXL_E_UNSUPPORTED and
     * one line in `why` that also says what is missing.
     */
    int (*probe)(char *why, size_t why_nbytes);

    /*
     * Start; `core` stays valid until close(). NIXL_OK, or a failure, one line in `why`, and
     * nothing is left behind. close() ends whatever has not ended, including endpoints. The network
     * may be opened again afterwards.
     */
    int (*open)(const struct nxr_net_core *core, char *why, size_t why_nbytes);
    void (*close)(void);
    const struct nxr_net_attr *(*attr)(void);

    /* How others reach this process: bytes for its card, at most NXR_NET_ADDRESS_NBYTES. */
    int (*address)(void *bytes, size_t *nbytes_p);

    /*
     * Could that address be reached from here, and over how many rails (at least 1, and the same
     * number when the other side calls this)? Pure and cheap. The bytes come from another process
     * and may be malformed. NIXL_OK, or NIXL_E_UNSUPPORTED and one line in `why`.
     */
    int (*reach)(const void *address, size_t nbytes, unsigned *n_rails_p, char *why,
                 size_t why_nbytes);

    /*
     * Make an endpoint for a peer; nothing is sent before ep_reach(). `peer` is passed back in
     * ep_failed(). NIXL_OK or a failure.
     */
    int (*ep_open)(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p);

    /*
     * Try to reach the peer. The first call starts the attempt, which continues as long as calls
     * keep coming now and then. NIXL_OK: the peer has answered on this endpoint, and that stays
     * so unless the endpoint fails. Only then does the core call send(), write() and read():
     * until then it may switch to another network. NIXL_E_AGAIN: not yet. NIXL_E_TRANSPORT:
     * it will not be reached. A peer that was given up for another network may still send by this
     * one. May be called outside of progress().
     */
    int (*ep_reach)(struct nxr_net_ep *ep);

    /*
     * Close the endpoint. is_orderly: what was accepted is still sent, for at most some 100 ms. Not
     * is_orderly: close at once, the peer is dead. Operations that have not ended are ended
     * (NIXL_E_CANCELED) before ep_close() returns or in the next progress(). ep_failed() is not
     * called any more.
     */
    void (*ep_close)(struct nxr_net_ep *ep, bool is_orderly);

    /*
     * The peer is silent: put what is known of the connection to it into `line`, in one line for
     * the user, or "". False: no connection to it was established yet; the line says what was
     * tried, and with what result. May be called outside of progress().
     */
    bool (*ep_state)(struct nxr_net_ep *ep, char *line, size_t line_nbytes);

    /*
     * The peer does not answer: its answer, or what it should answer, may be queued behind much
     * data, or be delayed by lost packets. Has its process shown within the last within_ns
     * nanoseconds that it runs, by anything the core was not told of? NULL: the module cannot tell.
     * May be called outside of progress().
     */
    bool (*ep_runs)(struct nxr_net_ep *ep, int64_t within_ns);

    /*
     * Send a message, then its bulk if bulk_nbytes > 0 (header at most NXR_NET_HEADER_NBYTES then).
     * Messages to one peer arrive in order, once. NIXL_OK: bytes and bulk may be reused, `op` was
     * not taken. NIXL_INPROGRESS: ended(op) follows, both must stay until then. NIXL_E_AGAIN: the
     * queue is full, nothing happened. NIXL_E_TRANSPORT: the peer cannot be reached.
     */
    int (*send)(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                size_t bulk_nbytes, struct nxr_net_op *op);

    /*
     * The bulk of an accepted send() lies at `bulk` from now on, unchanged, and is not read where
     * it lay any more; ended(op) follows as before. May be called outside of progress(). False:
     * that bulk stays where it is. NULL: the module cannot.
     */
    bool (*rebase)(struct nxr_net_ep *ep, const struct nxr_net_op *op, const void *bulk);

    /*
     * Place the rest of bulk that is landing elsewhere. `cookie` and `from` are what incoming()
     * returned for it; byte i goes to to[i] from now on, and nothing more is written at `from`. May
     * be called outside of progress(). NULL: the module cannot, and its bulk is never redirected.
     */
    void (*redirect)(void *cookie, const char *from, char *to);

    /* ---- with has_rma; others return NIXL_E_UNSUPPORTED ---- */

    /*
     * Let peers write and read memory of this process; NIXL_E_UNSUPPORTED if the library does not
     * recognize it as memory of that kind. `access`, of enum nixl_access, is what peers may not do:
     * they will not try to, and where the library can, the adapter refuses it. With both values it
     * is memory for this process's own operations. The key, at most NXR_NET_KEY_NBYTES, is sent to
     * the peers. mem_release() ends it: later accesses by peers fail there and touch nothing here.
     */
    int (*mem_register)(void *addr, size_t nbytes, enum nixl_mem_kind kind, uint32_t access,
                        struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p);
    void (*mem_release)(struct nxr_net_mem *mem);

    /* A key that came from a peer: the bytes may be malformed. */
    int (*key_open)(struct nxr_net_ep *ep, const void *key, size_t nbytes,
                    struct nxr_net_key **key_p);
    void (*key_close)(struct nxr_net_key *key);

    /*
     * Move bytes to or from `offset` of the peer's memory (the range was checked). ended(op,
     * NIXL_OK): a write is visible at the target, a read has filled `dst`. Returns as send(), but
     * NIXL_OK means the same as ended(op, NIXL_OK).
     */
    int (*write)(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, const void *src,
                 size_t nbytes, struct nxr_net_op *op);
    int (*read)(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                size_t nbytes, struct nxr_net_op *op);

    /* ---- driving it ---- */

    /* Poll everything once. Returns how many things moved; 0: nothing. */
    int (*progress)(void);

    /*
     * event_fd(): a descriptor that becomes readable when progress() has work; constant while open.
     * arm(): may the caller sleep on it? NIXL_OK, or NIXL_E_AGAIN: call progress() first.
     */
    int (*event_fd)(void);
    int (*arm)(void);

    /* Describe device or rail number `index`, for --info: NIXL_OK, or NIXL_E_NOT_FOUND. */
    int (*describe)(unsigned index, char *line, size_t line_nbytes);
};

#endif
