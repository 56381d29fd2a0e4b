/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx's thread gives the answers to upcalls, never the caller's: PMIx 4.2 changes the list of what
 * it sends to a client on the thread that answers, without a lock. PMIx's thread is made up here:
 * what it is asked to call is kept until the test has it called.
 */
#include "config.h"

#include "launcher/server.h"

#include "test/unit/unit.h"
#include <stdlib.h>
#include <string.h>

TestSuite(upcall, .timeout = 10);

static pmix_op_cbfunc_t asked;
static void *asked_arg;
static int n_answers;
static pmix_status_t answered;
static size_t n_answered;
static char answered_name[PMIX_MAX_NSLEN + 1];

void __wrap_PMIx_server_deregister_client(const pmix_proc_t *proc, pmix_op_cbfunc_t function,
                                          void *arg);

/* PMIx's calls the function on its thread. */
void __wrap_PMIx_server_deregister_client(const pmix_proc_t *proc, pmix_op_cbfunc_t function,
                                          void *arg)
{
    cr_assert_str_neq(proc->nspace, "");
    cr_assert_null(asked, "one answer asks for one turn");
    asked = function;
    asked_arg = arg;
}

static void take_turn(void)
{
    pmix_op_cbfunc_t function = asked;

    cr_assert_not_null(function);
    asked = NULL;
    function(PMIX_SUCCESS, asked_arg);
}

static void op_done(pmix_status_t status, void *arg)
{
    cr_assert_eq(arg, &n_answers);
    answered = status;
    n_answers++;
}

static void info_done(pmix_status_t status, pmix_info_t *info, size_t n, void *arg,
                      pmix_release_cbfunc_t release, void *release_arg)
{
    op_done(status, arg);
    n_answered = n;
    cr_assert(n == 0 || PMIX_CHECK_KEY(&info[0], PMIX_QUERY_NUM_PSETS));
    release(release_arg);
}

static void lookup_done(pmix_status_t status, pmix_pdata_t *found, size_t n, void *arg)
{
    op_done(status, arg);
    n_answered = n;
    cr_assert(n == 0 || strcmp(found[0].key, "a.key") == 0);
}

static void spawn_done(pmix_status_t status, pmix_nspace_t nspace, void *arg)
{
    op_done(status, arg);
    strcpy(answered_name, nspace != NULL ? nspace : "none");
}

static void modex_done(pmix_status_t status, const char *data, size_t nbytes, void *arg,
                       pmix_release_cbfunc_t release, void *release_arg)
{
    op_done(status, arg);
    n_answered = nbytes;
    cr_assert(nbytes == 0 || strcmp(data, "blob") == 0);
    release(release_arg);
}

static struct upcall *new_upcall(const struct upcall *like)
{
    struct upcall *call = malloc(sizeof(*call));

    cr_assert_not_null(call);
    *call = *like;
    call->done_arg = &n_answers;
    return call;
}

/* The answer must not have been given yet; then it is, once. */
static void expect_answer(pmix_status_t status)
{
    cr_assert_eq(n_answers, 0, "the caller's thread gave the answer");
    take_turn();
    cr_assert_eq(n_answers, 1);
    cr_assert_eq(answered, status);
    cr_assert_null(asked);
}

Test(upcall, operation_is_answered_on_pmix_thread)
{
    upcall_answer(new_upcall(&(struct upcall){.op_done = op_done}), PMIX_ERR_TIMEOUT);
    expect_answer(PMIX_ERR_TIMEOUT);
}

Test(upcall, query_is_answered_on_pmix_thread_with_its_info)
{
    pmix_info_t *info;
    size_t none = 0;

    PMIX_INFO_CREATE(info, 1);
    PMIX_INFO_LOAD(&info[0], PMIX_QUERY_NUM_PSETS, &none, PMIX_SIZE);
    upcall_answer_info(new_upcall(&(struct upcall){.info_done = info_done}), PMIX_SUCCESS, info, 1);
    expect_answer(PMIX_SUCCESS);
    cr_assert_eq(n_answered, 1);
}

Test(upcall, query_that_fails_has_no_info)
{
    n_answered = 7;
    upcall_answer(new_upcall(&(struct upcall){.info_done = info_done}), PMIX_ERR_NOT_FOUND);
    expect_answer(PMIX_ERR_NOT_FOUND);
    cr_assert_eq(n_answered, 0);
}

Test(upcall, look_up_keeps_what_it_found_until_then)
{
    struct upcall *call = new_upcall(&(struct upcall){.lookup_done = lookup_done});

    PMIX_PDATA_CREATE(call->found, 1);
    PMIX_LOAD_KEY(call->found[0].key, "a.key");
    call->n_found = 1;
    upcall_answer(call, PMIX_SUCCESS);
    expect_answer(PMIX_SUCCESS);
    cr_assert_eq(n_answered, 1);
}

Test(upcall, spawn_keeps_the_name_until_then)
{
    upcall_answer(new_upcall(&(struct upcall){.spawn_done = spawn_done, .text = strdup("job.1")}),
                  PMIX_SUCCESS);
    expect_answer(PMIX_SUCCESS);
    cr_assert_str_eq(answered_name, "job.1");
}

Test(upcall, fence_gives_its_blob_to_pmix)
{
    upcall_answer(new_upcall(&(struct upcall){
                      .modex_done = modex_done, .blob = strdup("blob"), .blob_nbytes = 5}),
                  PMIX_SUCCESS);
    expect_answer(PMIX_SUCCESS);
    cr_assert_eq(n_answered, 5);
}

Test(upcall, upcall_without_a_function_is_only_freed)
{
    upcall_answer(new_upcall(&(struct upcall){.code = 1}), PMIX_SUCCESS);
    take_turn();
    cr_assert_eq(n_answers, 0);
}
