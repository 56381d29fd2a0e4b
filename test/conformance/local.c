/* SPDX-License-Identifier: Apache-2.0 */
/* Local memory of any kind, and its copy on the host. */
#include "local.h"

#include <stdlib.h>
#include <string.h>

struct local conf_local(const char *name, enum nixl_mem_kind kind, size_t nbytes)
{
    struct local local = {.host = malloc(nbytes), .nbytes = nbytes};
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;

    MPT_TRUE(local.host != NULL);
    if (kind == NIXL_MEM_HOST) {
        local.addr = malloc(nbytes);
        MPT_TRUE(local.addr != NULL);
        return local;
    }
    params.kind = kind;
    MPT_OK(nixl_region_alloc(name, nbytes, &params, &local.region));
    local.addr = nixl_region_addr(local.region);
    return local;
}

void conf_drop_local(struct local *local)
{
    if (local->region != NULL) {
        MPT_OK(nixl_region_close(local->region, MPT_PATIENCE));
    } else {
        free(local->addr);
    }
    free(local->host);
}

void conf_push(struct local *local, size_t at, size_t nbytes)
{
    if (local->region != NULL) {
        MPT_OK(nixl_put(conf.rank, local->region, at, local->host + at, nbytes));
    } else {
        memcpy(local->addr + at, local->host + at, nbytes);
    }
}

void conf_fill_segment(const struct segment *segment, size_t at, const void *bytes, size_t nbytes)
{
    MPT_OK(nixl_put(conf.rank, segment->region, at, bytes, nbytes));
}

void conf_read_segment(const struct segment *segment, size_t at, void *bytes, size_t nbytes)
{
    MPT_OK(nixl_get(conf.rank, segment->region, at, bytes, nbytes));
}

void conf_pull(struct local *local, size_t at, size_t nbytes)
{
    if (local->region != NULL) {
        MPT_OK(nixl_get(conf.rank, local->region, at, local->host + at, nbytes));
    } else {
        memcpy(local->host + at, local->addr + at, nbytes);
    }
}

/* ThreadSanitizer would call this read a race, rightly; it only matters whether a byte came. */
__attribute__((no_sanitize("thread"))) static unsigned char byte_at(const volatile void *addr)
{
    return *(const volatile unsigned char *)addr;
}

unsigned char conf_peek(struct local *local)
{
    if (local->region != NULL) {
        conf_pull(local, 0, 1);
        return local->host[0];
    }
    return byte_at(local->addr);
}
