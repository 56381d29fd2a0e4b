/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a key: an entry as a JSON object. No state. */
#ifndef NXR_ETCD_VALUE_H
#define NXR_ETCD_VALUE_H

#include "etcd/etcd.h"

#define NXR_ETCD_ENTRY_VERSION 1

/* The value for an entry, to be freed by free(); NULL: no memory. */
char *nxr_etcd_value_write(const struct nxr_etcd_entry *entry);

/* Read any bytes. NULL and *entry_p; or what is wrong with them, and *entry_p is untouched. */
const char *nxr_etcd_value_read(const char *bytes, size_t nbytes, struct nxr_etcd_entry *entry_p);

#endif
