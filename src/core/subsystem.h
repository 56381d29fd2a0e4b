/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a running library, each known by a constant table of functions. init.c composes
 * the list; the service thread, progress, deaths and nixl_finalize() call through it, so that
 * core names none of the folders above it.
 *
 * A slot may be NULL. The list is in the order of start. Each group of slots below says whether it
 * is called in this order or in reverse.
 */
#ifndef NXR_CORE_SUBSYSTEM_H
#define NXR_CORE_SUBSYSTEM_H

#include "core/peer_slot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nixl_context;
struct nixl_region;
struct nxr_full_card;
struct nxr_observe_waits;
struct nxr_peer;

struct nxr_subsystem {
    const char *name;

    /* Register the handlers of its messages and records. Called before anything starts. */
    void (*register_handlers)(void);

    /* ---- what it keeps of each peer ---------------------------------------------------------- */

    /* Its state of a peer: zeros when the peer is made. NULL: none. */
    struct nxr_peer_slot *peer_slot;

    /*
     * A peer was made: begin the state of it. False: no memory; then the peer is not made. In
     * order. Holds job.lock.
     */
    bool (*peer_init)(struct nxr_peer *peer);

    /*
     * Undo peer_init(), and free what was added since. Called last, when nothing uses the peer any
     * more; or at once if the peer_init() of a later subsystem has failed. In reverse order. Must
     * not take job.lock.
     */
    void (*peer_fini)(struct nxr_peer *peer);

    /* ---- while the job runs, in order -------------------------------------------------------- */

    /*
     * Watch descriptors, before the service thread starts. NIXL_OK or the failure. Holds job.lock.
     */
    int (*listen)(void);

    /*
     * Do what is due at `now`. Returns when to call again; INT64_MAX: not by time. Holds job.lock.
     */
    int64_t (*tick)(int64_t now);

    /* Answer what has arrived. Service thread after each wake-up, without locks; must not block. */
    void (*serve)(void);

    /* Drive operations; has anything moved? Any thread, without job.lock, in reverse order. */
    bool (*progress)(void);

    /* Likewise, when no user thread has done so for a while. Service thread, without locks. */
    void (*drive)(void);

    /*
     * The calling user thread stops driving what is under way: each operation must wake this
     * process when it ends, or the service thread must drive it. Without locks.
     */
    void (*hand_over)(void);

    /* A rank of another host has sent a greeting over a network, with its card. Holds job.lock. */
    void (*remote_greeting)(struct nxr_peer *peer, const struct nxr_full_card *card);

    /* The route to the peer has been chosen; the connection is not up yet. Holds job.lock. */
    void (*peer_connected)(struct nxr_peer *peer);

    /*
     * Send what peer->n_held counts, as far as no earlier put is under way. Any thread, for each
     * put.
     */
    void (*puts_ended)(struct nxr_peer *peer);

    /* The program closes a region of this rank, which is still published. Without locks. */
    void (*region_closing)(const struct nixl_region *region);

    /*
     * Take in what has arrived: is there anything that nixl_event_arm() must report? Without locks.
     */
    bool (*has_news)(void);

    /* The program has opened a context. Without locks. */
    void (*context_opened)(struct nixl_context *context);

    /* The program has closed a context: drop what has arrived for it. Without locks. */
    void (*context_closed)(struct nixl_context *context);

    /* This process has read its event fd, or left its sleep. Any thread, without job.lock. */
    void (*event_fd_read)(void);

    /* A wait that slept has ended. Any thread, without job.lock. */
    void (*long_wait_ended)(void);

    /*
     * A thread is about to sleep: write what is queued or under way where others may read it. One
     * thread at a time, without job.lock; must not block.
     */
    void (*observe)(struct nxr_observe_waits *waits);

    /* ---- a peer has died or left, in order; holds job.lock ----------------------------------- */

    /* Had that rank, which is found to be gone, announced that it leaves? */
    bool (*has_left)(int rank);

    /* The peer's state is not set yet: write the known cause to peer->why_not. */
    void (*peer_ending)(struct nxr_peer *peer);

    /* End what waits for the peer. Its state is set, but its end has not been reported yet. */
    void (*peer_ended)(struct nxr_peer *peer);

    /* The event is queued: update what depends on the list of deaths. */
    void (*death_known)(const struct nxr_peer *peer);

    /* ---- peers that another process of their rank replaces (core/returned.h) ----------------- */

    /*
     * The program has readmitted the rank: drop all that is found by its number. The peer's state
     * is set since long, and it is still the one of that number. Holds job.lock.
     */
    void (*peer_replaced)(struct nxr_peer *peer);

    /* ---- attached peers (core/attached.h) ---------------------------------------------------- */

    /*
     * Make room for the peers' numbers below n_numbers, before any of them is given out. False: no
     * memory. Holds job.lock.
     */
    bool (*numbers_grow)(int n_numbers);

    /* The program ends the attachment: take nothing from that peer any more. job.lock. */
    void (*peer_detached)(struct nxr_peer *peer);

    /*
     * Drop what refers to a peer that has ended. Does anything still refer to it? If so, this is
     * asked again later. Holds job.lock.
     */
    bool (*peer_is_used)(struct nxr_peer *peer);

    /*
     * Take its state out of lists that are read without a lock; peer_fini() comes later. Holds
     * job.lock.
     */
    void (*peer_unlink)(struct nxr_peer *peer);

    /* ---- nixl_finalize(), in reverse order --------------------------------------------------- */

    /* End this rank's operations and what others may use, while it still serves. Without locks. */
    void (*quiesce)(void);

    /* The service thread has ended: wait for what it left under way. Without locks. */
    void (*halt)(void);

    /*
     * Then close the descriptors and lists that it used. Holds job.lock. Also called if the thread
     * never started.
     */
    void (*close)(void);

    /*
     * Free the rest, except what `peer_fini` frees. Only one thread uses it: PMIx's still runs, but
     * takes news of the launcher only while this rank is joined (host/liveness.h). Also called if
     * nothing was started.
     */
    void (*stop)(void);
};

/*
 * Set the list of all subsystems, and lay out their slots, while there are no peers. The list stays
 * the caller's.
 */
void nxr_subsystems_set(const struct nxr_subsystem *const *list, size_t n);

/*
 * Set the library's own list, and register its memory kinds and transports (init.c): for
 * nixl_init(), and for unit tests that run parts of the library without it. May be repeated.
 */
void nxr_subsystems_compose(void);

/* The size of a peer with all its slots: a multiple of a cache line, at which it must begin. */
size_t nxr_subsystems_peer_nbytes(void);

/*
 * Begin all subsystems' state of a peer that is all zeros behind struct nxr_peer. False: no memory,
 * and nothing was begun.
 */
bool nxr_subsystems_peer_init(struct nxr_peer *peer);

/*
 * Each calls that slot of all subsystems. `listen` stops at the first failure and returns it;
 * `tick` returns the earliest time; `progress`, `has_news`, `has_left` and `peer_is_used` return
 * true if any slot does, `numbers_grow` if all do.
 */
int nxr_subsystems_listen(void);
int64_t nxr_subsystems_tick(int64_t now);
void nxr_subsystems_serve(void);
bool nxr_subsystems_progress(void);
void nxr_subsystems_drive(void);
void nxr_subsystems_hand_over(void);
void nxr_subsystems_remote_greeting(struct nxr_peer *peer, const struct nxr_full_card *card);
void nxr_subsystems_peer_connected(struct nxr_peer *peer);
void nxr_subsystems_puts_ended(struct nxr_peer *peer);
void nxr_subsystems_context_opened(struct nixl_context *context);
void nxr_subsystems_context_closed(struct nixl_context *context);
void nxr_subsystems_event_fd_read(void);
void nxr_subsystems_region_closing(const struct nixl_region *region);
bool nxr_subsystems_has_news(void);
void nxr_subsystems_long_wait_ended(void);
void nxr_subsystems_observe(struct nxr_observe_waits *waits);
bool nxr_subsystems_has_left(int rank);
void nxr_subsystems_peer_ending(struct nxr_peer *peer);
void nxr_subsystems_peer_ended(struct nxr_peer *peer);
void nxr_subsystems_death_known(const struct nxr_peer *peer);
bool nxr_subsystems_numbers_grow(int n_numbers);
void nxr_subsystems_peer_replaced(struct nxr_peer *peer);
void nxr_subsystems_peer_detached(struct nxr_peer *peer);
bool nxr_subsystems_peer_is_used(struct nxr_peer *peer);
void nxr_subsystems_peer_unlink(struct nxr_peer *peer);
void nxr_subsystems_quiesce(void);
void nxr_subsystems_halt(void);
void nxr_subsystems_close(void);
void nxr_subsystems_stop(void);
void nxr_subsystems_peer_fini(struct nxr_peer *peer);

#endif
