/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of arrived cards. Lock: cards_lock. */
#include "config.h"

#include "host/card_queue.h"
#include "core/identity.h"
#include "core/service.h"
#include "util/log.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t cards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_list cards_arrived = {&cards_arrived, &cards_arrived}; /* cards_lock */
static bool cards_are_stopped;                                           /* cards_lock */

void nxr_card_queue_open(void)
{
    pthread_mutex_lock(&cards_lock);
    cards_are_stopped = false;
    pthread_mutex_unlock(&cards_lock);
}

void nxr_card_queue_put(int rank, const struct nxr_full_card *card)
{
    struct nxr_arrived_card *arrived = calloc(1, sizeof(*arrived));

    if (arrived == NULL) {
        nxr_error(HOST, "no memory for the card of %s", nxr_rank_name(rank));
        return;
    }
    arrived->rank = rank;
    arrived->is_good = card != NULL;
    if (card != NULL) {
        arrived->card = *card;
    }
    pthread_mutex_lock(&cards_lock);
    if (cards_are_stopped) {
        free(arrived);
    } else {
        nxr_list_append(&cards_arrived, &arrived->link);
        nxr_service_kick();
    }
    pthread_mutex_unlock(&cards_lock);
}

void nxr_card_queue_take(struct nxr_list *list)
{
    pthread_mutex_lock(&cards_lock);
    nxr_list_splice(list, &cards_arrived);
    pthread_mutex_unlock(&cards_lock);
}

void nxr_card_queue_close(void)
{
    struct nxr_list *link;

    pthread_mutex_lock(&cards_lock);
    cards_are_stopped = true;
    while ((link = nxr_list_pop(&cards_arrived)) != NULL) {
        free(nxr_list_entry(link, struct nxr_arrived_card, link));
    }
    pthread_mutex_unlock(&cards_lock);
}
