/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVIDIA's driver library, for machines that have none: libcuda.so.1, built by `make
 * check` alone and never installed. A test puts its folder into LD_LIBRARY_PATH, and all code of
 * the library that is written for CUDA runs: which calls it makes, in which order, with which
 * contexts, what it does when they fail, and who may still have memory open when its owner frees
 * it.
 *
 * It proves nothing about speed, and nothing about what NVIDIA's driver really does: it does what
 * cuda.h and the driver's manual say, as far as the library asks for it. test/gpu is for the rest.
 *
 * "Device memory" is a memfd. The addresses that are given out are mapped PROT_NONE, and the bytes
 * lie in a second mapping that only this library knows: a load or store of the CPU to a device
 * address ends the process, as it should. Work on streams is done later, by a thread for each. A
 * caller that does what the driver leaves undefined is told so on standard error, and abort()
 * follows.
 *
 * What tests may set:
 *   FAKECUDA_DEVICES   how many devices there are (2); 0: none, and cuInit() says so
 *   FAKECUDA_VERSION   of the driver (13000): younger functions are not there
 *   FAKECUDA_STUB      1: the toolkit's stub, which has no function
 *   FAKECUDA_DELAY_US  each piece of work on a stream takes so much longer (0)
 *   FAKECUDA_P2P       0: no device reaches another one's memory (1)
 *   FAKECUDA_MIB       memory of each device and process (1024)
 *   FAKECUDA_STREAM_OPS  0: streams cannot write and wait for words (1)
 *   FAKECUDA_UUID      of device 0, as text: "mesa22.3.6" is Mesa's CPU renderer
 *   FAKECUDA_DYING_MS  how long memory that is freed while a process has it open waits for that
 *                      process to die, before it is misuse (60000)
 *   FAKECUDA_FAIL      "cuMemCreate=801,cuInit=999": these functions fail so
 *   CUDA_VISIBLE_DEVICES  as the driver reads it, numbers only
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "test/cuda/abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define FAKE_API __attribute__((visibility("default")))

#define FAKE_MAX_DEVICES 8
#define FAKE_HEAD_NBYTES 4096 /* before the bytes of shareable memory */
#define FAKE_GRANULARITY ((size_t)2 << 20)
#define FAKE_IMPORTERS   64

/* ---- state of the whole library: one lock for all, one condition for all that changes ----- */

struct fake_context {
    int device;
    int n_retained;
    bool peers[FAKE_MAX_DEVICES]; /* whose memory it was allowed to reach */
    struct fake_stream *legacy, *per_thread;
};

struct fake_settings {
    int n_devices; /* that exist */
    int version;
    long delay_us;
    int dying_ms;
    bool is_stub;
    bool has_p2p;
    bool has_stream_ops;
    size_t nbytes;
    const char *fail;
    const char *uuid;
    int visible[FAKE_MAX_DEVICES]; /* by ordinal: which of those that exist */
    int n_visible;
};

extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;
extern struct fake_settings fake_settings;
extern struct fake_context fake_contexts[FAKE_MAX_DEVICES]; /* primary ones, by ordinal */
extern size_t fake_used[FAKE_MAX_DEVICES];                  /* bytes allocated here */
extern __thread bool fake_is_host_func;

void fake_read_settings(void);

/* Of every function: may it be called now, and should it fail? */
int fake_enter(const char *function);
#define ENTER()                                                                                    \
    do {                                                                                           \
        int entered_ = fake_enter(__func__);                                                       \
                                                                                                   \
        if (entered_ != CU_OK) {                                                                   \
            return entered_;                                                                       \
        }                                                                                          \
    } while (0)

/* The caller did what must not be done: say it and abort. */
void fake_misuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

struct fake_context *fake_current(void); /* of this thread, or NULL */
bool fake_is_ordinal(int device);
int fake_physical(int ordinal);
int fake_ordinal(int physical); /* -1: not visible here */

/*
 * ---- bytes that processes can share: backing.c
 * ---------------------------------------------------
 */

/* The first page of a backing's memfd, the same for all processes that have it. */
struct fake_head {
    uint64_t magic;
    uint64_t serial; /* of all backings of all processes: pid and a number */
    uint64_t nbytes;
    int device; /* physical */
    int handle_types;
    bool is_rdma; /* asked for; adapters reach all other memory anyway */
    _Atomic int is_freed;
    _Atomic int importers[FAKE_IMPORTERS]; /* pids, one for each open import */
};

struct fake_backing {
    struct fake_head *head;
    char *bytes;
    size_t nbytes;
    int fd;
    int n_refs;
    bool is_import;
};

/* NULL: no memory. The bytes are filled with what no test should mistake for zeros. */
struct fake_backing *fake_backing_new(size_t nbytes, int device, int handle_types);

/* A descriptor of another process's, which stays the caller's; NULL: it is no backing. */
struct fake_backing *fake_backing_of_fd(int fd);
void fake_backing_ref(struct fake_backing *backing);
void fake_backing_unref(struct fake_backing *backing);

/* What stands in a legacy or fabric handle: whose descriptor, of which backing. */
void fake_backing_name(const struct fake_backing *backing, struct cu_ipc_handle *handle_p);
struct fake_backing *fake_backing_of_name(const struct cu_ipc_handle *handle);

/* Count this process in and out. The owner of what must not be freed while it is open asks. */
bool fake_backing_import(struct fake_backing *backing);
void fake_backing_unimport(struct fake_backing *backing);
void fake_backing_check_closed(const struct fake_backing *backing, const char *function);

/* ---- addresses: range.c ---------------------------------------------------------------------- */

enum fake_kind {
    FAKE_MALLOC,
    FAKE_IPC, /* a peer's, opened by a legacy handle */
    FAKE_VMM,
    FAKE_POOLED,
    FAKE_POOL_IPC,
    FAKE_MANAGED,
    FAKE_EXTERNAL,
    FAKE_PINNED,     /* host memory of the driver's */
    FAKE_REGISTERED, /* host memory of the caller's */
};

struct fake_range {
    uintptr_t addr;
    size_t nbytes;
    char *bytes; /* where addr's bytes really are */
    enum fake_kind kind;
    int device; /* physical */
    uint64_t id;
    unsigned reachers; /* bits of ordinals that may reach it */
    struct fake_backing *backing;
    struct fake_context *context;
    struct fake_pool *pool;
    int n_uses; /* by work that was queued and has not ended */
    struct fake_range *next;
};

/* Addresses that nothing can be read from; 0: no more. To be given back for the same size. */
uintptr_t fake_reserve(size_t nbytes);
void fake_unreserve(uintptr_t addr, size_t nbytes);
bool fake_is_reserved(uintptr_t addr, size_t nbytes);

/* All of these: under the lock. */
struct fake_range *fake_range_add(uintptr_t addr, size_t nbytes, char *bytes, enum fake_kind kind,
                                  struct fake_backing *backing);
struct fake_range *fake_range_at(uintptr_t addr); /* that addr lies in, or NULL */
bool fake_is_device_address(uintptr_t addr);      /* of memory that is, was or may be there */
void fake_range_wait(struct fake_range *range);   /* until nothing queued uses it */
void fake_range_remove(struct fake_range *range);

/* ---- work: stream.c, event.c, copy.c --------------------------------------------------------- */

struct fake_event;

enum fake_work_kind {
    FAKE_COPY,
    FAKE_FILL,
    FAKE_CALL,
    FAKE_WRITE_WORD,
    FAKE_WAIT_WORD,
    FAKE_RECORD,
    FAKE_WAIT_EVENT,
    FAKE_FREE,
    FAKE_KERNEL,
};

#define FAKE_WORK_RANGES 66

struct fake_work {
    enum fake_work_kind kind;
    struct fake_range *ranges[FAKE_WORK_RANGES]; /* used by it; may be NULL */
    char *dst;
    const char *src;
    size_t nbytes;
    uint64_t value;
    unsigned flags; /* of a wait; a word of 4 bytes has nbytes 4 */
    void (*function)(void *);
    void *data;
    struct fake_event *event;
    struct fake_work *next;
};

struct fake_stream {
    struct fake_context *context;
    struct fake_work *first, **last_p;
    bool is_working;
    bool is_destroyed;
    pthread_t thread;
    pthread_cond_t has_work; /* or is_destroyed; only its thread waits */
    struct fake_stream *next;
};

/* The stream that a caller means; NULL: it is none, or no context is current. Under the lock. */
struct fake_stream *fake_stream_find(struct fake_stream *stream);
int fake_stream_add(struct fake_stream *stream, const struct fake_work *work); /* under the lock */

/* Where the bytes of an address are, for a stream's device; under the lock. */
int fake_stream_place(struct fake_stream *stream, uintptr_t addr, size_t nbytes,
                      const char *function, char **bytes_p, struct fake_range **range_p);
void fake_stream_drain(struct fake_stream *stream);    /* under the lock */
void fake_context_drain(struct fake_context *context); /* under the lock */

/* A kernel, when its turn comes: without the lock. */
void fake_kernel_run(const struct fake_work *work);

/* Event work, when its turn comes: without the lock. */
void fake_event_done(struct fake_event *event, uint64_t number);
void fake_event_await(struct fake_event *event, uint64_t number);

#endif
