/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks meet and learn which share a host, with a PMIx that answers as a test says: fences that
 * end early or fail, queries that are not taken, launchers that number no hosts.
 */
#include "config.h"

#include "boot/call.h"
#include "boot/meeting.h"
#include "boot/nodes.h"
#include "core/node.h"
#include "util/clock.h"
#include "util/meet.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS (60 * NXR_S)
#define SPACE       "made.up"

TestSuite(meeting, .timeout = 120);

/* ---- fences ---------------------------------------------------------------------------------- */

static const pmix_status_t *fence_results; /* of each fence in turn; the last one stays */
static unsigned n_fences;

pmix_status_t __wrap_PMIx_Fence_nb(const pmix_proc_t procs[], size_t n_procs,
                                   const pmix_info_t info[], size_t n_info, pmix_op_cbfunc_t fn,
                                   void *arg);

pmix_status_t __wrap_PMIx_Fence_nb(const pmix_proc_t procs[], size_t n_procs,
                                   const pmix_info_t info[], size_t n_info, pmix_op_cbfunc_t fn,
                                   void *arg)
{
    pmix_status_t result = *fence_results;

    cr_expect(eq(sz, n_procs, 1));
    cr_expect(eq(u32, procs[0].rank, PMIX_RANK_WILDCARD), "everybody");
    cr_expect(eq(sz, n_info, 1));
    cr_expect(eq(str, (char *)info[0].key, (char *)PMIX_COLLECT_DATA));
    cr_expect(info[0].value.data.flag);
    n_fences++;
    fence_results += fence_results[1] != 0;
    fn(result, arg);
    return PMIX_SUCCESS;
}

/* The results of fences, with a 0 behind them; a success is PMIX_OPERATION_SUCCEEDED here. */
static pmix_status_t meet(const pmix_status_t *results, bool may_be_early, int64_t timeout_ns)
{
    fence_results = results;
    n_fences = 0;
    return nxr_meeting_by_fence(SPACE, may_be_early, timeout_ns);
}

Test(meeting, a_fence_that_fails_is_a_failure)
{
    static const pmix_status_t results[] = {PMIX_ERR_UNREACH, 0};

    cr_expect(eq(int, meet(results, false, PATIENCE_NS), PMIX_ERR_UNREACH));
    cr_expect(eq(int, meet(results, true, PATIENCE_NS), PMIX_ERR_UNREACH));
    cr_expect(eq(uint, n_fences, 1));
}

Test(meeting, a_death_in_a_fence_does_not_end_the_job)
{
    static const pmix_status_t results[] = {PMIX_ERR_PARTIAL_SUCCESS, 0};

    cr_expect(eq(int, meet(results, false, PATIENCE_NS), PMIX_SUCCESS));
    cr_expect(eq(uint, n_fences, 1));
}

Test(meeting, who_may_be_early_tries_again_until_all_are_there)
{
    static const pmix_status_t results[] = {PMIX_ERR_PARTIAL_SUCCESS, PMIX_ERR_PARTIAL_SUCCESS,
                                            PMIX_OPERATION_SUCCEEDED, 0};
    static const pmix_status_t never[] = {PMIX_ERR_PARTIAL_SUCCESS, 0};

    cr_expect(eq(int, meet(results, true, PATIENCE_NS), PMIX_OPERATION_SUCCEEDED));
    cr_expect(eq(uint, n_fences, 3));
    cr_expect(eq(int, meet(never, true, 20 * NXR_MS), PMIX_ERR_TIMEOUT));
    cr_expect(gt(uint, n_fences, 1));
}

/* ---- queries --------------------------------------------------------------------------------- */

static bool must_lack_memory;       /* for the next call */
static pmix_status_t query_status;  /* what PMIx says to a query */
static pmix_status_t answer_status; /* and what its answer is */
static const char *answer_text;     /* NULL: the answer has no cards */

struct nxr_call *__real_nxr_call_new(void);
struct nxr_call *__wrap_nxr_call_new(void);

struct nxr_call *__wrap_nxr_call_new(void)
{
    return must_lack_memory ? NULL : __real_nxr_call_new();
}

pmix_status_t __wrap_PMIx_Query_info_nb(pmix_query_t queries[], size_t n, pmix_info_cbfunc_t fn,
                                        void *arg);

pmix_status_t __wrap_PMIx_Query_info_nb(pmix_query_t queries[], size_t n, pmix_info_cbfunc_t fn,
                                        void *arg)
{
    pmix_byte_object_t cards = {.bytes = (char *)(uintptr_t)answer_text};
    pmix_info_t info;

    cr_expect(eq(sz, n, 1));
    cr_expect(eq(str, queries[0].keys[0], (char *)NXR_MEET_KEY));
    if (query_status != PMIX_SUCCESS) {
        return query_status;
    }
    cards.size = answer_text != NULL ? strlen(answer_text) : 0;
    PMIX_INFO_LOAD(&info, NXR_MEET_KEY, &cards, PMIX_BYTE_OBJECT);
    fn(answer_status, &info, 1, arg, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    return PMIX_SUCCESS;
}

static pmix_status_t ask(void **answer_p, size_t *nbytes_p)
{
    static const pmix_proc_t self = {.nspace = SPACE, .rank = 1};

    *answer_p = NULL;
    *nbytes_p = 0;
    return nxr_meeting_of_cards(&self, "card", 4, PATIENCE_NS, answer_p, nbytes_p);
}

Test(meeting, the_answer_is_the_callers)
{
    void *answer;
    size_t nbytes;

    answer_text = "all cards";
    cr_assert(eq(int, ask(&answer, &nbytes), PMIX_SUCCESS));
    cr_assert(eq(sz, nbytes, strlen(answer_text)));
    cr_expect(eq(int, memcmp(answer, answer_text, nbytes), 0));
    free(answer);
}

Test(meeting, without_an_answer_it_fails)
{
    void *answer;
    size_t nbytes;

    must_lack_memory = true;
    cr_expect(eq(int, ask(&answer, &nbytes), PMIX_ERR_NOMEM));
    must_lack_memory = false;
    query_status = PMIX_ERR_UNREACH;
    cr_expect(eq(int, ask(&answer, &nbytes), PMIX_ERR_UNREACH), "PMIx has not taken it");
    query_status = PMIX_SUCCESS;
    cr_expect(eq(int, ask(&answer, &nbytes), PMIX_ERR_NOT_FOUND), "no cards in it");
    answer_text = "all cards";
    answer_status = PMIX_ERR_TIMEOUT;
    cr_expect(eq(int, ask(&answer, &nbytes), PMIX_ERR_TIMEOUT));
    cr_expect(eq(ptr, answer, NULL));
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static const char *host_list;         /* PMIX_NODE_LIST; NULL: unknown */
static const char *const *host_names; /* PMIX_HOSTNAME of each rank; NULL: unknown */
static const char *ranks_of_list;     /* a digit for each rank: its place in the list; ' ': none */

pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                              size_t n_info, pmix_value_t **value_p);

pmix_status_t __wrap_PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                              size_t n_info, pmix_value_t **value_p)
{
    const char *text = strcmp(key, PMIX_NODE_LIST) == 0 ? host_list
                       : host_names != NULL             ? host_names[proc->rank]
                                                        : NULL;

    (void)info;
    (void)n_info;
    if (text == NULL) {
        return PMIX_ERR_NOT_FOUND;
    }
    PMIX_VALUE_CREATE(*value_p, 1);
    (*value_p)->type = PMIX_STRING;
    (*value_p)->data.string = strdup(text);
    return PMIX_SUCCESS;
}

pmix_status_t __wrap_PMIx_Resolve_peers(const char *host, const pmix_nspace_t nspace,
                                        pmix_proc_t **procs_p, size_t *n_procs_p);

/* The hosts of a list are called 0, 1, ... here. */
pmix_status_t __wrap_PMIx_Resolve_peers(const char *host, const pmix_nspace_t nspace,
                                        pmix_proc_t **procs_p, size_t *n_procs_p)
{
    size_t size = strlen(ranks_of_list);

    PMIX_PROC_CREATE(*procs_p, size);
    *n_procs_p = 0;
    for (size_t rank = 0; rank < size; rank++) {
        if (ranks_of_list[rank] == host[0]) {
            pmix_proc_t *proc = &(*procs_p)[(*n_procs_p)++]; /* a macro reads it several times */

            PMIX_LOAD_PROCID(proc, nspace, (pmix_rank_t)rank);
        }
    }
    return PMIX_SUCCESS;
}

static void expect_hosts(int size, const char *expected)
{
    char text[16] = "";

    nxr_nodes_read(SPACE, size, PATIENCE_NS);
    for (int rank = 0; rank < size; rank++) {
        text[rank] = (char)('0' + nxr_node_of(rank));
    }
    cr_expect(eq(str, text, (char *)expected));
}

Test(meeting, hosts_are_numbered_by_their_first_ranks)
{
    host_list = "0,1,2";
    ranks_of_list = "2200";
    expect_hosts(4, "0011");
    cr_expect(eq(int, nxr_n_nodes(), 2), "one of the list has no ranks");
}

/* As a small job in a large allocation has it. */
Test(meeting, more_hosts_than_ranks_are_no_damage)
{
    host_list = "0,1,2,3,4";
    ranks_of_list = "44";
    expect_hosts(2, "00");
    cr_expect(eq(int, nxr_n_nodes(), 1));
    ranks_of_list = "24";
    expect_hosts(2, "01");
}

Test(meeting, ranks_that_the_list_lacks_are_asked_for_the_names_of_their_hosts)
{
    static const char *const names[] = {"a", "b", "a", "c", "b"};

    host_list = "0,1";
    ranks_of_list = "01  1";
    host_names = names;
    expect_hosts(5, "01021");
    cr_expect(eq(int, nxr_n_nodes(), 3));
}

Test(meeting, without_hosts_each_rank_is_one_of_its_own)
{
    static const char *const names[] = {"a", "b", NULL};

    ranks_of_list = "   ";
    expect_hosts(3, "012");
    cr_expect(eq(int, nxr_n_nodes(), 3), "no list");
    host_list = "0";
    host_names = names;
    expect_hosts(3, "012");
    cr_expect(eq(int, nxr_n_nodes(), 3), "a name is missing");
}
