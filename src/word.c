/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals and atomics: the public calls. The transport changes the word where it can reach it; else
 * the owner does, asked by a message (host/word_ask.c). No lock of its own.
 */
#include "config.h"

#include "host/word_ask.h"
#include "region.h"
#include "transfer.h"
#include "util/env.h"
#include "util/status.h"
#include "wait.h"

#include <string.h>

static int check_word(const char *operation, int rank, const struct nxr_atomic *atomic)
{
    if (!nxr_atomic_is_valid(atomic)) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, rank, "", 0,
                        "operation %u on type %u does not exist", atomic->op, atomic->type);
    }
    if (atomic->offset % nxr_type_nbytes(atomic->type) != 0) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, rank, "", 0,
                        "offset %llu is not a multiple of the word's %zu bytes",
                        (unsigned long long)atomic->offset, nxr_type_nbytes(atomic->type));
    }
    return NIXL_OK;
}

/* Has the peer puts under way that the word must not overtake? */
static bool must_wait(int rank)
{
    const struct nxr_peer *peer = nxr_peer_find(rank);

    return peer != NULL && atomic_load_explicit(&peer->n_pending, memory_order_acquire) != 0;
}

/* Everything but the straight way: first use, bad arguments, earlier puts, memory out of reach. */
static int change_slow(const char *operation, int rank, struct nixl_region *region,
                       const struct nxr_atomic *atomic, bool is_signal, uint64_t *fetched_p)
{
    struct nxr_part *part;
    int status = nxr_transfer_find_part(operation, rank, region, atomic->offset,
                                        nxr_type_nbytes(atomic->type), &part);

    if (status == NIXL_OK) {
        status = check_word(operation, rank, atomic);
    }
    if (status == NIXL_OK && must_wait(rank)) {
        status = nixl_fence(rank);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if ((uintptr_t)(part->key.addr + atomic->offset) % nxr_type_nbytes(atomic->type) != 0) {
        return nxr_fail(
            NIXL_ERR_INVALID_ARG, operation, rank, "", 0,
            "the word at offset %llu of region '%s' is not aligned in its owner's memory",
            (unsigned long long)atomic->offset, region->name);
    }
    status = is_signal ? part->transport->signal(part, atomic)
                       : part->transport->atomic(part, atomic, fetched_p);
    if (status == NIXL_ERR_AGAIN) {
        status = nxr_word_ask(part, atomic, is_signal, fetched_p);
    }
    return status == NIXL_OK ? status : nxr_transfer_fail(operation, status, region, part);
}

static inline int change(const char *operation, int rank, struct nixl_region *region,
                         const struct nxr_atomic *atomic, bool is_signal, uint64_t *fetched_p)
{
    struct nxr_part *part = nxr_region_part(region, rank);
    size_t nbytes = nxr_type_nbytes(atomic->type);

    if (__builtin_expect(
            part != NULL && part->method == NXR_METHOD_MEMCPY && !part->key.is_registered &&
                nxr_part_has_range(part, atomic->offset, nbytes) && atomic->offset % nbytes == 0 &&
                nxr_atomic_is_valid(atomic) && !must_wait(rank),
            1)) {
        int status = is_signal ? part->transport->signal(part, atomic)
                               : part->transport->atomic(part, atomic, fetched_p);

        if (__builtin_expect(status == NIXL_OK, 1)) {
            return status;
        }
    }
    return change_slow(operation, rank, region, atomic, is_signal, fetched_p);
}

static int fetch(const char *operation, int rank, struct nixl_region *region,
                 struct nxr_atomic *atomic, void *fetched_p)
{
    uint64_t fetched = 0;
    int status = nxr_type_nbytes(atomic->type) != 0
                     ? change(operation, rank, region, atomic, false, &fetched)
                     : check_word(operation, rank, atomic);

    if (status == NIXL_OK && fetched_p != NULL) {
        memcpy(fetched_p, &fetched, nxr_type_nbytes(atomic->type));
    }
    return status;
}

int nixl_atomic(int rank, struct nixl_region *region, uint64_t offset, enum nixl_type type,
                enum nixl_atomic_op op, const void *operand, void *fetched_p)
{
    struct nxr_atomic atomic = {.op = (uint8_t)op, .type = (uint8_t)type, .offset = offset};

    if ((unsigned)op > NIXL_ATOMIC_FETCH || (operand == NULL && op != NIXL_ATOMIC_FETCH)) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_atomic", rank, "", 0, "%s",
                        operand == NULL ? "operand is NULL" : "the operation does not exist");
    }
    if (operand != NULL) {
        memcpy(&atomic.operand, operand, nxr_type_nbytes(type));
    }
    return fetch("nixl_atomic", rank, region, &atomic, fetched_p);
}

int nixl_atomic_compare_swap(int rank, struct nixl_region *region, uint64_t offset,
                             enum nixl_type type, const void *expected, const void *desired,
                             void *fetched_p)
{
    struct nxr_atomic atomic = {
        .op = NXR_ATOMIC_COMPARE_SWAP, .type = (uint8_t)type, .offset = offset};

    if (expected == NULL || desired == NULL) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, "nixl_atomic_compare_swap", rank, "", 0, "%s is NULL",
                        expected == NULL ? "expected" : "desired");
    }
    memcpy(&atomic.compare, expected, nxr_type_nbytes(type));
    memcpy(&atomic.operand, desired, nxr_type_nbytes(type));
    return fetch("nixl_atomic_compare_swap", rank, region, &atomic, fetched_p);
}

/* ---- signals ------------------------------------------------------------------------------------------- */

static inline int raise_signal(const char *operation, int rank, struct nixl_region *region,
                               uint64_t offset, enum nixl_atomic_op op, uint64_t value)
{
    struct nxr_atomic atomic = {
        .op = (uint8_t)op, .type = NIXL_UINT64, .offset = offset, .operand = value};
    uint64_t before;

    return change(operation, rank, region, &atomic, true, &before);
}

int nixl_signal_set(int rank, struct nixl_region *region, uint64_t offset, uint64_t value)
{
    return raise_signal("nixl_signal_set", rank, region, offset, NIXL_ATOMIC_SET, value);
}

int nixl_signal_add(int rank, struct nixl_region *region, uint64_t offset, uint64_t value)
{
    return raise_signal("nixl_signal_add", rank, region, offset, NIXL_ATOMIC_ADD, value);
}

int nixl_put_signal(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                    size_t nbytes, struct nixl_region *signal_region, uint64_t signal_offset,
                    uint64_t value)
{
    int status = nixl_put(rank, region, offset, src, nbytes);

    return status == NIXL_OK ? raise_signal("nixl_put_signal", rank, signal_region, signal_offset,
                                            NIXL_ATOMIC_ADD, value)
                             : status;
}

struct signal_wait {
    const uint64_t *const *words;
    size_t n_words;
    enum nixl_compare compare;
    uint64_t value;
    size_t index;
    uint64_t seen;
};

static inline bool is_true(uint64_t seen, enum nixl_compare compare, uint64_t value)
{
    switch (compare) {
    case NIXL_EQ:
        return seen == value;
    case NIXL_NE:
        return seen != value;
    case NIXL_LT:
        return seen < value;
    case NIXL_LE:
        return seen <= value;
    case NIXL_GT:
        return seen > value;
    default:
        return seen >= value;
    }
}

/* Acquire: pairs with the signal's atomic, behind which the data was put. */
static bool is_raised(void *arg)
{
    struct signal_wait *wait = arg;

    for (size_t i = 0; i < wait->n_words; i++) {
        uint64_t seen =
            atomic_load_explicit((const _Atomic uint64_t *)wait->words[i], memory_order_acquire);

        if (is_true(seen, wait->compare, wait->value)) {
            wait->index = i;
            wait->seen = seen;
            return true;
        }
    }
    return false;
}

static int wait_signals(const char *operation, struct signal_wait *wait, int64_t timeout_ns)
{
    int status = nxr_check_ready(operation);
    bool is_bad = wait->words == NULL || wait->n_words == 0;

    if (status != NIXL_OK) {
        return status;
    }
    for (size_t i = 0; !is_bad && i < wait->n_words; i++) {
        is_bad = wait->words[i] == NULL || (uintptr_t)wait->words[i] % sizeof(uint64_t) != 0;
    }
    if (is_bad || timeout_ns < 0 || (unsigned)wait->compare > NIXL_GE) {
        return nxr_fail(NIXL_ERR_INVALID_ARG, operation, -1, "", 0, "%s",
                        is_bad ? "a word is NULL or not aligned to 8 bytes, or there is none"
                        : timeout_ns < 0 ? "the timeout is negative"
                                         : "the comparison does not exist");
    }
    status = nxr_wait(is_raised, wait, timeout_ns);
    return status != NIXL_ERR_TIMEOUT
               ? status
               : nxr_fail(status, operation, -1, "", 0, "no signal compared true in time");
}

int nixl_signal_wait(const uint64_t *word, enum nixl_compare compare, uint64_t value,
                     int64_t timeout_ns, uint64_t *seen_p)
{
    struct signal_wait wait = {&word, 1, compare, value, 0, 0};
    int status = wait_signals("nixl_signal_wait", &wait, timeout_ns);

    if (status == NIXL_OK && seen_p != NULL) {
        *seen_p = wait.seen;
    }
    return status;
}

int nixl_signal_wait_any(const uint64_t *const *words, size_t nwords, enum nixl_compare compare,
                         uint64_t value, int64_t timeout_ns, size_t *index_p, uint64_t *seen_p)
{
    struct signal_wait wait = {words, nwords, compare, value, 0, 0};
    int status = wait_signals("nixl_signal_wait_any", &wait, timeout_ns);

    if (status == NIXL_OK && index_p != NULL) {
        *index_p = wait.index;
    }
    if (status == NIXL_OK && seen_p != NULL) {
        *seen_p = wait.seen;
    }
    return status;
}
