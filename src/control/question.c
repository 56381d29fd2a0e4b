/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a question and waiting for its answer. Lock: see question.h. */
#include "config.h"

#include "control/question.h"
#include "control/dispatch.h"
#include "core/asking.h"
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
    struct nxr_asking *asking;       /* NULL: nobody cancels it */
};

/* A connection is waited for so long before the thread looks whether it is canceled. */
#define LOOK_NS (50 * NXR_MS)

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
            question->message->question.ask == answer->question.ask &&
            question->message->header.type + 1 == answer->header.type) {
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

static bool question_is_canceled(const struct question *question)
{
    return question->asking != NULL && nxr_asking_is_canceled(question->asking);
}

static bool question_is_answered(void *arg)
{
    const struct question *question = arg;

    return atomic_load_explicit(&question->status, memory_order_acquire) != NIXL_INPROGRESS ||
           nxr_peer_is_lost(question->peer) || question_is_canceled(question);
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

/* Connect to the peer, as nxr_peer_connect(). */
static int question_connect(const struct question *question, int64_t timeout_ns, int64_t deadline)
{
    for (;;) {
        const int64_t left = nxr_left(timeout_ns, deadline);
        const bool is_last = question->asking == NULL || left <= LOOK_NS;
        int status = nxr_peer_connect(question->peer, is_last ? left : LOOK_NS);

        if (question_is_canceled(question)) {
            return NIXL_E_CANCELED;
        }
        if (is_last || status != NIXL_E_TIMEOUT) {
            return status;
        }
    }
}

static int question_ask(struct question *question, int64_t timeout_ns)
{
    struct nxr_peer *peer = question->peer;
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = question_connect(question, timeout_ns, deadline), answer;

    nxr_list_init(&question->link);
    atomic_init(&question->status, NIXL_INPROGRESS);
    if (status != NIXL_OK || nxr_peer_is_lost(peer)) {
        return status == NIXL_OK ? NIXL_E_PEER_LOST : status;
    }
    if (!question_send(question)) {
        return nxr_peer_is_lost(peer) ? NIXL_E_PEER_LOST : NIXL_E_UNSUPPORTED;
    }
    status = nxr_wait_as(question_is_answered, question, nxr_left(timeout_ns, deadline),
                         nxr_describe_reason,
                         &(const struct nxr_reason){.kind = NXR_WAIT_ANSWER, .peer = peer->rank});
    pthread_mutex_lock(&nxr_job.lock);
    nxr_list_remove(&question->link);
    pthread_mutex_unlock(&nxr_job.lock);
    answer = atomic_load(&question->status);
    if (answer != NIXL_INPROGRESS) {
        return answer;
    }
    if (nxr_peer_is_lost(peer)) {
        return NIXL_E_PEER_LOST;
    }
    return question_is_canceled(question) ? NIXL_E_CANCELED : status;
}

int nxr_question_ask(struct nxr_peer *peer, union nxr_wire_message *message, int64_t timeout_ns)
{
    struct question question = {.peer = peer, .message = message};

    return question_ask(&question, timeout_ns);
}

static void wake_asking(struct nxr_asking *asking)
{
    (void)asking;
    nxr_wake_self();
}

int nxr_question_ask_openly(struct nxr_peer *peer, union nxr_wire_message *message,
                            int64_t timeout_ns)
{
    struct nxr_asking asking;
    struct question question = {.peer = peer, .message = message, .asking = &asking};
    int status;

    nxr_asking_begin(&asking, wake_asking);
    status = question_ask(&question, timeout_ns);
    nxr_asking_end(&asking);
    return status;
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
