/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has become of an attempt: done, failed for good, to be tried again, or to be sent elsewhere,
 * or with another clock or region. On the engine's thread.
 */
#include "config.h"

#include "storage/s3/s3.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_TURNS 8 /* redirections and the like, in one request */

__attribute__((format(printf, 4, 5))) static enum s3_verdict
judge_say(struct s3_request *request, enum s3_verdict verdict, int error, const char *format, ...)
{
    struct nxr_object_io *io = request->io;
    va_list args;

    io->error = error;
    va_start(args, format);
    vsnprintf(io->why, sizeof(io->why), format, args);
    va_end(args);
    return verdict;
}

/* Once more at once, unless that was done often enough. */
static enum s3_verdict judge_turn(struct s3_request *request, const char *what)
{
    if (++request->n_turns > MAX_TURNS) {
        return judge_say(request, S3_FAILED, ELOOP, "%s, again and again", what);
    }
    return S3_AGAIN;
}

/* ---- no answer ------------------------------------------------------------------------------- */

static enum s3_verdict judge_tls(struct s3_request *request, const char *error)
{
    return judge_say(request, S3_FAILED, EACCES,
                     "TLS: %.120s; AWS_CA_BUNDLE or params->ca_file names the CA's file", error);
}

static enum s3_verdict judge_no_ranges(struct s3_request *request)
{
    return judge_say(request, S3_FAILED, EOPNOTSUPP, "the store does not know ranges");
}

/* The callback for bytes has ended it. */
static enum s3_verdict judge_surplus(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;
    const struct s3_headers *headers = &request->headers;
    uint64_t nbytes = headers->has_total ? headers->total_nbytes : headers->content_nbytes;
    long http = 0;

    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &http);
    if (request->is_ranged && http == 200) {
        return judge_no_ranges(request);
    }
    if (io->action == NXR_OBJECT_GET && !request->is_ranged && nbytes > io->nbytes) {
        request->is_ranged = true; /* the object there is longer, and what is asked for is a part */
        return judge_turn(request, "the object changes its size");
    }
    return judge_say(request, S3_RETRY, EPROTO, "the answer has more bytes than it should");
}

static enum s3_verdict judge_silence(struct s3_request *request, CURLcode code)
{
    const char *error = request->error[0] != '\0' ? request->error : curl_easy_strerror(code);
    long number = 0;

    curl_easy_getinfo(request->easy, CURLINFO_OS_ERRNO, &number);
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return judge_say(request, S3_RETRY, EHOSTUNREACH, "%.150s", error);
    case CURLE_COULDNT_CONNECT:
        return judge_say(request, S3_RETRY, number != 0 ? (int)number : ECONNREFUSED,
                         "cannot connect: %.120s", number != 0 ? strerror((int)number) : error);
    case CURLE_OPERATION_TIMEDOUT:
        return judge_say(request, S3_RETRY, ETIMEDOUT, "no answer: %.150s", error);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return judge_tls(request, error);
    case CURLE_SSL_CONNECT_ERROR:
        return strstr(error, "wrong version number") != NULL
                   ? judge_say(request, S3_FAILED, EPROTO, "it speaks no TLS: use http://")
                   : judge_say(request, S3_RETRY, ECONNRESET, "%.150s", error);
    case CURLE_WRITE_ERROR:
        return judge_surplus(request);
    case CURLE_OUT_OF_MEMORY:
        return judge_say(request, S3_FAILED, ENOMEM, "no memory");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return judge_say(request, S3_FAILED, EINVAL, "%.150s", error);
    default:
        return judge_say(request, S3_RETRY, ECONNRESET, "the connection has ended: %.150s", error);
    }
}

/* ---- answers that are no success ------------------------------------------------------------- */

/* The bucket is in another region: ask there from now on. */
static bool judge_region(struct s3_request *request, const struct s3_error *error)
{
    struct nxr_object_store *store = request->store;
    const char *region =
        request->headers.region[0] != '\0' ? request->headers.region : error->region;

    if (region[0] == '\0' || strcmp(region, store->region) == 0 ||
        strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region)) {
        return false;
    }
    snprintf(store->region, sizeof(store->region), "%.63s", region);
    return true;
}

/* The clocks of the store and of this host differ: sign with the store's. */
static bool judge_clock(struct s3_request *request)
{
    if (request->is_skewed || request->headers.date == 0) {
        return false;
    }
    request->is_skewed = true;
    request->store->skew_seconds = request->headers.date - (int64_t)time(NULL);
    return true;
}

static enum s3_verdict judge_redirect(struct s3_request *request, long http,
                                      const struct s3_error *error)
{
    if (judge_region(request, error)) {
        return judge_turn(request, "the store sends us to other regions");
    }
    if (http != 301 && nxr_s3_location_read(request->headers.location, request->store->place.is_tls,
                                            request->location, sizeof(request->location))) {
        return judge_turn(request, "the store sends us elsewhere");
    }
    return judge_say(request, S3_FAILED, EREMOTE,
                     "the bucket is at another endpoint (HTTP %ld %.60s %.100s); name its region "
                     "or endpoint",
                     http, error->code, request->headers.location);
}

static bool is_code(const struct s3_error *error, const char *const *codes)
{
    for (; *codes != NULL; codes++) {
        if (strcmp(error->code, *codes) == 0) {
            return true;
        }
    }
    return false;
}

/* Does the store refuse who we say we are, and not only what we want? */
static bool is_about_credentials(const struct s3_error *error)
{
    static const char *const codes[] = {"InvalidAccessKeyId",
                                        "SignatureDoesNotMatch",
                                        "InvalidToken",
                                        "ExpiredToken",
                                        "TokenRefreshRequired",
                                        "InvalidSecurity",
                                        "AuthorizationHeaderMalformed",
                                        NULL};

    return is_code(error, codes);
}

static enum s3_verdict judge_denied(struct s3_request *request, long http,
                                    const struct s3_error *error)
{
    if (strcmp(error->code, "RequestTimeTooSkewed") == 0 && judge_clock(request)) {
        return judge_turn(request, "the store's clock differs from this host's");
    }
    request->io->is_denied = error->code[0] != '\0' && !is_about_credentials(error) &&
                             strcmp(error->code, "RequestTimeTooSkewed") != 0;
    return judge_say(request, S3_FAILED, EACCES, "%s (HTTP %ld %.60s): %.110s",
                     is_about_credentials(error) ? "the credentials are refused"
                                                 : "access is denied",
                     http, error->code, error->message);
}

static enum s3_verdict judge_missing(struct s3_request *request, long http,
                                     const struct s3_error *error)
{
    struct nxr_object_io *io = request->io;

    io->is_no_bucket = strcmp(error->code, "NoSuchBucket") == 0 ||
                       (io->action == NXR_OBJECT_PROBE && error->code[0] != '\0');
    if (io->action == NXR_OBJECT_DELETE || io->action == NXR_OBJECT_ABORT) {
        return io->is_no_bucket ? judge_say(request, S3_FAILED, ENOENT, "no such bucket") : S3_DONE;
    }
    return judge_say(request, S3_FAILED, ENOENT, "%s (HTTP %ld %.60s)",
                     io->is_no_bucket                           ? "no such bucket"
                     : strcmp(error->code, "NoSuchUpload") != 0 ? "no such object"
                                                                : "there is no such upload",
                     http, error->code);
}

/* The object ends before the range. */
static enum s3_verdict judge_range(struct s3_request *request)
{
    const struct s3_headers *headers = &request->headers;

    if (headers->has_total) {
        return judge_say(request, S3_FAILED, ENODATA, "the object has only %llu bytes",
                         (unsigned long long)headers->total_nbytes);
    }
    return judge_say(request, S3_FAILED, ENODATA, "the object ends before that");
}

/* Only an object without bytes does not have the one that is asked for instead of a HEAD. */
static enum s3_verdict judge_empty(struct s3_request *request)
{
    struct nxr_object_found *found = &request->io->found;

    *found = (struct nxr_object_found){.modified = request->headers.modified};
    memcpy(found->etag, request->headers.etag, sizeof(found->etag));
    return S3_DONE;
}

/*
 * The answer to a HEAD has no body, and so no code. Only a GET tells whether the token has expired,
 * the clocks differ, the bucket is in another region, or access is denied.
 */
static bool must_ask_why(const struct s3_request *request, long http)
{
    return request->action == NXR_OBJECT_HEAD && !request->asks_why &&
           (http == 400 || http == 401 || http == 403);
}

static enum s3_verdict judge_refusal(struct s3_request *request, long http)
{
    static const char *const again[] = {"SlowDown",
                                        "RequestTimeout",
                                        "InternalError",
                                        "BadDigest",
                                        "InvalidDigest",
                                        "OperationAborted",
                                        "RequestTimeoutException",
                                        "ServiceUnavailable",
                                        "XAmzContentChecksumMismatch",
                                        "IncompleteBody",
                                        "Throttling",
                                        NULL};
    struct s3_error error;

    if (must_ask_why(request, http)) {
        request->asks_why = true;
        return judge_turn(request, "the store refuses a HEAD, but not a GET");
    }
    nxr_s3_error_read(request->bytes, request->nbytes, &error);
    if (http == 301 || http == 302 || http == 307 || http == 308 ||
        (http == 400 && strcmp(error.code, "AuthorizationHeaderMalformed") == 0 &&
         judge_region(request, &error))) {
        return http == 400 ? judge_turn(request, "the store sends us to other regions")
                           : judge_redirect(request, http, &error);
    }
    if (http >= 500 || http == 429 || http == 408 || is_code(&error, again)) {
        return judge_say(request, http == 501 ? S3_FAILED : S3_RETRY,
                         http == 501              ? EOPNOTSUPP
                         : is_code(&error, again) ? EBUSY
                                                  : EIO,
                         "HTTP %ld %.60s %.100s", http, error.code, error.message);
    }
    /* S3 refuses a key with 403, but a session's token with 400. */
    if (http == 403 || http == 401 || (http == 400 && is_about_credentials(&error))) {
        return judge_denied(request, http, &error);
    }
    if (http == 404) {
        return judge_missing(request, http, &error);
    }
    if (http == 416) {
        return request->asks_why ? judge_empty(request) : judge_range(request);
    }
    return judge_say(request, S3_FAILED, http == 413 ? EFBIG : EPROTO, "HTTP %ld %.60s %.110s",
                     http, error.code, error.message);
}

/* ---- success, if it holds -------------------------------------------------------------------- */

static bool is_md5(const char *etag)
{
    return strlen(etag) == 32 && strspn(etag, "0123456789abcdef") == 32;
}

static bool is_etag_of(struct s3_request *request, const char *etag)
{
    uint8_t digest[MD5_DIGEST_SIZE];
    char hex[2 * MD5_DIGEST_SIZE + 1];

    md5_digest(&request->md5, sizeof(digest), digest);
    for (int i = 0; i < MD5_DIGEST_SIZE; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    return strcmp(hex, etag) == 0;
}

static enum s3_verdict judge_got(struct s3_request *request, long http)
{
    const struct nxr_object_io *io = request->io;
    const struct s3_headers *headers = &request->headers;

    if (request->is_ranged && http != 206 && io->offset != 0) {
        return judge_no_ranges(request);
    }
    if (request->is_ranged && headers->has_begin && headers->begin != io->offset) {
        return judge_say(request, S3_RETRY, EPROTO, "the answer is of another range");
    }
    if (request->got < io->nbytes) {
        bool has_all = headers->has_total && headers->total_nbytes >= io->offset + io->nbytes;

        return headers->has_content_nbytes && headers->content_nbytes == request->got && !has_all
                   ? judge_range(request)
                   : judge_say(request, S3_RETRY, ECONNRESET, "the answer was cut short");
    }
    if (!request->is_ranged && request->store->uses_md5
            ? is_md5(headers->etag) && !is_etag_of(request, headers->etag)
            : !request->is_ranged && headers->has_crc32c && headers->crc32c != request->crc32c) {
        return judge_say(request, S3_RETRY, EBADMSG,
                         "the bytes are not those that were put: their checksum differs");
    }
    return S3_DONE;
}

static enum s3_verdict judge_put(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;
    const struct s3_headers *headers = &request->headers;

    if (headers->etag[0] == '\0') {
        return judge_say(request, S3_RETRY, EPROTO, "the answer has no etag");
    }
    if (headers->has_crc32c && request->store->checks_puts && !request->store->uses_md5 &&
        headers->crc32c != request->crc32c) {
        return judge_say(request, S3_RETRY, EBADMSG,
                         "the store has other bytes: their checksum "
                         "differs");
    }
    snprintf(io->found.etag, sizeof(io->found.etag), "%.79s", headers->etag);
    if (io->action == NXR_OBJECT_PART) {
        snprintf(io->parts->etag, sizeof(io->parts->etag), "%.79s", headers->etag);
        io->parts->crc32c = request->crc32c;
    }
    return S3_DONE;
}

static enum s3_verdict judge_created(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;

    if (!nxr_s3_text_read(request->bytes, request->nbytes, "UploadId", io->upload,
                          NXR_OBJECT_UPLOAD_NBYTES) ||
        io->upload[0] == '\0') {
        return judge_say(request, S3_RETRY, EPROTO, "the answer names no upload");
    }
    return S3_DONE;
}

/* S3 begins to answer before it knows the outcome, so that an error may come with HTTP 200. */
static enum s3_verdict judge_completed(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;
    char etag[NXR_OBJECT_ETAG_NBYTES];
    struct s3_error error;
    size_t n;

    nxr_s3_error_read(request->bytes, request->nbytes, &error);
    if (error.code[0] != '\0') {
        return judge_refusal(request, 500);
    }
    if (!nxr_s3_text_read(request->bytes, request->nbytes, "ETag", etag, sizeof(etag)) ||
        etag[0] == '\0') {
        return judge_say(request, S3_RETRY, EPROTO, "the answer has no etag");
    }
    n = strlen(etag);
    snprintf(io->found.etag, sizeof(io->found.etag), "%.*s", (int)(etag[0] == '"' ? n - 2 : n),
             etag + (etag[0] == '"'));
    return S3_DONE;
}

/* Any server of pages may answer 200 to whatever it is asked. */
static enum s3_verdict judge_probed(struct s3_request *request)
{
    return nxr_s3_is_page(request->bytes, request->nbytes)
               ? S3_DONE
               : judge_say(request, S3_FAILED, EPROTO, "it answers, but not as an S3 store does");
}

/* A page of a list. */
static bool judge_each(void *arg, const char *key, const struct nxr_object_found *found)
{
    struct s3_request *request = arg;
    bool goes_on = request->io->each(request->io, key, found);

    if (!goes_on) {
        request->io->error = ECANCELED;
    }
    return goes_on;
}

static enum s3_verdict judge_listed(struct s3_request *request)
{
    struct s3_page page;
    const char *fault =
        nxr_s3_page_read(request->bytes, request->nbytes, &page, judge_each, request);

    if (fault != NULL) {
        return judge_say(request, S3_FAILED, EPROTO, "the answer makes no sense: %s", fault);
    }
    if (request->io->error != 0 || !page.is_truncated) {
        return request->io->error != 0 ? S3_FAILED : S3_DONE;
    }
    if (strcmp(page.token, request->token) == 0) {
        return judge_say(request, S3_FAILED, EPROTO, "the list goes round in a circle");
    }
    memcpy(request->token, page.token, sizeof(request->token));
    request->n_attempts = request->n_turns = 0; /* each page has its own */
    return S3_AGAIN;
}

/* A GET instead of a HEAD may have brought more of the object than the byte that was wanted. */
static enum s3_verdict judge_head(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;
    const struct s3_headers *headers = &request->headers;

    if (!headers->has_content_nbytes) {
        return judge_say(request, S3_RETRY, EPROTO, "the answer has no size");
    }
    io->found.nbytes =
        request->asks_why && headers->has_total ? headers->total_nbytes : headers->content_nbytes;
    io->found.modified = headers->modified;
    memcpy(io->found.etag, headers->etag, sizeof(io->found.etag));
    return S3_DONE;
}

static enum s3_verdict judge_attempt(struct s3_request *request, CURLcode code)
{
    struct nxr_object_io *io = request->io;
    const struct s3_headers *headers = &request->headers;
    long http = 0;

    if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && request->asks_why)) {
        return judge_silence(request, code);
    }
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &http);
    if (!headers->are_complete) { /* which libcurl takes for an answer */
        return judge_say(request, S3_RETRY, ECONNRESET, "the answer was cut short");
    }
    if (http < 200 || http > 299) {
        return judge_refusal(request, http);
    }
    io->error = 0;
    switch (request->action) {
    case NXR_OBJECT_GET:
        return judge_got(request, http);
    case NXR_OBJECT_PUT:
    case NXR_OBJECT_PART:
        return judge_put(request);
    case NXR_OBJECT_CREATE:
        return judge_created(request);
    case NXR_OBJECT_COMPLETE:
        return judge_completed(request);
    case NXR_OBJECT_PROBE:
        return judge_probed(request);
    case NXR_OBJECT_LIST:
        return judge_listed(request);
    case NXR_OBJECT_HEAD:
        return judge_head(request);
    default:
        return S3_DONE;
    }
}

/* ---- an upload that may have become its object ----------------------------------------------- */

/*
 * An attempt of COMPLETE whose answer did not come may have joined the parts, one that libcurl
 * itself has sent again too. Then the next one finds no upload, or something else is in its way.
 */
static bool is_in_doubt(const struct s3_request *request)
{
    return request->action == NXR_OBJECT_COMPLETE && !request->io->is_no_bucket &&
           (request->n_attempts > 0 || request->io->error == ENOENT);
}

/* Ask for the object. */
static enum s3_verdict doubt_begin(struct s3_request *request)
{
    request->doubt_error = request->io->error;
    memcpy(request->doubt, request->io->why, sizeof(request->doubt));
    free(request->body);
    request->body = NULL;
    request->action = NXR_OBJECT_HEAD;
    return S3_AGAIN;
}

/* What there is, or is not, is all that is known. */
static enum s3_verdict doubt_end(struct s3_request *request, enum s3_verdict verdict)
{
    const struct nxr_object_io *io = request->io;
    char etag[NXR_OBJECT_ETAG_NBYTES], why[NXR_OBJECT_WHY_NBYTES];
    bool is_known = nxr_s3_parts_etag(io->parts, io->n_parts, etag);
    bool has_size = io->found.nbytes == io->object_nbytes;

    if (verdict == S3_DONE && is_known && has_size && strcmp(etag, io->found.etag) == 0) {
        return S3_DONE;
    }
    if (verdict == S3_DONE && (is_known || !has_size)) {
        return judge_say(request, S3_FAILED, request->doubt_error,
                         "%.110s; the object that is there is another one", request->doubt);
    }
    if (verdict == S3_DONE) {
        return judge_say(request, S3_FAILED, request->doubt_error,
                         "%.80s; it may be complete: the object that is there has its size, and an "
                         "etag that tells no more",
                         request->doubt);
    }
    if (io->error == ENOENT) {
        return judge_say(request, S3_FAILED, request->doubt_error, "%.120s; no object is there",
                         request->doubt);
    }
    memcpy(why, io->why, sizeof(why));
    return judge_say(request, S3_FAILED, request->doubt_error,
                     "%.80s; it may be complete, but a HEAD does not tell: %.60s", request->doubt,
                     why);
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum s3_verdict nxr_s3_judge(struct s3_request *request, CURLcode code)
{
    bool was_asking = request->asks_why;
    enum s3_verdict verdict = judge_attempt(request, code);

    if (was_asking && verdict == S3_AGAIN) { /* with another region or clock, HEAD may succeed */
        request->asks_why = false;
    }
    if (verdict == S3_FAILED && is_in_doubt(request)) {
        return doubt_begin(request);
    }
    if ((verdict == S3_DONE || verdict == S3_FAILED) && request->action != request->io->action) {
        return doubt_end(request, verdict);
    }
    return verdict;
}

enum s3_verdict nxr_s3_judge_last(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;
    char why[NXR_OBJECT_WHY_NBYTES];

    memcpy(why, io->why, sizeof(why));
    snprintf(io->why, sizeof(io->why), "%.160s (%u attempts)", why, request->n_attempts);
    if (is_in_doubt(request)) {
        return doubt_begin(request);
    }
    return request->action != io->action ? doubt_end(request, S3_FAILED) : S3_FAILED;
}
