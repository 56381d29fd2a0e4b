/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls about other ranks: where they are and whether they live. The only state is the
 * names of hosts that were asked for, which stay. kept_hosts_lock guards their list.
 */
#include "config.h"

#include "core/job.h"
#include "core/life.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A name that nixl_host() has returned: programs may keep it longer than its peer exists. */
struct host_name {
    struct host_name *next;
    char text[];
};

static pthread_mutex_t kept_hosts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_name *kept_hosts;

/* The copy of the name that stays; NULL: no memory. */
static const char *host_name_kept(const char *text)
{
    size_t nbytes = strlen(text) + 1;
    struct host_name *name;

    pthread_mutex_lock(&kept_hosts_lock);
    for (name = kept_hosts; name != NULL && strcmp(name->text, text) != 0; name = name->next) {
    }
    if (name == NULL) {
        name = malloc(sizeof(*name) + nbytes);
        if (name != NULL) {
            memcpy(name->text, text, nbytes);
            name->next = kept_hosts;
            kept_hosts = name;
        }
    }
    pthread_mutex_unlock(&kept_hosts_lock);
    return name != NULL ? name->text : NULL;
}

static int peer_scope(const struct nxr_peer *peer)
{
    if (peer->rank == nxr_job.rank) {
        return NIXL_SCOPE_SELF;
    }
    return nxr_peer_is_local(peer) ? NIXL_SCOPE_LOCAL : NIXL_SCOPE_REMOTE;
}

int nixl_scope(int rank)
{
    int status;
    const struct nxr_peer *peer = nxr_peer_connected("nixl_scope", rank, &status);

    return peer != NULL ? peer_scope(peer) : status;
}

const char *nixl_host(int rank)
{
    int status;
    const struct nxr_peer *peer = nxr_peer_connected("nixl_host", rank, &status);
    const char *name;

    if (peer == NULL) {
        return NULL;
    }
    if (!peer->has_card) {
        nxr_fail(NIXL_E_NOT_FOUND, "nixl_host", rank, "", 0, "the card of %s is not known",
                 nxr_peer_name(peer));
        return NULL;
    }
    name = host_name_kept(peer->card.host);
    if (name == NULL) {
        nxr_fail(NIXL_E_NO_MEMORY, "nixl_host", rank, "", 0, "no memory for the name");
    }
    return name;
}

int nixl_peer_state(int rank)
{
    int status = nxr_check_ready("nixl_peer_state");
    struct nxr_peer *peer;

    if (status != NIXL_OK) {
        return status;
    }
    if (!nxr_is_rank(rank)) {
        return nxr_fail_rank("nixl_peer_state", rank);
    }
    peer = nxr_peer_find(rank);
    if (peer != NULL) {
        nxr_life_check(peer);
    }
    return peer != NULL ? atomic_load(&peer->state) : NIXL_PEER_ALIVE;
}

static void peer_describe(struct nxr_peer *peer, struct nixl_peer_info *info)
{
    nxr_life_check(peer);
    pthread_mutex_lock(&nxr_job.lock);
    info->job = peer->identity.job;
    info->rank = peer->rank;
    info->incarnation = peer->identity.incarnation;
    info->state = atomic_load(&peer->state);
    info->scope = peer_scope(peer);
    if (peer->has_card) {
        snprintf(info->host, sizeof(info->host), "%s", peer->card.host);
    }
    info->job_rank = peer->identity.rank;
    info->job_size = peer->job_size;
    if (info->state == NIXL_PEER_LOST) {
        snprintf(info->why, sizeof(info->why), "%s", peer->why_not);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

int nixl_peer_query(int rank, struct nixl_peer_info *info_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_peer_info, NIXL_PEER_INFO_INIT, why);
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;
    struct nxr_peer *peer;
    int status = nxr_check_ready("nixl_peer_query");

    if (status == NIXL_OK) {
        status = nxr_struct_check("nixl_peer_query", "info_p", &type, info_p);
    }
    if (status != NIXL_OK) {
        return status;
    }
    peer = nxr_peer_connected("nixl_peer_query", rank, &status);
    if (peer == NULL) {
        return status;
    }
    peer_describe(peer, &info);
    nxr_struct_write(&type, &info, info_p);
    return NIXL_OK;
}

int nxr_peer_number(uint64_t job, int job_rank)
{
    const struct nxr_peer *peer;
    int number = -1;

    if (job == nxr_job.self.job) {
        return nxr_is_own_rank(job_rank) ? job_rank : -1;
    }
    pthread_mutex_lock(&nxr_job.lock);
    for (peer = atomic_load(&nxr_job.attached); peer != NULL && number < 0;
         peer = atomic_load(&peer->next)) {
        if (peer->identity.job == job && peer->identity.rank == job_rank && peer->is_joined &&
            !peer->is_detached && !nxr_peer_is_lost(peer)) {
            number = peer->rank;
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return number;
}

int nixl_peer_number(uint64_t job, int job_rank, int *rank_p)
{
    static const char operation[] = "nixl_peer_number";
    const struct nxr_identity wanted = {job, job_rank, 0};
    int status = nxr_check_ready(operation), number;

    if (status != NIXL_OK) {
        return status;
    }
    if (rank_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "rank_p is NULL");
    }
    number = nxr_peer_number(job, job_rank);
    if (number < 0) {
        return nxr_fail(NIXL_E_NOT_FOUND, operation, -1, "", 0,
                        "%s is not attached to this process, or not any more",
                        nxr_identity_name(&wanted));
    }
    *rank_p = number;
    return NIXL_OK;
}
