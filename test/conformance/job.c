/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on being in a job: identity, counted init, forked children, details of failures. */
#define _GNU_SOURCE
#include "conformance.h"
#include "local.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SIGNALS 32 /* those with a name */

static void ranks_know_where_they_are(void)
{
    MPT_EQ(nixl_scope(conf.rank), NIXL_SCOPE_SELF);
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_TRUE(nixl_host(rank) != NULL);
        MPT_EQ(nixl_scope(rank), mpt_scope(rank));
        if (mpt_scope(rank) == NIXL_SCOPE_LOCAL) {
            MPT_TEXT(nixl_host(rank), nixl_host(conf.rank));
        }
    }
    MPT_GE(nixl_local_rank(), 0);
    MPT_LT(nixl_local_rank(), nixl_local_size());
    MPT_TRUE(nixl_local_rank() <= conf.rank && nixl_local_size() <= conf.size);
    MPT_TRUE(nixl_program() >= 0 && nixl_program() < conf.size);
    MPT_TRUE(nixl_host(conf.size) == NULL);
    MPT_TRUE(nixl_host(-1) == NULL);
    MPT_EQ(nixl_scope(conf.size), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_scope(-1), NIXL_E_INVALID_ARG);
}

/* The transport by which memory of a rank is reached serves it; one that does not says why. */
static void every_route_is_explained(void)
{
    struct segment segment = conf_segment("explained", 64);

    mpt_barrier();
    for (int rank = 0; rank < conf.size; rank++) {
        struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;
        int n_chosen = 0;

        MPT_OK(nixl_region_query(rank, segment.region, MPT_PATIENCE, &info));
        for (unsigned i = 0; nixl_route_query(rank, i, &route) == NIXL_OK; i++) {
            MPT_TRUE(route.is_chosen || strcmp(route.transport, info.transport) != 0 ||
                     conf.is_registered); /* which another transport may open */
            MPT_EQ(route.is_chosen, route.why[0] == '\0');
            MPT_TRUE(!route.is_chosen || (route.is_usable && route.nrails > 0));
            /* What reaches this rank alone is no slower way to another one. */
            MPT_TRUE(rank == conf.rank || strcmp(route.transport, "self") != 0 ||
                     strstr(route.why, "is faster") == NULL);
            n_chosen += route.is_chosen;
        }
        MPT_EQ(nixl_last_error()->status, NIXL_E_NOT_FOUND);
        MPT_TRUE(n_chosen == 1 || (n_chosen == 2 && mpt_scope(rank) == NIXL_SCOPE_REMOTE));
        MPT_TRUE(info.latency_ns > 0 && info.bandwidth_mbps > 0);
    }
    conf_end(&segment);
}

/* The same for each kind of memory at both ends; from host memory the path is the region's. */
static void every_route_of_memory_is_explained(void)
{
    struct segment segment = conf_segment("explained memory", 64);
    struct local local = conf_local("explained local", conf.local_kind, 64);
    const void *const from[] = {NULL, local.addr};

    mpt_barrier();
    for (int i = 0; i < 2 * conf.size; i++) {
        int rank = i / 2, n_chosen = 0;
        struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;

        MPT_OK(nixl_region_query(rank, segment.region, MPT_PATIENCE, &info));
        for (unsigned j = 0;
             nixl_route_query_segment(rank, segment.region, from[i % 2], j, &route) == NIXL_OK;
             j++) {
            MPT_TRUE(route.is_chosen || strcmp(route.transport, info.transport) != 0);
            MPT_TRUE(route.is_chosen ? route.method[0] != '\0' && route.is_usable
                                     : route.method[0] == '\0' && route.why[0] != '\0');
            MPT_TRUE(!route.is_chosen || from[i % 2] != NULL || info.kind != NIXL_MEM_HOST ||
                     strcmp(route.method, info.method) == 0);
            n_chosen += route.is_chosen;
        }
        MPT_EQ(nixl_last_error()->status, NIXL_E_NOT_FOUND);
        MPT_TRUE(n_chosen == 1 || (n_chosen == 2 && mpt_scope(rank) == NIXL_SCOPE_REMOTE));
    }
    mpt_barrier();
    conf_drop_local(&local);
    conf_drop(&segment);
}

static void init_is_counted(void)
{
    struct nixl_init_params params = NIXL_INIT_PARAMS_INIT;

    params.thread_level = conf.is_single ? NIXL_THREAD_SINGLE : NIXL_THREAD_MULTIPLE;
    MPT_OK(nixl_init(&params));
    MPT_OK(nixl_init(&params));
    MPT_EQ(nixl_rank(), conf.rank);
    MPT_OK(nixl_finalize());
    MPT_OK(nixl_finalize());
    MPT_EQ(nixl_rank(), conf.rank);
    MPT_EQ(nixl_size(), conf.size);
    params.thread_level = 7;
    MPT_STATUS(nixl_init(&params), NIXL_E_INVALID_ARG);
    params.struct_nbytes = 3;
    MPT_STATUS(nixl_init(&params), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_rank(), conf.rank);
}

static struct sigaction actions_before[N_SIGNALS];

void conf_note_signals(void)
{
    for (int number = 1; number < N_SIGNALS; number++) {
        sigaction(number, NULL, &actions_before[number]);
    }
}

/* The file that a handler is from; "": not known. */
static const char *file_of(void (*handler)(int))
{
    Dl_info info;
    void *address;

    memcpy(&address, &handler, sizeof(address));
    return dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "";
}

/* What we load on purpose, and settle with that it takes none; or a handler from nowhere. */
static bool is_ours(const char *file)
{
    static const char *const names[] = {"libnixlrun", "nixlrun/", "libuc",    "libfabric",
                                        "libpmix",    "libcuda",  "libvulkan"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strstr(file, names[i]) != NULL) {
            return true;
        }
    }
    return *file == '\0';
}

/*
 * Neither the library nor what it loads may take a signal from the program. What others load into
 * the process meanwhile, as PMIx does by way of hwloc, is printed and not counted.
 */
static void no_signal_handler_is_installed(void)
{
    for (int number = 1; number < N_SIGNALS; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 &&
            action.sa_handler != actions_before[number].sa_handler &&
            action.sa_handler != SIG_IGN) {
            const char *file = file_of(action.sa_handler);

            if (is_ours(file)) {
                mpt_fail(__FILE__, __LINE__, "signal %d has another handler, of '%s'", number,
                         file);
            }
            printf("# rank %d: signal %d has a handler of %s, which nixlrun does not load\n",
                   conf.rank, number, file);
        }
    }
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void a_forked_child_is_refused_and_harms_nobody(void)
{
    struct segment segment = conf_segment("fork", 64);
    char byte = 1;
    int state = 0;
    pid_t child;

    mpt_barrier();
    MPT_OK(nixl_put(0, segment.region, 0, &byte, 1)); /* its path is known to the child, too */
    child = fork();
    if (child == 0) {
        alarm(250); /* it hangs */
        mpt_every_call(segment.region, NIXL_E_FORKED);
        MPT_STATUS(nixl_init(NULL), NIXL_E_FORKED);
        _exit(0);
    }
    MPT_EQ(waitpid(child, &state, 0), child);
    MPT_EQ(state, 0);
    MPT_OK(nixl_put(conf.next, segment.region, 0, &byte, 1));
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    }
    conf_end(&segment);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void a_failure_has_a_detail(void)
{
    struct segment segment = conf_segment("detail", 64);
    const struct nixl_error *error;
    char byte = 1, number[16];

    mpt_barrier();
    MPT_STATUS(nixl_put(conf.next, segment.region, 64, &byte, 1), NIXL_E_RANGE);
    error = nixl_last_error();
    MPT_EQ(error->status, NIXL_E_RANGE);
    MPT_EQ(error->rank, conf.next);
    MPT_TEXT(error->operation, "nixl_put");
    MPT_TRUE(strstr(error->text, "detail") != NULL); /* names the region */
    MPT_TRUE(strstr(error->text, "64") != NULL);     /* and the size */
    MPT_STATUS(nixl_get(conf.size + 41, segment.region, 0, &byte, 1), NIXL_E_INVALID_ARG);
    MPT_TEXT(error->operation, "nixl_get");
    snprintf(number, sizeof(number), "%d", conf.size + 41);
    MPT_TRUE(strstr(error->text, number) != NULL);
    conf_end(&segment);
}

/* Last of all: a job that began with SINGLE goes on with many threads. */
static void the_thread_level_can_be_raised(void)
{
    struct nixl_init_params params = NIXL_INIT_PARAMS_INIT;

    MPT_OK(nixl_init(&params));
    conf.is_single = false;
    for (const struct guarantee *guarantee = conf_notify; guarantee->name != NULL; guarantee++) {
        if (guarantee->needs & CONF_THREADS) {
            guarantee->run();
        }
    }
    MPT_OK(nixl_finalize());
}

const struct guarantee conf_job[] = {
    {"job", NULL, 0},
    {"ranks_know_where_they_are", ranks_know_where_they_are, 0},
    {"every_route_is_explained", every_route_is_explained, CONF_HOST},
    {"every_route_of_memory_is_explained", every_route_of_memory_is_explained, 0},
    {"init_is_counted", init_is_counted, 0},
    {"no_signal_handler_is_installed", no_signal_handler_is_installed, 0},
    {"a_forked_child_is_refused_and_harms_nobody", a_forked_child_is_refused_and_harms_nobody, 0},
    {"a_failure_has_a_detail", a_failure_has_a_detail, 0},
    {"the_thread_level_can_be_raised", the_thread_level_can_be_raised, 0},
    {0},
};
