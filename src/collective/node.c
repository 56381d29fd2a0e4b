/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the members of a team on one host share: making it, and waiting for phases. A
 * waiter spins while every rank of the host can have a core; otherwise it yields its core to
 * others. If the wait lasts, it sleeps on the doorbell of its own line. Going to sleep and waking
 * pair up as in wait.h: register, heavy barrier, check again; publish, light barrier, check who is
 * registered.
 */
#include "config.h"

#include "collective/node.h"
#include "collective/phase.h"
#include "collective/team.h"
#include "core/trace.h"
#include "core/wait.h"
#include "net/net.h"
#include "util/clock.h"
#include "util/lock.h"
#include "util/status.h"
#include "util/symbol.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Sleepers check at this interval: a waker may be stopped, or die, before it rings. */
#define MAX_SLEEP_NS (1 * NXR_S)

/* How long a failed call waits for visits to end. */
#define VISIT_NS (1 * NXR_S)

/* Checks between two readings of the clock, and between two pauses. */
#define LOOKS_PER_CLOCK 64
#define LOOKS_PER_PAUSE 16

/*
 * In a crowd, a waiter yields its core at every check. It may do so for longer before it sleeps,
 * because sleeping costs the waker a system call, too. Usually the others need a few turns only; of
 * so many waits that end with those, one is timed. Before its first turn it looks LOOKS times at a
 * member that works, or waits for FENCES fences and looks once.
 */
#define CROWD_FACTOR 20
#define CROWD_TURNS  16
#define CROWD_TIMED  16
#define CROWD_LOOKS  16
#define CROWD_FENCES 3

/* ---- the shared memory ----------------------------------------------------------------------- */

static size_t to_pages(size_t nbytes)
{
    return (nbytes + NXR_NODE_CELL_NBYTES - 1) / NXR_NODE_CELL_NBYTES * NXR_NODE_CELL_NBYTES;
}

static size_t head_nbytes(void)
{
    return (sizeof(struct nxr_node_head) + NXR_LINE_NBYTES - 1) / NXR_LINE_NBYTES * NXR_LINE_NBYTES;
}

/* Layout: head, lines and flags; then, from a page on each, cells, long cells and slots. */
static size_t flags_offset(int size)
{
    return head_nbytes() + (size_t)size * sizeof(struct nxr_node_line);
}

static size_t cells_offset(int size)
{
    size_t nbytes =
        flags_offset(size) + (size_t)size * NXR_NODE_FLAGS * sizeof(struct nxr_node_flag);

    return to_pages(nbytes);
}

/* There is room for cells with pages, whether the members are a crowd or not. */
static size_t long_cells_offset(int size)
{
    return cells_offset(size) + (size_t)size * NXR_NODE_CELLS * NXR_NODE_CELL_NBYTES;
}

static size_t slots_offset(int size)
{
    return long_cells_offset(size) + (size_t)size * NXR_NODE_CELLS * NXR_NODE_CELL_ROOM;
}

static void take_memory(struct nxr_node *node, void *memory)
{
    node->head = memory;
    node->lines = (void *)((char *)memory + head_nbytes());
    node->flags = (void *)((char *)memory + flags_offset(node->size));
    node->cells = (char *)memory + cells_offset(node->size);
    node->long_cells = (char *)memory + long_cells_offset(node->size);
    node->slots = (char *)memory + slots_offset(node->size);
}

static size_t all_nbytes(int size)
{
    return slots_offset(size) + (size_t)size * NXR_NODE_SLOT_NBYTES;
}

static int make_memory(struct nxr_node *node, const char *name)
{
    int status = nxr_region_alloc_internal(name, all_nbytes(node->size), &node->region);

    if (status == NIXL_OK) {
        take_memory(node, nixl_region_addr(node->region));
    }
    return status;
}

/* The first member may give up before it makes the memory, or right after: that ends the wait. */
static int map_memory(struct nixl_team *team, const char *name)
{
    struct nxr_node *node = &team->node;
    const struct nxr_segment *segment;
    int leader = team->ranks[team->local[0]];
    void *memory = NULL;
    int status = nxr_region_open_internal(name, &node->region);

    if (status == NIXL_OK) {
        status = nxr_team_find_segment(team, node->region, team->local[0]);
    }
    if (status != NIXL_OK) {
        return status;
    }
    segment = nxr_region_segment(node->region, leader);
    status = segment != NULL ? nixl_region_map(leader, node->region, &memory) : NIXL_E_STALE;
    if (status != NIXL_OK) {
        return status;
    }
    take_memory(node, memory);
    return segment->nbytes == all_nbytes(node->size)
               ? NIXL_OK
               : nxr_fail(NIXL_E_INTERNAL, team->operation, leader, "shm", 0,
                          "%s has made shared memory of %llu bytes for the team; expected: "
                          "%zu, for %d members on this host",
                          nxr_rank_name(leader), (unsigned long long)segment->nbytes,
                          all_nbytes(node->size), node->size);
}

int nxr_node_open(struct nixl_team *team, const char *name)
{
    struct nxr_node *node = &team->node;
    int status;

    if (node->size == 1) {
        return NIXL_OK;
    }
    if (node->size > NXR_NODE_MAX) {
        return nxr_fail(NIXL_E_LIMIT, team->operation, -1, "shm", 0,
                        "%d members on one host; allowed: %d", node->size, NXR_NODE_MAX);
    }
    status = node->me == 0 ? make_memory(node, name) : map_memory(team, name);
    if (status == NIXL_OK && nxr_barrier_is_full()) {
        atomic_store(&node->head->needs_full_fence, 1);
    }
    return status;
}

void nxr_node_close(struct nixl_team *team)
{
    struct nxr_node *node = &team->node;

    if (node->region == NULL) {
        return;
    }
    if (node->me != 0 && node->head != NULL) {
        (void)nixl_region_unmap(team->ranks[team->local[0]], node->region, node->head);
    }
    (void)nixl_region_close(node->region, NXR_S);
    node->region = NULL;
    node->head = NULL;
}

void nxr_node_populate_slot(const struct nxr_node *node, int member, size_t nbytes)
{
    (void)madvise(nxr_node_slot(node, member),
                  nbytes < NXR_NODE_SLOT_NBYTES ? nbytes : NXR_NODE_SLOT_NBYTES,
                  member == node->me ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/* ---- visits ---------------------------------------------------------------------------------- */

int nxr_node_visit(struct nixl_team *team)
{
    struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    atomic_store_explicit(&node->lines[node->me].is_visiting, 1, memory_order_relaxed);
    nxr_fence_full(); /* either this sees that the team is broken, or the breaker sees the visit */
    if (atomic_load_explicit(&node->head->broken, memory_order_relaxed) != NIXL_OK) {
        status = nxr_team_look(team, -1);
        nxr_node_leave(node);
    }
    return status;
}

void nxr_node_leave(struct nxr_node *node)
{
    atomic_store_explicit(&node->lines[node->me].is_visiting, 0, memory_order_release);
}

void nxr_node_wait_visits(struct nixl_team *team)
{
    const struct nxr_node *node = &team->node;
    int64_t until = nxr_now_ns() + VISIT_NS;

    for (int i = 0; node->head != NULL && i < node->size; i++) {
        const struct nxr_node_line *line = &node->lines[i];

        while (i != node->me &&
               atomic_load_explicit(&line->is_visiting, memory_order_acquire) != 0 &&
               nxr_now_ns() < until && !nxr_peer_is_gone(team->ranks[team->local[i]])) {
            nxr_yield();
        }
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static inline bool has_published(const struct nxr_node *node,
                                 const struct nxr_node_awaited *awaited)
{
    return awaited->flag != NULL
               ? atomic_load_explicit(&awaited->flag->phase, memory_order_acquire) >= awaited->phase
               : nxr_node_has_reached(node, awaited->member, awaited->phase);
}

/*
 * Sleep until the awaited phase is published, unless it already was. Returns what the last check
 * has found: a timeout is found by one check only.
 */
static int node_sleep_once(struct nixl_team *team, const struct nxr_node_awaited *awaited,
                           struct nxr_waiting *waiting)
{
    struct nxr_node *node = &team->node;
    struct nxr_node_line *line = &node->lines[node->me];
    uint32_t doorbell = atomic_load_explicit(&line->doorbell, memory_order_acquire);
    int64_t left = nxr_team_left(team);
    int64_t longest = nxr_waiting_sleeps(waiting, nxr_leaving_sleep(&team->leaving, MAX_SLEEP_NS));
    struct timespec timeout = nxr_timespec(left < longest ? left : longest);
    int status = NIXL_OK;

    atomic_fetch_add_explicit(&node->head->n_asleep, 1, memory_order_relaxed);
    atomic_store_explicit(&line->waits_for, (uint32_t)awaited->member + 1, memory_order_relaxed);
    if (node->full_fence) {
        nxr_fence_full();
    } else {
        nxr_barrier_heavy();
    }
    if (!has_published(node, awaited)) {
        status = nxr_team_look(team, -1);
        if (status == NIXL_OK) {
            nxr_net_hand_over();
            syscall(SYS_futex, &line->doorbell, FUTEX_WAIT, doorbell, &timeout, NULL, 0);
        }
    }
    if (atomic_exchange_explicit(&line->waits_for, 0, memory_order_acq_rel) != 0) {
        atomic_fetch_sub_explicit(&node->head->n_asleep, 1, memory_order_relaxed);
    }
    return status;
}

/*
 * In a call on large data, a member waits about as long as the others write, copy or read it: at
 * MOVED_PER_NS bytes per nanosecond or more. A wake-up takes 20 to 60 us, so the member spins for
 * that long, but at most MOVING_MAX_FACTOR times the configured time.
 */
#define MOVED_PER_NS      4
#define MOVING_MAX_FACTOR 80

static int64_t moving_spin_time(const struct nxr_node *node)
{
    int64_t moving = (int64_t)(node->moving_nbytes / MOVED_PER_NS);
    int64_t longest = MOVING_MAX_FACTOR * nxr_job.spin_ns;

    return node->is_crowded ? 0 : moving < longest ? moving : longest;
}

/*
 * The last member may have to wake all others, one after the other. The one that it wakes first
 * spins until the last one is awake; otherwise it would sleep again, and every call would cost a
 * wake-up per member.
 */
static int64_t node_spin_time(const struct nxr_node *node)
{
    int64_t longest = nxr_job.spin_ns * (node->is_crowded ? CROWD_FACTOR : node->size - 1);
    int64_t learned = nxr_wait_spin_time(), moving = moving_spin_time(node);

    longest = learned > longest ? learned : longest;
    return moving > longest ? moving : longest;
}

/* A wait has ended: if it slept, the next ones may spin for longer. */
static void node_learn(const struct nxr_waiting *waiting, bool has_slept)
{
    if (has_slept) {
        nxr_wait_learn(nxr_now_ns() - waiting->since_ns);
    }
}

/* *now_p: when the clock was read last; the caller has read it before. */
static int node_wait_long(struct nixl_team *team, const struct nxr_node_awaited *awaited,
                          struct nxr_waiting *waiting, int64_t *now_p)
{
    const struct nxr_node *node = &team->node;
    int64_t spin_until = *now_p + node_spin_time(node);
    bool has_slept = false;

    for (;;) {
        int status;

        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            if (has_published(node, awaited)) {
                node_learn(waiting, has_slept);
                return NIXL_OK;
            }
            if (node->is_crowded) {
                nxr_yield();
            } else if (i % LOOKS_PER_PAUSE == 0) {
                nxr_pause();
            }
        }
        status = nxr_team_look(team, team->local[awaited->member]);
        *now_p = nxr_now_ns();
        if (status == NIXL_OK && *now_p >= spin_until) {
            status = node_sleep_once(team, awaited, waiting);
            has_slept = true;
            *now_p = nxr_now_ns();
        }
        if (status != NIXL_OK) {
            return has_published(node, awaited) ? NIXL_OK : status;
        }
    }
}

/*
 * In a crowd: is another core about to publish the phase? To yield all the same would break up the
 * order in which the members of this core do several calls each in turn.
 *
 * A wait is mutual if this member has published the awaited phase itself, as in a barrier. The
 * other one then publishes soon if it works, and not before its turn if it is aside. In other waits
 * it may be calls ahead or behind: its word tells nothing, and reading it takes its cache line. Nor
 * does it with a root, where a member that works may be at its next calls, or if a member works for
 * longer than a switch of the core takes.
 */
NXR_HOT static bool node_comes_soon(const struct nxr_node *node,
                                    const struct nxr_node_awaited *awaited)
{
    const struct nxr_node_line *line = &node->lines[awaited->member];
    bool is_mutual = awaited->phase == node->phase;

    if (node->yields_at_once) {
        return false;
    }
    for (int i = 0; i < (is_mutual ? CROWD_LOOKS : CROWD_FENCES); i++) {
        if (is_mutual && has_published(node, awaited)) {
            return true;
        }
        if (is_mutual && atomic_load_explicit(&line->is_aside, memory_order_relaxed) != 0) {
            return false;
        }
        nxr_look_again();
    }
    return has_published(node, awaited);
}

/*
 * In a crowd: let the others run for some turns. Reading a clock is a large part of a turn, so one
 * wait in CROWD_TIMED is timed, and stands for the others; by the coarse clock, whose differences
 * are mostly 0, but right on average.
 */
NXR_HOT static bool node_wait_turns(struct nixl_team *team, const struct nxr_node_awaited *awaited)
{
    struct nxr_node *node = &team->node;
    _Atomic uint32_t *is_aside = &node->lines[node->me].is_aside;
    bool is_timed = team->n_waits++ % CROWD_TIMED == 0;
    int64_t since_ns = is_timed ? nxr_coarse_now_ns() : 0;
    bool has_come = node_comes_soon(node, awaited);

    if (!has_come) {
        atomic_store_explicit(is_aside, 1, memory_order_relaxed);
        for (int i = 0; i < CROWD_TURNS && !has_come; i++) {
            nxr_yield();
            has_come = has_published(node, awaited);
        }
        atomic_store_explicit(is_aside, 0, memory_order_relaxed);
    }
    if (is_timed) {
        team->waited_ns += CROWD_TIMED * (nxr_coarse_now_ns() - since_ns);
    }
    return has_come;
}

static int node_wait_timed(struct nixl_team *team, const struct nxr_node_awaited *awaited)
{
    const struct nxr_team_wait wait = {team, team->local[awaited->member]};
    struct nxr_waiting waiting = {
        .describe = nxr_team_describe, .about = &wait, .since_ns = nxr_now_ns()};
    int64_t now = waiting.since_ns;
    int status =
        NXR_TRACED_STEP(NXR_TRACE_COLLECTIVE, "waits for a member", team->ranks[wait.team_rank], 0,
                        node_wait_long(team, awaited, &waiting, &now));

    if (team->node.is_crowded) {
        now = nxr_now_ns(); /* others may have had the core for long since then */
    }
    nxr_team_waited(team, waiting.since_ns, now);
    nxr_waiting_ends(&waiting);
    return status;
}

NXR_HOT int nxr_node_wait_slow(struct nixl_team *team, const struct nxr_node_awaited *awaited)
{
    return team->node.is_crowded && node_wait_turns(team, awaited) ? NIXL_OK
                                                                   : node_wait_timed(team, awaited);
}

NXR_HOT int nxr_node_wait_each(struct nixl_team *team, uint64_t phase)
{
    struct nxr_node *node = &team->node;
    int status = NIXL_OK;

    for (int i = 0; i < node->size && status == NIXL_OK; i++) {
        if (i != node->me && !nxr_node_has_reached(node, i, phase)) {
            status = nxr_node_wait(team, i, phase);
            if (status == NIXL_OK && nxr_node_is_told(node, phase)) {
                return NIXL_OK;
            }
        }
    }
    if (status == NIXL_OK) {
        nxr_node_tell_known(node, phase);
    }
    return status;
}
