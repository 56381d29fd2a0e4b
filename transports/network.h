/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network interface: what the core asks of a library that moves bytes between hosts.
 *
 * A network is a loadable module, transports/NAME/, that exports one constant table,
 * nxr_network_NAME. The protocol between ranks (puts, gets, notifications, words, keys, deaths) is
 * the core's, src/net/, and is written once; a module only moves messages in order, moves bulk, and
 * tells when something arrives. It includes this header and the public ones, nothing else of
 * nixlrun, and calls the core through the functions that open() was given.
 *
 * What holds for all: one thread at a time is inside a module (the core's lock). The core's
 * functions are called from progress() and close() only. Functions return NIXL_OK, NIXL_INPROGRESS
 * or NIXL_ERR_*; they never block, exit, fork, install a signal handler or write to stdout; every
 * descriptor is CLOEXEC where the library allows it. Nothing is started before open().
 */
#ifndef NXR_NETWORK_H
#define NXR_NETWORK_H

#include "nixlrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_NETWORK_ABI        10
#define NXR_NET_ADDRESS_NBYTES 768 /* the longest address of a rank in one network */
#define NXR_NET_KEY_NBYTES     512 /* the longest key of registered memory */
#define NXR_NET_HEADER_NBYTES  256 /* the longest message in front of bulk; see bulk below */

/* The module's own: one end of the way to a peer, registered memory, a peer's key. */
struct nxr_net_ep;
struct nxr_net_mem;
struct nxr_net_key;

/* ---- what the core offers -------------------------------------------------------------------- */

/*
 * Something that the module has accepted and will end later, exactly once, also when the endpoint
 * fails or is closed. The core's: it lies there until the end is told.
 */
struct nxr_net_op {
    void *scratch[4];               /* the module's, while it has the operation */
    enum nixl_mem_kind memory_kind; /* of the local bytes of a write or read */

    /*
     * The GPU that has them, by its PCI address as 0000:3b:00.0, for as long as the call takes;
     * "" or NULL: host memory, or not known.
     */
    const char *pci;
};

enum nxr_net_log { NXR_NET_ERROR, NXR_NET_WARN, NXR_NET_INFO, NXR_NET_DEBUG };

struct nxr_net_core {
    int rank;
    int size;

    /*
     * CLOCK_MONOTONIC when progress() was called: one look at the clock for all in a round. Behind
     * by any time elsewhere.
     */
    const int64_t *now_ns;

    /*
     * A whole message came. The bytes may be used until the function returns, and may lie anywhere;
     * at a multiple of 8 they need not be copied.
     */
    void (*received)(const void *bytes, size_t nbytes);

    /*
     * A message with bulk behind it came (its header before every message that was sent later).
     * Where shall the nbytes go? The answer stays valid until landed(). NULL: nowhere, drop them
     * and do not call landed(). Who places it piece by piece tells of each by landing(): of a
     * sender behind a slow link nothing else is heard for long.
     */
    void *(*incoming)(const void *header, size_t header_nbytes, size_t nbytes, void **cookie_p);
    void (*landing)(void *cookie, size_t nbytes);
    void (*landed)(void *cookie, int status);

    /* An accepted operation has ended: NIXL_OK, NIXL_ERR_CANCELED, NIXL_ERR_TRANSPORT. */
    void (*ended)(struct nxr_net_op *op, int status);

    /*
     * The peer behind an endpoint cannot be reached any more, or it was never reached and will not
     * be. Its operations end as failed; the core closes the endpoint later. `why` in words, with
     * the library's own text.
     */
    void (*ep_failed)(void *peer, struct nxr_net_ep *ep, const char *why);

    void (*log)(enum nxr_net_log level, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

    /* NIXLRUN_* of the user that concern this network, or "" (never NULL). */
    const char *devices;  /* NIXLRUN_NET_DEVICES: names, comma separated; "" for all */
    const char *provider; /* NIXLRUN_OFI_PROVIDER */
    bool prefers_rma;     /* NIXLRUN_NET_METHOD=rma: reads and writes where messages would do */
    bool wants_devices;   /* NIXLRUN_NET_GPU is not "never": ask for device_kinds */
    bool wants_copied;    /* NIXLRUN_NET_GPU=always: ... and for copied_kinds */
};

/* ---- what the module is ---------------------------------------------------------------------- */

/* Known after open(). Times are what was measured on such hardware, for comparing routes. */
struct nxr_net_attr {
    size_t message_nbytes; /* the longest message that send() takes without bulk, >= 4608 */

    /*
     * How bulk moves: behind a message (the target's processor places it), or by write() and
     * read(). At least one; where both, the core takes the one that is_rma_better says.
     */
    bool has_bulk; /* send() takes bulk */
    bool has_rma;  /* write() and read() */
    bool is_rma_better;

    /*
     * A message that is sent after write() was called arrives after its bytes are visible. Else the
     * core waits for the end of the write before it sends what must not overtake it.
     */
    bool orders_writes;

    size_t
        put_message_nbytes; /* puts up to this go inside a message, measured; <= message_nbytes */
    size_t get_message_nbytes; /* gets up to this are answered inside a message; 0: by read() */
    size_t list_get_nbytes;    /* ... and those of a list, many in a message; 0: as others */

    /*
     * Device memory that mem_register(), write() and read() take, as bits by enum nixl_mem_kind:
     * asked of the library at run time. An adapter reads and writes the first kinds by itself; of
     * the second the library makes copies on the way, as the core could. No other device memory
     * comes here, and none at all as messages or bulk.
     */
    unsigned device_kinds;
    unsigned copied_kinds;

    /*
     * Whatever the processor reads and writes is host memory to it, no matter who mapped it: no
     * adapter has to pin it.
     */
    bool takes_mappings;

    unsigned latency_ns;     /* a small message, one way */
    unsigned bandwidth_mbps; /* MB/s of a large transfer, all rails */
    unsigned n_rails;
    char library[64];  /* library and version, and where it was loaded from if known */
    char devices[160]; /* what it uses, in words: "tcp on eth0, eth1" */
};

struct nxr_network {
    uint32_t abi;     /* NXR_NETWORK_ABI */
    const char *name; /* as NIXLRUN_TRANSPORTS takes it */

    /*
     * Can it be used on this machine? Cheap, starts nothing. NIXL_OK, or NIXL_ERR_UNSUPPORTED and
     * one line in `why` that also says what is missing.
     */
    int (*probe)(char *why, size_t why_nbytes);

    /*
     * Start; `core` stays valid until close(). NIXL_OK, or a failure, one line in `why`, and
     * nothing is left behind. close() ends whatever has not ended, endpoints too. After it the
     * network may be opened again.
     */
    int (*open)(const struct nxr_net_core *core, char *why, size_t why_nbytes);
    void (*close)(void);
    const struct nxr_net_attr *(*attr)(void);

    /* How others reach this process: bytes for the card, at most NXR_NET_ADDRESS_NBYTES. */
    int (*address)(void *bytes, size_t *nbytes_p);

    /*
     * Could that address be reached from here, and over how many rails (at least 1, the same when
     * the other side asks)? Pure and cheap. The bytes come from another process and may be
     * anything. NIXL_OK, or NIXL_ERR_UNSUPPORTED and one line in `why`.
     */
    int (*reach)(const void *address, size_t nbytes, unsigned *n_rails_p, char *why,
                 size_t why_nbytes);

    /*
     * Make the way to a peer; nothing is sent before ep_reach(). `peer` comes back in ep_failed().
     * NIXL_OK or a failure.
     */
    int (*ep_open)(const void *address, size_t nbytes, void *peer, struct nxr_net_ep **ep_p);

    /*
     * Try to reach the peer; the first call begins it, and it goes on as long as there are calls
     * now and then. NIXL_OK: the peer has answered here, as it will be for good. Only then the core
     * calls send(), write() and read(): until then it may take another network. NIXL_ERR_AGAIN: not
     * yet. NIXL_ERR_TRANSPORT: it will not be reached. A peer that was given up for another network
     * may still send by this one. May be called outside of progress().
     */
    int (*ep_reach)(struct nxr_net_ep *ep);

    /*
     * End it. is_orderly: what was accepted is still sent, for at most some 100 ms; else at once:
     * the peer is dead. Operations that have not ended are ended (NIXL_ERR_CANCELED) before or in
     * the next progress(). ep_failed() is not called any more.
     */
    void (*ep_close)(struct nxr_net_ep *ep, bool is_orderly);

    /*
     * The peer is silent: what is known of the way to it, in one line for the user, or "". False:
     * no connection to it has come about yet; the line says what was tried, and what came of it.
     * May be called outside of progress().
     */
    bool (*ep_state)(struct nxr_net_ep *ep, char *line, size_t line_nbytes);

    /*
     * The peer does not answer: question or answer may stand behind much data, or packets that were
     * lost. Has its process shown within the last so many nanoseconds that it runs, by something
     * that the core has not heard? NULL: the module has no such way. May be called outside of
     * progress().
     */
    bool (*ep_runs)(struct nxr_net_ep *ep, int64_t within_ns);

    /*
     * Send a message, then its bulk if bulk_nbytes > 0 (header at most NXR_NET_HEADER_NBYTES then).
     * Messages to one peer arrive in order, once. NIXL_OK: bytes and bulk may be reused, `op` was
     * not taken. NIXL_INPROGRESS: ended(op) follows, both must stay until then. NIXL_ERR_AGAIN: the
     * queue is full, nothing happened. NIXL_ERR_TRANSPORT: the peer cannot be reached.
     * May be called from inside of the core's functions.
     */
    int (*send)(struct nxr_net_ep *ep, const void *bytes, size_t nbytes, const void *bulk,
                size_t bulk_nbytes, struct nxr_net_op *op);

    /* ---- with has_rma; others return NIXL_ERR_UNSUPPORTED ---- */

    /*
     * Let peers write and read own memory; NIXL_ERR_UNSUPPORTED where the library turns out not to
     * know it as memory of that kind. The key, at most NXR_NET_KEY_NBYTES, goes to them.
     * mem_release() ends it: later accesses of peers fail there and touch nothing here.
     */
    int (*mem_register)(void *addr, size_t nbytes, enum nixl_mem_kind kind,
                        struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p);
    void (*mem_release)(struct nxr_net_mem *mem);

    /* A key that came from a peer, and may be anything. */
    int (*key_open)(struct nxr_net_ep *ep, const void *key, size_t nbytes,
                    struct nxr_net_key **key_p);
    void (*key_close)(struct nxr_net_key *key);

    /*
     * Move bytes to or from `offset` of the peer's memory (the range was checked). ended(op,
     * NIXL_OK): a write is visible at the target, a read has filled `dst`. Returns as send(), but
     * NIXL_OK means that too.
     */
    int (*write)(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, const void *src,
                 size_t nbytes, struct nxr_net_op *op);
    int (*read)(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                size_t nbytes, struct nxr_net_op *op);

    /* ---- driving it ---- */

    /* Look after everything once. How many things moved; 0: nothing. */
    int (*progress)(void);

    /*
     * A descriptor that becomes readable when progress() has work, constant while open; and: may
     * one sleep on it? NIXL_OK, or NIXL_ERR_AGAIN: call progress() first.
     */
    int (*event_fd)(void);
    int (*arm)(void);

    /* One device or rail after the other, in words, for --info: NIXL_OK, or NIXL_ERR_NOT_FOUND. */
    int (*describe)(unsigned index, char *line, size_t line_nbytes);
};

#endif
