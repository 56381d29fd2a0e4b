/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contacts: the addresses, "tcp://HOST:PORT", at which processes of other hosts reach one that has
 * published a name. No state.
 */
#ifndef NXR_ATTACH_CONTACTS_H
#define NXR_ATTACH_CONTACTS_H

#include "etcd/etcd.h"

#include <stddef.h>
#include <stdint.h>

#define NXR_MAX_CONTACTS   NXR_ETCD_MAX_CONTACTS
#define NXR_CONTACT_NBYTES NXR_ETCD_CONTACT_NBYTES

/* Is NIXLRUN_ANNOUNCE allowed? NIXL_OK, or NIXL_E_INVALID_ARG and `why`. */
int nxr_contacts_check(char *why, size_t why_nbytes);

/*
 * Name the addresses at which others reach a process that listens at this host and port: first the
 * one that the user announces; then the host itself, or, if it stands for all addresses, those of
 * this host's interfaces. Returns how many.
 */
unsigned nxr_contacts_find(const char *host, uint16_t port, char contacts[][NXR_CONTACT_NBYTES]);

#endif
