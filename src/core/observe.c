/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observation page of this rank. Lock: sections_lock, a leaf, while a section is appended. A
 * record of a wait belongs to the thread that has claimed it; notes and flights are written by
 * whoever gets their `is_listing`.
 */
#include "config.h"

#include "core/observe.h"
#include "core/job.h"
#include "core/stats.h"
#include "core/subsystem.h"
#include "core/trace.h"
#include "util/clock.h"
#include "util/file_limit.h"
#include "util/log.h"
#include "util/probe.h"
#include "util/status.h"
#include "util/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct nxr_observe_head *page;         /* NULL: none */
struct nxr_observe_waits *nxr_observed_waits; /* in it; NULL: none */
static int page_fd = -1;
static void *sections[NXR_OBSERVE_N_SECTIONS]; /* where they are mapped */
static pthread_mutex_t sections_lock = PTHREAD_MUTEX_INITIALIZER;
/* How long a wait sleeps at first. */
#define FIRST_SLEEP_NS (50 * NXR_MS)

static atomic_flag is_listing = ATOMIC_FLAG_INIT;

static size_t whole_pages(size_t nbytes)
{
    size_t unit = (size_t)sysconf(_SC_PAGESIZE);

    unit = unit > NXR_OBSERVE_PAGE ? unit : NXR_OBSERVE_PAGE;
    return (nbytes + unit - 1) / unit * unit;
}

/* ---- the page -------------------------------------------------------------------------------- */

static int observe_make(void)
{
    int fd = memfd_create(NXR_OBSERVE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *memory = MAP_FAILED;

    if (fd >= 0 && nxr_file_resize(fd, whole_pages(1)) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0) {
        memory = mmap(NULL, NXR_OBSERVE_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (memory == MAP_FAILED) {
        int status = nxr_status_of_errno(errno);

        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    page_fd = fd;
    page = memory;
    return NIXL_OK;
}

int nxr_observe_open(void)
{
    int status = observe_make();

    if (status != NIXL_OK) {
        nxr_warn(CORE, "others cannot see what this rank waits for: no observation page: %s",
                 nixl_strerror(status));
        return status;
    }
    page->version = NXR_OBSERVE_VERSION;
    page->pid = getpid();
    page->job = nxr_job.self.job;
    page->rank = nxr_job.rank;
    page->size = nxr_job.size;
    page->incarnation = nxr_job.self.incarnation;
    page->began_ns = nxr_now_ns();
    snprintf(page->host, sizeof(page->host), "%s", nxr_job.card.head.host);
    nxr_fence_release();
    page->magic = NXR_OBSERVE_MAGIC;
    nxr_observed_waits = nxr_observe_add_section(NXR_OBSERVE_WAITS, NXR_OBSERVE_WAITS_VERSION,
                                                 sizeof(*nxr_observed_waits));
    return NIXL_OK;
}

int nxr_observe_fd(void)
{
    return page_fd;
}

void nxr_observe_close(void)
{
    if (page == NULL) {
        return;
    }
    nxr_observe_set_life(NXR_OBSERVE_LEFT);
    for (uint32_t i = 0; i < atomic_load(&page->n_sections); i++) {
        munmap(sections[i], page->sections[i].nbytes);
    }
    munmap(page, NXR_OBSERVE_PAGE);
    close(page_fd);
    page = NULL;
    nxr_observed_waits = NULL;
    page_fd = -1;
}

void nxr_observe_set_life(enum nxr_observe_life life)
{
    if (page != NULL) {
        atomic_store_explicit(&page->life, life, memory_order_release);
    }
}

/* Append it, with sections_lock held. */
static void *add_section_locked(const struct nxr_observe_section *wanted)
{
    uint32_t n = atomic_load_explicit(&page->n_sections, memory_order_relaxed);
    struct nxr_observe_section section = *wanted;
    void *memory;

    section.offset =
        n == 0 ? whole_pages(1) : page->sections[n - 1].offset + page->sections[n - 1].nbytes;
    if (n == NXR_OBSERVE_N_SECTIONS ||
        nxr_file_resize(page_fd, section.offset + section.nbytes) != 0) {
        return NULL;
    }
    memory = mmap(NULL, section.nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd,
                  (off_t)section.offset);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    sections[n] = memory;
    page->sections[n] = section;
    atomic_store_explicit(&page->n_sections, n + 1, memory_order_release);
    return memory;
}

void *nxr_observe_add_section(enum nxr_observe_section_id id, uint32_t version, size_t nbytes)
{
    const struct nxr_observe_section wanted = {
        .id = (uint32_t)id, .version = version, .nbytes = whole_pages(nbytes)};
    void *memory = NULL;

    if (page != NULL) {
        pthread_mutex_lock(&sections_lock);
        memory = add_section_locked(&wanted);
        pthread_mutex_unlock(&sections_lock);
    }
    return memory;
}

/* ---- recording waits ------------------------------------------------------------------------- */

/* A free record, claimed; NULL: all are in use, and it was counted. */
static struct nxr_wait_record *record_claim(struct nxr_waiting *waiting)
{
    for (int i = 0; i < NXR_OBSERVE_N_WAITS; i++) {
        struct nxr_wait_record *record = &nxr_observed_waits->records[i];
        uint32_t is_used = 0;

        if (atomic_load_explicit(&record->is_used, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&record->is_used, &is_used, 1)) {
            return record;
        }
    }
    if (!waiting->is_uncounted) {
        waiting->is_uncounted = true;
        atomic_fetch_add(&nxr_observed_waits->n_unrecorded, 1);
    }
    return NULL;
}

/* Copy what is described behind the first two words, which stay. */
static void record_write(struct nxr_wait_record *record, const struct nxr_wait_record *described)
{
    const size_t skipped = offsetof(struct nxr_wait_record, kind);

    nxr_observe_write_begin(&record->counter);
    memcpy((char *)record + skipped, (const char *)described + skipped, sizeof(*record) - skipped);
    nxr_observe_write_end(&record->counter);
}

/* One thread at a time; another one lists the same. */
static void list_all(void)
{
    if (!atomic_flag_test_and_set_explicit(&is_listing, memory_order_acquire)) {
        atomic_store_explicit(&nxr_observed_waits->listed_ns, nxr_now_ns(), memory_order_relaxed);
        nxr_subsystems_observe(nxr_observed_waits);
        atomic_flag_clear_explicit(&is_listing, memory_order_release);
    }
}

int64_t nxr_waiting_sleeps(struct nxr_waiting *waiting, int64_t longest_ns)
{
    static __thread int32_t tid NXR_TLS_MODEL; /* 0: not asked for */
    struct nxr_wait_record described = {.tid = 0};
    bool is_first = !waiting->has_slept;
    int64_t age_ns;

    if (nxr_observed_waits == NULL || waiting->describe == NULL) {
        return longest_ns;
    }
    if (waiting->record == NULL) {
        waiting->record = record_claim(waiting);
    }
    if (waiting->record != NULL) {
        tid = tid != 0 ? tid : (int32_t)syscall(SYS_gettid);
        described.tid = tid;
        described.since_ns = waiting->since_ns;
        described.peer = -1;
        waiting->describe(waiting->about, &described);
        record_write(waiting->record, &described);
    }
    waiting->has_slept = true;
    if (is_first) {
        waiting->slept_ticks = nxr_ticks();
        NXR_PROBE3(wait_begin, described.call, (int)described.kind, described.peer);
    }
    age_ns = is_first ? 0 : nxr_now_ns() - waiting->since_ns;
    if (age_ns < FIRST_SLEEP_NS) {
        return longest_ns < FIRST_SLEEP_NS - age_ns ? longest_ns : FIRST_SLEEP_NS - age_ns;
    }
    list_all();
    return longest_ns;
}

/* A wait that was recorded has ended, as an event of the trace. */
static void observe_trace(const struct nxr_waiting *waiting)
{
    const struct nxr_wait_record *record = waiting->record;

    nxr_trace_record(&(const struct nxr_traced){.kind = NXR_TRACE_WAIT,
                                                .form = NXR_TRACE_ASLEEP,
                                                .name = "asleep",
                                                .begin = waiting->slept_ticks,
                                                .tag = record->kind,
                                                .peer = record->peer});
}

/* Where the waits of one thing are counted as well, of which a thread at a time is the user. */
static struct nxr_stats_histogram *observe_times_of(const struct nxr_waiting *waiting)
{
    const struct nxr_reason *reason = waiting->about;

    return waiting->describe == nxr_describe_reason ? reason->times : NULL;
}

void nxr_waiting_ends(struct nxr_waiting *waiting)
{
    static const struct nxr_wait_record none = {.peer = -1};
    const struct nxr_wait_record *record = waiting->record;
    struct nxr_stats_histogram *times = observe_times_of(waiting);
    int64_t waited_ns = nxr_now_ns() - waiting->since_ns;

    if (times != NULL) {
        nxr_stats_add_time(times, waited_ns);
    }
    nxr_stats_waited(waiting->since_ns, waited_ns, record != NULL ? record->call : NULL,
                     record != NULL ? record->peer : -1);
    if (record != NULL) {
        NXR_PROBE3(wait_end, record->call, (int)record->kind, record->peer);
        if (nxr_trace_has(NXR_TRACE_WAIT)) {
            observe_trace(waiting);
        }
        record_write(waiting->record, &none);
        atomic_store_explicit(&waiting->record->is_used, 0, memory_order_release);
        waiting->record = NULL;
    }
    if (waiting->is_uncounted) {
        waiting->is_uncounted = false;
        atomic_fetch_sub(&nxr_observed_waits->n_unrecorded, 1);
    }
}

/* For each sleep: snprintf() takes as long as the rest of the record. */
static void copy_name(char *to, size_t room, const char *name)
{
    size_t nbytes = strnlen(name, room - 1);

    memcpy(to, name, nbytes);
    to[nbytes] = '\0';
}

void nxr_describe_call(struct nxr_wait_record *record, const char *call)
{
    copy_name(record->call, sizeof(record->call), call);
}

void nxr_describe_object(struct nxr_wait_record *record, const char *name)
{
    copy_name(record->object, sizeof(record->object), name);
}

void nxr_describe(struct nxr_wait_record *record, enum nxr_wait_kind kind, const char *call,
                  int peer)
{
    record->kind = (uint32_t)kind;
    record->peer = peer;
    if (call != NULL) {
        nxr_describe_call(record, call);
    }
}

void nxr_describe_reason(const void *about, struct nxr_wait_record *record)
{
    const struct nxr_reason *reason = about;

    nxr_describe(record, reason->kind, reason->call, reason->peer);
    record->values[0] = reason->value;
    if (reason->object != NULL) {
        nxr_describe_object(record, reason->object);
    }
}

void nxr_describe_members(struct nxr_wait_record *record, const int *ranks, int n)
{
    record->n_members = n;
    for (int i = 0; i < n; i++) {
        if (ranks[i] >= 0 && ranks[i] < NXR_OBSERVE_N_MEMBERS) {
            record->members[ranks[i] / 64] |= UINT64_C(1) << (ranks[i] % 64);
        }
    }
}
