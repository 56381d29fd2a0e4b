/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy thread and its operations, oldest first. Lock: copy_thread_lock guards the list and the
 * counts of each operation; no lock is taken inside it, and it is never held while bytes move. The
 * thread that finishes the last piece of an operation ends it.
 */
#include "config.h"

#include "core/stats.h"
#include "core/service.h"
#include "transfer/copy_crew.h"
#include "transfer/copy_thread.h"
#include "transfer/staging.h"
#include "core/subsystem.h"
#include "core/life.h"
#include "core/progress.h"
#include "region/region.h"
#include "util/clock.h"
#include "util/copy.h"
#include "util/log.h"
#include "util/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define STACK_NBYTES (256 * 1024)
/*
 * Sizes of pieces. If a core is free for the copy thread, pieces are small, so that the thread and
 * a waiting thread share a copy evenly. Otherwise only one of the two copies, and pieces are large
 * enough that splitting costs nothing: on Zen 5 "rep movsb" of 64 MiB bypasses the caches (28
 * GB/s; in pieces of half a MiB to 32 MiB 23-25), and 16 MiB take 5 % longer in pieces of half a
 * MiB than in one. A cancel waits for the piece that is being copied.
 */
#define SHARED_PIECE_NBYTES (512ul << 10)
#define PIECE_NBYTES        (16ul << 20)
#define LARGE_PIECE_NBYTES  (64ul << 20)
#define LOOK_NBYTES         (64ul << 10) /* piece of a thread that tests for completion */

/*
 * If no core is free, the copy thread checks for work after each of N_NAPS naps of NAP_NS before it
 * goes to sleep, since waking it costs the waking thread, which is on the critical path, 2 to 9 us.
 */
#define NAP_NS (1 * NXR_MS)
#define N_NAPS 16

/*
 * A call that does not wait copies up to WHOLE_NBYTES itself, and more if the first piece shows
 * that this takes no longer than AT_ONCE_NS; else it copies only that piece. Measuring a piece and
 * starting another one takes 150 ns, 3 % of what 256 KiB take out of the caches.
 */
#define AT_ONCE_NS   (16 * NXR_US)
#define WHOLE_NBYTES (2 * NXR_AT_ONCE_NBYTES)

#define HELP_NS (50 * NXR_US) /* how long a waiting thread copies before it checks again */

/*
 * The bytes of a prepared transfer that the copy thread, or a waiting thread, copies in a turn.
 * The thread's turns are long enough that a piece bypasses the caches if the whole would.
 */
#define THREAD_TURN_NBYTES (64ul << 20)
#define HELPER_TURN_NBYTES (8ul << 20)

/* An operation. */
struct copy {
    struct nxr_list link;
    struct nxr_op *op;
    enum nxr_copy_method method; /* chosen for the whole copy, not for a piece */
    size_t piece_nbytes;
    size_t issued; /* bytes of which pieces were taken */
    size_t nbytes_done;
    size_t resume_at; /* where the owner continues, after NIXL_E_AGAIN */
    unsigned n_moving;
    int status; /* not NIXL_OK: no more pieces are taken */
};

struct piece {
    struct copy *copy;
    size_t at;
    size_t nbytes;
};

enum thread_state { THREAD_NONE, THREAD_RUNS, THREAD_FAILED };

static bool copy_thread_has_no_lists(uint64_t nbytes)
{
    (void)nbytes;
    return false;
}

bool (*nxr_copy_thread_copy_lists)(uint64_t nbytes) = copy_thread_has_no_lists;

static pthread_mutex_t copy_thread_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;
static struct nxr_list copies = {&copies, &copies};
static _Atomic int thread_state; /* changed under copy_thread_lock */
static pthread_t copy_thread_thread;
static bool is_asleep, copy_thread_is_stopping;
static unsigned n_kicks;
static cpu_set_t cpus;
static bool has_cpus;
static _Atomic uint32_t n_helpers; /* waiting threads that copy meanwhile */

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool copy_is_issued(const struct copy *copy)
{
    return copy->status != NIXL_OK || copy->issued == copy->op->nbytes;
}

/* Record a failure: no thread takes further pieces of the copy. Caller holds copy_thread_lock. */
static void copy_set_status(struct copy *copy, int status)
{
    if (!copy_is_issued(copy)) {
        atomic_fetch_sub(&nxr_n_to_copy, 1);
    }
    if (copy->status == NIXL_OK) {
        copy->status = status;
    }
}

/*
 * All pieces of a large copy have the same size; else the last one could be too small to be as
 * fast.
 */
static size_t choose_piece(size_t nbytes)
{
    size_t n_large = nbytes / LARGE_PIECE_NBYTES;

    if (nxr_job.has_spare_core) {
        return SHARED_PIECE_NBYTES;
    }
    return n_large > 0 ? nbytes / n_large + 1 : PIECE_NBYTES;
}

/* Take the next piece of the oldest copy, of at most max_nbytes. False: there is none. */
static bool piece_take(struct piece *piece, size_t max_nbytes)
{
    struct nxr_list *link, *after;
    bool is_found = false;

    pthread_mutex_lock(&copy_thread_lock);
    nxr_list_for_each (link, after, &copies) {
        struct copy *copy = nxr_list_entry(link, struct copy, link);

        if (!copy_is_issued(copy)) {
            size_t left = copy->op->nbytes - copy->issued;
            size_t nbytes = copy->piece_nbytes < max_nbytes ? copy->piece_nbytes : max_nbytes;

            *piece = (struct piece){copy, copy->issued, left < nbytes ? left : nbytes};
            copy->issued += piece->nbytes;
            copy->n_moving++;
            if (copy_is_issued(copy)) {
                atomic_fetch_sub(&nxr_n_to_copy, 1);
            }
            is_found = true;
            break;
        }
    }
    pthread_mutex_unlock(&copy_thread_lock);
    return is_found;
}

/* The method for the whole copy. */
static enum nxr_copy_method choose_method(const struct nxr_op *op)
{
    char *there = op->segment->addr + op->offset;

    if (op->segment->method != NXR_METHOD_MEMCPY) {
        return NXR_COPY_LIBC;
    }
    return op->kind == NXR_OP_PUT ? nxr_copy_choose(there, op->local, op->nbytes)
                                  : nxr_copy_choose(op->local, there, op->nbytes);
}

static int copy_thread_copy_mapped(const struct nxr_op *op, enum nxr_copy_method method, size_t at,
                                   size_t nbytes)
{
    char *there = op->segment->addr + op->offset + at;
    char *here = (char *)op->local + at;
    nxr_inflight_word *word;
    int status = nxr_inflight_enter(op->segment, &word);

    if (status == NIXL_OK) {
        nxr_copy_by(method, op->kind == NXR_OP_PUT ? there : here,
                    op->kind == NXR_OP_PUT ? here : there, nbytes);
        nxr_inflight_leave(word);
    }
    return status;
}

/* Copy nbytes of an operation, from byte `at` on. */
static int op_move(const struct nxr_op *op, enum nxr_copy_method method, size_t at, size_t nbytes)
{
    struct nxr_segment *segment = op->segment;
    char *here = (char *)op->local + at;
    int status;

    if (segment->method == NXR_METHOD_MEMCPY) {
        return copy_thread_copy_mapped(op, method, at, nbytes);
    }
    nxr_stats_is_piece = true;
    status = op->kind == NXR_OP_PUT
                 ? segment->transport->put(segment, op->offset + at, here, nbytes)
                 : segment->transport->get(segment, op->offset + at, here, nbytes);
    nxr_stats_is_piece = false;
    return status;
}

static int piece_move(const struct piece *piece)
{
    const struct copy *copy = piece->copy;

    if (nxr_peer_is_lost(copy->op->segment->peer)) {
        return NIXL_E_PEER_LOST;
    }
    return op_move(copy->op, copy->method, piece->at, piece->nbytes);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The owner moves the rest, starting with the first byte that this process may no longer copy. */
static void copy_resume(struct nxr_op *op, size_t resume_at)
{
    int status;

    op->nbytes_done = resume_at;
    status = nxr_staging_start(op);
    if (status == NIXL_INPROGRESS) {
        nxr_service_kick();
    } else {
        nxr_op_done(op, status);
    }
}

/*
 * End a copy whose last piece has ended, or that had none, and that is in no list. Without locks.
 */
static void copy_end(struct copy *copy)
{
    struct nxr_op *op = copy->op;
    struct nxr_segment *segment = op->segment;
    size_t resume_at = copy->resume_at;
    int status = copy->status;

    if (status == NIXL_E_CANCELED && copy->nbytes_done == op->nbytes) {
        status = NIXL_OK; /* the cancel came too late */
    }
    op->nbytes_done = copy->nbytes_done;
    free(copy);
    if (status < 0 && status != NIXL_E_CANCELED && nxr_life_check(segment->peer)) {
        status = NIXL_E_PEER_LOST;
    }
    if (status == NIXL_E_STALE) {
        nxr_region_mark_stale(segment);
    }
    if (status == NIXL_E_AGAIN) {
        copy_resume(op, resume_at);
    }
    atomic_fetch_sub_explicit(&segment->n_copies, 1, memory_order_release);
    atomic_fetch_sub(&nxr_n_at_copy_thread, 1);
    if (status != NIXL_E_AGAIN) {
        nxr_op_done(op, status);
    }
}

/* Has the copy ended? If so, the caller must call copy_end(). Caller holds copy_thread_lock. */
static bool copy_is_over(struct copy *copy)
{
    if (copy->n_moving > 0 || !copy_is_issued(copy)) {
        return false;
    }
    nxr_list_remove(&copy->link);
    return true;
}

static void piece_finish(const struct piece *piece, int status)
{
    struct copy *copy = piece->copy;
    bool is_over;

    pthread_mutex_lock(&copy_thread_lock);
    copy->n_moving--;
    if (status == NIXL_OK) {
        copy->nbytes_done += piece->nbytes;
    } else {
        if (status == NIXL_E_AGAIN && piece->at < copy->resume_at) {
            copy->resume_at = piece->at;
        } else if (status == NIXL_E_TRANSPORT) {
            copy->nbytes_done += piece->nbytes; /* some of them may have moved */
        }
        copy_set_status(copy, status);
    }
    is_over = copy_is_over(copy);
    pthread_mutex_unlock(&copy_thread_lock);
    if (is_over) {
        copy_end(copy);
    }
}

static bool copy_a_piece(size_t max_nbytes)
{
    struct piece piece;

    if (!piece_take(&piece, max_nbytes)) {
        return false;
    }
    piece_finish(&piece, piece_move(&piece));
    return true;
}

/* As the crew calls it. */
static bool copy_any_piece(void)
{
    return copy_a_piece(SIZE_MAX);
}

void nxr_copy_thread_look(void)
{
    (void)copy_a_piece(LOOK_NBYTES);
}

/* ---- threads that wait ----------------------------------------------------------------------- */

bool nxr_copy_thread_help_now(bool *is_helper_p)
{
    int64_t until = nxr_now_ns() + HELP_NS;
    bool has_copied = false;

    if (!*is_helper_p) {
        *is_helper_p = true;
        atomic_fetch_add(&n_helpers, 1);
    }
    while (nxr_now_ns() < until && copy_a_piece(SIZE_MAX)) {
        has_copied = true;
    }
    return has_copied || nxr_copy_thread_copy_lists(HELPER_TURN_NBYTES);
}

void nxr_copy_thread_help_ends(void)
{
    if (atomic_fetch_sub(&n_helpers, 1) == 1 && atomic_load(&nxr_n_to_copy) > 0) {
        nxr_copy_thread_kick();
    }
}

/*
 * May the copy thread take pieces? A waiting thread copies as fast, and shares the core with it if
 * no other is free.
 */
static bool thread_may_copy(void)
{
    return nxr_job.has_spare_core || atomic_load(&n_helpers) == 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/*
 * Make the thread check for work. Caller holds copy_thread_lock. True: it sleeps, and the caller
 * must signal work_came after releasing the lock.
 */
static bool kick(void)
{
    bool was_asleep = is_asleep;

    n_kicks++;
    is_asleep = false;
    return was_asleep;
}

void nxr_copy_thread_kick(void)
{
    bool was_asleep;

    pthread_mutex_lock(&copy_thread_lock);
    was_asleep = kick();
    pthread_mutex_unlock(&copy_thread_lock);
    if (was_asleep) {
        pthread_cond_signal(&work_came);
    }
}

static bool thread_is_called(unsigned n_seen)
{
    bool is_called;

    pthread_mutex_lock(&copy_thread_lock);
    is_called = n_seen != n_kicks || copy_thread_is_stopping;
    pthread_mutex_unlock(&copy_thread_lock);
    return is_called;
}

/* Sleep until there is a kick that is not counted in *n_seen_p. False: the thread must end. */
static bool thread_wait(unsigned *n_seen_p)
{
    const struct timespec nap = nxr_timespec(NAP_NS);
    int n_naps = nxr_job.has_spare_core ? 0 : N_NAPS;
    bool goes_on;

    while (n_naps-- > 0 && !thread_is_called(*n_seen_p)) {
        nanosleep(&nap, NULL);
    }
    pthread_mutex_lock(&copy_thread_lock);
    while (*n_seen_p == n_kicks && !copy_thread_is_stopping) {
        is_asleep = true;
        pthread_cond_wait(&work_came, &copy_thread_lock);
        is_asleep = false;
    }
    *n_seen_p = n_kicks;
    goes_on = !copy_thread_is_stopping;
    pthread_mutex_unlock(&copy_thread_lock);
    return goes_on;
}

static void *thread_run(void *arg)
{
    unsigned n_seen = 0;

    (void)arg;
    if (has_cpus) {
        sched_setaffinity(0, sizeof(cpus), &cpus); /* else it stays on its creator's CPUs */
    }
    nxr_thread_stand_back();
    while (thread_wait(&n_seen)) {
        while ((thread_may_copy() && copy_a_piece(SIZE_MAX)) ||
               nxr_copy_thread_copy_lists(THREAD_TURN_NBYTES)) {
        }
    }
    return NULL;
}

bool nxr_copy_thread_is_there(void)
{
    int state = atomic_load_explicit(&thread_state, memory_order_acquire);

    if (__builtin_expect(state == THREAD_NONE, 0)) {
        pthread_mutex_lock(&copy_thread_lock);
        if (atomic_load(&thread_state) == THREAD_NONE && !copy_thread_is_stopping) {
            int error = nxr_thread_start(&copy_thread_thread, STACK_NBYTES, thread_run, NULL);

            if (error != 0) {
                nxr_warn(CORE,
                         "cannot start the copy thread: %s; non-blocking calls copy by "
                         "themselves",
                         strerror(error));
            }
            atomic_store(&thread_state, error == 0 ? THREAD_RUNS : THREAD_FAILED);
        }
        state = atomic_load(&thread_state);
        pthread_mutex_unlock(&copy_thread_lock);
    }
    return state == THREAD_RUNS;
}

void nxr_copy_thread_init(void)
{
    has_cpus = sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
    copy_thread_is_stopping = false;
    n_kicks = 0;
    atomic_store(&thread_state, THREAD_NONE);
}

/*
 * Cancel all operations. Returns one of which no piece is being copied, for the caller to end; or
 * NULL.
 */
static struct copy *take_stopped(void)
{
    struct nxr_list *link, *after;
    struct copy *stopped = NULL;

    pthread_mutex_lock(&copy_thread_lock);
    copy_thread_is_stopping = true;
    pthread_cond_signal(&work_came);
    nxr_list_for_each (link, after, &copies) {
        struct copy *copy = nxr_list_entry(link, struct copy, link);

        copy_set_status(copy, NIXL_E_CANCELED);
        if (stopped == NULL && copy_is_over(copy)) {
            stopped = copy;
        }
    }
    pthread_mutex_unlock(&copy_thread_lock);
    return stopped;
}

void nxr_copy_thread_stop(void)
{
    struct copy *copy;

    while ((copy = take_stopped()) != NULL) {
        copy_end(copy);
    }
    nxr_copy_crew_stop();
    if (atomic_load(&thread_state) == THREAD_RUNS) {
        pthread_join(copy_thread_thread, NULL); /* it finishes the piece that it is copying */
    }
    atomic_store(&thread_state, THREAD_NONE);
}

/* ---- for transports -------------------------------------------------------------------------- */

bool nxr_copy_thread_begin(struct nxr_op *op)
{
    enum nxr_copy_method method = choose_method(op);
    const bool is_small = op->nbytes <= WHOLE_NBYTES;
    size_t nbytes = is_small ? op->nbytes : NXR_AT_ONCE_NBYTES;
    int64_t began = is_small ? 0 : nxr_now_ns(), whole_ns = 0; /* the expected time of the whole */

    if (op->segment->method != NXR_METHOD_MEMCPY) {
        return false; /* process_vm calls are never that fast */
    }
    while (whole_ns < AT_ONCE_NS) {
        size_t left = op->nbytes - op->nbytes_done;

        nbytes = left < nbytes ? left : nbytes;
        if (op_move(op, method, op->nbytes_done, nbytes) != NIXL_OK) {
            return false;
        }
        op->nbytes_done += nbytes;
        if (op->nbytes_done == op->nbytes) {
            nxr_stats_lane_count(
                op->segment, op->kind == NXR_OP_PUT ? NXR_LANE_PUTS : NXR_LANE_GETS, op->nbytes);
            return true;
        }
        whole_ns = (nxr_now_ns() - began) * (int64_t)(op->nbytes / op->nbytes_done);
        nbytes = 3 * op->nbytes_done; /* known to take no longer than AT_ONCE_NS */
    }
    return false;
}

int nxr_host_copy_start(struct nxr_op *op)
{
    const size_t op_nbytes = op->nbytes - op->nbytes_done; /* it may end before this call does */
    struct copy *copy;
    bool was_asleep;

    if (!nxr_copy_thread_is_there()) {
        return NIXL_E_UNSUPPORTED;
    }
    copy = calloc(1, sizeof(*copy));
    if (copy == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    copy->op = op;
    copy->resume_at = SIZE_MAX;
    copy->method = choose_method(op);
    copy->piece_nbytes = choose_piece(op->nbytes);
    copy->issued = copy->nbytes_done = op->nbytes_done;
    atomic_fetch_add(&op->segment->n_copies, 1);
    atomic_fetch_add(&nxr_n_at_copy_thread, 1);
    atomic_fetch_add(&nxr_n_to_copy, 1);
    pthread_mutex_lock(&copy_thread_lock);
    nxr_list_append(&copies, &copy->link);
    was_asleep = kick();
    pthread_mutex_unlock(&copy_thread_lock);
    if (was_asleep) {
        pthread_cond_signal(&work_came);
    }
    nxr_copy_crew_call(op_nbytes, copy_any_piece);
    return NIXL_INPROGRESS;
}

int nxr_host_copy_cancel(struct nxr_op *op)
{
    struct nxr_list *link, *after;
    struct copy *over = NULL;
    int status = NIXL_E_NOT_FOUND;

    pthread_mutex_lock(&copy_thread_lock);
    nxr_list_for_each (link, after, &copies) {
        struct copy *copy = nxr_list_entry(link, struct copy, link);

        if (copy->op == op) {
            copy_set_status(copy, NIXL_E_CANCELED);
            over = copy_is_over(copy) ? copy : NULL;
            status = over != NULL ? NIXL_OK : NIXL_INPROGRESS; /* a piece is being copied */
            break;
        }
    }
    pthread_mutex_unlock(&copy_thread_lock);
    if (over != NULL) {
        copy_end(over);
    }
    return status;
}

static void copy_thread_register(void)
{
    nxr_host_paths.copy_start = nxr_host_copy_start;
    nxr_host_paths.copy_cancel = nxr_host_copy_cancel;
}

const struct nxr_subsystem nxr_copy_thread_subsystem = {
    .name = "copy thread",
    .register_handlers = copy_thread_register,
    .quiesce = nxr_copy_thread_stop,
};
