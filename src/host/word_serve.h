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
 * Change the words that peers ask for, of which control->words_asked tells. Has anything been done?
 * Any thread, without a lock: a slot of nxr_pollers (core/poll.h).
 */
bool nxr_words_serve_asked(void);

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
