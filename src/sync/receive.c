/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of calls that receive: see receive.h. Takes the inbox's lock. */
#include "config.h"

#include "sync/receive.h"
#include "sync/senders.h"
#include "core/cq.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/thread.h"

#include <stdio.h>

/* Notifications that are counted for observers; a queue may have more. */
#define MOST_COUNTED 10000

/* ---- to the caller --------------------------------------------------------------------------- */

/* Describe what is queued because no call has wanted it: how many, and the oldest. */
static void tell_unmatched(const struct nixl_context *context, char *text, size_t nbytes)
{
    const struct nxr_note *oldest;
    struct nxr_list *link, *after;
    size_t n = 0;

    text[0] = '\0';
    nxr_inbox_lock();
    nxr_list_for_each (link, after, &context->notes) {
        n++;
    }
    if (n > 0) {
        oldest = nxr_list_entry(context->notes.next, struct nxr_note, link);
        snprintf(text, nbytes, "; %zu unmatched %s queued: %s%s, tag %llu, %u bytes, for %s", n,
                 n == 1 ? "is" : "are", n == 1 ? "" : "the oldest of ", nxr_rank_name(oldest->rank),
                 (unsigned long long)oldest->tag, oldest->nbytes,
                 nxr_duration(nxr_coarse_now_ns() - oldest->since_ns).text);
    }
    nxr_inbox_unlock();
}

/* "no notification from rank 0 with tag 42 within 2 s; 1 unmatched is queued: ..." */
static int fail_timeout(const struct receive *receive, int64_t timeout_ns)
{
    const char *from = receive->from != NULL ? nxr_rank_name(receive->rank) : "any rank";
    char tag[64] = "any tag", unmatched[200];

    if (receive->mask == UINT64_MAX) {
        snprintf(tag, sizeof(tag), "tag %llu", (unsigned long long)receive->tag);
    } else if (receive->mask != 0) {
        snprintf(tag, sizeof(tag), "tag %#llx (mask %#llx)", (unsigned long long)receive->tag,
                 (unsigned long long)receive->mask);
    }
    tell_unmatched(receive->context, unmatched, sizeof(unmatched));
    return nxr_fail(NIXL_E_TIMEOUT, receive->operation, receive->rank, "", 0,
                    "no notification from %s with %s within %s%s", from, tag,
                    nxr_duration(timeout_ns).text, unmatched);
}

int nxr_receive_fail(const struct receive *receive, int status, int64_t timeout_ns)
{
    switch (status) {
    case NIXL_E_STALE:
        return nxr_fail(status, receive->operation, receive->note->rank, "", 0,
                        "received from %s with tag %llu, but a put that it made before did not "
                        "arrive: its region had been closed, or it failed or was canceled",
                        nxr_rank_name(receive->note->rank), (unsigned long long)receive->note->tag);
    case NIXL_E_PEER_LOST:
        if (receive->lost_rank < 0) {
            return nxr_fail(
                status, receive->operation, -1, "", 0, "%s: nobody is left who could send",
                receive->lost_leaves ? NXR_SENDERS_LEAVE : "all other ranks have left or died");
        }
        return receive->lost_leaves
                   ? nxr_leaving_fail(receive->operation, receive->lost_rank)
                   : nxr_peer_fail_lost(receive->operation, receive->lost_rank, "");
    case NIXL_E_TRUNCATED:
        return nxr_fail(status, receive->operation, receive->rank, "", 0,
                        "the payload is larger than the %zu bytes of the note", receive->room);
    case NIXL_E_LIMIT:
        return nxr_fail(status, receive->operation, receive->rank, "", 0,
                        "unmatched notifications fill NIXLRUN_NOTE_QUEUE");
    default:
        return fail_timeout(receive, timeout_ns);
    }
}

/* ---- to observers ---------------------------------------------------------------------------- */

void nxr_receive_describe(const void *about, struct nxr_wait_record *record)
{
    const struct receive *receive = about;

    nxr_describe(record, NXR_WAIT_NOTE, receive->operation,
                 receive->from != NULL ? receive->rank : -1);
    record->values[0] = receive->tag;
    record->values[1] = receive->mask;
}

static void list_note(void *arg, const struct nxr_note *note)
{
    struct nxr_wait_notes *notes = arg;

    if (notes->n_listed < NXR_OBSERVE_N_NOTES) {
        notes->listed[notes->n_listed].rank = note->rank;
        notes->listed[notes->n_listed].nbytes = note->nbytes;
        notes->listed[notes->n_listed].tag = note->tag;
        notes->listed[notes->n_listed].since_ns = note->since_ns;
        notes->n_listed++;
    }
    notes->n++;
}

/* At NIXL_THREAD_SINGLE there is no lock, and the only thread that receives is this one. */
void nxr_receive_observe(struct nxr_observe_waits *waits)
{
    struct nxr_wait_notes *notes = &waits->notes;
    const struct nixl_context *context = &nxr_context_default;

    if (!nxr_job.is_multithreaded && nxr_thread_is_own()) {
        return;
    }
    nxr_inbox_lock();
    nxr_observe_write_begin(&notes->counter);
    notes->n = notes->n_listed = 0;
    for (; context != NULL; context = nxr_context_next(context)) {
        const struct nxr_list *link = context->notes.next;

        for (; link != &context->notes && notes->n < MOST_COUNTED; link = link->next) {
            list_note(notes, nxr_list_entry(link, struct nxr_note, link));
        }
    }
    /* those of senders that no call has looked at since */
    nxr_inbox_walk_rings(NXR_RING_SLOTS, list_note, notes);
    nxr_observe_write_end(&notes->counter);
    nxr_inbox_unlock();
}

void nxr_sync_trace(const struct nxr_peer *peer, const struct nxr_traced *note)
{
    struct nxr_traced traced = *note;

    traced.kind = NXR_TRACE_NOTE;
    traced.name = note->form == NXR_TRACE_SENT ? "note sent" : "note received";
    traced.end = note->begin;
    traced.flow = nxr_is_own_rank(peer->rank) ? note->flow : 0;
    traced.object = peer->identity.incarnation;
    traced.peer = peer->rank;
    nxr_trace_record(&traced);
}
