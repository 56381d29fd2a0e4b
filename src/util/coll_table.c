/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of algorithms: its defaults, its text form and its hash. Set at init, only read
 * afterwards: no lock.
 */
#include "config.h"

#include "util/coll_table.h"
#include "nixlrun.h"
#include "util/hash.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_NBYTES 60
#define CAUSE_NBYTES 256

#define TABLE_DEFAULTS                                                                             \
    {                                                                                              \
        NXR_COLL_TABLE(TABLE_DEFAULT)                                                              \
    }
#define TABLE_DEFAULT(_name, _default, _lowest, _highest, _text) ._name = (_default),

struct nxr_coll_table nxr_coll_table = TABLE_DEFAULTS;

struct limit {
    const char *name;
    size_t lowest;
    size_t highest;
};

static const struct limit limits[NXR_COLL_N_LIMITS] = {
#define TABLE_LIMIT(_name, _default, _lowest, _highest, _text) {#_name, (_lowest), (_highest)},
    NXR_COLL_TABLE(TABLE_LIMIT)
#undef TABLE_LIMIT
};

#define LIMIT_NAME(_name, _default, _lowest, _highest, _text) " " #_name
#define LIMIT_NAMES                                           NXR_COLL_TABLE(LIMIT_NAME)

/* The table consists of its limits in order, and nothing else. */
_Static_assert(sizeof(struct nxr_coll_table) == NXR_COLL_N_LIMITS * sizeof(size_t),
               "limits are all of one type");

size_t *nxr_coll_table_at(struct nxr_coll_table *table, int limit)
{
    return (size_t *)(void *)table + limit;
}

/* How many bytes of a text to show; it may be as long as a file. */
static int shown(size_t nbytes)
{
    return nbytes < SHOWN_NBYTES ? (int)nbytes : SHOWN_NBYTES;
}

void nxr_coll_table_one_line(char *why)
{
    for (; *why != '\0'; why++) {
        *why = (unsigned char)*why < ' ' || (unsigned char)*why > '~' ? '?' : *why;
    }
}

int nxr_coll_table_parse(const char *text, size_t nbytes, int *limit_p, size_t *value_p, char *why,
                         size_t why_nbytes)
{
    const char *equals = memchr(text, '=', nbytes);
    size_t name_nbytes = equals != NULL ? (size_t)(equals - text) : nbytes;

    for (int i = 0; i < NXR_COLL_N_LIMITS; i++) {
        if (strlen(limits[i].name) == name_nbytes &&
            strncmp(limits[i].name, text, name_nbytes) == 0) {
            char *end = NULL;
            bool is_number = equals != NULL && equals[1] >= '0' && equals[1] <= '9';
            unsigned long long value = is_number ? strtoull(equals + 1, &end, 10) : 0;

            if (!is_number || end != text + nbytes || value < limits[i].lowest ||
                value > limits[i].highest) {
                snprintf(why, why_nbytes, "has '%.*s'; allowed: %s=%zu to %zu", shown(nbytes), text,
                         limits[i].name, limits[i].lowest, limits[i].highest);
                return NIXL_E_INVALID_ARG;
            }
            *limit_p = i;
            *value_p = (size_t)value;
            return NIXL_OK;
        }
    }
    snprintf(why, why_nbytes, "has '%.*s'; allowed: LIMIT=NUMBER; the limits are" LIMIT_NAMES,
             shown(nbytes), text);
    return NIXL_E_INVALID_ARG;
}

/* Put the limits of a text in the format of NIXLRUN_COLL_TABLE into *table. */
static int coll_table_apply(const char *text, struct nxr_coll_table *table, char *why,
                            size_t why_nbytes)
{
    char cause[CAUSE_NBYTES];

    while (*text != '\0') {
        size_t nbytes = strcspn(text, ","), value;
        int limit;

        if (nxr_coll_table_parse(text, nbytes, &limit, &value, cause, sizeof(cause)) != NIXL_OK) {
            nxr_coll_table_one_line(cause);
            snprintf(why, why_nbytes, "NIXLRUN_COLL_TABLE %s", cause);
            return NIXL_E_INVALID_ARG;
        }
        *nxr_coll_table_at(table, limit) = value;
        text += nbytes + (text[nbytes] == ',');
    }
    return NIXL_OK;
}

int nxr_coll_table_check(const char *text, char *why, size_t why_nbytes)
{
    struct nxr_coll_table table = TABLE_DEFAULTS;

    return coll_table_apply(text, &table, why, why_nbytes);
}

int nxr_coll_table_set(const char *path, size_t n_ranks, const char *text, char *why,
                       size_t why_nbytes)
{
    struct nxr_coll_table table = TABLE_DEFAULTS;
    int status =
        path[0] != '\0' ? nxr_coll_table_load(path, n_ranks, &table, why, why_nbytes) : NIXL_OK;

    if (status == NIXL_OK) {
        status = coll_table_apply(text, &table, why, why_nbytes);
    }
    if (status == NIXL_OK) {
        nxr_coll_table = table;
    }
    return status;
}

uint64_t nxr_coll_table_hash(void)
{
    return nxr_hash(&nxr_coll_table, sizeof(nxr_coll_table));
}
