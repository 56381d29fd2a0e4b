/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a running library, each known by a constant table of functions. init.c composes
 * the list; the service thread, progress, deaths and nixl_finalize() call through it, so that
 * core names none of the folders above it.
 *
 * A slot may be NULL. The list is in the order of start. Slots that begin or carry on work are
 * called in this order, those that end something in reverse; each slot says which.
 */
#ifndef NXR_CORE_SUBSYSTEM_H
#define NXR_CORE_SUBSYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nixl_region;
struct nxr_full_card;
struct nxr_peer;

struct nxr_subsystem {
    const char *name;

    /* Register what takes messages and records of its own, as they come. Before anything starts. */
    void (*register_handlers)(void);

    /* ---- while the job runs, in order -------------------------------------------------------- */

    /* Watch descriptors, before the service thread starts. NIXL_OK or why not. Holds job.lock. */
    int (*listen)(void);

    /* Do what is due at `now`; when to be called again, INT64_MAX: not by time. Holds job.lock. */
    int64_t (*tick)(int64_t now);

    /* Answer what has come. Service thread after each wake, without locks; does not wait. */
    void (*serve)(void);

    /* Carry operations on; has anything moved? Any thread, without job.lock, in reverse order. */
    bool (*progress)(void);

    /* Likewise, when no thread of the user has for a while. Service thread, without locks. */
    void (*drive)(void);

    /*
     * This thread of the user stops looking after what is under way: it must wake this process at
     * its end, or the service thread must look after it. Without locks.
     */
    void (*hand_over)(void);

    /* A rank of another host greets over a network, with its card. Holds job.lock. */
    void (*remote_greeting)(struct nxr_peer *peer, const struct nxr_full_card *card);

    /* A way to the peer has been chosen; it is not up yet. Holds job.lock. */
    void (*peer_linked)(struct nxr_peer *peer);

    /* Send what peer->n_held counts, as far as no put is under way. Any thread, for each put. */
    void (*puts_ended)(struct nxr_peer *peer);

    /* The program closes a region of its own, which is still published. Without locks. */
    void (*region_closing)(const struct nixl_region *region);

    /* See what has come: does something wait that nixl_event_arm() has to tell? Without locks. */
    bool (*has_news)(void);

    /* A wait that slept has ended. Any thread, without job.lock. */
    void (*long_wait_ended)(void);

    /* ---- a peer has died or left, in order; holds job.lock ----------------------------------- */

    /* Has that rank, which is found to be gone, said before that it leaves? */
    bool (*has_left)(int rank);

    /* Before its state is set: write what is known of the cause to peer->why_not. */
    void (*peer_ending)(struct nxr_peer *peer);

    /* End what waits for it. Its state is set, nobody was told of it yet. */
    void (*peer_ended)(struct nxr_peer *peer);

    /* The event is in the queue: see to what depends on the list of deaths. */
    void (*death_known)(const struct nxr_peer *peer);

    /* ---- nixl_finalize(), in reverse order --------------------------------------------------- */

    /* End own operations and what others may use, while this rank still serves. Without locks. */
    void (*quiesce)(void);

    /* The service thread has ended: wait for what it left. Without locks. */
    void (*halt)(void);

    /* Then close descriptors and lists of it. Holds job.lock. Also called if it never started. */
    void (*close)(void);

    /* Free the rest, but what `peer_free` does. One thread is left. Also called before a start. */
    void (*stop)(void);

    /* Free what the subsystem has of a peer. Without locks; the last. */
    void (*peer_free)(struct nxr_peer *peer);
};

/* Name all subsystems: before anything starts. The list stays the caller's. */
void nxr_subsystems_set(const struct nxr_subsystem *const *list, size_t n);

/*
 * Name those of the library, and register its memory kinds and transports (init.c): for
 * nixl_init(), and for unit tests that run parts without it. Again is harmless.
 */
void nxr_subsystems_compose(void);

/*
 * Each calls that slot of all. `listen` ends at the first failure, which it returns; `tick` returns
 * the earliest time; of `progress`, `has_news` and `has_left` one true answer makes the whole true.
 */
int nxr_subsystems_listen(void);
int64_t nxr_subsystems_tick(int64_t now);
void nxr_subsystems_serve(void);
bool nxr_subsystems_progress(void);
void nxr_subsystems_drive(void);
void nxr_subsystems_hand_over(void);
void nxr_subsystems_remote_greeting(struct nxr_peer *peer, const struct nxr_full_card *card);
void nxr_subsystems_peer_linked(struct nxr_peer *peer);
void nxr_subsystems_puts_ended(struct nxr_peer *peer);
void nxr_subsystems_region_closing(const struct nixl_region *region);
bool nxr_subsystems_has_news(void);
void nxr_subsystems_long_wait_ended(void);
bool nxr_subsystems_has_left(int rank);
void nxr_subsystems_peer_ending(struct nxr_peer *peer);
void nxr_subsystems_peer_ended(struct nxr_peer *peer);
void nxr_subsystems_death_known(const struct nxr_peer *peer);
void nxr_subsystems_quiesce(void);
void nxr_subsystems_halt(void);
void nxr_subsystems_close(void);
void nxr_subsystems_stop(void);
void nxr_subsystems_peer_free(struct nxr_peer *peer);

#endif
