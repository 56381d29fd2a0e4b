/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a question and waiting for its answer. Lock: see question.h. */
#include "config.h"

#include "control/question.h"
#include "control/dispatch.h"
#include "core/subsystem.h"
#include "core/service.h"
#include "control/wire.h"
#include "util/clock.h"
#include "core/wait.h"

/* A question under way, on the stack of the asking thread. */
struct question {
    struct nxr_list link;
    struct nxr_peer *peer;
    union nxr_wire_message *message; /* the question, then the answer */
    _Atomic int status;              /* NIXL_INPROGRESS until it is answered */
};

static struct nxr_list questions = {&questions, &questions};
static uint64_t question_last_ask;

static void question_end(struct question *question, int status)
{
    nxr_list_remove(&question->link);
    atomic_store_explicit(&question->status, status, memory_order_release);
    nxr_wake_self();
}

void nxr_question_answered(const struct nxr_control_source *source,
                           const union nxr_wire_message *answer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &questions) {
        struct question *question = nxr_list_entry(link, struct question, link);

        if (question->peer == source->peer &&
            question->message->question.ask == answer->question.ask) {
            *question->message = *answer;
            question_end(question, NIXL_OK);
        }
    }
}

void nxr_questions_end(struct nxr_peer *peer)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &questions) {
        struct question *question = nxr_list_entry(link, struct question, link);

        if (question->peer == peer) {
            question_end(question, NIXL_E_PEER_LOST);
        }
    }
}

static bool question_is_answered(void *arg)
{
    const struct question *question = arg;

    return atomic_load_explicit(&question->status, memory_order_acquire) != NIXL_INPROGRESS ||
           nxr_peer_is_lost(question->peer);
}

/*
 * Send the question once the state of the connection is known. False: the rank cannot be reached.
 */
static bool question_send(struct question *question)
{
    struct nxr_peer *peer = question->peer;
    bool is_up;

    pthread_mutex_lock(&nxr_job.lock);
    is_up = atomic_load(&peer->connection) == NXR_CONNECTION_UP && peer->transport != NULL;
    if (is_up) {
        question->message->question.ask = ++question_last_ask;
        nxr_list_append(&questions, &question->link);
        nxr_peer_tell(peer, question->message);
        nxr_service_kick();
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return is_up;
}

int nxr_question_ask(struct nxr_peer *peer, union nxr_wire_message *message, int64_t timeout_ns)
{
    struct question question = {.peer = peer, .message = message};
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = nxr_peer_connect(peer, timeout_ns), answer;

    nxr_list_init(&question.link);
    atomic_init(&question.status, NIXL_INPROGRESS);
    if (status != NIXL_OK || nxr_peer_is_lost(peer)) {
        return status == NIXL_OK ? NIXL_E_PEER_LOST : status;
    }
    if (!question_send(&question)) {
        return nxr_peer_is_lost(peer) ? NIXL_E_PEER_LOST : NIXL_E_UNSUPPORTED;
    }
    status = nxr_wait_as(question_is_answered, &question, nxr_left(timeout_ns, deadline),
                         nxr_describe_reason,
                         &(const struct nxr_reason){.kind = NXR_WAIT_ANSWER, .peer = peer->rank});
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_remove(&question.link);
    pthread_mutex_unlock(&nxr_job.lock);
    answer = atomic_load(&question.status);
    if (answer != NIXL_INPROGRESS) {
        return answer;
    }
    return nxr_peer_is_lost(peer) ? NIXL_E_PEER_LOST : status;
}

static void question_register(void)
{
    nxr_control_register(NXR_WIRE_DECIDED, nxr_question_answered);
    nxr_control_register(NXR_WIRE_GRANT, nxr_question_answered);
    nxr_control_register(NXR_WIRE_BECAUSE, nxr_question_answered);
}

const struct nxr_subsystem nxr_question_subsystem = {
    .name = "question",
    .register_handlers = question_register,
};
