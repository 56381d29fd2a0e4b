/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who sends how much to whom: a matrix of bytes, made from the name of a pattern or read from a
 * file. Every rank makes the same one.
 */
#include "config.h"

#include "bench.h"
#include "util/env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_NBYTES 32

static const char *const names[] = {"pair", "all_pairs", "many_to_one", "one_to_many",
                                    "ring", "bisection", "tp"};

bool traffic_is_name(const char *text)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool traffic_has_pairs(const char *pattern)
{
    return strcmp(pattern, "pair") == 0 || strcmp(pattern, "bisection") == 0 ||
           strcmp(pattern, "tp") == 0;
}

/* The number of the pair that two ranks are: neighbours, or the same place in two halves. */
static int pair_number(const char *name, int from, int to)
{
    int lower = from < to ? from : to;

    return strcmp(name, "pair") == 0 ? lower / 2 : lower;
}

/* Does rank `from` send to rank `to` in the pattern? */
static bool pattern_has(const char *name, int size, int from, int to)
{
    int half = size / 2;

    if (from == to) {
        return false;
    }
    if (strcmp(name, "pair") == 0) {
        return from % 2 == 0 && to == from + 1;
    }
    if (strcmp(name, "many_to_one") == 0) {
        return to == 0;
    }
    if (strcmp(name, "one_to_many") == 0) {
        return from == 0;
    }
    if (strcmp(name, "ring") == 0) {
        return to == (from + 1) % size;
    }
    if (strcmp(name, "bisection") == 0) {
        return to == from + half || from == to + half;
    }
    if (strcmp(name, "tp") == 0) {
        return to == from + half; /* the first half are one engine's ranks, the second another's */
    }
    return true;
}

static bool is_separator(int c)
{
    return strchr(" \t\r\n,;", c) != NULL;
}

/* The next word, cut to what fits; false at the end of the file. */
static bool next_word(FILE *file, char word[WORD_NBYTES])
{
    size_t n = 0;
    int c;

    while ((c = fgetc(file)) != EOF && is_separator(c)) {
    }
    for (; c != EOF && !is_separator(c); c = fgetc(file)) {
        if (n < WORD_NBYTES - 1) {
            word[n++] = (char)c;
        }
    }
    word[n] = '\0';
    return n > 0;
}

/* Read words until the end of the file; a bad one, too few or too many end the job. */
static void read_matrix(struct traffic *traffic, FILE *file, const char *path)
{
    size_t n_cells = (size_t)traffic->size * (size_t)traffic->size, n = 0;
    char word[WORD_NBYTES];

    while (next_word(file, word)) {
        if (n == n_cells || nxr_env_parse_bytes(word, &traffic->nbytes[n]) != 0) {
            bench_die("nixl_bench: '%s' has '%s' as its number %zu; allowed: %d rows of %d numbers "
                      "of bytes, such as 0 or 64K, for %d ranks",
                      path, word, n + 1, traffic->size, traffic->size, traffic->size);
        }
        n++;
    }
    if (n < n_cells) {
        bench_die("nixl_bench: '%s' has %zu numbers; allowed: %d rows of %d, for %d ranks", path, n,
                  traffic->size, traffic->size, traffic->size);
    }
}

void traffic_make(struct traffic *traffic, const char *pattern, int size, int n_pairs,
                  uint64_t nbytes)
{
    size_t n_cells = (size_t)size * (size_t)size;
    FILE *file;

    traffic->size = size;
    traffic->nbytes = calloc(n_cells, sizeof(*traffic->nbytes));
    if (traffic->nbytes == NULL) {
        bench_die("nixl_bench: no memory for the bytes between %d ranks", size);
    }
    if (n_pairs > size / 2) {
        bench_die("nixl_bench: --pairs is %d; allowed: 1 to %d, for %d ranks", n_pairs, size / 2,
                  size);
    }
    if (traffic_is_name(pattern)) {
        for (size_t cell = 0; cell < n_cells; cell++) {
            int from = (int)(cell / (size_t)size), to = (int)(cell % (size_t)size);
            bool has = pattern_has(pattern, size, from, to) &&
                       (n_pairs == 0 || pair_number(pattern, from, to) < n_pairs);

            traffic->nbytes[cell] = has ? nbytes : 0;
        }
        return;
    }
    file = fopen(pattern, "r");
    if (file == NULL) {
        bench_die("nixl_bench: --pattern '%s': %s", pattern, strerror(errno));
    }
    read_matrix(traffic, file, pattern);
    fclose(file);
}

void traffic_free(struct traffic *traffic)
{
    free(traffic->nbytes);
    traffic->nbytes = NULL;
}

uint64_t traffic_between(const struct traffic *traffic, int from, int to)
{
    return traffic->nbytes[(size_t)from * (size_t)traffic->size + (size_t)to];
}

uint64_t traffic_sent(const struct traffic *traffic, int from, int up_to)
{
    uint64_t sum = 0;

    for (int to = 0; to < up_to; to++) {
        sum += traffic_between(traffic, from, to);
    }
    return sum;
}

uint64_t traffic_received(const struct traffic *traffic, int to, int up_to)
{
    uint64_t sum = 0;

    for (int from = 0; from < up_to; from++) {
        sum += traffic_between(traffic, from, to);
    }
    return sum;
}

uint64_t traffic_most(const struct traffic *traffic)
{
    uint64_t most = 0;

    for (int rank = 0; rank < traffic->size; rank++) {
        uint64_t sent = traffic_sent(traffic, rank, traffic->size);
        uint64_t received = traffic_received(traffic, rank, traffic->size);

        most = sent > most ? sent : most;
        most = received > most ? received : most;
    }
    return most;
}

uint64_t traffic_total(const struct traffic *traffic)
{
    uint64_t sum = 0;

    for (int rank = 0; rank < traffic->size; rank++) {
        sum += traffic_sent(traffic, rank, traffic->size);
    }
    return sum;
}
