/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking ranks whether they leave, and answering. Owns the handle of the region that is asked for,
 * the same for all teams, so that a rank keeps one question of each peer at most. Lock: job.lock.
 */
#include "config.h"

#include "region/leaving.h"
#include "core/cq.h"
#include "core/service.h"
#include "region/publish.h"
#include "region/region.h"
#include "util/clock.h"
#include "util/status.h"

#include <stdatomic.h>

/* How long a wait lasts before it asks, and how often it looks for the answer. */
#define LOOK_NS  (1 * NXR_S)
#define AGAIN_NS (20 * NXR_MS)

/* A rank that leaves has answered when a waiter has looked so often. */
#define ANSWER_LOOKS 4

static const char leaving_name[] = {NXR_REGION_INTERNAL, 'l', 'e', 'f', 't', '\0'};

static struct nixl_region *_Atomic leaving_region; /* NULL until it is first asked for */
static nxr_leaving_is_held_fn *leaving_is_held;    /* not NULL: the program has left */
static _Atomic int leaving_n_working;

/* ---- asking ---------------------------------------------------------------------------------- */

/* Has the rank answered? With `renew` it is asked again, for it may have come back since. */
static bool leaving_ask_locked(int rank, bool renew)
{
    struct nxr_region_segment *segment;
    struct nixl_region *region = atomic_load(&leaving_region);

    if (region == NULL) {
        region = nxr_region_open(leaving_name);
        atomic_store(&leaving_region, region);
    }
    return region != NULL && nxr_region_want_segment(region, rank, renew, &segment) == NIXL_OK &&
           segment->is_never;
}

static bool leaving_ask(int rank, bool renew)
{
    bool is_never;

    pthread_mutex_lock(&nxr_job.lock);
    is_never = leaving_ask_locked(rank, renew);
    pthread_mutex_unlock(&nxr_job.lock);
    return is_never;
}

bool nxr_leaving_ask_for_cq(int rank)
{
    return leaving_ask_locked(rank, false) || leaving_ask_locked(rank, true);
}

void nxr_leaving_heard_never(const struct nxr_region_segment *segment)
{
    if (segment->region == atomic_load(&leaving_region)) {
        nxr_cq_rank_leaves(segment->rank);
    }
}

/* Where the answer of a rank is; NULL: it was not asked. */
static struct nxr_region_segment *_Atomic *leaving_place(int rank)
{
    struct nixl_region *region = atomic_load(&leaving_region);
    struct nxr_segment_chunk *chunk =
        region != NULL ? atomic_load(&region->chunks[rank / NXR_SEGMENTS_PER_CHUNK]) : NULL;

    return chunk != NULL ? &chunk->segments[rank % NXR_SEGMENTS_PER_CHUNK] : NULL;
}

bool nxr_leaving_is_known(int rank)
{
    const struct nxr_region_segment *segment;
    struct nxr_region_segment *_Atomic *place;
    bool is_never;

    if (atomic_load(&leaving_region) == NULL) {
        return false;
    }
    pthread_mutex_lock(&nxr_job.lock);
    place = leaving_place(rank);
    segment = place != NULL ? atomic_load(place) : NULL;
    is_never = segment != NULL && segment->is_never;
    pthread_mutex_unlock(&nxr_job.lock);
    return is_never;
}

void nxr_leaving_hear(int rank)
{
    if (rank >= 0 && rank != nxr_job.rank) {
        (void)leaving_ask(rank, false);
    }
}

void nxr_leaving_peer_ended(struct nxr_peer *peer)
{
    struct nxr_region_segment *_Atomic *place = leaving_place(peer->rank);

    if (place != NULL) {
        nxr_region_drop_segment(place);
    }
}

/*
 * Has it answered "never"? The first look takes no lock: what a place has held is reused late
 * (segment.c).
 */
static bool leaving_has_answered(int rank)
{
    struct nxr_region_segment *_Atomic *place = leaving_place(rank);
    struct nxr_region_segment *segment = place != NULL ? atomic_load(place) : NULL;

    return segment != NULL && atomic_load(&segment->state) == NXR_SEGMENT_FAILED &&
           nxr_leaving_is_known(rank);
}

void nxr_leaving_hurry(struct nxr_leaving *leaving, int rank)
{
    if (leaving->awaited != rank + 1) {
        *leaving = (struct nxr_leaving){.awaited = rank + 1, .n_calls = leaving->n_calls};
    }
    if (leaving->n_looks == 0) {
        leaving->look_at = 0;
    }
}

bool nxr_leaving_never_comes(struct nxr_leaving *leaving, int rank)
{
    int64_t now = nxr_coarse_now_ns();

    if (leaving->awaited != rank + 1) {
        *leaving = (struct nxr_leaving){
            .awaited = rank + 1, .look_at = now + LOOK_NS, .n_calls = leaving->n_calls};
    }
    if (leaving->was_seen) {
        return true;
    }
    if (leaving->n_looks > 0 && leaving_has_answered(rank)) {
        leaving->was_seen = true;
    } else if (now >= leaving->look_at && rank != nxr_job.rank) {
        leaving->was_seen = leaving_ask(rank, leaving->n_looks == 0);
        leaving->n_looks += leaving->n_looks < ANSWER_LOOKS;
        leaving->look_at = now + AGAIN_NS;
    }
    return false;
}

/* Is nothing to be expected of that rank any more? */
static bool leaving_is_over(int rank, bool *lives_p)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);

    *lives_p = peer == NULL || !nxr_peer_is_lost(peer);
    return !*lives_p || nxr_leaving_is_known(rank);
}

/* All have been found to be over, but one may have come back since. */
static bool leaving_are_all_over(void)
{
    bool is_any_alive = false;

    for (int rank = 0; rank < nxr_job.size; rank++) {
        bool lives = false;

        if (rank != nxr_job.rank && !leaving_is_over(rank, &lives)) {
            return false;
        }
        is_any_alive |= lives;
    }
    return is_any_alive;
}

bool nxr_leaving_none_comes(struct nxr_leaving_all *leaving)
{
    int64_t now = nxr_coarse_now_ns();
    bool lives;

    if (leaving->look_at == 0) {
        leaving->look_at = now + LOOK_NS;
    }
    if (now < leaving->look_at) {
        return false;
    }
    for (; leaving->n_over < nxr_job.size - 1; leaving->n_over++, leaving->has_asked = false) {
        int rank = (nxr_job.rank + 1 + leaving->n_over) % nxr_job.size;

        if (!leaving_is_over(rank, &lives) && !leaving_ask(rank, !leaving->has_asked)) {
            leaving->has_asked = true;
            leaving->look_at = now + AGAIN_NS;
            return false;
        }
    }
    leaving->n_over = 0;
    leaving->look_at = now + AGAIN_NS;
    return leaving_are_all_over();
}

int nxr_leaving_fail(const char *operation, int rank)
{
    if (nxr_rank_is_lost(rank)) {
        return nxr_peer_fail_lost(operation, rank, "");
    }
    return nxr_fail(NIXL_E_PEER_LOST, operation, rank, "", 0, NXR_LEAVING_WHY, nxr_rank_name(rank));
}

int64_t nxr_leaving_sleep(const struct nxr_leaving *leaving, int64_t longest_ns)
{
    bool is_soon = leaving->awaited != 0 && leaving->n_looks > 0 && leaving->n_looks < ANSWER_LOOKS;

    return is_soon && longest_ns > AGAIN_NS ? AGAIN_NS : longest_ns;
}

/* ---- answering ------------------------------------------------------------------------------- */

/* job.lock */
static void leaving_answer(void)
{
    if (leaving_is_held != NULL && !leaving_is_held() && atomic_load(&leaving_n_working) == 0) {
        nxr_publish_end(leaving_name);
    }
}

void nxr_leaving_begin_work(void)
{
    atomic_fetch_add(&leaving_n_working, 1);
}

void nxr_leaving_end_work(void)
{
    if (atomic_fetch_sub(&leaving_n_working, 1) == 1 &&
        atomic_load(&nxr_job.state) == NXR_STATE_LEAVING) {
        pthread_mutex_lock(&nxr_job.lock);
        leaving_answer();
        pthread_mutex_unlock(&nxr_job.lock);
    }
}

void nxr_leaving_say(nxr_leaving_is_held_fn *is_held)
{
    pthread_mutex_lock(&nxr_job.lock);
    leaving_is_held = is_held;
    leaving_answer();
    nxr_service_kick(); /* it looks again while something is held */
    pthread_mutex_unlock(&nxr_job.lock);
}

void nxr_leaving_look(void)
{
    leaving_answer();
}

/* The handle is closed together with all others. */
void nxr_leaving_stop(void)
{
    pthread_mutex_lock(&nxr_job.lock);
    atomic_store(&leaving_region, NULL);
    leaving_is_held = NULL;
    pthread_mutex_unlock(&nxr_job.lock);
}
