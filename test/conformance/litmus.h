/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the litmus tests share: the ranks' words and large pieces of memory, and how ranks meet.
 */
#ifndef NXR_TEST_LITMUS_H
#define NXR_TEST_LITMUS_H

#include "test/mp/mptest.h"

#define LIT_TAG     0x11c0
#define LIT_LINE    64
#define LIT_N_WORDS 64

/* Where the large puts go; the words lie before. */
#define LIT_LARGE_AT ((size_t)LIT_N_WORDS * LIT_LINE)

struct lit {
    int rank, size;
    size_t large; /* bytes of a large put */
    struct nixl_region *region;
    unsigned char *memory; /* of this rank, */
    unsigned char *source; /* ... and what it puts from */
    unsigned char *mapped; /* at rank 0: the memory of rank 1; NULL: it cannot be mapped */
};
extern struct lit lit;

struct litmus {
    const char *name;            /* reads as a sentence with underscores */
    void (*run)(uint64_t round); /* by each rank that has a part, with rounds from 1 */
    int n_ranks;                 /* that have one */
    bool is_mapped;              /* needs lit.mapped */
};

/* One table per subject, ends with a NULL name. */
extern const struct litmus lit_two[], lit_three[], lit_words[];

/* A word of the own segment by its number; each rank writes only what its test says. */
uint64_t *lit_word(unsigned number);

/* Its value, by a load that orders nothing. */
uint64_t lit_load(unsigned number);

/* Wait with such loads for a value or more; what comes after the wait is ordered behind it. */
void lit_spin(unsigned number, uint64_t value);

void lit_put_word(int to, unsigned number, uint64_t value);
uint64_t lit_get_word(int from, unsigned number);

/* Bytes that tell a round from those before it, in `source` and in `memory`. */
int lit_byte(uint64_t round);
void lit_fill_source(uint64_t round);
void lit_put_large(int to, uint64_t round);
void lit_check_large(uint64_t round);

/* A notification, and a signal that counts rounds. */
void lit_tell(int to);
void lit_hear(int from);
void lit_raise(int to, unsigned number, uint64_t value);
void lit_await(unsigned number, uint64_t value);

#endif
