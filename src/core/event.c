/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of events, the list of deaths, and the event fd. Once armed, the fd becomes readable
 * when something arrives, and stays readable until it is armed again. Lock: events_lock.
 */
#include "config.h"

#include "core/subsystem.h"
#include "core/context.h"
#include "core/event.h"
#include "core/job.h"
#include "core/service.h"
#include "core/trace.h"
#include "core/request.h"
#include "util/env.h"
#include "util/log.h"
#include "util/probe.h"
#include "util/status.h"
#include "core/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLED (-2) /* in the list of deaths: a peer that was detached or readmitted since */

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;

/* A peer that died or left. */
struct death {
    int rank;
    bool is_quiet; /* waits that any loss ends are not ended by it */
};
static struct death *deaths; /* in their order; events_lock */
static int deaths_room;      /* of `deaths` */
static _Atomic int n_deaths;
static _Atomic int n_rank_deaths; /* of these, ranks of this job */

static void append_death(int rank, bool is_quiet)
{
    int n = atomic_load(&n_deaths);

    if (n == deaths_room) {
        int room = deaths_room != 0 ? 2 * deaths_room : nxr_job.size;
        struct death *more = realloc(deaths, (size_t)room * sizeof(*more));

        if (more == NULL) {
            nxr_error(CORE, "no memory to note the end of %s", nxr_rank_name(rank));
            return;
        }
        deaths = more;
        deaths_room = room;
    }
    deaths[n] = (struct death){rank, is_quiet};
    atomic_fetch_add(&n_rank_deaths, nxr_is_own_rank(rank));
    atomic_store_explicit(&n_deaths, n + 1, memory_order_release);
}

/* Caller holds events_lock. */
static void append_event(struct nixl_context *context, enum nixl_event_type type, int rank,
                         uint32_t incarnation, const char *name)
{
    struct nxr_event *event = malloc(sizeof(*event) + strlen(name) + 1);

    if (event == NULL) {
        nxr_error(CORE, "no memory for an event about %s", nxr_rank_name(rank));
        return;
    }
    event->type = type;
    event->rank = rank;
    event->incarnation = incarnation;
    memcpy(event->name, name, strlen(name) + 1);
    nxr_list_append(&context->events, &event->link);
    atomic_fetch_add_explicit(&context->n_events, 1, memory_order_release);
}

/* Caller holds events_lock. */
static void append_to_all(enum nixl_event_type type, int rank, uint32_t incarnation,
                          const char *name)
{
    for (struct nixl_context *each = &nxr_context_default; each != NULL;
         each = nxr_context_next(each)) {
        if (atomic_load(&each->is_open)) {
            append_event(each, type, rank, incarnation, name);
        }
    }
}

/* Tell those who trace or probe. */
static void event_trace(enum nixl_event_type type, int rank)
{
    static const char *const names[] = {
        [NIXL_EVENT_PEER_LOST] = "rank died",         [NIXL_EVENT_REGION_CLOSED] = "region closed",
        [NIXL_EVENT_LAUNCHER_LOST] = "launcher died", [NIXL_EVENT_PEER_LEFT] = "rank left",
        [NIXL_EVENT_PEER_JOINED] = "rank joined",
    };

    if (type == NIXL_EVENT_PEER_LOST) {
        NXR_PROBE1(lost, rank);
    }
    if ((size_t)type < sizeof(names) / sizeof(names[0]) && names[type] != NULL) {
        nxr_trace_instant(NXR_TRACE_JOB, names[type], rank);
    }
}

void nxr_event_push(struct nixl_context *context, enum nixl_event_type type, int rank,
                    const char *name)
{
    uint32_t incarnation = rank >= 0 ? nxr_identity_at(rank).incarnation : 0;

    event_trace(type, rank);
    pthread_mutex_lock(&events_lock);
    if (type == NIXL_EVENT_PEER_LOST || type == NIXL_EVENT_PEER_LEFT) {
        append_death(rank, type == NIXL_EVENT_PEER_LEFT && nxr_env.elastic);
    }
    if (context != NULL) {
        append_event(context, type, rank, incarnation, name);
    } else {
        append_to_all(type, rank, incarnation, name);
    }
    pthread_mutex_unlock(&events_lock);
    nxr_wake_self();
}

void nxr_event_push_of(enum nixl_event_type type, const struct nxr_identity *identity)
{
    event_trace(type, identity->rank);
    pthread_mutex_lock(&events_lock);
    append_to_all(type, identity->rank, identity->incarnation, "");
    pthread_mutex_unlock(&events_lock);
    nxr_wake_self();
}

int nxr_event_n_deaths(void)
{
    return atomic_load_explicit(&n_deaths, memory_order_acquire);
}

int nxr_event_n_rank_deaths(void)
{
    return atomic_load_explicit(&n_rank_deaths, memory_order_acquire);
}

int nxr_event_death(int n)
{
    int rank = -1;

    pthread_mutex_lock(&events_lock);
    if (n < atomic_load(&n_deaths)) {
        rank = deaths[n].rank;
    }
    pthread_mutex_unlock(&events_lock);
    return rank;
}

void nxr_event_settle_death(int rank)
{
    pthread_mutex_lock(&events_lock);
    for (int i = atomic_load(&n_deaths); i-- > 0;) {
        deaths[i].rank = deaths[i].rank == rank ? SETTLED : deaths[i].rank;
    }
    pthread_mutex_unlock(&events_lock);
}

int nxr_event_next_death(int n)
{
    pthread_mutex_lock(&events_lock);
    while (n < atomic_load(&n_deaths) && (deaths[n].rank == SETTLED || deaths[n].is_quiet)) {
        n++;
    }
    pthread_mutex_unlock(&events_lock);
    return n;
}

bool nxr_event_is_queued(void *arg)
{
    const struct nixl_context *context = arg;

    return atomic_load_explicit(&context->n_events, memory_order_acquire) != 0;
}

struct nxr_event *nxr_event_take(struct nixl_context *context)
{
    struct nxr_list *link;

    if (!nxr_event_is_queued(context)) {
        return NULL;
    }
    pthread_mutex_lock(&events_lock);
    link = nxr_list_pop(&context->events);
    if (link != NULL) {
        atomic_fetch_sub(&context->n_events, 1);
    }
    pthread_mutex_unlock(&events_lock);
    return link != NULL ? nxr_list_entry(link, struct nxr_event, link) : NULL;
}

void nxr_event_drop(struct nixl_context *context)
{
    struct nxr_event *event;

    while ((event = nxr_event_take(context)) != NULL) {
        free(event);
    }
}

/* ---- the event fd ---------------------------------------------------------------------------- */

void nxr_event_signal_fd(void)
{
    nxr_service_signal_event_fd(NULL);
}

int nixl_event_fd(void)
{
    int status = nxr_check_ready("nixl_event_fd");

    return status == NIXL_OK ? nxr_job.event_fd : status;
}

int nixl_event_arm(void)
{
    int status = nxr_check_ready("nixl_event_arm");
    struct nxr_control *control = nxr_job.control;
    uint64_t count;
    ssize_t n_read;
    bool has_news;

    if (status != NIXL_OK) {
        return status;
    }
    n_read = read(nxr_job.event_fd, &count, sizeof(count));
    if (n_read > 0) {
        nxr_subsystems_event_fd_read();
    } else if (n_read < 0 && errno != EAGAIN) {
        return nxr_fail(NIXL_E_INTERNAL, "nixl_event_arm", -1, "", errno,
                        "cannot read the event fd: was it closed?");
    }
    nxr_subsystems_hand_over();
    atomic_fetch_or_explicit(&control->sleep_flags, NXR_SLEEP_EVENT_FD, memory_order_relaxed);
    nxr_barrier_heavy();
    has_news = nxr_subsystems_has_news(); /* this may end requests */
    if (has_news || nxr_event_is_queued(&nxr_context_default) || nxr_request_any_done()) {
        atomic_fetch_and_explicit(&control->sleep_flags, ~(uint32_t)NXR_SLEEP_EVENT_FD,
                                  memory_order_relaxed);
        nxr_subsystems_event_fd_read();
        return NIXL_INPROGRESS;
    }
    return NIXL_OK;
}

void nxr_event_reset(void)
{
    for (struct nixl_context *context = &nxr_context_default; context != NULL;
         context = nxr_context_next(context)) {
        nxr_event_drop(context);
    }
    pthread_mutex_lock(&events_lock);
    free(deaths);
    deaths = NULL;
    deaths_room = 0;
    atomic_store(&n_deaths, 0);
    atomic_store(&n_rank_deaths, 0);
    pthread_mutex_unlock(&events_lock);
}

const struct nxr_subsystem nxr_event_subsystem = {
    .name = "event",
    .context_closed = nxr_event_drop,
    .stop = nxr_event_reset,
};
