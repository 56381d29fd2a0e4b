/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of the rings of words, and words of own device memory.
 *
 * Whoever is awake changes what peers ask for: a thread that polls in a wait, as part of its
 * progress; one that sleeps in a wait is woken for it; the service thread where the user's threads
 * compute. An asker sets its bit of control->words_asked, passes a full barrier, and then looks who
 * is there; a thread that stops to poll, or goes to sleep, says so, passes a full barrier, and then
 * looks at the bits once more. So at least one sees the other, and nobody is woken for what a
 * polling thread does.
 */
#ifndef NXR_HOST_WORD_SERVE_H
#define NXR_HOST_WORD_SERVE_H

#include "core/job.h"

/*
 * Has a peer asked for words before? Then waits say from their first look on that they are there.
 */
extern atomic_bool nxr_words_are_used;

/* What nxr_words_serve() does when something is asked. */
bool nxr_words_serve_asked(void);

/*
 * Change the words that peers ask for. Has anything been done? Free where nothing is asked. Any
 * thread, without a lock.
 */
static inline bool nxr_words_serve(void)
{
    return __builtin_expect(
               atomic_load_explicit(&nxr_job.control->words_asked, memory_order_relaxed) != 0, 0) &&
           nxr_words_serve_asked();
}

/* The calling thread calls nxr_words_serve() again and again, until the end. */
static inline void nxr_words_poll_begin(void)
{
    atomic_fetch_add(&nxr_job.control->n_pollers, 1);
}

static inline void nxr_words_poll_end(void)
{
    atomic_fetch_sub(&nxr_job.control->n_pollers, 1);
    nxr_fence_full();
    nxr_words_serve();
}

/*
 * Change a word of this rank's own part in device memory, and wait for it: NIXL_OK and the value
 * from before, or the failure.
 */
int nxr_word_change_device(const struct nxr_part *part, const struct nxr_atomic *atomic,
                           uint64_t *fetched_p);

/* The same as an operation that ends with nxr_op_done(): NIXL_INPROGRESS, or the failure. */
int nxr_word_start_device(struct nxr_op *op);

/* Forget everything (last finalize). */
void nxr_words_serve_stop(void);

extern const struct nxr_subsystem nxr_words_subsystem;

#endif
