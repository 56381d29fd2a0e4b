/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry in etcd, kept there by a lease: a thread of its own renews the lease, and puts the entry
 * again if etcd has lost it. While etcd is away it tries again and again; attached processes notice
 * nothing. A process that dies takes its entry with it, when the lease ends. Callers hold no lock.
 */
#ifndef NXR_ATTACH_LEASE_ETCD_H
#define NXR_ATTACH_LEASE_ETCD_H

#include "attach/entry_etcd.h"
#include "attach/where.h"

#define NXR_ETCD_LEASE_SECONDS 10

struct nxr_etcd_lease;

/*
 * Put an entry, whose proof this call makes; `where` must stay. It waits until that is done or has
 * failed, which takes no longer than NXR_ETCD_LEASE_SECONDS and some: so long an owner that nobody
 * reaches may be alive. NIXL_OK; NIXL_E_IN_USE: a living process has published the name, or the key
 * is not nixlrun's; NIXL_E_TIMEOUT: etcd is away; NIXL_E_ACCESS, NIXL_E_UNSUPPORTED,
 * NIXL_E_TRANSPORT, NIXL_E_LIMIT, NIXL_E_NO_MEMORY. `why` says so in words.
 */
int nxr_etcd_lease_begin(const struct nxr_where *where, const struct nxr_etcd_entry *entry,
                         const unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                         struct nxr_etcd_lease **lease_p, char why[NXR_ETCD_WHY_NBYTES]);

/* Withdraw the entry. Takes up to a second if etcd is away; the entry then goes by itself. */
void nxr_etcd_lease_end(struct nxr_etcd_lease *lease);

#endif
