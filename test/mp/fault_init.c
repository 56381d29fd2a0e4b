/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last rank dies before or within nixl_init(). The others are ranks nevertheless, soon, and
 * hear of the death.
 *
 *     fault_init RANK start|connected|waiting|met|left|ready [exit]
 *
 * start: before nixl_init(). connected: within it, before the rank has met the others. waiting:
 * while it waits for them. met: when all have come. left: with NIXLRUN_LEAVE_PMIX=1, when rank 0
 * has left PMIx and rank 1 has not, so that the launcher reports the death to rank 1 only. ready:
 * behind nixl_init(). With `exit` the rank leaves by _exit(0) instead of SIGKILL.
 *
 * The points within nixl_init() are found by PMIx's functions, which this program has itself and
 * passes on.
 */
#include "test/net/bed.h"

#include <dlfcn.h>
#include <pmix.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Far below each timeout that ended a wait for such a rank: 10 and 60 seconds. */
#define BOUND_NS (5 * MPT_S)

static const char *where;
static bool is_victim, is_exit, has_left_before;

static void die_at(const char *place)
{
    if (!is_victim || strcmp(where, place) != 0) {
        return;
    }
    if (is_exit) {
        _exit(0);
    }
    kill(getpid(), SIGKILL);
}

/* ---- PMIx's functions ------------------------------------------------------------------------ */

static void *real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    MPT_TRUE(function != NULL);
    return function;
}

static pmix_info_cbfunc_t answered;

static void has_met(pmix_status_t status, pmix_info_t *info, size_t n_info, void *arg,
                    pmix_release_cbfunc_t release_fn, void *release_arg)
{
    die_at("met");
    answered(status, info, n_info, arg, release_fn, release_arg);
}

/* How a rank waits for the others. What is sent behind the question is served behind it. */
pmix_status_t PMIx_Query_info_nb(pmix_query_t queries[], size_t n_queries,
                                 pmix_info_cbfunc_t done_fn, void *arg)
{
    pmix_status_t (*query)(pmix_query_t *, size_t, pmix_info_cbfunc_t, void *), status;
    pmix_status_t (*commit)(void);

    die_at("connected");
    *(void **)&query = real("PMIx_Query_info_nb");
    *(void **)&commit = real("PMIx_Commit");
    answered = done_fn;
    status = query(queries, n_queries, has_met, arg);
    if (is_victim && strcmp(where, "waiting") == 0) {
        MPT_EQ(commit(), PMIX_SUCCESS);
        die_at("waiting");
    }
    return status;
}

static pmix_notification_fn_t take_event;
static atomic_bool has_event;

static void event_came(size_t handler, pmix_status_t status, const pmix_proc_t *source,
                       pmix_info_t info[], size_t n_info, pmix_info_t *results, size_t n_results,
                       pmix_event_notification_cbfunc_fn_t done_fn, void *done_arg)
{
    take_event(handler, status, source, info, n_info, results, n_results, done_fn, done_arg);
    atomic_store(&has_event, true);
}

pmix_status_t PMIx_Register_event_handler(pmix_status_t codes[], size_t n_codes, pmix_info_t info[],
                                          size_t n_info, pmix_notification_fn_t event_fn,
                                          pmix_hdlr_reg_cbfunc_t done_fn, void *arg)
{
    pmix_status_t (*watch)(pmix_status_t *, size_t, pmix_info_t *, size_t, pmix_notification_fn_t,
                           pmix_hdlr_reg_cbfunc_t, void *);

    *(void **)&watch = real("PMIx_Register_event_handler");
    take_event = event_fn;
    return watch(codes, n_codes, info, n_info, event_came, done_fn, arg);
}

static void await_event(void)
{
    static const struct timespec while_waiting = {.tv_nsec = 2 * MPT_MS};
    int64_t end_ns = mpt_now_ns() + MPT_PATIENCE;

    while (!atomic_load(&has_event)) {
        MPT_LT(mpt_now_ns(), end_ns);
        nanosleep(&while_waiting, NULL);
    }
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t n_info)
{
    pmix_status_t (*finalize)(const pmix_info_t *, size_t), status;
    int rank = atoi(getenv("PMIX_RANK"));
    bool is_asked = strcmp(where, "left") == 0 && !has_left_before;

    has_left_before = true;
    if (is_asked && is_victim) {
        bed_await_mark("left", 0);
        die_at("left");
    }
    if (is_asked && rank == 1) {
        await_event();
    }
    *(void **)&finalize = real("PMIx_Finalize");
    status = finalize(info, n_info);
    if (is_asked && rank == 0) {
        bed_mark("left", 0);
    }
    return status;
}

/* ---- the survivors --------------------------------------------------------------------------- */

static void hear_of_the_death(int victim, int64_t end_ns)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int64_t left_ns = end_ns - mpt_now_ns();

    MPT_OK(nixl_event_recv(left_ns > 0 ? left_ns : 0, &event));
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, victim);
    MPT_EQ(nixl_peer_state(victim), NIXL_PEER_LOST);
}

static void use_the_dead(int victim)
{
    struct nixl_region *region;
    struct nixl_team *team;
    char byte = 0;

    MPT_OK(nixl_region_open("init", &region));
    MPT_STATUS(nixl_put(victim, region, 0, &byte, 1), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_notify(victim, 1, NULL, 0, NIXL_FOREVER), NIXL_E_PEER_LOST);
    MPT_STATUS(nixl_team_world(NIXL_FOREVER, &team), NIXL_E_PEER_LOST);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void use_each_other(int n_living)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify((nixl_rank() + 1) % n_living, 2, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_notify_recv((nixl_rank() + n_living - 1) % n_living, 2, UINT64_MAX, MPT_PATIENCE,
                            &note));
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    int64_t end_ns;
    int victim;

    mpt_start();
    MPT_TRUE(argc >= 3 && rank != NULL);
    victim = atoi(argv[1]);
    where = argv[2];
    is_exit = argc > 3 && strcmp(argv[3], "exit") == 0;
    is_victim = atoi(rank) == victim;
    die_at("start");
    end_ns = mpt_now_ns() + BOUND_NS;
    MPT_OK(nixl_init(NULL));
    die_at("ready");
    MPT_EQ(nixl_size(), victim + 1);
    hear_of_the_death(victim, end_ns);
    use_the_dead(victim);
    use_each_other(victim);
    MPT_LT(mpt_now_ns(), end_ns);
    bed_meet_without("used", victim);
    mpt_finalize();
    return mpt_passed();
}
