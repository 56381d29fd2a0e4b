/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and files of hosts: what is accepted has each name once, and takes ranks or says why. */
/* sources: launcher/here.c launcher/hosts.c launcher/textfile.c launcher/values.c */
/* sources: src/util/nearest.c */
#include "launcher/hosts.h"
#include "launcher/xalloc.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_job(struct launch_job *job)
{
    char why[256] = "";
    int sum = 0;

    for (int i = 0; i < job->n_hosts; i++) {
        const struct launch_host *host = &job->hosts[i];

        if (host->name[0] == '\0' || host->n_slots < 0 || host->n_slots > HOSTS_MAX_SLOTS) {
            abort();
        }
        for (int j = 0; j < i; j++) {
            if (strcmp(job->hosts[j].name, host->name) == 0) {
                abort();
            }
        }
    }
    if (hosts_deal(job, why, sizeof(why)) != 0) {
        if (why[0] == '\0') {
            abort();
        }
        return;
    }
    for (int i = 0; i < job->n_hosts; i++) {
        sum += job->hosts[i].n_ranks;
    }
    if (job->n_hosts > 0 && sum != job->np) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char *text = x_array(NULL, nbytes + 1, 1);
    struct launch_job job = {.np = 7, .is_oversubscribe_given = nbytes % 2 == 0};
    char cause[HOSTS_CAUSE_NBYTES] = "";
    int status;

    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    status = nbytes % 3 == 0 ? hosts_parse_list(text, &job, cause)
                             : hosts_parse_file(text, nbytes, &job, cause);
    if (status == 0) {
        check_job(&job);
    } else if (cause[0] == '\0' || strchr(cause, '\n') != NULL) {
        abort();
    }
    hosts_free(&job);
    free(text);
    return 0;
}
