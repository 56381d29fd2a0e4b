/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a process of another job. No state; job.lock as connect.h says. */
#include "config.h"

#include "attach/connect.h"
#include "core/attached.h"
#include "core/wait.h"
#include "net/net.h"
#include "util/clock.h"
#include "util/env.h"

#include <stdio.h>

#define SAY(_connecting, ...) snprintf((_connecting)->why, sizeof((_connecting)->why), __VA_ARGS__)

bool nxr_connect_may_need_networks(const struct nxr_card *theirs)
{
    const struct nxr_card *own = &nxr_job.card.head;

    return !nxr_card_may_be_local(own, theirs) || !nxr_card_shares_sockets(own, theirs);
}

static bool connect_is_heard(void *arg)
{
    const struct nxr_peer *peer = arg;

    return nxr_peer_is_lost(peer) || nxr_net_has_heard(peer);
}

/* How long to wait: no longer than the call has left. */
static int64_t connect_limit(const struct nxr_connecting *connecting)
{
    int64_t left_ns = nxr_left(nxr_env.resolve_timeout, connecting->deadline);

    return left_ns < nxr_env.resolve_timeout ? left_ns : nxr_env.resolve_timeout;
}

/* Connect, and on another host have the process answer by the network. */
static int connect_and_hail(const struct nxr_connecting *connecting, struct nxr_peer *peer)
{
    int64_t timeout_ns = connect_limit(connecting), deadline = nxr_deadline(timeout_ns);
    int status = nxr_peer_connect(peer, timeout_ns);

    if (status == NIXL_OK && nxr_peer_is_up(peer) && nxr_peer_is_remote(peer) &&
        !nxr_peer_is_lost(peer)) {
        nxr_net_hail(peer);
        status =
            nxr_wait_as(connect_is_heard, peer, nxr_left(timeout_ns, deadline), nxr_describe_reason,
                        &(const struct nxr_reason){
                            .kind = NXR_WAIT_ATTACH, .peer = peer->rank, .call = "nixl_attach"});
    }
    return status;
}

/* Why the process was not reached, as a status and in words. */
static int connect_explain(struct nxr_connecting *connecting, const struct nxr_peer *peer,
                           int status)
{
    bool is_late = nxr_now_ns() >= connecting->deadline;
    char why[NXR_WHY_NBYTES];

    if (nxr_peer_is_lost(peer)) {
        SAY(connecting, "%s%s has ended%s%s", connecting->who, connecting->what,
            peer->why_not[0] != '\0' ? ": " : "", peer->why_not);
        return NIXL_E_NOT_FOUND;
    }
    if (status == NIXL_OK) {
        SAY(connecting, "nothing reaches it: %s", peer->why_not);
        connecting->is_final = true;
        return NIXL_E_UNSUPPORTED;
    }
    if (nxr_peer_is_unconnected(peer, is_late ? "the timeout" : "NIXLRUN_RESOLVE_TIMEOUT", why,
                                sizeof(why))) {
        SAY(connecting, "%s", why);
    } else {
        SAY(connecting, "%s%s was not connected in time", connecting->who, connecting->what);
    }
    return NIXL_E_TIMEOUT;
}

/* What has become of the connection; a peer that could not be connected is given up. */
static int connect_judge(struct nxr_connecting *connecting, struct nxr_peer *peer, int status)
{
    pthread_mutex_lock(&nxr_job.lock);
    if (status == NIXL_OK && nxr_peer_is_up(peer) && !nxr_peer_is_lost(peer) &&
        peer->transport != NULL) {
        connecting->rank = peer->rank;
        connecting->network = nxr_peer_is_remote(peer) ? peer->transport->name : NULL;
        nxr_attach_join(peer);
    } else {
        status = connect_explain(connecting, peer, status);
        if (!peer->is_joined) {
            nxr_attached_end(peer);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

int nxr_connect_met(const struct nxr_met *met, struct nxr_connecting *connecting)
{
    struct nxr_peer *peer;
    bool is_new;
    int status;

    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_attach_peer(met, &peer, &is_new);
    if (status == NIXL_OK) {
        nxr_attach_begin(peer, met->number);
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (status != NIXL_OK) {
        SAY(connecting, "no memory or no descriptor for a peer");
        connecting->is_final = true;
        return status;
    }
    return connect_judge(connecting, peer, connect_and_hail(connecting, peer));
}
