/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job control and log: a client signals processes, or writes lines through us.
 */
#include "config.h"

#include "launcher/guardian.h"
#include "launcher/server_upcalls.h"
#include "launcher/sink.h"
#include "util/rank_message.h"

#include <signal.h>
#include <string.h>

/* ---- job control ----------------------------------------------------------------------------- */

/* Does the directive come from nixl_job_end() of a rank? */
static bool ends_job(const pmix_info_t *directive)
{
    if (!PMIX_CHECK_KEY(directive, NXR_JOB_END_KEY) || directive->value.type != PMIX_INT) {
        return false;
    }
    finish_by_rank(directive->value.data.integer & 0xff);
    return true;
}

/* The signal that a directive requests; 0: none. */
static int signal_of(const pmix_info_t *directive)
{
    int signal = 0;
    pmix_status_t status = PMIX_SUCCESS;

    if (PMIX_CHECK_KEY(directive, PMIX_JOB_CTRL_SIGNAL)) {
        PMIX_VALUE_GET_NUMBER(status, &directive->value, signal, int);
        return status == PMIX_SUCCESS && signal > 0 && signal < NSIG ? signal : 0;
    }
    if (!PMIX_INFO_TRUE(directive)) {
        return 0;
    }
    if (PMIX_CHECK_KEY(directive, PMIX_JOB_CTRL_KILL)) {
        return SIGKILL;
    }
    if (PMIX_CHECK_KEY(directive, PMIX_JOB_CTRL_TERMINATE)) {
        return SIGTERM;
    }
    if (PMIX_CHECK_KEY(directive, PMIX_JOB_CTRL_PAUSE)) {
        return SIGSTOP;
    }
    return PMIX_CHECK_KEY(directive, PMIX_JOB_CTRL_RESUME) ? SIGCONT : 0;
}

bool upcall_means(const struct upcall *call, const struct rank *rank)
{
    pmix_proc_t proc = rank_proc(rank);

    for (size_t i = 0; i < call->n_procs; i++) {
        if (PMIX_CHECK_PROCID(&call->procs[i], &proc)) { /* handles the wildcard */
            return true;
        }
    }
    return call->n_procs == 0 && PMIX_CHECK_NSPACE(call->from.nspace, proc.nspace);
}

static void signal_targets(const struct upcall *call, int signal)
{
    for (int i = 0; i < session.n_ranks; i++) {
        struct rank *rank = session.ranks[i];

        if (rank->state == RANK_ENDED || !upcall_means(call, rank)) {
            continue;
        }
        if (signal == SIGKILL || signal == SIGTERM) {
            rank->was_ended_by_request = true;
        }
        guardian_signal(rank->id, signal);
    }
}

static void do_job_control(struct upcall *call)
{
    pmix_status_t status = PMIX_ERR_NOT_SUPPORTED;

    for (size_t i = 0; i < call->n_info; i++) {
        int signal = signal_of(&call->info[i]);

        if (signal != 0) {
            signal_targets(call, signal);
        }
        if (signal != 0 || ends_job(&call->info[i])) {
            status = PMIX_SUCCESS;
        }
    }
    upcall_answer(call, status);
}

pmix_status_t up_job_control(const pmix_proc_t *from, const pmix_proc_t targets[], size_t n_targets,
                             const pmix_info_t directives[], size_t n_directives,
                             pmix_info_cbfunc_t done, void *arg)
{
    return upcall_queue(&(struct upcall){.serve = do_job_control,
                                         .from = *from,
                                         .procs = targets,
                                         .n_procs = n_targets,
                                         .info = directives,
                                         .n_info = n_directives,
                                         .info_done = done,
                                         .done_arg = arg});
}

/* ---- log ------------------------------------------------------------------------------------- */

static void do_log(struct upcall *call)
{
    size_t n_known = 0;

    for (size_t i = 0; i < call->n_data; i++) {
        const pmix_info_t *data = &call->data[i];
        bool is_out = PMIX_CHECK_KEY(data, PMIX_LOG_STDOUT);

        if ((is_out || PMIX_CHECK_KEY(data, PMIX_LOG_STDERR)) && data->value.type == PMIX_STRING &&
            data->value.data.string != NULL) {
            struct sink *sink = sink_standard(is_out ? 0 : 1);

            sink_add(sink, call, data->value.data.string, strlen(data->value.data.string));
            sink_flush(sink);
            n_known++;
        }
    }
    upcall_answer(call, n_known == call->n_data ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED);
}

void up_log(const pmix_proc_t *from, const pmix_info_t data[], size_t n_data,
            const pmix_info_t directives[], size_t n_directives, pmix_op_cbfunc_t done, void *arg)
{
    struct upcall call = {.serve = do_log,
                          .from = *from,
                          .data = data,
                          .n_data = n_data,
                          .op_done = done,
                          .done_arg = arg};

    (void)directives;
    (void)n_directives;
    if (upcall_queue(&call) != PMIX_SUCCESS && done != NULL) {
        done(PMIX_ERR_NOMEM, arg);
    }
}
