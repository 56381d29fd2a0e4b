/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others see of this process's attachments: a section of its observation page, which is
 * appended when the first process is attached. Lock: job.lock.
 */
#include "config.h"

#include "attach/attach.h"
#include "core/observe.h"
#include "util/clock.h"
#include "util/log.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static struct nxr_observe_attached *observed; /* NULL: none yet, or no memory for it */

static struct nxr_attached_record *observed_find(int number)
{
    for (int i = 0; observed != NULL && i < NXR_OBSERVE_N_ATTACHED; i++) {
        struct nxr_attached_record *record = &observed->records[i];

        if (number < 0 ? record->is_used == 0 : record->is_used != 0 && record->number == number) {
            return record;
        }
    }
    return NULL;
}

/* What is slower than shared memory could be, and why. */
static void observed_note(const struct nxr_peer *peer, char *note, size_t nbytes)
{
    bool is_local = peer->control != NULL; /* its connection is not up yet */
    pid_t pid = is_local ? nxr_peer_pid(peer) : 0;
    int error;

    note[0] = '\0';
    if (!is_local) {
        if (nxr_card_may_be_local(&nxr_job.card.head, &peer->card)) {
            snprintf(note, nbytes, "on this host, but no shared memory: %.150s", peer->why_not);
        }
    } else if (pid <= 0) {
        snprintf(note, nbytes,
                 "no pid names it in this PID namespace: registered memory goes through a buffer, "
                 "and memory of cudaMalloc() is not reached");
    } else if ((error = nxr_peer_prove_pid(peer, pid)) != 0) {
        snprintf(note, nbytes,
                 "process_vm_readv is refused (%s): registered memory goes through a buffer",
                 strerror(error));
    }
}

void nxr_attach_observe(const struct nxr_peer *peer)
{
    const struct nxr_transport *transport = atomic_load(&peer->transport);
    struct nxr_attached_record *record, filled = {.is_used = 1,
                                                  .number = peer->rank,
                                                  .rank = peer->identity.rank,
                                                  .job = peer->identity.job,
                                                  .incarnation = peer->identity.incarnation,
                                                  .since_ns = nxr_now_ns()};

    if (observed == NULL) {
        observed = nxr_observe_add_section(NXR_OBSERVE_ATTACHED, NXR_OBSERVE_ATTACHED_VERSION,
                                           sizeof(*observed));
    }
    snprintf(filled.name, sizeof(filled.name), "%s", nxr_attach_name(peer));
    snprintf(filled.host, sizeof(filled.host), "%s", peer->card.host);
    snprintf(filled.transport, sizeof(filled.transport), "%s",
             transport != NULL ? transport->name : "");
    observed_note(peer, filled.note, sizeof(filled.note));
    nxr_info(HOST, "%s, attached by '%s', is reached by %s%s%s", nxr_peer_name(peer), filled.name,
             filled.transport, filled.note[0] != '\0' ? "; " : "", filled.note);
    record = observed_find(-1);
    if (observed != NULL) {
        atomic_fetch_add(&observed->n, 1);
    }
    if (record == NULL) {
        return;
    }
    nxr_observe_write_begin(&record->counter);
    memcpy(&record->is_used, &filled.is_used,
           sizeof(filled) - offsetof(struct nxr_attached_record, is_used));
    nxr_observe_write_end(&record->counter);
}

void nxr_attach_observe_end(struct nxr_peer *peer)
{
    struct nxr_attached_record *record;

    if (!nxr_peer_is_attached(peer) || !peer->is_joined || observed == NULL) {
        return;
    }
    atomic_fetch_sub(&observed->n, 1);
    record = observed_find(peer->rank);
    if (record != NULL) {
        nxr_observe_write_begin(&record->counter);
        record->is_used = 0;
        nxr_observe_write_end(&record->counter);
    }
}

void nxr_attach_observe_stop(void)
{
    observed = NULL;
}
