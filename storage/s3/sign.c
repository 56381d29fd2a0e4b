/* SPDX-License-Identifier: Apache-2.0 */
/* AWS Signature Version 4. No state. */
#include "config.h"

#include "storage/s3/sign.h"

#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

static void to_hex(const uint8_t *bytes, size_t nbytes, char *hex)
{
    for (size_t i = 0; i < nbytes; i++) {
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    }
}

void nxr_s3_sha256_hex(const void *bytes, size_t nbytes, char hex[65])
{
    struct sha256_ctx sha;
    uint8_t digest[SHA256_DIGEST_SIZE];

    sha256_init(&sha);
    sha256_update(&sha, nbytes, bytes);
    sha256_digest(&sha, sizeof(digest), digest);
    to_hex(digest, sizeof(digest), hex);
}

static void hmac(const void *key, size_t key_nbytes, const char *text,
                 uint8_t digest[SHA256_DIGEST_SIZE])
{
    struct hmac_sha256_ctx mac;

    hmac_sha256_set_key(&mac, key_nbytes, key);
    hmac_sha256_update(&mac, strlen(text), (const uint8_t *)text);
    hmac_sha256_digest(&mac, SHA256_DIGEST_SIZE, digest);
    explicit_bzero(&mac, sizeof(mac));
}

static void sha_add(struct sha256_ctx *sha, const char *text)
{
    sha256_update(sha, strlen(text), (const uint8_t *)text);
}

static void names_of(const struct s3_signed *request, char *names, size_t names_nbytes)
{
    size_t n = 0;

    names[0] = '\0';
    for (unsigned i = 0; i < request->n_headers && n < names_nbytes; i++) {
        n += (size_t)snprintf(names + n, names_nbytes - n, "%s%s", i > 0 ? ";" : "",
                              request->headers[i].name);
    }
}

/* The hash of the canonical request. */
static void canonical_hash(const struct s3_signed *request, const char *names, char hex[65])
{
    struct sha256_ctx sha;
    uint8_t digest[SHA256_DIGEST_SIZE];

    sha256_init(&sha);
    sha_add(&sha, request->method);
    sha_add(&sha, "\n");
    sha_add(&sha, request->path);
    sha_add(&sha, "\n");
    sha_add(&sha, request->query);
    sha_add(&sha, "\n");
    for (unsigned i = 0; i < request->n_headers; i++) {
        sha_add(&sha, request->headers[i].name);
        sha_add(&sha, ":");
        sha_add(&sha, request->headers[i].value);
        sha_add(&sha, "\n");
    }
    sha_add(&sha, "\n");
    sha_add(&sha, names);
    sha_add(&sha, "\n");
    sha_add(&sha, request->payload);
    sha256_digest(&sha, sizeof(digest), digest);
    to_hex(digest, sizeof(digest), hex);
}

static void signing_key(const struct s3_credentials *credentials, const char *day,
                        const char *region, uint8_t key[SHA256_DIGEST_SIZE])
{
    char secret[sizeof(credentials->secret) + 4];

    snprintf(secret, sizeof(secret), "AWS4%s", credentials->secret);
    hmac(secret, strlen(secret), day, key);
    hmac(key, SHA256_DIGEST_SIZE, region, key);
    hmac(key, SHA256_DIGEST_SIZE, "s3", key);
    hmac(key, SHA256_DIGEST_SIZE, "aws4_request", key);
    explicit_bzero(secret, sizeof(secret));
}

bool nxr_s3_sign(const struct s3_signed *request, const struct s3_credentials *credentials,
                 char *text, size_t text_nbytes)
{
    char names[256], scope[128], hash[65], what[320], day[9], signature[65];
    uint8_t key[SHA256_DIGEST_SIZE];
    int n;

    snprintf(day, sizeof(day), "%.8s", request->date);
    snprintf(scope, sizeof(scope), "%s/%s/s3/aws4_request", day, request->region);
    names_of(request, names, sizeof(names));
    canonical_hash(request, names, hash);
    snprintf(what, sizeof(what), "AWS4-HMAC-SHA256\n%s\n%s\n%s", request->date, scope, hash);
    signing_key(credentials, day, request->region, key);
    hmac(key, sizeof(key), what, key);
    to_hex(key, sizeof(key), signature);
    explicit_bzero(key, sizeof(key));
    n = snprintf(text, text_nbytes,
                 "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s",
                 credentials->key_id, scope, names, signature);
    return n > 0 && (size_t)n < text_nbytes;
}
