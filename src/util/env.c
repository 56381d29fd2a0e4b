/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment table: one static array, made from env.def, drives parsing, warnings and
 * printing. No lock: parsed in nixl_init and in the launcher's main before other threads exist.
 */
#include "config.h"

#include "util/coll_table.h"
#include "util/env.h"
#include "util/log.h"
#include "util/nearest.h"
#include "nixlrun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PREFIX "NIXLRUN_"

enum env_kind {
    KIND_time,
    KIND_bytes,
    KIND_count,
    KIND_flag,
    KIND_text,
    KIND_word,
    KIND_names,
    KIND_levels,
    KIND_limits,
    KIND_secret
};

enum { NAME_NBYTES = 64, WHY_NBYTES = 256 };

struct env_entry {
    const char *name; /* with the prefix */
    enum env_kind kind;
    size_t offset; /* in struct nxr_env */
    const char *initial;
    const char *lowest; /* of a word and of names: all that are allowed */
    const char *highest;
    const char *help;
};

/* clang-format off */
static const struct env_entry env_entries[] = {
#define NXR_ENV(_field, _name, _kind, _default, _lowest, _highest, _help)                          \
    {PREFIX #_name, KIND_##_kind, offsetof(struct nxr_env, _field),                                \
     _default, _lowest, _highest, _help},
#include "util/env.def"
#undef NXR_ENV
};
/* clang-format on */
#define N_ENTRIES (sizeof(env_entries) / sizeof(env_entries[0]))

static const char *const kind_help[] = {
    [KIND_time] = "a time such as 10us, 5ms, 2s, 1m or inf",
    [KIND_bytes] = "a number of bytes such as 512, 64K, 16M or 1G",
    [KIND_count] = "a whole number",
    [KIND_flag] = "0, 1, no or yes",
    [KIND_text] = "text with a length in bytes of up",
    [KIND_word] = "one of",
    [KIND_names] = "names", /* for these the checks write their own text */
    [KIND_levels] = "levels",
    [KIND_limits] = "limits",
    [KIND_secret] = "secret",
};

struct nxr_env nxr_env;

/* ---- values -------------------------------------------------------------------------------- */

struct unit {
    const char *name;
    uint64_t factor;
};

static int env_parse_number(const char *text, const struct unit *units, size_t n_units,
                            uint64_t limit, uint64_t *value_p)
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
    if (env_parse_number(text, units, sizeof(units) / sizeof(units[0]), INT64_MAX, &value) != 0) {
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

    return env_parse_number(text, units, sizeof(units) / sizeof(units[0]), UINT64_MAX, nbytes_p);
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

/* Is it a word of the list, which commas and spaces separate? */
static bool is_one_of(const char *list, const char *word, size_t word_nbytes)
{
    while (*list != '\0') {
        size_t nbytes = strcspn(list, ", ");

        if (word_nbytes == nbytes && strncmp(list, word, nbytes) == 0) {
            return true;
        }
        list += nbytes + strspn(list + nbytes, ", ");
    }
    return false;
}

/* Check a list of names separated by commas; ^ before it means all but these. */
static int check_names(const struct env_entry *entry, const char *list, char *why,
                       size_t why_nbytes)
{
    list += *list == '^';
    while (*list != '\0') {
        size_t nbytes = strcspn(list, ",");

        if (!is_one_of(entry->lowest, list, nbytes)) {
            snprintf(why, why_nbytes,
                     "%s has '%.*s'; allowed: a list of %s, or such a list after ^ for all others",
                     entry->name, (int)(nbytes < 40 ? nbytes : 40), list, entry->lowest);
            return NIXL_E_INVALID_ARG;
        }
        list += nbytes;
        list += *list == ',';
    }
    return NIXL_OK;
}

/*
 * Check kinds that are texts with a format. NIXL_OK, or NIXL_E_INVALID_ARG and what is wrong in
 * `why`.
 */
static int check_form(const struct env_entry *entry, const char *text, char *why, size_t why_nbytes)
{
    switch (entry->kind) {
    case KIND_names:
        return check_names(entry, text, why, why_nbytes);
    case KIND_levels:
        return nxr_log_check(text, why, why_nbytes);
    case KIND_limits:
        return nxr_coll_table_check(text, why, why_nbytes);
    default:
        return NIXL_OK;
    }
}

static int parse_entry_time(const struct env_entry *entry, const char *text, int64_t *ns_p)
{
    int64_t ns, limit;

    if (nxr_env_parse_time(text, &ns) != 0 ||
        (nxr_env_parse_time(entry->lowest, &limit) == 0 && ns < limit) ||
        (nxr_env_parse_time(entry->highest, &limit) == 0 && ns > limit)) {
        return -1;
    }
    *ns_p = ns;
    return 0;
}

static int parse_entry_bytes(const struct env_entry *entry, const char *text, uint64_t *number_p)
{
    uint64_t number, limit;

    if (nxr_env_parse_bytes(text, &number) != 0 ||
        (nxr_env_parse_bytes(entry->lowest, &limit) == 0 && number < limit) ||
        (nxr_env_parse_bytes(entry->highest, &limit) == 0 && number > limit)) {
        return -1;
    }
    *number_p = number;
    return 0;
}

/*
 * Store `text` as the entry's kind at `slot`; -1 if it is not of that kind or outside of the
 * limits.
 */
static int parse_entry(const struct env_entry *entry, const char *text, void *slot)
{
    char why[WHY_NBYTES];

    switch (entry->kind) {
    case KIND_time:
        return parse_entry_time(entry, text, slot);
    case KIND_bytes:
    case KIND_count:
        return parse_entry_bytes(entry, text, slot);
    case KIND_flag:
        return parse_flag(text, slot);
    case KIND_word:
        if (!is_one_of(entry->lowest, text, strlen(text))) {
            return -1;
        }
        *(const char **)slot = text;
        return 0;
    case KIND_names:
    case KIND_levels:
    case KIND_limits:
        if (check_form(entry, text, why, sizeof(why)) != NIXL_OK) {
            return -1;
        }
        *(const char **)slot = text;
        return 0;
    case KIND_text:
    case KIND_secret:
        if (entry->highest[0] != '\0' && strlen(text) > strtoul(entry->highest, NULL, 10)) {
            return -1;
        }
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

/* Write into `why` what is allowed instead of a bad value. Returns NIXL_E_INVALID_ARG. */
static int env_refuse(const struct env_entry *entry, const char *text, char *why, size_t why_nbytes)
{
    if (check_form(entry, text, why, why_nbytes) == NIXL_OK) {
        snprintf(why, why_nbytes, "%s is '%.80s'; allowed: %s%s%s%s%s", entry->name, text,
                 kind_help[entry->kind],
                 entry->kind == KIND_word ? " "
                 : entry->lowest[0]       ? " from "
                                          : "",
                 entry->lowest, entry->highest[0] ? " to " : "", entry->highest);
    }
    return NIXL_E_INVALID_ARG;
}

int nxr_env_parse(struct nxr_env *env, char *why, size_t why_nbytes)
{
    struct nxr_env parsed;

    memset(&parsed, 0, sizeof(parsed));
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct env_entry *entry = &env_entries[i];
        const char *text = entry_value(entry);
        void *slot = (char *)&parsed + entry->offset;

        if (text == NULL) {
            text = entry->initial;
        }
        if (parse_entry(entry, text, slot) != 0) {
            return env_refuse(entry, text, why, why_nbytes);
        }
    }
    *env = parsed;
    return NIXL_OK;
}

/* Copy the name of NAME=VALUE. False: it is longer than any of ours. */
static bool take_name(const char *assignment, char name[NAME_NBYTES])
{
    size_t nbytes = strcspn(assignment, "=");

    if (nbytes >= NAME_NBYTES) {
        return false;
    }
    memcpy(name, assignment, nbytes);
    name[nbytes] = '\0';
    return true;
}

static const struct env_entry *find_entry(const char *name)
{
    for (size_t i = 0; i < N_ENTRIES; i++) {
        if (strcmp(name, env_entries[i].name) == 0) {
            return &env_entries[i];
        }
    }
    return NULL;
}

int nxr_env_check(const char *assignment, char *why, size_t why_nbytes)
{
    struct nxr_env scratch;
    char name[NAME_NBYTES];
    const struct env_entry *entry = take_name(assignment, name) ? find_entry(name) : NULL;
    const char *text = strchr(assignment, '=');

    if (entry == NULL || text == NULL || text[1] == '\0' ||
        parse_entry(entry, text + 1, (char *)&scratch + entry->offset) == 0) {
        return NIXL_OK;
    }
    return env_refuse(entry, text + 1, why, why_nbytes);
}

bool nxr_env_all_names(const char *name, char *list, size_t list_nbytes)
{
    const struct env_entry *entry = find_entry(name);
    size_t used = 0;

    *list = '\0';
    if (entry == NULL || entry->kind != KIND_names || strlen(entry->lowest) >= list_nbytes) {
        return false;
    }
    for (const char *from = entry->lowest; *from != '\0'; from++) {
        if (*from != ' ') {
            list[used++] = *from;
        }
    }
    list[used] = '\0';
    return true;
}

/* The known name nearest to `name`; NULL if more than half of the name would have to change. */
static const char *nearest_name(const char *name)
{
    const char *nearest = NULL;
    unsigned best = (unsigned)(strlen(name) - strlen(PREFIX)) / 2 + 1;

    for (size_t i = 0; i < N_ENTRIES; i++) {
        unsigned distance = nxr_edit_distance(name, env_entries[i].name);

        if (distance < best) {
            best = distance;
            nearest = env_entries[i].name;
        }
    }
    return nearest;
}

void nxr_env_warn_unknown(char *const *vars)
{
    for (char *const *var = vars != NULL ? vars : environ; *var != NULL; var++) {
        char name[NAME_NBYTES];
        const char *nearest;

        if (strncmp(*var, PREFIX, strlen(PREFIX)) != 0 || !take_name(*var, name) ||
            find_entry(name) != NULL || (vars != NULL && getenv(name) != NULL)) {
            continue;
        }
        nearest = nearest_name(name);
        nxr_warn(ENV, "%s is not a variable of nixlrun; %s%s", name,
                 nearest != NULL ? "the nearest is " : "'nixlrun --env' lists all",
                 nearest != NULL ? nearest : "");
    }
}

void nxr_env_print(FILE *out)
{
    fprintf(out, "%-26s %-14s %-10s %s\n", "variable", "value", "default", "origin");
    for (size_t i = 0; i < N_ENTRIES; i++) {
        const struct env_entry *entry = &env_entries[i];
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
                text != NULL        ? (entry->kind == KIND_secret ? "(set)" : text)
                : entry->initial[0] ? entry->initial
                                    : "-",
                entry->initial[0] ? entry->initial : "-", origin, entry->help);
    }
}
