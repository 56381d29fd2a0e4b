/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store answers: the first byte says whether the rest is headers, an error, a list, a URL, a
 * profile or credentials. What is read has texts that end and keys within their limits.
 */
/* sources: storage/s3/answer.c storage/s3/crc32c.c storage/s3/place.c storage/s3/profile.c */
/* libs: nettle */
#include "storage/s3/answer.h"
#include "storage/s3/place.h"
#include "storage/s3/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check(bool is_good)
{
    if (!is_good) {
        abort();
    }
}

static bool take_object(void *arg, const char *key, const struct nxr_object_found *found)
{
    size_t n = strlen(key);

    check(arg != NULL && n > 0 && n <= NXR_OBJECT_KEY_MAX);
    check(memchr(found->etag, '\0', sizeof(found->etag)) != NULL);
    return key[0] != '!';
}

static void read_headers(const char *bytes, size_t nbytes)
{
    struct s3_headers headers = {0};

    while (nbytes > 0) {
        const char *end = memchr(bytes, '\n', nbytes);
        size_t n = end != NULL ? (size_t)(end - bytes) + 1 : nbytes;

        nxr_s3_header_read(bytes, n, &headers);
        bytes += n;
        nbytes -= n;
    }
    check(memchr(headers.etag, '\0', sizeof(headers.etag)) != NULL);
    check(memchr(headers.location, '\0', sizeof(headers.location)) != NULL);
    check(headers.retry_after < 3600);
}

/* What was read as a place makes a URL that is read again as the same. */
static void read_place(const char *text)
{
    struct s3_place place, again;
    char url[S3_URL_NBYTES], why[200] = "";

    if (!nxr_s3_place_read(text, &place, why, sizeof(why))) {
        check(why[0] != '\0');
        return;
    }
    nxr_s3_url(&place, "us-east-1", place.path, "", url);
    if (place.host[0] != '\0' && strlen(place.host) < 200) {
        check(nxr_s3_place_read(url, &again, why, sizeof(why)));
        check(strcmp(place.path, again.path) == 0 && strcmp(place.bucket, again.bucket) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    unsigned what = nbytes > 0 ? data[0] % 6 : 0;
    char *bytes = malloc(nbytes + 1), value[32], url[64];
    struct s3_credentials credentials;
    struct s3_error error;
    struct s3_page page;
    int arg = 0;

    check(bytes != NULL);
    nbytes -= nbytes > 0;
    memcpy(bytes, data + 1, nbytes);
    bytes[nbytes] = '\0';
    if (what == 0) {
        read_headers(bytes, nbytes);
    } else if (what == 1) {
        nxr_s3_error_read(bytes, nbytes, &error);
        check(memchr(error.message, '\0', sizeof(error.message)) != NULL);
    } else if (what == 2) {
        const char *fault = nxr_s3_page_read(bytes, nbytes, &page, take_object, &arg);

        check(fault != NULL || !page.is_truncated || page.token[0] != '\0');
    } else if (what == 3) {
        read_place(bytes);
        (void)nxr_s3_location_read(bytes, true, url, sizeof(url));
    } else if (what == 4) {
        (void)nxr_s3_profile_value(bytes, "default", "region", value, sizeof(value));
        (void)nxr_s3_profile_has(bytes, "profile x");
    } else if (nxr_s3_credentials_read(bytes, &credentials)) {
        check(credentials.key_id[0] != '\0' && credentials.secret[0] != '\0');
    }
    free(bytes);
    return 0;
}
