/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries in etcd: who has published a name, and at which addresses it listens. Their proof covers
 * all of an entry and its key, so that nobody can make one, change it, or put it under another key
 * without the token. Nothing of the schema is in it: that is told to who has proved itself. No
 * state.
 */
#ifndef NXR_ATTACH_ENTRY_ETCD_H
#define NXR_ATTACH_ENTRY_ETCD_H

#include "attach/proof.h"
#include "core/card.h"
#include "etcd/etcd.h"

/* Fill in an entry without contacts and proof. False: no random numbers. */
bool nxr_entry_etcd_make(const struct nxr_card *card, const char *name,
                         struct nxr_etcd_entry *entry_p);

void nxr_entry_etcd_prove(struct nxr_etcd_entry *entry, const char *key,
                          const unsigned char secret[NXR_PROOF_SECRET_NBYTES]);
bool nxr_entry_etcd_is_proved(const struct nxr_etcd_entry *entry, const char *key,
                              const unsigned char secret[NXR_PROOF_SECRET_NBYTES]);

/* Who has made it. */
struct nxr_identity nxr_entry_etcd_identity(const struct nxr_etcd_entry *entry);

#endif
