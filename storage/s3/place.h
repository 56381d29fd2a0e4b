/* SPDX-License-Identifier: Apache-2.0 */
/* Where objects are: URLs of users, and those of requests. Pure functions. */
#ifndef NXR_S3_PLACE_H
#define NXR_S3_PLACE_H

#include "storage/object.h"

#define S3_HOST_NBYTES   280
#define S3_BUCKET_NBYTES 256
#define S3_REGION_NBYTES 64
#define S3_QUERY_NBYTES  16384 /* that of a list has three texts, encoded */
#define S3_URL_NBYTES                                                                              \
    (3 * NXR_OBJECT_KEY_MAX + S3_HOST_NBYTES + S3_BUCKET_NBYTES + S3_QUERY_NBYTES + 64)

/* What a URL says. */
struct s3_place {
    bool is_tls;
    char host[S3_HOST_NBYTES]; /* with the port, if it has one; "": AWS's */
    char bucket[S3_BUCKET_NBYTES];
    char path[NXR_OBJECT_KEY_MAX + 1]; /* decoded, without the first slash */
};

/*
 * Read s3://BUCKET/PATH, or http[s]://HOST[:PORT]/BUCKET/PATH. False and one line in `why`: it is
 * none.
 */
bool nxr_s3_place_read(const char *url, struct s3_place *place, char *why, size_t why_nbytes);

/* Read http[s]://HOST[:PORT][/] into place->is_tls and ->host. */
bool nxr_s3_endpoint_read(const char *url, struct s3_place *place, char *why, size_t why_nbytes);

/*
 * The URL of a request: of a key, or with NULL of the bucket; `query` begins behind the "?", is
 * encoded already, and may be "". AWS's host is that of the region; an endpoint of the user's gets
 * the bucket in the path.
 */
void nxr_s3_url(const struct s3_place *place, const char *region, const char *key,
                const char *query, char url[S3_URL_NBYTES]);

/* Append a text to `out`, encoded as SigV4 wants it; a slash stays if keeps_slash. */
void nxr_s3_encode(const char *text, bool keeps_slash, char *out, size_t out_nbytes);

/*
 * Where a Location header sends a request, without the query. False: it names no place, or would
 * leave TLS.
 */
bool nxr_s3_location_read(const char *location, bool is_tls, char *url, size_t url_nbytes);

#endif
