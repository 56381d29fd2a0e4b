/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting the cards of this host that name the same cores. If the launcher does not report which
 * ranks share a host, the names in the cards tell. No state, no lock.
 */
#include "config.h"

#include "boot/sharing.h"
#include "boot/all_cards.h"
#include "boot/call.h"
#include "core/node.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define ASK_NS (1 * NXR_S) /* for cards that PMIx has on this host */

struct count {
    struct nxr_card mine;
    pmix_proc_t self;
    int size;
    const char *key;
    int n;
};

/* Is it the card of a rank that shares this one's cores? An ended rank has none (NULL). */
static bool shares_cores(const struct count *count, int rank, const void *bytes, size_t nbytes)
{
    struct nxr_card card;

    if (bytes == NULL || nbytes < sizeof(card)) {
        return false;
    }
    memcpy(&card, bytes, sizeof(card));
    return card.magic == NXR_CARD_MAGIC && card.version == NXR_CARD_VERSION &&
           card.cores == count->mine.cores &&
           (nxr_node_of(rank) == nxr_node_of((int)count->self.rank) ||
            nxr_card_may_be_local(&count->mine, &card));
}

static void count_kept(struct count *count)
{
    for (int rank = 0; rank < count->size; rank++) {
        size_t nbytes;
        const void *bytes = nxr_all_cards_find(rank, &nbytes);

        count->n += rank != (int)count->self.rank && shares_cores(count, rank, bytes, nbytes);
    }
}

/* Only cards of this host are at hand: PMIx would fetch the others from theirs. */
static pmix_status_t count_asked(void *arg)
{
    struct count *count = arg;

    for (int rank = 0; rank < count->size; rank++) {
        pmix_value_t *value = NULL;
        pmix_proc_t proc;

        if (rank == (int)count->self.rank ||
            nxr_node_of(rank) != nxr_node_of((int)count->self.rank)) {
            continue;
        }
        PMIX_LOAD_PROCID(&proc, count->self.nspace, (pmix_rank_t)rank);
        if (PMIx_Get(&proc, count->key, NULL, 0, &value) == PMIX_SUCCESS) {
            count->n += value->type == PMIX_BYTE_OBJECT &&
                        shares_cores(count, rank, value->data.bo.bytes, value->data.bo.size);
            PMIX_VALUE_RELEASE(value);
        }
    }
    return PMIX_SUCCESS;
}

int nxr_sharing_count(const struct nxr_card *mine, const pmix_proc_t *self, int size,
                      const char *key)
{
    struct count *count = calloc(1, sizeof(*count));
    int n;

    if (count == NULL) {
        return 1;
    }
    *count = (struct count){.mine = *mine, .self = *self, .size = size, .key = key, .n = 1};
    if (nxr_all_cards_are_kept()) {
        count_kept(count);
    } else if (nxr_call_blocking(count_asked, count, ASK_NS) == PMIX_ERR_TIMEOUT) {
        return 1; /* its thread keeps the memory */
    }
    n = count->n;
    free(count);
    return n;
}
