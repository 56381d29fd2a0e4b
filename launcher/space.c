/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: PMIx namespaces and what a client can query about them. The library derives most keys of
 * a rank (local rank, node, host name, peers) from the node and process maps, so only what it
 * cannot know is given per rank: with 256 ranks each extra key costs 256 copies.
 */
#include "config.h"

#include "launcher/server.h"
#include "launcher/sink.h"
#include "launcher/world.h"
#include "launcher/xalloc.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_SAFE_NBYTES 50 /* 56 letters still fit */

/* ---- look-up --------------------------------------------------------------------------------- */

struct space *space_find(const char *nspace)
{
    for (struct space *space = session.spaces; space != NULL; space = space->next) {
        if (PMIX_CHECK_NSPACE(space->nspace, nspace)) {
            return space;
        }
    }
    return NULL;
}

struct rank *rank_find(const pmix_proc_t *proc)
{
    struct space *space = space_find(proc->nspace);

    if (space == NULL || proc->rank >= (pmix_rank_t)space->n_ranks) {
        return NULL;
    }
    return &space->ranks[proc->rank];
}

pmix_proc_t rank_proc(const struct rank *rank)
{
    pmix_proc_t proc;

    PMIX_LOAD_PROCID(&proc, rank->space->nspace, (pmix_rank_t)rank->rank);
    return proc;
}

const char *rank_name(const struct rank *rank)
{
    static char name[64];

    if (rank->space->number == 0) {
        snprintf(name, sizeof(name), "rank %d", rank->rank);
    } else {
        snprintf(name, sizeof(name), "rank %d of spawned job %d", rank->rank, rank->space->number);
    }
    return name;
}

/* ---- registration ---------------------------------------------------------------------------- */

/* "0,1,2" of n numbers, allocated. */
static char *number_list(int n)
{
    char *list = x_calloc((size_t)n, 12), *at = list;

    for (int i = 0; i < n; i++) {
        at += sprintf(at, i == 0 ? "%d" : ",%d", i);
    }
    return list;
}

/*
 * The node map of a space on one host, in PMIx's form; allocated. PMIx 4.2 copies the letters at
 * the start of a name into a buffer of 64 bytes without a check: a long name is formatted here.
 */
static char *space_node_map(const char *host)
{
    char *list = NULL;

    if (strcspn(host, "0123456789-.") < HOST_SAFE_NBYTES) {
        PMIx_generate_regex(host, &list);
        return list;
    }
    return x_checked(asprintf(&list, "pmix[%s]", host) < 0 ? NULL : list);
}

/* Add the keys that all ranks of the job share. */
static void add_job_keys(const struct space *space, void *list, const char *ranks)
{
    uint32_t size = (uint32_t)space->n_ranks, n_apps = (uint32_t)space->n_apps, one = 1;
    bool is_spawned = space->number > 0;
    char *node_map = space_node_map(session.host), *proc_map = NULL;

    PMIx_generate_ppn(ranks, &proc_map);
    PMIx_Info_list_add(list, PMIX_NODE_MAP, node_map, PMIX_REGEX);
    PMIx_Info_list_add(list, PMIX_PROC_MAP, proc_map, PMIX_REGEX);
    free(node_map);
    free(proc_map);
    PMIx_Info_list_add(list, PMIX_JOB_SIZE, &size, PMIX_UINT32);
    PMIx_Info_list_add(list, PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    PMIx_Info_list_add(list, PMIX_MAX_PROCS, &size, PMIX_UINT32);
    PMIx_Info_list_add(list, PMIX_NODE_SIZE, &size, PMIX_UINT32);
    PMIx_Info_list_add(list, PMIX_NUM_NODES, &one, PMIX_UINT32);
    PMIx_Info_list_add(list, PMIX_JOB_NUM_APPS, &n_apps, PMIX_UINT32);
    PMIx_Info_list_add(list, PMIX_JOBID, space->nspace, PMIX_STRING);
    PMIx_Info_list_add(list, PMIX_SPAWNED, &is_spawned, PMIX_BOOL);
    /* PMIx 5 keeps the job's data in files, by default in /tmp, where they would be left behind. */
    PMIx_Info_list_add(list, PMIX_NSDIR, session.tmpdir, PMIX_STRING);
    server_add_topology(list);
    if (is_spawned) {
        PMIx_Info_list_add(list, PMIX_PARENT_ID, &space->parent, PMIX_PROC);
    }
}

/* Turn `part` into one array under `key` of `list`. */
static void add_array(void *list, const char *key, void *part)
{
    pmix_data_array_t array = {0};

    if (PMIx_Info_list_convert(part, &array) == PMIX_SUCCESS) {
        PMIx_Info_list_add(list, key, &array, PMIX_DATA_ARRAY);
        PMIX_DATA_ARRAY_DESTRUCT(&array);
    }
    PMIx_Info_list_release(part);
}

static void add_app_keys(const struct space *space, void *list)
{
    pmix_rank_t leader = 0;

    for (uint32_t i = 0; i < (uint32_t)space->n_apps; i++) {
        uint32_t size = (uint32_t)space->apps[i].np;
        void *part = PMIx_Info_list_start();

        PMIx_Info_list_add(part, PMIX_APPNUM, &i, PMIX_UINT32);
        PMIx_Info_list_add(part, PMIX_APP_SIZE, &size, PMIX_UINT32);
        PMIx_Info_list_add(part, PMIX_APPLDR, &leader, PMIX_PROC_RANK);
        PMIx_Info_list_add(part, PMIX_WDIR, space->apps[i].wdir != NULL ? space->apps[i].wdir : ".",
                           PMIX_STRING);
        add_array(list, PMIX_APP_INFO_ARRAY, part);
        leader += size;
    }
}

/* Add the keys of one rank. */
static void add_rank_keys(const struct rank *rank, void *list)
{
    const struct space *space = rank->space;
    const char *cpus = space->places != NULL ? space->places[rank->rank].cpu_list : NULL;
    pmix_rank_t number = (pmix_rank_t)rank->rank, in_app = number;
    uint32_t app_num = (uint32_t)rank->app_num, zero = 0;
    uint16_t local = (uint16_t)rank->rank;
    void *part = PMIx_Info_list_start();

    for (int i = 0; i < rank->app_num; i++) {
        in_app -= (pmix_rank_t)space->apps[i].np;
    }
    PMIx_Info_list_add(part, PMIX_RANK, &number, PMIX_PROC_RANK);
    PMIx_Info_list_add(part, PMIX_APPNUM, &app_num, PMIX_UINT32);
    PMIx_Info_list_add(part, PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
    PMIx_Info_list_add(part, PMIX_APP_RANK, &in_app, PMIX_PROC_RANK);
    PMIx_Info_list_add(part, PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIx_Info_list_add(part, PMIX_NODE_RANK, &local, PMIX_UINT16);
    PMIx_Info_list_add(part, PMIX_NODEID, &zero, PMIX_UINT32);
    PMIx_Info_list_add(part, PMIX_REINCARNATION, &zero, PMIX_UINT32);
    if (space->number > 0) {
        PMIx_Info_list_add(part, PMIX_PARENT_ID, &space->parent, PMIX_PROC);
    }
    if (cpus != NULL) {
        char text[1024];

        snprintf(text, sizeof(text), "hwloc:%s", cpus);
        PMIx_Info_list_add(part, PMIX_CPUSET, text, PMIX_STRING);
    }
    add_array(list, PMIX_PROC_DATA, part);
}

static void registered(pmix_status_t status, void *arg)
{
    (void)status;
    sem_post(arg);
}

/* Register the job and its ranks with PMIx, and wait until that is done. */
static pmix_status_t space_register(struct space *space)
{
    char *ranks = number_list(space->n_ranks);
    void *list = PMIx_Info_list_start();
    pmix_data_array_t info = {0};
    pmix_status_t status;
    int n_asked = 0;
    sem_t done;

    add_job_keys(space, list, ranks);
    add_app_keys(space, list);
    for (int i = 0; i < space->n_ranks; i++) {
        add_rank_keys(&space->ranks[i], list);
    }
    free(ranks);
    PMIx_Info_list_convert(list, &info);
    PMIx_Info_list_release(list);
    sem_init(&done, 0, 0);
    status = PMIx_server_register_nspace(space->nspace, space->n_ranks, info.array, info.size,
                                         registered, &done);
    if (status == PMIX_SUCCESS) {
        sem_wait(&done);
    }
    for (int i = 0; i < space->n_ranks && status == PMIX_SUCCESS; i++) {
        pmix_proc_t proc = rank_proc(&space->ranks[i]);

        status = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, registered, &done);
        n_asked += status == PMIX_SUCCESS;
    }
    for (int i = 0; i < n_asked; i++) { /* also after a failure: `done` is on our stack */
        sem_wait(&done);
    }
    PMIX_DATA_ARRAY_DESTRUCT(&info);
    return status;
}

/* Enter the space's ranks into the session. */
static void space_make_ranks(struct space *space)
{
    int n_all = session.n_ranks + space->n_ranks, app = 0, in_app = 0;

    session.ranks = x_array(session.ranks, (size_t)n_all, sizeof(struct rank *));
    space->ranks = x_calloc((size_t)space->n_ranks, sizeof(*space->ranks));
    for (int i = 0; i < space->n_ranks; i++) {
        struct rank *rank = &space->ranks[i];

        while (in_app == space->apps[app].np) {
            app++;
            in_app = 0;
        }
        in_app++;
        *rank = (struct rank){.space = space,
                              .rank = i,
                              .id = session.n_ranks,
                              .app_num = app,
                              .streams = {{.watch.fd = -1}, {.watch.fd = -1}},
                              .inlet = {.watch.fd = -1}};
        session.ranks[session.n_ranks++] = rank;
    }
}

/* No rank of the space is going to be started. */
static void space_give_up(struct space *space)
{
    session.n_live -= space->n_live;
    space->n_live = 0;
    for (int i = 0; i < space->n_ranks; i++) {
        space->ranks[i].state = RANK_ENDED;
    }
}

struct space *space_make(const struct launch_app *apps, int n_apps,
                         const struct launch_place *places, const pmix_proc_t *parent)
{
    struct space *space = x_calloc(1, sizeof(*space)), **link = &session.spaces;
    pmix_status_t status;

    space->number = session.n_spaces++;
    space->apps = apps;
    space->n_apps = n_apps;
    space->places = places;
    if (parent != NULL) {
        space->parent = *parent;
    }
    for (int i = 0; i < n_apps; i++) {
        space->n_ranks += apps[i].np;
    }
    space->n_live = space->n_ranks;
    space->master_port = world_free_port();
    snprintf(space->nspace, sizeof(space->nspace), "nixlrun.%d.%d", (int)getpid(), space->number);
    space_make_ranks(space);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = space;
    session.n_live += space->n_ranks;
    status = space_register(space);
    if (status != PMIX_SUCCESS) {
        sink_say("PMIx refused the job: %s", PMIx_Error_string(status));
        space_give_up(space);
        return NULL;
    }
    return space;
}
