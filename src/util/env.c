/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment table: one static array made from env.def drives parsing, warning and printing.
 * No lock: parsed in nixl_init and in the launcher's main before other threads exist.
 */
#include "util/env.h"
#include "util/log.h"
#include "util/nearest.h"
#include "nixlrun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX "NIXLRUN_"

enum env_kind { KIND_time, KIND_bytes, KIND_count, KIND_flag, KIND_text, KIND_word };

struct env_entry {
    const char *name; /* with the prefix */
    enum env_kind kind;
    size_t offset; /* in struct nxr_env */
    const char *initial;
    const char *lowest; /* of a word: all that are allowed */
    const char *highest;
    const char *help;
};

/* clang-format off */
static const struct env_entry entries[] = {
#define NXR_ENV(_field, _name, _kind, _default, _lowest, _highest, _help)                          \
    {PREFIX #_name, KIND_##_kind, offsetof(struct nxr_env, _field),                                \
     _default, _lowest, _highest, _help},
#include "util/env.def"
#undef NXR_ENV
};
/* clang-format on */
#define N_ENTRIES (sizeof(entries) / sizeof(entries[0]))

static const char *const kind_help[] = {
    [KIND_time] = "a time as 10us, 5ms, 2s, 1m or inf",
    [KIND_bytes] = "a number of bytes as 512, 64K, 16M or 1G",
    [KIND_count] = "a whole number",
    [KIND_flag] = "0, 1, no or yes",
    [KIND_text] = "text",
    [KIND_word] = "one of",
};

struct nxr_env nxr_env;

/* ---- values -------------------------------------------------------------------------------- */

struct unit {
    const char *name;
    uint64_t factor;
};

static int parse_number(const char *text, const struct unit *units, size_t n_units, uint64_t limit,
                        uint64_t *value_p)
{
    unsigned long long number;
    char *end;

    if (text[0] < '0' || text[0] > '9') {
        return -1;
    }
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno != 0) {
        return -1;
    }
    for (size_t i = 0; i < n_units; i++) {
        if (strcasecmp(end, units[i].name) == 0) {
            if (number > limit / units[i].factor) {
                return -1;
            }
            *value_p = number * units[i].factor;
            return 0;
        }
    }
    return -1;
}

int nxr_env_parse_time(const char *text, int64_t *ns_p)
{
    static const struct unit units[] = {
        {"s", 1000000000ull},    {"", 1000000000ull}, {"ns", 1},
        {"us", 1000ull},         {"ms", 1000000ull},  {"m", 60000000000ull},
        {"h", 3600000000000ull},
    };
    uint64_t value;

    if (strcasecmp(text, "inf") == 0) {
        *ns_p = INT64_MAX;
        return 0;
    }
    if (parse_number(text, units, sizeof(units) / sizeof(units[0]), INT64_MAX, &value) != 0) {
        return -1;
    }
    *ns_p = (int64_t)value;
    return 0;
}

int nxr_env_parse_bytes(const char *text, uint64_t *nbytes_p)
{
    static const struct unit units[] = {
        {"", 1},           {"b", 1},
        {"k", 1ull << 10}, {"kib", 1ull << 10},
        {"m", 1ull << 20}, {"mib", 1ull << 20},
        {"g", 1ull << 30}, {"gib", 1ull << 30},
    };

    return parse_number(text, units, sizeof(units) / sizeof(units[0]), UINT64_MAX, nbytes_p);
}

static int parse_flag(const char *text, bool *flag_p)
{
    static const char *const words[] = {"0", "no", "off", "false", "1", "yes", "on", "true"};

    for (size_t i = 0; i < 8; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *flag_p = i >= 4;
            return 0;
        }
    }
    return -1;
}

/* Is it a word of the list, which is separated by commas and spaces? */
static bool is_one_of(const char *list, const char *word)
{
    while (*list != '\0') {
        size_t nbytes = strcspn(list, ", ");

        if (strlen(word) == nbytes && strncmp(list, word, nbytes) == 0) {
            return true;
        }
        list += nbytes + strspn(list + nbytes, ", ");
    }
    return false;
}

/*
 * Store `text` as the entry's kind at `slot`; -1 if it is not of that kind or outside of the
 * limits.
 */
static int parse_entry(const struct env_entry *entry, const char *text, void *slot)
{
    int64_t ns, ns_limit;
    uint64_t number, limit;

    switch (entry->kind) {
    case KIND_time:
        if (nxr_env_parse_time(text, &ns) != 0 ||
            (nxr_env_parse_time(entry->lowest, &ns_limit) == 0 && ns < ns_limit) ||
            (nxr_env_parse_time(entry->highest, &ns_limit) == 0 && ns > ns_limit)) {
            return -1;
        }
        *(int64_t *)slot = ns;
        return 0;
    case KIND_bytes:
    case KIND_count:
        if (nxr_env_parse_bytes(text, &number) != 0 ||
            (nxr_env_parse_bytes(entry->lowest, &limit) == 0 && number < limit) ||
            (nxr_env_parse_bytes(entry->highest, &limit) == 0 && number > limit)) {
            return -1;
        }
        *(uint64_t *)slot = number;
        return 0;
    case KIND_flag:
        return parse_flag(text, slot);
    case KIND_word:
        if (!is_one_of(entry->lowest, text)) {
            return -1;
        }
        *(const char **)slot = text;
        return 0;
    case KIND_text:
        *(const char **)slot = text;
        return 0;
    }
    return -1;
}

/* ---- the table ----------------------------------------------------------------------------- */

/* A variable that is set but empty counts as not set. */
static const char *entry_value(const struct env_entry *entry)
{
    const char *text = getenv(entry->name);

    return text != NULL && text[0] != '\0' ? text : NULL;
}

int nxr_env_parse(struct nxr_env *env, char *why, size_t why_nbytes)
{
    struct nxr_env parsed;

    memset(&parsed, 0, sizeof(parsed));
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct env_entry *entry = &entries[i];
        const char *text = entry_value(entry);
        void *slot = (char *)&parsed + entry->offset;

        if (text == NULL) {
            text = entry->initial;
        }
        if (parse_entry(entry, text, slot) != 0) {
            snprintf(why, why_nbytes, "%s is '%.80s'; allowed is %s%s%s%s%s", entry->name, text,
                     kind_help[entry->kind],
                     entry->kind == KIND_word ? " "
                     : entry->lowest[0]       ? " from "
                                              : "",
                     entry->lowest, entry->highest[0] ? " to " : "", entry->highest);
            return NIXL_ERR_INVALID_ARG;
        }
    }
    *env = parsed;
    return NIXL_OK;
}

/* NULL where more than half of the name would have to be another: that was not what was meant. */
static const char *nearest_name(const char *name)
{
    const char *nearest = NULL;
    unsigned best = (unsigned)(strlen(name) - strlen(PREFIX)) / 2 + 1;

    for (size_t i = 0; i < N_ENTRIES; i++) {
        unsigned distance = nxr_edit_distance(name, entries[i].name);

        if (distance < best) {
            best = distance;
            nearest = entries[i].name;
        }
    }
    return nearest;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < N_ENTRIES; i++) {
        if (strcmp(name, entries[i].name) == 0) {
            return true;
        }
    }
    return false;
}

void nxr_env_warn_unknown(void)
{
    extern char **environ;

    for (char **var = environ; *var != NULL; var++) {
        char name[64];
        size_t len = strcspn(*var, "=");

        if (strncmp(*var, PREFIX, strlen(PREFIX)) != 0 || len >= sizeof(name)) {
            continue;
        }
        memcpy(name, *var, len);
        name[len] = '\0';
        if (!is_known(name)) {
            const char *nearest = nearest_name(name);

            nxr_warn(ENV, "%s is not a variable of nixlrun; %s%s", name,
                     nearest != NULL ? "the nearest is " : "'nixlrun --env' lists all",
                     nearest != NULL ? nearest : "");
        }
    }
}

void nxr_env_print(FILE *out)
{
    fprintf(out, "%-26s %-14s %-10s %s\n", "variable", "value", "default", "origin");
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct env_entry *entry = &entries[i];
        const char *text = entry_value(entry);
        union {
            int64_t ns;
            uint64_t number;
            bool flag;
            const char *text;
        } scratch;
        const char *origin = text == NULL                              ? "default"
                             : parse_entry(entry, text, &scratch) != 0 ? "environment (bad value)"
                                                                       : "environment";

        fprintf(out, "%-26s %-14s %-10s %s\n    %s\n", entry->name,
                text != NULL        ? text
                : entry->initial[0] ? entry->initial
                                    : "-",
                entry->initial[0] ? entry->initial : "-", origin, entry->help);
    }
}
