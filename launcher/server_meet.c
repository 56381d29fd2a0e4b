/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meetings of a space's ranks (util/meet.h), when they join and when they leave. Each rank's
 * request is kept with the rank; when every living rank of the space has made one, all are
 * answered: those that join with the cards of all.
 */
#include "config.h"

#include "launcher/server_upcalls.h"
#include "launcher/pages.h"
#include "launcher/xalloc.h"
#include "util/meet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The card that came with a request. No bytes: there is none, or no valid one. */
static pmix_byte_object_t card_of(const struct upcall *call)
{
    const pmix_query_t *query = &call->queries[0];
    const pmix_info_t *card = info_find(query->qualifiers, query->nqual, NXR_MEET_KEY);

    return card != NULL && card->value.type == PMIX_BYTE_OBJECT &&
                   card->value.data.bo.bytes != NULL &&
                   card->value.data.bo.size <= NXR_MEET_CARD_MAX
               ? card->value.data.bo
               : (pmix_byte_object_t){.bytes = NULL};
}

/* Without bytes, only the head. */
static void meet_append(pmix_byte_object_t *answer, int rank, const void *bytes, size_t nbytes)
{
    const struct nxr_meet_head head = {rank, bytes != NULL ? (uint32_t)nbytes : 0};

    memcpy(answer->bytes + answer->size, &head, sizeof(head));
    answer->size += sizeof(head);
    if (bytes != NULL) {
        memcpy(answer->bytes + answer->size, bytes, nbytes);
        answer->size += nbytes;
    }
}

/* The card that others get of the rank now. No bytes: none. */
static pmix_byte_object_t card_now(const struct rank *rank)
{
    return rank->meeting != NULL ? card_of(rank->meeting) : rank->card;
}

/* The cards of all ranks that have arrived; the caller frees the bytes. */
static pmix_byte_object_t gather_cards(const struct space *space)
{
    size_t nbytes = sizeof(struct nxr_meet_head) + sizeof(uint64_t);
    pmix_byte_object_t answer = {.size = 0};
    uint64_t change = server_last_change();

    for (int i = 0; i < space->n_ranks; i++) {
        nbytes += sizeof(struct nxr_meet_head) + card_now(&space->ranks[i]).size;
    }
    answer.bytes = x_calloc(nbytes, 1);
    meet_append(&answer, NXR_MEET_CHANGES, &change, sizeof(change));
    for (int i = 0; i < space->n_ranks; i++) {
        const pmix_byte_object_t card = card_now(&space->ranks[i]);

        if (card.bytes != NULL || space->ranks[i].has_left) {
            meet_append(&answer, i, card.bytes, card.size);
        }
    }
    return answer;
}

static void meet_drop_card(struct rank *rank)
{
    free(rank->card.bytes);
    rank->card = (pmix_byte_object_t){.bytes = NULL};
}

/* A rank that may come late gets the cards of the others then. */
static void meet_keep_card(struct rank *rank)
{
    const pmix_byte_object_t card = card_of(rank->meeting);

    meet_drop_card(rank);
    if (session.job->on_failure == ON_FAILURE_RESTART && card.bytes != NULL) {
        rank->card = (pmix_byte_object_t){x_calloc(card.size, 1), card.size};
        memcpy(rank->card.bytes, card.bytes, card.size);
    }
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

static void meet_answer(struct rank *rank, const pmix_byte_object_t *cards)
{
    pmix_info_t *info;

    rank->met_pid = pid_of(rank->meeting);
    rank->has_joined = true;
    meet_keep_card(rank);
    info = info_new(1);
    PMIX_INFO_LOAD(info, NXR_MEET_KEY, cards, PMIX_BYTE_OBJECT);
    upcall_answer_info(take_question(rank), PMIX_SUCCESS, info, 1);
}

static void answer_all(struct space *space)
{
    pmix_byte_object_t cards = gather_cards(space);

    space->has_met = true;
    for (int i = 0; i < space->n_ranks; i++) {
        if (space->ranks[i].meeting != NULL) {
            meet_answer(&space->ranks[i], &cards);
        }
    }
    free(cards.bytes);
}

/* Is it a rank that was started again, has not joined yet, and finds others that have met? */
static bool is_late(const struct rank *rank)
{
    bool is_late = false;

    for (int i = 0; rank->incarnation > 0 && !rank->has_joined && i < rank->space->n_ranks; i++) {
        is_late |= rank->space->ranks[i].card.bytes != NULL;
    }
    return is_late;
}

static void answer_late(struct rank *rank)
{
    pmix_byte_object_t cards;

    server_notify_joined(rank, card_of(rank->meeting));
    cards = gather_cards(rank->space);
    meet_answer(rank, &cards);
    free(cards.bytes);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void leave_answer(struct rank *rank, pmix_status_t status)
{
    struct upcall *call = rank->leaving;
    pmix_info_t *info;
    bool yes = true;

    rank->leaving = NULL;
    if (call == NULL) {
        return;
    }
    info = info_new(1);
    PMIX_INFO_LOAD(info, NXR_MEET_LEAVE_KEY, &yes, PMIX_BOOL);
    upcall_answer_info(call, status, info, 1);
}

/* Have all ranks asked that are still awaited? Then they may go. */
static void leave_look(struct space *space)
{
    for (int i = 0; i < space->n_ranks; i++) {
        const struct rank *rank = &space->ranks[i];

        if (rank->state != RANK_ENDED && !rank->has_left && rank->leaving == NULL) {
            return;
        }
    }
    for (int i = 0; i < space->n_ranks; i++) {
        space->ranks[i].may_leave |= space->ranks[i].leaving != NULL;
        leave_answer(&space->ranks[i], PMIX_SUCCESS);
    }
}

static void leave_come(struct rank *rank, struct upcall *call)
{
    leave_answer(rank, PMIX_ERR_TIMEOUT); /* it has given up waiting, and tries again */
    rank->leaving = call;
    leave_look(rank->space);
}

/* ---- both ------------------------------------------------------------------------------------ */

void meet_look(struct space *space)
{
    if (space->n_meeting > 0 && space->n_meeting == space->n_live) {
        answer_all(space);
    }
    leave_look(space);
}

static bool is_about(const struct upcall *call, const char *key)
{
    return strcmp(call->queries[0].keys[0], key) == 0;
}

bool meet_wants(const struct upcall *call)
{
    return call->n_queries == 1 && call->queries[0].keys != NULL &&
           call->queries[0].keys[0] != NULL &&
           (is_about(call, NXR_MEET_KEY) || is_about(call, NXR_MEET_LEAVE_KEY));
}

/* The rank has started another process as itself: the others consider it lost. */
static bool is_replaced(struct rank *rank, const struct upcall *call)
{
    rank->was_replaced =
        rank->was_replaced || (rank->met_pid != 0 && rank->met_pid != pid_of(call));
    return rank->was_replaced;
}

void meet_rank_left(struct rank *rank)
{
    rank->met_pid = 0;
    rank->has_left = rank->has_joined;
    meet_drop_card(rank);
    leave_answer(rank, PMIX_ERR_UNREACH);
    leave_look(rank->space);
}

/*
 * Keep the page of a process in whose place the rank has another one now, or which joins again
 * after nixl_finalize(): what it has counted and traced is told at the end. Of all ranks together
 * the last ones are kept, as many as the limit of descriptors allows.
 */
static void meet_keep_former(int fd)
{
    static int former[64];
    static size_t n_former;
    size_t n_places = sizeof(former) / sizeof(former[0]);
    int *place;

    n_places = session.n_spare_fds < n_places ? session.n_spare_fds : n_places;
    if (n_places == 0) {
        close(fd);
        return;
    }
    place = &former[n_former++ % n_places];
    if (*place > 0) {
        close(*place);
    }
    *place = fd;
}

static bool meet_is_same_page(int fd, int other)
{
    struct stat first, second;

    return fd > 0 && other > 0 && fstat(fd, &first) == 0 && fstat(other, &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/*
 * Keep what can be observed of the process, which then can be read when it has died. Not of a
 * process in a container of its own, of which nixlrun does not know the pid.
 */
static void meet_keep_page(struct rank *rank, pid_t pid)
{
    int fd = pid > 0 ? pages_open_own(pid) : -1;

    if (rank->page_fd > 0 && !meet_is_same_page(rank->page_fd, fd)) {
        meet_keep_former(rank->page_fd);
    } else if (rank->page_fd > 0) {
        close(rank->page_fd);
    }
    rank->page_fd = fd > 0 ? fd : 0;
}

void meet_come(struct upcall *call)
{
    const pmix_query_t *query = &call->queries[0];
    const pmix_info_t *who = info_find(query->qualifiers, query->nqual, PMIX_PROCID);
    struct rank *rank = NULL;

    if (who != NULL && who->value.type == PMIX_PROC && who->value.data.proc != NULL) {
        rank = rank_find(who->value.data.proc);
    }
    if (rank == NULL || rank->state == RANK_ENDED ||
        (is_about(call, NXR_MEET_KEY) && card_of(call).bytes == NULL)) {
        upcall_answer(call, PMIX_ERR_BAD_PARAM);
        return;
    }
    if (is_about(call, NXR_MEET_LEAVE_KEY)) {
        leave_come(rank, call);
        return;
    }
    if (is_replaced(rank, call)) {
        upcall_answer(call, NXR_MEET_RESTARTED);
        return;
    }
    if (rank->meeting != NULL) { /* it has given up waiting, and tries again */
        upcall_answer(take_question(rank), PMIX_ERR_TIMEOUT);
    }
    meet_keep_page(rank, pid_of(call));
    rank->meeting = call;
    rank->may_leave = rank->has_left = false;
    rank->space->n_meeting++;
    if (is_late(rank)) {
        answer_late(rank);
    } else {
        meet_look(rank->space);
    }
}

void meet_rank_ended(struct rank *rank)
{
    if (rank->meeting != NULL) {
        upcall_answer(take_question(rank), PMIX_ERR_UNREACH);
    }
    leave_answer(rank, PMIX_ERR_UNREACH);
    meet_drop_card(rank);
}
