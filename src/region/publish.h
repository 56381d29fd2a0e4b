/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The own regions of this rank: names, keys, and who has asked for them. A peer that asks for a
 * name that is not there yet is parked until it is. All functions: caller holds job.lock.
 */
#ifndef NXR_REGION_PUBLISH_H
#define NXR_REGION_PUBLISH_H

#include "control/dispatch.h"
#include "core/job.h"

struct nxr_memory;
struct nxr_net_published;

/* An own region that peers may reach. */
struct nxr_published {
    struct nxr_key key;
    struct nxr_export export;
    int fd;                        /* to hand out with the key, or -1 */
    unsigned char *openers;        /* bit per rank that has the key; made with the first */
    struct nxr_net_published *net; /* what networks know of it (net/key.c); NULL: nothing */
    char name[];
};

/*
 * Publish under a new region number and generation. The memory's descriptor becomes the
 * publication's on success. NIXL_OK, NIXL_ERR_NAME_IN_USE, NIXL_ERR_LIMIT, NIXL_ERR_NO_MEMORY.
 */
int nxr_publish(const char *name, const struct nxr_memory *memory,
                struct nxr_published **published_p);

/* Where the own region with that number lies. For whoever has entered it: without job.lock. */
struct nxr_own_memory {
    char *addr;
    uint64_t nbytes;
    const struct nxr_range *range; /* device memory; NULL: host memory */
};
struct nxr_own_memory nxr_publish_memory(uint32_t id);

/* The own region of that name, or NULL. */
struct nxr_published *nxr_publish_find(const char *name);

/* Revoke: the generation is cleared, the name is free, and peers that have the key are told. */
void nxr_publish_revoke(struct nxr_published *published);

/* Give back number and memory, after all copies have ended. Closes fd. */
void nxr_publish_free(struct nxr_published *published);

/*
 * Make the region of a peer's question, when no name of the program fits: NULL if it is none of the
 * maker's. One maker, for names that no program can give. Set before anything starts.
 */
typedef struct nxr_published *nxr_publish_maker(const struct nxr_peer *peer, const char *name);
void nxr_publish_make_by(char initial, nxr_publish_maker *maker);

/* A peer asks for a name: answer, or park the question. */
void nxr_publish_ask(const struct nxr_control_source *source, uint64_t ask, const char *name);

/* A connection closes: forget what is parked on it. Or the rank that asked over a network ended. */
void nxr_publish_unpark(struct nxr_list *parked);
void nxr_publish_unpark_remote(const struct nxr_peer *peer);

/* Forget everything (last finalize). */
void nxr_publish_reset(void);

/* Register what takes questions for own regions. */
void nxr_publish_register(void);

#endif
