/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs of callers whose header is older or newer than the library. No state, no lock. */
#include "util/struct.h"
#include "util/status.h"

#include <stdbool.h>
#include <stdio.h>

static size_t struct_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sizes are multiples of that of their first field. */
static bool struct_is_plausible(const struct nxr_struct_type *type, size_t nbytes)
{
    return nbytes >= type->smallest && nbytes <= NXR_STRUCT_MAX && nbytes % sizeof(size_t) == 0;
}

int nxr_struct_check(const char *operation, const char *argument,
                     const struct nxr_struct_type *type, const void *theirs)
{
    size_t smallest = (type->smallest + sizeof(size_t) - 1) / sizeof(size_t) * sizeof(size_t);

    if (theirs == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s is NULL", argument);
    }
    if (!struct_is_plausible(type, *(const size_t *)theirs)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "struct_nbytes of %s is %zu; %s has %zu bytes; allowed: multiples of %zu "
                        "from %zu to %d: initialize it with %s",
                        argument, *(const size_t *)theirs, type->name, type->nbytes, sizeof(size_t),
                        smallest, NXR_STRUCT_MAX, type->initializer);
    }
    return NIXL_OK;
}

int nxr_struct_read_other(const char *operation, const char *argument,
                          const struct nxr_struct_type *type, const void *theirs, void *ours)
{
    const unsigned char *bytes = theirs;
    int status = nxr_struct_check(operation, argument, type, theirs);
    size_t nbytes;

    if (status != NIXL_OK) {
        return status;
    }
    nbytes = *(const size_t *)theirs;
    for (size_t i = type->nbytes; i < nbytes; i++) {
        if (bytes[i] != 0) {
            return nxr_fail(NIXL_E_UNSUPPORTED, operation, -1, "", 0,
                            "%s was compiled with a newer header: byte %zu of %s is set, of which "
                            "this library knows the first %zu bytes",
                            argument, i, type->name, type->nbytes);
        }
    }
    memset(ours, 0, type->nbytes);
    memcpy(ours, theirs, struct_smaller(nbytes, type->nbytes));
    return NIXL_OK;
}

int nxr_struct_read_entry(const char *operation, const char *array,
                          const struct nxr_struct_type *type, const void *entries, size_t number,
                          void *ours)
{
    size_t stride = *(const size_t *)entries;
    const void *entry = (const unsigned char *)entries + number * stride;
    char argument[64];

    if (stride == type->nbytes && *(const size_t *)entry == stride) {
        memcpy(ours, entry, type->nbytes);
        return NIXL_OK;
    }
    snprintf(argument, sizeof(argument), "%s entry %zu", array, number);
    if (number > 0 && *(const size_t *)entry != stride) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "struct_nbytes of %s is %zu; allowed: %zu, which entry 0 has", argument,
                        *(const size_t *)entry, stride);
    }
    return nxr_struct_read_other(operation, argument, type, entry, ours);
}

void nxr_struct_write(const struct nxr_struct_type *type, const void *ours, void *theirs)
{
    size_t head = sizeof(size_t), nbytes = *(const size_t *)theirs;
    size_t n = struct_smaller(nbytes, type->nbytes);

    memcpy((unsigned char *)theirs + head, (const unsigned char *)ours + head, n - head);
    memset((unsigned char *)theirs + n, 0, nbytes - n);
}
