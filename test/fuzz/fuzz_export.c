/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer says of its device memory, or file: a struct nxr_export behind one byte for the kind
 * and eight for the size of the segment. What is accepted names a segment within its allocation,
 * and nothing in the fields that its type does not use.
 */
/* sources: src/memory/export.c */
#include "memory/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool has_bytes(const unsigned char *bytes, size_t nbytes)
{
    while (nbytes > 0 && bytes[nbytes - 1] == 0) {
        nbytes--;
    }
    return nbytes > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct nxr_export none;
    struct nxr_export export;
    enum nixl_mem_kind kind;
    uint64_t part;

    if (nbytes != 1 + sizeof(part) + sizeof(export)) {
        return 0;
    }
    kind = (enum nixl_mem_kind)(data[0] % (NIXL_MEM_FILE + 1));
    memcpy(&part, data + 1, sizeof(part));
    memcpy(&export, data + 1 + sizeof(part), sizeof(export));
    if (!nxr_export_is_sound(&export, kind, part)) {
        return 0;
    }
    if (export.type == NXR_EXPORT_NONE) {
        must(memcmp(&export, &none, sizeof(none)) == 0 && !nxr_export_has_fd(&export));
        return 0;
    }
    must(kind == NIXL_MEM_CUDA || kind == NIXL_MEM_VULKAN || kind == NIXL_MEM_FILE);
    must((export.type == NXR_EXPORT_VULKAN) == (kind == NIXL_MEM_VULKAN));
    must((export.type == NXR_EXPORT_FILE) == (kind == NIXL_MEM_FILE));
    must(export.nbytes <= INT64_MAX && export.offset <= export.nbytes);
    must(part <= export.nbytes - export.offset);
    must(export.unused == 0 && export.is_dedicated <= 1 && export.is_direct <= 1);
    must(export.is_direct == 0 || kind == NIXL_MEM_FILE);
    if (nxr_export_has_fd(&export) && export.type != NXR_EXPORT_CUDA_POOL) {
        must(!has_bytes(export.handle, sizeof(export.handle)));
    }
    return 0;
}
