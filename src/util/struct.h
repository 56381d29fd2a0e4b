/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public structs that grow at their end. The caller's struct begins with its size, `struct_nbytes`,
 * and may be of an older header (shorter) or of a newer one (longer) than the library's.
 *
 * An input is copied into a struct of the library's size: fields that the caller does not have are
 * zero, which means the default in every field; bytes that the library does not know must be zero.
 * An output is written as far as both have it, and the rest of the caller's is zeroed. A new field
 * begins at the former sizeof, never in its padding, which callers leave undefined.
 */
#ifndef NXR_UTIL_STRUCT_H
#define NXR_UTIL_STRUCT_H

#include "nixlrun.h"

#include <stddef.h>
#include <string.h>

/* The largest size that is believed: more is taken for a struct that was not initialized. */
#define NXR_STRUCT_MAX 4096

/* A public struct: its name, the macro that initializes it, its size, and the least it can have. */
struct nxr_struct_type {
    const char *name, *initializer;
    size_t nbytes, smallest;
};

/* `_needed`: the last field that every caller has, since the first version or by necessity. */
#define NXR_STRUCT_TYPE(_tag, _initializer, _needed)                                               \
    {                                                                                              \
        .name = "struct " #_tag, .initializer = #_initializer, .nbytes = sizeof(struct _tag),      \
        .smallest = offsetof(struct _tag, _needed) + sizeof(((struct _tag *)NULL)->_needed)        \
    }

/* nxr_struct_read() of a struct that is NULL or has another size than the library's. */
int nxr_struct_read_other(const char *operation, const char *argument,
                          const struct nxr_struct_type *type, const void *theirs, void *ours);

/*
 * Copy the caller's input struct `argument` (a word for messages) into one of the library's size.
 * NIXL_E_INVALID_ARG: NULL, or no plausible size; NIXL_E_UNSUPPORTED: a byte that the library
 * does not know is set. Both are reported as a failure of `operation`.
 */
static inline int nxr_struct_read(const char *operation, const char *argument,
                                  const struct nxr_struct_type *type, const void *theirs,
                                  void *ours)
{
    if (theirs != NULL && *(const size_t *)theirs == type->nbytes) {
        memcpy(ours, theirs, type->nbytes);
        return NIXL_OK;
    }
    return nxr_struct_read_other(operation, argument, type, theirs, ours);
}

/*
 * The same without a copy if the struct has the library's size, for calls whose time counts.
 * Returns the caller's struct, or `ours`; NULL: *status_p is the failure.
 */
static inline const void *nxr_struct_view(const char *operation, const char *argument,
                                          const struct nxr_struct_type *type, const void *theirs,
                                          void *ours, int *status_p)
{
    if (theirs != NULL && *(const size_t *)theirs == type->nbytes) {
        return theirs;
    }
    *status_p = nxr_struct_read_other(operation, argument, type, theirs, ours);
    return *status_p == NIXL_OK ? ours : NULL;
}

/*
 * Copy entry `number` of the caller's array of input structs. The stride is the size that the first
 * entry has; all others must have the same.
 */
int nxr_struct_read_entry(const char *operation, const char *array,
                          const struct nxr_struct_type *type, const void *entries, size_t number,
                          void *ours);

/* Can the caller's output struct `argument` be written? Reports NIXL_E_INVALID_ARG if not. */
int nxr_struct_check(const char *operation, const char *argument,
                     const struct nxr_struct_type *type, const void *theirs);

/* Write the caller's output struct, which was checked, except for its struct_nbytes. */
void nxr_struct_write(const struct nxr_struct_type *type, const void *ours, void *theirs);

#endif
