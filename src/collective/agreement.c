/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registers of this process, and visits to those of other ranks. A register is kept until this
 * process has written MAX_REGISTERS later ones. That is long enough unless a member that asks for
 * it learned of a death or a failure only after the others had made that many teams. Lock:
 * registers_lock, taken last.
 */
#include "config.h"

#include "collective/agreement.h"
#include "control/dispatch.h"
#include "control/question.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "core/wait.h"

#include <string.h>

#define MAX_REGISTERS (64u << 10)
#define N_BUCKETS     (16u << 10)

/* How often a visitor checks whether its own rank is leaving the job. */
#define ANSWER_NS (200 * NXR_MS)

#define LATE_NS (1 * NXR_S) /* how long after a deadline an answer is awaited */

/* A verdict on a call. Registers are counted from 1; their numbers follow the order of writing. */
struct nxr_register {
    uint64_t call;
    struct nxr_verdict verdict;
    bool is_written; /* false: it is only known that there is such a call */
    uint32_t older;  /* the next one of the bucket; 0: none */
};

static pthread_mutex_t registers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_register registers[MAX_REGISTERS + 1]; /* [0] is unused */
static uint32_t newest_of[N_BUCKETS];
static uint32_t n_registers;        /* those that were written */
static uint32_t agreement_next = 1; /* where the next one goes */
static atomic_bool agreement_is_stopping;
static nxr_agreement_is_with_fn *agreement_is_with;

void nxr_agreements_set_stopping(bool is_stopping)
{
    atomic_store(&agreement_is_stopping, is_stopping);
}

bool nxr_agreements_are_stopping(void)
{
    return atomic_load_explicit(&agreement_is_stopping, memory_order_relaxed);
}

/* ---- the own registers: all under the lock --------------------------------------------------- */

static uint32_t *agreement_bucket_of(uint64_t call)
{
    return &newest_of[call % N_BUCKETS];
}

static struct nxr_register *agreement_find(uint64_t call)
{
    uint32_t i = *agreement_bucket_of(call);

    while (i != 0 && registers[i].call != call) {
        i = registers[i].older;
    }
    return i != 0 ? &registers[i] : NULL;
}

/* Remove the oldest register from its bucket, in which it is the last one. */
static void agreement_drop(uint32_t oldest)
{
    uint32_t *link = agreement_bucket_of(registers[oldest].call);

    while (*link != oldest) {
        link = &registers[*link].older;
    }
    *link = 0;
}

static struct nxr_register *agreement_append(uint64_t call)
{
    uint32_t *bucket = agreement_bucket_of(call);
    struct nxr_register *added = &registers[agreement_next];

    if (n_registers == MAX_REGISTERS) {
        agreement_drop(agreement_next);
    } else {
        n_registers++;
    }
    *added = (struct nxr_register){.call = call, .older = *bucket};
    *bucket = agreement_next;
    agreement_next = agreement_next % MAX_REGISTERS + 1;
    return added;
}

/* ---- reading and writing --------------------------------------------------------------------- */

struct nxr_verdict nxr_agreement_write(uint64_t call, const struct nxr_verdict *verdict)
{
    struct nxr_register *found;
    struct nxr_verdict written;

    pthread_mutex_lock(&registers_lock);
    found = agreement_find(call);
    if (found == NULL) {
        found = agreement_append(call);
    }
    if (!found->is_written) {
        found->verdict = *verdict;
        found->is_written = true;
    }
    written = found->verdict;
    pthread_mutex_unlock(&registers_lock);
    return written;
}

bool nxr_agreement_is_written(uint64_t call)
{
    const struct nxr_register *found;
    bool is_written;

    pthread_mutex_lock(&registers_lock);
    found = agreement_find(call);
    is_written = found != NULL && found->is_written;
    pthread_mutex_unlock(&registers_lock);
    return is_written;
}

void nxr_agreement_admit(uint64_t call)
{
    pthread_mutex_lock(&registers_lock);
    if (agreement_find(call) == NULL) {
        (void)agreement_append(call);
    }
    pthread_mutex_unlock(&registers_lock);
}

/*
 * May that peer visit the register of a call? One of another job only if it takes part, or is in a
 * team with this process: then the call may be on that team, and this process has yet to make it.
 */
static bool agreement_is_admitted(uint64_t call, const struct nxr_peer *peer)
{
    bool is_known;

    if (!nxr_peer_is_attached(peer)) {
        return true;
    }
    pthread_mutex_lock(&registers_lock);
    is_known = agreement_find(call) != NULL;
    pthread_mutex_unlock(&registers_lock);
    return is_known || agreement_is_with(&peer->identity);
}

/* A peer visits this process's register. */
static void agreement_asked(const struct nxr_control_source *source,
                            const union nxr_wire_message *message)
{
    const struct nxr_wire_verdict *question = &message->verdict;
    union nxr_wire_message answer;

    nxr_wire_init(&answer, NXR_WIRE_DECIDED);
    answer.verdict.ask = question->ask;
    if (!agreement_is_admitted(question->call, source->peer)) {
        answer.verdict.verdict = (struct nxr_verdict){.status = NIXL_E_CANCELED, .member = -1};
    } else {
        answer.verdict.verdict = nxr_agreement_write(question->call, &question->verdict);
    }
    nxr_peer_tell(source->peer, &answer);
    nxr_wake_self(); /* a thread that takes part in the call notices that it has failed */
}

void nxr_agreement_register(nxr_agreement_is_with_fn *is_with)
{
    agreement_is_with = is_with;
    nxr_control_register(NXR_WIRE_PROPOSE, agreement_asked);
}

void nxr_agreements_forget(void)
{
    pthread_mutex_lock(&registers_lock);
    memset(newest_of, 0, sizeof(newest_of));
    n_registers = 0;
    agreement_next = 1;
    pthread_mutex_unlock(&registers_lock);
}

/* ---- visiting -------------------------------------------------------------------------------- */

/* Visit the register of another rank. A rank that is dead or unreachable has none. */
static void agreement_visit(uint64_t call, int rank, int64_t deadline,
                            struct nxr_verdict *verdict_p)
{
    struct nxr_peer *peer = nxr_peer_get(rank);
    union nxr_wire_message message;
    int status = NIXL_E_TIMEOUT;

    if (peer == NULL) {
        nxr_error(COLL, "no memory to ask %s for the outcome of a team call", nxr_rank_name(rank));
        return;
    }
    do {
        nxr_wire_init(&message, NXR_WIRE_PROPOSE);
        message.verdict.call = call;
        message.verdict.verdict = *verdict_p;
        status = nxr_question_ask(peer, &message, ANSWER_NS);
    } while (status == NIXL_E_TIMEOUT && !nxr_agreements_are_stopping() &&
             (deadline == 0 || nxr_now_ns() - LATE_NS < deadline));
    if (status == NIXL_OK) {
        *verdict_p = message.verdict.verdict;
    } else {
        nxr_debug(COLL, "no answer from %s about the outcome of a team call: %s",
                  nxr_peer_name(peer), nixl_strerror(status));
    }
}

/* Success in this process's own register is final: all visitors of that register adopt it. */
static bool is_final(uint64_t call, const struct nxr_verdict *verdict)
{
    return verdict->status == NIXL_OK && nxr_agreement_write(call, verdict).status == NIXL_OK;
}

int nxr_agreement_visit(uint64_t call, const int *ranks, int size, int64_t deadline,
                        struct nxr_verdict *verdict_p)
{
    for (int i = 0; i < size && !is_final(call, verdict_p); i++) {
        if (ranks[i] == nxr_job.rank) {
            *verdict_p = nxr_agreement_write(call, verdict_p);
        } else {
            agreement_visit(call, ranks[i], deadline, verdict_p);
        }
        if (nxr_agreements_are_stopping()) {
            return NIXL_E_CANCELED;
        }
    }
    return NIXL_OK;
}
