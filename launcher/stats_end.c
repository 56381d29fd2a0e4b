/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun --stats: what is written when the job has ended. No state. */
#include "config.h"

#include "launcher/job.h"
#include "launcher/sink.h"
#include "launcher/stats.h"
#include "launcher/textfile.h"
#include "launcher/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool stats_ends_with(const char *text, const char *end)
{
    size_t nbytes = strlen(text), end_nbytes = strlen(end);

    return nbytes >= end_nbytes && strcmp(text + nbytes - end_nbytes, end) == 0;
}

/* The output of the ranks is written by now; the caller waits for the reader of this. */
static bool stats_to_stderr(const struct stats_job *counted, bool is_json)
{
    struct sink *sink = sink_standard(1);
    char *text = NULL;
    size_t nbytes;
    FILE *out = open_memstream(&text, &nbytes);

    if (out == NULL) {
        return false;
    }
    stats_show(out, counted, is_json);
    if (fclose(out) != 0) {
        free(text);
        return false;
    }
    sink_add(sink, NULL, text, nbytes);
    sink_flush(sink);
    free(text);
    return true; /* the sink knows what it could not write */
}

static bool stats_to_file(const struct stats_job *counted, const char *path)
{
    char shown[VALUE_SHOWN_NBYTES];
    FILE *out = textfile_create(path);
    int error = out == NULL ? errno : 0;

    if (out != NULL) {
        stats_show(out, counted, stats_ends_with(path, ".json"));
        error = textfile_close(out);
    }
    if (error != 0) {
        sink_say("--stats %s: cannot write it: %s", value_show(path, shown), strerror(error));
    }
    return error == 0;
}

bool stats_end(const struct launch_job *job)
{
    struct stats_job counted;
    bool is_written;

    if (job->stats == NULL) {
        return true;
    }
    counted = stats_job_read(getpid(), false);
    if (job->stats[0] == '\0' || strcmp(job->stats, "json") == 0) {
        is_written = stats_to_stderr(&counted, job->stats[0] != '\0');
    } else {
        is_written = stats_to_file(&counted, job->stats);
    }
    stats_job_free(&counted);
    return is_written;
}
