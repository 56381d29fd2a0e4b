/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Team handles: making an empty one, finding all open ones, and freeing one with everything it has.
 * Lock: teams_lock guards the lists. The memory of handles is type-stable and reused as late as
 * possible, so that a call on a freed team detects that.
 */
#include "config.h"

#include "collective/agreement.h"
#include "collective/buffer.h"
#include "collective/coll.h"
#include "collective/device.h"
#include "collective/later.h"
#include "collective/reform.h"
#include "collective/team.h"
#include "collective/teams.h"
#include "util/handle.h"
#include "core/subsystem.h"

#include <stdlib.h>

static pthread_mutex_t teams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list open_teams = {&open_teams, &open_teams};
static struct nxr_list mixed_teams = {&mixed_teams, &mixed_teams};
static struct nxr_handle_cache team_handles =
    NXR_HANDLE_CACHE(team_handles, struct nixl_team, link, 64);

struct nixl_team *nxr_team_new(void)
{
    struct nixl_team *team;

    pthread_mutex_lock(&teams_lock);
    team = nxr_handle_take(&team_handles);
    pthread_mutex_unlock(&teams_lock);
    if (team != NULL) {
        *team = (struct nixl_team){.lost_rank = -1};
        nxr_list_init(&team->link);
        nxr_list_init(&team->mixed_link);
    }
    return team;
}

void nxr_team_admit(struct nixl_team *team)
{
    if (team->is_mixed) {
        pthread_mutex_lock(&teams_lock);
        nxr_list_append(&mixed_teams, &team->mixed_link);
        pthread_mutex_unlock(&teams_lock);
    }
}

void nxr_team_opened(struct nixl_team *team)
{
    pthread_mutex_lock(&teams_lock);
    nxr_list_append(&open_teams, &team->link);
    pthread_mutex_unlock(&teams_lock);
    atomic_store_explicit(&team->magic, NXR_TEAM_OPEN, memory_order_release);
}

void nxr_team_close(struct nixl_team *team)
{
    atomic_store_explicit(&team->magic, 0, memory_order_release);
    nxr_later_stop(team);
    nxr_colls_close(team);
}

void nxr_team_drop(struct nixl_team *team)
{
    nxr_team_close(team);
    pthread_mutex_lock(&teams_lock);
    nxr_list_remove(&team->link);
    nxr_list_remove(&team->mixed_link);
    pthread_mutex_unlock(&teams_lock);
    nxr_buffers_drop(team);
    nxr_device_drop(team);
    nxr_node_close(team);
    nxr_mailbox_close(&team->post);
    if (!team->is_boot_borrowed) {
        nxr_mailbox_close(&team->boot);
    }
    nxr_team_count_end(team);
    free(team->ranks);
    free(team->members);
    free(team->srcs);
    free(team->node_of);
    free(team->leaders);
    free(team->local);
    free(team->local_index);
    team->srcs = NULL;
    team->members = NULL;
    team->ranks = team->node_of = team->leaders = team->local = team->local_index = NULL;
    pthread_mutex_lock(&teams_lock);
    nxr_handle_retire(&team_handles, team);
    pthread_mutex_unlock(&teams_lock);
}

void nxr_teams_drop_all(void)
{
    while (!nxr_list_is_empty(&open_teams)) {
        nxr_team_drop(nxr_list_entry(open_teams.next, struct nixl_team, link));
    }
}

/* Make all threads that wait for a member check again. job.lock is held. */
static void team_death_known(const struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    (void)peer;
    pthread_mutex_lock(&teams_lock);
    nxr_list_for_each (link, after, &open_teams) {
        (void)nxr_team_look_for_deaths(nxr_list_entry(link, struct nixl_team, link));
    }
    pthread_mutex_unlock(&teams_lock);
}

/* Is that process a member of such a team? Any thread. */
static bool team_is_with(const struct nxr_identity *process)
{
    struct nxr_list *link, *after;
    bool is_with = false;

    pthread_mutex_lock(&teams_lock);
    nxr_list_for_each (link, after, &mixed_teams) {
        const struct nixl_team *team = nxr_list_entry(link, struct nixl_team, mixed_link);

        for (int i = 0; i < team->size && !is_with; i++) {
            is_with = nxr_identity_is(&team->members[i], process);
        }
    }
    pthread_mutex_unlock(&teams_lock);
    return is_with;
}

static void team_register(void)
{
    nxr_agreement_register(team_is_with);
    nxr_reform_register();
}

const struct nxr_subsystem nxr_teams_subsystem = {
    .name = "teams",
    .register_handlers = team_register,
    .death_known = team_death_known,
    .stop = nxr_agreements_forget,
};
