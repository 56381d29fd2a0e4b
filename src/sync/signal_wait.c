/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for signals: the public calls. The only state is, in each thread, how many deaths its
 * waits have reported to the caller. A word in device memory is copied out to be checked, again and
 * again with growing pauses, which end early if the library changes such a word. No lock.
 */
#include "config.h"

#include "memory/device_atomic.h"
#include "core/cq.h"
#include "core/event.h"
#include "core/form.h"
#include "core/job.h"
#include "core/trace.h"
#include "region/region.h"
#include "sync/senders.h"
#include "sync/signal_wait.h"
#include "sync/stream_signal.h"
#include "transports/transport.h"
#include "util/clock.h"
#include "util/lock.h"
#include "util/status.h"
#include "util/symbol.h"
#include "core/wait.h"

/* How soon a sleeping waiter checks words that GPUs may store to: the first time, and at most. */
#define FIRST_LOOK_NS (200 * NXR_US)
#define LAST_LOOK_NS  (8 * NXR_MS)

/*
 * Deaths that signal waits of this thread have returned; told_of_start: which start of the library
 * they count for.
 */
static __thread unsigned told_of_start NXR_TLS_MODEL;
static __thread int n_deaths_told NXR_TLS_MODEL;

/* A number that orders as the value of the type with these bits does. */
static inline uint64_t order_of(uint64_t bits, enum nixl_type type)
{
    const uint64_t sign = UINT64_C(1) << 63;

    switch (type) {
    case NIXL_TYPE_INT32:
        return (uint64_t)(int64_t)(int32_t)(uint32_t)bits ^ sign;
    case NIXL_TYPE_INT64:
        return bits ^ sign;
    default:
        return bits;
    }
}

static inline bool is_true(uint64_t seen, enum nixl_compare compare, uint64_t value)
{
    switch (compare) {
    case NIXL_COMPARE_EQ:
        return seen == value;
    case NIXL_COMPARE_NE:
        return seen != value;
    case NIXL_COMPARE_LT:
        return seen < value;
    case NIXL_COMPARE_LE:
        return seen <= value;
    case NIXL_COMPARE_GT:
        return seen > value;
    default:
        return seen >= value;
    }
}

/* Does that word compare true? If so, it becomes the result of the wait. */
static inline bool take_if_true(struct nxr_signal_wait *wait, size_t i, uint64_t seen)
{
    if (!is_true(order_of(seen, wait->type), wait->compare, order_of(wait->value, wait->type))) {
        return false;
    }
    wait->index = i;
    wait->seen = seen;
    return true;
}

/* Is there a loss that this thread has not been told and that the program has not settled? */
static bool has_untold_death(void)
{
    n_deaths_told = nxr_event_next_death(n_deaths_told);
    return nxr_event_n_deaths() > n_deaths_told;
}

/*
 * Is a loss known that ends the wait? Asked before the words: what lost ranks had raised is seen.
 */
static inline bool signal_wait_is_lost(const struct nxr_signal_wait *wait)
{
    return wait->awaited != NULL ? nxr_peer_is_lost(wait->awaited)
                                 : nxr_event_n_deaths() > n_deaths_told && has_untold_death();
}

/*
 * Will nobody raise a signal any more? Asked before the words, too. GPUs store by themselves, so
 * without a rank this is not asked in processes that have device memory.
 */
static bool signal_wait_is_in_vain(struct nxr_signal_wait *wait)
{
    if (wait->awaited != NULL) {
        return nxr_leaving_is_in_vain(&wait->leaving, wait->awaited->rank);
    }
    return nxr_leaving_is_time(&wait->leaving_all.n_calls) &&
           atomic_load_explicit(&nxr_range_bounds, memory_order_relaxed) == 0 &&
           nxr_senders_never_come(&wait->leaving_all);
}

static bool is_raised(void *arg)
{
    struct nxr_signal_wait *wait = arg;
    bool is_lost = signal_wait_is_lost(wait);
    bool is_in_vain = signal_wait_is_in_vain(wait);

    for (size_t i = 0; i < wait->n_words; i++) {
        if (take_if_true(wait, i, nxr_signal_load(nxr_signal_word(wait, i), wait->type))) {
            return true;
        }
    }
    wait->is_in_vain = is_in_vain;
    wait->is_lost = __builtin_expect(is_lost | is_in_vain, 0);
    return wait->is_lost;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Are there no words, or is one NULL or misaligned? Of an array, the first two are checked. */
static bool has_bad_word(const struct nxr_signal_wait *wait)
{
    size_t mask = nxr_type_nbytes(wait->type) - 1;
    bool is_bad = wait->n_words == 0;

    if (wait->words == NULL) {
        return is_bad || wait->base == NULL || ((uintptr_t)wait->base & mask) != 0 ||
               (wait->n_words > 1 && (wait->stride & mask) != 0);
    }
    for (size_t i = 0; !is_bad && i < wait->n_words; i++) {
        is_bad = wait->words[i] == NULL || ((uintptr_t)wait->words[i] & mask) != 0;
    }
    return is_bad;
}

static inline int check_wait(const char *operation, const struct nxr_signal_wait *wait,
                             int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (has_bad_word(wait)) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "a word is NULL or not aligned to %zu bytes, or there is none",
                        nxr_type_nbytes(wait->type));
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout(operation, -1, timeout_ns);
    }
    if ((unsigned)wait->compare > NIXL_COMPARE_GE) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "comparison %d; allowed: NIXL_COMPARE_EQ (%d) to NIXL_COMPARE_GE (%d)",
                        (int)wait->compare, NIXL_COMPARE_EQ, NIXL_COMPARE_GE);
    }
    return NIXL_OK;
}

/* ---- words in device memory ------------------------------------------------------------------ */

#define FIRST_PAUSE_NS (2 * NXR_US) /* between two checks of words in device memory */
#define LAST_PAUSE_NS  (200 * NXR_US)

static bool is_any_device(const struct nxr_signal_wait *wait)
{
    for (size_t i = 0; i < wait->n_words; i++) {
        if (nxr_range_find(nxr_signal_word(wait, i)) != NULL) {
            return true;
        }
    }
    return false;
}

/* NIXL_OK: a word compares true. NIXL_INPROGRESS: none does. Other: one cannot be read. */
static int look_at_all(struct nxr_signal_wait *wait)
{
    for (size_t i = 0; i < wait->n_words; i++) {
        const void *word = nxr_signal_word(wait, i);
        const struct nxr_range *range = nxr_range_find(word);
        uint64_t seen = 0;
        int status = NIXL_OK;

        if (range != NULL) {
            status = nxr_device_copy(NULL, &seen, range, word, nxr_type_nbytes(wait->type));
        } else {
            seen = nxr_signal_load(word, wait->type);
        }
        if (status != NIXL_OK) {
            return status;
        }
        if (take_if_true(wait, i, seen)) {
            return NIXL_OK;
        }
    }
    return NIXL_INPROGRESS;
}

static bool signal_wait_has_changed(void *arg)
{
    return atomic_load(&nxr_device_n_changes) != *(const uint64_t *)arg;
}

static int wait_device_turns(struct nxr_signal_wait *wait, int64_t timeout_ns,
                             struct nxr_waiting *waiting)
{
    int64_t deadline = nxr_deadline(timeout_ns), pause_ns = FIRST_PAUSE_NS;

    for (;;) {
        uint64_t n_changes = atomic_load(&nxr_device_n_changes);
        bool is_lost = signal_wait_is_lost(wait);
        int status = look_at_all(wait);
        int64_t left_ns = nxr_left(timeout_ns, deadline);

        if (status != NIXL_INPROGRESS) {
            return status;
        }
        wait->is_lost = is_lost;
        if (wait->is_lost) {
            return NIXL_OK;
        }
        if (timeout_ns == 0 || left_ns <= 1) {
            return timeout_ns == 0 ? NIXL_INPROGRESS : NIXL_E_TIMEOUT;
        }
        status =
            nxr_wait(signal_wait_has_changed, &n_changes, pause_ns < left_ns ? pause_ns : left_ns);
        pause_ns = status == NIXL_OK              ? FIRST_PAUSE_NS
                   : 2 * pause_ns < LAST_PAUSE_NS ? 2 * pause_ns
                                                  : LAST_PAUSE_NS;
        nxr_turn(waiting);
    }
}

static int wait_device(struct nxr_signal_wait *wait, int64_t timeout_ns)
{
    struct nxr_waiting waiting = {
        .describe = nxr_signal_describe, .about = wait, .since_ns = nxr_now_ns()};
    int status = wait_device_turns(wait, timeout_ns, &waiting);

    nxr_waiting_ends(&waiting);
    return status;
}

/* ---- all words ------------------------------------------------------------------------------- */

/*
 * A GPU that stores into a word wakes no waiter. If this process has device memory, the waiter
 * checks again after a while, which grows.
 */
static int wait_looking(struct nxr_signal_wait *wait, int64_t timeout_ns)
{
    struct nxr_waiting waiting = {
        .describe = nxr_signal_describe, .about = wait, .since_ns = nxr_now_ns()};
    int64_t deadline = nxr_deadline(timeout_ns), look_after = FIRST_LOOK_NS, left, turn;
    int status;

    do {
        left = nxr_left(timeout_ns, deadline);
        turn = left < look_after ? left : look_after;
        status = nxr_wait(is_raised, wait, turn);
        nxr_turn(&waiting);
        look_after = look_after < LAST_LOOK_NS ? 2 * look_after : look_after;
    } while (status == NIXL_E_TIMEOUT && turn < left);
    nxr_waiting_ends(&waiting);
    return status;
}

static int wait_signals(const char *operation, struct nxr_signal_wait *wait, int64_t timeout_ns)
{
    bool is_looking = atomic_load_explicit(&nxr_range_bounds, memory_order_relaxed) != 0;
    int status;

    wait->operation = operation;
    if (told_of_start != nxr_job.n_starts) {
        told_of_start = nxr_job.n_starts;
        n_deaths_told = 0;
    }
    status = is_any_device(wait) ? wait_device(wait, timeout_ns)
             : is_looking && timeout_ns > 0
                 ? wait_looking(wait, timeout_ns)
                 : nxr_wait_as(is_raised, wait, timeout_ns, nxr_signal_describe, wait);
    if (status == NIXL_OK && wait->is_in_vain) {
        return nxr_signal_fail_in_vain(operation, wait);
    }
    if (status == NIXL_OK && wait->is_lost) {
        return nxr_signal_fail_lost(operation, wait,
                                    wait->awaited != NULL ? wait->awaited->rank
                                                          : nxr_event_death(n_deaths_told++));
    }
    if (status == NIXL_OK || status == NIXL_INPROGRESS) {
        return status;
    }
    return nxr_signal_fail_wait(operation, status, wait, timeout_ns);
}

static inline bool signal_wait_look_closely(const uint64_t *word, enum nixl_compare compare,
                                            uint64_t value, int n_looks, uint64_t *seen_p)
{
    for (int i = 0; i < n_looks; i++) {
        *seen_p = atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire);
        if (is_true(*seen_p, compare, value)) {
            return true;
        }
        nxr_look_again();
    }
    return false;
}

static int call_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                            int64_t timeout_ns, uint64_t *seen_p)
{
    struct nxr_signal_wait wait = {
        .words = &word, .n_words = 1, .type = NIXL_TYPE_UINT64, .compare = compare, .value = value};
    int status = check_wait("nixl_signal_wait", &wait, timeout_ns);

    if (status == NIXL_OK && nxr_range_is_device(word)) {
        status = wait_signals("nixl_signal_wait", &wait, timeout_ns);
    } else if (status == NIXL_OK &&
               !signal_wait_look_closely(
                   word, compare, value,
                   timeout_ns != 0 && nxr_wait_looks_closely() ? NXR_CLOSE_LOOKS : 1, &wait.seen)) {
        status = wait_signals("nixl_signal_wait", &wait, timeout_ns);
    }
    if (status == NIXL_OK && seen_p != NULL) {
        *seen_p = wait.seen;
    }
    return status;
}

/* Of arguments that need no closer look: is the word true already? */
static inline bool signal_wait_has_ended(const uint64_t *word, enum nixl_compare compare,
                                         uint64_t value, int64_t timeout_ns, uint64_t *seen_p)
{
    return nxr_is_ready() && word != NULL && (uintptr_t)word % sizeof(*word) == 0 &&
           timeout_ns >= 0 && (unsigned)compare <= NIXL_COMPARE_GE && !nxr_range_is_device(word) &&
           signal_wait_look_closely(word, compare, value, 1, seen_p);
}

int nixl_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                     int64_t timeout_ns, uint64_t *seen_p)
{
    uint64_t seen;

    if (!nxr_trace_has(NXR_TRACE_SIGNAL) &&
        signal_wait_has_ended(word, compare, value, timeout_ns, &seen)) {
        if (seen_p != NULL) {
            *seen_p = seen;
        }
        return NIXL_OK;
    }
    return NXR_TRACED(NXR_TRACE_SIGNAL, "nixl_signal_wait", -1, 0, value,
                      call_signal_wait(word, compare, value, timeout_ns, seen_p));
}

/* Let a completion queue wait. */
static int watch_signal(const char *operation, const struct nxr_signal_wait *wait,
                        const struct nxr_form *form)
{
    const struct nxr_cq_watch watch = {
        .word = wait->words[0],
        .value = wait->value,
        .user_data = form->op->user_data,
        .rank = wait->awaited != NULL ? form->op->rank : -1,
        .is_true = is_true,
        .ask_leaving = nxr_leaving_ask_for_cq,
        .compare = wait->compare,
        .expires_at = form->op->timeout_ns != 0 ? nxr_deadline(form->timeout_ns) : INT64_MAX};
    int status;

    if (nxr_range_is_device(watch.word)) {
        return nxr_fail(NIXL_E_UNSUPPORTED, operation, -1, "", 0,
                        "the word at %p is in device memory: a completion queue watches host "
                        "memory only",
                        (const void *)watch.word);
    }
    status = nxr_cq_watch(form->op->cq, &watch);
    return status == NIXL_INPROGRESS
               ? status
               : nxr_fail(status, operation, -1, "", 0, "no memory for a wait");
}

/* The rank that the wait depends on; its death must be noticed. */
static int signal_wait_await(const char *operation, struct nxr_signal_wait *wait, int rank)
{
    struct nxr_peer *peer = nxr_peer_get(rank);

    if (peer == NULL) {
        return nxr_fail_no_peer(operation, rank);
    }
    if (atomic_load(&peer->connection) == NXR_CONNECTION_NONE) {
        pthread_mutex_lock(&nxr_job.lock);
        nxr_peer_want(peer);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    wait->awaited = peer;
    return NIXL_OK;
}

static int call_signal_wait_x(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                              const struct nixl_op *op, uint64_t *seen_p)
{
    static const char operation[] = "nixl_signal_wait_x";
    struct nxr_signal_wait wait = {
        .words = &word, .n_words = 1, .type = NIXL_TYPE_UINT64, .compare = compare, .value = value};
    struct nxr_form form;
    int status = nxr_form_read(operation, op, NIXL_OP_STREAM | NIXL_OP_RANK, NIXL_FOREVER, &form);

    if (status == NIXL_OK && nxr_form_has(&form, NIXL_OP_STREAM)) {
        return nxr_stream_wait(operation, word, compare, value, form.op->stream);
    }
    if (status == NIXL_OK) {
        status = check_wait(operation, &wait, form.timeout_ns);
    }
    if (status == NIXL_OK && nxr_form_has(&form, NIXL_OP_RANK)) {
        status = signal_wait_await(operation, &wait, form.op->rank);
    }
    if (status != NIXL_OK || form.op->cq != NULL) {
        return status == NIXL_OK ? watch_signal(operation, &wait, &form) : status;
    }
    status = wait_signals(operation, &wait, form.timeout_ns);
    if (status == NIXL_OK && seen_p != NULL) {
        *seen_p = wait.seen;
    }
    return status;
}

int nixl_signal_wait_x(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                       const struct nixl_op *op, uint64_t *seen_p)
{
    return NXR_TRACED(NXR_TRACE_SIGNAL, "nixl_signal_wait_x", -1, 0, value,
                      call_signal_wait_x(word, compare, value, op, seen_p));
}

/* A wait whose arguments were checked; seen_p is of the wait's type. */
static int wait_for_one_of(const char *operation, struct nxr_signal_wait *wait, int64_t timeout_ns,
                           size_t *index_p, void *seen_p)
{
    int status = check_wait(operation, wait, timeout_ns);

    if (status == NIXL_OK) {
        status = wait_signals(operation, wait, timeout_ns);
    }
    if (status == NIXL_OK && index_p != NULL) {
        *index_p = wait->index;
    }
    if (status == NIXL_OK && seen_p != NULL) {
        nxr_atomic_store_value(seen_p, wait->seen, nxr_type_nbytes(wait->type));
    }
    return status;
}

static int wait_for_any(const char *operation, struct nxr_signal_wait *wait, int64_t timeout_ns,
                        size_t *index_p, void *seen_p)
{
    return NXR_TRACED(NXR_TRACE_SIGNAL, operation, -1, 0, wait->value,
                      wait_for_one_of(operation, wait, timeout_ns, index_p, seen_p));
}

int nixl_signal_wait_any(const uint64_t *const *words, size_t nwords, enum nixl_compare compare,
                         uint64_t value, int64_t timeout_ns, size_t *index_p, uint64_t *seen_p)
{
    static const uint64_t *const none[] = {NULL};
    struct nxr_signal_wait wait = {.words = words != NULL ? words : none,
                                   .n_words = words != NULL ? nwords : 0,
                                   .type = NIXL_TYPE_UINT64,
                                   .compare = compare,
                                   .value = value};

    return wait_for_any("nixl_signal_wait_any", &wait, timeout_ns, index_p, seen_p);
}

static int wait_words(const char *operation, struct nxr_signal_wait *wait, const void *value,
                      int64_t timeout_ns, size_t *index_p, void *seen_p)
{
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if ((unsigned)wait->type > NIXL_TYPE_UINT64) {
        return nxr_fail(
            NIXL_E_INVALID_ARG, operation, -1, "", 0,
            "type %u; allowed: whole numbers, NIXL_TYPE_INT32 (%d) to NIXL_TYPE_UINT64 (%d)",
            (unsigned)wait->type, NIXL_TYPE_INT32, NIXL_TYPE_UINT64);
    }
    if (value == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "the value is NULL");
    }
    wait->value = nxr_atomic_load_value(value, nxr_type_nbytes(wait->type));
    return wait_for_any(operation, wait, timeout_ns, index_p, seen_p);
}

int nixl_word_wait(const void *word, enum nixl_type type, enum nixl_compare compare,
                   const void *value, int64_t timeout_ns, void *seen_p)
{
    struct nxr_signal_wait wait = {.base = word, .n_words = 1, .type = type, .compare = compare};

    return wait_words("nixl_word_wait", &wait, value, timeout_ns, NULL, seen_p);
}

int nixl_word_wait_any(const void *base, size_t stride, size_t nwords, enum nixl_type type,
                       enum nixl_compare compare, const void *value, int64_t timeout_ns,
                       size_t *index_p, void *seen_p)
{
    struct nxr_signal_wait wait = {
        .base = base, .stride = stride, .n_words = nwords, .type = type, .compare = compare};

    return wait_words("nixl_word_wait_any", &wait, value, timeout_ns, index_p, seen_p);
}
