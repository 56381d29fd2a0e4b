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
    _x(ERR_INTERNAL, -19, "internal error")                                                        \
    _x(ERR_EXPIRED, -20, "the lifetime is over")
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

/** A transport, and whether it serves a rank: nixl_route_query(). */
struct nixl_route_info {
    size_t struct_nbytes;
    char transport[16];      /**< as NIXLRUN_TRANSPORTS takes it: "self", "shm", "ucx", "ofi" */
    int is_usable;           /**< 1: it works in this process, whichever rank is meant */
    int is_chosen;           /**< 1: it serves this rank; two may share the work */
    uint64_t latency_ns;     /**< expected: a small put_notify, one way; 0: not known */
    uint64_t bandwidth_mbps; /**< expected: MB/s of a large put, all rails; 0: not known */
    unsigned n_rails;        /**< how many ways there are side by side; 0: not usable */
    char library[128];       /**< what it is built upon, with version and file; or "" */
    char devices[1024];      /**< a line for each device that it uses; or "" */
    char why[256];           /**< why it is not usable or not chosen; "" if it is chosen */
};
#define NIXL_ROUTE_INFO_INIT                                                                       \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_route_info)                                            \
    }

/**
 * How @p rank is reached: one transport after the other, the one that was chosen among them. The
 * first call for a rank connects to it, as nixl_scope(). `nixlrun --explain` prints it.
 *
 * Expected times and rates are what was measured where the transport was written. They are what
 * transports are compared by; nixl_bench tells those of this machine.
 *
 * @param index   0, 1, ... until NIXL_ERR_NOT_FOUND
 * @param info_p  made with NIXL_ROUTE_INFO_INIT
 * @return NIXL_OK, NIXL_ERR_NOT_FOUND (no transport of that number), NIXL_ERR_INVALID_ARG,
 *         NIXL_ERR_TIMEOUT (the rank does not answer), NIXL_ERR_NO_MEMORY
 * Threads: any.
 */
NIXL_API int nixl_route_query(int rank, unsigned index,
                              struct nixl_route_info *info_p) NIXL_MUST_CHECK;

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
    NIXL_MEM_NONE = 0,   /**< no part here (nixl_region_open) */
    NIXL_MEM_HOST = 1,   /**< host memory */
    NIXL_MEM_CUDA = 2,   /**< memory of an NVIDIA GPU, by CUDA */
    NIXL_MEM_VULKAN = 3, /**< memory of a GPU, by Vulkan; CUDA copies it where it can */
    NIXL_MEM_AUTO = 4,   /**< alloc: GPU memory if there is any, else host; register: find out */
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

/**
 * Vulkan memory of the caller's, for nixl_region_register(): an exported VkDeviceMemory. The
 * descriptor stays the caller's; the rest must be what the memory was allocated with.
 */
struct nixl_vulkan_memory {
    int fd;                        /**< of vkGetMemoryFdKHR(), OPAQUE_FD */
    uint32_t memory_type;          /**< memoryTypeIndex */
    uint64_t allocation_nbytes;    /**< allocationSize of the whole VkDeviceMemory */
    uint64_t offset;               /**< of the region's first byte in it */
    int is_dedicated;              /**< 1: VkMemoryDedicatedAllocateInfo was used */
    unsigned char device_uuid[16]; /**< VkPhysicalDeviceIDProperties */
    unsigned char driver_uuid[16];
};

struct nixl_mem_params {
    size_t struct_nbytes;
    enum nixl_mem_kind kind;
    enum nixl_mem_strategy strategy; /**< host memory; ignored by nixl_region_register() */
    int node;                        /**< for NIXL_MEM_NUMA */
    unsigned flags;                  /**< bits of enum nixl_mem_flag */
    const char *device;              /**< GPU memory: "nearest" (or NULL), a number, or a UUID */
    const struct nixl_vulkan_memory *vulkan; /**< to register Vulkan memory; else NULL */
};
#define NIXL_MEM_PARAMS_INIT                                                                       \
    {                                                                                              \
        sizeof(struct nixl_mem_params), NIXL_MEM_HOST, NIXL_MEM_DEFAULT, 0, 0, NULL, NULL          \
    }

/**
 * Allocate memory and publish it under a name.
 *
 * The fastest kind of region: same-host peers map it. The memory is zeroed and page aligned.
 *
 * @param name      1 .. NIXL_NAME_MAX bytes, the first of them neither 1 nor 2; unique among this
 *                  rank's open regions
 * @param nbytes    > 0
 * @param params    NULL for default host memory
 * @param region_p  the handle, to be closed with nixl_region_close()
 * @return NIXL_OK
 * @return NIXL_ERR_INVALID_ARG   name NULL, empty, too long or one of the library's own; nbytes 0;
 *                                bad params
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
 * process_vm_readv/writev, or through a shared bounce buffer where the kernel forbids that; for
 * peers on other hosts allocated and registered memory are alike.
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
    char transport[16];              /**< as of nixl_route_query(); "device": own GPU memory */
    char method[24];                 /**< memcpy, process_vm, bounce, message, rma, or device */
    char note[160];                  /**< why a strategy or method fell back; "" if it did not */
    uint64_t latency_ns;             /**< expected: a small put_notify, one way; 0: not known */
    uint64_t bandwidth_mbps;         /**< expected: MB/s of a large put; 0: not known */
    char device[48];                 /**< GPU memory: which, as "GPU-" and a UUID; or "" */
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
 * A pointer to a rank's part for direct loads and stores, where it is shared memory of this host;
 * or for kernels, where it is CUDA memory that this process has open. Pins shared pages: an owner's
 * close leaves them to the holders of such pointers. For CUDA memory it waits for these holders.
 * @return NIXL_OK, NIXL_ERR_UNSUPPORTED (registered host memory, Vulkan memory, remote rank), and
 *         as nixl_put()
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
 * One-sided: the peer makes no call and may compute. An aligned put of 1, 2, 4 or 8 bytes is
 * written at once, never in parts.
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
 * @return NIXL_ERR_NO_MEMORY     for what is kept of the rank, the part or the operation
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
 * Later puts to @p rank land after earlier ones, later gets read after them. Between hosts it waits
 * for an answer of the library there if something was put since the last one.
 * @return NIXL_OK, NIXL_ERR_PEER_LOST, NIXL_ERR_INVALID_ARG, NIXL_ERR_TIMEOUT. Threads: any; orders
 * the operations that happened before the call, of whichever thread.
 */
NIXL_API int nixl_fence(int rank) NIXL_MUST_CHECK;

/**
 * Wait until all earlier puts to @p rank (or NIXL_ALL_RANKS), non-blocking ones too, are visible to
 * the target. @return NIXL_OK; NIXL_ERR_PEER_LOST; NIXL_ERR_TIMEOUT, or NIXL_INPROGRESS with
 * timeout 0; the failure of a freed request, or of a put that another host refused, once.
 * Threads: any.
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

/* ---- many pieces at once --------------------------------------------------------------------- */

struct nixl_xfer; /**< a prepared transfer: which bytes of both sides belong together */

enum nixl_xfer_op {
    NIXL_XFER_PUT = 0, /**< from local memory into a rank's parts of regions */
    NIXL_XFER_GET = 1, /**< the other way */
};

/**
 * Blocks of one size: a part of what one side of a prepared transfer consists of.
 *
 * Block i begins at `offset` + n * `stride`, where n is index[i], or i where there is no index.
 * So one entry is a piece (`nblocks` 1), strided (no index), a list of blocks by number (stride:
 * the bytes from one number to the next), or a list of places anywhere (stride 1: the index tells
 * bytes). The index is the caller's and is not copied; it may change between starts.
 */
struct nixl_blocks {
    size_t struct_nbytes;
    struct nixl_region *region; /**< remote: the rank's part of it; local: the own part, or NULL */
    void *addr;                 /**< local memory, where `region` is NULL; else NULL */
    uint64_t offset;            /**< from the start of the part, or from `addr` */
    uint64_t block_nbytes;      /**< > 0 */
    uint64_t stride;            /**< any value; no matter for a single block without index */
    uint64_t nblocks;
    const uint64_t *index; /**< NULL, or nblocks numbers in any order */
};
#define NIXL_BLOCKS_INIT                                                                           \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_blocks), .nblocks = 1                                  \
    }

/**
 * Prepare a transfer of many pieces between local memory and one rank's parts of regions.
 *
 * Both sides are lists of blocks, several regions on either side; they may be cut differently, as
 * long as the bytes agree in number: the first byte of one belongs to the first of the other, and
 * so on. Asks the rank for parts that are not known yet, checks every range, copies the entries
 * (not the indices) and moves nothing. Costs no memory and next to no time per block.
 *
 * @param op       what the starts will do
 * @param rank     the other side, may be the caller
 * @param local    array of nlocal entries, each made with NIXL_BLOCKS_INIT
 * @param remote   array of nremote entries; their regions stay open as long as the transfer is used
 * @param xfer_p   to be given back with nixl_xfer_free()
 * @return NIXL_OK
 * @return NIXL_ERR_INVALID_ARG  a bad operation, rank, entry or handle; a side without entries;
 *                               sides of different size (the detail names which and why)
 * @return NIXL_ERR_RANGE        a block is outside of its part, or of the own one
 * and as nixl_put(). Threads: any.
 */
NIXL_API int nixl_xfer_create(enum nixl_xfer_op op, int rank, const struct nixl_blocks *local,
                              size_t nlocal, const struct nixl_blocks *remote, size_t nremote,
                              struct nixl_xfer **xfer_p) NIXL_MUST_CHECK;

/** A side of a prepared transfer. */
enum nixl_xfer_side { NIXL_XFER_LOCAL = 0, NIXL_XFER_REMOTE = 1 };

/**
 * Give an entry another index, or another number of blocks, for the next starts. Not needed where
 * only the numbers in the index change. Checked by the next start, so that both sides can be set
 * one after the other.
 * @param entry    0 .. number of entries of that side - 1
 * @param nblocks  blocks of that entry from now on
 * @param index    as in struct nixl_blocks
 * @return NIXL_OK, NIXL_ERR_INVALID_ARG, NIXL_ERR_IN_USE (a start is in flight). Threads: any, one
 *         at a time for one transfer.
 */
NIXL_API int nixl_xfer_set_index(struct nixl_xfer *xfer, enum nixl_xfer_side side, size_t entry,
                                 uint64_t nblocks, const uint64_t *index) NIXL_MUST_CHECK;

/**
 * Start a prepared transfer; again as often as wanted, one start at a time for each transfer.
 *
 * Reads the indices as they are now, checks every range, then moves. Indices and local memory stay
 * as they are until it is complete. Pieces that lie side by side on both sides move as one. Pieces
 * land in any order; where destinations overlap, it is unknown which piece stays. As with
 * nixl_put_nb() what can be copied here and now is: up to some MiB within the call, the rest
 * beside the caller.
 *
 * @param req_p  NULL: the transfer keeps the request, for nixl_xfer_wait() and nixl_xfer_cancel().
 *               Else the request, written only with NIXL_INPROGRESS, for nixl_req_wait(),
 *               nixl_req_wait_any(), nixl_req_test() and nixl_req_cancel()
 * @return NIXL_OK               complete
 * @return NIXL_INPROGRESS       started
 * @return NIXL_ERR_IN_USE       the last start has not been waited for
 * @return NIXL_ERR_INVALID_ARG  a bad handle; sides of different size after nixl_xfer_set_index()
 * @return NIXL_ERR_RANGE        an index leads outside of a part; nothing moved
 * and as nixl_put(), where some pieces may have moved; what is known at once makes no request, the
 * rest ends it. A stale part is found again by nixl_region_query(); the transfer needs not be
 * prepared anew. Threads: any.
 */
NIXL_API int nixl_xfer_start(struct nixl_xfer *xfer, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * nixl_xfer_start(), and a notification to the rank behind the last byte: after a put all of it is
 * visible, after a get all of it was read. None is sent where the transfer fails or is canceled.
 * @param msg  copied; as nixl_notify()
 */
NIXL_API int nixl_xfer_start_notify(struct nixl_xfer *xfer, uint64_t tag, const void *msg,
                                    size_t msg_nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Wait for the last start that gave no request; as nixl_req_wait(). NIXL_OK where none is in
 * flight; NIXL_ERR_INVALID_ARG where its request is the caller's.
 */
NIXL_API int nixl_xfer_wait(struct nixl_xfer *xfer, int64_t timeout_ns) NIXL_MUST_CHECK;

/** Stop the last start that gave no request; as nixl_req_cancel(). Pieces that moved stay. */
NIXL_API int nixl_xfer_cancel(struct nixl_xfer *xfer, int64_t timeout_ns,
                              enum nixl_outcome *outcome_p) NIXL_MUST_CHECK;

/** What is known of a prepared transfer. */
struct nixl_xfer_info {
    size_t struct_nbytes;
    uint64_t nbytes;           /**< of one start */
    uint64_t nblocks;          /**< of the side that has more of them */
    uint64_t memory_nbytes;    /**< that the library keeps for it; the indices are the caller's */
    uint64_t estimated_ns;     /**< what the next start is expected to take; 0: not known */
    uint64_t nstarts;          /**< complete ones; the rest is about the last of them */
    uint64_t npieces;          /**< that were moved, after merging */
    uint64_t took_ns;          /**< from the call to the last byte */
    uint64_t had_estimated_ns; /**< what had been expected before it */
};
#define NIXL_XFER_INFO_INIT                                                                        \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_xfer_info)                                             \
    }

/**
 * Ask about a prepared transfer: before a start, what it is expected to take; after it, what it
 * took. The first estimate comes from what is known of the route (nixl_region_query()), later ones
 * are corrected by what the earlier starts took.
 * @return NIXL_OK, NIXL_ERR_INVALID_ARG. Threads: any.
 */
NIXL_API int nixl_xfer_query(struct nixl_xfer *xfer, struct nixl_xfer_info *info_p) NIXL_MUST_CHECK;

/**
 * Give a prepared transfer back. @return NIXL_OK; NIXL_ERR_IN_USE: a start is in flight;
 * NIXL_ERR_INVALID_ARG. The last nixl_finalize() gives all of them back. Threads: any, but no other
 * call may use the handle.
 */
NIXL_API int nixl_xfer_free(struct nixl_xfer *xfer);

/* ---- words ----------------------------------------------------------------------------------- */

/**
 * Types of values. Words, which nixl_atomic() changes, are of the first six, and their alignment is
 * their size; reductions take all.
 */
enum nixl_type {
    NIXL_INT32 = 0,
    NIXL_UINT32 = 1,
    NIXL_INT64 = 2,
    NIXL_UINT64 = 3,
    NIXL_FLOAT = 4,
    NIXL_DOUBLE = 5,
    NIXL_INT8 = 6,
    NIXL_UINT8 = 7,
    NIXL_INT16 = 8,
    NIXL_UINT16 = 9,
    NIXL_FLOAT16 = 10,  /**< IEEE 754 binary16 */
    NIXL_BFLOAT16 = 11, /**< the upper half of a float */
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
 * consistent. A word in registered memory of another rank, or on another host, is changed by that
 * rank's process, at the cost of a message there and back; the rank itself may compute meanwhile.
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
 * atomic, a store) is looked at once a second while asleep. A word in device memory is copied to
 * the host to be looked at, with pauses that grow to 200 us.
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

/* ---- CUDA streams ---------------------------------------------------------------------------- */

/*
 * What follows is queued on a CUDA stream of the caller's: it begins when the work that was queued
 * before has ended, and what is queued after it begins when it has ended. `stream` is a CUstream or
 * cudaStream_t; NULL is CUDA's default stream, of the context that is current in the calling
 * thread. One side at least is CUDA memory, and the GPU must reach the other: NIXL_ERR_UNSUPPORTED
 * says that it does not (other hosts, Vulkan memory, no CUDA), or that the stream is being captured
 * into a graph; synchronise and use the calls without a stream then. A stream must have passed all
 * of it before its memory is closed by this rank, before nixl_finalize() and before it is
 * destroyed.
 */

/**
 * Queue a put on a CUDA stream. The first use of a peer's part may block; the copy never does.
 * @param req_p  as nixl_put_nb(), to wait for it on the host; NULL: nobody will, nixl_flush()
 *               covers it and tells of failures
 * @return NIXL_INPROGRESS  queued; *req_p written. A request that is canceled waits for its turn.
 * @return NIXL_OK          queued; req_p is NULL
 * @return NIXL_ERR_UNSUPPORTED, NIXL_ERR_TRANSPORT, and failures as nixl_put(): nothing was queued
 * Completion: in the order of the stream, where @p src may be reused. Order: none to puts that are
 * not on this stream. nbytes 0 is allowed and marks the place in the stream. Threads: any.
 */
NIXL_API int nixl_put_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                const void *src, size_t nbytes, void *stream,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Queue a get on a CUDA stream: what is queued behind it finds the data. As nixl_put_on_stream().
 */
NIXL_API int nixl_get_on_stream(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                                size_t nbytes, void *stream,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Queue a put and a notification that is sent when the stream has passed it, without another call.
 * Later notifications of this process to that rank stay behind it. Else as nixl_put_on_stream()
 * with req_p NULL, and as nixl_notify().
 * @return NIXL_OK  queued; a failure of nixl_notify() may leave the put queued
 */
NIXL_API int nixl_put_notify_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                       const void *src, size_t nbytes, uint64_t tag,
                                       const void *msg, size_t msg_nbytes,
                                       void *stream) NIXL_MUST_CHECK;

/**
 * Let a stream set a signal, behind everything that the stream has put before: without the host,
 * and a waiter that sleeps is woken. The GPU writes the word; nobody else should write it then.
 * @param offset  of the word, aligned to 8 bytes, in allocated host memory or CUDA memory
 * @return NIXL_OK  queued
 * @return NIXL_ERR_UNSUPPORTED  the GPU does not reach that part, or cannot write words in a stream
 * @return as nixl_signal_set(); NIXL_ERR_TRANSPORT: the driver refused
 */
NIXL_API int nixl_signal_set_on_stream(int rank, struct nixl_region *region, uint64_t offset,
                                       uint64_t value, void *stream) NIXL_MUST_CHECK;

/**
 * Let a stream wait for a signal of this rank: what is queued behind it begins when the word
 * compares true, and finds the data that was put before the signal was raised. The host does not
 * wait.
 * @param word     in host or CUDA memory of a region of this rank
 * @param compare  NIXL_EQ, or NIXL_GE: the difference, as a signed number, is not below 0
 * @return NIXL_OK  queued. A rank that dies raises nothing: nixl_signal_set() to oneself lets the
 *                  stream go on
 * @return NIXL_ERR_INVALID_ARG, NIXL_ERR_UNSUPPORTED, NIXL_ERR_TRANSPORT
 */
NIXL_API int nixl_signal_wait_on_stream(const uint64_t *word, enum nixl_compare compare,
                                        uint64_t value, void *stream) NIXL_MUST_CHECK;
/* ---- teams ----------------------------------------------------------------------------------- */

/**
 * An ordered set of ranks that runs collectives. The members are counted from 0; a member's number
 * is its place, its rank is that of the job.
 *
 * Teams are made by all of their members together, each calling the same functions in the same
 * order, and live until each member gives its own handle back. A collective is called by all
 * members of a team in the same order; a team runs one at a time, in whichever thread, and several
 * teams run side by side. A member that dies ends the collectives of the team with
 * NIXL_ERR_PEER_LOST on all others; nixl_team_shrink() makes a team of those.
 *
 * A collective that fails otherwise (a timeout, a cancel, a connection) leaves the members in
 * different states: from then on the team is broken, its collectives return NIXL_ERR_CANCELED on
 * all members, and the contents of buffers are undefined. Only wrong arguments break nothing, and
 * do nothing.
 */
struct nixl_team;

#define NIXL_NO_COLOR (-1) /**< nixl_team_split(): in none of the new teams */

/**
 * The team of all ranks of the job; places are the ranks.
 *
 * @param timeout_ns  how long to wait for the other members; not 0
 * @param team_p      the handle, to be given back with nixl_team_free()
 * @return NIXL_OK
 * @return NIXL_ERR_INVALID_ARG  team_p is NULL, or the timeout is 0 or negative; on all members:
 *                               NIXLRUN_COLL_TABLE or its file is not the same on all
 * @return NIXL_ERR_TIMEOUT      a member did not come in time
 * @return NIXL_ERR_PEER_LOST    a member has died
 * @return NIXL_ERR_UNSUPPORTED  no transport reaches a member
 * @return NIXL_ERR_NO_MEMORY, NIXL_ERR_LIMIT
 * Where it fails on one member, others get NIXL_ERR_TIMEOUT or NIXL_ERR_PEER_LOST.
 * Collective: all ranks. Threads: any.
 */
NIXL_API int nixl_team_world(int64_t timeout_ns, struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * The team of the ranks on this host, those whose memory can be shared, by rank. All ranks of the
 * job call it. Else as nixl_team_world().
 */
NIXL_API int nixl_team_node(int64_t timeout_ns, struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * A team of given ranks, whose places are those in the list. Only these ranks call it, all with the
 * same list; other ranks need not know.
 * @param ranks   different ranks of the job, the caller's among them
 * @param nranks  1 .. nixl_size()
 * @return NIXL_ERR_INVALID_ARG  also if a rank is not in the job, is there twice, or the caller's
 *                               is not there
 * Else as nixl_team_world().
 */
NIXL_API int nixl_team_create(const int *ranks, size_t nranks, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/** A team of the ranks first, first + stride, ... (count of them). Else as nixl_team_create(). */
NIXL_API int nixl_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                               struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * Divide a team: members of one color are in one new team, ordered by key, then by place.
 * @param color   0 or more, or NIXL_NO_COLOR: then *team_p becomes NULL
 * Collective: all members of @p team. Else as nixl_team_world(), and as a collective.
 */
NIXL_API int nixl_team_split(struct nixl_team *team, int color, int key, int64_t timeout_ns,
                             struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * A team of the living members of @p team, in the same order; also of a broken team, or one without
 * a loss. A death in the midst of it is one more: the survivors agree on who is left.
 * Collective: the living members. Else as nixl_team_world().
 */
NIXL_API int nixl_team_shrink(struct nixl_team *team, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * Give a team back. Requests on it are canceled first; other members may go on with what does not
 * need this one.
 * @return NIXL_OK, or NIXL_ERR_INVALID_ARG: no team. Collective: no. Threads: any, but no other
 * call may use the handle.
 */
NIXL_API int nixl_team_free(struct nixl_team *team);

/** The number of members, or a negative status. Threads: any. */
NIXL_API int nixl_team_size(const struct nixl_team *team);

/** The caller's place, or a negative status. Threads: any. */
NIXL_API int nixl_team_rank(const struct nixl_team *team);

/**
 * Where a member of one team stands in another.
 * @param from   a team, or NULL for the job, whose places are the ranks
 * @param place  in @p from
 * @param to     a team, or NULL for the job
 * @return the place in @p to; NIXL_ERR_NOT_FOUND: not a member; NIXL_ERR_INVALID_ARG
 * Threads: any.
 */
NIXL_API int nixl_team_translate(const struct nixl_team *from, int place,
                                 const struct nixl_team *to);

/* ---- collectives ----------------------------------------------------------------------------- */

/*
 * What holds for all. Sizes, roots, types and operations are the same on all members. Buffers have
 * any alignment, or are NULL where they have no bytes. They are host memory or GPU memory that lies
 * in a region of this process, open until the call is over; each member and each buffer may have
 * another kind. On one host the others read and write large buffers where they lie; reductions of
 * GPU memory go through host memory, and NIXL_USER is called with host memory. Sizes may exceed
 * 4 GiB. A buffer may be used again when the call has
 * returned, and a result is there then; but for the barrier and where data says so, no member
 * learns how far the others are.
 *
 * The result of a reduction is the same on all members and in each run with the same team, size,
 * type, operation and algorithm (NIXLRUN_COLL_TABLE); the order of the operands is fixed then, but
 * not promised.
 *
 * A timeout is for the whole call; 0 is NIXL_ERR_AGAIN, and nothing has happened, unless the team
 * has one member. Returns: NIXL_OK; NIXL_ERR_INVALID_ARG; NIXL_ERR_TIMEOUT; NIXL_ERR_PEER_LOST: a
 * member has died, which is in nixl_last_error(); NIXL_ERR_CANCELED: the team is broken;
 * NIXL_ERR_NO_MEMORY; NIXL_ERR_TRANSPORT. Threads: any, one collective of a
 * team at a time.
 *
 * The _nb calls start: NIXL_INPROGRESS and a request, for nixl_req_test() and the like; or NIXL_OK,
 * complete, and none. Those of one team run one after the other, in the order of the calls, and
 * need no further call to go on; a call without _nb waits for them. Arguments and arrays may be
 * reused at once, buffers when the request is complete. To cancel a request that is not complete
 * breaks the team.
 */

/** Wait until all members have come here. */
NIXL_API int nixl_barrier(struct nixl_team *team, int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_barrier_nb(struct nixl_team *team, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Copy @p nbytes at @p buf of member @p root to @p buf of all others. */
NIXL_API int nixl_broadcast(struct nixl_team *team, int root, void *buf, size_t nbytes,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_broadcast_nb(struct nixl_team *team, int root, void *buf, size_t nbytes,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/** How a reduction combines two values. AND, OR and XOR are of the bits of whole numbers. */
enum nixl_reduce_op {
    NIXL_SUM = 0,
    NIXL_PROD = 1,
    NIXL_MIN = 2, /**< of a NaN and a number, the one that comes first in the order of operands */
    NIXL_MAX = 3,
    NIXL_AND = 4,
    NIXL_OR = 5,
    NIXL_XOR = 6,
    NIXL_USER = 7, /**< by `combine` */
};

/**
 * A reduction of the caller's own: left[i] becomes left[i] OP right[i], for @p count elements.
 * Must be associative and commutative, must not call the library, and may be called from any
 * thread of it. Elements need not be aligned to more than 8 bytes.
 */
typedef void nixl_combine_fn(void *left, const void *right, size_t count, void *arg);

/** What is reduced. src may be dst: in place. They must not overlap otherwise. */
struct nixl_reduce_args {
    size_t struct_nbytes;
    const void *src;
    void *dst;
    size_t count; /**< elements of src; nixl_reduce_scatter(): of dst */
    enum nixl_type type;
    enum nixl_reduce_op op;
    nixl_combine_fn *combine; /**< NIXL_USER: the operation */
    void *combine_arg;        /**< its last argument */
    size_t element_nbytes;    /**< NIXL_USER: of an element that is not of `type`, <= 256; else 0 */
};
#define NIXL_REDUCE_ARGS_INIT                                                                      \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_reduce_args)                                           \
    }

/** Combine the src of all members into dst of member @p root; dst of others is not used. */
NIXL_API int nixl_reduce(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                         int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_reduce_nb(struct nixl_team *team, int root, const struct nixl_reduce_args *args,
                            struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Combine the src of all members into dst of each. */
NIXL_API int nixl_allreduce(struct nixl_team *team, const struct nixl_reduce_args *args,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_allreduce_nb(struct nixl_team *team, const struct nixl_reduce_args *args,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Combine the src of all members, each of `count` elements for each member, and give the i-th part
 * to member i. In place: the part goes to the beginning of src.
 */
NIXL_API int nixl_reduce_scatter(struct nixl_team *team, const struct nixl_reduce_args *args,
                                 int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_reduce_scatter_nb(struct nixl_team *team, const struct nixl_reduce_args *args,
                                    struct nixl_req **req_p) NIXL_MUST_CHECK;

/** dst of member i is src of members 0 to i, combined in this order. */
NIXL_API int nixl_scan(struct nixl_team *team, const struct nixl_reduce_args *args,
                       int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_scan_nb(struct nixl_team *team, const struct nixl_reduce_args *args,
                          struct nixl_req **req_p) NIXL_MUST_CHECK;

/** src of member i, nbytes of each, to dst + i * nbytes of member @p root; may lie there before. */
NIXL_API int nixl_gather(struct nixl_team *team, int root, const void *src, void *dst,
                         size_t nbytes, int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_gather_nb(struct nixl_team *team, int root, const void *src, void *dst,
                            size_t nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** src + i * nbytes of member @p root to dst of member i; may lie there before. */
NIXL_API int nixl_scatter(struct nixl_team *team, int root, const void *src, void *dst,
                          size_t nbytes, int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_scatter_nb(struct nixl_team *team, int root, const void *src, void *dst,
                             size_t nbytes, struct nixl_req **req_p) NIXL_MUST_CHECK;

/** src of member i to dst + i * nbytes of all; may lie there before. */
NIXL_API int nixl_allgather(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_allgather_nb(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/** src + j * nbytes of member i to dst + i * nbytes of member j; src may be dst. */
NIXL_API int nixl_alltoall(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                           int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_alltoall_nb(struct nixl_team *team, const void *src, void *dst, size_t nbytes,
                              struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Data of different sizes. Each call says which fields it looks at. What one member sends to
 * another is as long as that one receives. src and dst must not overlap, but where a member's data
 * for itself lies in its place before.
 */
struct nixl_vector_args {
    size_t struct_nbytes;
    const void *src;
    void *dst;
    size_t nbytes;             /**< of the one piece */
    const size_t *src_nbytes;  /**< [size]: of the piece for each member */
    const size_t *src_offsets; /**< [size]: where it is in src */
    const size_t *dst_nbytes;  /**< [size]: of the piece of each member */
    const size_t *dst_offsets; /**< [size]: where it goes in dst */
};
#define NIXL_VECTOR_ARGS_INIT                                                                      \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_vector_args)                                           \
    }

/** All: src, nbytes. Root: dst, dst_nbytes, dst_offsets. */
NIXL_API int nixl_gatherv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                          int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_gatherv_nb(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                             struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Root: src, src_nbytes, src_offsets. All: dst, nbytes. */
NIXL_API int nixl_scatterv(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                           int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_scatterv_nb(struct nixl_team *team, int root, const struct nixl_vector_args *args,
                              struct nixl_req **req_p) NIXL_MUST_CHECK;

/** All: src, nbytes, dst, dst_nbytes, dst_offsets. */
NIXL_API int nixl_allgatherv(struct nixl_team *team, const struct nixl_vector_args *args,
                             int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_allgatherv_nb(struct nixl_team *team, const struct nixl_vector_args *args,
                                struct nixl_req **req_p) NIXL_MUST_CHECK;

/** All: src, src_nbytes, src_offsets, dst, dst_nbytes, dst_offsets. */
NIXL_API int nixl_alltoallv(struct nixl_team *team, const struct nixl_vector_args *args,
                            int64_t timeout_ns) NIXL_MUST_CHECK;
NIXL_API int nixl_alltoallv_nb(struct nixl_team *team, const struct nixl_vector_args *args,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/* ---- channels -------------------------------------------------------------------------------- */

struct nixl_channel; /**< one end of a one-way queue of slots */

enum nixl_channel_role {
    NIXL_CHANNEL_CONSUMER = 0, /**< owns the slots and receives */
    NIXL_CHANNEL_PRODUCER = 1, /**< fills slots of the consumer's memory and publishes them */
};

#define NIXL_CHANNEL_NAME_MAX 200 /**< longest name of a channel, in bytes without the final zero */

/**
 * Open one end of a one-way queue of slots that lie in the consumer's memory.
 *
 * Items arrive once and in order. A full queue makes the producer wait; nothing is lost. On one
 * host a producer fills the slot where the consumer reads it, without a copy.
 *
 * @param name          1 .. NIXL_CHANNEL_NAME_MAX bytes; a consumer has one channel of that name
 * @param peer          the other end's rank, may be the caller; NIXL_ANY_RANK, for a consumer: any
 *                      number of producers, each with nslots of its own
 * @param role          of this end
 * @param slot_nbytes   > 0, the same at both ends
 * @param nslots        > 0, the same at both ends
 * @param params        consumer: what memory the slots are; NULL for default host memory.
 *                      Producer: NULL
 * @param channel_p     to be given back with nixl_channel_close()
 * @return NIXL_OK
 * @return NIXL_ERR_INVALID_ARG  a bad name, rank, role, size or number; ends that differ
 * @return NIXL_ERR_NAME_IN_USE  this rank has such an end
 * @return NIXL_ERR_NOT_FOUND    producer: the consumer's end did not open within
 *                               NIXLRUN_RESOLVE_TIMEOUT
 * and as nixl_region_alloc() and nixl_get(). Threads: any; an end is used by one thread at a time.
 */
NIXL_API int nixl_channel_open(const char *name, int peer, enum nixl_channel_role role,
                               size_t slot_nbytes, size_t nslots,
                               const struct nixl_mem_params *params,
                               struct nixl_channel **channel_p) NIXL_MUST_CHECK;

/**
 * Producer: the memory to fill for the next item, slot_nbytes of it; the same again until it is
 * published. The consumer's slot itself where it can be mapped, else memory of this rank.
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_ERR_TIMEOUT   all slots are full
 * @return NIXL_ERR_STALE        the consumer has closed its end
 * @return NIXL_ERR_PEER_LOST    the consumer has died
 * @return NIXL_ERR_INVALID_ARG  not a producer's end, slot_p NULL, a negative timeout
 */
NIXL_API int nixl_channel_acquire(struct nixl_channel *channel, int64_t timeout_ns,
                                  void **slot_p) NIXL_MUST_CHECK;

/**
 * Producer: hand the acquired slot over. The consumer sees its first @p nbytes as they are now.
 * @param nbytes  0 .. slot_nbytes
 * @return NIXL_OK, NIXL_ERR_INVALID_ARG (nothing is acquired, nbytes too large), and as nixl_put()
 */
NIXL_API int nixl_channel_publish(struct nixl_channel *channel, size_t nbytes) NIXL_MUST_CHECK;

/**
 * Consumer: the next item, where it lies. Several may be received before the first is released.
 * @param slot_p    its slot, until nixl_channel_release()
 * @param nbytes_p  its size, or NULL
 * @param rank_p    who published it, or NULL
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_ERR_TIMEOUT   there is none
 * @return NIXL_ERR_STALE        there is none, and the producer has closed its end (with
 *                               NIXL_ANY_RANK: never)
 * @return NIXL_ERR_PEER_LOST    there is none, and the producer has died. With NIXL_ANY_RANK once
 *                               for each rank that dies and has not closed its end, after all that
 *                               it had published; the rank is in nixl_last_error()
 * @return NIXL_ERR_INVALID_ARG  not a consumer's end, slot_p NULL, a negative timeout
 */
NIXL_API int nixl_channel_receive(struct nixl_channel *channel, int64_t timeout_ns, void **slot_p,
                                  size_t *nbytes_p, int *rank_p) NIXL_MUST_CHECK;

/**
 * Consumer: give a slot back to its producer; those of one producer in the order in which they were
 * received. @return NIXL_OK, NIXL_ERR_INVALID_ARG (not the oldest that is held)
 */
NIXL_API int nixl_channel_release(struct nixl_channel *channel, void *slot) NIXL_MUST_CHECK;

/**
 * Close an end. The other one gets NIXL_ERR_STALE, a consumer after it has received everything.
 * What a producer has published is not lost.
 * @param timeout_ns  as nixl_region_close()
 * @return NIXL_OK; NIXL_ERR_TIMEOUT (NIXL_INPROGRESS with 0): call again; NIXL_ERR_INVALID_ARG
 */
NIXL_API int nixl_channel_close(struct nixl_channel *channel, int64_t timeout_ns);

/* ---- paired operations ----------------------------------------------------------------------- */

/** What the partner may do with a buffer that is exposed. */
enum nixl_pair_use {
    NIXL_PAIR_READ = 1,  /**< copy it out: nixl_pair_read() */
    NIXL_PAIR_WRITE = 2, /**< fill it: nixl_pair_write() */
};

/** Room for a token: 80 characters (A-Z a-z 0-9 - _) and the final zero. */
#define NIXL_TOKEN_NBYTES 81

/**
 * Expose a buffer for one use: one partner may read it, or write it, once and as a whole.
 *
 * The token is what the partner needs. It is text that fits a JSON string, an HTTP header or a
 * command line, and travels by whatever way the application has. Whoever of the job has it may use
 * it, unless @p rank names who; the first one does. Both sides reach an end without further calls:
 * the request of this side is complete when the partner is through, and tells how it went; it also
 * makes an armed event fd readable. NIXL Connect of NVIDIA's Dynamo works in this manner.
 *
 * To cancel the request (nixl_req_cancel()) takes the buffer back unless the partner has begun,
 * else waits for the partner. Closing the region cancels what has not begun. A request that is let
 * go (nixl_req_free()) leaves the buffer exposed until it is used or expires.
 *
 * @param rank         who may use it, or NIXL_ANY_RANK; may be the caller
 * @param region       with a part of this rank, of any kind of memory; offset + nbytes <= its size
 * @param nbytes       0 is allowed: then the two only meet
 * @param lifetime_ns  > 0: the partner begins within this time or not at all; or NIXL_FOREVER
 * @param token_p      the token
 * @param req_p        the request, for nixl_req_wait() and the like
 * @return NIXL_INPROGRESS        exposed
 * @return NIXL_ERR_INVALID_ARG   a bad rank, handle, use or lifetime; a region without an own part
 * @return NIXL_ERR_RANGE         outside of the own part
 * @return NIXL_ERR_LIMIT         4,096 buffers are exposed
 * @return NIXL_ERR_NO_MEMORY
 * The request ends with NIXL_OK: used, and what was written is visible; NIXL_ERR_CANCELED: by
 * either side, or the region was closed; NIXL_ERR_EXPIRED; NIXL_ERR_PEER_LOST: the partner that is
 * named, or had begun, has died; or with what else the partner's transfer has failed with, where
 * some bytes may have moved. Threads: any.
 */
NIXL_API int nixl_pair_expose(int rank, struct nixl_region *region, uint64_t offset, size_t nbytes,
                              enum nixl_pair_use use, int64_t lifetime_ns,
                              char token_p[NIXL_TOKEN_NBYTES],
                              struct nixl_req **req_p) NIXL_MUST_CHECK;

/** What a token tells. */
struct nixl_pair_info {
    size_t struct_nbytes;
    int rank; /**< the exposer */
    enum nixl_pair_use use;
    uint64_t nbytes;
};
#define NIXL_PAIR_INFO_INIT                                                                        \
    {                                                                                              \
        .struct_nbytes = sizeof(struct nixl_pair_info)                                             \
    }

/**
 * Read a token, so that a buffer of its size can be made. Asks nobody: it may be used already.
 * @return NIXL_OK, NIXL_ERR_INVALID_ARG (damaged, cut, of another version, or of another job).
 * Threads: any.
 */
NIXL_API int nixl_pair_query(const char *token, struct nixl_pair_info *info_p) NIXL_MUST_CHECK;

/**
 * Read the buffer that a token names, all of it. The exposer is asked within the call, which may
 * block as the first use of a region does; then the bytes move as by nixl_get_nb(), and the exposer
 * is told at their end without another call. Nothing is touched unless the token is good.
 *
 * @param token   as nixl_pair_expose() wrote it, with its final zero; any bytes are safe
 * @param dst     any alignment and kind of memory, as for nixl_get()
 * @param nbytes  exactly the size of the buffer
 * @param req_p   written only with NIXL_INPROGRESS. Its cancel ends the exposer's request, too
 * @return NIXL_OK                complete
 * @return NIXL_INPROGRESS        started
 * @return NIXL_ERR_INVALID_ARG   the token is damaged, forged, of another job, for another rank or
 *                                the other use; nbytes is not its size; dst NULL with nbytes > 0
 * @return NIXL_ERR_STALE         the token was used already, is in use by another rank, or is of a
 *                                process before this one; or the exposer has left
 * @return NIXL_ERR_EXPIRED       its lifetime is over
 * @return NIXL_ERR_CANCELED      the exposer has taken it back
 * and as nixl_get_nb(). Threads: any.
 */
NIXL_API int nixl_pair_read(const char *token, void *dst, size_t nbytes,
                            struct nixl_req **req_p) NIXL_MUST_CHECK;

/** Fill the buffer that a token names from @p src; else as nixl_pair_read(). */
NIXL_API int nixl_pair_write(const char *token, const void *src, size_t nbytes,
                             struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Say that a token will not be used: the exposer's request ends with NIXL_ERR_CANCELED.
 * @return NIXL_OK, and as nixl_pair_read() for a token that is not good. Threads: any.
 */
NIXL_API int nixl_pair_decline(const char *token) NIXL_MUST_CHECK;

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
