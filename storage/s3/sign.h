/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signing requests, AWS Signature Version 4. libcurl can (CURLOPT_AWS_SIGV4), but 7.88 of Debian 12
 * signs headers that it does not send, leaves the query as it is, and knows no clock but the
 * host's, so that a store whose clock differs refuses it for good. Pure functions.
 */
#ifndef NXR_S3_SIGN_H
#define NXR_S3_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_SIGNED_HEADERS 8
#define S3_EMPTY_SHA256   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct s3_credentials {
    char key_id[132];
    char secret[132];
    char token[4096]; /* of a session; "": none */
    int64_t expires;  /* seconds since 1970; 0: never */
};

/* What is signed. The names of headers are in lower case and sorted. */
struct s3_signed {
    const char *method;
    const char *path;  /* encoded, as it is sent */
    const char *query; /* encoded and sorted, each with a '='; "": none */
    struct {
        const char *name, *value;
    } headers[S3_SIGNED_HEADERS];
    unsigned n_headers;
    const char *payload; /* its SHA-256, or UNSIGNED-PAYLOAD: the value of x-amz-content-sha256 */
    const char *date;    /* 20130524T000000Z: the value of x-amz-date */
    const char *region;
};

/* The value of the header Authorization. False: it does not fit. */
bool nxr_s3_sign(const struct s3_signed *request, const struct s3_credentials *credentials,
                 char *text, size_t text_nbytes);

void nxr_s3_sha256_hex(const void *bytes, size_t nbytes, char hex[65]);

#endif
