/* SPDX-License-Identifier: Apache-2.0 */
/* Which messages answer a question: of the rank that was asked, with its number and of its kind. */
#include "config.h"

#include "control/dispatch.h"
#include "control/question.h"
#include "control/wire.h"
#include "core/carrier.h"
#include "core/control.h"
#include "core/job.h"
#include "core/service.h"

#include "test/unit/unit.h"

static struct nxr_peer peers[3], *table[] = {&peers[0], &peers[1], &peers[2]};
static const struct nxr_transport transport = {.name = "made up"};

/* What comes at once when the question is sent. */
static struct {
    int rank; /* the sender's; -1: no message has come */
    enum nxr_wire_type type;
    int off; /* its number, from that of the question */
} answers[2];

static void question_case_send(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    (void)peer;
    for (int i = 0; i < 2 && answers[i].rank >= 0; i++) {
        const struct nxr_control_source source = {.peer = &peers[answers[i].rank]};
        union nxr_wire_message answer;

        nxr_wire_init(&answer, answers[i].type);
        answer.question.ask = message->question.ask + (uint64_t)answers[i].off;
        nxr_question_answered(&source, &answer);
    }
}

static const struct nxr_carrier carrier = {.name = "made up", .send = question_case_send};

/* This process is rank 0 of 3, which are connected. */
static void begin(void)
{
    static const unsigned char nonce[NXR_NONCE_NBYTES] = {1};

    nxr_service_is_broken(); /* finds no descriptors: from here no service thread is woken */
    pthread_mutex_init(&nxr_job.lock, NULL);
    nxr_job.size = 3;
    nxr_job.n_numbers = 3;
    nxr_job.peers = table;
    nxr_job.event_fd = -1;
    cr_assert_eq(nxr_control_create(&nxr_job.self, 3, nonce, &nxr_job.control, &nxr_job.control_fd),
                 NIXL_OK);
    atomic_store(&nxr_job.state, NXR_STATE_READY);
    for (int rank = 1; rank < 3; rank++) {
        peers[rank].rank = rank;
        peers[rank].carrier = &carrier;
        atomic_store(&peers[rank].transport, &transport);
        atomic_store(&peers[rank].connection, NXR_CONNECTION_UP);
    }
}

TestSuite(question, .init = begin, .timeout = 60);

/* Ask rank 1 why; *type_p is what has answered. */
static int ask(enum nxr_wire_type *type_p)
{
    union nxr_wire_message message;
    int status;

    nxr_wire_init(&message, NXR_WIRE_WHY);
    status = nxr_question_ask(&peers[1], &message, 0);
    *type_p = message.header.type;
    return status;
}

static void come(int which, int rank, enum nxr_wire_type type, int off)
{
    answers[which].rank = rank;
    answers[which].type = type;
    answers[which].off = off;
}

Test(question, its_answer_ends_it)
{
    enum nxr_wire_type type;

    come(0, 1, NXR_WIRE_BECAUSE, 0);
    come(1, -1, 0, 0);
    cr_expect_eq(ask(&type), NIXL_OK);
    cr_expect_eq(type, NXR_WIRE_BECAUSE);
}

Test(question, other_messages_do_not_end_it)
{
    enum nxr_wire_type type;

    come(1, -1, 0, 0);
    come(0, 2, NXR_WIRE_BECAUSE, 0);
    cr_expect_eq(ask(&type), NIXL_INPROGRESS, "of another rank");
    come(0, 1, NXR_WIRE_BECAUSE, -1);
    cr_expect_eq(ask(&type), NIXL_INPROGRESS, "to an earlier question");
    come(0, 1, NXR_WIRE_GRANT, 0);
    cr_expect_eq(ask(&type), NIXL_INPROGRESS, "to a question of another kind");
    cr_expect_eq(type, NXR_WIRE_WHY);
    come(1, 1, NXR_WIRE_BECAUSE, 0);
    cr_expect_eq(ask(&type), NIXL_OK);
    cr_expect_eq(type, NXR_WIRE_BECAUSE);
}
