/* SPDX-License-Identifier: Apache-2.0 */
/* What a store answers, which is believed to be nothing but bytes. Pure functions. */
#ifndef NXR_S3_ANSWER_H
#define NXR_S3_ANSWER_H

#include "storage/object.h"

/* What is used of an answer's headers; "" and 0: it has none. */
struct s3_headers {
    uint64_t content_nbytes, total_nbytes; /* of the body; of the object (Content-Range) */
    bool has_content_nbytes, has_total;
    uint64_t begin; /* of the range (Content-Range) */
    bool has_begin;
    char etag[NXR_OBJECT_ETAG_NBYTES]; /* without quotation marks */
    uint32_t crc32c;
    bool has_crc32c;
    int64_t modified, date; /* seconds since 1970 */
    unsigned retry_after;   /* seconds */
    char region[64];        /* where the bucket is */
    bool are_complete;      /* the empty line behind them has come */
    char location[512];
};

/* Read one line, with or without its end; others than those above are skipped. */
void nxr_s3_header_read(const char *line, size_t nbytes, struct s3_headers *headers);

struct s3_error {
    char code[64]; /* "": the bytes are no error of S3 */
    char message[160];
    char region[64];
};
void nxr_s3_error_read(const char *bytes, size_t nbytes, struct s3_error *error);

/* The text of the first element of that name, without its own elements. False: there is none. */
bool nxr_s3_text_read(const char *bytes, size_t nbytes, const char *name, char *text,
                      size_t text_nbytes);

/* Is it a page of a list, whatever is in it? */
bool nxr_s3_is_page(const char *bytes, size_t nbytes);

/* One page of a list. */
struct s3_page {
    bool is_truncated;
    char token[1200]; /* of the next page */
};

/*
 * Call each() for the objects of a page until it returns false. NULL, or what is wrong with the
 * page.
 */
const char *nxr_s3_page_read(const char *bytes, size_t nbytes, struct s3_page *page,
                             bool (*each)(void *arg, const char *key,
                                          const struct nxr_object_found *found),
                             void *arg);

/* The body of COMPLETE, to be freed; NULL: no memory. */
char *nxr_s3_parts_write(const struct nxr_object_part *parts, unsigned n_parts, bool has_crc32c);

/*
 * The etag of the object that the parts become, by their own: MD5 of their MD5s. False: these are
 * none, and no etag is known.
 */
bool nxr_s3_parts_etag(const struct nxr_object_part *parts, unsigned n_parts,
                       char etag[NXR_OBJECT_ETAG_NBYTES]);

/* Base64 of a few bytes: out has room for 4 * (nbytes + 2) / 3 + 1. */
void nxr_s3_base64(const unsigned char *bytes, size_t nbytes, char *out);

/* CRC-32C of bytes that follow others whose CRC is `crc`; 0 at the begin. */
uint32_t nxr_s3_crc32c(uint32_t crc, const void *bytes, size_t nbytes);

#endif
