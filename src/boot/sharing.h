/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of this host that may run on the same cores. */
#ifndef NXR_BOOT_SHARING_H
#define NXR_BOOT_SHARING_H

#include "core/card.h"

#include <pmix.h>

/*
 * How many ranks of this host, this one included, have the same set of cores in their card: the
 * kept ones, or else PMIx's values of `key`. Call it when all ranks have met.
 */
int nxr_sharing_count(const struct nxr_card *mine, const pmix_proc_t *self, int size,
                      const char *key);

#endif
