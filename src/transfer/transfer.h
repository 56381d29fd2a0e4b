/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls on words share with put and get: finding a part, and saying what went wrong. */
#ifndef NXR_TRANSFER_TRANSFER_H
#define NXR_TRANSFER_TRANSFER_H

#include "region/region.h"

/* Check rank, handle and local buffer. */
int nxr_transfer_check(const char *operation, int rank, const struct nixl_region *region,
                       const void *local, size_t nbytes);

/* Check rank and handle, find the part, asking its owner if need be, and check the range. */
int nxr_transfer_find_part(const char *operation, int rank, struct nixl_region *region,
                           uint64_t offset, size_t nbytes, struct nxr_part **part_p);

/* What a transport's failure means to the caller: records and returns it. */
int nxr_transfer_fail(const char *operation, int status, struct nixl_region *region,
                      struct nxr_part *part);

/* The same of a copy. */
int nxr_transfer_fail_copy(const char *operation, int status, struct nixl_region *region,
                           struct nxr_part *part);

/*
 * Put bytes to a peer of this host within the call, where that does not take long. False: it has to
 * be started, or nothing is known of the part yet, or something is wrong.
 */
bool nxr_transfer_put_here(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                           size_t nbytes);

/* nixl_put() for `operation`. */
int nxr_transfer_put(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     const void *src, size_t nbytes);

/* nixl_get() for `operation`. */
int nxr_transfer_get(const char *operation, int rank, struct nixl_region *region, uint64_t offset,
                     void *dst, size_t nbytes);

/*
 * The part, if a network reaches it and a put of host memory can be tried at once; NULL: nothing is
 * known of it yet, or it is another kind of part, or something is wrong.
 */
struct nxr_part *nxr_transfer_message_part(int rank, struct nixl_region *region, uint64_t offset,
                                           const void *local, size_t nbytes);

/*
 * A put, and behind it something that must not overtake it. Where the transport keeps the order,
 * that does not wait for the word that the put has arrived, which is one trip more; the caller
 * does, whose buffer is in use. The failure of the put, or else what `then` returned.
 */
int nxr_transfer_put_then(const char *operation, int rank, struct nixl_region *region,
                          const struct nxr_piece *what, int (*then)(void *), void *arg);

/* nixl_put_signal() for `operation`, with any change of the word. `word_part` is not read. */
int nxr_transfer_put_signal(const char *operation, int rank, struct nixl_region *region,
                            struct nixl_region *signal_region, const struct nxr_put_signal *what);

/* nixl_fence() for `operation`. */
int nxr_transfer_fence(const char *operation, struct nxr_peer *peer);

/*
 * Change a word that is in range and aligned, behind puts that have ended: those under way are not
 * waited for. Whoever waits for it is woken. Over a network a signal does not wait for the answer,
 * and *fetched_p is not written. Returns as the transport; nothing is recorded.
 */
int nxr_word_change(struct nxr_part *part, const struct nxr_atomic *atomic, bool is_signal,
                    uint64_t *fetched_p);

#endif
