/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher does for ranks that have joined the job. boot provides it and init.c sets it
 * once, so that callers need not know how the job was started.
 */
#ifndef NXR_CORE_WIREUP_H
#define NXR_CORE_WIREUP_H

#include "core/card.h"

#include <stdbool.h>
#include <stdint.h>

/* What the launcher reports of another rank, or of itself. */
enum nxr_wireup_news {
    NXR_WIREUP_ENDED,  /* its process has ended */
    NXR_WIREUP_LEFT,   /* it had left in order before this rank joined */
    NXR_WIREUP_JOINED, /* another process has joined as that rank: `card` is its card */
    NXR_WIREUP_GONE,   /* the launcher itself is gone; `rank` is -1 */
};

struct nxr_wireup_event {
    enum nxr_wireup_news news;
    int rank;
    uint64_t change;  /* the number of the change (util/meet.h); 0: it has none */
    bool is_of_start; /* it was so when this rank joined, before all changes that are news */
    struct nxr_full_card card; /* of NXR_WIREUP_JOINED */
};

/*
 * The answer to get_card(), on any thread, perhaps within get_card(). The card is checked; NULL:
 * failure.
 */
typedef void nxr_wireup_card_fn(int rank, const struct nxr_full_card *card);

/* The answer to fence(). */
typedef void nxr_wireup_fence_fn(int status, void *arg);

struct nxr_wireup {
    /*
     * The card of a rank, checked, if it came when this rank joined. False: it did not, or is bad.
     * Any thread.
     */
    bool (*kept_card)(int rank, struct nxr_full_card *card_p);

    /* Request the card of a rank. `card_fn` is called exactly once, also after a failure. */
    void (*get_card)(int rank, nxr_wireup_card_fn *card_fn);

    /* The incarnation of a rank's process that this one has met in joining. Any thread. */
    uint32_t (*incarnation_of)(int rank);

    /*
     * Start a fence over all ranks. `fence_fn` is called exactly once, immediately or much later,
     * on any thread: NIXL_OK, or NIXL_E_TRANSPORT if there is no launcher or it cannot do a fence
     * now; engines differ.
     */
    void (*fence)(nxr_wireup_fence_fn *fence_fn, void *arg);
};

/* Set while nothing runs. */
void nxr_wireup_set(const struct nxr_wireup *wireup);
const struct nxr_wireup *nxr_wireup(void);

#endif
