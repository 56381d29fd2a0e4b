/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of ranks that have reached their last nixl_finalize(), and with which process. It only
 * grows, and a later process of a rank takes the place of an earlier one, so all ranks end up with
 * the same set, by whatever routes and however often its windows arrive. Every window has the
 * version of its last growth, and every peer the version that it knows. Lock: job.lock;
 * fence_lock guards the launcher's answer, which may arrive long after the wait for it has ended.
 */
#include "config.h"

#include "control/finalize_barrier.h"
#include "core/subsystem.h"
#include "control/dispatch.h"
#include "core/carrier.h"
#include "core/node.h"
#include "core/wireup.h"
#include "core/event.h"
#include "control/detector.h"
#include "core/service.h"
#include "util/clock.h"
#include "util/status.h"
#include "core/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE_NS  (5 * NXR_S)    /* after so long at the launcher's fence, tell the peers, too */
#define REPEAT_NS (200 * NXR_MS) /* messages lost with a broken connection are sent again */
#define LEAVE_NS  (1 * NXR_S)    /* time to tell the others that this rank leaves before them */
#define MAX_NAMED 8              /* of the missing ranks */

/* A window of the set: the ranks that one message can name. */
struct window {
    uint64_t version;                      /* 0: empty */
    uint32_t come[NXR_WIRE_LEAVING_RANKS]; /* 1 + the incarnation that has come; 0: none has */
};

static struct window *windows; /* NULL: the set is empty */
static uint64_t version;       /* of the newest growth */
static bool finalize_barrier_must_look;
static int64_t repeat_at = INT64_MAX; /* this rank is in the set, and repeats until all are */
static atomic_bool
    finalize_barrier_is_over;         /* all are in the set, and this rank has told its peers */
static bool finalize_barrier_is_here; /* this rank is in its last nixl_finalize() */
static bool must_tell_left;           /* this rank leaves before the others */
static atomic_bool has_told_left;     /* ... and has told them */

static pthread_mutex_t fence_lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t n_fences;       /* fence_lock; the answer to an earlier fence is ignored */
static _Atomic int fence_status; /* NIXL_INPROGRESS: no answer yet */

/* What this file keeps of a peer. */
struct finalize_barrier_peer {
    uint64_t told; /* the version of the set that the peer has been told */
};
static struct nxr_peer_slot finalize_barrier_slot = {.nbytes =
                                                         sizeof(struct finalize_barrier_peer)};

static struct finalize_barrier_peer *finalize_barrier_peer_of(const struct nxr_peer *peer)
{
    return nxr_peer_slot_of(peer, &finalize_barrier_slot);
}

/* ---- the set --------------------------------------------------------------------------------- */

static size_t window_count(void)
{
    return ((size_t)nxr_job.size + NXR_WIRE_LEAVING_RANKS - 1) / NXR_WIRE_LEAVING_RANKS;
}

/* The incarnation of the process that calls mean by that rank, whether or not it has a peer yet. */
static uint32_t incarnation_meant(int rank)
{
    const struct nxr_peer *peer = nxr_job.peers[rank];

    if (peer != NULL) {
        return peer->identity.incarnation;
    }
    return nxr_job.may_return ? nxr_wireup()->incarnation_of(rank) : 0;
}

bool nxr_finalize_barrier_has_come(int rank)
{
    uint32_t come;

    if (windows == NULL || !nxr_is_own_rank(rank)) {
        return false;
    }
    come = windows[rank / NXR_WIRE_LEAVING_RANKS].come[rank % NXR_WIRE_LEAVING_RANKS];
    return come != 0 && come == incarnation_meant(rank) + 1;
}

/* Add ranks to a window, each with that incarnation. */
static void add(size_t index, const uint64_t *ranks, uint32_t incarnation)
{
    bool grows = false;

    if (windows == NULL) {
        windows = calloc(window_count(), sizeof(*windows));
    }
    for (size_t i = 0; windows != NULL && i < NXR_WIRE_LEAVING_RANKS; i++) {
        if ((ranks[i / 64] >> (i % 64) & 1) != 0 && windows[index].come[i] <= incarnation) {
            windows[index].come[i] = incarnation + 1;
            grows = true;
        }
    }
    if (grows) {
        windows[index].version = ++version;
        nxr_finalize_barrier_look();
    }
}

/* Add this rank. */
static void add_self(void)
{
    uint64_t me[NXR_WIRE_LEAVING_RANKS / 64] = {0};

    me[nxr_job.rank % NXR_WIRE_LEAVING_RANKS / 64] = UINT64_C(1) << nxr_job.rank % 64;
    add((size_t)nxr_job.rank / NXR_WIRE_LEAVING_RANKS, me, nxr_job.self.incarnation);
}

bool nxr_finalize_barrier_is_here(void)
{
    return finalize_barrier_is_here;
}

/*
 * The sender does not wait for the launcher's fence, or has stopped waiting. So this rank announces
 * itself, too, if it is in its last nixl_finalize().
 */
static void finalize_barrier_take(const struct nxr_control_source *source,
                                  const union nxr_wire_message *message)
{
    const struct nxr_wire_leaving *leaving = &message->leaving;

    (void)source;
    add((size_t)leaving->first / NXR_WIRE_LEAVING_RANKS, leaving->ranks, leaving->incarnation);
    if (finalize_barrier_is_here) {
        add_self();
    }
}

void nxr_finalize_barrier_look(void)
{
    if (windows != NULL) {
        finalize_barrier_must_look = true;
        nxr_service_kick();
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

/*
 * Write the ranks of a window that have come with the lowest incarnation that was not written yet.
 * `written`, 0 at first, is what this has returned before. Returns 0 if there is none.
 */
static uint32_t write_window(size_t index, uint32_t written, struct nxr_wire_leaving *leaving)
{
    const uint32_t *come = windows[index].come;
    uint32_t lowest = 0;

    for (size_t i = 0; i < NXR_WIRE_LEAVING_RANKS; i++) {
        if (come[i] > written && (lowest == 0 || come[i] < lowest)) {
            lowest = come[i];
        }
    }
    leaving->first = (int32_t)(index * NXR_WIRE_LEAVING_RANKS);
    leaving->incarnation = lowest - 1;
    for (size_t i = 0; i < NXR_WIRE_LEAVING_RANKS; i++) {
        leaving->ranks[i / 64] |= (uint64_t)(come[i] == lowest) << (i % 64);
    }
    return lowest;
}

/* Tell a peer a window: a message for each incarnation in it, of which there is mostly one. */
static void tell_window(struct nxr_peer *peer, size_t index)
{
    union nxr_wire_message message;
    uint32_t written = 0;

    for (;;) {
        nxr_wire_init(&message, NXR_WIRE_LEAVING);
        written = write_window(index, written, &message.leaving);
        if (written == 0) {
            return;
        }
        nxr_peer_tell(peer, &message);
    }
}

/*
 * Tell a rank what it has not been told yet, unless it cannot be reached. False: it is not
 * connected yet.
 */
static bool finalize_barrier_tell(int rank)
{
    struct nxr_peer *peer = rank >= 0 && rank != nxr_job.rank ? nxr_peer_get_locked(rank) : NULL;
    uint64_t *told;

    if (peer == NULL || nxr_peer_is_lost(peer) ||
        atomic_load(&peer->connection) == NXR_CONNECTION_REMOTE) {
        return true;
    }
    if (!nxr_peer_is_up(peer)) {
        nxr_peer_want(peer);
        return false;
    }
    told = &finalize_barrier_peer_of(peer)->told;
    for (size_t i = 0; i < window_count(); i++) {
        if (windows[i].version > *told) {
            tell_window(peer, i);
        }
    }
    *told = version;
    return true;
}

/* Tell all ranks that this rank has to tell. True: all have been told. */
static bool finalize_barrier_tell_all(void)
{
    int node = nxr_node_of(nxr_job.rank), leader = nxr_detector_leader();
    bool is_told = true;

    if (leader != nxr_job.rank) {
        return finalize_barrier_tell(leader);
    }
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (nxr_node_of(rank) == node) {
            is_told &= finalize_barrier_tell(rank);
        }
    }
    is_told &= finalize_barrier_tell(nxr_detector_leader_beside(1));
    is_told &= finalize_barrier_tell(nxr_detector_leader_beside(-1));
    return is_told;
}

static void tell_again(void)
{
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (nxr_job.peers[rank] != NULL) {
            finalize_barrier_peer_of(nxr_job.peers[rank])->told = 0;
        }
    }
}

/* It cannot be reached, from here or from the leader of this host. */
static bool is_out_of_reach(int rank)
{
    const struct nxr_peer *peer = nxr_job.peers[rank];

    if (peer != NULL && atomic_load(&peer->connection) == NXR_CONNECTION_REMOTE) {
        return true;
    }
    return nxr_node_of(rank) != nxr_node_of(nxr_job.rank) && !atomic_load(&nxr_net_is_open);
}

static bool is_awaited(int rank)
{
    const struct nxr_peer *peer = nxr_job.peers[rank];

    return rank != nxr_job.rank && !nxr_finalize_barrier_has_come(rank) &&
           (peer == NULL || !nxr_peer_is_lost(peer)) && !is_out_of_reach(rank);
}

static bool have_all_come(void)
{
    int leader = nxr_detector_leader();

    if (leader != nxr_job.rank && is_out_of_reach(leader)) {
        return true; /* no rank would tell this one */
    }
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (is_awaited(rank)) {
            return false;
        }
    }
    return true;
}

int64_t nxr_finalize_barrier_tick(int64_t now)
{
    if (repeat_at <= now) {
        repeat_at = now + REPEAT_NS;
        tell_again();
        finalize_barrier_must_look = true;
    }
    if (finalize_barrier_must_look && windows != NULL) {
        bool is_told;

        finalize_barrier_must_look = false;
        is_told = finalize_barrier_tell_all();
        if (repeat_at != INT64_MAX && is_told && have_all_come()) {
            repeat_at = INT64_MAX;
            atomic_store_explicit(&finalize_barrier_is_over, true, memory_order_release);
            nxr_wake_self();
        }
    }
    if (must_tell_left && nxr_detector_tell_left()) {
        must_tell_left = false;
        atomic_store_explicit(&has_told_left, true, memory_order_release);
        nxr_wake_self();
    }
    return repeat_at;
}

void nxr_finalize_barrier_stop(void)
{
    finalize_barrier_is_here = false;
    must_tell_left = false;
    atomic_store(&has_told_left, false);

    free(windows);
    windows = NULL;
    version = 0;
    finalize_barrier_must_look = false;
    repeat_at = INT64_MAX;
    atomic_store(&finalize_barrier_is_over, false);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Runs on a thread of the PMIx client, or of the caller. */
static void finalize_barrier_fence_ended(int status, void *arg)
{
    pthread_mutex_lock(&fence_lock);
    if ((uintptr_t)arg == n_fences) {
        atomic_store_explicit(&fence_status, status, memory_order_release);
        nxr_wake_self();
    }
    pthread_mutex_unlock(&fence_lock);
}

static void begin_fence(void)
{
    uintptr_t number;

    pthread_mutex_lock(&fence_lock);
    number = ++n_fences;
    atomic_store(&fence_status, NIXL_INPROGRESS);
    pthread_mutex_unlock(&fence_lock);
    nxr_wireup()->fence(finalize_barrier_fence_ended, (void *)number);
}

static void end_fence(void)
{
    pthread_mutex_lock(&fence_lock);
    n_fences++;
    pthread_mutex_unlock(&fence_lock);
}

/*
 * The fence has ended, or its result cannot be used: engines differ in what a fence does after a
 * death.
 */
static bool is_fence_over(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&fence_status, memory_order_acquire) != NIXL_INPROGRESS ||
           nxr_event_n_rank_deaths() > 0 || nxr_service_is_broken();
}

static bool may_go(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&finalize_barrier_is_over, memory_order_acquire) ||
           atomic_load_explicit(&fence_status, memory_order_acquire) == NIXL_OK ||
           nxr_service_is_broken();
}

static void say_so(void)
{
    pthread_mutex_lock(&nxr_job.lock);
    add_self();
    repeat_at = nxr_now_ns() + REPEAT_NS;
    pthread_mutex_unlock(&nxr_job.lock);
}

/* "ranks 1, 3" or "ranks 1, 2, ... and 40 more": those known to be missing. */
static void name_missing(char *text, size_t nbytes)
{
    int n = 0, used = 0;

    pthread_mutex_lock(&nxr_job.lock);
    for (int rank = 0; rank < nxr_job.size; rank++) {
        if (is_awaited(rank) && n++ < MAX_NAMED) {
            used += snprintf(text + used, nbytes - (size_t)used, "%s%d", n == 1 ? "ranks " : ", ",
                             rank);
        }
    }
    pthread_mutex_unlock(&nxr_job.lock);
    if (n > MAX_NAMED) {
        snprintf(text + used, nbytes - (size_t)used, " and %d more", n - MAX_NAMED);
    } else if (n == 0) {
        snprintf(text, nbytes, "some ranks");
    }
}

static bool has_told(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&has_told_left, memory_order_acquire);
}

/* Tell the others that this rank leaves; they continue without it. */
static void leave_alone(void)
{
    pthread_mutex_lock(&nxr_job.lock);
    must_tell_left = true;
    nxr_service_kick();
    pthread_mutex_unlock(&nxr_job.lock);
    (void)nxr_wait(has_told, NULL, LEAVE_NS);
}

static int wait_for_all(int64_t timeout_ns)
{
    int64_t deadline = nxr_deadline(timeout_ns), fence_ns = timeout_ns / 2;
    int status = NIXL_OK;

    atomic_store(&fence_status, NIXL_E_UNSUPPORTED);
    if (nxr_event_n_rank_deaths() == 0 && nxr_job.self.incarnation == 0 && timeout_ns > 0) {
        begin_fence();
        nxr_wait_as(is_fence_over, NULL, fence_ns < ALONE_NS ? fence_ns : ALONE_NS,
                    nxr_describe_reason,
                    &(const struct nxr_reason){
                        .kind = NXR_WAIT_FINALIZE, .peer = -1, .call = "nixl_finalize"});
    }
    if (atomic_load(&fence_status) != NIXL_OK) {
        say_so();
        status = nxr_wait_as(may_go, NULL, nxr_left(timeout_ns, deadline), nxr_describe_reason,
                             &(const struct nxr_reason){
                                 .kind = NXR_WAIT_FINALIZE, .peer = -1, .call = "nixl_finalize"});
    }
    end_fence();
    return status;
}

int nxr_finalize_barrier(int64_t timeout_ns)
{
    static const char operation[] = "nixl_finalize";
    char missing[160] = "";
    int status;

    pthread_mutex_lock(&nxr_job.lock);
    finalize_barrier_is_here = true;
    pthread_mutex_unlock(&nxr_job.lock);
    status = nxr_service_is_broken() ? NIXL_OK : wait_for_all(timeout_ns);
    if (nxr_service_is_broken()) {
        return nxr_fail(NIXL_E_TRANSPORT, operation, -1, "", 0,
                        "the program has closed descriptors of the library; this rank has left the "
                        "job without waiting for the others");
    }
    if (status == NIXL_OK) {
        return status;
    }
    name_missing(missing, sizeof(missing));
    leave_alone();
    return status != NIXL_E_TIMEOUT
               ? status
               : nxr_fail(status, operation, -1, "", 0,
                          "%s did not call nixl_finalize within %s (NIXLRUN_FINALIZE_TIMEOUT, or "
                          "the caller's timeout); this rank has left the job, and its regions are "
                          "closed",
                          missing, nxr_duration(timeout_ns).text);
}

/*
 * The connection to a rank is closed: has the rank left in order? Ranks that have heard that this
 * one leaves close theirs, and live on.
 */
static bool finalize_barrier_has_left(int rank)
{
    return nxr_finalize_barrier_has_come(rank) ||
           (nxr_is_own_rank(rank) && atomic_load(&has_told_left));
}

static void finalize_barrier_register(void)
{
    nxr_control_register(NXR_WIRE_LEAVING, finalize_barrier_take);
}

const struct nxr_subsystem nxr_finalize_barrier_subsystem = {
    .name = "finalize barrier",
    .peer_slot = &finalize_barrier_slot,
    .register_handlers = finalize_barrier_register,
    .tick = nxr_finalize_barrier_tick,
    .has_left = finalize_barrier_has_left,
    .close = nxr_finalize_barrier_stop,
};
