/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope around UCX's addresses and keys when ranks exchange them. Does not use UCX. */
#ifndef NXR_UCX_ENVELOPE_H
#define NXR_UCX_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#define NXR_UCX_ADDRESS_MAGIC 0x6278756eu /* "nuxb" */
#define NXR_UCX_KEY_MAGIC     0x6b78756eu /* "nuxk" */

/*
 * In the sender's byte order: UCX does not work across byte orders either, and the magic shows it.
 */
struct nxr_ucx_envelope {
    uint32_t magic;
    uint32_t checksum; /* of all bytes, computed with this field as 0 */
    uint16_t nbytes;   /* after the envelope */
    uint8_t ucx_major; /* the sender's UCX */
    uint8_t ucx_minor;
    uint8_t kinds;     /* NXR_UCX_HAS_*; 0 in a key */
    uint8_t unused[3]; /* 0 */
    uint64_t id;       /* of the process: random; 0 in a key */
    uint64_t base;     /* where the memory of a key lies at its owner; 0 in an address */
};

/* Put the envelope in front of `contents`. Returns 0 if that takes more than `room` bytes. */
size_t nxr_ucx_wrap(struct nxr_ucx_envelope *envelope, const void *contents, size_t nbytes,
                    void *bytes, size_t room);

/*
 * Unwrap it: NIXL_OK, the envelope and its contents; or NIXL_E_UNSUPPORTED and why. The bytes may
 * be malformed and need no alignment.
 */
int nxr_ucx_unwrap(uint32_t magic, const void *bytes, size_t nbytes,
                   struct nxr_ucx_envelope *envelope_p, const void **contents_p, char *why,
                   size_t why_nbytes);

#endif
