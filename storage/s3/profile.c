/* SPDX-License-Identifier: Apache-2.0 */
/* AWS's files of profiles, in INI form, and the JSON of services of credentials. No state. */
#include "config.h"

#include "storage/s3/profile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SOON_SECONDS  300 /* before credentials expire, others are asked for */
#define AGAIN_SECONDS 30  /* after that, while they are valid */

/* ---- profiles -------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *text, const char *end)
{
    while (text < end && isblank((unsigned char)*text)) {
        text++;
    }
    return text;
}

static const char *trim(const char *text, const char *end)
{
    while (end > text && isspace((unsigned char)end[-1])) {
        end--;
    }
    return end;
}

static bool is_text(const char *at, const char *end, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(end - at) == n && memcmp(at, text, n) == 0;
}

/* "[name]", with blanks anywhere: does it name that section? */
static bool is_section(const char *line, const char *end, const char *section)
{
    const char *close = memchr(line, ']', (size_t)(end - line));

    if (close == NULL) {
        return false;
    }
    line = skip_blanks(line + 1, close);
    return is_text(line, trim(line, close), section);
}

/* Behind "name =" of a line, or NULL. */
static const char *value_of(const char *line, const char *end, const char *name)
{
    const char *equals = memchr(line, '=', (size_t)(end - line));

    if (equals == NULL || !is_text(line, trim(line, equals), name)) {
        return NULL;
    }
    return skip_blanks(equals + 1, end);
}

/* The line of a name in a section; with name NULL of the section itself. NULL: none. */
static const char *profile_find(const char *text, const char *section, const char *name,
                                const char **end_p)
{
    bool is_inside = false;

    while (*text != '\0') {
        const char *end = text + strcspn(text, "\n"), *line = text, *value;

        text = *end == '\n' ? end + 1 : end;
        if (isblank((unsigned char)*line)) {
            continue; /* what belongs to a name before it: "s3 =" and its like */
        }
        end = trim(line, end);
        if (line == end || *line == '#' || *line == ';') {
            continue;
        }
        if (*line == '[') {
            is_inside = is_section(line, end, section);
            if (is_inside && name == NULL) {
                *end_p = end;
                return line;
            }
            continue;
        }
        value = is_inside && name != NULL ? value_of(line, end, name) : NULL;
        if (value != NULL) {
            *end_p = end;
            return value;
        }
    }
    return NULL;
}

bool nxr_s3_profile_has(const char *text, const char *section)
{
    const char *end;

    return profile_find(text, section, NULL, &end) != NULL;
}

bool nxr_s3_profile_value(const char *text, const char *section, const char *name, char *value,
                          size_t value_nbytes)
{
    const char *end, *at = profile_find(text, section, name, &end);

    value[0] = '\0';
    if (at == NULL || (size_t)(end - at) >= value_nbytes) {
        return false;
    }
    memcpy(value, at, (size_t)(end - at));
    value[end - at] = '\0';
    return true;
}

/* ---- services of credentials ----------------------------------------------------------------- */

/* The string of a name in a flat JSON object. */
static bool json_text(const char *json, const char *name, char *text, size_t text_nbytes)
{
    char quoted[40];
    const char *at;
    size_t n = 0;

    snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    at = strstr(json, quoted);
    if (at == NULL) {
        return false;
    }
    for (at += strlen(quoted); isspace((unsigned char)*at); at++) {
    }
    if (*at++ != ':') {
        return false;
    }
    for (; isspace((unsigned char)*at); at++) {
    }
    if (*at++ != '"') {
        return false;
    }
    for (; *at != '"'; at++) {
        if (*at == '\\' && strchr("/\"\\", at[1]) != NULL) {
            at++;
        }
        if (*at == '\0' || n + 1 >= text_nbytes) {
            return false;
        }
        text[n++] = *at;
    }
    text[n] = '\0';
    return n > 0;
}

bool nxr_s3_credentials_read(const char *json, struct s3_credentials *credentials)
{
    char expires[64];
    struct tm tm = {0};

    memset(credentials, 0, sizeof(*credentials));
    if (!json_text(json, "AccessKeyId", credentials->key_id, sizeof(credentials->key_id)) ||
        !json_text(json, "SecretAccessKey", credentials->secret, sizeof(credentials->secret))) {
        return false;
    }
    if (!json_text(json, "Token", credentials->token, sizeof(credentials->token))) {
        credentials->token[0] = '\0';
    }
    if (json_text(json, "Expiration", expires, sizeof(expires)) &&
        strptime(expires, "%Y-%m-%dT%H:%M:%S", &tm) != NULL) {
        credentials->expires = (int64_t)timegm(&tm);
    }
    return true;
}

/*
 * A service may fail, or have no newer credentials before the former ones expire: it is not asked
 * with each request then. If they have expired, nothing else can succeed, and it is asked sooner.
 */
enum s3_need nxr_s3_credentials_need(int64_t expires, int64_t now, int64_t seconds_ago)
{
    if (expires == 0 || expires >= now + SOON_SECONDS) {
        return S3_NEED_NONE;
    }
    if (expires > now) {
        return seconds_ago >= AGAIN_SECONDS ? S3_NEED_SOON : S3_NEED_NONE;
    }
    return seconds_ago >= 1 ? S3_NEED_NOW : S3_NEED_NONE;
}
