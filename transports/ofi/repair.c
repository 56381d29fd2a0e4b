/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which paths may be used, and what to do when one fails or falls silent.
 *
 * A path is proven when the peer answers a PING there; until then it carries nothing else, and
 * the PING is repeated. So a network that leads nowhere costs only the PINGs. If libfabric
 * reports a failure on a path, the path is not proven any more, and what was under way on it goes
 * elsewhere. If no way of a peer comes back within GIVE_UP_NS after a failure, the peer is gone.
 *
 * A path that is silent while the peer answers on another one is cut, because nothing else would
 * report that failure. Bytes of old pieces may still lie in the network and in the kernels and
 * arrive when the link comes back, long after the operation has ended. So both ends close their
 * endpoint on that rail before a piece is sent again: this process, so that no late answer is
 * written here; the peer (by a FENCE), so that no late write lands there. A peer that is silent
 * everywhere is not judged here: the network may only be stalled, and the core knows how long to
 * wait.
 */
#include "config.h"

#include "outbox.h"
#include "repair.h"
#include "rma.h"
#include "transports/reason.h"
#include "transports/stripe.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

#define NXR_OFI_TICK_NS (100 * NXR_MS)
#define QUIET_NS        (400 * NXR_MS) /* ask after this much silence */
#define SILENT_NS       (900 * NXR_MS) /* cut it after this much, if another path answers */
#define GIVE_UP_NS      (3 * NXR_S)
#define IDLE_NS         (3 * NXR_S) /* how often a quiet peer is asked whether it lives */
#define REST_NS         (1 * NXR_S)
#define FENCE_NS        (200 * NXR_MS)
#define WANTED_NS       (1 * NXR_S) /* ... more often while the core tries to reach a peer */
#define RAIL_BITS       8           /* low bits of a fence's argument; the rest: its number */

static void ofi_repair_look_at(int64_t at)
{
    if (nxr_ofi.repair_at == 0 || at < nxr_ofi.repair_at) {
        nxr_ofi.repair_at = at;
    }
}

unsigned nxr_ofi_n_usable(const struct nxr_net_ep *ep)
{
    unsigned n = 0;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        n += nxr_ofi_path_is_usable(ep, i);
    }
    return n;
}

bool nxr_ofi_is_wanted(const struct nxr_net_ep *ep)
{
    return !ep->is_reached && ep->wanted_at != 0 && nxr_ofi.now - ep->wanted_at < WANTED_NS;
}

void nxr_ofi_repair_within(int64_t ns)
{
    ofi_repair_look_at(nxr_now_ns() + ns);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Messages take the nearest path that works; all that is not acknowledged is sent again there. */
static void choose_message_path(struct nxr_net_ep *ep)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        if (nxr_ofi_path_is_usable(ep, i)) {
            ep->message_path = i;
            nxr_ofi_send_again(ep);
            return;
        }
    }
}

static void lengthen_pause(struct nxr_ofi_path *path)
{
    path->pause_ns = nxr_rail_longer_pause(path->pause_ns);
}

static void set_unproven(struct nxr_net_ep *ep, unsigned index)
{
    struct nxr_ofi_path *path = &ep->paths[index];

    path->is_proven = path->is_asked = false;
    lengthen_pause(path);
    path->ping_after = nxr_ofi.now + path->pause_ns;
    nxr_ofi_repair_within(NXR_RAIL_FIRST_PAUSE);
    if (index == ep->message_path) {
        choose_message_path(ep);
    }
}

void nxr_ofi_path_moved(struct nxr_net_ep *ep, unsigned index)
{
    struct nxr_ofi_path *path = &ep->paths[index];

    path->moved_at = nxr_ofi.now;
    path->pinged_at = 0;
    ep->broken_at = 0;
}

void nxr_ofi_path_failed(struct nxr_net_ep *ep, unsigned index, const char *why)
{
    if (ep->is_failed || !ep->paths[index].is_proven) {
        return;
    }
    nxr_rail_failed(&ep->paths[index].count);
    nxr_ofi.core->log(NXR_NET_INFO, "ofi: a connection by %s has failed: %s",
                      nxr_ofi.rails[index].device, why);
    if (ep->broken_at == 0) {
        ep->broken_at = nxr_ofi.now;
        snprintf(ep->why, sizeof(ep->why), "%s: %s", nxr_ofi.rails[index].device, why);
    }
    set_unproven(ep, index);
}

static void prove(struct nxr_net_ep *ep, unsigned index)
{
    struct nxr_ofi_path *path = &ep->paths[index];
    bool is_nearer = !path->was_proven && index < ep->message_path;

    if (path->was_proven) {
        nxr_ofi.core->log(NXR_NET_INFO, "ofi: %s answers again; used again",
                          nxr_ofi.rails[index].device);
    }
    path->is_proven = path->was_proven = ep->is_reached = true;
    if (is_nearer || !nxr_ofi_path_is_usable(ep, ep->message_path)) {
        ep->message_path = index;
    }
    nxr_ofi_send_again(ep);
}

void nxr_ofi_ponged(struct nxr_net_ep *ep, unsigned index, uint64_t posted_seq)
{
    struct nxr_ofi_path *path = &ep->paths[index];

    if (!path->is_proven) {
        prove(ep, index);
    } else if (index == ep->message_path && posted_seq > ep->acked_seq) {
        nxr_ofi_send_again(ep); /* they were sent before the PING, and did not arrive */
    }
    path->pause_ns = 0;
    nxr_ofi_post_pieces(ep);
}

/* ---- closing rails --------------------------------------------------------------------------- */

static void rail_closed(struct nxr_net_ep *ep, unsigned rail)
{
    nxr_ofi_outbox_rail_closed(ep, rail);
    nxr_ofi_pieces_rail_closed(ep, rail);
    if (!ep->is_failed && ep->message_path == rail) {
        nxr_ofi_send_again(ep);
    }
    nxr_ofi_aside_rest(ep);
}

bool nxr_ofi_reset_rails(void)
{
    bool has_reset = false;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_rail *rail = &nxr_ofi.rails[i];

        /*
         * A rail that cannot be opened, for example because its interface has lost the address,
         * rests as well.
         */
        if (rail->must_reset && rail->is_software &&
            (rail->ep != NULL || rail->rest_until <= nxr_ofi.now)) {
            rail->must_reset = nxr_ofi_rail_reopen(rail) != NIXL_OK;
            rail->rest_until = nxr_ofi.now + REST_NS;
            nxr_ofi.core->log(NXR_NET_DEBUG, "ofi: %s was closed and opened again", rail->device);
            nxr_ofi_peers_each(rail_closed, i);
            nxr_ofi_repair_within(NXR_RAIL_FIRST_PAUSE);
            has_reset = true;
        }
        rail->must_reset = rail->must_reset && rail->is_software;
        if (rail->must_reset) {
            nxr_ofi_repair_within(rail->rest_until - nxr_ofi.now);
        }
    }
    return has_reset;
}

void nxr_ofi_fence(struct nxr_ofi_path *path)
{
    path->must_fence = true;
    path->fence++;
    path->fence_at = 0;
}

void nxr_ofi_fence_asked(struct nxr_net_ep *ep, unsigned path, uint64_t argument)
{
    unsigned rail = argument & ((1u << RAIL_BITS) - 1);

    if (rail >= nxr_ofi.n_rails || argument >> RAIL_BITS == 0) {
        return;
    }
    if (ep->fences[rail] != argument) {
        ep->fences[rail] = argument;
        nxr_ofi.rails[rail].must_reset = true;
        if (path != rail && ep->paths[rail].is_proven) {
            set_unproven(ep, rail); /* the peer hears nothing there, not even answers */
        }
    }
    ep->must_answer_fence[rail] = true;
    nxr_ofi_repair_within(0);
}

void nxr_ofi_fenced(struct nxr_net_ep *ep, uint64_t argument)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_path *path = &ep->paths[i];
        struct nxr_list *link;

        if (!path->must_fence || path->theirs != (int)(argument & ((1u << RAIL_BITS) - 1)) ||
            path->fence != argument >> RAIL_BITS) {
            continue;
        }
        path->must_fence = false;
        nxr_ofi.core->log(NXR_NET_DEBUG, "ofi: the peer has closed its end of %s",
                          nxr_ofi.rails[i].device);
        while ((link = nxr_list_pop(&path->fenced)) != NULL) {
            nxr_list_append(&ep->waiting, link);
        }
        nxr_ofi_post_pieces(ep);
    }
}

/* Ask the peer to close its ends, and answer its requests once ours are closed. */
static void send_fences(struct nxr_net_ep *ep)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_path *path = &ep->paths[i];

        if (ep->must_answer_fence[i] && !nxr_ofi.rails[i].must_reset &&
            nxr_ofi_send_control(ep, ep->message_path, NXR_OFI_FENCED, ep->fences[i])) {
            ep->must_answer_fence[i] = false;
        }
        if (path->must_fence && nxr_ofi.now >= path->fence_at + FENCE_NS) {
            if (nxr_ofi_send_control(ep, ep->message_path, NXR_OFI_FENCE,
                                     path->fence << RAIL_BITS | (unsigned)path->theirs)) {
                path->fence_at = nxr_ofi.now;
            }
        }
    }
}

/* ---- silence --------------------------------------------------------------------------------- */

/*
 * How long nothing has moved here although something should have: since when. INT64_MAX: nothing
 * should.
 */
static int64_t quiet_since(const struct nxr_net_ep *ep, unsigned index)
{
    const struct nxr_ofi_path *path = &ep->paths[index];
    int64_t since = INT64_MAX;

    if (path->n_pieces > 0) {
        since = nxr_list_entry(path->pieces.next, struct nxr_ofi_piece, link)->posted_at;
    }
    if (index == ep->message_path && ep->acked_seq + 1 != ep->next_seq && ep->acked_at < since) {
        since = ep->acked_at;
    }
    if (path->pinged_at != 0 && path->pinged_at < since) {
        since = path->pinged_at;
    }
    return since != INT64_MAX && path->moved_at > since ? path->moved_at : since;
}

/* A PING that cannot be sent counts as unanswered, too. */
static void ofi_repair_ping(struct nxr_net_ep *ep, unsigned index)
{
    struct nxr_ofi_path *path = &ep->paths[index];
    uint64_t argument = index == ep->message_path ? ep->posted_seq : 0;

    path->is_asked |= nxr_ofi_send_control(ep, index, NXR_OFI_PING, argument);
    path->ping_after = nxr_ofi.now + (path->is_proven ? QUIET_NS : path->pause_ns);
    if (path->pinged_at == 0) {
        path->pinged_at = nxr_ofi.now;
    }
}

bool nxr_ofi_ask_paths(struct nxr_net_ep *ep)
{
    bool is_asked = true;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_path *path = &ep->paths[i];

        if (path->theirs >= 0 && !path->is_proven && !path->is_asked) {
            ofi_repair_ping(ep, i);
            is_asked &= path->is_asked;
        }
    }
    return is_asked;
}

/*
 * A peer that asks here is alive: ask it at once, too, instead of when there is something to send.
 */
void nxr_ofi_pinged(struct nxr_net_ep *ep, unsigned path, uint64_t argument)
{
    (void)nxr_ofi_send_control(ep, path, NXR_OFI_PONG, argument);
    if (!ep->paths[path].is_proven) {
        ofi_repair_ping(ep, path);
    }
}

/* Has the peer answered elsewhere since? */
static bool answers_elsewhere(const struct nxr_net_ep *ep, unsigned index, int64_t since)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        if (i != index && ep->paths[i].theirs >= 0 && ep->paths[i].moved_at > since + QUIET_NS) {
            return true;
        }
    }
    return false;
}

static void ofi_repair_cut(struct nxr_net_ep *ep, unsigned index)
{
    nxr_ofi.core->log(NXR_NET_INFO, "ofi: %s is silent where another rail answers; not used now",
                      nxr_ofi.rails[index].device);
    if (ep->paths[index].n_pieces > 0) {
        nxr_ofi.rails[index].must_reset = true;
    }
    ep->paths[index].pinged_at = 0;
    set_unproven(ep, index);
}

static bool is_unproven(const struct nxr_ofi_path *path)
{
    return path->theirs >= 0 && !path->is_proven;
}

/* Ask on the paths that are not proven, and with must_ask on the proven ones, too. */
static void ofi_repair_ask_again(struct nxr_net_ep *ep, bool must_ask)
{
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_ofi_path *path = &ep->paths[i];

        if (nxr_ofi.now >= path->ping_after &&
            (is_unproven(path) || (must_ask && path->is_proven))) {
            if (!path->is_proven) {
                lengthen_pause(path);
            }
            ofi_repair_ping(ep, i);
        }
        if (is_unproven(path)) {
            ofi_repair_look_at(path->ping_after);
        }
    }
}

/* Has it been asked for a while, without an answer on any path? */
static bool is_unreached(const struct nxr_net_ep *ep)
{
    int64_t asked_at = ep->paths[ep->message_path].pinged_at;

    return nxr_ofi_n_usable(ep) == 0 && asked_at != 0 && nxr_ofi.now - asked_at >= QUIET_NS;
}

/*
 * Ask on a path in use when it is quiet, and then on all others, to compare. Returns whether the
 * peer has to be watched further.
 */
static bool watch_paths(struct nxr_net_ep *ep)
{
    bool must_ask = ep->broken_at != 0; /* is the peer alive, though it has nothing to send? */

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        int64_t since = quiet_since(ep, i);

        if (!ep->paths[i].is_proven || since == INT64_MAX || nxr_ofi.now - since < QUIET_NS) {
            continue;
        }
        must_ask = true;
        if (nxr_ofi.now - since >= SILENT_NS && answers_elsewhere(ep, i, since)) {
            ofi_repair_cut(ep, i);
        }
    }
    ofi_repair_ask_again(ep, must_ask);
    return must_ask || is_unreached(ep);
}

/* Does this peer have anything that must be watched? */
static bool ofi_repair_is_watched(const struct nxr_net_ep *ep)
{
    bool is = ep->acked_seq + 1 != ep->next_seq || ep->n_rmas > 0 || ep->close_at != 0 ||
              ep->broken_at != 0 || nxr_ofi_is_wanted(ep);

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        const struct nxr_ofi_path *path = &ep->paths[i];

        is |= path->must_fence || ep->must_answer_fence[i] ||
              (path->is_proven && path->pinged_at != 0);
    }
    return is;
}

/* When anything of the peer last arrived or completed; 0: never. */
static int64_t heard_at(const struct nxr_net_ep *ep)
{
    int64_t at = 0;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        at = ep->paths[i].moved_at > at ? ep->paths[i].moved_at : at;
    }
    return at;
}

/* Ask a peer that was heard before, and is quiet because there is nothing to send. */
static void look_after_idle(struct nxr_net_ep *ep)
{
    int64_t at = heard_at(ep);

    if (!ep->is_open || at == 0) {
        return;
    }
    if (nxr_ofi.now - at >= IDLE_NS) {
        ofi_repair_ping(ep, ep->message_path);
        ofi_repair_look_at(nxr_ofi.now + NXR_OFI_TICK_NS);
    } else {
        ofi_repair_look_at(at + IDLE_NS);
    }
}

/*
 * The peer is gone if all its ways refuse. Exception: a peer that has asked here may have got our
 * answer and use this network, no matter what happens to our own PINGs.
 */
static bool is_gone(struct nxr_net_ep *ep)
{
    return nxr_ofi_liveness_probe(ep) && (ep->is_reached || heard_at(ep) == 0);
}

static void look_after(struct nxr_net_ep *ep, unsigned unused)
{
    (void)unused;
    nxr_ofi_ep_finish_close(ep);
    if (ep->is_failed) {
        return;
    }
    if (!ofi_repair_is_watched(ep)) {
        if (ep->is_reached) { /* else it is not wanted any more */
            ofi_repair_ask_again(ep, false);
        }
        look_after_idle(ep);
        return;
    }
    ofi_repair_look_at(nxr_ofi.now + NXR_OFI_TICK_NS);
    if (ep->broken_at != 0 && nxr_ofi.now - ep->broken_at > GIVE_UP_NS) {
        nxr_ofi_peer_fail(ep, ep->why);
        return;
    }
    if (!watch_paths(ep)) {
        nxr_ofi_liveness_end(ep);
        ep->n_refused = 0;
    } else if (is_gone(ep)) {
        char text[sizeof(ep->why)] = NXR_ALL_REFUSE;
        size_t used = strlen(text);

        nxr_ofi_peer_text(ep, text + used, sizeof(text) - used);
        nxr_ofi_peer_fail(ep, text);
        return;
    }
    send_fences(ep);
}

void nxr_ofi_repair(void)
{
    if (nxr_ofi.repair_at == 0 || nxr_ofi.now < nxr_ofi.repair_at) {
        return;
    }
    nxr_ofi.repair_at = 0;
    nxr_ofi_peers_each(look_after, 0);
}
