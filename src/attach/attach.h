/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder keep and share; the README says what each owns. Lock: job.lock. */
#ifndef NXR_ATTACH_ATTACH_H
#define NXR_ATTACH_ATTACH_H

#include "attach/where.h"
#include "core/job.h"

struct nxr_listener;

/* The attached peer of that identity which lives; NULL: there is none. Caller holds job.lock. */
struct nxr_peer *nxr_attach_known(const struct nxr_identity *identity);

/* What another process has told of itself, by an introduction or a referral. */
struct nxr_met {
    const struct nxr_full_card *card;
    int32_t number;   /* it has no living attachment to this process with a lower one */
    int32_t job_size; /* of its job */
    const char *name; /* of the publication by which the two, or their jobs, have met */
};

/*
 * The attached peer of that process: the living one, or a new one. NIXL_OK or the failure of
 * nxr_attached_add(). *is_new_p: it was made by this call. Caller holds job.lock.
 */
int nxr_attach_peer(const struct nxr_met *met, struct nxr_peer **peer_p, bool *is_new_p);

/* The name of the publication by which that attached peer, or its job, was met. */
const char *nxr_attach_name(const struct nxr_peer *peer);

/* Does this process look for a way to that peer, which it attaches to? Caller holds job.lock. */
bool nxr_attach_is_asking(const struct nxr_peer *peer);

/*
 * This process attaches to that peer, which names it by that number: nxr_attach_join() follows.
 * Caller holds job.lock.
 */
void nxr_attach_begin(struct nxr_peer *peer, int32_t number);

/* The two are connected: tell the program, once. Caller holds job.lock. */
void nxr_attach_join(struct nxr_peer *peer);

/*
 * Show an attached process in the observation page while it lives, and how it is reached
 * (observed.c). Caller holds job.lock.
 */
void nxr_attach_observe(const struct nxr_peer *peer);
void nxr_attach_observe_end(struct nxr_peer *peer);
void nxr_attach_observe_stop(void);

/* Does this process publish that name there, by whatever path? Takes job.lock. */
bool nxr_attach_publishes(const struct nxr_where *where, const char *name);

/*
 * The schema of this process's publication of that name at that listener, and the secret that
 * attachers must know; NULL: there is none. Caller holds job.lock.
 */
const char *nxr_publication_schema(const struct nxr_listener *listener, const char *name,
                                   const unsigned char **secret_p);

/*
 * Check where, name and schema of a call; NULL as schema is "". NIXL_OK and *where_p, or the
 * failure of `operation`, recorded.
 */
int nxr_attach_check(const char *operation, const char *text, const char *name, const char **schema,
                     struct nxr_where *where_p);

extern const struct nxr_subsystem nxr_publish_subsystem;  /* publish.c */
extern const struct nxr_subsystem nxr_referral_subsystem; /* referral.c */
extern const struct nxr_subsystem nxr_detach_subsystem;   /* detach.c */

#endif
