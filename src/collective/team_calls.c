/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls that make teams, free them and query them. Here are also the ranks of a team,
 * and its key (making.h): a key is derived from what all members know, which is a list of ranks or
 * the team that is divided. No lock.
 */
#include "config.h"

#include "collective/making.h"
#include "collective/reforms.h"
#include "collective/teams.h"
#include "core/form.h"
#include "core/trace.h"
#include "util/hash.h"
#include "util/status.h"

#include <stdlib.h>

/* Distinguishes nixl_team_node() from nixl_team_create(). */
#define NODE_KEY 0x65646f6eu

/* A number for a list of processes, the same wherever they are named. */
static uint64_t hash_members(const int *ranks, int size)
{
    uint64_t value = (uint64_t)size;

    for (int i = 0; i < size; i++) {
        const struct nxr_identity at = nxr_identity_at(ranks[i]);

        value = nxr_hash_mix(nxr_hash_mix(value, at.job),
                             (uint64_t)at.incarnation << 32 | (uint32_t)at.rank);
    }
    return value;
}

/* ---- checks ---------------------------------------------------------------------------------- */

int nxr_team_check_make(const char *operation, int64_t timeout_ns, struct nixl_team **team_p)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && team_p == NULL) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "team_p is NULL");
    } else if (status == NIXL_OK && timeout_ns < 0) {
        status = nxr_fail_timeout(operation, -1, timeout_ns);
    }
    return status;
}

/* Is it a number that a list of members may have? */
static int check_rank(const char *operation, int rank, bool takes_attached)
{
    if (nxr_is_own_rank(rank) || (takes_attached && nxr_is_rank(rank))) {
        return NIXL_OK;
    }
    if (!nxr_is_rank(rank) || takes_attached) {
        return nxr_fail_rank(operation, rank);
    }
    return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                    "rank %d is an attached process of another job; allowed: ranks of this job, 0 "
                    "to %d; nixl_team_reform makes teams with attached processes",
                    rank, nxr_job.size - 1);
}

int nxr_team_check_ranks(const char *operation, const int *ranks, size_t nranks,
                         bool takes_attached)
{
    int n_numbers = takes_attached ? (int)nxr_n_numbers() : nxr_job.size;
    unsigned char *is_there;
    int status = NIXL_OK;

    if (nranks == 0 || nranks > (size_t)n_numbers) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "%zu ranks; allowed: 1 to %d%s",
                        nranks, n_numbers,
                        takes_attached || nxr_job.attached == NULL
                            ? ""
                            : "; nixl_team_reform makes teams with attached processes");
    }
    if (ranks == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "ranks is NULL");
    }
    is_there = calloc((size_t)n_numbers, 1);
    if (is_there == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    for (size_t i = 0; i < nranks && status == NIXL_OK; i++) {
        status = check_rank(operation, ranks[i], takes_attached);
        if (status == NIXL_OK && is_there[ranks[i]]++ != 0) {
            status = nxr_fail(NIXL_E_INVALID_ARG, operation, ranks[i], "", 0,
                              "%s is in the list twice, the second time as ranks[%zu]",
                              nxr_rank_name(ranks[i]), i);
        }
    }
    if (status == NIXL_OK && !is_there[nxr_job.rank]) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, nxr_job.rank, "", 0,
                          "the caller, %s, is not in the list", nxr_rank_name(nxr_job.rank));
    }
    free(is_there);
    return status;
}

/* ---- of ranks -------------------------------------------------------------------------------- */

struct nxr_wanted nxr_team_of_ranks(const char *operation, uint64_t origin, const int *ranks,
                                    int size)
{
    uint64_t list = hash_members(ranks, size);

    return (struct nxr_wanted){.operation = operation,
                               .kind = NXR_TEAM_OF_RANKS,
                               .key = origin != 0 ? nxr_hash_mix(origin, list) : list,
                               .ranks = ranks,
                               .size = size,
                               .timeout_ns = NIXL_FOREVER};
}

/* How a public call waits for its team, and for which context the team is. */
struct waiting {
    int64_t timeout_ns;
    uint64_t context;
    struct nixl_req **req_p; /* NULL: the call waits itself */
};

/* Have all members been in the job since its start? Who has come back has not counted its teams. */
static int check_returned(const struct nxr_wanted *wanted)
{
    for (int i = 0; wanted->ranks != NULL && i < wanted->size; i++) {
        if (nxr_peer_get(wanted->ranks[i]) != NULL && /* who it is is certain then */
            nxr_identity_at(wanted->ranks[i]).incarnation > 0 && wanted->divided == NULL) {
            return nxr_fail(NIXL_E_UNSUPPORTED, wanted->operation, wanted->ranks[i], "", 0,
                            "%s was started again; nixl_team_reform makes teams with such members",
                            nxr_rank_name(wanted->ranks[i]));
        }
    }
    return NIXL_OK;
}

/* Teams of the same ranks in several contexts are different ones. */
static int get_team(struct nxr_wanted *wanted, const struct waiting *waiting,
                    struct nixl_team **team_p)
{
    int status = check_returned(wanted);

    if (status != NIXL_OK) {
        return status;
    }
    if (waiting->context != 0) {
        wanted->key = nxr_hash_mix(wanted->key, waiting->context);
    }
    return waiting->req_p != NULL ? nxr_making_start(wanted, team_p, waiting->req_p)
                                  : nxr_making_wait(wanted, waiting->timeout_ns, team_p);
}

/* A call of the extended form, while its request is made. */
struct extended {
    const char *operation;
    struct nxr_form form;
    struct nixl_req *req;
};

/* Read the form. Without a request and a queue the call waits itself. */
static int extended_begin(struct extended *call, const char *operation, const struct nixl_op *op,
                          struct nixl_req **req_p, struct waiting *waiting)
{
    int status = nxr_form_read_start(operation, op, 0, req_p, &call->form);

    call->operation = operation;
    call->req = NULL;
    if (status == NIXL_OK) {
        *waiting = (struct waiting){.timeout_ns = call->form.timeout_ns,
                                    .context = call->form.context->id,
                                    .req_p = req_p != NULL || call->form.op->cq != NULL ? &call->req
                                                                                        : NULL};
    }
    return status;
}

/* With a timeout that is over, the making continues, and there is no request. */
static int extended_end(const struct extended *call, int status, struct nixl_req **req_p)
{
    return call->req != NULL || req_p != NULL
               ? nxr_form_end(call->operation, &call->form, status, call->req, req_p)
               : status;
}

static int team_call_create(const char *operation, const int *ranks, size_t nranks,
                            const struct waiting *waiting, struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, waiting->timeout_ns, team_p);
    struct nxr_wanted wanted;

    if (status == NIXL_OK) {
        status = nxr_team_check_ranks(operation, ranks, nranks, false);
    }
    if (status != NIXL_OK) {
        return status;
    }
    wanted = nxr_team_of_ranks(operation, 0, ranks, (int)nranks);
    return get_team(&wanted, waiting, team_p);
}

static int call_team_create(const int *ranks, size_t nranks, int64_t timeout_ns,
                            struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return team_call_create("nixl_team_create", ranks, nranks, &waiting, team_p);
}

int nixl_team_create(const int *ranks, size_t nranks, int64_t timeout_ns, struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_create", -1, 0, 0,
                      call_team_create(ranks, nranks, timeout_ns, team_p));
}

int nixl_team_create_x(const int *ranks, size_t nranks, const struct nixl_op *op,
                       struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_create_x";
    struct waiting waiting;
    struct extended call;
    int status = extended_begin(&call, operation, op, req_p, &waiting);

    if (status == NIXL_OK) {
        status = team_call_create(operation, ranks, nranks, &waiting, team_p);
    }
    return extended_end(&call, status, req_p);
}

/* The ranks first, first + stride, ...; the caller frees them. */
static int *list_ranks(int first, int stride, size_t count)
{
    int *ranks = calloc(count + 1, sizeof(int));

    for (size_t i = 0; i < count && ranks != NULL; i++) {
        int64_t rank = first + (int64_t)i * stride;

        ranks[i] = rank < 0 || rank > INT32_MAX ? -1 : (int)rank;
    }
    return ranks;
}

/* A list of ranks that is far too long is refused before it is built. */
static int create_strided(const char *operation, int first, int stride, size_t count,
                          const struct waiting *waiting, struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, waiting->timeout_ns, team_p);
    bool is_too_long = status == NIXL_OK && count > (size_t)nxr_job.size;
    int *ranks;

    if (status != NIXL_OK) {
        return status;
    }
    ranks = is_too_long ? NULL : list_ranks(first, stride, count);
    if (ranks == NULL && !is_too_long) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    status = team_call_create(operation, ranks, count, waiting, team_p);
    free(ranks);
    return status;
}

static int call_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                             struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return create_strided("nixl_team_strided", first, stride, count, &waiting, team_p);
}

int nixl_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                      struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_strided", -1, 0, 0,
                      call_team_strided(first, stride, count, timeout_ns, team_p));
}

static int call_team_world(int64_t timeout_ns, struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return create_strided("nixl_team_world", 0, 1, (size_t)nxr_job.size, &waiting, team_p);
}

int nixl_team_world(int64_t timeout_ns, struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_world", -1, 0, 0,
                      call_team_world(timeout_ns, team_p));
}

int nixl_team_world_x(const struct nixl_op *op, struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_world_x";
    struct waiting waiting;
    struct extended call;
    int status = extended_begin(&call, operation, op, req_p, &waiting);

    if (status == NIXL_OK) {
        status = create_strided(operation, 0, 1, (size_t)nxr_job.size, &waiting, team_p);
    }
    return extended_end(&call, status, req_p);
}

int nixl_team_strided_x(int first, int stride, size_t count, const struct nixl_op *op,
                        struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_strided_x";
    struct waiting waiting;
    struct extended call;
    int status = extended_begin(&call, operation, op, req_p, &waiting);

    if (status == NIXL_OK) {
        status = create_strided(operation, first, stride, count, &waiting, team_p);
    }
    return extended_end(&call, status, req_p);
}

/* ---- parts of a team ------------------------------------------------------------------------- */

static int team_call_node(const char *operation, const struct waiting *waiting,
                          struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, waiting->timeout_ns, team_p), *ranks;
    struct nxr_wanted wanted;

    if (status != NIXL_OK) {
        return status;
    }
    ranks = list_ranks(0, 1, (size_t)nxr_job.size);
    if (ranks == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    wanted = nxr_team_of_ranks(operation, 0, ranks, nxr_job.size);
    wanted.kind = NXR_TEAM_OF_NODE;
    wanted.key = nxr_hash_mix(wanted.key, NODE_KEY);
    status = get_team(&wanted, waiting, team_p);
    free(ranks);
    return status;
}

static int call_team_node(int64_t timeout_ns, struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return team_call_node("nixl_team_node", &waiting, team_p);
}

int nixl_team_node(int64_t timeout_ns, struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_node", -1, 0, 0,
                      call_team_node(timeout_ns, team_p));
}

int nixl_team_node_x(const struct nixl_op *op, struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_node_x";
    struct waiting waiting;
    struct extended call;
    int status = extended_begin(&call, operation, op, req_p, &waiting);

    if (status == NIXL_OK) {
        status = team_call_node(operation, &waiting, team_p);
    }
    return extended_end(&call, status, req_p);
}

static int team_call_split(const char *operation, struct nixl_team *team, struct nxr_choice choice,
                           const struct waiting *waiting, struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, waiting->timeout_ns, team_p);
    struct nxr_wanted wanted;

    if (status == NIXL_OK) {
        status = nxr_team_check(operation, team);
    }
    if (status == NIXL_OK && choice.color < 0 && choice.color != NIXL_NO_COLOR) {
        status = nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                          "color %d; allowed: 0 and more, or NIXL_NO_COLOR", (int)choice.color);
    }
    if (status != NIXL_OK) {
        return status;
    }
    wanted = (struct nxr_wanted){.operation = operation,
                                 .kind = NXR_TEAM_OF_COLOR,
                                 .choice = choice,
                                 .key = nxr_making_split_key(team),
                                 .ranks = team->ranks,
                                 .members = team->members,
                                 .size = team->size,
                                 .divided = team,
                                 .timeout_ns = NIXL_FOREVER};
    return get_team(&wanted, waiting, team_p);
}

static int call_team_split(struct nixl_team *team, int color, int key, int64_t timeout_ns,
                           struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return team_call_split("nixl_team_split", team, (struct nxr_choice){color, key}, &waiting,
                           team_p);
}

int nixl_team_split(struct nixl_team *team, int color, int key, int64_t timeout_ns,
                    struct nixl_team **team_p)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_split", -1, 0, 0,
                      call_team_split(team, color, key, timeout_ns, team_p));
}

int nixl_team_split_x(struct nixl_team *team, int color, int key, const struct nixl_op *op,
                      struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_split_x";
    struct waiting waiting;
    struct extended call;
    int status = extended_begin(&call, operation, op, req_p, &waiting);

    if (status == NIXL_OK) {
        waiting.context = 0; /* the team that is divided has one */
        status =
            team_call_split(operation, team, (struct nxr_choice){color, key}, &waiting, team_p);
    }
    return extended_end(&call, status, req_p);
}

/* ---- giving back ----------------------------------------------------------------------------- */

static int call_team_free(struct nixl_team *team)
{
    int status = nxr_team_check("nixl_team_free", team);

    if (status != NIXL_OK) {
        return status;
    }
    nxr_team_close(team);
    if (!nxr_making_inherit(team)) {
        nxr_team_drop(team);
    }
    return NIXL_OK;
}

int nixl_team_free(struct nixl_team *team)
{
    return NXR_TRACED(NXR_TRACE_JOB, "nixl_team_free", -1, 0, 0, call_team_free(team));
}

void nxr_teams_free_all(void)
{
    nxr_reforms_stop();
    nxr_makings_stop();
    nxr_teams_drop_all();
}

/* ---- asking ---------------------------------------------------------------------------------- */

int nixl_team_size(const struct nixl_team *team)
{
    int status = nxr_team_check("nixl_team_size", team);

    return status == NIXL_OK ? team->size : status;
}

int nixl_team_rank(const struct nixl_team *team)
{
    int status = nxr_team_check("nixl_team_rank", team);

    return status == NIXL_OK ? team->me : status;
}

int nixl_team_translate(const struct nixl_team *from, int team_rank, const struct nixl_team *to)
{
    static const char operation[] = "nixl_team_translate";
    int status = nxr_check_ready(operation), size, rank;

    if (status == NIXL_OK && from != NULL) {
        status = nxr_team_check(operation, from);
    }
    if (status == NIXL_OK && to != NULL) {
        status = nxr_team_check(operation, to);
    }
    if (status != NIXL_OK) {
        return status;
    }
    size = from != NULL ? from->size : nxr_job.size;
    if (from == NULL ? !nxr_is_rank(team_rank) : team_rank < 0 || team_rank >= size) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "team_rank %d; allowed: 0 to %d",
                        team_rank, size - 1);
    }
    rank = from != NULL ? from->ranks[team_rank] : team_rank;
    team_rank = to != NULL ? nxr_team_rank_of(to, rank) : rank;
    return team_rank >= 0 ? team_rank
                          : nxr_fail(NIXL_E_NOT_FOUND, operation, rank, "", 0,
                                     "%s is not among the %d ranks of the second team",
                                     nxr_rank_name(rank), to != NULL ? to->size : nxr_job.size);
}
