/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces of ranks on hosts with different clocks, made here as pages that nixlrun would keep: how
 * they are aligned, what is kept when rings wrap, what is read of pages that are wrong.
 */
#include "config.h"

#include "launcher/trace.h"

#include "test/unit/unit.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOUR_NS INT64_C(3600000000000)

/* A rank whose ticks are half nanoseconds, on a clock that is ahead by `ahead`. */
struct fake {
    int fd;
    struct nxr_observe_head *head;
    struct nxr_trace_head *trace;
    int64_t ahead;
};

static struct fake fakes[3];

static struct fake *make_fake(int rank, const char *host, int64_t ahead)
{
    struct fake *fake = &fakes[rank];
    size_t nbytes = nxr_trace_section_nbytes(NXR_TRACE_LEAST_EVENTS);

    fake->fd = memfd_create(NXR_OBSERVE_NAME, MFD_ALLOW_SEALING);
    cr_assert(ge(int, fake->fd, 0));
    cr_assert(eq(int, ftruncate(fake->fd, (off_t)(NXR_OBSERVE_PAGE + nbytes)), 0));
    cr_assert(eq(int, fcntl(fake->fd, F_ADD_SEALS, F_SEAL_SHRINK), 0));
    fake->head =
        mmap(NULL, NXR_OBSERVE_PAGE + nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fake->fd, 0);
    cr_assert(ne(ptr, fake->head, MAP_FAILED));
    fake->trace = (struct nxr_trace_head *)((char *)fake->head + NXR_OBSERVE_PAGE);
    fake->ahead = ahead;
    fake->head->magic = NXR_OBSERVE_MAGIC;
    fake->head->version = NXR_OBSERVE_VERSION;
    fake->head->job = 5;
    fake->head->rank = rank;
    fake->head->size = 3;
    fake->head->pid = 100 + rank;
    strcpy(fake->head->host, host);
    fake->head->sections[0] = (struct nxr_observe_section){NXR_OBSERVE_TRACE, NXR_TRACE_VERSION,
                                                           NXR_OBSERVE_PAGE, nbytes};
    fake->head->n_sections = 1;
    nxr_trace_section_init(fake->trace, NXR_TRACE_LEAST_EVENTS, 1);
    strcpy(fake->trace->names[0], "other");
    strcpy(fake->trace->names[1], "nixl_put");
    fake->trace->n_names = 2;
    fake->trace->n_rings = 1;
    fake->trace->rings[0].tid = 100 + rank;
    for (uint32_t i = 0; i < 2; i++) {
        int64_t ns = ahead + 1000000 * (int64_t)(i + 1);

        fake->trace->pairs[i] = (struct nxr_tick_pair){(uint64_t)(2 * ns), ns};
    }
    fake->trace->n_pairs = 2;
    return fake;
}

/* What the rank's clock says at a moment of the first one's. */
static uint64_t ticks_at(const struct fake *fake, int64_t ns)
{
    return (uint64_t)(2 * (ns + fake->ahead));
}

static void add(struct fake *fake, const struct nxr_trace_event *event)
{
    uint64_t n = fake->trace->rings[0].n_written++;

    nxr_trace_events(fake->trace, 0)[n % NXR_TRACE_LEAST_EVENTS] = *event;
}

/* A notification, as the first clock sees it. */
static void add_note(struct fake *from, struct fake *to, uint64_t number, int64_t sent,
                     int64_t taken)
{
    add(from, &(const struct nxr_trace_event){.begin = ticks_at(from, sent),
                                              .end = ticks_at(from, sent),
                                              .flow = number,
                                              .peer = to->head->rank,
                                              .tid = from->head->pid,
                                              .kind = NXR_TRACE_NOTE,
                                              .form = NXR_TRACE_SENT});
    add(to, &(const struct nxr_trace_event){.begin = ticks_at(to, taken),
                                            .end = ticks_at(to, taken),
                                            .flow = number,
                                            .peer = from->head->rank,
                                            .tid = to->head->pid,
                                            .kind = NXR_TRACE_NOTE,
                                            .form = NXR_TRACE_TAKEN});
}

static void meet(struct fake *fake, int64_t begin, int64_t end)
{
    fake->trace->meetings[NXR_TRACE_START] =
        (struct nxr_trace_meeting){ticks_at(fake, begin), ticks_at(fake, end)};
}

static void drop_fakes(void)
{
    for (int i = 0; i < 3; i++) {
        if (fakes[i].head != NULL) {
            munmap(fakes[i].head,
                   NXR_OBSERVE_PAGE + nxr_trace_section_nbytes(NXR_TRACE_LEAST_EVENTS));
            close(fakes[i].fd);
        }
    }
    memset(fakes, 0, sizeof(fakes));
}

TestSuite(trace, .timeout = 60, .fini = drop_fakes);

Test(trace, one_host_has_one_clock)
{
    struct trace_job job;

    make_fake(0, "a", 0);
    make_fake(1, "a", 0);
    job = trace_read();
    cr_assert(eq(sz, job.n, 2));
    cr_expect(eq(int, job.n_hosts, 1));
    cr_expect(eq(i64, job.hosts[0].offset_ns, 0));
    cr_expect(eq(i64, trace_ns(&job, &job.ranks[0], 2 * 1500000), 1500000));
    cr_expect(eq(i64, trace_ns(&job, &job.ranks[0], 2 * 9000000), 9000000), "beyond the last pair");
    cr_expect(eq(i64, trace_ns(&job, &job.ranks[0], 2), 1), "before the first one");
    trace_free(&job);
}

/* There takes 3 us, back 5 us: the middle is off by 1 us, which is within half of both. */
Test(trace, notes_align_clocks)
{
    struct fake *a = make_fake(0, "a", 0), *b = make_fake(1, "b", HOUR_NS);
    struct trace_job job;

    add_note(a, b, 1, 2000000, 2003000);
    add_note(a, b, 2, 2010000, 2900000);
    add_note(b, a, 1, 2020000, 2025000);
    job = trace_read();
    cr_assert(eq(int, job.n_hosts, 2));
    cr_expect(eq(i64, job.hosts[1].precision_ns, 4000));
    cr_expect(le(i64, llabs(job.hosts[1].offset_ns + HOUR_NS), 4000));
    cr_expect(eq(i64, llabs(job.hosts[1].offset_ns + HOUR_NS), 1000));
    trace_free(&job);
}

Test(trace, a_meeting_aligns_clocks)
{
    struct fake *a = make_fake(0, "a", 0), *b = make_fake(1, "b", -500000);
    struct trace_job job;

    meet(a, 1000000, 1500000);
    meet(b, 1400000, 1510000);
    job = trace_read();
    cr_expect(eq(i64, job.hosts[1].precision_ns, (100000 + 510000) / 2));
    cr_expect(le(i64, llabs(job.hosts[1].offset_ns - 500000), job.hosts[1].precision_ns));
    trace_free(&job);
}

/* The third host has sent and received with the second one only. */
Test(trace, clocks_align_over_a_third_host)
{
    struct fake *a = make_fake(0, "a", 0), *b = make_fake(1, "b", HOUR_NS);
    struct fake *c = make_fake(2, "c", -777);
    struct trace_job job;

    add_note(a, b, 1, 2000000, 2001000);
    add_note(b, a, 1, 2000000, 2001000);
    add_note(b, c, 1, 2000000, 2002000);
    add_note(c, b, 1, 2000000, 2002000);
    job = trace_read();
    cr_expect(eq(i64, job.hosts[1].offset_ns, -HOUR_NS));
    cr_expect(eq(i64, job.hosts[2].offset_ns, 777));
    cr_expect(eq(i64, job.hosts[2].precision_ns, 3000));
    trace_free(&job);
}

Test(trace, nothing_known_of_a_clock)
{
    struct fake *a = make_fake(0, "a", 0), *b = make_fake(1, "b", HOUR_NS);
    struct trace_job job;

    add_note(a, b, 1, 2000000, 2003000);
    job = trace_read();
    cr_expect(eq(i64, job.hosts[1].precision_ns, -1));
    trace_free(&job);
}

/* Received before it was sent, in both directions: clocks that drift. */
Test(trace, clocks_that_contradict_themselves)
{
    struct fake *a = make_fake(0, "a", 0), *b = make_fake(1, "b", 0);
    struct trace_job job;

    add_note(a, b, 1, 2000000, 1999000);
    add_note(b, a, 1, 2000000, 1999000);
    job = trace_read();
    cr_expect(eq(i64, job.hosts[1].precision_ns, 1000));
    cr_expect(eq(i64, job.hosts[1].offset_ns, 0));
    trace_free(&job);
}

Test(trace, a_ring_keeps_the_last)
{
    struct fake *a = make_fake(0, "a", 0);
    struct trace_events events;
    struct trace_job job;

    for (uint64_t i = 0; i < 100; i++) {
        add(a, &(const struct nxr_trace_event){.begin = 2000 + 2 * i,
                                               .end = 2001 + 2 * i,
                                               .peer = -1,
                                               .name = 1,
                                               .form = NXR_TRACE_CALL});
    }
    a->trace->n_without_ring = 7;
    job = trace_read();
    events = trace_events_of(&job, &job.ranks[0]);
    cr_expect(eq(sz, events.n, NXR_TRACE_LEAST_EVENTS - 1), "the oldest may be half overwritten");
    cr_expect(eq(u64, events.n_lost, 100 - (NXR_TRACE_LEAST_EVENTS - 1)));
    cr_expect(eq(u64, events.n_without, 7));
    free(events.all);
    trace_free(&job);
}

static size_t write_to_nowhere(const struct trace_job *job)
{
    struct trace_sums sums = {.n_events = 0};
    struct perfetto perfetto;
    char *text = NULL;
    size_t nbytes = 0;
    FILE *out = open_memstream(&text, &nbytes);

    cr_assert(ne(ptr, out, NULL));
    perfetto_open(&perfetto, out);
    for (size_t i = 0; i < job->n; i++) {
        trace_write_rank(&perfetto, job, &job->ranks[i], &sums);
    }
    perfetto_close(&perfetto);
    fclose(out);
    free(text);
    return nbytes;
}

Test(trace, wrong_events_are_dropped)
{
    struct fake *a = make_fake(0, "a", 0);
    struct trace_events events;
    struct trace_job job;

    memset(a->trace->names[1], 'x', NXR_TRACE_NAME_NBYTES);
    a->trace->n_names = UINT32_MAX;
    a->trace->n_rings = UINT32_MAX;
    a->trace->pairs[1].ns = 0;
    add(a, &(const struct nxr_trace_event){.begin = 9, .end = 8, .form = NXR_TRACE_CALL});
    add(a, &(const struct nxr_trace_event){.form = 99});
    add(a, &(const struct nxr_trace_event){.form = NXR_TRACE_CALL, .kind = 99});
    add(a, &(const struct nxr_trace_event){.form = NXR_TRACE_SENT, .peer = 3, .flow = 1});
    add(a, &(const struct nxr_trace_event){.form = NXR_TRACE_CALL, .peer = INT32_MAX, .name = 1});
    add(a,
        &(const struct nxr_trace_event){.form = NXR_TRACE_ASLEEP, .tag = UINT64_MAX, .name = 9999});
    job = trace_read();
    events = trace_events_of(&job, &job.ranks[0]);
    cr_expect(eq(sz, events.n, 3));
    cr_expect(eq(int, strcmp(trace_name(&job.ranks[0], 1), "other"), 0));
    cr_expect(eq(u64, trace_flow_of(&job.ranks[0], &events.all[0]), 0));
    cr_expect(gt(sz, write_to_nowhere(&job), 0));
    free(events.all);
    trace_free(&job);
}

Test(trace, a_wrong_section_is_none)
{
    struct fake *a = make_fake(0, "a", 0);
    struct trace_job job;

    a->trace->n_events = 1u << 20;
    job = trace_read();
    cr_expect(eq(sz, job.n, 0));
    trace_free(&job);
    a->trace->n_events = 65;
    job = trace_read();
    cr_expect(eq(sz, job.n, 0));
    trace_free(&job);
}

/* Both ends of an arrow have the same number, whichever process of a rank it is. */
Test(trace, arrows)
{
    struct fake *a = make_fake(0, "a", 0), *b = make_fake(1, "a", 0);
    struct trace_events sent, taken;
    struct trace_job job;

    add_note(a, b, 1, 2000000, 2003000);
    add_note(a, b, 2, 2000000, 2003000);
    job = trace_read();
    sent = trace_events_of(&job, &job.ranks[0]);
    taken = trace_events_of(&job, &job.ranks[1]);
    cr_assert(eq(sz, sent.n, 2));
    cr_assert(eq(sz, taken.n, 2));
    for (int i = 0; i < 2; i++) {
        cr_expect(ne(u64, trace_flow_of(&job.ranks[0], &sent.all[i]), 0));
        cr_expect(eq(u64, trace_flow_of(&job.ranks[0], &sent.all[i]),
                     trace_flow_of(&job.ranks[1], &taken.all[i])));
    }
    cr_expect(ne(u64, trace_flow_of(&job.ranks[0], &sent.all[0]),
                 trace_flow_of(&job.ranks[0], &sent.all[1])));
    free(sent.all);
    free(taken.all);
    trace_free(&job);
}
