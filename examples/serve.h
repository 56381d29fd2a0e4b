/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server and the workers of the example serve agree on: the messages between them, and the
 * bytes of a request, which follow from its seed. serve.c says how the example works.
 */
#ifndef EXAMPLE_SERVE_H
#define EXAMPLE_SERVE_H

#include <nixlrun.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SERVE_NAME   "decode"
#define SERVE_SCHEMA "serve 1: blocks of 64 KiB, 16 of them a request"
#define SERVE_REGION "kv"

#define SERVE_BLOCK_NBYTES   65536u
#define SERVE_BLOCK_WORDS    (SERVE_BLOCK_NBYTES / sizeof(uint64_t))
#define SERVE_BLOCKS         1024u /* of the cache */
#define SERVE_REQUEST_BLOCKS 16u
#define SERVE_REQUEST_WORDS  (SERVE_REQUEST_BLOCKS * SERVE_BLOCK_WORDS)

#define SERVE_LIFETIME_NS 500000000ll /* a worker begins its put within this time */

enum serve_tag {
    SERVE_ASK = 1, /* worker: struct serve_ask */
    SERVE_LENT,    /* server: struct serve_lent */
    SERVE_DONE,    /* worker, behind its last byte: struct serve_done */
    SERVE_REFUSED, /* worker: the same, as its put was refused */
};

struct serve_ask {
    uint64_t seed; /* what the request's bytes follow from */
};

struct serve_lent {
    uint64_t seed;                         /* of the request */
    uint64_t blocks[SERVE_REQUEST_BLOCKS]; /* their numbers */
    char token[NIXL_TOKEN_MAX + 1];        /* "": none is free, ask again */
};

struct serve_done {
    uint64_t seed;
    int64_t
        first_ns; /* from the worker's nixl_init() to the end of its first put; 0: not the first */
};

/* Word i of a request. */
static inline uint64_t serve_word(uint64_t seed, uint64_t i)
{
    uint64_t word = (seed + i) * 0x9e3779b97f4a7c15ull;

    return word ^ word >> 29;
}

static inline int64_t serve_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* End the program because of a call that nothing can be done about. */
static inline void serve_must(const char *program, int status)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", program, nixl_last_error()->text);
        exit(1);
    }
}

#endif
