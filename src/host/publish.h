/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The own regions of this rank: names, keys, and who has asked for them. A peer that asks for a
 * name that is not there yet is parked until it is. All functions: caller holds job.lock.
 */
#ifndef NXR_HOST_PUBLISH_H
#define NXR_HOST_PUBLISH_H

#include "host/conn.h"

/* An own region that peers may reach. */
struct nxr_published {
    struct nxr_key key;
    int fd;                 /* allocated memory, or -1 */
    unsigned char *openers; /* bit per rank that has the key; made with the first */
    char name[];
};

/*
 * Publish under a new region number and generation (filled into *key). `fd` becomes the
 * publication's on success. NIXL_OK, NIXL_ERR_NAME_IN_USE, NIXL_ERR_LIMIT, NIXL_ERR_NO_MEMORY.
 */
int nxr_publish(const char *name, struct nxr_key *key, int fd, struct nxr_published **published_p);

/* Where the own region with that number lies. For whoever has entered it: without job.lock. */
struct nxr_own_memory {
    char *addr;
    uint64_t nbytes;
};
struct nxr_own_memory nxr_publish_memory(uint32_t id);

/* The own region of that name, or NULL. */
struct nxr_published *nxr_publish_find(const char *name);

/* Revoke: the generation is cleared, the name is free, and peers that have the key are told. */
void nxr_publish_revoke(struct nxr_published *published);

/* Give back number and memory, after all copies have ended. Closes fd. */
void nxr_publish_free(struct nxr_published *published);

/* A peer asks: answer, or park the question. */
void nxr_publish_ask(struct nxr_conn *conn, uint64_t ask, const char *name);

/* The connection of a parked question is gone. */
void nxr_publish_unpark(struct nxr_conn *conn);

/* Forget everything (last finalize). */
void nxr_publish_reset(void);

#endif
