/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory and keys. Memory is registered with every rail; a key has one entry for each.
 * Key numbers are random if the choice is ours (registration.c): a key that was released is never
 * valid again.
 */
#include "config.h"

#include "rma.h"

#include <rdma/fi_errno.h>

#include <stdlib.h>
#include <string.h>

/* What the adapter may do: all for this process, and for its peers what the region allows. */
static uint64_t rights_of(const struct nxr_net_mem *mem)
{
    return FI_READ | FI_WRITE | ((mem->access & NIXL_ACCESS_NO_GET) != 0 ? 0 : FI_REMOTE_READ) |
           ((mem->access & NIXL_ACCESS_NO_PUT) != 0 ? 0 : FI_REMOTE_WRITE);
}

static void ofi_memory_release(struct nxr_net_mem *mem)
{
    for (unsigned i = 0; i < NXR_OFI_MAX_RAILS; i++) {
        nxr_ofi_mr_close(mem->mrs[i]);
    }
    nxr_list_remove(&mem->link);
    free(mem);
}

static int register_with(struct nxr_ofi_rail *rail, const struct nxr_net_mem *mem, uint64_t key,
                         struct fid_mr **mr_p)
{
    const struct nxr_ofi_bytes bytes = {(char *)mem->addr, mem->nbytes, mem->kind};

    return nxr_ofi_rail_register_kind(rail, &bytes, rights_of(mem), key, mr_p);
}

int nxr_ofi_mem_register(void *addr, size_t nbytes, enum nixl_mem_kind kind, uint32_t access,
                         struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p)
{
    struct nxr_ofi_key wire = {.magic = NXR_OFI_KEY_MAGIC,
                               .version = NXR_OFI_LAYOUT_VERSION,
                               .n_rails = (uint8_t)nxr_ofi.n_rails,
                               .nbytes = nbytes};
    struct nxr_net_mem *mem = calloc(1, sizeof(*mem));

    if (mem == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    mem->addr = addr;
    mem->nbytes = nbytes;
    mem->kind = kind;
    mem->access = access;
    nxr_list_append(&nxr_ofi.mems, &mem->link);
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_rail *rail = &nxr_ofi.rails[i];
        int rc = register_with(rail, mem, NXR_OFI_NEW_KEY, &mem->mrs[i]);

        if (rc != 0) {
            nxr_ofi.core->log(kind == NIXL_MEM_HOST ? NXR_NET_WARN : NXR_NET_INFO,
                              "ofi: cannot register %zu bytes with %s: %s", nbytes, rail->device,
                              fi_strerror(-rc));
            ofi_memory_release(mem);
            return rc == -FI_ENOMEM        ? NIXL_E_NO_MEMORY
                   : kind == NIXL_MEM_HOST ? NIXL_E_TRANSPORT
                                           : NIXL_E_UNSUPPORTED;
        }
        wire.rails[i].key = fi_mr_key(mem->mrs[i]);
        wire.rails[i].base = (rail->mr_mode & FI_MR_VIRT_ADDR) != 0 ? (uintptr_t)addr : 0;
    }
    *key_nbytes_p = nxr_ofi_key_nbytes(nxr_ofi.n_rails);
    nxr_ofi_key_seal(&wire);
    memcpy(key, &wire, *key_nbytes_p);
    *mem_p = mem;
    return NIXL_OK;
}

void nxr_ofi_mem_release(struct nxr_net_mem *mem)
{
    ofi_memory_release(mem);
}

int nxr_ofi_mems_move(struct nxr_ofi_rail *rail)
{
    struct nxr_list *link, *after;
    unsigned i = rail->index;
    int rc = 0;

    nxr_list_for_each (link, after, &nxr_ofi.mems) {
        struct nxr_net_mem *mem = nxr_list_entry(link, struct nxr_net_mem, link);

        rc = rc != 0 ? rc : register_with(rail, mem, fi_mr_key(mem->mrs[i]), &mem->moved);
    }
    nxr_list_for_each (link, after, &nxr_ofi.mems) {
        struct nxr_net_mem *mem = nxr_list_entry(link, struct nxr_net_mem, link);

        nxr_ofi_mr_close(rc != 0 ? mem->moved : mem->mrs[i]);
        mem->mrs[i] = rc != 0 ? mem->mrs[i] : mem->moved;
        mem->moved = NULL;
    }
    return rc;
}

void nxr_ofi_mems_free(void)
{
    while (!nxr_list_is_empty(&nxr_ofi.mems)) {
        ofi_memory_release(nxr_list_entry(nxr_ofi.mems.next, struct nxr_net_mem, link));
    }
}

int nxr_ofi_key_open(struct nxr_net_ep *ep, const void *bytes, size_t nbytes,
                     struct nxr_net_key **key_p)
{
    struct nxr_net_key *key;
    struct nxr_ofi_key wire;
    const char *why;

    if (nxr_ofi_key_parse(bytes, nbytes, &wire, &why) == NIXL_OK &&
        wire.n_rails != ep->address.n_rails) {
        why = "a key of other rails than its owner's address";
    }
    if (why != NULL) {
        nxr_ofi.core->log(NXR_NET_WARN, "ofi: %s was refused", why);
        return NIXL_E_TRANSPORT;
    }
    key = malloc(sizeof(*key));
    if (key == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    *key = (struct nxr_net_key){.wire = wire, .n_users = 1};
    *key_p = key;
    return NIXL_OK;
}

void nxr_ofi_key_close(struct nxr_net_key *key)
{
    if (--key->n_users == 0) {
        free(key);
    }
}
