/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of NAME=VALUE lines. Nothing in them is expanded or executed.
 */
#include "launcher/envfile.h"
#include "launcher/xalloc.h"

#include <ctype.h>

static int is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/*
 * Remove the quotes around a value, or, if it is not quoted, its trailing blanks. Changes the value
 * in place. Returns where it starts, or NULL if a quote is open or something follows the closing
 * one.
 */
static char *unquote(char *value)
{
    size_t nbytes = strlen(value);

    while (nbytes > 0 && isspace((unsigned char)value[nbytes - 1])) {
        value[--nbytes] = '\0';
    }
    if (value[0] != '\'' && value[0] != '"') {
        return value;
    }
    if (nbytes < 2 || strchr(value + 1, value[0]) != value + nbytes - 1) {
        return NULL;
    }
    value[nbytes - 1] = '\0';
    return value + 1;
}

/* Parse one line. Returns NULL, or what is wrong with it. */
static const char *envfile_parse_line(char *line, void *arg)
{
    struct envlist *list = arg;
    size_t name_nbytes = 0;
    char *value, *assignment;

    line += strspn(line, " \t\r\v\f");
    if (line[0] == '\0' || line[0] == '#') {
        return NULL;
    }
    if (strncmp(line, "export", 6) == 0 && (line[6] == ' ' || line[6] == '\t')) {
        line += 6 + strspn(line + 6, " \t");
    }
    while (is_name_byte(line[name_nbytes])) {
        name_nbytes++;
    }
    if (line[name_nbytes] != '=') {
        return strchr(line, '=') == NULL ? "has no '='" : "has a name with a bad character";
    }
    if (name_nbytes == 0) {
        return "has no name before '='";
    }
    if (isdigit((unsigned char)line[0])) {
        return "has a name that begins with a digit";
    }
    value = unquote(line + name_nbytes + 1);
    if (value == NULL) {
        return "has a quote that is not closed at the end of the line";
    }
    assignment = line;
    memmove(assignment + name_nbytes + 1, value, strlen(value) + 1);
    envlist_set(list, assignment);
    return NULL;
}

int envfile_parse(char *text, size_t nbytes, struct envlist *list, char cause[ENVFILE_CAUSE_NBYTES])
{
    return textfile_parse(text, nbytes, envfile_parse_line, list, cause);
}

int envfile_read(const char *path, struct envlist *list, char cause[ENVFILE_CAUSE_NBYTES])
{
    return textfile_read(path, envfile_parse_line, list, cause);
}
