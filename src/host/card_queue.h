/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards that were requested of the launcher: they arrive on any thread and wait for the service
 * thread. Any thread; takes no other lock while it holds its own.
 */
#ifndef NXR_HOST_CARD_QUEUE_H
#define NXR_HOST_CARD_QUEUE_H

#include "core/card.h"
#include "util/list.h"

#include <stdbool.h>

struct nxr_arrived_card {
    struct nxr_list link;
    int rank;
    bool is_good; /* else there is no card, or it is of another version */
    struct nxr_full_card card;
};

/* Take cards from now on. */
void nxr_card_queue_open(void);

/* Append the card of a rank, NULL: there is none; and wake the service thread. */
void nxr_card_queue_put(int rank, const struct nxr_full_card *card);

/* Move all that have arrived to `list`, which is empty: struct nxr_arrived_card, the caller's. */
void nxr_card_queue_take(struct nxr_list *list);

/* Discard those that are there, and those that arrive from now on. The service thread has ended. */
void nxr_card_queue_close(void);

#endif
