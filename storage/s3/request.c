/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt of a request: its URL, headers and signature, and receiving the answer. Bytes of
 * objects go straight between libcurl's buffers and the caller's memory. On the engine's thread.
 */
#include "config.h"

#include "storage/s3/s3.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECT_MS     5000L
#define SILENT_SECONDS 10L /* without a byte in either direction */
#define BUFFER_NBYTES  (256L << 10)

/* What is said by headers: texts that live until the request is prepared. */
struct lines {
    char range[64], md5[40], crc32c[16], date[20], authorization[700];
    char host[S3_HOST_NBYTES + S3_BUCKET_NBYTES];
    char payload[65];
};

/* ---- receiving ------------------------------------------------------------------------------- */

static size_t request_take_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct s3_request *request = arg;

    nxr_s3_header_read(bytes, size * n, &request->headers);
    return size * n;
}

static bool is_object(const struct s3_request *request)
{
    long http = 0;

    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &http);
    return request->action == NXR_OBJECT_GET && (http == 200 || http == 206);
}

/* Bytes of the object, into the caller's memory. */
static size_t request_take_object(struct s3_request *request, const char *bytes, size_t nbytes)
{
    const struct nxr_object_store *store = request->store;

    if (nbytes > request->io->nbytes - request->got) {
        return 0; /* judge.c sees that there are more */
    }
    memcpy((char *)request->io->memory + request->got, bytes, nbytes);
    if (!request->is_ranged && store->uses_md5) {
        md5_update(&request->md5, nbytes, (const uint8_t *)bytes);
    } else if (!request->is_ranged && request->headers.has_crc32c) {
        request->crc32c = nxr_s3_crc32c(request->crc32c, bytes, nbytes);
    }
    request->got += nbytes;
    return nbytes;
}

/* Part of the answer. Returning another number ends the attempt. */
static size_t request_receive(char *bytes, size_t size, size_t n, void *arg)
{
    struct s3_request *request = arg;
    size_t nbytes = size * n, room = request->room;
    char *larger;

    if (is_object(request)) {
        return request_take_object(request, bytes, nbytes);
    }
    while (room < request->nbytes + nbytes) {
        room = room > 0 ? 2 * room : 2048;
    }
    if (room > S3_MAX_ANSWER) {
        return 0;
    }
    if (room > request->room) {
        larger = realloc(request->bytes, room);
        if (larger == NULL) {
            return 0;
        }
        request->bytes = larger;
        request->room = room;
    }
    memcpy(request->bytes + request->nbytes, bytes, nbytes);
    request->nbytes += nbytes;
    return nbytes;
}

/* ---- what is asked --------------------------------------------------------------------------- */

static const char *method_of(const struct s3_request *request)
{
    switch (request->action) {
    case NXR_OBJECT_PUT:
    case NXR_OBJECT_PART:
        return "PUT";
    case NXR_OBJECT_CREATE:
    case NXR_OBJECT_COMPLETE:
        return "POST";
    case NXR_OBJECT_ABORT:
    case NXR_OBJECT_DELETE:
        return "DELETE";
    case NXR_OBJECT_HEAD:
        return request->asks_why ? "GET" : "HEAD";
    default:
        return "GET";
    }
}

/* Add "name=value", the value encoded, to a query. */
static void query_add(char query[S3_QUERY_NBYTES], const char *name, const char *value)
{
    size_t n = strlen(query);

    snprintf(query + n, S3_QUERY_NBYTES - n, "%s%s=", n > 0 ? "&" : "", name);
    nxr_s3_encode(value, false, query, S3_QUERY_NBYTES);
}

/* Encoded and sorted, as it is signed. */
static void query_write(const struct s3_request *request, char query[S3_QUERY_NBYTES])
{
    const struct nxr_object_io *io = request->io;
    char number[16];

    query[0] = '\0';
    switch (request->action) {
    case NXR_OBJECT_CREATE:
        query_add(query, "uploads", "");
        break;
    case NXR_OBJECT_PART:
        snprintf(number, sizeof(number), "%u", io->part);
        query_add(query, "partNumber", number);
        query_add(query, "uploadId", io->upload);
        break;
    case NXR_OBJECT_COMPLETE:
    case NXR_OBJECT_ABORT:
        query_add(query, "uploadId", io->upload);
        break;
    case NXR_OBJECT_LIST:
        if (request->token[0] != '\0') {
            query_add(query, "continuation-token", request->token);
        }
        query_add(query, "list-type", "2");
        query_add(query, "prefix", io->key);
        if (io->after != NULL) {
            query_add(query, "start-after", io->after);
        }
        break;
    case NXR_OBJECT_PROBE:
        query_add(query, "list-type", "2");
        query_add(query, "max-keys", "1");
        query_add(query, "prefix", io->key);
        break;
    default:
        break;
    }
}

static bool is_of_bucket(const struct s3_request *request)
{
    return request->action == NXR_OBJECT_LIST || request->action == NXR_OBJECT_PROBE;
}

static bool has_bytes(const struct s3_request *request)
{
    return request->action == NXR_OBJECT_PUT || request->action == NXR_OBJECT_PART;
}

/* The body of COMPLETE is made once. */
static bool body_make(struct s3_request *request)
{
    const struct nxr_object_io *io = request->io;

    if (request->action == NXR_OBJECT_COMPLETE && request->body == NULL) {
        request->body = nxr_s3_parts_write(
            io->parts, io->n_parts, request->store->checks_puts && !request->store->uses_md5);
        return request->body != NULL;
    }
    return true;
}

static void add_signed(struct s3_signed *what, const char *name, const char *value)
{
    what->headers[what->n_headers].name = name;
    what->headers[what->n_headers++].value = value;
}

/* How the bytes of a put are checked by the store. */
static void checks_write(struct s3_request *request, struct lines *lines)
{
    struct nxr_object_io *io = request->io;
    uint8_t digest[MD5_DIGEST_SIZE];
    struct md5_ctx md5;
    uint32_t crc;

    if (!has_bytes(request)) {
        return;
    }
    if (request->store->uses_md5) {
        md5_init(&md5);
        md5_update(&md5, io->nbytes, io->memory);
        md5_digest(&md5, sizeof(digest), digest);
        nxr_s3_base64(digest, sizeof(digest), lines->md5);
    } else if (request->store->checks_puts) {
        request->crc32c = nxr_s3_crc32c(0, io->memory, io->nbytes);
        crc = __builtin_bswap32(request->crc32c);
        nxr_s3_base64((const unsigned char *)&crc, sizeof(crc), lines->crc32c);
    }
}

/* The headers that are signed, sorted by name. */
static void headers_choose(const struct s3_request *request, const struct lines *lines,
                           const struct s3_credentials *credentials, struct s3_signed *what)
{
    if (lines->md5[0] != '\0') {
        add_signed(what, "content-md5", lines->md5);
    }
    add_signed(what, "host", lines->host);
    if (request->action == NXR_OBJECT_CREATE && request->store->checks_puts &&
        !request->store->uses_md5) {
        add_signed(what, "x-amz-checksum-algorithm", "CRC32C");
    }
    if (lines->crc32c[0] != '\0') {
        add_signed(what, "x-amz-checksum-crc32c", lines->crc32c);
    }
    if (request->action == NXR_OBJECT_GET && !request->is_ranged && request->store->checks_gets) {
        add_signed(what, "x-amz-checksum-mode", "ENABLED");
    }
    add_signed(what, "x-amz-content-sha256", lines->payload);
    add_signed(what, "x-amz-date", lines->date);
    if (credentials->token[0] != '\0') {
        add_signed(what, "x-amz-security-token", credentials->token);
    }
}

static bool line_add(struct s3_request *request, const char *name, const char *value)
{
    char line[4200];
    struct curl_slist *more;
    int n = snprintf(line, sizeof(line), "%s: %s", name, value);

    more = n > 0 && (size_t)n < sizeof(line) ? curl_slist_append(request->lines, line) : NULL;
    explicit_bzero(line, sizeof(line));
    if (more == NULL) {
        return false;
    }
    request->lines = more;
    return true;
}

/* Split what nxr_s3_url() has made: the host for its header, path and query for the signature. */
static void url_split(const char *url, char *host, size_t host_nbytes, char *path,
                      size_t path_nbytes)
{
    const char *at = strstr(url, "://") + 3;
    size_t n = strcspn(at, "/");

    snprintf(host, host_nbytes, "%.*s", (int)n, at);
    snprintf(path, path_nbytes, "%.*s", (int)strcspn(at + n, "?"), at + n);
}

static bool lines_make(struct s3_request *request, const char *url, const char *query)
{
    const struct nxr_object_store *store = request->store;
    time_t now = time(NULL) + (time_t)store->skew_seconds;
    struct lines lines = {.range = ""};
    struct s3_credentials credentials = {.key_id = ""};
    char path[S3_URL_NBYTES];
    struct s3_signed what = {.method = method_of(request),
                             .path = path,
                             .query = query,
                             .payload = lines.payload,
                             .date = lines.date,
                             .region = store->region};
    struct tm tm;
    bool is_made = true;

    url_split(url, lines.host, sizeof(lines.host), path, sizeof(path));
    gmtime_r(&now, &tm);
    strftime(lines.date, sizeof(lines.date), "%Y%m%dT%H%M%SZ", &tm);
    if (request->body != NULL) {
        nxr_s3_sha256_hex(request->body, strlen(request->body), lines.payload);
    } else {
        snprintf(lines.payload, sizeof(lines.payload), "%s",
                 has_bytes(request) ? "UNSIGNED-PAYLOAD" : S3_EMPTY_SHA256);
    }
    checks_write(request, &lines);
    if (store->source != S3_ANONYMOUS) {
        nxr_s3_credentials_now(request->store, &credentials);
    }
    headers_choose(request, &lines, &credentials, &what);
    for (unsigned i = 0; i < what.n_headers && is_made; i++) {
        is_made = strcmp(what.headers[i].name, "host") == 0 ||
                  line_add(request, what.headers[i].name, what.headers[i].value);
    }
    if (is_made && store->source != S3_ANONYMOUS) {
        is_made =
            nxr_s3_sign(&what, &credentials, lines.authorization, sizeof(lines.authorization)) &&
            line_add(request, "Authorization", lines.authorization);
    }
    explicit_bzero(&credentials, sizeof(credentials));
    return is_made && line_add(request, "Expect", "") &&
           line_add(request, "Content-Type", "application/octet-stream");
}

/* ---- preparing ------------------------------------------------------------------------------- */

static void options_set(struct s3_request *request, const char *url)
{
    CURL *easy = request->easy;

    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name server */
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SILENT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_NBYTES);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_NBYTES);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->error);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, request_take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, request_receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->lines);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    if (request->store->ca_file[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_CAINFO, request->store->ca_file);
    }
}

static void action_set(struct s3_request *request)
{
    const struct nxr_object_io *io = request->io;
    CURL *easy = request->easy;
    char range[64];

    if (request->action == NXR_OBJECT_HEAD && request->asks_why) {
        curl_easy_setopt(easy, CURLOPT_RANGE, "0-0");
    } else if (request->action == NXR_OBJECT_HEAD) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (has_bytes(request)) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)io->nbytes);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, io->memory);
    } else if (request->action == NXR_OBJECT_CREATE || request->action == NXR_OBJECT_COMPLETE) {
        const char *body = request->body != NULL ? request->body : "";

        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    }
    if (request->action != NXR_OBJECT_HEAD) {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method_of(request));
    }
    if (request->is_ranged) {
        snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, io->offset,
                 io->offset + io->nbytes - 1);
        curl_easy_setopt(easy, CURLOPT_RANGE, range);
    }
}

int nxr_s3_request_prepare(struct s3_request *request)
{
    char url[S3_URL_NBYTES], query[S3_QUERY_NBYTES];

    memset(&request->headers, 0, sizeof(request->headers));
    request->got = request->nbytes = 0;
    request->crc32c = 0;
    request->error[0] = '\0';
    md5_init(&request->md5);
    curl_slist_free_all(request->lines);
    request->lines = NULL;
    curl_easy_reset(request->easy);
    query_write(request, query);
    if (request->location[0] != '\0') {
        snprintf(url, sizeof(url), "%s%s%s", request->location, query[0] != '\0' ? "?" : "", query);
    } else {
        nxr_s3_url(&request->store->place, request->store->region,
                   is_of_bucket(request) ? NULL : request->io->key, query, url);
    }
    if (!body_make(request) || !lines_make(request, url, query)) {
        return ENOMEM;
    }
    options_set(request, url);
    action_set(request);
    return 0;
}
