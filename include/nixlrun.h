/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun.h
 * Move memory between the processes of a job, by rank.
 *
 * The contract of libnixlrun. What holds for every call:
 *
 * - A call that can fail returns `int`: NIXL_OK (0), NIXL_INPROGRESS (1) or a negative NIXL_ERR_*.
 *   nixl_last_error() gives the detail of the calling thread's last failure.
 * - Outputs come last, end in `_p`, and are untouched when the call fails.
 * - Timeouts are relative, in nanoseconds. NIXL_FOREVER waits without end. 0 is a test: a wait that
 *   would block returns NIXL_INPROGRESS, a start that would block returns NIXL_ERR_AGAIN and
 *   nothing has happened. A wait whose time is over returns NIXL_ERR_TIMEOUT. Other negative values
 *   are NIXL_ERR_INVALID_ARG.
 * - A call without a timeout argument ends within NIXLRUN_OP_TIMEOUT (60 s unless set); the first
 *   use of a peer's part of a region waits up to NIXLRUN_RESOLVE_TIMEOUT (10 s) for its owner to
 *   publish it.
 * - Structs that the caller fills or receives start with `size_t struct_nbytes`, set by their _INIT
 *   macro, so that they can grow.
 * - Every call is NIXL_ERR_NOT_INIT before nixl_init() and after the last nixl_finalize(), and
 *   NIXL_ERR_FORKED in a child that fork() made.
 * - "Threads: any" means any number of threads at once at NIXL_THREAD_MULTIPLE, the default.
 *
 * Guarantees on order and visibility stand in nixlrun(7).
 */
#ifndef NIXLRUN_H
#define NIXLRUN_H

#include <stddef.h>
#include <stdint.h>
#include <nixlrun_version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NIXL_API                 __attribute__((visibility("default")))
#define NIXL_MUST_CHECK          __attribute__((warn_unused_result))
#define NIXL_PRINTF(_fmt, _args) __attribute__((format(printf, _fmt, _args)))
#define NIXL_NORETURN            __attribute__((noreturn))
#else
#define NIXL_API
#define NIXL_MUST_CHECK
#define NIXL_PRINTF(_fmt, _args)
#define NIXL_NORETURN
#endif

/* ---- status ---------------------------------------------------------------------------------- */

/**
 * Every status: name, value, text. Enum, nixl_strerror() and the manual page come from this list.
 */
/* clang-format off */
#define NIXL_STATUS_LIST(_x)                                                                       \
    _x(OK, 0, "success")                                                                           \
    _x(INPROGRESS, 1, "in progress")                                                               \
    _x(ERR_INVALID_ARG, -1, "invalid argument")                                                    \
    _x(ERR_RANGE, -2, "offset or length is outside of the region")                                 \
    _x(ERR_NOT_INIT, -3, "nixl_init has not been called")                                          \
    _x(ERR_FORKED, -4, "not usable in a forked child")                                             \
    _x(ERR_NAME_IN_USE, -5, "the rank has a region of this name")                                  \
    _x(ERR_NOT_FOUND, -6, "the peer has not published the name")                                   \
    _x(ERR_STALE, -7, "the owner has closed or replaced the region")                               \
    _x(ERR_TRUNCATED, -8, "the buffer is too small")                                               \
    _x(ERR_AGAIN, -9, "would block; nothing has happened")                                         \
    _x(ERR_TIMEOUT, -10, "timed out")                                                              \
    _x(ERR_IN_USE, -11, "still in use")                                                            \
    _x(ERR_UNSUPPORTED, -12, "not supported on this path")                                         \
    _x(ERR_NO_DEVICE, -13, "no such device")                                                       \
    _x(ERR_NO_MEMORY, -14, "out of memory")                                                        \
    _x(ERR_LIMIT, -15, "a limit of the system or the library is reached")                          \
    _x(ERR_PEER_LOST, -16, "the peer has died")                                                    \
    _x(ERR_CANCELED, -17, "canceled")                                                              \
    _x(ERR_TRANSPORT, -18, "the transport failed")                                                 \
    _x(ERR_INTERNAL, -19, "internal error")
/* clang-format on */

enum nixl_status {
#define NIXL_STATUS_ENUM(_name, _value, _text) NIXL_##_name = (_value),
    NIXL_STATUS_LIST(NIXL_STATUS_ENUM)
#undef NIXL_STATUS_ENUM
};

#define NIXL_FOREVER   INT64_MAX /**< a timeout: wait without end */
#define NIXL_ANY_RANK  (-1)      /**< nixl_notify_recv(): from whomever */
#define NIXL_ALL_RANKS (-2)      /**< nixl_flush(): every peer that was put to */
#define NIXL_NOTE_MAX  4096      /**< largest payload of a notification, in bytes */
#define NIXL_NAME_MAX  255       /**< longest name of a region, in bytes without the final zero */

/** Constant English text for any value; never NULL, never to be freed. Threads: any. */
NIXL_API const char *nixl_strerror(int status);

/** The detail of a failure. Text fields are never NULL. */
struct nixl_error {
    size_t struct_nbytes;
    int status;            /**< what the call returned */
    int rank;              /**< the peer, or -1 where none was meant */
    int native_code;       /**< errno or the transport library's own code; 0 for none */
    const char *operation; /**< the public call, as "nixl_put" */
    const char *transport; /**< "shm", "self", …; "" where none was involved */
    const char *text;      /**< one line: what happened and what to do */
};

/**
 * The calling thread's last failure since its start; status NIXL_OK if there was none.
 * The memory is the library's and stays as it is until the thread's next failure.
 * Threads: any; usable before nixl_init() and after nixl_finalize().
 */
NIXL_API const struct nixl_error *nixl_last_error(void);

/* ---- job ------------------------------------------------------------------------------------- */

/** How many threads of the caller use the library. */
enum nixl_thread_level {
    NIXL_THREAD_MULTIPLE = 0, /**< any number at once (default) */
    NIXL_THREAD_SINGLE = 1,   /**< one at a time, serialised by the caller: locks are left out */
};

struct nixl_init_params {
    size_t struct_nbytes;
    enum nixl_thread_level thread_level;
};
#define NIXL_INIT_PARAMS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_init_params), NIXL_THREAD_MULTIPLE                                      \
    }

/**
 * Join the job.
 *
 * Under a launcher that speaks PMIx (nixlrun, mpirun, srun --mpi=pmix, prterun) this finds the
 * other ranks; without one the process is a job of one rank. Counted: each call wants its
 * nixl_finalize(). A later call may raise SINGLE to MULTIPLE. Init after the last finalize works.
 *
 * @param params  NULL for the defaults
 * @return NIXL_OK              the rank is a member
 * @return NIXL_ERR_INVALID_ARG params are damaged, or a NIXLRUN_* variable has a bad value (the
 *                              detail names it and what is allowed)
 * @return NIXL_ERR_TRANSPORT   a launcher's environment is there but its server does not answer
 *                              (the detail names the variable and the PMIx status)
 * @return NIXL_ERR_TIMEOUT     the server or a peer was silent for NIXLRUN_INIT_TIMEOUT
 * @return NIXL_ERR_FORKED      the process is a fork of one that used the library
 * Collective: the first call, over all ranks of the job. Threads: any.
 */
NIXL_API int nixl_init(const struct nixl_init_params *params) NIXL_MUST_CHECK;

/**
 * Leave the job. The last call of the counted ones closes all regions, waits (bounded) until the
 * living ranks have come here too, and frees everything; requests that were not waited for end.
 * @return NIXL_OK, or NIXL_ERR_NOT_INIT
 * Collective: the last call, over the living ranks. Threads: no other call may run in this process.
 */
NIXL_API int nixl_finalize(void);

/** My rank, 0 <= rank < nixl_size(), or NIXL_ERR_NOT_INIT. Threads: any. */
NIXL_API int nixl_rank(void);

/** The number of ranks in the job, or NIXL_ERR_NOT_INIT. Threads: any. */
NIXL_API int nixl_size(void);

/** Where a rank lives, seen from here. */
enum nixl_scope {
    NIXL_SCOPE_SELF = 0,   /**< this process */
    NIXL_SCOPE_LOCAL = 1,  /**< same host, proven: its control memory is mapped */
    NIXL_SCOPE_REMOTE = 2, /**< another host, or no proof */
};

/**
 * The scope of @p rank (enum nixl_scope), or a negative status. The first call for a rank connects
 * to it: it may block up to NIXLRUN_RESOLVE_TIMEOUT. Threads: any.
 */
NIXL_API int nixl_scope(int rank);

/** Host name of @p rank, valid until nixl_finalize(); NULL on failure. Threads: any. */
NIXL_API const char *nixl_host(int rank);

/**
 * End the whole job: says why on stderr, asks the launcher to kill all ranks, and exits.
 * @param exit_code  of the job; 0 is taken as 1
 * @param why        one line for the user, or NULL
 * Does not return. Usable without nixl_init(): then it ends this process only. Threads: any.
 */
NIXL_API void nixl_abort(int exit_code, const char *why) NIXL_NORETURN;

/** Log levels; see NIXLRUN_LOG in nixlrun(7). */
enum nixl_log_level {
    NIXL_LOG_ERROR = 0,
    NIXL_LOG_WARN = 1,
    NIXL_LOG_INFO = 2,
    NIXL_LOG_DEBUG = 3,
    NIXL_LOG_TRACE = 4,
};

/** Receives a log line: level, subsystem ("shm"), and the text without a newline. */
typedef void nixl_log_fn(enum nixl_log_level level, const char *subsystem, const char *text,
                         void *arg);

/**
 * Send log lines to @p fn instead of stderr; NULL goes back to stderr. @p fn is called from any
 * thread, one call at a time, must not call the library, and may be set before nixl_init().
 */
NIXL_API void nixl_log_set_fn(nixl_log_fn *fn, void *arg);

/* ---- memory ---------------------------------------------------------------------------------- */

struct nixl_region; /**< a named part of memory of this rank, and the way to the peers' parts */

/** Kinds of memory. */
enum nixl_mem_kind {
    NIXL_MEM_NONE = 0, /**< no part here (nixl_region_open) */
    NIXL_MEM_HOST = 1, /**< host memory */
};

/**
 * How nixl_region_alloc() gets host memory. Falls back to DEFAULT where it cannot; see the query.
 */
enum nixl_mem_strategy {
    NIXL_MEM_DEFAULT = 0, /**< pages appear at first touch, near whom touches them */
    NIXL_MEM_NUMA = 1,    /**< bound to NUMA node `node` */
    NIXL_MEM_HUGE = 2,    /**< huge pages: reserved ones, else transparent ones */
    NIXL_MEM_PINNED = 3,  /**< page-locked and known to the GPU */
};

enum nixl_mem_flag {
    NIXL_MEM_POPULATE = 1, /**< touch every page now: slower to make, no page faults later */
};

struct nixl_mem_params {
    size_t struct_nbytes;
    enum nixl_mem_kind kind;         /**< NIXL_MEM_HOST */
    enum nixl_mem_strategy strategy; /**< ignored by nixl_region_register() */
    int node;                        /**< for NIXL_MEM_NUMA */
    unsigned flags;                  /**< bits of enum nixl_mem_flag */
};
#define NIXL_MEM_PARAMS_INIT                                                                       \
    {                                                                                              \
        sizeof(struct nixl_mem_params), NIXL_MEM_HOST, NIXL_MEM_DEFAULT, 0, 0                      \
    }

/**
 * Allocate memory and publish it under a name.
 *
 * The fastest kind of region: same-host peers map it. The memory is zeroed and page aligned.
 *
 * @param name      1 .. NIXL_NAME_MAX bytes; unique among this rank's open regions
 * @param nbytes    > 0
 * @param params    NULL for default host memory
 * @param region_p  the handle, to be closed with nixl_region_close()
 * @return NIXL_OK
 * @return NIXL_ERR_INVALID_ARG   name NULL, empty or too long; nbytes 0; bad params
 * @return NIXL_ERR_NAME_IN_USE   this rank has an open region of that name
 * @return NIXL_ERR_NO_MEMORY     the system has not that much (the detail says which limit)
 * @return NIXL_ERR_NO_DEVICE     no such NUMA node (the detail says which exist)
 * @return NIXL_ERR_LIMIT         no descriptor, or no free region number
 * Collective: no. Threads: any.
 */
NIXL_API int nixl_region_alloc(const char *name, size_t nbytes,
                               const struct nixl_mem_params *params,
                               struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * Publish memory that the caller has (malloc, a stack, a file mapping) under a name. The memory
 * must stay until nixl_region_close() has returned NIXL_OK. Peers on this host reach it by
 * process_vm_readv/writev, or through a shared bounce buffer where the kernel forbids that.
 * Parameters and returns as nixl_region_alloc(); @p addr may have any alignment.
 */
NIXL_API int nixl_region_register(const char *name, void *addr, size_t nbytes,
                                  const struct nixl_mem_params *params,
                                  struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * A handle without a part of one's own, only to reach others' parts. Does not ask anybody: the name
 * is looked up at first use. A name may be opened more than once, also beside an own region.
 * Returns as nixl_region_alloc(). Threads: any.
 */
NIXL_API int nixl_region_open(const char *name, struct nixl_region **region_p) NIXL_MUST_CHECK;

/**
 * Close a region: revoke the own part, if there is one, and give the handle back.
 *
 * @param timeout_ns  how long to wait for copies of peers that are in flight
 * @return NIXL_OK           no byte of the part is read or written by a peer any more; registered
 *                           memory may be freed; allocated memory is unmapped; the handle is gone
 * @return NIXL_ERR_TIMEOUT  (NIXL_INPROGRESS with 0) revoked: peers get NIXL_ERR_STALE, but a copy
 *                           is still in flight; the handle lives: call again before the memory is
 *                           freed
 * @return NIXL_ERR_INVALID_ARG  not an open region
 * Copies of dead peers are not waited for. Threads: any, but no other call may use the handle.
 */
NIXL_API int nixl_region_close(struct nixl_region *region, int64_t timeout_ns);

/** First byte of the own part; NULL where there is none. Threads: any. */
NIXL_API void *nixl_region_addr(const struct nixl_region *region);

/** Bytes of the own part; 0 where there is none. Threads: any. */
NIXL_API uint64_t nixl_region_nbytes(const struct nixl_region *region);

/** What is known of a rank's part of a region. */
struct nixl_region_info {
    size_t struct_nbytes;
    uint64_t nbytes;
    enum nixl_mem_kind kind;
    enum nixl_mem_strategy strategy; /**< what was really done */
    int is_registered;               /**< 1: the owner's own memory; 0: allocated by the library */
    char transport[16];              /**< how this rank reaches it: "shm", "self" */
    char method[24];                 /**< "memcpy", "process_vm", "bounce" */
    char note[160];                  /**< why a strategy or method fell back; "" if it did not */
};
#define NIXL_REGION_INFO_INIT                                                                      \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_region_info)                                           \
    }

/**
 * Ask for a rank's part of the region; waits until the owner has published it. Forgets a stale
 * part, so that the region can be used again after its owner made a new one of the same name.
 * @return NIXL_OK, NIXL_ERR_TIMEOUT or NIXL_INPROGRESS (0), NIXL_ERR_PEER_LOST,
 *         NIXL_ERR_INVALID_ARG, NIXL_ERR_UNSUPPORTED (no transport reaches that rank; the detail
 *         says why)
 * Threads: any.
 */
NIXL_API int nixl_region_query(struct nixl_region *region, int rank, int64_t timeout_ns,
                               struct nixl_region_info *info_p) NIXL_MUST_CHECK;

/**
 * A pointer to a rank's part for direct loads and stores, where it is shared memory of this host.
 * Pins the pages: an owner's close leaves them to the holders of such pointers.
 * @return NIXL_OK, NIXL_ERR_UNSUPPORTED (registered memory, remote rank), and as nixl_put()
 * Threads: any.
 */
NIXL_API int nixl_region_map(struct nixl_region *region, int rank, void **addr_p) NIXL_MUST_CHECK;

/**
 * Give a pointer of nixl_region_map() back. @return NIXL_OK or NIXL_ERR_INVALID_ARG. Threads: any.
 */
NIXL_API int nixl_region_unmap(struct nixl_region *region, int rank, void *addr);

/* ---- move ------------------------------------------------------------------------------------ */

struct nixl_req; /**< an operation in progress */

/**
 * Copy bytes from local memory into a peer's part of a region.
 *
 * One-sided: the peer makes no call and may compute. An aligned put of 1, 2, 4 or 8 bytes between
 * processes of a host is written at once, never in parts.
 *
 * @param rank    target, 0 <= rank < nixl_size(); may be the caller
 * @param region  open handle of the region's name
 * @param offset  bytes from the start of the peer's part; offset + nbytes <= its size
 * @param src     any alignment; may lie in a region
 * @param nbytes  0 is allowed and checks the rest
 * @return NIXL_OK                src may be reused
 * @return NIXL_ERR_INVALID_ARG   bad rank or handle, or src NULL with nbytes > 0; nothing moved
 * @return NIXL_ERR_RANGE         outside the peer's part; nothing moved
 * @return NIXL_ERR_NOT_FOUND     the peer did not publish the name within NIXLRUN_RESOLVE_TIMEOUT
 * @return NIXL_ERR_STALE         the owner closed the region; nixl_region_query() finds a new one
 * @return NIXL_ERR_PEER_LOST     the peer died; how much arrived is unknown
 * @return NIXL_ERR_UNSUPPORTED   no transport reaches that rank
 * @return NIXL_ERR_TIMEOUT       not done within NIXLRUN_OP_TIMEOUT; src may be reused
 * Completion: local; nixl_flush() or a notification makes it visible at the target.
 * Order: puts to one peer may land in any order; nixl_fence() and notifications order them.
 * Threads: any. Collective: no.
 */
NIXL_API int nixl_put(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                      size_t nbytes) NIXL_MUST_CHECK;

/**
 * Copy bytes from a peer's part of a region into local memory. Returns when @p dst holds the data;
 * on failure dst may hold a part of it. Else as nixl_put(); may overtake an earlier put to the same
 * peer unless nixl_fence() stands between them.
 */
NIXL_API int nixl_get(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                      size_t nbytes) NIXL_MUST_CHECK;

/**
 * Start a put. @p src must not change until it is complete.
 * @param req_p  written only with NIXL_INPROGRESS
 * @return NIXL_OK          complete at once; no request was made
 * @return NIXL_INPROGRESS  started: wait for, test or free *req_p
 * Failures as nixl_put(): those known at once make no request, others end the request.
 */
NIXL_API int nixl_put_nb(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                         size_t nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Start a get. @p dst must not be touched until it is complete. Else as nixl_put_nb(). */
NIXL_API int nixl_get_nb(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                         size_t nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Is a request complete? The call that reports completion (any return but NIXL_INPROGRESS) frees
 * the request and sets *req_p NULL. A NULL request is complete.
 * @return NIXL_OK, NIXL_INPROGRESS, or the failure that ended the request (as nixl_put())
 * Threads: any, one at a time for one request.
 */
NIXL_API int nixl_req_test(struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Wait for a request; as nixl_req_test(). NIXL_ERR_TIMEOUT leaves the request alive. */
NIXL_API int nixl_req_wait(struct nixl_req **req_p, int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * Wait until one of several requests is complete; reports and frees that one.
 * @param reqs     array of @p nreqs requests; NULL entries are passed over
 * @param index_p  which one; written when the return is its outcome
 * @return the outcome of that request; NIXL_ERR_TIMEOUT or NIXL_INPROGRESS (timeout 0) with
 *         *index_p untouched; NIXL_ERR_INVALID_ARG if all are NULL or nreqs is 0
 */
NIXL_API int nixl_req_wait_any(struct nixl_req **reqs, size_t nreqs, int64_t timeout_ns,
                               size_t *index_p) NIXL_MUST_CHECK;

/** What a canceled request had done. */
enum nixl_outcome {
    NIXL_OUTCOME_UNTOUCHED = 0, /**< no byte was moved */
    NIXL_OUTCOME_PARTIAL = 1,   /**< some bytes were moved */
    NIXL_OUTCOME_DONE = 2,      /**< it was complete */
};

/**
 * Stop a request: what has not started is dropped, what has is waited for.
 * @param outcome_p  may be NULL
 * @return NIXL_OK           no byte moves any more; the request is freed and *req_p NULL
 * @return NIXL_ERR_TIMEOUT  (NIXL_INPROGRESS with 0) a copy is in flight; the request lives
 */
NIXL_API int nixl_req_cancel(struct nixl_req **req_p, int64_t timeout_ns,
                             enum nixl_outcome *outcome_p) NIXL_MUST_CHECK;

/**
 * Let a request go: it completes by itself, unobserved; its memory must stay until a flush says so.
 *  Sets *req_p NULL. @return NIXL_OK, NIXL_ERR_INVALID_ARG */
NIXL_API int nixl_req_free(struct nixl_req **req_p);

/**
 * Later puts to @p rank land after earlier ones, later gets read after them.
 * @return NIXL_OK, NIXL_ERR_PEER_LOST, NIXL_ERR_INVALID_ARG, NIXL_ERR_TIMEOUT. Threads: any; orders
 * the operations that happened before the call, of whichever thread.
 */
NIXL_API int nixl_fence(int rank) NIXL_MUST_CHECK;

/**
 * Wait until all earlier puts to @p rank (or NIXL_ALL_RANKS), non-blocking ones too, are visible to
 * the target. @return NIXL_OK; NIXL_ERR_PEER_LOST; NIXL_ERR_TIMEOUT, or NIXL_INPROGRESS with
 * timeout 0; the failure of a freed request, once. Threads: any.
 */
NIXL_API int nixl_flush(int rank, int64_t timeout_ns) NIXL_MUST_CHECK;

/* ---- notify ---------------------------------------------------------------------------------- */

/** A received notification. Only the first `nbytes` of `payload` are written. */
struct nixl_note {
    size_t struct_nbytes;
    int rank;        /**< the sender, known by the library, not told by the message */
    uint32_t nbytes; /**< of payload */
    uint64_t tag;
    unsigned char payload[NIXL_NOTE_MAX];
};

/** Make a note ready to receive; cheaper than an initialiser, which would clear the payload. */
static inline void nixl_note_init(struct nixl_note *note)
{
    note->struct_nbytes = sizeof(*note);
}

/**
 * Tell a rank something: a tag and up to NIXL_NOTE_MAX bytes.
 *
 * Delivered once, in order per (sender, receiver), after all earlier puts of this process to that
 * rank are visible there. Never lost to a full queue: the call waits for room.
 *
 * @param rank   may be the caller
 * @param tag    any value
 * @param msg    may be NULL if nbytes is 0
 * @return NIXL_OK               on its way; no further call is needed
 * @return NIXL_ERR_AGAIN        timeout 0 and no room, or not connected yet; nothing was sent
 * @return NIXL_ERR_TIMEOUT      no room in time; nothing was sent
 * @return NIXL_ERR_PEER_LOST    the peer is dead
 * @return NIXL_ERR_INVALID_ARG  bad rank, msg NULL with nbytes > 0, nbytes > NIXL_NOTE_MAX
 * Threads: any.
 */
NIXL_API int nixl_notify(int rank, uint64_t tag, const void *msg, size_t nbytes,
                         int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * A put and a notification that becomes visible after the data. As nixl_put() followed by
 * nixl_notify(), in one call; on NIXL_ERR_AGAIN and NIXL_ERR_TIMEOUT nothing was sent, though data
 * may have moved.
 */
NIXL_API int nixl_put_notify(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                             size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                             int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * A get, and a notification to the owner after its last byte was read. Else as nixl_put_notify().
 */
NIXL_API int nixl_get_notify(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                             size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                             int64_t timeout_ns) NIXL_MUST_CHECK;

/**
 * Receive the oldest notification that fits.
 *
 * Notifications that do not fit stay for other calls, in their order.
 *
 * @param rank      a sender, or NIXL_ANY_RANK
 * @param tag       wanted where tag_mask has ones
 * @param tag_mask  0 takes any tag, UINT64_MAX exactly `tag`
 * @param note_p    made ready with nixl_note_init()
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_ERR_TIMEOUT   none came
 * @return NIXL_ERR_PEER_LOST  @p rank is dead and everything that it had sent was received; with
 *                             NIXL_ANY_RANK once per death, after everything that came before; the
 *                             rank is in nixl_last_error()
 * @return NIXL_ERR_TRUNCATED  note_p was made for a smaller payload; the notification stays
 * @return NIXL_ERR_LIMIT      more unfitting notifications wait than NIXLRUN_NOTE_QUEUE allows
 * Threads: any.
 */
NIXL_API int nixl_notify_recv(int rank, uint64_t tag, uint64_t tag_mask, int64_t timeout_ns,
                              struct nixl_note *note_p) NIXL_MUST_CHECK;

/**
 * A descriptor for epoll, poll, libuv, asyncio. It is readable when a notification, an event or a
 * completed request waits, if nixl_event_arm() was called since the last time it was. Owned by the
 * library; never read or closed by the caller. The same value until nixl_finalize().
 * @return the descriptor, or a negative status
 */
NIXL_API int nixl_event_fd(void);

/**
 * Say that the caller goes to sleep on the event fd.
 * @return NIXL_OK          nothing waits: sleep until the descriptor is readable
 * @return NIXL_INPROGRESS  something waits: take it first
 * Threads: any.
 */
NIXL_API int nixl_event_arm(void) NIXL_MUST_CHECK;

/* ---- words ----------------------------------------------------------------------------------- */

/** Types of words. Their alignment is their size. */
enum nixl_type {
    NIXL_INT32 = 0,
    NIXL_UINT32 = 1,
    NIXL_INT64 = 2,
    NIXL_UINT64 = 3,
    NIXL_FLOAT = 4,
    NIXL_DOUBLE = 5,
};

/** What an atomic operation does to the word. AND, OR and XOR are for whole numbers only. */
enum nixl_atomic_op {
    NIXL_ATOMIC_ADD = 0,
    NIXL_ATOMIC_AND = 1,
    NIXL_ATOMIC_OR = 2,
    NIXL_ATOMIC_XOR = 3,
    NIXL_ATOMIC_SWAP = 4,
    NIXL_ATOMIC_SET = 5,   /**< as SWAP */
    NIXL_ATOMIC_FETCH = 6, /**< reads only; the operand may be NULL */
};

/**
 * Change a word in a rank's part of a region, and fetch what it was.
 *
 * Atomic with every other access of the library to that word, from whatever rank and by whatever
 * way; the owner's own threads use atomics of their compiler, or this call. Sequentially
 * consistent. A word in registered memory of another rank is changed by that rank's service
 * thread, at the cost of a message there and back; the rank itself may compute meanwhile.
 *
 * @param offset     of the word, which is aligned to its size in the owner's memory and lies
 *                   inside of the part; parts that the library allocates begin on a page
 * @param operand    one value of the type
 * @param fetched_p  one value of the type, or NULL
 * @return NIXL_OK                done, visible to all
 * @return NIXL_ERR_INVALID_ARG   bad rank, handle, type or operation, or a word that is not aligned
 * @return NIXL_ERR_TIMEOUT       no answer within NIXLRUN_OP_TIMEOUT: unknown whether it was done
 * @return NIXL_ERR_TRANSPORT     the connection to the owner broke: unknown whether it was done
 * and as nixl_put(). Completion: remote. Order: after earlier puts of this process to that rank,
 * for which it waits if they are not complete. Threads: any.
 */
NIXL_API int nixl_atomic(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                         enum nixl_atomic_op op, const void *operand,
                         void *fetched_p) NIXL_MUST_CHECK;

/**
 * Replace a word by @p desired if its bits are those of @p expected. *fetched_p is what it was: the
 * bits of @p expected if it was replaced. Else as nixl_atomic().
 */
NIXL_API int nixl_atomic_compare_swap(int rank, struct nixl_region *region, uint64_t offset,
                                      enum nixl_type type, const void *expected,
                                      const void *desired, void *fetched_p) NIXL_MUST_CHECK;

/**
 * Set a signal: a 64-bit word in a rank's part, aligned to 8 bytes. Its owner waits for it with
 * nixl_signal_wait(), and then sees all earlier puts of this process to that rank.
 * Returns, order and threads as nixl_atomic().
 */
NIXL_API int nixl_signal_set(int rank, struct nixl_region *region, uint64_t offset,
                             uint64_t value) NIXL_MUST_CHECK;

/** Add to a signal, so that those of many ranks can be counted; else as nixl_signal_set(). */
NIXL_API int nixl_signal_add(int rank, struct nixl_region *region, uint64_t offset,
                             uint64_t value) NIXL_MUST_CHECK;

/**
 * nixl_put(), and an addition to a signal in a region of the same rank, which is seen after the
 * data. Nothing is moved where the signal is found to be impossible.
 */
NIXL_API int nixl_put_signal(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                             size_t nbytes, struct nixl_region *signal_region,
                             uint64_t signal_offset, uint64_t value) NIXL_MUST_CHECK;

/** How a signal is compared with a value; both are unsigned. */
enum nixl_compare {
    NIXL_EQ = 0,
    NIXL_NE = 1,
    NIXL_LT = 2,
    NIXL_LE = 3,
    NIXL_GT = 4,
    NIXL_GE = 5,
};

/**
 * Wait until a signal of this rank compares true: word OP value.
 *
 * Spins briefly, then sleeps; woken by nixl_signal_set(), nixl_signal_add() and nixl_put_signal(),
 * which also make an armed event fd readable. A word that is changed by other means (a put, an
 * atomic, a store) is looked at once a second while asleep.
 *
 * @param word    8-byte aligned, usually in an own region
 * @param seen_p  the value that was seen, or NULL
 * @return NIXL_OK               it compared true
 * @return NIXL_INPROGRESS       (timeout 0) it does not
 * @return NIXL_ERR_TIMEOUT      it did not in time
 * @return NIXL_ERR_PEER_LOST    it does not, and a rank has died, which is in nixl_last_error():
 *                               once for each death in each thread that waits for signals
 * @return NIXL_ERR_INVALID_ARG  NULL, not aligned, no such comparison, a negative timeout
 * Threads: any.
 */
NIXL_API int nixl_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                              int64_t timeout_ns, uint64_t *seen_p) NIXL_MUST_CHECK;

/**
 * Wait until one of several signals compares true. *index_p, which may be NULL, is the first that
 * does. Else as nixl_signal_wait(). NIXL_ERR_INVALID_ARG also where there is none.
 */
NIXL_API int nixl_signal_wait_any(const uint64_t *const *words, size_t nwords,
                                  enum nixl_compare compare, uint64_t value, int64_t timeout_ns,
                                  size_t *index_p, uint64_t *seen_p) NIXL_MUST_CHECK;

/* ---- what happened --------------------------------------------------------------------------- */

enum nixl_event_type {
    NIXL_EVENT_PEER_LOST = 1,     /**< `rank` died */
    NIXL_EVENT_REGION_CLOSED = 2, /**< `rank` closed the region `name`, which this rank used */
    NIXL_EVENT_LAUNCHER_LOST = 3, /**< this rank is ended after NIXLRUN_ORPHAN_GRACE */
};

struct nixl_event {
    size_t struct_nbytes;
    enum nixl_event_type type;
    int rank;                     /**< -1 for NIXL_EVENT_LAUNCHER_LOST */
    char name[NIXL_NAME_MAX + 1]; /**< of the region; else "" */
};
#define NIXL_EVENT_INIT                                                                            \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_event)                                                 \
    }

/**
 * Take the oldest event. @return NIXL_OK, NIXL_INPROGRESS (timeout 0) or NIXL_ERR_TIMEOUT.
 * Threads: any.
 */
NIXL_API int nixl_event_recv(int64_t timeout_ns, struct nixl_event *event_p) NIXL_MUST_CHECK;

enum nixl_peer_state {
    NIXL_PEER_ALIVE = 0,    /**< nothing else is known */
    NIXL_PEER_LOST = 1,     /**< died; final */
    NIXL_PEER_FINISHED = 2, /**< left by nixl_finalize() */
};

/** State of a rank (enum nixl_peer_state), or a negative status. Never blocks. Threads: any. */
NIXL_API int nixl_peer_state(int rank);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_H */
