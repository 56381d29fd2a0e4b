/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events from the launcher's server, kept until a listener is set. They arrive on PMIx's thread.
 * Lock: early_lock guards the listener and the events kept for it.
 */
#include "config.h"

#include "boot/events.h"
#include "boot/boot.h"
#include "util/log.h"

#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>

static pmix_nspace_t own_nspace;

static pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;
static nxr_boot_event_fn *listener;
static int *early; /* ranks, in the order of their events */
static size_t n_early;

/* Caller holds early_lock. */
static void events_keep(int rank)
{
    int *more = realloc(early, (n_early + 1) * sizeof(*early));

    if (more == NULL) {
        nxr_error(BOOT, "no memory to keep an event about %s",
                  nxr_identity_own_name(&(const struct nxr_identity){.rank = rank}));
        return;
    }
    early = more;
    early[n_early++] = rank;
}

void nxr_boot_events_tell(int rank)
{
    nxr_boot_event_fn *event_fn;

    pthread_mutex_lock(&early_lock);
    event_fn = listener;
    if (event_fn == NULL) {
        events_keep(rank);
    }
    pthread_mutex_unlock(&early_lock);
    if (event_fn != NULL) {
        event_fn(rank);
    }
}

void nxr_boot_listen(nxr_boot_event_fn *event_fn)
{
    size_t n_kept;
    int *kept;

    pthread_mutex_lock(&early_lock);
    listener = event_fn;
    kept = early;
    n_kept = n_early;
    early = NULL;
    n_early = 0;
    pthread_mutex_unlock(&early_lock);
    for (size_t i = 0; i < n_kept; i++) {
        event_fn(kept[i]);
    }
    free(kept);
}

void nxr_boot_events_stop(void)
{
    pthread_mutex_lock(&early_lock);
    listener = NULL;
    free(early);
    early = NULL;
    n_early = 0;
    pthread_mutex_unlock(&early_lock);
}

/* A death, or the loss of the server. Runs on PMIx's thread. */
static void handle_event(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                         pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                         pmix_event_notification_cbfunc_fn_t done_fn, void *done_arg)
{
    const pmix_proc_t *affected = source;

    (void)handler;
    (void)results;
    (void)n_results;
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC) {
            affected = info[i].value.data.proc;
        }
    }
    if (status == PMIX_ERR_LOST_CONNECTION) {
        nxr_boot_events_tell(-1);
    } else if (affected != NULL && PMIX_CHECK_NSPACE(affected->nspace, own_nspace) &&
               PMIX_RANK_IS_VALID(affected->rank)) {
        nxr_boot_events_tell((int)affected->rank);
    }
    if (done_fn != NULL) {
        done_fn(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
    }
}

/*
 * List the codes: some servers send nothing to a default handler. Failures are ignored, since not
 * every engine supports events.
 */
void nxr_boot_events_watch(const char *nspace)
{
    static pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED,
                                    PMIX_ERR_EXIT_NONZERO_TERM, PMIX_ERR_PROC_TERM_WO_SYNC,
                                    PMIX_ERR_LOST_CONNECTION};

    PMIX_LOAD_NSPACE(own_nspace, nspace);
    PMIx_Register_event_handler(codes, sizeof(codes) / sizeof(codes[0]), NULL, 0, handle_event,
                                NULL, NULL);
}
