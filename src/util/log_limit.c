/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of log lines, and which of them may be written. No state of its own. */
#include "util/log_limit.h"
#include "util/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define REFILL_NS NXR_S /* adds one line */

/* Find the kind, or replace the one that was written longest ago, or never, by a new one. */
static struct nxr_log_kind *find_kind(struct nxr_log_limit *limit, const char *format, int64_t now)
{
    struct nxr_log_kind *oldest = &limit->kinds[0];

    for (unsigned i = 0; i < NXR_LOG_KINDS; i++) {
        struct nxr_log_kind *kind = &limit->kinds[i];

        if (kind->format == format) {
            return kind;
        }
        if (kind->written_at < oldest->written_at) {
            oldest = kind;
        }
    }
    *oldest = (struct nxr_log_kind){
        .format = format, .written_at = now, .refilled_at = now, .n_left = NXR_LOG_BURST};
    return oldest;
}

static void refill(struct nxr_log_kind *kind, int64_t now)
{
    int64_t n = (now - kind->refilled_at) / REFILL_NS;

    if (n > 0) {
        kind->refilled_at += n * REFILL_NS;
        kind->n_left =
            n < NXR_LOG_BURST - kind->n_left ? kind->n_left + (unsigned)n : NXR_LOG_BURST;
    }
}

struct nxr_log_kind *nxr_log_limit_take(struct nxr_log_limit *limit, const char *format,
                                        int64_t now)
{
    struct nxr_log_kind *kind = find_kind(limit, format, now);

    refill(kind, now);
    if (kind->n_left == 0) {
        kind->n_more++;
        return NULL;
    }
    kind->n_left--;
    kind->written_at = now;
    return kind;
}

struct nxr_log_kind *nxr_log_limit_due(struct nxr_log_limit *limit, int64_t now, int64_t *due_p)
{
    *due_p = INT64_MAX;
    for (unsigned i = 0; i < NXR_LOG_KINDS; i++) {
        struct nxr_log_kind *kind = &limit->kinds[i];

        if (kind->n_more == 0) {
            continue;
        }
        if (kind->written_at + REFILL_NS <= now) {
            kind->written_at = now;
            return kind;
        }
        *due_p = kind->written_at + REFILL_NS < *due_p ? kind->written_at + REFILL_NS : *due_p;
    }
    return NULL;
}

void nxr_log_limit_tell(struct nxr_log_kind *kind, char *text, size_t text_nbytes)
{
    snprintf(text, text_nbytes, "... %" PRIu64 " more like this: %s", kind->n_more, kind->text);
    kind->n_more = 0;
}
