/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of a peer's memory. With RDMA the hardware performs them. Over TCP, UCX emulates
 * them at the target, slower than it moves bulk behind a message and without checking any key: they
 * are used there only if the user forces them. The end of a write says that its source may be
 * reused; the flush after it, that the bytes are visible. The core's lock.
 */
#include "config.h"

#include "envelope.h"
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

struct nxr_net_mem {
    ucp_mem_h ucp;
};

/* UCX unpacks a key for a connection, so that is put off until the first use. */
struct nxr_net_key {
    ucp_rkey_h ucp; /* NULL: not unpacked yet */
    uint64_t base;  /* address of the memory at its owner */
    unsigned char packed[];
};

static int pack_key(ucp_mem_h mem, void *addr, void *key, size_t *key_nbytes_p)
{
    struct nxr_ucx_envelope envelope = {
        .magic = NXR_UCX_KEY_MAGIC,
        .base = (uint64_t)(uintptr_t)addr,
    };
    void *packed;
    size_t nbytes, wrapped;

    if (ucp_rkey_pack(nxr_ucx.context, mem, &packed, &nbytes) != UCS_OK) {
        return NIXL_E_TRANSPORT;
    }
    wrapped = nxr_ucx_wrap(&envelope, packed, nbytes, key, NXR_NET_KEY_NBYTES);
    ucp_rkey_buffer_release(packed);
    if (wrapped == 0) {
        return NIXL_E_LIMIT;
    }
    *key_nbytes_p = wrapped;
    return NIXL_OK;
}

/* Did UCX recognize the kind of the memory that it has mapped? Not checked for host memory. */
static bool is_known(ucp_mem_h mem, enum nixl_mem_kind kind)
{
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};

    return kind == NIXL_MEM_HOST || (kind == NIXL_MEM_CUDA && ucp_mem_query(mem, &attr) == UCS_OK &&
                                     attr.mem_type == UCS_MEMORY_TYPE_CUDA);
}

/* UCX has no registration for some accesses only: its keys let peers read and write. */
int nxr_ucx_mem_register(void *addr, size_t nbytes, enum nixl_mem_kind kind, uint32_t access,
                         struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = addr,
        .length = nbytes,
    };
    struct nxr_net_mem *mem = malloc(sizeof(*mem));
    int status;

    (void)access;
    if (mem == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    if (ucp_mem_map(nxr_ucx.context, &params, &mem->ucp) != UCS_OK) {
        free(mem);
        return NIXL_E_TRANSPORT;
    }
    status =
        is_known(mem->ucp, kind) ? pack_key(mem->ucp, addr, key, key_nbytes_p) : NIXL_E_UNSUPPORTED;
    if (status != NIXL_OK) {
        nxr_ucx_mem_release(mem);
        return status;
    }
    *mem_p = mem;
    return NIXL_OK;
}

void nxr_ucx_mem_release(struct nxr_net_mem *mem)
{
    (void)ucp_mem_unmap(nxr_ucx.context, mem->ucp);
    free(mem);
}

int nxr_ucx_key_open(struct nxr_net_ep *ep, const void *bytes, size_t nbytes,
                     struct nxr_net_key **key_p)
{
    struct nxr_ucx_envelope envelope;
    struct nxr_net_key *key;
    const void *packed;
    char why[80];

    (void)ep;
    if (nxr_ucx_unwrap(NXR_UCX_KEY_MAGIC, bytes, nbytes, &envelope, &packed, why, sizeof(why)) !=
        NIXL_OK) {
        return NIXL_E_INVALID_ARG;
    }
    key = malloc(sizeof(*key) + envelope.nbytes);
    if (key == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    key->ucp = NULL;
    key->base = envelope.base;
    memcpy(key->packed, packed, envelope.nbytes);
    *key_p = key;
    return NIXL_OK;
}

/* May the key be used now? Returns as nxr_ucx_ep_use(). */
static int use_key(struct nxr_net_ep *ep, struct nxr_net_key *key)
{
    int status = nxr_ucx_ep_use(ep, false);

    if (status == NIXL_OK && key->ucp == NULL &&
        ucp_ep_rkey_unpack(ep->ucp, key->packed, &key->ucp) != UCS_OK) {
        key->ucp = NULL;
        status = NIXL_E_TRANSPORT;
    }
    return status;
}

void nxr_ucx_key_close(struct nxr_net_key *key)
{
    if (key->ucp != NULL) {
        ucp_rkey_destroy(key->ucp);
    }
    free(key);
}

static void free_request(void *request, ucs_status_t status, void *user_data)
{
    (void)status;
    (void)user_data;
    ucp_request_free(request);
}

static ucs_memory_type_t type_of(const struct nxr_net_op *op)
{
    return op->memory_kind == NIXL_MEM_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

int nxr_ucx_write(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, const void *src,
                  size_t nbytes, struct nxr_net_op *op)
{
    ucp_request_param_t put_param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb = {.send = free_request},
        .memory_type = type_of(op),
    };
    ucp_request_param_t flush_param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb = {.send = nxr_ucx_sent},
        .user_data = op,
    };
    ucs_status_ptr_t request;
    int status = use_key(ep, key);

    if (status != NIXL_OK) {
        return status;
    }
    request = ucp_put_nbx(ep->ucp, src, nbytes, key->base + offset, key->ucp, &put_param);
    if (UCS_PTR_IS_ERR(request)) {
        return NIXL_E_TRANSPORT;
    }
    nxr_rail_sent(&ep->rail, 1, nbytes);
    return nxr_ucx_started(ep, op, ucp_ep_flush_nbx(ep->ucp, &flush_param));
}

int nxr_ucx_read(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                 size_t nbytes, struct nxr_net_op *op)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb = {.send = nxr_ucx_sent},
        .user_data = op,
        .memory_type = type_of(op),
    };
    int status = use_key(ep, key);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_rail_received(&ep->rail, 1, nbytes);
    return nxr_ucx_started(ep, op,
                           ucp_get_nbx(ep->ucp, dst, nbytes, key->base + offset, key->ucp, &param));
}
