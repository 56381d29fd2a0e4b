/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that could not be put, of which no SYNC has been told. One that is put after all is
 * forgotten. Lock: set->lock.
 */
#include "config.h"

#include "memory/object/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct object_lost {
    struct nxr_list link;
    uint64_t object;
    int error;
    char why[NXR_OBJECT_WHY_NBYTES];
};

void nxr_object_lost_add(struct nxr_object_set *set, uint64_t object, int error, const char *why)
{
    struct object_lost *lost = calloc(1, sizeof(*lost));

    if (lost != NULL) {
        lost->object = object;
        lost->error = error;
        snprintf(lost->why, sizeof(lost->why), "%.199s", why);
        nxr_list_append(&set->lost, &lost->link);
    }
}

void nxr_object_lost_forget(struct nxr_object_set *set, uint64_t object)
{
    struct nxr_list *link, *after;

    nxr_list_for_each (link, after, &set->lost) {
        struct object_lost *lost = nxr_list_entry(link, struct object_lost, link);

        if (lost->object == object) {
            nxr_list_remove(link);
            free(lost);
        }
    }
}

int nxr_object_lost_report(struct nxr_object_set *set)
{
    char key[NXR_OBJECT_KEY_MAX + 1];
    struct nxr_list *link;
    int status = NIXL_OK;

    while ((link = nxr_list_pop(&set->lost)) != NULL) {
        struct object_lost *lost = nxr_list_entry(link, struct object_lost, link);

        if (status == NIXL_OK) {
            nxr_object_key(set, lost->object, key);
            nxr_object_fail(set, "put", key, lost->error, lost->why);
        }
        status = NIXL_E_STORAGE;
        free(lost);
    }
    return status;
}
