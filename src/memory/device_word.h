/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words in device memory. Processors have no atomics there, so the owner changes them, for itself
 * as for peers: it copies the word out, changes it, copies it back, one word at a time. That is
 * one atomicity domain with all calls of the library, not with kernels that use the word.
 */
#ifndef NXR_MEMORY_DEVICE_WORD_H
#define NXR_MEMORY_DEVICE_WORD_H

#include "transports/transport.h"
#include "util/list.h"

/* A change of a word in an own region, which is entered until it has ended. */
struct nxr_device_word {
    char *addr;
    const struct nxr_range *range;
    struct nxr_atomic atomic;
    uint64_t fetched;                                        /* set before `ended` is called */
    void (*ended)(struct nxr_device_word *word, int status); /* without a lock */

    /* device_word.c's. */
    struct nxr_list link;
    uint64_t value;
    bool is_storing;
    struct nxr_device_copy copy;
    struct nxr_device_piece piece;
};

/* How often a word in device memory was changed: whoever waits for one looks again. */
extern _Atomic uint64_t nxr_device_n_changes;

/* Line a change up; nxr_device_words_run() follows. Any thread, whatever locks it holds. */
void nxr_device_word_add(struct nxr_device_word *word);

/* Begin what is lined up. Any thread, without a lock. */
void nxr_device_words_run(void);

extern const struct nxr_subsystem nxr_device_words_subsystem;

#endif
