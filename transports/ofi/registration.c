/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering memory with libfabric: with one rail, for regions, buffers and operations alike. The
 * callers own the handles; no state and no lock of its own.
 */
#include "config.h"

#include "ofi.h"
#include "util/random.h"

#include <rdma/fi_errno.h>

int nxr_ofi_rail_register_kind(struct nxr_ofi_rail *rail, const struct nxr_ofi_bytes *bytes,
                               uint64_t access, uint64_t key, struct fid_mr **mr_p)
{
    const struct iovec iov = {bytes->addr, bytes->nbytes};
    /* No device ordinal: providers derive it from the address. */
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = access,
                              .requested_key = key,
                              .iface =
                                  bytes->kind == NIXL_MEM_CUDA ? FI_HMEM_CUDA : FI_HMEM_SYSTEM};
    struct fid_mr *mr;
    int rc;

    if (bytes->kind != NIXL_MEM_HOST && !rail->has_hmem) {
        return -FI_ENOSYS;
    }
    if (key == NXR_OFI_NEW_KEY) {
        if (!nxr_random(&attr.requested_key, sizeof(attr.requested_key))) {
            return -FI_ENODATA;
        }
        attr.requested_key >>= 1; /* some providers keep the highest bit for themselves */
    }
    rc = fi_mr_regattr(rail->domain, &attr, 0, &mr);

    if (rc == 0 && (rail->mr_mode & FI_MR_ENDPOINT) != 0) {
        rc = fi_mr_bind(mr, &rail->ep->fid, 0);
        rc = rc == 0 ? fi_mr_enable(mr) : rc;
        if (rc != 0) {
            fi_close(&mr->fid);
        }
    }
    if (rc != 0) {
        return rc;
    }
    *mr_p = mr;
    return 0;
}

int nxr_ofi_rail_register(struct nxr_ofi_rail *rail, const void *bytes, size_t nbytes,
                          uint64_t access, uint64_t key, struct fid_mr **mr_p)
{
    const struct nxr_ofi_bytes host = {(void *)bytes, nbytes, NIXL_MEM_HOST};

    return nxr_ofi_rail_register_kind(rail, &host, access, key, mr_p);
}

void nxr_ofi_mr_close(struct fid_mr *mr)
{
    if (mr != NULL) {
        fi_close(&mr->fid);
    }
}

void *nxr_ofi_mr_desc(struct fid_mr *mr)
{
    return mr != NULL ? fi_mr_desc(mr) : NULL;
}
