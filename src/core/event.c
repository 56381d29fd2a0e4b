/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of events, the list of deaths, and the event fd. Once armed, the fd becomes readable
 * when something arrives, and stays readable until it is armed again. Lock: events_lock.
 */
#include "config.h"

#include "core/subsystem.h"
#include "core/event.h"
#include "core/job.h"
#include "core/service.h"
#include "core/request.h"
#include "util/log.h"
#include "util/status.h"
#include "util/struct.h"
#include "core/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct queued_event {
    struct nxr_list link;
    enum nixl_event_type type;
    int rank;
    char name[];
};

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list events = {&events, &events}; /* events_lock */
static _Atomic int n_events;
static int *deaths; /* ranks in the order in which they died or left, room for all; events_lock */
static _Atomic int n_deaths;

static void append_death(int rank)
{
    int n = atomic_load(&n_deaths);

    if (deaths == NULL) {
        deaths = calloc((size_t)nxr_job.size, sizeof(*deaths));
    }
    if (deaths != NULL && n < nxr_job.size) {
        deaths[n] = rank;
        atomic_store_explicit(&n_deaths, n + 1, memory_order_release);
    }
}

void nxr_event_push(enum nixl_event_type type, int rank, const char *name)
{
    struct queued_event *event = malloc(sizeof(*event) + strlen(name) + 1);
    bool is_end = type == NIXL_EVENT_PEER_LOST || type == NIXL_EVENT_PEER_LEFT;

    if (event == NULL) {
        nxr_error(CORE, "no memory for an event about %s", nxr_rank_name(rank));
    }
    pthread_mutex_lock(&events_lock);
    if (is_end) {
        append_death(rank);
    }
    if (event != NULL) {
        event->type = type;
        event->rank = rank;
        memcpy(event->name, name, strlen(name) + 1);
        nxr_list_append(&events, &event->link);
        atomic_fetch_add_explicit(&n_events, 1, memory_order_release);
    }
    pthread_mutex_unlock(&events_lock);
    nxr_wake_self();
}

int nxr_event_n_deaths(void)
{
    return atomic_load_explicit(&n_deaths, memory_order_acquire);
}

int nxr_event_death(int n)
{
    int rank = -1;

    pthread_mutex_lock(&events_lock);
    if (n < atomic_load(&n_deaths)) {
        rank = deaths[n];
    }
    pthread_mutex_unlock(&events_lock);
    return rank;
}

static bool has_event(void *arg)
{
    (void)arg;
    return atomic_load_explicit(&n_events, memory_order_acquire) != 0;
}

static struct queued_event *take_event(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&events_lock);
    link = nxr_list_pop(&events);
    if (link != NULL) {
        atomic_fetch_sub(&n_events, 1);
    }
    pthread_mutex_unlock(&events_lock);
    return link != NULL ? nxr_list_entry(link, struct queued_event, link) : NULL;
}

int nixl_event_recv(int64_t timeout_ns, struct nixl_event *event_p)
{
    static const struct nxr_struct_type type = NXR_STRUCT_TYPE(nixl_event, NIXL_EVENT_INIT, rank);
    struct nixl_event ours = NIXL_EVENT_INIT;
    int status = nxr_check_ready("nixl_event_recv");
    struct queued_event *event;

    if (status != NIXL_OK) {
        return status;
    }
    if (timeout_ns < 0) {
        return nxr_fail_timeout("nixl_event_recv", -1, timeout_ns);
    }
    status = nxr_struct_check("nixl_event_recv", "event_p", &type, event_p);
    if (status != NIXL_OK) {
        return status;
    }
    do {
        status = nxr_wait(has_event, NULL, timeout_ns);
        if (status == NIXL_E_TIMEOUT) {
            return nxr_fail(status, "nixl_event_recv", -1, "", 0, "no event within %s",
                            nxr_duration(timeout_ns).text);
        }
        if (status != NIXL_OK) {
            return status;
        }
        event = take_event(); /* another thread may have taken it */
    } while (event == NULL);
    ours.type = event->type;
    ours.rank = event->rank;
    memcpy(ours.name, event->name, strlen(event->name) + 1);
    free(event);
    nxr_struct_write(&type, &ours, event_p);
    return NIXL_OK;
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
    bool has_news;

    if (status != NIXL_OK) {
        return status;
    }
    if (read(nxr_job.event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN) {
        return nxr_fail(NIXL_E_INTERNAL, "nixl_event_arm", -1, "", errno,
                        "cannot read the event fd: was it closed?");
    }
    nxr_subsystems_hand_over();
    atomic_fetch_or_explicit(&control->sleep_flags, NXR_SLEEP_EVENT_FD, memory_order_relaxed);
    nxr_barrier_heavy();
    has_news = nxr_subsystems_has_news(); /* this may end requests */
    if (has_news || has_event(NULL) || nxr_request_any_done()) {
        atomic_fetch_and_explicit(&control->sleep_flags, ~(uint32_t)NXR_SLEEP_EVENT_FD,
                                  memory_order_relaxed);
        return NIXL_INPROGRESS;
    }
    return NIXL_OK;
}

void nxr_event_reset(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&events_lock);
    while ((link = nxr_list_pop(&events)) != NULL) {
        free(nxr_list_entry(link, struct queued_event, link));
    }
    free(deaths);
    deaths = NULL;
    atomic_store(&n_deaths, 0);
    atomic_store(&n_events, 0);
    pthread_mutex_unlock(&events_lock);
}

const struct nxr_subsystem nxr_event_subsystem = {
    .name = "event",
    .stop = nxr_event_reset,
};
