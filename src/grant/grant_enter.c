/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entering a grant and leaving it: which words of the owner's table change, one after the other,
 * and what the answers mean. Whether a step is waited for is the caller's affair. No lock.
 */
#include "config.h"

#include "grant/grant.h"
#include "transfer/transfer.h"
#include "util/log.h"
#include "util/status.h"

#define WHY_FULL "31 operations use the grant at this moment, which is the limit; try again"
_Static_assert(NXR_GRANT_N_PLACES == 31, "what WHY_FULL says");

const char *nxr_grant_why_ended(int state)
{
    switch (state) {
    case NIXL_GRANT_USED:
        return "all uses of the grant are over";
    case NIXL_GRANT_EXPIRED:
        return "the lifetime of the grant is over";
    case NIXL_GRANT_REVOKED:
        return "the grant was revoked by its owner";
    case NIXL_GRANT_CLOSED:
        return "the region of the grant was closed by its owner";
    default:
        return "the grant has ended, and its place is another one's";
    }
}

int nxr_grant_refuse(const char *operation, int rank, int state)
{
    return nxr_token_refuse(operation, rank, NIXL_E_STALE, nxr_grant_why_ended(state));
}

static uint64_t lease_record(const struct nxr_lease *lease)
{
    return (uint64_t)lease->opened->token.slot * sizeof(struct nxr_grant_record);
}

static struct nxr_atomic swap_of(uint64_t offset, uint64_t expected, uint64_t desired)
{
    return (struct nxr_atomic){.op = NXR_ATOMIC_COMPARE_SWAP,
                               .type = NIXL_TYPE_UINT64,
                               .offset = offset,
                               .operand = desired,
                               .compare = expected};
}

/* The word of a place that this process has. */
static uint64_t my_place(const struct nxr_lease *lease)
{
    return nxr_grant_place(lease->opened->token.turn, lease->table->peer->place);
}

static struct nxr_atomic swap_of_place(const struct nxr_lease *lease, uint64_t expected,
                                       uint64_t desired)
{
    return swap_of(lease_record(lease) + offsetof(struct nxr_grant_record, places) +
                       lease->place * sizeof(uint64_t),
                   expected, desired);
}

struct nxr_atomic nxr_lease_change(const struct nxr_lease *lease)
{
    switch (lease->step) {
    case NXR_LEASE_PLACE:
        return swap_of_place(lease, 0, my_place(lease));
    case NXR_LEASE_USE:
        return swap_of(lease_record(lease) + offsetof(struct nxr_grant_record, word), lease->word,
                       nxr_grant_word_used(lease->word));
    default:
        return swap_of_place(lease, my_place(lease), 0);
    }
}

/* The places are tried from the same one on by each user. */
int nxr_lease_begin(struct nxr_lease *lease)
{
    lease->step = NXR_LEASE_PLACE;
    lease->place = (uint32_t)nxr_grant_place_user(my_place(lease)) % NXR_GRANT_N_PLACES;
    lease->n_tried = 0;
    lease->why = NULL;
    return NIXL_E_AGAIN;
}

/* Is the grant open, as its word says? */
static int judge_word(struct nxr_lease *lease, uint64_t word)
{
    int state = nxr_grant_word_state(word, lease->opened->token.turn);

    lease->word = word;
    if (state == NIXL_GRANT_OPEN) {
        return NIXL_E_AGAIN;
    }
    lease->why = nxr_grant_why_ended(state);
    return NIXL_E_STALE;
}

static int judge_place(struct nxr_lease *lease, uint64_t seen)
{
    if (seen == 0) {
        lease->step = NXR_LEASE_USE;
        return judge_word(lease, atomic_load_explicit(&lease->opened->word, memory_order_relaxed));
    }
    if (++lease->n_tried == NXR_GRANT_N_PLACES) {
        lease->why = WHY_FULL;
        return NIXL_E_LIMIT;
    }
    lease->place = (lease->place + 1) % NXR_GRANT_N_PLACES;
    return NIXL_E_AGAIN;
}

int nxr_lease_judge(struct nxr_lease *lease, uint64_t seen)
{
    const bool is_taken = seen == lease->word;

    if (lease->step == NXR_LEASE_PLACE) {
        return judge_place(lease, seen);
    }
    atomic_store_explicit(&lease->opened->word, is_taken ? nxr_grant_word_used(seen) : seen,
                          memory_order_relaxed);
    return is_taken ? NIXL_OK : judge_word(lease, seen);
}

int nxr_lease_fail(const struct nxr_lease *lease, int status)
{
    const int rank = lease->opened->rank;

    if (lease->why != NULL) {
        return status == NIXL_E_STALE
                   ? nxr_token_refuse(lease->operation, rank, status, lease->why)
                   : nxr_fail(status, lease->operation, rank, "", 0, "%s", lease->why);
    }
    return status == NIXL_E_PEER_LOST ? nxr_peer_fail_lost(lease->operation, rank, "")
                                      : nxr_fail(status, lease->operation, rank, "", 0,
                                                 "cannot enter or leave the grant of %s: %s",
                                                 nxr_rank_name(rank), nixl_strerror(status));
}

int nxr_lease_enter(struct nxr_lease *lease)
{
    int status = nxr_lease_begin(lease);

    while (status == NIXL_E_AGAIN) {
        const struct nxr_atomic swap = nxr_lease_change(lease);
        uint64_t seen;

        status = nxr_atomic_change(lease->table, &swap, false, &seen);
        if (status == NIXL_OK) {
            status = nxr_lease_judge(lease, seen);
        }
    }
    if (status == NIXL_OK) {
        return status;
    }
    if (lease->step == NXR_LEASE_USE) {
        nxr_lease_abort(lease);
    }
    return nxr_lease_fail(lease, status);
}

void nxr_lease_abort(struct nxr_lease *lease)
{
    const struct nxr_atomic swap = swap_of_place(lease, my_place(lease), 0);
    uint64_t seen;
    int status = nxr_peer_is_lost(lease->table->peer)
                     ? NIXL_OK
                     : nxr_atomic_change(lease->table, &swap, true, &seen);

    if (status != NIXL_OK) {
        nxr_debug(CORE, "cannot tell %s that a use of its grant is over: %s",
                  nxr_peer_name(lease->table->peer), nixl_strerror(status));
    }
}
