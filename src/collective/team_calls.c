/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls that make teams: which ranks, and which id. An id is made of what all members
 * know: of a list of ranks and how often this list was used, or of the team that is divided and how
 * many teams it has made. Lock: uses_lock guards the table of lists.
 */
#include "config.h"

#include "collective/team.h"
#include "util/status.h"

#include <stdlib.h>

/* How often a team was made of a list of ranks. */
struct use {
    struct nxr_list link;
    uint64_t list;
    uint64_t n_uses;
};

static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list uses = {&uses, &uses};

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

/* The table entry of a list; NULL: no memory. Caller holds uses_lock. */
static struct use *find_use(uint64_t list)
{
    struct nxr_list *link, *after;
    struct use *use;

    nxr_list_for_each (link, after, &uses) {
        use = nxr_list_entry(link, struct use, link);
        if (use->list == list) {
            return use;
        }
    }
    use = calloc(1, sizeof(*use));
    if (use != NULL) {
        use->list = list;
        nxr_list_append(&uses, &use->link);
    }
    return use;
}

uint64_t nxr_team_id_of(uint64_t list, bool is_used)
{
    uint64_t id = 0;
    struct use *use;

    pthread_mutex_lock(&uses_lock);
    use = find_use(list);
    if (use != NULL) {
        id = nxr_team_mix(list, use->n_uses + 1);
        use->n_uses += is_used;
    }
    pthread_mutex_unlock(&uses_lock);
    return id;
}

void nxr_team_calls_reset(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&uses)) != NULL) {
        free(nxr_list_entry(link, struct use, link));
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

int nxr_team_check_make(const char *operation, int64_t timeout_ns, struct nixl_team **team_p)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && (timeout_ns <= 0 || team_p == NULL)) {
        status =
            nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s",
                     team_p == NULL ? "team_p is NULL"
                                    : "the timeout is 0 or negative, and others are waited for");
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

/* Make a team of a list that was checked. */
static int make_of_list(const char *operation, const int *ranks, size_t nranks, int64_t timeout_ns,
                        struct nixl_team **team_p)
{
    uint64_t id = nxr_team_id_of(nxr_team_hash_ranks(ranks, (int)nranks), true);

    if (id == 0) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a team");
    }
    return nxr_team_make(operation, id, ranks, (int)nranks, timeout_ns, team_p);
}

/* ---- of ranks -------------------------------------------------------------------------------- */

int nixl_team_create(const int *ranks, size_t nranks, int64_t timeout_ns, struct nixl_team **team_p)
{
    int status = nxr_team_check_make("nixl_team_create", timeout_ns, team_p);

    if (status == NIXL_OK) {
        status = check_ranks("nixl_team_create", ranks, nranks);
    }
    return status == NIXL_OK ? make_of_list("nixl_team_create", ranks, nranks, timeout_ns, team_p)
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

static int make_strided(const char *operation, int first, int stride, size_t count,
                        int64_t timeout_ns, struct nixl_team **team_p)
{
    int status = nxr_team_check_make(operation, timeout_ns, team_p);
    int *ranks;

    if (status != NIXL_OK) {
        return status;
    }
    ranks = count <= (size_t)nxr_job.size ? list_ranks(first, stride, count) : NULL;
    if (ranks == NULL && count <= (size_t)nxr_job.size) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a list of ranks");
    }
    status = check_ranks(operation, ranks, count);
    if (status == NIXL_OK && ranks != NULL) {
        status = make_of_list(operation, ranks, count, timeout_ns, team_p);
    }
    free(ranks);
    return status;
}

int nixl_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                      struct nixl_team **team_p)
{
    return make_strided("nixl_team_strided", first, stride, count, timeout_ns, team_p);
}

int nixl_team_world(int64_t timeout_ns, struct nixl_team **team_p)
{
    return make_strided("nixl_team_world", 0, 1, (size_t)nxr_job.size, timeout_ns, team_p);
}

/* ---- of a team ------------------------------------------------------------------------------- */

/* A team of some places of another one, told apart from its other children by `part`. */
static int make_of_places(const char *operation, struct nixl_team *team, const int *places,
                          int size, uint64_t part, struct nixl_team **team_p)
{
    uint64_t id = nxr_team_mix(nxr_team_mix(team->id, team->n_children), part);
    int *ranks = size > 0 ? calloc((size_t)size, sizeof(int)) : NULL;
    int status;

    if (ranks == NULL) {
        return nxr_fail(NIXL_ERR_NO_MEMORY, operation, -1, "", 0, "no memory for a team");
    }
    for (int i = 0; i < size; i++) {
        ranks[i] = team->ranks[places[i]];
    }
    status = nxr_team_make(operation, id, ranks, size, nxr_team_left(team), team_p);
    free(ranks);
    return status;
}

int nixl_team_node(int64_t timeout_ns, struct nixl_team **team_p)
{
    struct nixl_team *all = NULL;
    int status = nxr_team_check_make("nixl_team_node", timeout_ns, team_p);

    if (status == NIXL_OK) {
        status = make_strided("nixl_team_node", 0, 1, (size_t)nxr_job.size, timeout_ns, &all);
    }
    if (status != NIXL_OK || all == NULL) {
        return status;
    }
    nxr_team_begin(all, "nixl_team_node", timeout_ns);
    status = make_of_places("nixl_team_node", all, all->local, all->node.size,
                            (uint64_t)all->my_node, team_p);
    nxr_team_drop(all);
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

            status = make_of_places(team->operation, team, places, n, (uint64_t)own.color, team_p);
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
    if (status == NIXL_OK && color < 0 && color != NIXL_NO_COLOR) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0,
                          "color %d; allowed is 0 and more, or NIXL_NO_COLOR", color);
    }
    if (status == NIXL_OK) {
        status = nxr_team_enter(team, operation, timeout_ns);
    }
    return status == NIXL_OK ? split(team, (struct choice){color, key}, team_p) : status;
}
