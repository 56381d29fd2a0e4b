/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regions of this rank: names, keys, and the ranks that have asked for them. A question about a
 * name that is not published yet is parked until it is. All functions: caller holds job.lock.
 */
#ifndef NXR_REGION_PUBLISH_H
#define NXR_REGION_PUBLISH_H

#include "control/dispatch.h"
#include "core/job.h"

struct nxr_memory;
struct nxr_net_published;
struct nxr_extents;

/* A region of this rank that peers may reach. */
struct nxr_published {
    struct nxr_key key;
    struct nxr_export export;
    int fd;                            /* to send with the key, or -1 */
    unsigned char *openers;            /* a bit for each peer that has the key, by its number */
    int n_openers;                     /* bits of `openers` */
    bool has_any_opener;               /* there was no memory to note one: any peer may be */
    struct nxr_net_published *net;     /* the networks' state of it (net/key.c); NULL: none */
    const struct nxr_published *whole; /* an extent: of this region; else NULL */
    const struct nxr_extents *extents; /* the region's, if it has no memory itself; else NULL */
    char name[];                       /* "": none */
};

/*
 * Publish under a new region id and generation; with the name "" for this rank alone, so that no
 * question finds it. On success the publication owns the memory's
 * descriptor. NIXL_OK, NIXL_E_NAME_IN_USE, NIXL_E_LIMIT, NIXL_E_NO_MEMORY.
 */
int nxr_publish(const char *name, const struct nxr_memory *memory,
                struct nxr_published **published_p);

/*
 * Publish a region of extents: each of them without a name, then the name. All or none; on success
 * the publications own the memories' descriptors. Returns as nxr_publish().
 */
int nxr_publish_extents(const char *name, struct nxr_extents *extents, uint32_t access,
                        struct nxr_published **published_p);

/* The extent of a region of that generation; NULL: it is another region by now. */
struct nxr_published *nxr_publish_extent(const struct nxr_published *whole, uint64_t generation,
                                         uint32_t extent);

/*
 * The memory of this rank's region with that id. For a caller that has entered the region: without
 * job.lock.
 */
struct nxr_own_memory {
    char *addr;
    uint64_t nbytes;
    const struct nxr_range *range; /* device memory; NULL: host memory */
    uint32_t access;               /* of enum nixl_access: what peers may not do */
};
struct nxr_own_memory nxr_publish_memory(uint32_t id);

/* The region of this rank with that name, or NULL. */
struct nxr_published *nxr_publish_find(const char *name);

/*
 * Revoke: clears the generation, frees the name, and tells the peers that have the key, unless this
 * rank is leaving. Its extents are revoked with a region, and freed with it.
 */
void nxr_publish_revoke(struct nxr_published *published);

/* Free the publication and its id, after all copies have ended. Closes fd. */
void nxr_publish_free(struct nxr_published *published);

/*
 * Make the region of a peer's question about a name that is not published. *published_p left as it
 * is: it is none of the maker's, or the maker publishes it later: the question is parked. For names
 * that the library gives, each kind with a prefix of its own. Set before anything starts; may be
 * repeated. NIXL_OK, NIXL_E_NO_MEMORY: the peer is told.
 */
#define NXR_PUBLISH_MAKERS 2
typedef int nxr_publish_maker(const struct nxr_peer *peer, const char *name,
                              struct nxr_published **published_p);
void nxr_publish_make_by(const char *prefix, nxr_publish_maker *maker);

/* A peer asks for a name: answer, or park the question. */
void nxr_publish_ask(const struct nxr_control_source *source, uint64_t ask, const char *name);

/*
 * This rank's program is in its last nixl_finalize() and publishes nothing any more: tell those who
 * wait for a name, and from now on those who ask for one that there is none.
 */
void nxr_publish_leave(void);

/*
 * The library of this rank, too, publishes no region of that name, a constant, any more: tell those
 * who wait for it, and who ask. One name until the last nixl_finalize() is over. job.lock.
 */
void nxr_publish_end(const char *name);

/* Does anyone, here or elsewhere, wait for a name that is not published yet? */
bool nxr_publish_is_awaited(void);

/* A connection closes: forget what is parked on it. Or the rank that asked over a network ended. */
void nxr_publish_unpark(struct nxr_list *parked);
void nxr_publish_unpark_remote(const struct nxr_peer *peer);

/* Forget everything (last finalize). */
void nxr_publish_reset(void);

/* Register the handlers of questions about this rank's regions. */
void nxr_publish_register(void);

#endif
