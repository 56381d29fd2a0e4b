/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls that make teams: which ranks, and which id. An id is made of what all members
 * know: of a list of ranks and how many teams it has made (making.h), or of the team that is
 * divided and how many teams it has made. No lock.
 */
#include "config.h"

#include "collective/making.h"
#include "util/status.h"

#include <stdlib.h>

#define NODE_KEY 0x65646f6eu /* tells nixl_team_node() from nixl_team_world() */

uint64_t nxr_team_mix(uint64_t a, uint64_t b)
{
    uint64_t value = a * 0x9e3779b97f4a7c15ull + b;

    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9ull;
    value ^= value >> 27;
    value *= 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

uint64_t nxr_team_hash_ranks(const int *ranks, int size)
{
    uint64_t value = (uint64_t)size;

    for (int i = 0; i < size; i++) {
        value = nxr_team_mix(value, (uint64_t)ranks[i]);
    }
    return value;
}

/* ---- checks ---------------------------------------------------------------------------------- */

int nxr_team_check_make(const char *operation, int64_t timeout_ns, struct nixl_team **team_p)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && (timeout_ns < 0 || team_p == NULL)) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s",
                          team_p == NULL ? "team_p is NULL" : "the timeout is negative");
    }
    return status;
}

static int check_ranks(const char *operation, const int *ranks, size_t nranks)
{
    unsigned char *is_there;
    int status = NIXL_OK;

    if (nranks == 0 || nranks > (size_t)nxr_job.size) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                        "%zu ranks; allowed are 1 to %d", nranks, nxr_job.size);
    }
    if (ranks == NULL) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "ranks is NULL");
    }
    is_there = calloc((size_t)nxr_job.size, 1);
    if (is_there == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    for (size_t i = 0; i < nranks && status == NIXL_OK; i++) {
        if (!nxr_is_rank(ranks[i])) {
            status = nxr_fail_rank(operation, ranks[i]);
        } else if (is_there[ranks[i]]++ != 0) {
            status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, ranks[i], "", 0,
                              "rank %d is in the list twice", ranks[i]);
        }
    }
    if (status == NIXL_OK && !is_there[nxr_job.rank]) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, nxr_job.rank, "", 0,
                          "the caller, rank %d, is not in the list", nxr_job.rank);
    }
    free(is_there);
    return status;
}

/* ---- of ranks -------------------------------------------------------------------------------- */

static int make_of_ranks(const struct nxr_wanted *wanted, uint64_t id, bool *is_agreed_p,
                         struct nixl_team **team_p)
{
    return nxr_team_make(wanted->operation, id, wanted->ranks, wanted->size, NIXL_FOREVER,
                         is_agreed_p, team_p);
}

struct nxr_wanted nxr_team_of_ranks(const char *operation, uint64_t origin, const int *ranks,
                                    int size)
{
    uint64_t list = nxr_team_hash_ranks(ranks, size);

    return (struct nxr_wanted){.operation = operation,
                               .make = make_of_ranks,
                               .key = origin != 0 ? nxr_team_mix(origin, list) : list,
                               .ranks = ranks,
                               .size = size};
}

/* How a public call waits for its team. */
struct waiting {
    int64_t timeout_ns;
    struct nixl_req **req_p; /* NULL: it waits itself */
};

static int get_team(const struct nxr_wanted *wanted, const struct waiting *waiting,
                    struct nixl_team **team_p)
{
    return waiting->req_p != NULL ? nxr_making_start(wanted, team_p, waiting->req_p)
                                  : nxr_making_wait(wanted, waiting->timeout_ns, team_p);
}

static int create(const char *operation, const int *ranks, size_t nranks,
                  const struct waiting *waiting, struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, waiting->timeout_ns, team_p);
    struct nxr_wanted wanted;

    if (status == NIXL_OK) {
        status = check_ranks(operation, ranks, nranks);
    }
    if (status != NIXL_OK) {
        return status;
    }
    wanted = nxr_team_of_ranks(operation, 0, ranks, (int)nranks);
    return get_team(&wanted, waiting, team_p);
}

int nixl_team_create(const int *ranks, size_t nranks, int64_t timeout_ns, struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return create("nixl_team_create", ranks, nranks, &waiting, team_p);
}

/* Where a request is made there must be a place for it. */
static int check_req(const char *operation, struct nixl_req **req_p)
{
    return req_p != NULL ? NIXL_OK
                         : nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "req_p is NULL");
}

int nixl_team_create_nb(const int *ranks, size_t nranks, struct nixl_team **team_p,
                        struct nixl_req **req_p)
{
    const struct waiting waiting = {.req_p = req_p};
    int status = check_req("nixl_team_create_nb", req_p);

    return status == NIXL_OK ? create("nixl_team_create_nb", ranks, nranks, &waiting, team_p)
                             : status;
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

/* A list of ranks that is far too long is refused without being made. */
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
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    status = create(operation, ranks, count, waiting, team_p);
    free(ranks);
    return status;
}

int nixl_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                      struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return create_strided("nixl_team_strided", first, stride, count, &waiting, team_p);
}

int nixl_team_world(int64_t timeout_ns, struct nixl_team **team_p)
{
    const struct waiting waiting = {.timeout_ns = timeout_ns};

    return create_strided("nixl_team_world", 0, 1, (size_t)nxr_job.size, &waiting, team_p);
}

int nixl_team_world_nb(struct nixl_team **team_p, struct nixl_req **req_p)
{
    static const char operation[] = "nixl_team_world_nb";
    const struct waiting waiting = {.req_p = req_p};
    int status = check_req(operation, req_p);

    return status == NIXL_OK
               ? create_strided(operation, 0, 1, (size_t)nxr_job.size, &waiting, team_p)
               : status;
}

/* ---- of a team ------------------------------------------------------------------------------- */

/* A team of some places of another one. */
static int make_of_places(struct nixl_team *team, const int *places, int size, uint64_t id,
                          bool *is_agreed_p, struct nixl_team **team_p)
{
    int *ranks = size > 0 ? calloc((size_t)size, sizeof(int)) : NULL;
    int status;

    if (ranks == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, team->operation, -1, "", 0, "no memory for a team");
    }
    for (int i = 0; i < size; i++) {
        ranks[i] = team->ranks[places[i]];
    }
    status =
        nxr_team_make(team->operation, id, ranks, size, nxr_team_left(team), is_agreed_p, team_p);
    free(ranks);
    return status;
}

/* Of all ranks, and of these those on the own host. */
static int make_of_node(const struct nxr_wanted *wanted, uint64_t id, bool *is_agreed_p,
                        struct nixl_team **team_p)
{
    struct nixl_team *all = NULL;
    int status = nxr_team_make(wanted->operation, nxr_team_mix(id, 0), wanted->ranks, wanted->size,
                               NIXL_FOREVER, is_agreed_p, &all);

    if (status != NIXL_OK || all == NULL) {
        return status;
    }
    nxr_team_begin(all, wanted->operation, NIXL_FOREVER);
    status = make_of_places(all, all->local, all->node.size,
                            nxr_team_mix(id, 1 + (uint64_t)all->my_node), is_agreed_p, team_p);
    nxr_team_drop(all);
    return status;
}

int nixl_team_node(int64_t timeout_ns, struct nixl_team **team_p)
{
    static const char operation[] = "nixl_team_node";
    int status = nxr_team_check_make(operation, timeout_ns, team_p), *ranks;
    struct nxr_wanted wanted;

    if (status != NIXL_OK) {
        return status;
    }
    ranks = list_ranks(0, 1, (size_t)nxr_job.size);
    if (ranks == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    wanted = nxr_team_of_ranks(operation, 0, ranks, nxr_job.size);
    wanted.make = make_of_node;
    wanted.key = nxr_team_mix(wanted.key, NODE_KEY);
    status = nxr_making_wait(&wanted, timeout_ns, team_p);
    free(ranks);
    return status;
}

/* What a member says when a team is divided. */
struct choice {
    int32_t color;
    int32_t key;
};

/* The members of a color in their new order: by key, then by place. */
static int choose(const struct choice *choices, int size, int32_t color, int *places)
{
    int n = 0;

    for (int i = 0; i < size; i++) {
        int at = n;

        if (choices[i].color != color) {
            continue;
        }
        while (at > 0 && choices[places[at - 1]].key > choices[i].key) {
            places[at] = places[at - 1];
            at--;
        }
        places[at] = i;
        n++;
    }
    return n;
}

static int split(struct nixl_team *team, struct choice own, struct nixl_team **team_p)
{
    struct choice *choices = calloc((size_t)team->size, sizeof(*choices));
    int *places = calloc((size_t)team->size, sizeof(int));
    int status = NIXL_ERR_NO_MEMORY;

    if (choices != NULL && places != NULL) {
        choices[team->me] = own;
        status = nxr_team_tell_all(team, choices, sizeof(*choices));
    }
    if (status != NIXL_OK) {
        status = nxr_team_end(team, nxr_team_break(team, status, atomic_load(&team->lost_rank)));
    } else {
        team->n_children++;
        if (own.color == NIXL_NO_COLOR) {
            *team_p = NULL;
        } else {
            int n = choose(choices, team->size, own.color, places);

            uint64_t id =
                nxr_team_mix(nxr_team_mix(team->id, team->n_children), (uint64_t)own.color);

            status = make_of_places(team, places, n, id, NULL, team_p);
        }
    }
    free(choices);
    free(places);
    return status;
}

int nixl_team_split(struct nixl_team *team, int color, int key, int64_t timeout_ns,
                    struct nixl_team **team_p)
{
    static const char operation[] = "nixl_team_split";
    int status = nxr_team_check_make(operation, timeout_ns, team_p);

    if (status == NIXL_OK) {
        status = nxr_team_check(operation, team);
    }
    if (status == NIXL_OK && timeout_ns == 0) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                          "the timeout is 0, and the other members are waited for");
    }
    if (status == NIXL_OK && color < 0 && color != NIXL_NO_COLOR) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                          "color %d; allowed is 0 and more, or NIXL_NO_COLOR", color);
    }
    if (status == NIXL_OK) {
        status = nxr_team_enter(team, operation, timeout_ns);
    }
    return status == NIXL_OK ? split(team, (struct choice){color, key}, team_p) : status;
}
