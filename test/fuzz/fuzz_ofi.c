/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libfabric network's addresses, keys and frames: what is taken lies within its limits, and two
 * addresses that are taken have only rails that both have.
 */
/* sources: transports/ofi/address.c transports/ofi/frame.c */
#include "nixlrun.h"
#include "transports/ofi/address.h"
#include "transports/ofi/frame.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_pairs(const struct nxr_ofi_address *a, const struct nxr_ofi_address *b)
{
    int pairs[NXR_OFI_MAX_RAILS];
    unsigned n = nxr_ofi_pair(a, b, pairs), n_found = 0;

    for (unsigned i = 0; i < NXR_OFI_MAX_RAILS; i++) {
        check(pairs[i] == -1 || (i < a->n_rails && pairs[i] >= 0 && pairs[i] < b->n_rails));
        n_found += pairs[i] >= 0;
    }
    check(n == n_found);
}

static void try_address(const uint8_t *data, size_t nbytes)
{
    struct nxr_ofi_address address, again;
    const char *why;

    if (nxr_ofi_address_parse(data, nbytes, &address, &why) != NIXL_OK) {
        check(why != NULL);
        return;
    }
    check(address.n_rails >= 1 && address.n_rails <= NXR_OFI_MAX_RAILS);
    check(nxr_ofi_address_nbytes(address.n_rails) == nbytes);
    check(memchr(address.provider, 0, sizeof(address.provider)) != NULL);
    check_pairs(&address, &address);
    again = address;
    again.n_rails = 1;
    check_pairs(&address, &again);
    check_pairs(&again, &address);
}

static void try_key(const uint8_t *data, size_t nbytes)
{
    struct nxr_ofi_key key;
    const char *why;

    if (nxr_ofi_key_parse(data, nbytes, &key, &why) != NIXL_OK) {
        check(why != NULL);
        return;
    }
    for (unsigned i = 0; i < key.n_rails; i++) {
        check(key.rails[i].base + key.nbytes >= key.nbytes);
    }
}

/* The sums are put right, else no input would come past them. */
static void seal(uint8_t *bytes, size_t nbytes)
{
    if (nbytes == sizeof(struct nxr_ofi_address)) {
        nxr_ofi_address_seal((struct nxr_ofi_address *)(void *)bytes);
    } else {
        nxr_ofi_key_seal((struct nxr_ofi_key *)(void *)bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const size_t offset = offsetof(struct nxr_ofi_address, n_rails);
    _Alignas(8) uint8_t bytes[4096] = {0};
    uint64_t own_id = 0;

    if (nbytes > sizeof(bytes)) {
        return 0;
    }
    memcpy(bytes, data, nbytes);
    try_address(bytes, nbytes);
    try_key(bytes, nbytes);
    if (nbytes > offset && bytes[offset] <= NXR_OFI_MAX_RAILS) {
        seal(bytes, sizeof(struct nxr_ofi_address));
        try_address(bytes, nbytes);
        seal(bytes, sizeof(struct nxr_ofi_key));
        try_key(bytes, nbytes);
    }
    memcpy(bytes, data, nbytes);
    memcpy(&own_id, bytes + offsetof(struct nxr_ofi_frame, to), sizeof(own_id));
    if (nxr_ofi_frame_check(bytes, nbytes, own_id) == NULL) {
        const struct nxr_ofi_frame *frame = (const struct nxr_ofi_frame *)(const void *)bytes;

        check(sizeof(*frame) + frame->nbytes <= nbytes && frame->type < NXR_OFI_N_TYPES);
    }
    return 0;
}
