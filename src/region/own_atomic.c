/* SPDX-License-Identifier: Apache-2.0 */
/* Changing words in own regions for peers. No state; the header says what a caller must hold. */
#include "config.h"

#include "region/own_atomic.h"
#include "core/control.h"
#include "memory/memory.h"

/* Storage has no words, and only storage is made durable. */
static bool own_atomic_fits(const struct nxr_atomic *atomic, const struct nxr_range *range)
{
    return (atomic->op == NXR_ATOMIC_SYNC) == (range != NULL && range->kind->is_storage);
}

int nxr_own_atomic_find(const struct nxr_wire_atomic *asked, struct nxr_own_memory *memory_p)
{
    size_t nbytes = nxr_atomic_nbytes(&asked->atomic);

    *memory_p = nxr_publish_memory(asked->id);
    if (asked->atomic.offset > memory_p->nbytes ||
        nbytes > memory_p->nbytes - asked->atomic.offset) {
        return NIXL_E_RANGE;
    }
    memory_p->addr += asked->atomic.offset;
    return nbytes != 0 && (uintptr_t)memory_p->addr % nbytes == 0 &&
                   own_atomic_fits(&asked->atomic, memory_p->range)
               ? NIXL_OK
               : NIXL_E_INVALID_ARG;
}

uint64_t nxr_own_atomic_shown(uint32_t id, uint64_t fetched)
{
    return (nxr_publish_memory(id).access & NIXL_ACCESS_NO_GET) != 0 ? 0 : fetched;
}

/* What forbids a peer's change. Getting no former value does not count. */
static uint32_t own_atomic_forbidden_by(const struct nxr_atomic *atomic)
{
    return atomic->op == NIXL_ATOMIC_FETCH ? NIXL_ACCESS_NO_GET
           : atomic->op == NXR_ATOMIC_SYNC ? 0
                                           : NIXL_ACCESS_NO_PUT;
}

int nxr_own_atomic_change(struct nxr_inflight_slot **slot_p, const struct nxr_wire_atomic *asked,
                          uint64_t *fetched_p)
{
    struct nxr_own_memory memory;
    int status;

    if (*slot_p == NULL) {
        *slot_p = nxr_inflight_claim_own();
    }
    if (*slot_p == NULL) {
        return NIXL_E_LIMIT;
    }
    if (!nxr_inflight_enter_own(*slot_p, asked->id, asked->generation)) {
        return NIXL_E_STALE;
    }
    status = nxr_own_atomic_find(asked, &memory);
    if (status == NIXL_OK && (memory.access & own_atomic_forbidden_by(&asked->atomic)) != 0) {
        status = NIXL_E_ACCESS;
    }
    if (status == NIXL_OK && memory.range == NULL) {
        *fetched_p = nxr_own_atomic_shown(asked->id, nxr_atomic_apply(memory.addr, &asked->atomic));
    }
    nxr_inflight_leave(&(*slot_p)->busy);
    return status == NIXL_OK && memory.range != NULL ? NIXL_INPROGRESS : status;
}
