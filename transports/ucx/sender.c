/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes from which messages come, found by the random number that their address has. A rank
 * would not do: processes of other jobs have the same ones. A process is kept as long as it has an
 * endpoint here. One that has none yet may speak first, and one that has ended may still be heard,
 * so some are kept without: the oldest of which nothing is expected gives way. If it speaks again
 * it is kept anew; pieces of bulk that still arrive then belong to nothing that the core wants, for
 * the core has ended the peer. The core's lock.
 */
#include "config.h"

#include "ucx.h"

#include <stdlib.h>
#include <string.h>

/* `id` is random: its lowest bits do. */
static struct nxr_list *sender_bucket(uint64_t id)
{
    return &nxr_ucx.senders[id % NXR_UCX_N_BUCKETS];
}

void nxr_ucx_senders_init(void)
{
    for (size_t i = 0; i < NXR_UCX_N_BUCKETS; i++) {
        nxr_list_init(&nxr_ucx.senders[i]);
    }
    nxr_list_init(&nxr_ucx.strangers);
    nxr_ucx.n_strangers = 0;
}

static struct nxr_ucx_sender *sender_find(uint64_t id)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, sender_bucket(id)) {
        struct nxr_ucx_sender *sender = nxr_list_entry(link, struct nxr_ucx_sender, link);

        if (sender->id == id) {
            return sender;
        }
    }
    return NULL;
}

static void sender_free(struct nxr_ucx_sender *sender)
{
    nxr_ucx_bulks_forget(sender);
    nxr_ucx.n_strangers -= sender->n_endpoints == 0;
    nxr_list_remove(&sender->stranger_link);
    nxr_list_remove(&sender->cut_link);
    nxr_list_remove(&sender->link);
    free(sender);
}

/* Free the oldest without an endpoint from which nothing is expected. */
static void senders_make_room(void)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &nxr_ucx.strangers) {
        struct nxr_ucx_sender *sender = nxr_list_entry(link, struct nxr_ucx_sender, stranger_link);

        if (sender->has_ended || (nxr_list_is_empty(&sender->bulks) && sender->skip == 0)) {
            sender_free(sender);
            return;
        }
    }
}

/* It has no endpoint. */
static void sender_set_aside(struct nxr_ucx_sender *sender)
{
    if (nxr_ucx.n_strangers >= NXR_UCX_MAX_STRANGERS + (unsigned)nxr_ucx.core->size) {
        senders_make_room();
    }
    nxr_list_append(&nxr_ucx.strangers, &sender->stranger_link);
    nxr_ucx.n_strangers++;
}

static struct nxr_ucx_sender *sender_new(uint64_t id)
{
    struct nxr_ucx_sender *sender = calloc(1, sizeof(*sender));

    if (sender == NULL) {
        return NULL;
    }
    sender->id = id;
    nxr_list_init(&sender->bulks);
    nxr_list_init(&sender->cut_link);
    nxr_list_init(&sender->stranger_link);
    nxr_list_append(sender_bucket(id), &sender->link);
    return sender;
}

struct nxr_ucx_sender *nxr_ucx_sender_of(const void *header, size_t header_nbytes)
{
    struct nxr_ucx_sender *sender;
    uint64_t id;

    if (header_nbytes != sizeof(id)) {
        return NULL;
    }
    memcpy(&id, header, sizeof(id));
    sender = sender_find(id);
    if (sender == NULL) {
        sender = sender_new(id);
        if (sender != NULL) {
            sender_set_aside(sender);
        }
    }
    return sender;
}

struct nxr_ucx_sender *nxr_ucx_sender_hold(uint64_t id)
{
    struct nxr_ucx_sender *sender = sender_find(id);

    if (sender == NULL) {
        sender = sender_new(id);
    } else if (sender->n_endpoints == 0) {
        nxr_list_remove(&sender->stranger_link);
        nxr_ucx.n_strangers--;
    }
    if (sender != NULL) {
        sender->has_ended = false;
        sender->n_endpoints++;
    }
    return sender;
}

void nxr_ucx_sender_let_go(struct nxr_ucx_sender *sender)
{
    if (--sender->n_endpoints > 0) {
        return;
    }
    sender->has_ended = true;
    sender_set_aside(sender);
}

void nxr_ucx_senders_free(void)
{
    for (size_t i = 0; i < NXR_UCX_N_BUCKETS; i++) {
        struct nxr_list *link, *after;

        nxr_list_for_each (link, after, &nxr_ucx.senders[i]) {
            sender_free(nxr_list_entry(link, struct nxr_ucx_sender, link));
        }
    }
}
