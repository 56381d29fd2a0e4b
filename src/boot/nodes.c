/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of the job. Every engine provides their names (PMIX_NODE_LIST) and the ranks on each
 * (PMIx_Resolve_peers); anything else differs between engines or is missing. Host names are
 * unreliable in containers, so this decides which ranks to ask and to watch; host/connect.c finds
 * out which can share memory.
 *
 * core/node.c keeps the result. No lock: only the joining thread runs this.
 */
#include "config.h"

#include "boot/nodes.h"
#include "boot/call.h"
#include "core/node.h"
#include "util/clock.h"
#include "util/log.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS (5 * NXR_S) /* a launcher that has not answered by then never will */

/* The question, and room for the answer. */
struct question {
    pmix_nspace_t nspace;
    int size;
    int nodes[]; /* -1: not known */
};

/* Give this number to the ranks on a host. Some hosts of an allocation may have no ranks. */
static void number_ranks(struct question *question, const char *host, int number)
{
    pmix_proc_t *procs = NULL;
    size_t n_procs = 0;

    if (PMIx_Resolve_peers(host, question->nspace, &procs, &n_procs) != PMIX_SUCCESS) {
        return;
    }
    for (size_t i = 0; i < n_procs; i++) {
        if (procs[i].rank < (pmix_rank_t)question->size) {
            question->nodes[procs[i].rank] = number;
        }
    }
    PMIX_PROC_FREE(procs, n_procs);
}

/*
 * The launcher's text for `key` of a rank, or of all (PMIX_RANK_WILDCARD), to be freed; NULL: none.
 */
static char *ask_text(const struct question *question, pmix_rank_t rank, const char *key)
{
    pmix_value_t *value = NULL;
    pmix_proc_t proc;
    char *text = NULL;

    PMIX_LOAD_PROCID(&proc, question->nspace, rank);
    if (PMIx_Get(&proc, key, NULL, 0, &value) != PMIX_SUCCESS) {
        return NULL;
    }
    if (value->type == PMIX_STRING && value->data.string != NULL) {
        text = strdup(value->data.string);
    }
    PMIX_VALUE_RELEASE(value);
    return text;
}

static bool nodes_is_complete(const struct question *question)
{
    for (int rank = 0; rank < question->size; rank++) {
        if (question->nodes[rank] < 0) {
            return false;
        }
    }
    return true;
}

/* Give each rank the number of the lowest rank whose host has the same name. */
static void number_by_names(struct question *question)
{
    char **names = calloc((size_t)question->size, sizeof(*names));

    for (int rank = 0; names != NULL && rank < question->size; rank++) {
        int first = 0;

        question->nodes[rank] = -1;
        names[rank] = ask_text(question, (pmix_rank_t)rank, PMIX_HOSTNAME);
        if (names[rank] == NULL) {
            break;
        }
        while (strcmp(names[first], names[rank]) != 0) {
            first++;
        }
        question->nodes[rank] = first;
    }
    for (int rank = 0; names != NULL && rank < question->size; rank++) {
        free(names[rank]);
    }
    free(names);
}

/*
 * One query per host should be enough. But if a host calls itself by another name, its ranks may
 * not be found by the name in the list; then query each rank.
 */
static pmix_status_t nodes_ask(void *arg)
{
    struct question *question = arg;
    char *list = ask_text(question, PMIX_RANK_WILDCARD, PMIX_NODE_LIST), *rest = NULL;
    int number = 0;

    if (list == NULL) {
        return PMIX_ERR_NOT_FOUND;
    }
    for (char *host = strtok_r(list, ",", &rest); host != NULL; host = strtok_r(NULL, ",", &rest)) {
        number_ranks(question, host, number++);
    }
    free(list);
    if (!nodes_is_complete(question)) {
        number_by_names(question);
    }
    return PMIX_SUCCESS;
}

/*
 * Renumber the hosts in the order of their first ranks, so that all ranks agree even if the list's
 * order differs between them. There may be more hosts in the list than ranks. Returns the number of
 * hosts of the ranks; 0: a rank has no host, or no memory.
 */
static int renumber(int *list, int size)
{
    int *firsts; /* by old number: the new number + 1 */
    int last = 0, n = 0;

    for (int rank = 0; rank < size; rank++) {
        if (list[rank] < 0) {
            return 0;
        }
        last = list[rank] > last ? list[rank] : last;
    }
    firsts = calloc((size_t)last + 1, sizeof(*firsts));
    for (int rank = 0; firsts != NULL && rank < size; rank++) {
        if (firsts[list[rank]] == 0) {
            firsts[list[rank]] = ++n;
        }
        list[rank] = firsts[list[rank]] - 1;
    }
    free(firsts);
    return n;
}

void nxr_nodes_read(const char *nspace, int size, int64_t timeout_ns)
{
    size_t nbytes = (size_t)size * sizeof(int);
    struct question *question;
    pmix_status_t status;
    int *nodes, n_nodes = 0;

    nxr_nodes_set(NULL, size);
    question = size > 1 ? malloc(sizeof(*question) + nbytes) : NULL;
    if (question == NULL) {
        return;
    }
    PMIX_LOAD_NSPACE(question->nspace, nspace);
    question->size = size;
    memset(question->nodes, 0xff, nbytes);
    status = nxr_call_blocking(nodes_ask, question, timeout_ns < ASK_NS ? timeout_ns : ASK_NS);
    if (status == PMIX_ERR_TIMEOUT) {
        nxr_warn(BOOT, "the launcher does not report which ranks share a host");
        return;
    }
    nodes = malloc(nbytes);
    if (nodes != NULL) {
        memcpy(nodes, question->nodes, nbytes);
        n_nodes = renumber(nodes, size);
    }
    free(question);
    if (n_nodes > 0) {
        nxr_nodes_set(nodes, n_nodes);
        return;
    }
    nxr_debug(BOOT, "cannot find out which ranks share a host: %s", PMIx_Error_string(status));
    free(nodes);
}
