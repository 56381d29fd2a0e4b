/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun --trace: asking the ranks to record, and what is written at the end. No state. */
#include "config.h"

#include "launcher/job.h"
#include "launcher/sink.h"
#include "launcher/stats.h"
#include "launcher/textfile.h"
#include "launcher/trace.h"
#include "launcher/values.h"
#include "util/env.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the user has set in the environment holds unless an option says otherwise. */
void trace_ask(const struct launch_job *job)
{
    char number[16];

    if (job->trace == NULL) {
        return;
    }
    if (job->trace_kinds != NULL || nxr_env.trace[0] == '\0') {
        setenv("NIXLRUN_TRACE", job->trace_kinds != NULL ? job->trace_kinds : "all", 1);
    }
    if (job->trace_events > 0) {
        snprintf(number, sizeof(number), "%d", job->trace_events);
        setenv("NIXLRUN_TRACE_EVENTS", number, 1);
    }
}

/* How well the clocks of the hosts agree: "; clocks agree to within 12 us". */
static void clocks_text(const struct trace_job *job, char *text, size_t nbytes)
{
    char time[STATS_TEXT_NBYTES];
    int64_t worst = 0;

    text[0] = '\0';
    for (int i = 1; i < job->n_hosts; i++) {
        if (job->hosts[i].precision_ns < 0) {
            snprintf(text, nbytes, "; the clock of host %s is unknown", job->hosts[i].name);
            return;
        }
        worst = job->hosts[i].precision_ns > worst ? job->hosts[i].precision_ns : worst;
    }
    if (job->n_hosts > 1) {
        snprintf(text, nbytes, " on %d hosts, their clocks aligned to within %s", job->n_hosts,
                 stats_time_text((double)worst, time));
    }
}

static void trace_say(const struct launch_job *job, const struct trace_job *traced,
                      const struct trace_sums *sums)
{
    char shown[VALUE_SHOWN_NBYTES], clocks[160], lost[128] = "", without[128] = "";

    clocks_text(traced, clocks, sizeof(clocks));
    if (sums->n_lost > 0) {
        snprintf(lost, sizeof(lost), "; %" PRIu64 " earlier ones are lost (--trace-events)",
                 sums->n_lost);
    }
    if (sums->n_without > 0) {
        snprintf(without, sizeof(without),
                 "; %" PRIu64 " of threads beyond the first %d of a rank are lost", sums->n_without,
                 NXR_TRACE_MAX_THREADS);
    }
    sink_say("trace: %" PRIu64 " events of %zu %s%s in %s, for https://ui.perfetto.dev%s%s",
             sums->n_events, traced->n, traced->n == 1 ? "process" : "processes", clocks,
             value_show(job->trace, shown), lost, without);
}

/* All rings of a process are mapped, also those that no thread uses. */
static void trace_say_unread(const struct trace_job *traced)
{
    if (traced->n_unread > 0) {
        sink_say("--trace: %d %s missing: nixlrun has no address space left for %s (ulimit -v); "
                 "allow more, or set --trace-events lower",
                 traced->n_unread, traced->n_unread == 1 ? "process is" : "processes are",
                 traced->n_unread == 1 ? "it" : "them");
    }
}

/* Closes the file. Returns 0 or an errno. */
static int trace_write_all(FILE *out, const struct trace_job *traced, struct trace_sums *sums)
{
    struct perfetto perfetto;

    perfetto_open(&perfetto, out);
    for (size_t i = 0; i < traced->n; i++) {
        trace_write_rank(&perfetto, traced, &traced->ranks[i], sums);
    }
    perfetto_close(&perfetto);
    return textfile_close(out);
}

bool trace_end(const struct launch_job *job)
{
    struct trace_sums sums = {.n_events = 0};
    char shown[VALUE_SHOWN_NBYTES];
    struct trace_job traced;
    FILE *out;
    int error;

    if (job->trace == NULL) {
        return true;
    }
    traced = trace_read();
    out = textfile_create(job->trace);
    error = out == NULL ? errno : trace_write_all(out, &traced, &sums);
    if (error != 0) {
        sink_say("--trace %s: cannot write it: %s", value_show(job->trace, shown), strerror(error));
    } else if (traced.n == 0 && traced.n_unread == 0) {
        sink_say(
            "--trace %s: nothing was recorded: no rank has called nixl_init, or none could record",
            value_show(job->trace, shown));
    } else {
        trace_say(job, &traced, &sums);
        trace_say_unread(&traced);
    }
    trace_free(&traced);
    return error == 0;
}

bool trace_and_stats_end(const struct launch_job *job)
{
    bool has_stats = stats_end(job), has_trace = trace_end(job);

    return has_stats && has_trace;
}
