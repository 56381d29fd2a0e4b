/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are published in etcd: the module that speaks to it, which is loaded when it is first
 * wanted, and clients with the user's settings. Callers hold no lock.
 */
#ifndef NXR_ATTACH_DIRECTORY_ETCD_H
#define NXR_ATTACH_DIRECTORY_ETCD_H

#include "attach/where.h"
#include "etcd/etcd.h"

#define NXR_ETCD_KEY_NBYTES 384

/* The calls of the module, after nxr_directory_etcd_load() only. */
extern const struct nxr_etcd_module *nxr_etcd;

/* Load the module. NIXL_OK, or NIXL_E_UNSUPPORTED and in words why not. */
int nxr_directory_etcd_load(char why[NXR_ETCD_WHY_NBYTES]);

/* The key of a name; "": what all names there begin with. */
void nxr_directory_etcd_key(const struct nxr_where *where, const char *name,
                            char key[NXR_ETCD_KEY_NBYTES]);

/*
 * A client for a thread of the library, which sleeps in its calls. NIXL_OK or the failure: no
 * module, a bad variable, a password that cannot be read or that others can read.
 */
int nxr_directory_etcd_open(const struct nxr_where *where, struct nxr_etcd **etcd_p,
                            char why[NXR_ETCD_WHY_NBYTES]);

/*
 * A client for the calling thread, which makes progress in its calls; give it back. The last one
 * that was given back stays connected, and is taken again for the same place and settings.
 */
int nxr_directory_etcd_take(const struct nxr_where *where, struct nxr_etcd **etcd_p,
                            char why[NXR_ETCD_WHY_NBYTES]);
void nxr_directory_etcd_give(const struct nxr_where *where, struct nxr_etcd *etcd);

/* "'a', 'b' and 4 more", or "none": the names that are published there; or why it is not known. */
void nxr_directory_etcd_names(const struct nxr_where *where, struct nxr_etcd *etcd, char *text,
                              size_t nbytes);

/* Close what is kept (last finalize). */
void nxr_directory_etcd_reset(void);

#endif
