/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of traces, for those who write and those who read them. No state, no lock. */
#include "config.h"

#include "util/trace_page.h"

#define EVENTS_AT                                                                                  \
    ((sizeof(struct nxr_trace_head) + sizeof(struct nxr_trace_event) - 1) /                        \
     sizeof(struct nxr_trace_event) * sizeof(struct nxr_trace_event))

uint32_t nxr_trace_ring_events(uint64_t wanted)
{
    uint32_t n = NXR_TRACE_LEAST_EVENTS;

    while (n < wanted && n < NXR_TRACE_MOST_EVENTS) {
        n *= 2;
    }
    return n;
}

size_t nxr_trace_section_nbytes(uint32_t n_events)
{
    return EVENTS_AT + (size_t)NXR_TRACE_MAX_THREADS * n_events * sizeof(struct nxr_trace_event);
}

void nxr_trace_section_init(struct nxr_trace_head *head, uint32_t n_events, uint32_t kinds)
{
    head->n_events = n_events;
    head->kinds = kinds;
    head->events_at = EVENTS_AT;
    head->nbytes = nxr_trace_section_nbytes(n_events);
}

bool nxr_trace_is_section(const struct nxr_trace_head *head, size_t nbytes)
{
    return nbytes >= sizeof(*head) && head->n_events >= NXR_TRACE_LEAST_EVENTS &&
           head->n_events <= NXR_TRACE_MOST_EVENTS &&
           (head->n_events & (head->n_events - 1)) == 0 && head->events_at == EVENTS_AT &&
           nxr_trace_section_nbytes(head->n_events) <= nbytes;
}

uint64_t nxr_trace_ring_range(const struct nxr_trace_head *head, uint32_t ring, uint64_t *first_p)
{
    uint64_t n = atomic_load_explicit(&head->rings[ring].n_written, memory_order_acquire);

    *first_p = n < head->n_events ? 0 : n - head->n_events + 1;
    return n - *first_p;
}

const char *nxr_trace_kind_name(uint32_t kind)
{
    static const char *const names[NXR_TRACE_N_KINDS] = {
        [NXR_TRACE_PUT] = "put",
        [NXR_TRACE_GET] = "get",
        [NXR_TRACE_ATOMIC] = "atomic",
        [NXR_TRACE_NOTE] = "note",
        [NXR_TRACE_SIGNAL] = "signal",
        [NXR_TRACE_CHANNEL] = "channel",
        [NXR_TRACE_COLLECTIVE] = "collective",
        [NXR_TRACE_XFER] = "xfer",
        [NXR_TRACE_WAIT] = "wait",
        [NXR_TRACE_REGION] = "region",
        [NXR_TRACE_JOB] = "job",
    };

    return kind < NXR_TRACE_N_KINDS ? names[kind] : "?";
}
