/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that this one is connected to, or wants to be: found by the `answer` of their
 * address, which no two share. A rank would not do: processes of other jobs have the same ones. A
 * process is forgotten with its last connection and endpoint. The core's lock.
 */
#include "config.h"

#include "tcp.h"

#include <stdlib.h>

/* `answer` is random: its lowest bits do. */
static struct nxr_list *bucket_of(uint64_t answer)
{
    return &nxr_tcp.processes[answer % NXR_TCP_N_BUCKETS];
}

void nxr_tcp_processes_init(void)
{
    for (size_t i = 0; i < NXR_TCP_N_BUCKETS; i++) {
        nxr_list_init(&nxr_tcp.processes[i]);
    }
}

struct nxr_tcp_process *nxr_tcp_process_find(uint64_t answer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, bucket_of(answer)) {
        struct nxr_tcp_process *process = nxr_list_entry(link, struct nxr_tcp_process, link);

        if (process->answer == answer) {
            return process;
        }
    }
    return NULL;
}

struct nxr_tcp_process *nxr_tcp_process_get(uint64_t answer)
{
    struct nxr_tcp_process *process = nxr_tcp_process_find(answer);

    if (process == NULL && (process = calloc(1, sizeof(*process))) != NULL) {
        process->answer = answer;
        nxr_list_init(&process->conns);
        nxr_list_init(&process->rails);
        nxr_list_append(bucket_of(answer), &process->link);
    }
    return process;
}

void nxr_tcp_process_let_go(struct nxr_tcp_process *process)
{
    if (process != NULL && process->ep == NULL && nxr_list_is_empty(&process->conns) &&
        nxr_list_is_empty(&process->rails)) {
        nxr_list_remove(&process->link);
        free(process);
    }
}
