/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher does for ranks that have joined the job. boot provides it and init.c sets it
 * once, so that callers need not know how the job was started.
 */
#ifndef NXR_CORE_WIREUP_H
#define NXR_CORE_WIREUP_H

struct nxr_full_card;

/*
 * The answer to get_card(), on any thread, perhaps within get_card(). The card is checked; NULL:
 * failure.
 */
typedef void nxr_wireup_card_fn(int rank, const struct nxr_full_card *card);

/* The answer to fence(). */
typedef void nxr_wireup_fence_fn(int status, void *arg);

struct nxr_wireup {
    /* Request the card of a rank. `card_fn` is called exactly once, also after a failure. */
    void (*get_card)(int rank, nxr_wireup_card_fn *card_fn);

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
