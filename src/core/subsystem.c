/* SPDX-License-Identifier: Apache-2.0 */
/* The list of subsystems. Set once before any thread reads it: no lock. */
#include "config.h"

#include "core/subsystem.h"
#include "core/job.h"
#include "nixlrun.h"

#define MOST 40

static const struct nxr_subsystem *const *subsystems;
static size_t n_subsystems;
static size_t peer_nbytes; /* of a peer with the slots that are laid out */

/* The `progress` slots that are not NULL, in calling order: they are called often. */
static bool (*progress_of[MOST])(void);
static size_t n_progress;

/* Call a slot of all: upwards in the order of start, downwards in reverse. */
#define UPWARDS(slot, ...)                                                                         \
    for (size_t i = 0; i < n_subsystems; i++) {                                                    \
        if (subsystems[i]->slot != NULL) {                                                         \
            subsystems[i]->slot(__VA_ARGS__);                                                      \
        }                                                                                          \
    }
#define DOWNWARDS(slot, ...)                                                                       \
    for (size_t i = n_subsystems; i-- > 0;) {                                                      \
        if (subsystems[i]->slot != NULL) {                                                         \
            subsystems[i]->slot(__VA_ARGS__);                                                      \
        }                                                                                          \
    }

static size_t whole_lines(size_t nbytes)
{
    return (nbytes + NXR_LINE_NBYTES - 1) / NXR_LINE_NBYTES * NXR_LINE_NBYTES;
}

/* Give each subsystem that keeps something of a peer its place behind struct nxr_peer. */
static void lay_out_slots(void)
{
    peer_nbytes = whole_lines(sizeof(struct nxr_peer));
    for (size_t i = 0; i < n_subsystems; i++) {
        struct nxr_peer_slot *slot = subsystems[i]->peer_slot;

        if (slot != NULL) {
            slot->offset = peer_nbytes;
            peer_nbytes += whole_lines(slot->nbytes);
        }
    }
}

void nxr_subsystems_set(const struct nxr_subsystem *const *list, size_t n)
{
    subsystems = list;
    n_subsystems = n;
    n_progress = 0;
    lay_out_slots();
    UPWARDS(register_handlers)
    for (size_t i = n; i-- > 0;) {
        if (list[i]->progress != NULL && n_progress < MOST) {
            progress_of[n_progress++] = list[i]->progress;
        }
    }
}

/* End the state of a peer of the first n subsystems. */
static void peer_fini_from(size_t n, struct nxr_peer *peer)
{
    while (n-- > 0) {
        if (subsystems[n]->peer_fini != NULL) {
            subsystems[n]->peer_fini(peer);
        }
    }
}

size_t nxr_subsystems_peer_nbytes(void)
{
    return peer_nbytes != 0 ? peer_nbytes : whole_lines(sizeof(struct nxr_peer));
}

bool nxr_subsystems_peer_init(struct nxr_peer *peer)
{
    for (size_t i = 0; i < n_subsystems; i++) {
        if (subsystems[i]->peer_init != NULL && !subsystems[i]->peer_init(peer)) {
            peer_fini_from(i, peer);
            return false;
        }
    }
    return true;
}

void nxr_subsystems_peer_fini(struct nxr_peer *peer)
{
    peer_fini_from(n_subsystems, peer);
}

int nxr_subsystems_listen(void)
{
    for (size_t i = 0; i < n_subsystems; i++) {
        int status = subsystems[i]->listen != NULL ? subsystems[i]->listen() : NIXL_OK;

        if (status != NIXL_OK) {
            return status;
        }
    }
    return NIXL_OK;
}

int64_t nxr_subsystems_tick(int64_t now)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < n_subsystems; i++) {
        int64_t next = subsystems[i]->tick != NULL ? subsystems[i]->tick(now) : INT64_MAX;

        due = next < due ? next : due;
    }
    return due;
}

bool nxr_subsystems_progress(void)
{
    bool has_moved = false;

    for (size_t i = 0; i < n_progress; i++) {
        has_moved |= progress_of[i]();
    }
    return has_moved;
}

void nxr_subsystems_serve(void)
{
    UPWARDS(serve)
}

void nxr_subsystems_drive(void)
{
    UPWARDS(drive)
}

void nxr_subsystems_hand_over(void)
{
    UPWARDS(hand_over)
}

void nxr_subsystems_remote_greeting(struct nxr_peer *peer, const struct nxr_full_card *card)
{
    UPWARDS(remote_greeting, peer, card)
}

void nxr_subsystems_peer_connected(struct nxr_peer *peer)
{
    UPWARDS(peer_connected, peer)
}

void nxr_subsystems_context_opened(struct nixl_context *context)
{
    UPWARDS(context_opened, context)
}

void nxr_subsystems_context_closed(struct nixl_context *context)
{
    UPWARDS(context_closed, context)
}

void nxr_subsystems_event_fd_read(void)
{
    UPWARDS(event_fd_read)
}

void nxr_subsystems_puts_ended(struct nxr_peer *peer)
{
    UPWARDS(puts_ended, peer)
}

void nxr_subsystems_region_closing(const struct nixl_region *region)
{
    UPWARDS(region_closing, region)
}

bool nxr_subsystems_has_news(void)
{
    bool has_news = false;

    for (size_t i = 0; i < n_subsystems; i++) {
        has_news |= subsystems[i]->has_news != NULL && subsystems[i]->has_news();
    }
    return has_news;
}

void nxr_subsystems_long_wait_ended(void)
{
    UPWARDS(long_wait_ended)
}

void nxr_subsystems_observe(struct nxr_observe_waits *waits)
{
    UPWARDS(observe, waits)
}

bool nxr_subsystems_has_left(int rank)
{
    for (size_t i = 0; i < n_subsystems; i++) {
        if (subsystems[i]->has_left != NULL && subsystems[i]->has_left(rank)) {
            return true;
        }
    }
    return false;
}

void nxr_subsystems_peer_ending(struct nxr_peer *peer)
{
    UPWARDS(peer_ending, peer)
}

void nxr_subsystems_peer_ended(struct nxr_peer *peer)
{
    UPWARDS(peer_ended, peer)
}

void nxr_subsystems_death_known(const struct nxr_peer *peer)
{
    UPWARDS(death_known, peer)
}

bool nxr_subsystems_numbers_grow(int n_numbers)
{
    for (size_t i = 0; i < n_subsystems; i++) {
        if (subsystems[i]->numbers_grow != NULL && !subsystems[i]->numbers_grow(n_numbers)) {
            return false;
        }
    }
    return true;
}

void nxr_subsystems_peer_replaced(struct nxr_peer *peer)
{
    UPWARDS(peer_replaced, peer)
}

void nxr_subsystems_peer_detached(struct nxr_peer *peer)
{
    UPWARDS(peer_detached, peer)
}

bool nxr_subsystems_peer_is_used(struct nxr_peer *peer)
{
    bool is_used = false;

    for (size_t i = 0; i < n_subsystems; i++) {
        is_used |= subsystems[i]->peer_is_used != NULL && subsystems[i]->peer_is_used(peer);
    }
    return is_used;
}

void nxr_subsystems_peer_unlink(struct nxr_peer *peer)
{
    UPWARDS(peer_unlink, peer)
}

void nxr_subsystems_quiesce(void)
{
    DOWNWARDS(quiesce)
}

void nxr_subsystems_halt(void)
{
    DOWNWARDS(halt)
}

void nxr_subsystems_close(void)
{
    DOWNWARDS(close)
}

void nxr_subsystems_stop(void)
{
    DOWNWARDS(stop)
}
