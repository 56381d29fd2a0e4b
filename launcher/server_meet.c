/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting of a space's ranks (util/meet.h). Each rank's request is kept with the rank; when
 * every living rank of the space has made one, all are answered with the cards of all.
 */
#include "config.h"

#include "launcher/server_upcalls.h"
#include "launcher/xalloc.h"
#include "util/meet.h"

#include <stdlib.h>
#include <string.h>

/* The card that came with a request. No bytes: there is none, or no valid one. */
static pmix_byte_object_t card_of(const struct upcall *call)
{
    const pmix_query_t *query = &call->queries[0];
    const pmix_info_t *card = info_find(query->qualifiers, query->nqual, NXR_MEET_KEY);

    return card != NULL && card->value.type == PMIX_BYTE_OBJECT &&
                   card->value.data.bo.size <= NXR_MEET_CARD_MAX
               ? card->value.data.bo
               : (pmix_byte_object_t){.bytes = NULL};
}

/* Append the rank's card to the answer. */
static void append_card(pmix_byte_object_t *answer, const struct rank *rank)
{
    const pmix_byte_object_t card = card_of(rank->meeting);
    const struct nxr_meet_head head = {rank->rank, (uint32_t)card.size};

    if (card.bytes == NULL) {
        return; /* it arrived with one: meet_come() */
    }
    memcpy(answer->bytes + answer->size, &head, sizeof(head));
    memcpy(answer->bytes + answer->size + sizeof(head), card.bytes, card.size);
    answer->size += sizeof(head) + card.size;
}

/* The cards of all ranks that have arrived; the caller frees the bytes. */
static pmix_byte_object_t gather_cards(const struct space *space)
{
    pmix_byte_object_t answer = {.size = 0};
    size_t nbytes = 0;

    for (int i = 0; i < space->n_ranks; i++) {
        if (space->ranks[i].meeting != NULL) {
            nbytes += sizeof(struct nxr_meet_head) + card_of(space->ranks[i].meeting).size;
        }
    }
    answer.bytes = x_calloc(nbytes, 1);
    for (int i = 0; i < space->n_ranks; i++) {
        if (space->ranks[i].meeting != NULL) {
            append_card(&answer, &space->ranks[i]);
        }
    }
    return answer;
}

/* Take the rank's request, to answer it. */
static struct upcall *take_question(struct rank *rank)
{
    struct upcall *call = rank->meeting;

    rank->meeting = NULL;
    rank->space->n_meeting--;
    return call;
}

static pid_t pid_of(const struct upcall *call)
{
    const pmix_query_t *query = &call->queries[0];
    const pmix_info_t *pid = info_find(query->qualifiers, query->nqual, PMIX_PROC_PID);

    return pid != NULL && pid->value.type == PMIX_PID ? pid->value.data.pid : 0;
}

static void answer_all(struct space *space)
{
    pmix_byte_object_t cards = gather_cards(space);

    for (int i = 0; i < space->n_ranks; i++) {
        pmix_info_t *info;

        if (space->ranks[i].meeting != NULL) {
            space->ranks[i].met_pid = pid_of(space->ranks[i].meeting);
            PMIX_INFO_CREATE(info, 1);
            PMIX_INFO_LOAD(info, NXR_MEET_KEY, &cards, PMIX_BYTE_OBJECT);
            upcall_answer_info(take_question(&space->ranks[i]), PMIX_SUCCESS, info, 1);
        }
    }
    free(cards.bytes);
}

static void meet_look(struct space *space)
{
    if (space->n_meeting > 0 && space->n_meeting == space->n_live) {
        answer_all(space);
    }
}

bool meet_wants(const struct upcall *call)
{
    return call->n_queries == 1 && call->queries[0].keys != NULL &&
           call->queries[0].keys[0] != NULL && strcmp(call->queries[0].keys[0], NXR_MEET_KEY) == 0;
}

/* The others consider such a rank lost, and would ignore it. */
static bool is_restarted(struct rank *rank, const struct upcall *call)
{
    rank->was_restarted =
        rank->was_restarted || (rank->met_pid != 0 && rank->met_pid != pid_of(call));
    return rank->was_restarted;
}

void meet_rank_left(struct rank *rank)
{
    rank->met_pid = 0;
}

void meet_come(struct upcall *call)
{
    const pmix_query_t *query = &call->queries[0];
    const pmix_info_t *who = info_find(query->qualifiers, query->nqual, PMIX_PROCID);
    struct rank *rank = NULL;

    if (who != NULL && who->value.type == PMIX_PROC && who->value.data.proc != NULL) {
        rank = rank_find(who->value.data.proc);
    }
    if (rank == NULL || rank->state == RANK_ENDED || card_of(call).bytes == NULL) {
        upcall_answer(call, PMIX_ERR_BAD_PARAM);
        return;
    }
    if (is_restarted(rank, call)) {
        upcall_answer(call, NXR_MEET_RESTARTED);
        return;
    }
    if (rank->meeting != NULL) { /* it has given up waiting, and tries again */
        upcall_answer(take_question(rank), PMIX_ERR_TIMEOUT);
    }
    rank->meeting = call;
    rank->space->n_meeting++;
    meet_look(rank->space);
}

void meet_rank_ended(struct rank *rank)
{
    if (rank->meeting != NULL) {
        upcall_answer(take_question(rank), PMIX_ERR_UNREACH);
    }
    meet_look(rank->space);
}
