/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cards of all ranks. Who leaves PMIx early can ask nobody later, so each card is copied while
 * PMIx is there; it is checked when it is used, like one that has just come.
 *
 * Lock: none. Written while a rank joins, only read from then until it leaves.
 */
#include "config.h"

#include "boot/all_cards.h"
#include "boot/call.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    void *bytes;
    size_t nbytes;
};

struct collection {
    pmix_nspace_t nspace;
    const char *key;
    int size;
    struct copy copies[];
};

static struct collection *cards; /* NULL: none are kept */

static void collection_free(struct collection *collection)
{
    for (int rank = 0; collection != NULL && rank < collection->size; rank++) {
        free(collection->copies[rank].bytes);
    }
    free(collection);
}

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

static pmix_status_t read_all(void *arg)
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
    struct collection *collection =
        calloc(1, sizeof(*collection) + (size_t)size * sizeof(collection->copies[0]));
    pmix_status_t status;

    if (collection == NULL) {
        return PMIX_ERR_NOMEM;
    }
    PMIX_LOAD_NSPACE(collection->nspace, nspace);
    collection->key = key;
    collection->size = size;
    status = nxr_call_blocking(read_all, collection, timeout_ns);
    if (status == PMIX_SUCCESS) {
        cards = collection;
    } else if (status != PMIX_ERR_TIMEOUT) {
        collection_free(collection);
    }
    return status;
}

const void *nxr_all_cards_find(int rank, size_t *nbytes_p)
{
    if (cards == NULL) {
        return NULL;
    }
    *nbytes_p = cards->copies[rank].nbytes;
    return cards->copies[rank].bytes;
}

void nxr_all_cards_drop(void)
{
    collection_free(cards);
    cards = NULL;
}
