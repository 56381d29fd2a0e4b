/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The envelope around UCX's addresses and keys. UCX parses both without knowing their length, so
 * input from another process is checked here first: magic, length, checksum, version. This detects
 * what is corrupted, truncated, or from another program. It cannot detect an attack: anyone who
 * knows the checksum can pass any bytes to UCX's parsers, and UCX's own connections require no
 * secret. Do not use UCX over TCP on a network with hostile hosts. Pure functions, no lock.
 */
#include "config.h"

#include "envelope.h"
#include "transports/network.h"

#include <stdio.h>
#include <string.h>

/* FNV-1a: short, and good enough against accidents. */
static uint32_t checksum_add(uint32_t sum, const void *bytes, size_t nbytes)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < nbytes; i++) {
        sum = (sum ^ byte[i]) * 16777619u;
    }
    return sum;
}

static uint32_t ucx_envelope_checksum(const struct nxr_ucx_envelope *envelope, const void *contents)
{
    struct nxr_ucx_envelope bare = *envelope;

    bare.checksum = 0;
    return checksum_add(checksum_add(2166136261u, &bare, sizeof(bare)), contents, envelope->nbytes);
}

size_t nxr_ucx_wrap(struct nxr_ucx_envelope *envelope, const void *contents, size_t nbytes,
                    void *bytes, size_t room)
{
    if (nbytes == 0 || nbytes > UINT16_MAX || sizeof(*envelope) + nbytes > room) {
        return 0;
    }
    envelope->nbytes = nbytes;
    envelope->checksum = ucx_envelope_checksum(envelope, contents);
    memcpy(bytes, envelope, sizeof(*envelope));
    memcpy((char *)bytes + sizeof(*envelope), contents, nbytes);
    return sizeof(*envelope) + nbytes;
}

int nxr_ucx_unwrap(uint32_t magic, const void *bytes, size_t nbytes,
                   struct nxr_ucx_envelope *envelope_p, const void **contents_p, char *why,
                   size_t why_nbytes)
{
    const char *contents = (const char *)bytes + sizeof(struct nxr_ucx_envelope);
    struct nxr_ucx_envelope envelope;

    if (nbytes <= sizeof(envelope)) {
        snprintf(why, why_nbytes, "%zu bytes are too few", nbytes);
        return NIXL_E_UNSUPPORTED;
    }
    memcpy(&envelope, bytes, sizeof(envelope));
    if (envelope.magic != magic) {
        snprintf(why, why_nbytes, "it begins with %#x, not with %#x", envelope.magic, magic);
        return NIXL_E_UNSUPPORTED;
    }
    if (envelope.nbytes != nbytes - sizeof(envelope)) {
        snprintf(why, why_nbytes, "it says %u bytes and has %zu", envelope.nbytes,
                 nbytes - sizeof(envelope));
        return NIXL_E_UNSUPPORTED;
    }
    if (envelope.checksum != ucx_envelope_checksum(&envelope, contents)) {
        snprintf(why, why_nbytes, "its checksum is wrong");
        return NIXL_E_UNSUPPORTED;
    }
    *envelope_p = envelope;
    *contents_p = contents;
    return NIXL_OK;
}
