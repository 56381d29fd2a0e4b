/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder keep and share; the README says what each owns. Lock: job.lock. */
#ifndef NXR_ATTACH_ATTACH_H
#define NXR_ATTACH_ATTACH_H

#include "attach/entry.h"
#include "core/job.h"

/*
 * The attached peer of that card: the living one, or a new one, known by the name under which the
 * two have met. NIXL_OK or the failure of nxr_attached_add(). *is_new_p: it was made by this call.
 * Caller holds job.lock.
 */
int nxr_attach_peer(const struct nxr_card *card, const char *name, struct nxr_peer **peer_p,
                    bool *is_new_p);

/* Does this process publish that name in that folder? Takes job.lock. */
bool nxr_attach_publishes(const char *dir, const char *name);

/*
 * Check where, name and schema of a call; NULL as schema is "". NIXL_OK and the folder, or the
 * failure of `operation`, recorded.
 */
int nxr_attach_check(const char *operation, const char *where, const char *name,
                     const char **schema, const char **dir_p);

extern const struct nxr_subsystem nxr_publish_subsystem; /* publish.c */
extern const struct nxr_subsystem nxr_detach_subsystem;  /* detach.c */

#endif
