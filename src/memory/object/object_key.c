/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of objects and their numbers. Keys of the program's own are found by a table, which is made
 * with the set and constant from then on. No lock.
 */
#include "config.h"

#include "memory/object/object.h"
#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Slots of the table have numbers of objects, or this. */
#define NO_OBJECT UINT64_MAX

void nxr_object_key(const struct nxr_object_set *set, uint64_t object,
                    char key[NXR_OBJECT_KEY_MAX + 1])
{
    if (set->is_single) {
        snprintf(key, NXR_OBJECT_KEY_MAX + 1, "%s", set->prefix);
    } else if (set->keys != NULL) {
        snprintf(key, NXR_OBJECT_KEY_MAX + 1, "%s%s", set->prefix, set->keys[object]);
    } else {
        snprintf(key, NXR_OBJECT_KEY_MAX + 1, "%s%016llx", set->prefix, (unsigned long long)object);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The slot of a key behind the prefix: its own, or a free one. */
static uint64_t index_slot(const struct nxr_object_set *set, const char *key)
{
    uint64_t slot = nxr_hash(key, strlen(key)) & (set->n_slots - 1);

    while (set->by_key[slot] != NO_OBJECT && strcmp(set->keys[set->by_key[slot]], key) != 0) {
        slot = (slot + 1) & (set->n_slots - 1);
    }
    return slot;
}

bool nxr_object_index(struct nxr_object_set *set)
{
    if (set->keys == NULL) {
        return true;
    }
    set->n_slots = 2;
    while (set->n_slots < 2 * set->n_objects) {
        set->n_slots *= 2;
    }
    set->by_key = malloc(set->n_slots * sizeof(set->by_key[0]));
    if (set->by_key == NULL) {
        return false;
    }
    memset(set->by_key, 0xff, set->n_slots * sizeof(set->by_key[0]));
    for (uint64_t i = 0; i < set->n_objects; i++) {
        uint64_t slot = index_slot(set, set->keys[i]);

        if (set->by_key[slot] == NO_OBJECT) { /* of equal keys the first counts */
            set->by_key[slot] = i;
        }
    }
    return true;
}

uint64_t nxr_object_of(const struct nxr_object_set *set, const char *key)
{
    const char *rest = key + strlen(set->prefix);
    unsigned long long number;
    int n = 0;

    if (set->is_single) {
        return strcmp(key, set->prefix) == 0 ? 0 : UINT64_MAX;
    }
    if (set->keys != NULL) {
        return set->by_key[index_slot(set, rest)];
    }
    return strlen(rest) == 16 && strspn(rest, "0123456789abcdef") == 16 &&
                   sscanf(rest, "%16llx%n", &number, &n) == 1 && number < set->n_objects
               ? number
               : UINT64_MAX;
}
