/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots: what a subsystem keeps of each peer. All slots lie in one allocation, behind struct
 * nxr_peer, each at the beginning of a cache line. Their layout is computed once, when the list of
 * subsystems is set, so that a subsystem reaches its state of a peer by one load and one addition,
 * and no other folder sees it. The subsystem's table names the slot, and the functions that begin
 * and end it (core/subsystem.h).
 */
#ifndef NXR_CORE_PEER_SLOT_H
#define NXR_CORE_PEER_SLOT_H

#include "util/ring.h"

#include <stddef.h>

struct nxr_peer;

struct nxr_peer_slot {
    /* `offset` is read on data paths: nothing that changes shares its cache line. */
    _Alignas(NXR_LINE_NBYTES) size_t nbytes;
    size_t offset; /* from the beginning of struct nxr_peer; constant while there are peers */
};

/* A subsystem's state of a peer. Wrapped by one typed function of the subsystem. */
static inline void *nxr_peer_slot_of(const struct nxr_peer *peer, const struct nxr_peer_slot *slot)
{
    return (char *)peer + slot->offset;
}

#endif
