/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Team handles: finding out that a team is broken, giving it back, and the calls that only ask.
 * Lock: teams_lock guards the lists. The memory of handles is type-stable and used again late, so
 * that a call on a team that was given back finds that.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/buffer.h"
#include "collective/device.h"
#include "collective/later.h"
#include "collective/making.h"
#include "collective/team.h"
#include "collective/teams.h"
#include "core/event.h"
#include "host/liveness.h"
#include "util/clock.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdio.h>
#include <stdlib.h>

#define NEWS_NS (1 * NXR_S) /* how long the news of a death may take */

#define QUARANTINE 64 /* handles that were given back and are not used again yet */

static pthread_mutex_t teams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list open_teams = {&open_teams, &open_teams};
static struct nxr_list team_retired = {&team_retired, &team_retired}; /* oldest first */
static unsigned team_n_retired;

/* ---- broken teams ---------------------------------------------------------------------------- */

int64_t nxr_team_left(struct nixl_team *team)
{
    if (team->deadline == 0) {
        team->deadline = nxr_deadline(team->timeout_ns);
    }
    return nxr_left(team->timeout_ns, team->deadline);
}

int nxr_team_break(struct nixl_team *team, int status, int lost_rank)
{
    int whole = NIXL_OK;

    int none = -1;

    lost_rank = status == NIXL_ERR_PEER_LOST ? lost_rank : -1;
    atomic_compare_exchange_strong(&team->lost_rank, &none, lost_rank);
    if (atomic_compare_exchange_strong(&team->broken, &whole, status)) {
        nxr_node_break(&team->node, status, lost_rank);
    }
    return status;
}

/* May a death be behind it? A connection that broke, or a member that gave up. */
static bool may_be_of_a_loss(int status)
{
    return status == NIXL_ERR_TRANSPORT || status == NIXL_ERR_STALE;
}

static bool has_lost_one(void *arg)
{
    struct nixl_team *team = arg;

    for (int i = 0; i < team->size; i++) {
        struct nxr_peer *peer = nxr_peer_find(team->ranks[i]);

        if (peer != NULL && team->ranks[i] != nxr_job.rank && nxr_liveness_check(peer)) {
            atomic_store(&team->lost_rank, team->ranks[i]);
            return true;
        }
    }
    return false;
}

int nxr_team_explain(struct nixl_team *team, int status)
{
    int cause = status == NIXL_ERR_CANCELED ? atomic_exchange(&team->cause, NIXL_OK) : status;

    if (!may_be_of_a_loss(cause) || nxr_makings_are_stopping() ||
        nxr_wait(has_lost_one, team, NEWS_NS) != NIXL_OK) {
        return status;
    }
    atomic_store(&team->broken, NIXL_ERR_PEER_LOST);
    return NIXL_ERR_PEER_LOST;
}

void nxr_team_tell_hosts(const struct nixl_team *team)
{
    nxr_post_break(team, &team->boot);
}

/*
 * "ranks 1, 2": the members on this host that have not done what the caller has done already. Where
 * all of them have, others are waited for.
 */
static void name_late_members(const struct nixl_team *team, char *text, size_t nbytes)
{
    const struct nxr_node *node = &team->node;
    int n_late = 0, n_named = 0;
    size_t used;

    for (int i = 0; i < node->size && node->head != NULL; i++) {
        n_late += i != node->me && !nxr_node_has_reached(node, i, node->phase);
    }
    if (n_late == 0) {
        snprintf(text, nbytes,
                 node->size < team->size ? "ranks on other hosts" : "ranks that are behind");
        return;
    }
    used = (size_t)snprintf(text, nbytes, "rank%s", n_late > 1 ? "s" : "");
    for (int i = 0; i < node->size && used + 16 < nbytes; i++) {
        if (i != node->me && !nxr_node_has_reached(node, i, node->phase)) {
            used += (size_t)snprintf(text + used, nbytes - used, "%s %d", n_named > 0 ? "," : "",
                                     team->ranks[team->local[i]]);
            n_named++;
        }
    }
    if (n_named < n_late) {
        snprintf(text + used, nbytes - used, ", ...");
    }
}

int nxr_team_end(struct nixl_team *team, int status)
{
    char why[200];

    nxr_node_break(&team->node, status, atomic_load(&team->lost_rank));
    status = nxr_team_explain(team, status);
    nxr_node_wait_visits(team);
    /* Every rank hears of a death by itself. */
    if (status != NIXL_ERR_PEER_LOST && status != NIXL_ERR_CANCELED) {
        nxr_team_tell_hosts(team);
    }
    if (status == NIXL_ERR_PEER_LOST) {
        int rank = atomic_load(&team->lost_rank);

        const char *lost = nxr_peer_why_lost(rank);

        return nxr_fail(status, team->operation, rank, "", 0, "rank %d of the team %s%s", rank,
                        lost[0] != '\0' ? "is lost: " : "has died", lost);
    }
    if (status == NIXL_ERR_TIMEOUT) {
        name_late_members(team, why, sizeof(why));
        return nxr_fail(status, team->operation, -1, "", 0,
                        "timed out in %s waiting for %s; the team is broken", team->operation, why);
    }
    if (status == NIXL_ERR_CANCELED) {
        return nxr_fail(status, team->operation, -1, "", 0,
                        "the team is broken by an earlier failure, a cancel or another member");
    }
    snprintf(why, sizeof(why), "%s",
             nixl_last_error()->status == status ? nixl_last_error()->text : nixl_strerror(status));
    return nxr_fail(status, team->operation, -1, "", 0, "%s; the team is broken", why);
}

int nxr_team_enter_slow(struct nixl_team *team, const char *operation, int64_t timeout_ns)
{
    int status;

    if (timeout_ns < 0) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "the timeout is negative");
    }
    if (timeout_ns == 0 && team->size > 1) {
        return nxr_fail(NIXL_ERR_AGAIN, operation, -1, "", 0,
                        "timeout 0, and the team has other members; start it by %s_nb", operation);
    }
    if (atomic_load(&team->n_later) != 0) {
        int64_t deadline = nxr_deadline(timeout_ns);

        status = nxr_later_wait(team, timeout_ns);
        if (status != NIXL_OK) {
            return nxr_fail(status, operation, -1, "", 0,
                            "collectives of the team that were started before have not ended");
        }
        timeout_ns = nxr_left(timeout_ns, deadline);
    }
    nxr_team_begin(team, operation, timeout_ns);
    status = nxr_team_look(team, -1);
    return status == NIXL_OK ? status : nxr_team_end(team, status);
}

/* The place of a rank; -1: not a member. */
static int team_place_of(const struct nixl_team *team, int rank)
{
    for (int i = 0; i < team->size; i++) {
        if (team->ranks[i] == rank) {
            return i;
        }
    }
    return -1;
}

/* Look at the deaths of the job that were not looked at yet: was one a member? */
static int look_for_deaths(struct nixl_team *team)
{
    int n_deaths = nxr_event_n_deaths(), n_seen;

    /* The service thread looks, too. A death that both see is counted once: no other is skipped. */
    while ((n_seen = atomic_load(&team->n_deaths_seen)) < n_deaths) {
        int rank = nxr_event_death(n_seen);

        if (team_place_of(team, rank) >= 0) {
            return nxr_team_break(team, NIXL_ERR_PEER_LOST, rank);
        }
        atomic_compare_exchange_strong(&team->n_deaths_seen, &n_seen, n_seen + 1);
    }
    return NIXL_OK;
}

void nxr_team_hear_of_loss(int rank, bool has_left)
{
    if (!nxr_is_rank(rank)) {
        return;
    }
    pthread_mutex_lock(&nxr_job.lock);
    if (has_left) {
        nxr_liveness_left_locked(rank);
    } else {
        nxr_liveness_lost_locked(rank);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* What others have found: shared on this host, or told by another one. */
static int look_at_others(struct nixl_team *team)
{
    const struct nxr_node_head *head = team->node.head;
    int status = head != NULL ? atomic_load(&head->broken) : NIXL_OK;

    if (status == NIXL_ERR_PEER_LOST) {
        int rank = atomic_load(&head->lost_rank);

        nxr_team_hear_of_loss(rank, atomic_load(&head->lost_has_left) != 0);
        return nxr_team_break(team, status, rank);
    }
    if (status == NIXL_OK && !team->is_boot_borrowed &&
        nxr_post_is_broken(&team->boot, team->size)) {
        status = nxr_post_cause(&team->boot, team->size);
    }
    if (status != NIXL_OK) {
        atomic_store(&team->cause, status);
        return nxr_team_break(team, NIXL_ERR_CANCELED, -1);
    }
    return NIXL_OK;
}

int nxr_team_look(struct nixl_team *team, int place)
{
    struct nxr_peer *peer = place >= 0 ? nxr_peer_find(team->ranks[place]) : NULL;
    int status = atomic_load(&team->broken);

    if (status != NIXL_OK) {
        return status == NIXL_ERR_PEER_LOST ? status : NIXL_ERR_CANCELED;
    }
    if (nxr_makings_are_stopping()) {
        return nxr_team_break(team, NIXL_ERR_CANCELED, -1);
    }
    if (team->call != 0 && nxr_agreement_is_written(team->call)) {
        return NIXL_ERR_CANCELED; /* it may yet be made: the team is not broken */
    }
    status = look_for_deaths(team);
    if (status == NIXL_OK) {
        status = look_at_others(team);
    }
    if (status == NIXL_OK && peer != NULL && nxr_liveness_check(peer)) {
        status = nxr_team_break(team, NIXL_ERR_PEER_LOST, peer->rank);
    }
    if (status == NIXL_OK && team->timeout_ns > 0 && nxr_team_left(team) <= 1 &&
        nxr_now_ns() >= team->deadline) {
        status = nxr_team_break(team, NIXL_ERR_TIMEOUT, -1);
    }
    return status;
}

void nxr_teams_look(void)
{
    struct nxr_list *link, *after;

    pthread_mutex_lock(&teams_lock);
    nxr_list_for_each (link, after, &open_teams) {
        look_for_deaths(nxr_list_entry(link, struct nixl_team, link));
    }
    pthread_mutex_unlock(&teams_lock);
}

/* ---- handles --------------------------------------------------------------------------------- */

struct nixl_team *nxr_team_new(void)
{
    struct nixl_team *team = NULL;

    pthread_mutex_lock(&teams_lock);
    if (team_n_retired > QUARANTINE) {
        team = nxr_list_entry(nxr_list_pop(&team_retired), struct nixl_team, link);
        team_n_retired--;
    }
    pthread_mutex_unlock(&teams_lock);
    if (team == NULL) {
        team = malloc(sizeof(*team));
    }
    if (team != NULL) {
        *team = (struct nixl_team){.lost_rank = -1};
        nxr_list_init(&team->link);
    }
    return team;
}

void nxr_team_opened(struct nixl_team *team)
{
    pthread_mutex_lock(&teams_lock);
    nxr_list_append(&open_teams, &team->link);
    pthread_mutex_unlock(&teams_lock);
    atomic_store_explicit(&team->magic, NXR_TEAM_OPEN, memory_order_release);
}

/* Nobody uses the handle any more. */
static void close_handle(struct nixl_team *team)
{
    atomic_store_explicit(&team->magic, 0, memory_order_release);
    nxr_later_stop(team);
}

void nxr_team_drop(struct nixl_team *team)
{
    close_handle(team);
    pthread_mutex_lock(&teams_lock);
    nxr_list_remove(&team->link);
    pthread_mutex_unlock(&teams_lock);
    nxr_buffers_drop(team);
    nxr_device_drop(team);
    nxr_node_close(team);
    nxr_post_close(&team->post);
    if (!team->is_boot_borrowed) {
        nxr_post_close(&team->boot);
    }
    free(team->ranks);
    free(team->srcs);
    free(team->node_of);
    free(team->leaders);
    free(team->local);
    free(team->local_index);
    team->srcs = NULL;
    team->ranks = team->node_of = team->leaders = team->local = team->local_index = NULL;
    pthread_mutex_lock(&teams_lock);
    nxr_list_append(&team_retired, &team->link);
    team_n_retired++;
    pthread_mutex_unlock(&teams_lock);
}

void nxr_teams_free_all(void)
{
    nxr_makings_stop();
    while (!nxr_list_is_empty(&open_teams)) {
        nxr_team_drop(nxr_list_entry(open_teams.next, struct nixl_team, link));
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

int nxr_team_check(const char *operation, const struct nixl_team *team)
{
    int status = nxr_check_ready(operation);

    if (status == NIXL_OK && !nxr_team_is_open(team)) {
        status = nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s",
                          team == NULL ? "the team is NULL" : "the team was given back");
    }
    return status;
}

int nixl_team_free(struct nixl_team *team)
{
    int status = nxr_team_check("nixl_team_free", team);

    if (status != NIXL_OK) {
        return status;
    }
    close_handle(team);
    if (!nxr_making_inherit(team)) {
        nxr_team_drop(team);
    }
    return NIXL_OK;
}

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

int nixl_team_translate(const struct nixl_team *from, int place, const struct nixl_team *to)
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
    if (place < 0 || place >= size) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "place %d; allowed is 0 to %d",
                        place, size - 1);
    }
    rank = from != NULL ? from->ranks[place] : place;
    place = to != NULL ? team_place_of(to, rank) : rank;
    return place >= 0 ? place
                      : nxr_fail(NIXL_ERR_NOT_FOUND, operation, rank, "", 0,
                                 "rank %d is not in the other team", rank);
}
