/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees on being in a job: identity, counted init, forked children, details of failures. */
#include "conformance.h"

#include <signal.h>
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
        MPT_TEXT(nixl_host(rank), nixl_host(conf.rank));
        if (rank != conf.rank) {
            MPT_EQ(nixl_scope(rank), NIXL_SCOPE_LOCAL);
        }
    }
    MPT_TRUE(nixl_host(conf.size) == NULL);
    MPT_TRUE(nixl_host(-1) == NULL);
    MPT_EQ(nixl_scope(conf.size), NIXL_ERR_INVALID_ARG);
    MPT_EQ(nixl_scope(-1), NIXL_ERR_INVALID_ARG);
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
    params.thread_level = (enum nixl_thread_level)7;
    MPT_STATUS(nixl_init(&params), NIXL_ERR_INVALID_ARG);
    params.struct_nbytes = 3;
    MPT_STATUS(nixl_init(&params), NIXL_ERR_INVALID_ARG);
    MPT_EQ(nixl_rank(), conf.rank);
}

static struct sigaction actions_before[N_SIGNALS];

void conf_note_signals(void)
{
    for (int number = 1; number < N_SIGNALS; number++) {
        sigaction(number, NULL, &actions_before[number]);
    }
}

/* Neither the library nor what it loads may take a signal from the program. */
static void no_signal_handler_is_installed(void)
{
    for (int number = 1; number < N_SIGNALS; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 &&
            action.sa_handler != actions_before[number].sa_handler &&
            action.sa_handler != SIG_IGN) {
            mpt_fail(__FILE__, __LINE__, "signal %d has another handler", number);
        }
    }
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void a_forked_child_is_refused_and_harms_nobody(void)
{
    struct part part = conf_part("fork", 64);
    char byte = 1;
    int state = 0;
    pid_t child;

    mpt_barrier();
    MPT_OK(nixl_put(0, part.region, 0, &byte, 1)); /* its way is known to the child, too */
    child = fork();
    if (child == 0) {
        alarm(30);
        mpt_every_call(part.region, NIXL_ERR_FORKED);
        MPT_STATUS(nixl_init(NULL), NIXL_ERR_FORKED);
        _exit(0);
    }
    MPT_EQ(waitpid(child, &state, 0), child);
    MPT_EQ(state, 0);
    MPT_OK(nixl_put(conf.next, part.region, 0, &byte, 1));
    for (int rank = 0; rank < conf.size; rank++) {
        MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    }
    mpt_barrier();
    conf_drop(&part);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void a_failure_has_a_detail(void)
{
    struct part part = conf_part("detail", 64);
    const struct nixl_error *error;
    char byte = 1;

    mpt_barrier();
    MPT_STATUS(nixl_put(conf.next, part.region, 64, &byte, 1), NIXL_ERR_RANGE);
    error = nixl_last_error();
    MPT_EQ(error->status, NIXL_ERR_RANGE);
    MPT_EQ(error->rank, conf.next);
    MPT_TEXT(error->operation, "nixl_put");
    MPT_TRUE(strstr(error->text, "detail") != NULL); /* names the region */
    MPT_TRUE(strstr(error->text, "64") != NULL);     /* and the size */
    MPT_STATUS(nixl_get(conf.size + 41, part.region, 0, &byte, 1), NIXL_ERR_INVALID_ARG);
    MPT_TEXT(error->operation, "nixl_get");
    MPT_TRUE(strchr(error->text, '4') != NULL);
    mpt_barrier();
    conf_drop(&part);
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
    {"ranks_know_where_they_are", ranks_know_where_they_are, 0},
    {"init_is_counted", init_is_counted, 0},
    {"no_signal_handler_is_installed", no_signal_handler_is_installed, 0},
    {"a_forked_child_is_refused_and_harms_nobody", a_forked_child_is_refused_and_harms_nobody, 0},
    {"a_failure_has_a_detail", a_failure_has_a_detail, 0},
    {"the_thread_level_can_be_raised", the_thread_level_can_be_raised, 0},
    {0},
};
