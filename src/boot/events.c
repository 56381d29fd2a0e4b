/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events from the launcher's server, kept until a listener is set. They arrive on PMIx's thread.
 * Lock: early_lock guards the listener and the events kept for it.
 */
#include "config.h"

#include "boot/events.h"
#include "boot/boot.h"
#include "nixlrun.h"
#include "util/list.h"
#include "util/log.h"
#include "util/meet.h"

#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>

static pmix_nspace_t own_nspace;
static uint64_t own_job;

/* An event that waits for the listener. */
struct kept_event {
    struct nxr_list link;
    struct nxr_wireup_event event;
};

static pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;
static nxr_boot_event_fn *listener;
static struct nxr_list early = {&early, &early}; /* struct kept_event, in order */
static uint64_t known_change;

/* Caller holds early_lock. */
static void events_keep(const struct nxr_wireup_event *event)
{
    struct kept_event *kept = calloc(1, sizeof(*kept));

    if (kept == NULL) {
        nxr_error(BOOT, "no memory to keep an event about %s",
                  nxr_identity_own_name(&(const struct nxr_identity){.rank = event->rank}));
        return;
    }
    kept->event = *event;
    if (event->is_of_start) { /* a rank that has ended then may have come back already */
        nxr_list_prepend(&early, &kept->link);
    } else {
        nxr_list_append(&early, &kept->link);
    }
}

/* Caller holds early_lock. */
static bool events_is_news(const struct nxr_wireup_event *event)
{
    return event->change == 0 || event->change > known_change;
}

void nxr_boot_events_known(uint64_t change)
{
    pthread_mutex_lock(&early_lock);
    known_change = change;
    pthread_mutex_unlock(&early_lock);
}

void nxr_boot_events_tell(const struct nxr_wireup_event *event)
{
    nxr_boot_event_fn *event_fn;

    pthread_mutex_lock(&early_lock);
    event_fn = events_is_news(event) ? listener : NULL;
    if (listener == NULL) {
        events_keep(event);
    }
    pthread_mutex_unlock(&early_lock);
    if (event_fn != NULL) {
        event_fn(event);
    }
}

/* Those that arrive meanwhile are kept, too, so that all are told in order. */
void nxr_boot_listen(nxr_boot_event_fn *event_fn)
{
    struct nxr_list *link;

    do {
        struct kept_event *event;
        bool is_news;

        pthread_mutex_lock(&early_lock);
        link = nxr_list_pop(&early);
        event = link != NULL ? nxr_list_entry(link, struct kept_event, link) : NULL;
        is_news = event != NULL && events_is_news(&event->event);
        if (event == NULL) {
            listener = event_fn;
        }
        pthread_mutex_unlock(&early_lock);
        if (is_news) {
            event_fn(&event->event);
        }
        free(event);
    } while (link != NULL);
}

void nxr_boot_events_stop(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&early_lock);
    listener = NULL;
    known_change = 0;
    while ((link = nxr_list_pop(&early)) != NULL) {
        free(nxr_list_entry(link, struct kept_event, link));
    }
    pthread_mutex_unlock(&early_lock);
}

/* Take the card of a rank that has joined. False: it is damaged, or of another job. */
static bool events_take_card(struct nxr_wireup_event *event, const pmix_info_t *info)
{
    const struct nxr_identity owner = {.job = own_job, .rank = event->rank};
    struct nxr_full_card card;

    if (info == NULL || info->value.type != PMIX_BYTE_OBJECT ||
        nxr_card_parse(info->value.data.bo.bytes, info->value.data.bo.size, &owner, &card) !=
            NIXL_OK) {
        return false;
    }
    event->news = NXR_WIREUP_JOINED;
    event->card = card;
    return true;
}

static const pmix_info_t *events_find(const pmix_info_t *info, size_t n_info, const char *key)
{
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], key)) {
            return &info[i];
        }
    }
    return NULL;
}

/* About a rank of this job: its end, or that it has joined again. */
static void events_about_rank(pmix_status_t status, int rank, const pmix_info_t *info,
                              size_t n_info)
{
    const pmix_info_t *change = events_find(info, n_info, NXR_MEET_CHANGE_KEY);
    struct nxr_wireup_event event = {.news = NXR_WIREUP_ENDED, .rank = rank};

    if (change != NULL && change->value.type == PMIX_UINT64) {
        event.change = change->value.data.uint64;
    }
    if (status == NXR_MEET_JOINED &&
        !events_take_card(&event, events_find(info, n_info, NXR_MEET_KEY))) {
        nxr_warn(BOOT, "rank %d has joined again with a damaged card; it stays lost", rank);
        return;
    }
    nxr_boot_events_tell(&event);
}

/* Is the source a rank of this job, not the server? */
static bool events_is_of_rank(const pmix_proc_t *source)
{
    return source != NULL && PMIX_CHECK_NSPACE(source->nspace, own_nspace) &&
           PMIX_RANK_IS_VALID(source->rank);
}

/* A death, a return, or the loss of the server. Runs on PMIx's thread. */
static void handle_event(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                         pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                         pmix_event_notification_cbfunc_fn_t done_fn, void *done_arg)
{
    const pmix_info_t *about = events_find(info, n_info, PMIX_EVENT_AFFECTED_PROC);
    const pmix_proc_t *affected =
        about != NULL && about->value.type == PMIX_PROC ? about->value.data.proc : source;

    (void)handler;
    (void)results;
    (void)n_results;
    if (status == PMIX_ERR_LOST_CONNECTION && events_is_of_rank(source)) {
        /* the server had lost a rank, and tells those who come later, too */
    } else if (status == PMIX_ERR_LOST_CONNECTION) {
        nxr_boot_events_tell(&(struct nxr_wireup_event){.news = NXR_WIREUP_GONE, .rank = -1});
    } else if (affected != NULL && PMIX_CHECK_NSPACE(affected->nspace, own_nspace) &&
               PMIX_RANK_IS_VALID(affected->rank)) {
        events_about_rank(status, (int)affected->rank, info, n_info);
    }
    if (done_fn != NULL) {
        done_fn(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
    }
}

/*
 * List the codes: some servers send nothing to a default handler. Failures are ignored, since not
 * every engine supports events.
 */
void nxr_boot_events_watch(const char *nspace, uint64_t job, bool is_nixlrun)
{
    static pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED,
                                    PMIX_ERR_EXIT_NONZERO_TERM,   PMIX_ERR_PROC_TERM_WO_SYNC,
                                    PMIX_ERR_LOST_CONNECTION,     NXR_MEET_JOINED};
    size_t n_codes = sizeof(codes) / sizeof(codes[0]);

    PMIX_LOAD_NSPACE(own_nspace, nspace);
    own_job = job;
    PMIx_Register_event_handler(codes, is_nixlrun ? n_codes : n_codes - 1, NULL, 0, handle_event,
                                NULL, NULL);
}
