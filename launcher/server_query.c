/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query: the namespaces, the process table of one (which debuggers use to attach), the state of a
 * job. A process that is being started has no pid yet, so a query for its table waits until it has
 * one. Only the main thread uses the list of such queries.
 */
#include "config.h"

#include "launcher/server_upcalls.h"
#include "launcher/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static struct upcall *query_parked; /* linked by next */

static pmix_proc_state_t state_of(const struct rank *rank)
{
    if (rank->state == RANK_STARTING) {
        return PMIX_PROC_STATE_LAUNCH_UNDERWAY;
    }
    if (rank->state == RANK_RUNNING) {
        return rank->is_connected ? PMIX_PROC_STATE_CONNECTED : PMIX_PROC_STATE_RUNNING;
    }
    if (WIFSIGNALED(rank->wait_status)) {
        return PMIX_PROC_STATE_ABORTED_BY_SIG;
    }
    return rank->has_failed ? PMIX_PROC_STATE_ABORTED : PMIX_PROC_STATE_TERMINATED;
}

/* The table of one space's processes. */
static bool load_proc_table(pmix_info_t *info, const char *key, const struct space *space)
{
    pmix_data_array_t table;
    pmix_proc_info_t *entries;

    PMIX_DATA_ARRAY_CONSTRUCT(&table, (size_t)space->n_ranks, PMIX_PROC_INFO);
    entries = table.array;
    if (entries == NULL) {
        return false;
    }
    for (int i = 0; i < space->n_ranks; i++) {
        const struct rank *rank = &space->ranks[i];
        bool has_exited = rank->state == RANK_ENDED && WIFEXITED(rank->wait_status);

        entries[i].proc = rank_proc(rank);
        entries[i].hostname = strdup(session.host);
        entries[i].executable_name = strdup(space->apps[rank->app_num].argv[0]);
        entries[i].pid = rank->pid;
        entries[i].exit_code = has_exited ? WEXITSTATUS(rank->wait_status) : 0;
        entries[i].state = state_of(rank);
    }
    PMIX_INFO_LOAD(info, key, &table, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&table);
    return true;
}

static void load_namespaces(pmix_info_t *info, const char *key)
{
    char *list = x_calloc((size_t)session.n_spaces, PMIX_MAX_NSLEN + 2), *end = list;

    for (const struct space *space = session.spaces; space != NULL; space = space->next) {
        end = stpcpy(stpcpy(end, end == list ? "" : ","), space->nspace);
    }
    PMIX_INFO_LOAD(info, key, list, PMIX_STRING);
    free(list);
}

static bool asks_for_table(const char *key)
{
    return strcmp(key, PMIX_QUERY_PROC_TABLE) == 0 || strcmp(key, PMIX_QUERY_LOCAL_PROC_TABLE) == 0;
}

/* The namespace that a query means; NULL: there is none of that name. */
static struct space *space_of(const pmix_query_t *query, const pmix_proc_t *from)
{
    const pmix_info_t *nspace = info_find(query->qualifiers, query->nqual, PMIX_NSPACE);

    if (nspace != NULL && nspace->value.type != PMIX_STRING) {
        return NULL;
    }
    return space_find(nspace != NULL ? nspace->value.data.string : from->nspace);
}

/* Answer one key of a query. Returns false for a key or namespace that we do not know. */
static bool load_answer(pmix_info_t *info, const char *key, const pmix_query_t *query,
                        const pmix_proc_t *from)
{
    const struct space *space = space_of(query, from);

    if (strcmp(key, PMIX_QUERY_NAMESPACES) == 0) {
        load_namespaces(info, key);
        return true;
    }
    if (strcmp(key, PMIX_QUERY_NUM_PSETS) == 0) {
        size_t none = 0;

        PMIX_INFO_LOAD(info, key, &none, PMIX_SIZE);
        return true;
    }
    if (space == NULL) {
        return false;
    }
    if (asks_for_table(key)) {
        return load_proc_table(info, key, space);
    }
    if (strcmp(key, PMIX_QUERY_JOB_STATUS) == 0) {
        pmix_status_t status =
            space->n_live > 0 ? PMIX_OPERATION_IN_PROGRESS : PMIX_ERR_JOB_TERMINATED;

        PMIX_INFO_LOAD(info, key, &status, PMIX_STATUS);
        return true;
    }
    return false;
}

static void answer_query(struct upcall *call)
{
    size_t n_keys = 0, n = 0;
    pmix_info_t *info;

    for (size_t i = 0; i < call->n_queries; i++) {
        for (char **key = call->queries[i].keys; key != NULL && *key != NULL; key++) {
            n_keys++;
        }
    }
    if (n_keys == 0) {
        upcall_answer(call, PMIX_ERR_NOT_FOUND);
        return;
    }
    info = info_new(n_keys);
    for (size_t i = 0; i < call->n_queries; i++) {
        for (char **key = call->queries[i].keys; key != NULL && *key != NULL; key++) {
            n += load_answer(&info[n], *key, &call->queries[i], &call->from);
        }
    }
    if (n == 0) {
        PMIX_INFO_FREE(info, n_keys);
        upcall_answer(call, PMIX_ERR_NOT_FOUND);
        return;
    }
    upcall_answer_info(call, n == n_keys ? PMIX_SUCCESS : PMIX_QUERY_PARTIAL_SUCCESS, info, n);
}

static bool is_starting(const struct space *space)
{
    int i = 0;

    while (i < space->n_ranks && space->ranks[i].state != RANK_STARTING) {
        i++;
    }
    return i < space->n_ranks;
}

/* Does the query ask for the table of a space in which a process is still being started? */
static bool query_must_wait(const struct upcall *call)
{
    for (size_t i = 0; i < call->n_queries; i++) {
        const struct space *space = space_of(&call->queries[i], &call->from);

        for (char **key = call->queries[i].keys; key != NULL && *key != NULL; key++) {
            if (space != NULL && asks_for_table(*key) && is_starting(space)) {
                return true;
            }
        }
    }
    return false;
}

static void do_query(struct upcall *call)
{
    if (meet_wants(call)) {
        meet_come(call);
    } else if (query_must_wait(call)) {
        call->next = query_parked;
        query_parked = call;
    } else {
        answer_query(call);
    }
}

void query_look(const struct space *space)
{
    struct upcall *call = query_parked, *next;

    if (call == NULL || is_starting(space)) {
        return;
    }
    for (query_parked = NULL; call != NULL; call = next) {
        next = call->next;
        do_query(call);
    }
}

pmix_status_t up_query(pmix_proc_t *from, pmix_query_t *queries, size_t n_queries,
                       pmix_info_cbfunc_t done, void *arg)
{
    return upcall_queue(&(struct upcall){.serve = do_query,
                                         .from = *from,
                                         .queries = queries,
                                         .n_queries = n_queries,
                                         .info_done = done,
                                         .done_arg = arg});
}
