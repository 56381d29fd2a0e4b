/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/job.h
 * Joining, leaving and ending the job; what ranks there are, and where.
 */
#ifndef NIXLRUN_JOB_H
#define NIXLRUN_JOB_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How many threads of the caller use the library. */
enum nixl_thread_level {
    NIXL_THREAD_MULTIPLE = 0, /**< any number at once (default) */
    NIXL_THREAD_SINGLE = 1,   /**< one at a time, serialised by the caller: locks are left out */
};

struct nixl_init_params {
    size_t struct_nbytes;
    int32_t thread_level; /**< enum nixl_thread_level */
};
#define NIXL_INIT_PARAMS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct nixl_init_params), NIXL_THREAD_MULTIPLE                                      \
    }

/**
 * Join the job.
 *
 * Under a launcher that speaks PMIx (nixlrun, mpirun, srun --mpi=pmix, prterun) this finds the
 * other ranks; without one the process is a job of one rank. Calls are counted: each needs its own
 * nixl_finalize(). A later call may raise SINGLE to MULTIPLE. Calling it again after the last
 * finalize works.
 *
 * @param params  NULL for the defaults
 * @return NIXL_OK              the rank is a member
 * @return NIXL_E_INVALID_ARG params are invalid, or a NIXLRUN_* variable has a bad value (the
 *                              detail names it and what is allowed)
 * @return NIXL_E_TRANSPORT     a launcher's environment is there but its server does not answer
 *                              (the detail names the variable and the PMIx status)
 * @return NIXL_E_TIMEOUT       the server or a peer was silent for NIXLRUN_INIT_TIMEOUT
 * @return NIXL_E_UNSUPPORTED the rank was started again after its process had ended without
 *                              nixl_finalize(), but not by nixlrun; or another copy of the
 *                              library in the process is already the rank; or the process has left
 *                              with NIXL_OP_KEEP; or the kernel refuses what a rank needs
 * @return NIXL_E_FORKED        the process is a fork of one that was in the job then, or in
 *                              nixl_init() or nixl_finalize()
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY  no descriptor, thread or memory left for the rank
 * Collective: the first call, over all ranks of the job; but in a process that nixlrun has started
 * again it waits for no other rank. Threads: any.
 */
NIXL_API int nixl_init(const struct nixl_init_params *params) NIXL_MUST_CHECK;

/**
 * Leave the job. The last of the counted calls completes the puts of this process, waits until the
 * living ranks have made theirs too, then closes all regions, which other ranks may use until then,
 * and frees everything. Requests that were not waited for end. Who asks for a region that this
 * process has not published by then gets NIXL_E_PEER_LOST at once.
 *
 * It waits without limit, unless NIXLRUN_FINALIZE_TIMEOUT is set; in an elastic job (nixlrun
 * --elastic) for no other rank. A rank that leaves before the others is lost to them like one that
 * has died, but the event is NIXL_EVENT_PEER_LEFT.
 * @return NIXL_OK           also with NIXLRUN_FINALIZE_TIMEOUT 0, which waits for no other rank
 * @return NIXL_E_TIMEOUT    this rank has left, but others did not make the call in time; a line
 *                           on stderr names them
 * @return NIXL_E_TRANSPORT the program has closed descriptors of the library (closefrom()); this
 *                            rank has left without waiting
 * @return NIXL_E_NOT_INIT
 * Collective: the last call, over the living ranks. Threads: no other call may run in this process;
 * one that begins meanwhile returns NIXL_E_NOT_INIT if it checks for that; otherwise its
 * behaviour is undefined. With --enable-debug it aborts and names the call.
 */
NIXL_API int nixl_finalize(void);

struct nixl_op;

/**
 * The extended form of nixl_finalize(): how long the last call waits for the others, and for copies
 * of theirs that are in flight, instead of NIXLRUN_FINALIZE_TIMEOUT. Of struct nixl_op, only
 * `timeout_ns` and NIXL_OP_KEEP are used. A `timeout_ns` of 0 is the variable, NIXL_AT_ONCE waits
 * for no other rank.
 *
 * With NIXL_OP_KEEP the last call leaves the job, and other ranks find all regions closed. In this
 * process their memory, the slots of channels and what nixl_region_map() has given stay mapped,
 * allocated and pinned. The flag is for a process that is about to end while threads or kernels may
 * still use that memory. The process cannot join again: nixl_init() returns NIXL_E_UNSUPPORTED.
 * @return as nixl_finalize(), and NIXL_E_INVALID_ARG, NIXL_E_UNSUPPORTED (op is bad, or has another
 *         flag: the job is not left)
 */
NIXL_API int nixl_finalize_x(const struct nixl_op *op);

/**
 * My rank, 0 <= rank < nixl_size(), or NIXL_E_NOT_INIT. That failure leaves nixl_last_error()
 * unchanged, so that a message about another failure can begin with the rank. Threads: any.
 */
NIXL_API int nixl_rank(void);

/** The number of ranks in the job, or NIXL_E_NOT_INIT, as nixl_rank(). Threads: any. */
NIXL_API int nixl_size(void);

/**
 * How many processes of my rank have been in the job before this one: 0 for the first, more if
 * nixlrun has started the rank again (--on-failure restart); or NIXL_E_NOT_INIT, as nixl_rank().
 * Threads: any.
 */
NIXL_API int nixl_incarnation(void);

/**
 * My number among the ranks that the launcher has started on my host, in the order of ranks, and
 * the number of those ranks: 0 <= nixl_local_rank() < nixl_local_size(). If the launcher does not
 * say which ranks share a host, all ranks count as if they were on one. NIXL_E_NOT_INIT as
 * nixl_rank(). To learn whether memory is shared with a rank, call nixl_scope(). Threads: any.
 */
NIXL_API int nixl_local_rank(void);
NIXL_API int nixl_local_size(void);

/**
 * The number of my program among those of the job, from 0 in the order of the command line, where
 * ':' separates them; 0 if the launcher does not say. NIXL_E_NOT_INIT as nixl_rank(). Threads:
 * any.
 */
NIXL_API int nixl_program(void);

/** Where a rank runs, relative to this one. */
enum nixl_scope_kind {
    NIXL_SCOPE_SELF = 0,   /**< this process */
    NIXL_SCOPE_LOCAL = 1,  /**< same host, proven: its control memory is mapped */
    NIXL_SCOPE_REMOTE = 2, /**< another host, or no proof */
};

/**
 * The scope of @p rank (enum nixl_scope_kind), or a negative status. The first call for a rank
 * connects to it: it may block up to NIXLRUN_RESOLVE_TIMEOUT. Threads: any.
 */
NIXL_API int nixl_scope(int rank);

/** Host name of @p rank, valid until nixl_finalize(); NULL on failure. Threads: any. */
NIXL_API const char *nixl_host(int rank);

/** Which process a rank is, where it runs, and whether it lives. */
struct nixl_peer_info {
    size_t struct_nbytes;
    uint64_t job;         /**< the same for all ranks of a job, different for another job */
    int rank;             /**< the number that was asked for */
    uint32_t incarnation; /**< processes of the rank in the job before: 0, its first one */
    int32_t state;        /**< enum nixl_peer_liveness */
    int32_t scope;        /**< enum nixl_scope_kind */
    char host[72];        /**< as nixl_host(); "": lost before it was known */
    char why[400];        /**< NIXL_PEER_LOST: the cause; "": not lost, or it is not known */
    int32_t job_rank;     /**< its rank in `job`; of a rank of this job, `rank` */
    int32_t job_size;     /**< how many ranks `job` has */
};
#define NIXL_PEER_INFO_INIT                                                                        \
    {                                                                                              \
        sizeof(struct nixl_peer_info), 0, 0, 0, 0, 0, "", "", 0, 0                                 \
    }

/**
 * Describe a rank. The first call for a rank connects to it, as nixl_scope() does; a rank that is
 * lost or has left is described likewise, without waiting.
 *
 * A rank that is lost or has left stays so for this process, and no other process is reached under
 * its number, until nixl_peer_readmit().
 * @param rank    0 <= rank < nixl_size(); may be the caller
 * @param info_p  made with NIXL_PEER_INFO_INIT; written only with NIXL_OK. Owned by the caller
 * @return NIXL_OK, NIXL_E_INVALID_ARG, NIXL_E_NOT_INIT, NIXL_E_NO_MEMORY
 * @return NIXL_E_TIMEOUT  the rank has not answered within NIXLRUN_RESOLVE_TIMEOUT
 * Threads: any.
 */
NIXL_API int nixl_peer_query(int rank, struct nixl_peer_info *info_p) NIXL_MUST_CHECK;

/**
 * The number of a rank of a job, the inverse of nixl_peer_query(): of an attached process, or of a
 * rank of this job. Numbers of one process mean nothing to another one, so programs send `job` and
 * `job_rank`. Looks only at what is attached; see nixl_attach_rank().
 * @param job       as nixl_peer_query() tells it
 * @param job_rank  the rank in that job
 * @param rank_p    written with NIXL_OK only
 * @return NIXL_OK, NIXL_E_INVALID_ARG, NIXL_E_NOT_INIT
 * @return NIXL_E_NOT_FOUND  no living process of that rank is attached to this one
 * Never blocks. Threads: any.
 */
NIXL_API int nixl_peer_number(uint64_t job, int job_rank, int *rank_p) NIXL_MUST_CHECK;

/**
 * Readmit a rank that has come back: nixlrun has started it again (--on-failure restart), as
 * NIXL_EVENT_PEER_JOINED has told with the incarnation of the new process. From then on calls on
 * the rank mean that process, which cannot connect to this one before.
 *
 * Nothing of the former process is taken for the new one's. Names of regions are resolved anew at
 * their next use, so that open handles of regions go on. Notifications of the former process that
 * were not received are dropped. Its prepared transfers and tokens end with NIXL_E_STALE, requests
 * and channels with it with NIXL_E_PEER_LOST; they are freed by their own calls. Teams with the
 * rank stay broken; nixl_team_reform() makes one with the new process. Channels for any rank go
 * on: the new process opens its end.
 * @param rank         0 <= rank < nixl_size(), not the caller
 * @param incarnation  of the process that is meant, from the event
 * @return NIXL_OK             also if that process has been readmitted before
 * @return NIXL_E_PEER_LOST    that process has ended, too, or has not come
 * @return NIXL_E_INVALID_ARG  the rank or the incarnation is not allowed; the detail says why
 * @return NIXL_E_LIMIT, NIXL_E_NO_MEMORY, NIXL_E_NOT_INIT
 * Never blocks. Threads: any.
 */
NIXL_API int nixl_peer_readmit(int rank, uint32_t incarnation) NIXL_MUST_CHECK;

/**
 * End the whole job: print why on stderr, ask the launcher to kill all ranks, and exit.
 * @param exit_code  of the job; 0 counts as 1
 * @param why        one line for the user, or NULL
 * Does not return. Usable without nixl_init(): then it ends this process only. Threads: any.
 */
NIXL_API void nixl_abort(int exit_code, const char *why) NIXL_NORETURN;

/**
 * End the whole job in order, from one rank, without nixl_finalize(): the launcher asks all other
 * ranks to end (SIGTERM, and SIGKILL when --kill-grace is over), and this process exits at once, as
 * by _exit(): flush its output first.
 * @param exit_code  of the job, 0 to 255; it holds even if a rank has failed before
 * @param why        one line for the user on stderr, or NULL: nothing is printed
 * Does not return. Only nixlrun guarantees this, with each of its engines; under another launcher
 * the job is aborted, and that launcher decides what happens to the code. Usable without
 * nixl_init(): then it ends this process only. Threads: any.
 */
NIXL_API void nixl_job_end(int exit_code, const char *why) NIXL_NORETURN;

/**
 * Kill one rank by SIGKILL, as if it had died by itself: the others get its NIXL_EVENT_PEER_LOST,
 * and nixlrun ends the job or continues as --on-failure says. For testing how a program survives a
 * death, and for ranks that no longer answer. With the caller's own rank it does not return.
 * @return NIXL_OK                the kill is on its way; also if the rank is already dead
 * @return NIXL_E_INVALID_ARG     @p rank is not in the job
 * @return NIXL_E_UNSUPPORTED     the rank is on another host, or in a PID namespace that is not
 *                                visible here, and the launcher is not nixlrun itself (which is
 *                                also the case under its engines)
 * @return NIXL_E_NOT_INIT, NIXL_E_FORKED  there is no job
 * @return NIXL_E_TRANSPORT       the launcher does not answer, or the system refuses it
 * Blocks up to NIXLRUN_RESOLVE_TIMEOUT if the rank was not used before. Threads: any.
 */
NIXL_API int nixl_rank_kill(int rank) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_JOB_H */
