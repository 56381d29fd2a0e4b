/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope around UCX's addresses and keys: what a peer says, before UCX sees it. */
/* sources: transports/ucx/envelope.c */
#include "transports/network.h"
#include "transports/ucx/envelope.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_opened(uint32_t magic, const uint8_t *bytes, size_t nbytes)
{
    struct nxr_ucx_envelope envelope;
    const void *contents = NULL;
    char why[80] = "";

    if (nxr_ucx_unwrap(magic, bytes, nbytes, &envelope, &contents, why, sizeof(why)) != NIXL_OK) {
        if (why[0] == '\0' || contents != NULL) {
            abort();
        }
        return;
    }
    if (envelope.nbytes == 0 || (const uint8_t *)contents + envelope.nbytes != bytes + nbytes) {
        abort();
    }
}

/* What was wrapped opens; with any one byte changed it does not. */
static void check_wrapped(const uint8_t *data, size_t nbytes)
{
    struct nxr_ucx_envelope envelope = {.magic = NXR_UCX_KEY_MAGIC, .base = nbytes};
    uint8_t bytes[NXR_NET_KEY_NBYTES];
    size_t wrapped = nxr_ucx_wrap(&envelope, data, nbytes, bytes, sizeof(bytes));
    const void *contents;
    char why[80];

    if (wrapped == 0) {
        return;
    }
    if (nxr_ucx_unwrap(NXR_UCX_KEY_MAGIC, bytes, wrapped, &envelope, &contents, why, sizeof(why)) !=
            NIXL_OK ||
        envelope.base != nbytes || memcmp(contents, data, nbytes) != 0) {
        abort();
    }
    bytes[data[0] % wrapped] ^= 1;
    if (nxr_ucx_unwrap(NXR_UCX_KEY_MAGIC, bytes, wrapped, &envelope, &contents, why, sizeof(why)) ==
        NIXL_OK) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    check_opened(NXR_UCX_ADDRESS_MAGIC, data, nbytes);
    check_opened(NXR_UCX_KEY_MAGIC, data, nbytes);
    check_wrapped(data, nbytes);
    return 0;
}
