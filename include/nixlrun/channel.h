/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/channel.h
 * Channels: one-way queues of slots in the consumer's memory.
 */
#ifndef NIXLRUN_CHANNEL_H
#define NIXLRUN_CHANNEL_H

#include <nixlrun/base.h>
#include <nixlrun/region.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 * A producer may close its end and open it again. If the consumer's end is open for any rank, a
 * process that has come back (nixl_peer_readmit()) opens its own, too, and goes on behind the items
 * that the former one had published; an item that this one died in does not exist. If it is open
 * for one rank, it is for one process, and the next one gets NIXL_E_STALE.
 *
 * Attached processes may be producers of an end that is open for any rank. The consumer's library
 * allocates the slots of each when it opens its end, and frees them in nixl_channel_recv() when the
 * process has ended and all its items are given back.
 *
 * @param name          1 .. NIXL_CHANNEL_NAME_MAX bytes; a consumer has one channel of that name in
 *                      each context
 * @param peer          the other end's rank, may be the caller; NIXL_ANY_RANK, for a consumer: any
 *                      number of producers, each with nslots of its own
 * @param role          of this end
 * @param slot_nbytes   > 0, the same at both ends
 * @param nslots        > 0, the same at both ends
 * @param params        consumer: the kind of memory for the slots; NULL for default host memory.
 *                      Producer: NULL. Both: with `context`, the name is in that context, where the
 *                      other end is found only if it names it too; it stays open until both ends
 *                      are closed. A producer's params name nothing else.
 * @param channel_p     the end, to be closed with nixl_channel_close()
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG    a bad name, rank, role, size or number; ends that differ
 * @return NIXL_E_NAME_IN_USE    this rank already has such an end
 * @return NIXL_E_NOT_FOUND      producer: the consumer's end did not open within
 *                               NIXLRUN_RESOLVE_TIMEOUT
 * @return NIXL_E_STALE          producer: the consumer's end is open for a former process of this
 *                               rank
 * and as nixl_region_alloc() at the consumer, if this is an attached process;
 * and as nixl_region_alloc() and nixl_get(). Threads: any; one thread at a time may use an end.
 */
NIXL_API int nixl_channel_open(const char *name, int peer, enum nixl_channel_role role,
                               size_t slot_nbytes, size_t nslots,
                               const struct nixl_mem_params *params,
                               struct nixl_channel **channel_p) NIXL_MUST_CHECK;

/**
 * Producer: the memory to fill for the next item, slot_nbytes long. Further calls return the same
 * memory until it is published. It is the consumer's slot itself if that can be mapped, else memory
 * of this rank.
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_E_TIMEOUT   all slots are full
 * @return NIXL_E_STALE          the consumer has closed its end
 * @return NIXL_E_PEER_LOST      the consumer has died; or all slots are full, and it is in
 *                               nixl_finalize(): after a second or two
 * @return NIXL_E_INVALID_ARG    not a producer's end, slot_p NULL, a negative timeout
 */
NIXL_API int nixl_channel_acquire(struct nixl_channel *channel, int64_t timeout_ns,
                                  void **slot_p) NIXL_MUST_CHECK;

/**
 * Producer: hand the acquired slot over. The consumer sees its first @p nbytes as they are at this
 * moment.
 * @param nbytes  0 .. slot_nbytes
 * @return NIXL_OK, NIXL_E_INVALID_ARG (nothing is acquired, nbytes too large), and as nixl_put()
 */
NIXL_API int nixl_channel_publish(struct nixl_channel *channel, size_t nbytes) NIXL_MUST_CHECK;

/**
 * Consumer: the next item, in place. Several may be received before the first is released.
 * @param slot_p    its slot, valid until nixl_channel_release()
 * @param nbytes_p  its size, or NULL
 * @param rank_p    the rank that published it, or NULL
 * @return NIXL_OK
 * @return NIXL_INPROGRESS (timeout 0), NIXL_E_TIMEOUT   there is no item
 * @return NIXL_E_STALE          there is no item, and the producer has closed its end (never with
 *                               NIXL_ANY_RANK)
 * @return NIXL_E_PEER_LOST      there is no item, and the producer has died, or is in
 *                               nixl_finalize(): after a second or two. With NIXL_ANY_RANK:
 *                               once for each process that dies without closing its end (an
 *                               attached one: that has opened its end and was not detached), after
 *                               all that it had published and before what the next process of that
 *                               rank publishes; the rank is in nixl_last_error(). It is -1 if all
 *                               others that live are in nixl_finalize(), as nixl_notify_recv() says
 * @return NIXL_E_INVALID_ARG    not a consumer's end, slot_p NULL, a negative timeout
 */
NIXL_API int nixl_channel_recv(struct nixl_channel *channel, int64_t timeout_ns, void **slot_p,
                               size_t *nbytes_p, int *rank_p) NIXL_MUST_CHECK;

/**
 * Consumer: give a slot back to its producer. Slots of one producer must be released in the order
 * in which they were received. @return NIXL_OK, NIXL_E_INVALID_ARG (not the oldest that is held)
 */
NIXL_API int nixl_channel_release(struct nixl_channel *channel, const void *slot) NIXL_MUST_CHECK;

/**
 * Close an end. The other end gets NIXL_E_STALE: a consumer only after it has received
 * everything. Published items are not lost.
 * @param timeout_ns  as nixl_region_close()
 * @return NIXL_OK; NIXL_E_TIMEOUT (NIXL_INPROGRESS with 0): call again; NIXL_E_INVALID_ARG
 */
NIXL_API int nixl_channel_close(struct nixl_channel *channel, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_CHANNEL_H */
