/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing one of several GPUs: by number, by UUID, or the nearest. The same wording for all kinds.
 */
#ifndef NXR_MEMORY_CHOOSE_H
#define NXR_MEMORY_CHOOSE_H

#include <stddef.h>

#define NXR_DEVICE_ID_NBYTES 48 /* a device's UUID as text */

struct nxr_device_id {
    unsigned char uuid[16];
    char pci[32]; /* such as 0000:3b:00.0; "": not known */
};

/*
 * Choose a device. `wanted` is what the caller of nixl_region_alloc() gave: NULL or "nearest"
 * (nearest to the CPUs that the calling thread may run on; the ranks of a host take such devices in
 * turn), a number from 0, or a UUID with or without "GPU-" before it. NIXL_OK; NIXL_E_NO_DEVICE
 * if there is no such device; NIXL_E_INVALID_ARG for any other text. Failures put one line into
 * `why`.
 */
int nxr_device_choose(const char *wanted, const char *kind_name, const struct nxr_device_id *ids,
                      size_t n_ids, size_t *index_p, char *why, size_t why_nbytes);

/* "GPU-" and the UUID. */
void nxr_device_id_text(const unsigned char uuid[16], char text[NXR_DEVICE_ID_NBYTES]);

#endif
