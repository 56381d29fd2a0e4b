/* SPDX-License-Identifier: Apache-2.0 */
/* What a wait for signals says: to observers while it lasts, and when it fails. No state. */
#include "config.h"

#include "sync/senders.h"
#include "sync/signal_wait.h"
#include "core/event.h"
#include "region/region.h"
#include "transports/transport.h"
#include "util/clock.h"
#include "util/status.h"

#include <stdio.h>

#define NUMBER_NBYTES 24

static const char *number_text(uint64_t bits, enum nixl_type type, char text[NUMBER_NBYTES])
{
    bool is_signed = type == NIXL_TYPE_INT32 || type == NIXL_TYPE_INT64;
    int64_t number = type == NIXL_TYPE_INT32 ? (int32_t)(uint32_t)bits : (int64_t)bits;

    if (is_signed) {
        snprintf(text, NUMBER_NBYTES, "%lld", (long long)number);
    } else {
        snprintf(text, NUMBER_NBYTES, "%llu", (unsigned long long)bits);
    }
    return text;
}

/* "signal is 0; waiting for >= 1". A word in device memory is not read again for that. */
static void signal_wait_describe(const struct nxr_signal_wait *wait, char *text, size_t nbytes)
{
    static const char *const compare_texts[] = {"==", "!=", "<", "<=", ">", ">="};
    const void *first = nxr_signal_word(wait, 0);
    const char *compare = compare_texts[wait->compare];
    char wanted[NUMBER_NBYTES], seen[NUMBER_NBYTES] = "in device memory";

    number_text(wait->value, wait->type, wanted);
    if (nxr_range_find(first) == NULL) {
        number_text(nxr_signal_load(first, wait->type), wait->type, seen);
    }
    if (wait->n_words == 1) {
        snprintf(text, nbytes, "signal is %s; waiting for %s %s", seen, compare, wanted);
    } else {
        snprintf(text, nbytes, "none of %zu signals is %s %s; the first is %s", wait->n_words,
                 compare, wanted, seen);
    }
}

int nxr_signal_fail_lost(const char *operation, const struct nxr_signal_wait *wait, int rank)
{
    bool has_left = nxr_is_rank(rank) && nxr_peer_has_left(rank);
    char text[128];

    signal_wait_describe(wait, text, sizeof(text));
    return nxr_fail(NIXL_E_PEER_LOST, operation, rank, "", 0, "%s has %s: %s", nxr_rank_name(rank),
                    has_left ? "left the job" : "died", text);
}

int nxr_signal_fail_in_vain(const char *operation, const struct nxr_signal_wait *wait)
{
    char text[128];

    if (wait->awaited != NULL) {
        return nxr_leaving_fail(operation, wait->awaited->rank);
    }
    signal_wait_describe(wait, text, sizeof(text));
    return nxr_fail(NIXL_E_PEER_LOST, operation, -1, "", 0,
                    NXR_SENDERS_LEAVE ": nobody is left who could raise a signal: %s", text);
}

int nxr_signal_fail_wait(const char *operation, int status, const struct nxr_signal_wait *wait,
                         int64_t timeout_ns)
{
    char text[128];

    if (status != NIXL_E_TIMEOUT) {
        return nxr_fail(status, operation, -1, "", 0, "a word in device memory cannot be read: %s",
                        nixl_strerror(status));
    }
    signal_wait_describe(wait, text, sizeof(text));
    return nxr_fail(status, operation, -1, "", 0, "after %s: %s", nxr_duration(timeout_ns).text,
                    text);
}

void nxr_signal_describe(const void *about, struct nxr_wait_record *record)
{
    const struct nxr_signal_wait *wait = about;
    const void *word = nxr_signal_word(wait, 0);
    struct nxr_region_location place;
    bool is_signed = wait->type == NIXL_TYPE_INT32 || wait->type == NIXL_TYPE_INT64;

    nxr_describe(record, NXR_WAIT_SIGNAL, wait->operation,
                 wait->awaited != NULL ? wait->awaited->rank : -1);
    record->values[NXR_WAIT_SIGNAL_SEEN] =
        nxr_range_is_device(word) ? wait->seen : nxr_signal_load(word, wait->type);
    record->values[NXR_WAIT_SIGNAL_WANTED] = wait->value;
    record->values[NXR_WAIT_SIGNAL_PLACE] = (uintptr_t)word;
    record->values[NXR_WAIT_SIGNAL_COMPARE] = (uint64_t)wait->compare | (is_signed ? 256 : 0);
    record->values[NXR_WAIT_SIGNAL_N_WORDS] = wait->n_words;
    if (nxr_region_find_own(word, nxr_type_nbytes(wait->type), &place)) {
        record->values[NXR_WAIT_SIGNAL_PLACE] = place.offset;
        nxr_describe_object(record, place.name);
    }
}
