/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded under kv_transfer by the test of that example: stands before nixl_put_nb and turns one
 * bit of the third put that goes through it, in the last byte. So the example must find a wrong
 * block.
 */
#include <nixlrun.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int put_fn(int, struct nixl_region *, uint64_t, const void *, size_t);
typedef int put_x_fn(int, struct nixl_region *, uint64_t, const void *, size_t,
                     const struct nixl_op *, struct nixl_req **);

int nixl_put_x(int rank, struct nixl_region *region, uint64_t offset, const void *src,
               size_t nbytes, const struct nixl_op *op, struct nixl_req **req_p)
{
    static _Atomic int n_puts;
    unsigned char *copy;
    int status;

    if (atomic_fetch_add(&n_puts, 1) != 2) {
        return ((put_x_fn *)dlsym(RTLD_NEXT, "nixl_put_x"))(rank, region, offset, src, nbytes, op,
                                                            req_p);
    }
    copy = malloc(nbytes);
    if (copy == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    memcpy(copy, src, nbytes);
    copy[nbytes - 1] ^= 0x10;
    status = ((put_fn *)dlsym(RTLD_NEXT, "nixl_put"))(rank, region, offset, copy, nbytes);
    free(copy);
    return status;
}
