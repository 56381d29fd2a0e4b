/* SPDX-License-Identifier: Apache-2.0 */
/* Local memory of any kind, for guarantees that touch none of it with the processor. */
#ifndef NXR_TEST_LOCAL_H
#define NXR_TEST_LOCAL_H

#include "conformance.h"

/* With a copy on the host of what it should hold. */
struct local {
    struct nixl_region *region; /* NULL: host memory */
    unsigned char *host;
    char *addr;
    size_t nbytes;
};
struct local conf_local(const char *name, enum nixl_mem_kind kind, size_t nbytes);
void conf_drop_local(struct local *local);

/* What stands on the host goes into the memory, or comes from there: by the rank's own puts. */
void conf_push(struct local *local, size_t at, size_t nbytes);
void conf_pull(struct local *local, size_t at, size_t nbytes);

/* The first byte of "local" while a transfer may write it: a hint, unchecked by ThreadSanitizer. */
unsigned char conf_peek(struct local *local);

/* Write to the rank's own segment of any kind, or read it. */
void conf_fill_segment(const struct segment *segment, size_t at, const void *bytes, size_t nbytes);
void conf_read_segment(const struct segment *segment, size_t at, void *bytes, size_t nbytes);

#endif
