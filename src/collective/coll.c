/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepared collectives. A handle keeps a call that was checked, copies of its arrays, and a plan
 * (plan.h), which the members on a host make together: each tells what it prepares and whether it
 * has device memory, of which there are no plans; then they offer their buffers to each other as
 * the call would, and move nothing.
 *
 * Invariant: an open handle belongs to an open team. Lock: colls_lock guards the list of open
 * handles and the cache; what is in a handle belongs to who works for its team.
 */
#include "config.h"

#include "collective/coll.h"
#include "collective/phase.h"
#include "collective/plan.h"
#include "collective/start.h"
#include "util/handle.h"
#include "util/hash.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

#define COLL_OPEN 0x6e78722d636f6c6cull

struct nixl_coll {
    _Atomic uint64_t magic; /* COLL_OPEN while open */
    struct nxr_list link;
    struct nixl_team *team;
    const char *operation;
    struct nxr_call call;
    struct nxr_plan plan;
    size_t *arrays; /* of the call; NULL: none */
};

static pthread_mutex_t colls_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list open_colls = {&open_colls, &open_colls};
static struct nxr_handle_cache coll_handles =
    NXR_HANDLE_CACHE(coll_handles, struct nixl_coll, link, 64);

/* ---- handles --------------------------------------------------------------------------------- */

static struct nixl_coll *coll_new(struct nixl_team *team, const char *operation,
                                  const struct nxr_call *call)
{
    size_t nbytes = nxr_call_arrays_nbytes(team, call);
    size_t *arrays = nbytes > 0 ? malloc(nbytes) : NULL;
    struct nixl_coll *coll = NULL;

    if (nbytes == 0 || arrays != NULL) {
        pthread_mutex_lock(&colls_lock);
        coll = nxr_handle_take(&coll_handles);
        pthread_mutex_unlock(&colls_lock);
    }
    if (coll == NULL) {
        free(arrays);
        return NULL;
    }
    *coll =
        (struct nixl_coll){.team = team, .operation = operation, .call = *call, .arrays = arrays};
    nxr_list_init(&coll->link);
    nxr_call_keep_arrays(team, &coll->call, arrays);
    coll->call.plan = &coll->plan;
    coll->call.is_plain = false;
    return coll;
}

/* colls_lock is held. */
static void coll_retire(struct nixl_coll *coll)
{
    atomic_store_explicit(&coll->magic, 0, memory_order_release);
    nxr_list_remove(&coll->link);
    nxr_handle_retire(&coll_handles, coll);
}

/* Free what a handle has, and the handle, which nobody uses any more. */
static void coll_drop(struct nixl_coll *coll)
{
    nxr_plan_drop(coll->team, &coll->plan);
    free(coll->arrays);
    coll->arrays = NULL;
    pthread_mutex_lock(&colls_lock);
    coll_retire(coll);
    pthread_mutex_unlock(&colls_lock);
}

static struct nixl_coll *coll_find_of(const struct nixl_team *team)
{
    struct nxr_list *link, *after;
    struct nixl_coll *found = NULL;

    pthread_mutex_lock(&colls_lock);
    nxr_list_for_each (link, after, &open_colls) {
        struct nixl_coll *coll = nxr_list_entry(link, struct nixl_coll, link);

        if (coll->team == team) {
            found = coll;
        }
    }
    pthread_mutex_unlock(&colls_lock);
    return found;
}

void nxr_colls_close(const struct nixl_team *team)
{
    struct nixl_coll *coll;

    while ((coll = coll_find_of(team)) != NULL) {
        coll_drop(coll);
    }
}

static int coll_check(const char *operation, const struct nixl_coll *coll)
{
    int status;

    if (__builtin_expect(nxr_is_ready() && coll != NULL &&
                             atomic_load_explicit(&coll->magic, memory_order_acquire) == COLL_OPEN,
                         1)) {
        return NIXL_OK;
    }
    status = nxr_check_ready(operation);
    return status != NIXL_OK ? status
                             : nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%s",
                                        coll == NULL ? "the prepared collective is NULL"
                                                     : "the prepared collective, or its team, was "
                                                       "freed");
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* What a member tells the others on its host. */
struct told_coll {
    uint64_t operation; /* a hash of its name */
    uint64_t nbytes;    /* that are the same on all members */
    int32_t root;
    int32_t has_device;
};

static struct told_coll coll_tell(const struct nixl_coll *coll)
{
    const struct nxr_call *call = &coll->call;
    struct told_coll told = {.operation = nxr_hash(coll->operation, strlen(coll->operation)),
                             .has_device = call->has_device};

    switch (call->kind) {
    case NXR_CALL_BARRIER:
        break;
    case NXR_CALL_REDUCTION:
        told.root = call->reduction.root;
        told.nbytes = call->reduction.nbytes;
        break;
    case NXR_CALL_EXCHANGE:
        told.root = call->exchange.root;
        told.nbytes = call->exchange.is_vector ? 0 : call->exchange.nbytes;
        break;
    case NXR_CALL_STRIDED:
        told.nbytes = call->strided.block_nbytes * call->strided.nblocks;
        break;
    }
    return told;
}

/* Is it the kind of call that runs as it is, and not in parts of other sizes? */
static bool coll_is_plain(const struct nxr_call *call)
{
    return call->kind == NXR_CALL_BARRIER || call->kind == NXR_CALL_EXCHANGE ||
           (call->kind == NXR_CALL_REDUCTION &&
            call->reduction.combine.element_nbytes <= NXR_ELEMENT_MAX);
}

/*
 * Compare what the members on this host prepare; coll->plan.is_used: can it be planned? *other_p: a
 * member that prepares something else, or -1.
 */
static int coll_agree(struct nixl_coll *coll, int *other_p)
{
    struct nixl_team *team = coll->team;
    struct nxr_node *node = &team->node;
    const struct told_coll mine = coll_tell(coll);
    uint64_t phase = node->phase + 1;
    bool has_device = false;
    int status = nxr_node_put_cell(team, &mine, sizeof(mine));

    *other_p = -1;
    if (status == NIXL_OK) {
        status = nxr_node_wait_cells(team, phase);
    }
    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        struct told_coll told;

        memcpy(&told, nxr_node_cell_bytes(node, i, phase, sizeof(told)), sizeof(told));
        has_device |= told.has_device != 0;
        if (told.operation != mine.operation || told.nbytes != mine.nbytes ||
            told.root != mine.root) {
            *other_p = i;
        }
    }
    coll->plan.is_used =
        status == NIXL_OK && !has_device && team->n_nodes == 1 && coll_is_plain(&coll->call);
    return status;
}

/* Offer the buffers as the call does, once for all starts. */
static int coll_plan(struct nixl_coll *coll)
{
    int status;

    if (!coll->plan.is_used || coll->call.kind == NXR_CALL_BARRIER) {
        return NIXL_OK;
    }
    coll->plan.is_making = true;
    nxr_plan_enter(coll->team, &coll->plan);
    status = nxr_call_run_on_host(coll->team, &coll->call);
    nxr_plan_leave(coll->team);
    coll->plan.is_making = false;
    coll->plan.has_offers =
        coll->plan.offers[0].is_made || coll->plan.offers[1].is_made || coll->plan.knows_largest;
    return status == NXR_PLANNED ? NIXL_OK : status;
}

/* With the other members on this host; those on other hosts are not asked. */
static int coll_make(struct nixl_coll *coll, int64_t timeout_ns)
{
    struct nixl_team *team = coll->team;
    int other = -1, status;

    if (team->node.size == 1) {
        return NIXL_OK;
    }
    status = nxr_collective_begin(team, coll->operation, timeout_ns);
    if (status != NIXL_OK) {
        return status;
    }
    status = coll_agree(coll, &other);
    if (status == NIXL_OK && other >= 0) {
        int rank = team->ranks[team->local[other]];

        return nxr_fail(NIXL_E_INVALID_ARG, coll->operation, rank, "", 0,
                        "%s prepares another collective, or the same one with another size or "
                        "root; allowed: the same on all members, in the same order",
                        nxr_rank_name(rank));
    }
    if (status == NIXL_OK) {
        status = coll_plan(coll);
    }
    return status == NIXL_OK ? status : nxr_team_end(team, status);
}

int nxr_coll_prepare(struct nixl_team *team, const char *operation, const struct nxr_call *call,
                     const struct nxr_form *form, struct nixl_req **req_p)
{
    struct nixl_coll *coll;
    int status;

    if (form->op->coll_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "NIXL_OP_PREPARE: coll_p, where the handle goes, is NULL");
    }
    if (req_p != NULL || form->op->cq != NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "NIXL_OP_PREPARE: a preparation is waited for; allowed: neither a request "
                        "nor a completion queue, which nixl_coll_start_x() takes");
    }
    coll = coll_new(team, operation, call);
    if (coll == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0,
                        "no memory for a prepared collective");
    }
    status = coll_make(coll, form->timeout_ns);
    if (status != NIXL_OK) {
        coll_drop(coll);
        return status;
    }
    pthread_mutex_lock(&colls_lock);
    nxr_list_append(&open_colls, &coll->link);
    pthread_mutex_unlock(&colls_lock);
    atomic_store_explicit(&coll->magic, COLL_OPEN, memory_order_release);
    *form->op->coll_p = coll;
    return NIXL_OK;
}

/* ---- the public calls ------------------------------------------------------------------------ */

int nixl_coll_start(struct nixl_coll *coll, int64_t timeout_ns)
{
    int status = coll_check("nixl_coll_start", coll);

    return __builtin_expect(status == NIXL_OK, 1)
               ? nxr_collective_run(coll->team, coll->operation, &coll->call, timeout_ns)
               : status;
}

int nixl_coll_start_x(struct nixl_coll *coll, const struct nixl_op *op, struct nixl_req **req_p)
{
    const char *operation = "nixl_coll_start_x";
    struct nxr_form form;
    int status = coll_check(operation, coll);

    if (status == NIXL_OK) {
        status = nxr_form_read_start(operation, op, 0, req_p, &form);
    }
    return status == NIXL_OK
               ? nxr_collective_start_form(coll->team, coll->operation, &coll->call, &form, req_p)
               : status;
}

int nixl_coll_free(struct nixl_coll *coll)
{
    const char *operation = "nixl_coll_free";
    int status = coll_check(operation, coll);

    if (status != NIXL_OK) {
        return status;
    }
    if (atomic_load(&coll->plan.n_started) != 0) {
        return nxr_fail(NIXL_E_IN_USE, operation, -1, "", 0,
                        "it was started, and has not ended: wait for its request first");
    }
    coll_drop(coll);
    return NIXL_OK;
}
