/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call that exposes a buffer: its checks, its request and its token. No state, no lock; what is
 * exposed is in pair_exposed.c.
 */
#include "config.h"

#include "pair/pair.h"
#include "core/trace.h"
#include "region/extents.h"
#include "util/clock.h"
#include "util/status.h"

#include <stdlib.h>

static int check_expose(const char *operation, int rank, const struct nixl_region *region,
                        enum nixl_pair_use use, int64_t lifetime_ns)
{
    int status = nxr_region_check(operation, region, 0);
    const char *fault = NULL;

    if (status != NIXL_OK) {
        return status;
    }
    if (rank != NIXL_ANY_RANK && !nxr_is_rank(rank)) {
        return nxr_fail_rank(operation, rank);
    }
    if (region->published == NULL || region->is_revoked) {
        fault = "the region has no segment of this rank";
    } else if (!nxr_region_is_named(region)) {
        fault = "the region has no name: no partner can reach it";
    } else if (use != NIXL_PAIR_READ && use != NIXL_PAIR_WRITE) {
        fault = "the use is neither NIXL_PAIR_READ nor NIXL_PAIR_WRITE";
    } else if (lifetime_ns <= 0) {
        fault = "the lifetime must be above 0";
    }
    return fault == NULL ? NIXL_OK
                         : nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "%s", fault);
}

/* Does the region allow that use by the rank that gets the token? */
static int check_access(const char *operation, int rank, const struct nixl_region *region,
                        enum nixl_pair_use use)
{
    bool is_read = use == NIXL_PAIR_READ;
    uint32_t forbidden_by = is_read ? NIXL_ACCESS_NO_GET : NIXL_ACCESS_NO_PUT;

    return rank == nxr_job.rank || (region->memory.access & forbidden_by) == 0
               ? NIXL_OK
               : nxr_fail(NIXL_E_ACCESS, operation, rank, "", 0,
                          "region '%s' was made with %s: its bytes cannot be exposed for that use",
                          nxr_region_label(region->name),
                          is_read ? "NIXL_ACCESS_NO_GET" : "NIXL_ACCESS_NO_PUT");
}

/* Link to the designated partner, so that its death is noticed from now on. */
static int want_partner(const char *operation, int rank)
{
    struct nxr_peer *peer = nxr_peer_get(rank);

    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    if (nxr_peer_is_lost(peer)) {
        return nxr_peer_fail_lost(operation, rank, "");
    }
    if (atomic_load(&peer->connection) == NXR_CONNECTION_NONE) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_peer_want(peer);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    return NIXL_OK;
}

static int call_pair_expose(int rank, struct nixl_region *region, uint64_t offset, size_t nbytes,
                            enum nixl_pair_use use, int64_t lifetime_ns, char *token_p,
                            size_t token_nbytes, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_pair_expose";
    int status = check_expose(operation, rank, region, use, lifetime_ns);
    struct nxr_offer offer = {region, offset, nxr_deadline(lifetime_ns), rank};
    struct nxr_token token = {
        .use = (enum nxr_token_use)use, .maker = nxr_job.self, .nbytes = nbytes};
    struct nixl_req *req;

    if (status != NIXL_OK) {
        return status;
    }
    if (token_p == NULL || req_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0, "%s",
                        token_p == NULL ? "token_p is NULL" : "req_p is NULL");
    }
    status = nxr_token_check_room(operation, token_nbytes);
    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_region_own_has_range(region, offset, nbytes)) {
        return nxr_fail(NIXL_E_RANGE, operation, rank, "", 0,
                        "offset %llu with %zu bytes is outside of the own segment of region '%s', "
                        "which has %llu%s",
                        (unsigned long long)offset, nbytes, nxr_region_label(region->name),
                        (unsigned long long)region->memory.nbytes,
                        region->extents != NULL ? ", or of any one extent of it" : "");
    }
    status = check_access(operation, rank, region, use);
    if (status == NIXL_OK && rank != NIXL_ANY_RANK && rank != nxr_job.rank) {
        status = want_partner(operation, rank);
    }
    if (status == NIXL_OK) {
        status = nxr_exposed_need_table(operation);
    }
    if (status != NIXL_OK) {
        return status;
    }
    req = nxr_peer_get(nxr_job.rank) != NULL ? nxr_request_new(operation, &nxr_exposed_owner, NULL)
                                             : NULL;
    if (req == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory for a request");
    }
    req->op.nbytes = nbytes;
    status = nxr_exposed_add(operation, &offer, req, &token);
    if (status != NIXL_OK) {
        free(req);
        return status;
    }
    nxr_token_write(&token, token_p);
    *req_p = req;
    return NIXL_INPROGRESS;
}

int nixl_pair_expose(int rank, struct nixl_region *region, uint64_t offset, size_t nbytes,
                     enum nixl_pair_use use, int64_t lifetime_ns, char *token_p,
                     size_t token_nbytes, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_pair_expose", rank, nbytes, 0,
                      call_pair_expose(rank, region, offset, nbytes, use, lifetime_ns, token_p,
                                       token_nbytes, req_p));
}
