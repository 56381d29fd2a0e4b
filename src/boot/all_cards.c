/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of all ranks, unchecked: each is checked when it is used. They lie in nixlrun's answer,
 * or are copied one by one from PMIx, since a rank that leaves PMIx early cannot get them later.
 *
 * Lock: none. Written while this rank joins, and only read from then until it leaves.
 */
#include "config.h"

#include "boot/all_cards.h"
#include "boot/call.h"
#include "boot/events.h"
#include "util/meet.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    void *bytes; /* NULL: there is none */
    size_t nbytes;
    bool has_left; /* it had left in order */
};

struct collection {
    pmix_nspace_t nspace;
    const char *key;
    int size;
    void *answer; /* holds all of them; NULL: each has memory of its own */
    struct copy copies[];
};

static struct collection *cards_cards; /* NULL: no cards are kept */

static void collection_free(struct collection *collection)
{
    if (collection == NULL) {
        return;
    }
    for (int rank = 0; collection->answer == NULL && rank < collection->size; rank++) {
        free(collection->copies[rank].bytes);
    }
    free(collection->answer);
    free(collection);
}

static struct collection *collection_new(int size)
{
    struct collection *collection =
        calloc(1, sizeof(*collection) + (size_t)size * sizeof(collection->copies[0]));

    if (collection != NULL) {
        collection->size = size;
    }
    return collection;
}

/* ---- from PMIx ------------------------------------------------------------------------------- */

static pmix_status_t copy_value(const pmix_value_t *value, struct copy *copy)
{
    if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size == 0) {
        return PMIX_ERR_BAD_PARAM;
    }
    copy->bytes = malloc(value->data.bo.size);
    if (copy->bytes == NULL) {
        return PMIX_ERR_NOMEM;
    }
    copy->nbytes = value->data.bo.size;
    memcpy(copy->bytes, value->data.bo.bytes, copy->nbytes);
    return PMIX_SUCCESS;
}

static pmix_status_t cards_read_all(void *arg)
{
    struct collection *collection = arg;
    pmix_status_t status = PMIX_SUCCESS;

    for (int rank = 0; status == PMIX_SUCCESS && rank < collection->size; rank++) {
        pmix_value_t *value = NULL;
        pmix_proc_t proc;

        PMIX_LOAD_PROCID(&proc, collection->nspace, (pmix_rank_t)rank);
        status = PMIx_Get(&proc, collection->key, NULL, 0, &value);
        if (status == PMIX_SUCCESS) {
            status = copy_value(value, &collection->copies[rank]);
            PMIX_VALUE_RELEASE(value);
        }
    }
    return status;
}

pmix_status_t nxr_all_cards_read(const char *nspace, int size, const char *key, int64_t timeout_ns)
{
    struct collection *collection = collection_new(size);
    pmix_status_t status;

    if (collection == NULL) {
        return PMIX_ERR_NOMEM;
    }
    PMIX_LOAD_NSPACE(collection->nspace, nspace);
    collection->key = key;
    status = nxr_call_blocking(cards_read_all, collection, timeout_ns);
    if (status == PMIX_SUCCESS) {
        cards_cards = collection;
    } else if (status != PMIX_ERR_TIMEOUT) {
        collection_free(collection);
    }
    return status;
}

/* ---- from nixlrun ---------------------------------------------------------------------------- */

/* Take one part of the answer, of which the head has been read. False: it is damaged. */
static bool find_one(struct collection *collection, const struct nxr_meet_head *head, char *at)
{
    uint64_t change;

    if (head->rank == NXR_MEET_CHANGES && head->nbytes == sizeof(change)) {
        memcpy(&change, at, sizeof(change));
        nxr_boot_events_known(change);
        return true;
    }
    if (head->rank < 0 || head->rank >= collection->size ||
        collection->copies[head->rank].bytes != NULL) {
        return false;
    }
    if (head->nbytes == 0) {
        collection->copies[head->rank].has_left = true;
    } else {
        collection->copies[head->rank] = (struct copy){.bytes = at, .nbytes = head->nbytes};
    }
    return true;
}

/* Find the cards in the answer. False: it is damaged. */
static bool find_all(struct collection *collection, size_t nbytes)
{
    char *at = collection->answer, *end = at + nbytes;
    struct nxr_meet_head head;

    for (; at != end; at += head.nbytes) {
        if ((size_t)(end - at) < sizeof(head)) {
            return false;
        }
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        if (head.nbytes > (size_t)(end - at) || !find_one(collection, &head, at)) {
            return false;
        }
    }
    return true;
}

pmix_status_t nxr_all_cards_take(void *answer, size_t nbytes, int size)
{
    struct collection *collection = collection_new(size);

    if (collection == NULL) {
        free(answer);
        return PMIX_ERR_NOMEM;
    }
    collection->answer = answer;
    if (!find_all(collection, nbytes)) {
        collection_free(collection);
        return PMIX_ERR_BAD_PARAM;
    }
    for (int rank = 0; rank < size; rank++) {
        if (collection->copies[rank].bytes == NULL) {
            nxr_boot_events_tell(&(struct nxr_wireup_event){
                .news = collection->copies[rank].has_left ? NXR_WIREUP_LEFT : NXR_WIREUP_ENDED,
                .rank = rank,
                .is_of_start = true});
        }
    }
    cards_cards = collection;
    return PMIX_SUCCESS;
}

/* ---- using them ------------------------------------------------------------------------------ */

bool nxr_all_cards_are_kept(void)
{
    return cards_cards != NULL;
}

const void *nxr_all_cards_find(int rank, size_t *nbytes_p)
{
    *nbytes_p = cards_cards->copies[rank].nbytes;
    return cards_cards->copies[rank].bytes;
}

void nxr_all_cards_drop(void)
{
    collection_free(cards_cards);
    cards_cards = NULL;
}
