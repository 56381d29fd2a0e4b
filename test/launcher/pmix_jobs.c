/* SPDX-License-Identifier: Apache-2.0 */
/* A PMIx client that makes and looks at processes: spawn, connect, groups, control, query. */
#include "pmix_client.h"

#include <signal.h>

/* ---- spawn ----------------------------------------------------------------------------------- */

static struct signal ended = SIGNAL_INIT;

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[],
                     size_t n_info, pmix_info_t *results, size_t n_results,
                     pmix_event_notification_cbfunc_fn_t done, void *arg)
{
    (void)id;
    (void)code;
    (void)source;
    (void)info;
    (void)n_info;
    (void)results;
    (void)n_results;
    signal_tell(&ended);
    if (done != NULL) {
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
    }
}

/* Start `program ARG` on two ranks; returns PMIx's status. */
static pmix_status_t spawn(const char *program, const char *arg, pmix_nspace_t nspace)
{
    pmix_status_t status;
    pmix_info_t notify;
    pmix_app_t app;
    bool yes = true;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(program);
    app.maxprocs = 2;
    PMIX_ARGV_APPEND(status, app.argv, program);
    PMIX_ARGV_APPEND(status, app.argv, arg);
    PMIX_SETENV(status, "SPAWNED_BY", "jobs", &app.env);
    PMIX_INFO_LOAD(&notify, PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
    status = PMIx_Spawn(&notify, 1, &app, 1, nspace);
    PMIX_APP_DESTRUCT(&app);
    return status;
}

/* Rank 0 starts two children and connects to them; all three sides then share a fence. */
static void run_spawn(int argc, char **argv)
{
    pmix_status_t code = PMIX_EVENT_JOB_END;
    pmix_nspace_t nspace;
    pmix_proc_t both[2];

    (void)argc;
    if (self.rank == 0) {
        CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) >= 0);
        CHECK_OK(spawn(argv[0], "child", nspace));
        both[0] = self;
        PMIX_LOAD_PROCID(&both[1], nspace, PMIX_RANK_WILDCARD);
        CHECK_OK(PMIx_Connect(both, 2, NULL, 0));
        CHECK_OK(PMIx_Fence(both, 2, NULL, 0));
        CHECK_OK(PMIx_Disconnect(both, 2, NULL, 0));
        signal_wait(&ended, 1);
    }
    fence();
}

static void run_child(int argc, char **argv)
{
    pmix_value_t *parent;
    pmix_proc_t both[2];

    (void)argc;
    (void)argv;
    CHECK(getenv("SPAWNED_BY") != NULL && strcmp(getenv("SPAWNED_BY"), "jobs") == 0);
    CHECK(job_size == 2);
    CHECK_OK(PMIx_Get(&self, PMIX_PARENT_ID, NULL, 0, &parent));
    CHECK(parent->type == PMIX_PROC && parent->data.proc->rank == 0);
    both[0] = *parent->data.proc;
    both[1] = everybody;
    CHECK_OK(PMIx_Connect(both, 2, NULL, 0));
    CHECK_OK(PMIx_Fence(both, 2, NULL, 0));
    CHECK_OK(PMIx_Disconnect(both, 2, NULL, 0));
    printf("child %u of %s\n", self.rank, parent->data.proc->nspace);
    PMIX_VALUE_RELEASE(parent);
}

/* A spawn that cannot start fails for its caller only. */
static void run_badspawn(int argc, char **argv)
{
    pmix_nspace_t nspace;

    (void)argc;
    (void)argv;
    if (self.rank == 0) {
        CHECK_STATUS(spawn("/nowhere/program", "x", nspace), PMIX_ERR_JOB_EXE_NOT_FOUND);
    }
    fence();
}

/* Two spawns of which one rank cannot be started, the first and the second. */
static void run_halfspawn(int argc, char **argv)
{
    pmix_nspace_t nspace;

    (void)argc;
    (void)argv;
    if (self.rank == 0) {
        CHECK_STATUS(spawn("sleep", "1000", nspace), PMIX_ERR_JOB_FAILED_TO_LAUNCH);
        CHECK_STATUS(spawn("sleep", "1000", nspace), PMIX_ERR_JOB_FAILED_TO_LAUNCH);
    }
    fence();
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void run_group(int argc, char **argv)
{
    size_t n_results = 0, id = 0;
    pmix_info_t wants_id, *results = NULL;
    bool yes = true;

    (void)argc;
    (void)argv;
    PMIX_INFO_LOAD(&wants_id, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    CHECK_OK(PMIx_Group_construct("ours", &everybody, 1, &wants_id, 1, &results, &n_results));
    for (size_t i = 0; i < n_results; i++) {
        if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID)) {
            id = results[i].value.data.size;
        }
    }
    CHECK(id > 0);
    CHECK_OK(PMIx_Group_destruct("ours", NULL, 0));
    fence();
}

/* ---- job control, query ---------------------------------------------------------------------- */

/* The last rank is killed by rank 0, sleeping; the job goes on without it. */
static void run_kill(int argc, char **argv)
{
    pmix_status_t code = PMIX_ERR_PROC_ABORTED_BY_SIG;
    pmix_info_t kill_it;
    pmix_proc_t victim;
    bool yes = true;

    (void)argc;
    (void)argv;
    CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) >= 0);
    fence();
    if (self.rank == job_size - 1) {
        for (;;) {
            pause();
        }
    }
    if (self.rank == 0) {
        PMIX_LOAD_PROCID(&victim, self.nspace, job_size - 1);
        PMIX_INFO_LOAD(&kill_it, PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
        CHECK_OK(PMIx_Job_control(&victim, 1, &kill_it, 1, NULL, NULL));
    }
    signal_wait(&ended, 1);
}

/* What else is known of the job, and what is not. */
static void query_job(void)
{
    pmix_info_t *results, qualifier;
    pmix_query_t query;
    pmix_status_t status;
    size_t n_results;

    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_JOB_STATUS);
    CHECK_OK(status);
    PMIX_INFO_LOAD(&qualifier, PMIX_NSPACE, self.nspace, PMIX_STRING);
    query.qualifiers = &qualifier;
    query.nqual = 1;
    CHECK_OK(PMIx_Query_info(&query, 1, &results, &n_results));
    CHECK(n_results == 1 && results[0].value.type == PMIX_STATUS);
    CHECK(results[0].value.data.status == PMIX_OPERATION_IN_PROGRESS);
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, "nixlrun.unknown");
    CHECK_OK(status);
    CHECK(PMIx_Query_info(&query, 1, &results, &n_results) == PMIX_ERR_NOT_FOUND);
}

/* Each rank finds itself and the others in the process table, with the right pids. */
static void run_query(int argc, char **argv)
{
    pmix_info_t *results, qualifier;
    pmix_proc_info_t *table;
    pmix_query_t query;
    pmix_status_t status;
    size_t n_results;

    (void)argc;
    (void)argv;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_PROC_TABLE);
    CHECK_OK(status);
    PMIX_INFO_LOAD(&qualifier, PMIX_NSPACE, self.nspace, PMIX_STRING);
    query.qualifiers = &qualifier;
    query.nqual = 1;
    CHECK_OK(PMIx_Query_info(&query, 1, &results, &n_results));
    CHECK(n_results == 1 && results[0].value.type == PMIX_DATA_ARRAY);
    CHECK(results[0].value.data.darray->size == job_size);
    table = results[0].value.data.darray->array;
    for (uint32_t rank = 0; rank < job_size; rank++) {
        CHECK(table[rank].proc.rank == rank && table[rank].pid > 0);
        CHECK(kill(table[rank].pid, 0) == 0);
        CHECK(strstr(table[rank].executable_name, "pmix_jobs") != NULL);
    }
    CHECK(table[self.rank].pid == getpid());
    query_job();
    fence();
}

int main(int argc, char **argv)
{
    static const struct service services[] = {
        {"spawn", run_spawn},         {"child", run_child}, {"badspawn", run_badspawn},
        {"halfspawn", run_halfspawn}, {"group", run_group}, {"kill", run_kill},
        {"query", run_query},
    };

    return client_main(argc, argv, services, sizeof(services) / sizeof(services[0]));
}
