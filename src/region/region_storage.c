/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why the storage of a region has failed: who reads or writes it knows. Owners tell other ranks
 * when they have a failure to report. No lock of its own.
 */
#include "config.h"

#include "control/question.h"
#include "control/wire.h"
#include "core/request.h"
#include "core/subsystem.h"
#include "region/publish.h"
#include "region/region.h"
#include "util/clock.h"

#include <string.h>

#define ANSWER_NS (2 * NXR_S) /* the owner's service thread answers at once */

/* The last failure of a region of this rank, or with generation 0 of any. Holds job.lock. */
static void storage_why_own(uint64_t generation, uint32_t id, struct nxr_storage_why *why)
{
    const struct nxr_range *range = NULL;

    memset(why, 0, sizeof(*why));
    if (generation != 0) {
        if (atomic_load(&nxr_job.control->generations[id]) != generation) {
            return; /* closed meanwhile */
        }
        range = nxr_publish_memory(id).range;
        if (range == NULL || !range->kind->is_storage) {
            return;
        }
        range->kind->why(range, why);
        return;
    }
    nxr_memory_why(why);
}

static void storage_take_why(const struct nxr_control_source *source,
                             const union nxr_wire_message *question)
{
    union nxr_wire_message message;
    struct nxr_storage_why why;

    storage_why_own(question->why.generation, question->why.id, &why);
    nxr_wire_init(&message, NXR_WIRE_BECAUSE);
    message.because.ask = question->why.ask;
    message.because.error = why.error;
    memcpy(message.because.text, why.text, sizeof(message.because.text));
    nxr_peer_tell(source->peer, &message);
}

/* The last failure of a peer's segment that this rank reads itself, if it is open. */
static void storage_why_read(const struct nxr_segment *segment, struct nxr_storage_why *why)
{
    pthread_mutex_lock(&nxr_job.lock);
    if (segment->readable != NULL && atomic_load(&segment->generation) != 0) {
        segment->readable->kind->why(segment->readable, why);
    }
    pthread_mutex_unlock(&nxr_job.lock);
}

/* Ask that peer for its last failure; without an answer `why` stays empty, which is no error. */
static void storage_why_ask(struct nxr_peer *peer, const struct nxr_segment *segment,
                            struct nxr_storage_why *why)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_WHY);
    message.why.generation = segment != NULL ? segment->key.generation : 0;
    message.why.id = segment != NULL ? segment->id : 0;
    if (nxr_question_ask(peer, &message, ANSWER_NS) == NIXL_OK) {
        why->error = message.because.error;
        memcpy(why->text, message.because.text, sizeof(why->text));
    }
}

/*
 * As nxr_storage_why. Of gets that no call waited for, the flush does not know the segment: they
 * are looked for here if the owner knows of no failure.
 */
static const char *storage_why(enum nxr_op_kind kind, int rank, const struct nxr_segment *segment,
                               int *error_p)
{
    static __thread struct nxr_storage_why why;
    struct nxr_peer *peer = nxr_is_rank(rank) ? nxr_peer_find(rank) : NULL;
    bool is_own = rank == nxr_job.rank;

    memset(&why, 0, sizeof(why));
    if (!is_own && segment != NULL && kind == NXR_OP_GET) {
        storage_why_read(segment, &why);
    }
    if (!is_own && why.error == 0 && peer != NULL) {
        storage_why_ask(peer, segment, &why);
    }
    if (is_own || (why.error == 0 && segment == NULL)) {
        pthread_mutex_lock(&nxr_job.lock);
        storage_why_own(segment != NULL ? segment->key.generation : 0,
                        segment != NULL ? segment->id : 0, &why);
        pthread_mutex_unlock(&nxr_job.lock);
    }
    *error_p = why.error;
    return why.text;
}

static void storage_register(void)
{
    nxr_storage_why = storage_why;
    nxr_control_register(NXR_WIRE_WHY, storage_take_why);
}

const struct nxr_subsystem nxr_storage_subsystem = {
    .name = "storage",
    .register_handlers = storage_register,
};
