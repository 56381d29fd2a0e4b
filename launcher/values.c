/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options. Pure functions on arbitrary text: no locale, no overflow, and an error line
 * stays one line whatever the user typed.
 */
#include "launcher/values.h"
#include "util/nearest.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int value_count(const char *text, int lowest, int highest, int *value_p)
{
    long long value = 0;

    if (text[0] == '\0') {
        return -1;
    }
    for (; *text != '\0'; text++) {
        if (!is_digit(*text)) {
            return -1;
        }
        value = value * 10 + (*text - '0');
        if (value > highest) {
            return -1;
        }
    }
    if (value < lowest) {
        return -1;
    }
    *value_p = (int)value;
    return 0;
}

/* Nanoseconds of a unit, 0 if it is none. */
static int64_t unit_ns(const char *unit)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {
        {"", 1000000000}, {"s", 1000000000},  {"ms", 1000000},
        {"us", 1000},     {"m", 60000000000}, {"h", 3600000000000},
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].ns;
        }
    }
    return 0;
}

int value_time(const char *text, int64_t *ns_p)
{
    const char *unit = text + strspn(text, "0123456789.");
    int64_t factor = unit_ns(unit);
    int64_t ns = 0, step;

    if (factor == 0 || !is_digit(text[0]) || !is_digit(unit[-1])) {
        return -1;
    }
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(ns, 10, &ns) ||
            __builtin_add_overflow(ns, (*text - '0') * factor, &ns)) {
            return -1;
        }
    }
    if (*text == '.') {
        for (text++, step = factor / 10; is_digit(*text); text++, step /= 10) {
            if (__builtin_add_overflow(ns, (*text - '0') * step, &ns)) {
                return -1;
            }
        }
    }
    if (text != unit) {
        return -1;
    }
    *ns_p = ns;
    return 0;
}

int value_word(const char *text, const char *list)
{
    size_t nbytes = strlen(text);

    for (int index = 0; *list != '\0'; index++) {
        size_t word_nbytes = strcspn(list, " ");

        if (word_nbytes == nbytes && memcmp(text, list, nbytes) == 0) {
            return index;
        }
        list += word_nbytes;
        list += *list == ' ';
    }
    return -1;
}

unsigned value_nearest(const char *text, const char *list, unsigned near,
                       char nearest[VALUE_WORD_NBYTES])
{
    while (*list != '\0') {
        int word_nbytes = (int)strcspn(list, " ");
        char word[VALUE_WORD_NBYTES];
        unsigned distance;

        snprintf(word, sizeof(word), "%.*s", word_nbytes, list);
        distance = strlen(text) > 2 && strncmp(text, word, strlen(text)) == 0
                       ? 0 /* the beginning of the word */
                       : nxr_edit_distance(text, word);
        if (distance < near) {
            near = distance;
            memcpy(nearest, word, sizeof(word));
        }
        list += word_nbytes;
        list += *list == ' ';
    }
    return near;
}

const char *value_show(const char *text, char shown[VALUE_SHOWN_NBYTES])
{
    size_t used = 0;

    shown[used++] = '\'';
    for (; *text != '\0'; text++) {
        if (used + sizeof("...'") + 4 > VALUE_SHOWN_NBYTES) {
            used += (size_t)snprintf(shown + used, VALUE_SHOWN_NBYTES - used, "...");
            break;
        }
        if (iscntrl((unsigned char)*text)) {
            used += (size_t)snprintf(shown + used, VALUE_SHOWN_NBYTES - used, "\\x%02x",
                                     (unsigned char)*text);
        } else {
            shown[used++] = *text;
        }
    }
    shown[used++] = '\'';
    shown[used] = '\0';
    return shown;
}
