/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the transport for a peer: the cheapest one that is allowed, works here and reaches it. */
#ifndef NXR_CORE_ROUTE_H
#define NXR_CORE_ROUTE_H

#include "transports/transport.h"

/* Probe what NIXLRUN_TRANSPORTS allows; once, at init. */
void nxr_route_init(void);

/* Does NIXLRUN_TRANSPORTS allow that transport? */
bool nxr_route_is_allowed(const char *name);

/*
 * The transport for peers of that scope, or NULL and one line in `why` for each that was refused.
 */
const struct nxr_transport *nxr_route_choose(enum nixl_scope_kind scope, char *why,
                                             size_t why_nbytes);

/* The name of a method: "memcpy"...; "" of NXR_METHOD_NONE. */
const char *nxr_method_name(enum nxr_method method);

/*
 * By what the owner reads and writes a segment that is storage. NXR_METHOD_NONE: it is none, or it
 * is not known. In a key it is its marks; nxr_storage_marks() are those of an engine.
 */
enum nxr_method nxr_key_storage(const struct nxr_key *key);
uint8_t nxr_storage_marks(const char *engine);

/* What own storage is reached by, in reports: no processor and no GPU copies it. */
extern const char nxr_storage_route[];

/*
 * The next usable transport, from *index_p on, that reaches memory of that kind of peers of that
 * scope. NULL: there are no more.
 */
const struct nxr_transport *nxr_route_next(size_t *index_p, enum nixl_scope_kind scope,
                                           enum nixl_mem_kind kind);

/*
 * The transports one by one, the cheapest first; NULL after the last. Also whether it can be used
 * here, and if not, why. Constant after init.
 */
const struct nxr_transport *nxr_route_at(size_t index, bool *is_usable_p, const char **why_p);

/*
 * What to expect of a transport by that method; 0 where it is not known. `peer` may be NULL for a
 * transport of this host.
 */
void nxr_route_expect_of(const struct nxr_transport *transport, const struct nxr_peer *peer,
                         enum nxr_method method, uint64_t *latency_ns_p,
                         uint64_t *bandwidth_mbps_p);

/* The same for the route to a segment. */
void nxr_route_expect(const struct nxr_segment *segment, uint64_t *latency_ns_p,
                      uint64_t *bandwidth_mbps_p);

/* The same from or to that local memory; covers copies by a GPU and staged transfers. */
void nxr_route_expect_between(const struct nxr_segment *segment, const void *local,
                              uint64_t *latency_ns_p, uint64_t *bandwidth_mbps_p);

#endif
