/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines: the words are separated by zero bytes. What is accepted must be a whole job that
 * can be shown; what is refused must have one line that says why.
 */
/* sources: launcher/metrics_parse.c src/util/ */
/* libs: hwloc */
/* sources: launcher/envfile.c launcher/envlist.c launcher/option_set.c launcher/option_table.c */
/* sources: launcher/hosts.c launcher/options.c launcher/report.c launcher/textfile.c */
/* sources: launcher/allocation.c launcher/here.c launcher/values.c */
#include "launcher/options.h"
#include "launcher/report.h"
#include "launcher/xalloc.h"

enum { MAX_WORDS = 64, MAX_SHOWN = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void show(const struct launch_job *job)
{
    static FILE *out;
    static char where[] = "not bound";
    struct launch_place places[MAX_SHOWN];

    for (int rank = 0; rank < job->np; rank++) {
        places[rank] = (struct launch_place){.where = where};
    }
    if (out == NULL) {
        out = x_checked(fopen("/dev/null", "w"));
    }
    report_dry_run(out, job, places, "host");
}

static void check_accepted(const struct launch_job *job)
{
    int np = 0;

    for (int i = 0; i < job->n_apps; i++) {
        np += job->apps[i].np;
        if (job->apps[i].np < 1 || job->apps[i].argv[0][0] == '\0') {
            abort();
        }
    }
    if (np != job->np || np < 1 || np > OPTIONS_MAX_NP || job->timeout_ns < 1 ||
        job->grace_ns < 0) {
        abort();
    }
    if (np <= MAX_SHOWN) {
        show(job);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char *text = x_array(NULL, nbytes + 1, 1);
    char *argv[MAX_WORDS + 1] = {text};
    struct options options;
    char why[512] = "";
    int argc = 1;

    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    for (char *word = text; word < text + nbytes && argc < MAX_WORDS; word += strlen(word) + 1) {
        argv[argc++] = word;
    }
    if (options_parse(argc, argv, &options, why, sizeof(why)) != 0) {
        if (why[0] == '\0' || strchr(why, '\n') != NULL) {
            abort();
        }
    } else if (options.action <= ACTION_EXPLAIN) {
        check_accepted(&options.job);
    }
    options_free(&options);
    free(text);
    return 0;
}
