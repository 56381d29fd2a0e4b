/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/stats.h
 * How much went where: counters of each peer, path and operation, which are always on.
 */
#ifndef NIXLRUN_STATS_H
#define NIXLRUN_STATS_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is counted. */
enum nixl_stats_op {
    NIXL_STATS_PUT = 0,        /**< bytes written to the peer */
    NIXL_STATS_GET = 1,        /**< bytes read from it */
    NIXL_STATS_ATOMIC = 2,     /**< words of it changed or read, signals included */
    NIXL_STATS_NOTIFY = 3,     /**< notifications sent to it; bytes: payloads */
    NIXL_STATS_RECEIVE = 4,    /**< notifications taken from it */
    NIXL_STATS_COLLECTIVE = 5, /**< calls, of no peer; name and transport: "barrier" */
    NIXL_STATS_WAIT = 6,       /**< waits that slept; of no peer */
    NIXL_STATS_WAKE = 7,       /**< times that a thread of the peer was woken from its sleep */

    NIXL_STATS_CHANNEL_SEND = 8,    /**< items published in a channel; name: the channel */
    NIXL_STATS_CHANNEL_RECEIVE = 9, /**< items received from one */
    NIXL_STATS_RAIL_SEND = 10,      /**< what a network has sent to the peer; name: the rail */
    NIXL_STATS_RAIL_RECEIVE = 11    /**< ... and received from it */
};

/** Any operation up to NIXL_STATS_WAKE, for nixl_stats_sum(): the others count bytes again. */
#define NIXL_STATS_ANY (~0u)

#define NIXL_STATS_NAME_NBYTES 64 /**< of a name in struct nixl_stats, with its end */

/** Number of buckets of a histogram. */
#define NIXL_STATS_NBUCKETS 40

/**
 * Times of operations. Bucket i has those from 2^i ns to less than 2^(i+1) ns; the first also what
 * is shorter, and the last what is longer.
 */
struct nixl_stats_times {
    uint64_t count;                        /**< how many were timed */
    uint64_t sum_ns;                       /**< of all of them */
    uint64_t max_ns;                       /**< the longest */
    uint64_t buckets[NIXL_STATS_NBUCKETS]; /**< how many in each; together `count` */
};

/**
 * The counters of one peer, path and operation since nixl_init(). They only grow: to count from a
 * moment on, subtract what was read then. Bytes count when they have moved.
 *
 * Of an operation that is done within its call only its number and bytes are counted. Of those that
 * take time, one in eight is timed, and each of 64 KiB or more: `post` is the time in which a
 * transport accepts it, `complete` the time from its start until it has ended. Of waits,
 * `complete` is how long they took.
 *
 * Collectives have counters for each team size: `complete` is the time of calls, of one in 256, and
 * of each with 256 KiB or more; `wait` the time within a call in which it waited for other members,
 * of all calls that waited for longer than about a microsecond. Channels have counters for each
 * name and peer: `wait` are the times for which a thread slept in nixl_channel_acquire() for a free
 * slot, or in nixl_channel_recv() for an item, and `nretries` is how often there was none at first;
 * a consumer for any rank counts these for no peer.
 *
 * Rails are what a network spreads its bytes over: network interfaces or adapters. Their operations
 * are messages, and pieces of reads and writes, with the bytes of the network's own protocol;
 * `nretries` is how often a rail had no room, `nfailed` how often a connection by it has failed.
 * What an adapter writes into the memory of this rank, or reads from it, only the other one counts.
 * UCX reports neither how it spreads bytes over its lanes nor who sent them. So it has one rail,
 * "ucx", and what it receives counts for no peer.
 *
 * What the library moves for itself is counted as well where it uses puts, gets or atomics. A
 * prepared transfer counts as the puts or gets that its transport carries out for it, which may be
 * one for many blocks. Direct copies inside of collectives and channels count as neither put nor
 * get.
 */
struct nixl_stats {
    size_t struct_nbytes;
    int rank;    /**< the peer; -1: none, or several */
    unsigned op; /**< an enum nixl_stats_op, or NIXL_STATS_ANY: several */
    /** "self", "shm", "tcp"..., "staging", "device", "storage"; "": none, or several */
    char transport[16];
    /** as in nixl_route_info; of storage, what reads or writes it; "": none, or several */
    char method[12];
    unsigned reserved;
    uint64_t nops;      /**< operations that succeeded */
    uint64_t nbytes;    /**< their bytes */
    uint64_t nfailed;   /**< operations that failed or were canceled after they had been started */
    uint64_t nrequests; /**< those of `nops` that were not done within their call */
    uint64_t nretries;  /**< how often one found no room and had to wait */
    uint64_t nstages;   /**< pieces that went through a staging buffer */
    struct nixl_stats_times post;
    struct nixl_stats_times complete;
    char name[NIXL_STATS_NAME_NBYTES]; /**< of a collective, channel or rail, cut; else "" */
    unsigned nmembers;                 /**< of the teams of a collective; else 0 */
    unsigned reserved_too;
    struct nixl_stats_times wait; /**< of collectives and channels */
};
#define NIXL_STATS_INIT                                                                            \
    {                                                                                              \
        sizeof(struct nixl_stats), 0, 0, "", "", 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, {0}},              \
            {0, 0, 0, {0}}, "", 0, 0,                                                              \
        {                                                                                          \
            0, 0, 0,                                                                               \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/**
 * The counters one by one, in the order in which they were first used. Those of one peer, path,
 * operation and name keep their index until nixl_finalize(); new ones come at the end. Others can
 * read the same without this process: `nixlrun top`, `nixlrun --stats`, `nixlrun --metrics`.
 *
 * @param index    0, 1, ... until NIXL_E_NOT_FOUND
 * @param stats_p  made with NIXL_STATS_INIT
 * @return NIXL_OK, NIXL_E_NOT_FOUND (no counters of that number), NIXL_E_INVALID_ARG,
 *         NIXL_E_NO_MEMORY
 * Threads: any. Nothing waits, and no operation is held up.
 */
NIXL_API int nixl_stats_query(unsigned index, struct nixl_stats *stats_p) NIXL_MUST_CHECK;

/**
 * The sum of all counters that match.
 *
 * @param rank       a peer; NIXL_ANY_RANK: all, and none
 * @param op         an enum nixl_stats_op; NIXL_STATS_ANY: all up to NIXL_STATS_WAKE
 * @param transport  its name; NULL: all
 * @param stats_p    made with NIXL_STATS_INIT; zeros if nothing was counted
 * @return NIXL_OK, NIXL_E_INVALID_ARG, NIXL_E_NO_MEMORY
 * Threads: any.
 */
NIXL_API int nixl_stats_sum(int rank, unsigned op, const char *transport,
                            struct nixl_stats *stats_p) NIXL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_STATS_H */
