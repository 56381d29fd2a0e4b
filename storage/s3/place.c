/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing URLs. No state. */
#include "config.h"

#include "storage/s3/place.h"

#include <ctype.h>
#include <strings.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_name(const char *text, size_t nbytes, const char *extra)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr(extra, text[i]) == NULL) {
            return false;
        }
    }
    return nbytes > 0;
}

static int hex_of(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
}

/* Decode %XX of a path. */
static bool place_read_path(const char *text, struct s3_place *place, char *why, size_t why_nbytes)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        char byte = *text;

        if (byte == '%') {
            int high = hex_of(text[1]), low = high < 0 ? -1 : hex_of(text[2]);

            if (low < 0 || (high == 0 && low == 0)) {
                snprintf(why, why_nbytes, "the URL's path has a %% without two digits behind it");
                return false;
            }
            byte = (char)(high << 4 | low);
            text += 2;
        }
        if (n == NXR_OBJECT_KEY_MAX) {
            snprintf(why, why_nbytes, "the URL's path has more than %d bytes", NXR_OBJECT_KEY_MAX);
            return false;
        }
        place->path[n++] = byte;
    }
    place->path[n] = '\0';
    return true;
}

static bool place_read_bucket(const char *text, struct s3_place *place, char *why,
                              size_t why_nbytes)
{
    size_t nbytes = strcspn(text, "/");

    if (nbytes < 3 || nbytes >= sizeof(place->bucket) || !is_name(text, nbytes, ".-_")) {
        snprintf(why, why_nbytes,
                 "'%.*s' is no bucket; allowed: 3 or more letters, digits, '-', '.' and '_'",
                 (int)(nbytes < 80 ? nbytes : 80), text);
        return false;
    }
    memcpy(place->bucket, text, nbytes);
    place->bucket[nbytes] = '\0';
    return place_read_path(text[nbytes] == '/' ? text + nbytes + 1 : "", place, why, why_nbytes);
}

/* Behind the scheme; *rest_p: behind the host. */
static bool place_read_host(const char *text, struct s3_place *place, const char **rest_p)
{
    size_t nbytes = strcspn(text, "/?#");

    if (nbytes >= sizeof(place->host) || !is_name(text, nbytes, ".-_:[]")) {
        return false;
    }
    memcpy(place->host, text, nbytes);
    place->host[nbytes] = '\0';
    *rest_p = text + nbytes;
    return true;
}

static const char *place_read_scheme(const char *url, struct s3_place *place)
{
    if (strncasecmp(url, "https://", 8) == 0) {
        place->is_tls = true;
        return url + 8;
    }
    if (strncasecmp(url, "http://", 7) == 0) {
        place->is_tls = false;
        return url + 7;
    }
    return NULL;
}

bool nxr_s3_endpoint_read(const char *url, struct s3_place *place, char *why, size_t why_nbytes)
{
    const char *rest = place_read_scheme(url, place);

    if (rest == NULL || !place_read_host(rest, place, &rest) ||
        (rest[0] != '\0' && strcmp(rest, "/") != 0)) {
        snprintf(why, why_nbytes, "endpoint '%.100s'; allowed: http[s]://HOST[:PORT]", url);
        return false;
    }
    return true;
}

bool nxr_s3_place_read(const char *url, struct s3_place *place, char *why, size_t why_nbytes)
{
    const char *rest;

    memset(place, 0, sizeof(*place));
    place->is_tls = true;
    if (strncasecmp(url, "s3://", 5) == 0) {
        return place_read_bucket(url + 5, place, why, why_nbytes);
    }
    rest = place_read_scheme(url, place);
    if (rest == NULL || !place_read_host(rest, place, &rest) || rest[0] != '/') {
        snprintf(why, why_nbytes,
                 "'%.100s'; allowed: s3://BUCKET/PATH or http[s]://HOST[:PORT]/BUCKET/PATH", url);
        return false;
    }
    return place_read_bucket(rest + 1, place, why, why_nbytes);
}

bool nxr_s3_location_read(const char *location, bool is_tls, char *url, size_t url_nbytes)
{
    struct s3_place place;
    const char *rest = place_read_scheme(location, &place);
    size_t nbytes = strcspn(location, "?#");

    if (rest == NULL || place.is_tls != is_tls || !place_read_host(rest, &place, &rest) ||
        rest[0] != '/' || nbytes >= url_nbytes) {
        return false;
    }
    memcpy(url, location, nbytes);
    url[nbytes] = '\0';
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

void nxr_s3_encode(const char *text, bool keeps_slash, char *out, size_t out_nbytes)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = strlen(out);

    for (; *text != '\0' && n + 4 <= out_nbytes; text++) {
        unsigned char byte = (unsigned char)*text;

        if ((byte < 0x80 && isalnum(byte)) || strchr("-._~", byte) != NULL ||
            (byte == '/' && keeps_slash)) {
            out[n++] = (char)byte;
        } else {
            out[n++] = '%';
            out[n++] = digits[byte >> 4];
            out[n++] = digits[byte & 15];
        }
    }
    out[n] = '\0';
}

/* May the bucket be a part of the host's name? A dot would not match AWS's certificate. */
static bool is_in_host(const struct s3_place *place)
{
    for (const char *at = place->bucket; *at != '\0'; at++) {
        if (!islower((unsigned char)*at) && !isdigit((unsigned char)*at) && *at != '-') {
            return false;
        }
    }
    return strlen(place->bucket) <= 63;
}

void nxr_s3_url(const struct s3_place *place, const char *region, const char *key,
                const char *query, char url[S3_URL_NBYTES])
{
    const char *scheme = place->is_tls ? "https" : "http";
    const char *tail = strncmp(region, "cn-", 3) == 0 ? ".cn" : "";
    size_t n;

    if (place->host[0] != '\0') {
        snprintf(url, S3_URL_NBYTES, "%s://%s/%s", scheme, place->host, place->bucket);
    } else if (is_in_host(place)) {
        snprintf(url, S3_URL_NBYTES, "%s://%s.s3.%s.amazonaws.com%s", scheme, place->bucket, region,
                 tail);
    } else {
        snprintf(url, S3_URL_NBYTES, "%s://s3.%s.amazonaws.com%s/%s", scheme, region, tail,
                 place->bucket);
    }
    n = strlen(url);
    snprintf(url + n, S3_URL_NBYTES - n, "/");
    if (key != NULL) {
        nxr_s3_encode(key, true, url, S3_URL_NBYTES);
    }
    if (query[0] != '\0') {
        n = strlen(url);
        snprintf(url + n, S3_URL_NBYTES - n, "?%s", query);
    }
}
