/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what a store answers. Of XML only what S3 sends is understood: elements, text and the
 * five entities and numeric ones; that is enough for errors, uploads and lists, and has no memory.
 */
#include "config.h"

#include "storage/s3/answer.h"

#include <nettle/md5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- headers --------------------------------------------------------------------------------- */

static int base64_of(char digit)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = digit != '\0' ? strchr(digits, digit) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

void nxr_s3_base64(const unsigned char *bytes, size_t nbytes, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < nbytes; i += 3) {
        size_t left = nbytes - i;
        uint32_t bits = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (left > 2 ? bytes[i + 2] : 0);

        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = (char)(left > 1 ? digits[bits >> 6 & 63] : '=');
        *out++ = (char)(left > 2 ? digits[bits & 63] : '=');
    }
    *out = '\0';
}

/* "AAAAAA==", four bytes. A composite checksum, "...-3", is none. */
static bool read_crc32c(const char *text, uint32_t *crc_p)
{
    uint64_t bits = 0;

    if (strlen(text) != 8 || strcmp(text + 6, "==") != 0) {
        return false;
    }
    for (int i = 0; i < 6; i++) {
        int digit = base64_of(text[i]);

        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint64_t)digit;
    }
    *crc_p = (uint32_t)(bits >> 4);
    return true;
}

static bool read_number(const char *text, uint64_t *number_p)
{
    uint64_t number = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (number > (UINT64_MAX - 9) / 10) {
            return false;
        }
        number = 10 * number + (uint64_t)(*at - '0');
    }
    *number_p = number;
    return at != text && *at == '\0';
}

/* "bytes 0-99/1000"; a star stands for what is not known. */
static void read_range(const char *text, struct s3_headers *headers)
{
    const char *slash = strchr(text, '/'), *digits = text + strcspn(text, "0123456789/");
    char begin[24];

    headers->has_total = slash != NULL && read_number(slash + 1, &headers->total_nbytes);
    snprintf(begin, sizeof(begin), "%.*s", (int)strspn(digits, "0123456789"), digits);
    headers->has_begin = read_number(begin, &headers->begin);
}

/* The names of days and months are English, whatever locale the program has set. */
static bool read_http_time(const char *text, struct tm *tm)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char month[4];
    const char *at;

    if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d", &tm->tm_mday, month,
               &tm->tm_year, &tm->tm_hour, &tm->tm_min, &tm->tm_sec) != 6) {
        return false;
    }
    at = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (at == NULL || (at - months) % 3 != 0) {
        return false;
    }
    tm->tm_mon = (int)(at - months) / 3;
    tm->tm_year -= 1900;
    return true;
}

/* "Wed, 21 Oct 2015 07:28:00 GMT" or "2015-10-21T07:28:00.000Z"; 0: neither. */
static int64_t read_time(const char *text)
{
    struct tm tm = {0};

    if (!read_http_time(text, &tm)) {
        memset(&tm, 0, sizeof(tm));
        if (strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL) {
            return 0;
        }
    }
    return (int64_t)timegm(&tm);
}

static void read_etag(const char *text, char etag[NXR_OBJECT_ETAG_NBYTES])
{
    size_t n = strlen(text);

    if (n >= 2 && text[0] == '"' && text[n - 1] == '"') {
        text++;
        n -= 2;
    }
    snprintf(etag, NXR_OBJECT_ETAG_NBYTES, "%.*s",
             n < NXR_OBJECT_ETAG_NBYTES ? (int)n : NXR_OBJECT_ETAG_NBYTES - 1, text);
}

static void header_take(const char *name, const char *value, struct s3_headers *headers)
{
    uint64_t number;

    if (strcasecmp(name, "content-length") == 0) {
        headers->has_content_nbytes = read_number(value, &headers->content_nbytes);
    } else if (strcasecmp(name, "content-range") == 0) {
        read_range(value, headers);
    } else if (strcasecmp(name, "etag") == 0) {
        read_etag(value, headers->etag);
    } else if (strcasecmp(name, "x-amz-checksum-crc32c") == 0) {
        headers->has_crc32c = read_crc32c(value, &headers->crc32c);
    } else if (strcasecmp(name, "last-modified") == 0) {
        headers->modified = read_time(value);
    } else if (strcasecmp(name, "date") == 0) {
        headers->date = read_time(value);
    } else if (strcasecmp(name, "retry-after") == 0) {
        headers->retry_after = read_number(value, &number) && number < 3600 ? (unsigned)number : 0;
    } else if (strcasecmp(name, "x-amz-bucket-region") == 0) {
        snprintf(headers->region, sizeof(headers->region), "%.63s", value);
    } else if (strcasecmp(name, "location") == 0) {
        snprintf(headers->location, sizeof(headers->location), "%.511s", value);
    }
}

void nxr_s3_header_read(const char *line, size_t nbytes, struct s3_headers *headers)
{
    const char *colon = memchr(line, ':', nbytes);
    char name[40], value[600];
    size_t n, from;

    if (nbytes >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
        memset(headers, 0, sizeof(*headers)); /* 100 Continue has ended, the answer begins */
        return;
    }
    headers->are_complete =
        headers->are_complete || (nbytes > 0 && strchr("\r\n", line[0]) != NULL);
    if (colon == NULL || (size_t)(colon - line) >= sizeof(name)) {
        return;
    }
    n = (size_t)(colon - line);
    memcpy(name, line, n);
    name[n] = '\0';
    for (from = n + 1; from < nbytes && (line[from] == ' ' || line[from] == '\t'); from++) {
    }
    while (nbytes > from && strchr("\r\n \t", line[nbytes - 1]) != NULL) {
        nbytes--;
    }
    n = nbytes - from;
    if (n >= sizeof(value)) {
        return;
    }
    memcpy(value, line + from, n);
    value[n] = '\0';
    header_take(name, value, headers);
}

/* ---- XML ------------------------------------------------------------------------------------- */

struct xml {
    const char *at, *end;
};

/* Behind the next start tag of that name; false: there is none. */
static bool xml_find(struct xml *xml, const char *name)
{
    size_t n = strlen(name);

    while ((size_t)(xml->end - xml->at) > n + 1) {
        const char *open = memchr(xml->at, '<', (size_t)(xml->end - xml->at));
        const char *behind;

        if (open == NULL || (size_t)(xml->end - open) <= n + 1) {
            return false;
        }
        xml->at = open + 1;
        behind = open + 1 + n;
        if (memcmp(open + 1, name, n) != 0 || strchr("> \t\r\n/", *behind) == NULL ||
            *behind == '\0') {
            continue;
        }
        behind = memchr(behind, '>', (size_t)(xml->end - behind));
        if (behind == NULL) {
            return false;
        }
        xml->at = behind + 1;
        if (behind[-1] == '/') { /* it is empty */
            xml->at = behind;
        }
        return true;
    }
    return false;
}

/* An entity behind its '&': the bytes of it that were used, or 0. */
static size_t xml_entity(const char *text, size_t nbytes, char out[5])
{
    static const struct {
        const char *name;
        char text;
    } entities[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
    unsigned long code = 0;
    char number[12], *end;
    size_t n = 0;

    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        n = strlen(entities[i].name);
        if (nbytes >= n && memcmp(text, entities[i].name, n) == 0) {
            out[0] = entities[i].text;
            out[1] = '\0';
            return n;
        }
    }
    for (n = 0; n < nbytes && n < sizeof(number) - 1 && text[n] != ';'; n++) {
        number[n] = text[n];
    }
    number[n] = '\0';
    if (n < 2 || n == nbytes || text[n] != ';' || number[0] != '#') {
        return 0;
    }
    code = number[1] == 'x' ? strtoul(number + 2, &end, 16) : strtoul(number + 1, &end, 10);
    if (*end != '\0' || code == 0 || code > 0x10ffff) {
        return 0;
    }
    if (code < 0x80) {
        snprintf(out, 5, "%c", (char)code);
    } else if (code < 0x800) {
        snprintf(out, 5, "%c%c", (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)));
    } else if (code < 0x10000) {
        snprintf(out, 5, "%c%c%c", (char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
                 (char)(0x80 | (code & 63)));
    } else {
        snprintf(out, 5, "%c%c%c%c", (char)(0xf0 | code >> 18), (char)(0x80 | (code >> 12 & 63)),
                 (char)(0x80 | (code >> 6 & 63)), (char)(0x80 | (code & 63)));
    }
    return n + 1;
}

/* The text up to the next tag, decoded. False: it does not fit, or makes no sense. */
static bool xml_text(struct xml *xml, char *text, size_t text_nbytes)
{
    size_t n = 0;

    for (; xml->at < xml->end && *xml->at != '<'; xml->at++) {
        char bytes[5] = {*xml->at};
        size_t n_bytes;

        if (*xml->at == '&') {
            size_t used = xml_entity(xml->at + 1, (size_t)(xml->end - xml->at) - 1, bytes);

            if (used == 0) {
                return false;
            }
            xml->at += used;
        }
        n_bytes = strlen(bytes);
        if (n_bytes == 0 || n + n_bytes >= text_nbytes) {
            return false;
        }
        memcpy(text + n, bytes, n_bytes);
        n += n_bytes;
    }
    text[n] = '\0';
    return xml->at < xml->end;
}

bool nxr_s3_text_read(const char *bytes, size_t nbytes, const char *name, char *text,
                      size_t text_nbytes)
{
    struct xml xml = {bytes, bytes != NULL ? bytes + nbytes : NULL};

    text[0] = '\0';
    if (!xml_find(&xml, name)) {
        return false;
    }
    if (xml.at[-1] != '>') { /* <Name/> */
        return true;
    }
    if (!xml_text(&xml, text, text_nbytes)) {
        text[0] = '\0';
        return false;
    }
    return true;
}

/* A server's words, which go into messages: one line of printable bytes. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = ' ';
        }
    }
}

void nxr_s3_error_read(const char *bytes, size_t nbytes, struct s3_error *error)
{
    char message[600];

    memset(error, 0, sizeof(*error));
    if (bytes == NULL || memmem(bytes, nbytes, "<Error", 6) == NULL) {
        return;
    }
    (void)nxr_s3_text_read(bytes, nbytes, "Code", error->code, sizeof(error->code));
    (void)nxr_s3_text_read(bytes, nbytes, "Region", error->region, sizeof(error->region));
    (void)nxr_s3_text_read(bytes, nbytes, "Message", message, sizeof(message));
    snprintf(error->message, sizeof(error->message), "%.159s", message);
    make_printable(error->code);
    make_printable(error->message);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The next element <Contents>; its bytes are *item_p. */
static bool page_next(struct xml *xml, struct xml *item_p)
{
    static const char close[] = "</Contents>";
    const char *end;

    if (!xml_find(xml, "Contents") || xml->at[-1] != '>') {
        return false;
    }
    end = memmem(xml->at, (size_t)(xml->end - xml->at), close, sizeof(close) - 1);
    if (end == NULL) {
        return false;
    }
    *item_p = (struct xml){xml->at, end + sizeof(close) - 1};
    xml->at = end;
    return true;
}

bool nxr_s3_is_page(const char *bytes, size_t nbytes)
{
    return bytes != NULL && memmem(bytes, nbytes, "<ListBucketResult", 17) != NULL;
}

const char *nxr_s3_page_read(const char *bytes, size_t nbytes, struct s3_page *page,
                             bool (*each)(void *arg, const char *key,
                                          const struct nxr_object_found *found),
                             void *arg)
{
    struct xml xml = {bytes, bytes != NULL ? bytes + nbytes : NULL}, item;
    char text[16];

    memset(page, 0, sizeof(*page));
    if (!nxr_s3_is_page(bytes, nbytes)) {
        return "no list of a bucket";
    }
    page->is_truncated = nxr_s3_text_read(bytes, nbytes, "IsTruncated", text, sizeof(text)) &&
                         strcmp(text, "true") == 0;
    if (page->is_truncated && (!nxr_s3_text_read(bytes, nbytes, "NextContinuationToken",
                                                 page->token, sizeof(page->token)) ||
                               page->token[0] == '\0')) {
        return "a list that goes on, and no word where";
    }
    while (page_next(&xml, &item)) {
        struct nxr_object_found found = {0};
        size_t item_nbytes = (size_t)(item.end - item.at);
        char key[NXR_OBJECT_KEY_MAX + 1], value[120];

        if (!nxr_s3_text_read(item.at, item_nbytes, "Key", key, sizeof(key)) || key[0] == '\0') {
            return "an object without a key";
        }
        if (!nxr_s3_text_read(item.at, item_nbytes, "Size", value, sizeof(value)) ||
            !read_number(value, &found.nbytes)) {
            return "an object without a size";
        }
        if (nxr_s3_text_read(item.at, item_nbytes, "ETag", value, sizeof(value))) {
            read_etag(value, found.etag);
        }
        if (nxr_s3_text_read(item.at, item_nbytes, "LastModified", value, sizeof(value))) {
            found.modified = read_time(value);
        }
        if (!each(arg, key, &found)) {
            break;
        }
    }
    return NULL;
}

/* ---- uploads --------------------------------------------------------------------------------- */

char *nxr_s3_parts_write(const struct nxr_object_part *parts, unsigned n_parts, bool has_crc32c)
{
    char *text = NULL;
    size_t nbytes;
    FILE *stream = open_memstream(&text, &nbytes);

    if (stream == NULL) {
        return NULL;
    }
    fputs("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", stream);
    for (unsigned i = 0; i < n_parts; i++) {
        uint32_t crc = __builtin_bswap32(parts[i].crc32c);
        char base64[12];

        fprintf(stream, "<Part><PartNumber>%u</PartNumber><ETag>\"", i + 1);
        for (const char *at = parts[i].etag; *at != '\0'; at++) {
            if (*at == '&' || *at == '<' || *at == '>') {
                fprintf(stream, "&#%d;", *at);
            } else {
                fputc(*at, stream);
            }
        }
        fputs("\"</ETag>", stream);
        if (has_crc32c) {
            nxr_s3_base64((const unsigned char *)&crc, sizeof(crc), base64);
            fprintf(stream, "<ChecksumCRC32C>%s</ChecksumCRC32C>", base64);
        }
        fputs("</Part>", stream);
    }
    fputs("</CompleteMultipartUpload>", stream);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* False: the text is no MD5. */
static bool read_md5(const char *text, uint8_t digest[MD5_DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != 2 * MD5_DIGEST_SIZE || strspn(text, digits) != 2 * MD5_DIGEST_SIZE) {
        return false;
    }
    for (unsigned i = 0; i < MD5_DIGEST_SIZE; i++) {
        digest[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
                              (strchr(digits, text[2 * i + 1]) - digits));
    }
    return true;
}

bool nxr_s3_parts_etag(const struct nxr_object_part *parts, unsigned n_parts,
                       char etag[NXR_OBJECT_ETAG_NBYTES])
{
    uint8_t digest[MD5_DIGEST_SIZE];
    struct md5_ctx md5;

    md5_init(&md5);
    for (unsigned i = 0; i < n_parts; i++) {
        if (!read_md5(parts[i].etag, digest)) {
            return false;
        }
        md5_update(&md5, sizeof(digest), digest);
    }
    md5_digest(&md5, sizeof(digest), digest);
    for (unsigned i = 0; i < sizeof(digest); i++) {
        snprintf(etag + (size_t)2 * i, 3, "%02x", digest[i]);
    }
    snprintf(etag + 2 * sizeof(digest), NXR_OBJECT_ETAG_NBYTES - 2 * sizeof(digest), "-%u",
             n_parts);
    return true;
}
