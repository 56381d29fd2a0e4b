/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the library does not get: the k-th request for it fails, once, as if the system had
 * none. Requests of the program and of other libraries succeed. A program that links lack.c has
 * malloc(), calloc(), realloc(), aligned_alloc() and mmap() of its own.
 */
#ifndef TEST_MP_LACK_H
#define TEST_MP_LACK_H

#include <stdbool.h>

/* Call it first. Where the library is linked statically the test is skipped. */
void lack_find_library(void);

/* The k-th request of this thread from now on; 0: none. lack_end(): did one fail? */
void lack_begin(int k);
bool lack_end(void);

/* The same of all threads. */
void lack_begin_all(int k);
bool lack_end_all(void);

#endif
