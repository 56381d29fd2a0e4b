/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words in device memory. Processors have no atomics there, so the owner changes them, for itself
 * and for peers: it copies the word out, changes it, and copies it back, one word at a time. That
 * is one atomicity domain with all calls of the library, but not with kernels that use the word.
 */
#ifndef NXR_MEMORY_DEVICE_ATOMIC_H
#define NXR_MEMORY_DEVICE_ATOMIC_H

#include "transports/transport.h"
#include "util/list.h"
#include "util/symbol.h"

/*
 * A change of a word in a region of this process; the region is entered until the change has ended.
 */
struct nxr_device_atomic {
    char *addr;
    const struct nxr_range *range;
    struct nxr_atomic atomic;
    uint64_t fetched;                                          /* set before `ended` is called */
    void (*ended)(struct nxr_device_atomic *word, int status); /* without a lock */

    /* device_atomic.c's. */
    struct nxr_list link;
    uint64_t value;
    bool is_storing;
    struct nxr_device_copy copy;
    struct nxr_device_piece piece;
};

/* How often words in device memory were changed: threads that wait for one check again. */
extern NXR_HIDDEN _Atomic uint64_t nxr_device_n_changes;

/* Queue a change; nxr_device_atomics_run() must follow. Any thread, with any locks held. */
void nxr_device_atomic_add(struct nxr_device_atomic *word);

/* Start what is queued. Any thread, without locks held. */
void nxr_device_atomics_run(void);

extern const struct nxr_subsystem nxr_device_atomics_subsystem;

#endif
