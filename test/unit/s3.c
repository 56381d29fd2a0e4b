/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of S3 and how it is signed, and what of its answers and of AWS's files is read. */
#include "storage/s3/answer.h"
#include "storage/s3/place.h"
#include "storage/s3/profile.h"
#include "storage/s3/sign.h"
#include "test/unit/locale_case.h"
#include "test/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(s3, .timeout = 120);

static char why[200];

static void expect_text(const char *got, const char *expected)
{
    cr_expect(strcmp(got, expected) == 0, "'%s', expected '%s'", got, expected);
}

/* ---- signatures: the examples of AWS's documentation ----------------------------------------- */

#define DAY "20130524T000000Z"

static const struct s3_credentials example = {.key_id = "AKIAIOSFODNN7EXAMPLE",
                                              .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

static void expect_signature(const struct s3_signed *request, const char *signature)
{
    char text[700];

    cr_assert(nxr_s3_sign(request, &example, text, sizeof(text)));
    cr_expect(strstr(text, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,") !=
              NULL);
    expect_text(strstr(text, "Signature=") + 10, signature);
}

Test(s3, signatures_are_those_of_the_documentation)
{
    struct s3_signed get = {.method = "GET",
                            .path = "/test.txt",
                            .query = "",
                            .headers = {{"host", "examplebucket.s3.amazonaws.com"},
                                        {"range", "bytes=0-9"},
                                        {"x-amz-content-sha256", S3_EMPTY_SHA256},
                                        {"x-amz-date", DAY}},
                            .n_headers = 4,
                            .payload = S3_EMPTY_SHA256,
                            .date = DAY,
                            .region = "us-east-1"};
    struct s3_signed list = {.method = "GET",
                             .path = "/",
                             .query = "max-keys=2&prefix=J",
                             .headers = {{"host", "examplebucket.s3.amazonaws.com"},
                                         {"x-amz-content-sha256", S3_EMPTY_SHA256},
                                         {"x-amz-date", DAY}},
                             .n_headers = 3,
                             .payload = S3_EMPTY_SHA256,
                             .date = DAY,
                             .region = "us-east-1"};

    expect_signature(&get, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    expect_signature(&list, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    list.query = "lifecycle=";
    expect_signature(&list, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

/* ---- checksums ------------------------------------------------------------------------------- */

Test(s3, crc32c_is_that_of_rfc_3720)
{
    unsigned char bytes[32] = {0}, all[1000];
    uint32_t crc = 0;

    cr_expect(eq(u32, nxr_s3_crc32c(0, bytes, 32), 0x8a9136aa));
    memset(bytes, 0xff, 32);
    cr_expect(eq(u32, nxr_s3_crc32c(0, bytes, 32), 0x62a8ab43));
    cr_expect(eq(u32, nxr_s3_crc32c(0, "123456789", 9), 0xe3069283));
    for (size_t i = 0; i < sizeof(all); i++) {
        all[i] = (unsigned char)(i * 7);
    }
    for (size_t i = 0; i < sizeof(all); i += 13) {
        crc = nxr_s3_crc32c(crc, all + i, i + 13 < sizeof(all) ? 13 : sizeof(all) - i);
    }
    cr_expect(eq(u32, crc, nxr_s3_crc32c(0, all, sizeof(all))));
}

Test(s3, base64_has_its_padding)
{
    char out[16];

    nxr_s3_base64((const unsigned char *)"foobar", 6, out);
    expect_text(out, "Zm9vYmFy");
    nxr_s3_base64((const unsigned char *)"foob", 4, out);
    expect_text(out, "Zm9vYg==");
    nxr_s3_base64((const unsigned char *)"fooba", 5, out);
    expect_text(out, "Zm9vYmE=");
}

/* ---- places ---------------------------------------------------------------------------------- */

static void expect_url(const char *place, const char *key, const char *query, const char *url)
{
    struct s3_place read;
    char made[S3_URL_NBYTES];

    cr_assert(nxr_s3_place_read(place, &read, why, sizeof(why)), "%s: %s", place, why);
    nxr_s3_url(&read, "eu-west-1", key, query, made);
    expect_text(made, url);
}

Test(s3, requests_go_where_the_url_says)
{
    expect_url("s3://bucket/x", "a/b c+\xc3\xa4~", "",
               "https://bucket.s3.eu-west-1.amazonaws.com/a/b%20c%2B%C3%A4~");
    expect_url("s3://my.bucket", NULL, "list-type=2",
               "https://s3.eu-west-1.amazonaws.com/my.bucket/?list-type=2");
    expect_url("http://127.0.0.1:9000/bucket/x/y", "k",
               "uploads=", "http://127.0.0.1:9000/bucket/k?uploads=");
    expect_url("HTTPS://[::1]:443/bucket", "k", "", "https://[::1]:443/bucket/k");
}

/* The longest key, each byte of which is encoded, and the longest query go into a URL. */
Test(s3, the_longest_url_is_whole)
{
    static char key[NXR_OBJECT_KEY_MAX + 1], query[S3_QUERY_NBYTES], made[S3_URL_NBYTES];
    struct s3_place place;

    memset(key, ' ', NXR_OBJECT_KEY_MAX);
    memset(query, 'q', sizeof(query) - 1);
    cr_assert(nxr_s3_place_read("http://127.0.0.1:9000/bucket", &place, why, sizeof(why)));
    nxr_s3_url(&place, "us-east-1", key, query, made);
    cr_expect(
        eq(sz, strlen(made),
           strlen("http://127.0.0.1:9000/bucket/?") + 3 * NXR_OBJECT_KEY_MAX + strlen(query)));
}

Test(s3, what_is_no_place_is_refused_in_words)
{
    static const char *const bad[] = {"",
                                      "s3://",
                                      "s3:///key",
                                      "s3://ab",
                                      "s3://a b/c",
                                      "ftp://host/bucket",
                                      "http://",
                                      "http:///bucket",
                                      "http://host",
                                      "http://user@host/bucket",
                                      "s3://bucket/%",
                                      "s3://bucket/%0",
                                      "s3://bucket/%00",
                                      "s3://bucket/%zz"};
    struct s3_place place;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        cr_expect(false == nxr_s3_place_read(bad[i], &place, why, sizeof(why)), "%s", bad[i]);
        cr_expect(why[0] != '\0', "%s", bad[i]);
    }
    cr_assert(nxr_s3_place_read("s3://bucket/a%20b/c", &place, why, sizeof(why)));
    expect_text(place.path, "a b/c");
}

Test(s3, a_redirection_does_not_leave_tls)
{
    char url[100];

    cr_assert(nxr_s3_location_read("https://b.s3-x.amazonaws.com/k?y=1", true, url, sizeof(url)));
    expect_text(url, "https://b.s3-x.amazonaws.com/k");
    cr_expect(false == nxr_s3_location_read("http://host/k", true, url, sizeof(url)));
    cr_expect(false == nxr_s3_location_read("/k", true, url, sizeof(url)));
    cr_expect(false == nxr_s3_location_read("https://host", true, url, sizeof(url)));
    cr_expect(false == nxr_s3_location_read("https://host/12345678", true, url, 10));
}

/* ---- answers --------------------------------------------------------------------------------- */

static void take_header(const char *line, struct s3_headers *headers)
{
    nxr_s3_header_read(line, strlen(line), headers);
}

Test(s3, headers_are_read)
{
    struct s3_headers headers = {0};

    take_header("ETag: \"abc-2\"\r\n", &headers);
    take_header("content-length:  42 \r\n", &headers);
    take_header("Content-Range: bytes 0-9/1234567890123\r\n", &headers);
    take_header("x-amz-checksum-crc32c: 4waSgw==\r\n", &headers);
    take_header("Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n", &headers);
    take_header("Retry-After: 7\r\n", &headers);
    take_header("no colon\r\n", &headers);
    cr_expect(false == headers.are_complete);
    take_header("\r\n", &headers);
    cr_expect(headers.are_complete);
    expect_text(headers.etag, "abc-2");
    cr_expect(eq(u64, headers.content_nbytes, 42));
    cr_expect(headers.has_total && headers.total_nbytes == 1234567890123);
    cr_expect(headers.has_begin && headers.begin == 0);
    cr_expect(headers.has_crc32c && headers.crc32c == 0xe3069283);
    cr_expect(eq(i64, headers.modified, 1445412480));
    cr_expect(eq(uint, headers.retry_after, 7));
    take_header("HTTP/1.1 200 OK\r\n", &headers); /* what came before was not the answer */
    cr_expect(headers.etag[0] == '\0' && !headers.has_total && !headers.are_complete);
    take_header("Content-Length: 99999999999999999999999\r\n", &headers);
    take_header("Content-Range: bytes 100-199/*\r\n", &headers);
    cr_expect(headers.has_begin && headers.begin == 100 && !headers.has_total);
    take_header("Content-Range: bytes */1000\r\n", &headers);
    cr_expect(headers.has_total && !headers.has_begin && headers.total_nbytes == 1000);
    take_header("x-amz-checksum-crc32c: AAAAAA==-3\r\n", &headers);
    cr_expect(false == (headers.has_content_nbytes || headers.has_crc32c));
}

Test(s3, dates_are_read_in_any_locale)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct s3_headers headers = {0};
    int64_t before = 0;
    char line[80];

    locale_case_begin();
    for (int i = 0; i < 12; i++) {
        snprintf(line, sizeof(line), "Date: Wed, 07 %s 2015 07:28:00 GMT\r\n", months[i]);
        take_header(line, &headers);
        cr_expect(before < headers.date, "%s", line);
        before = headers.date;
    }
    take_header("Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n", &headers);
    cr_expect(eq(i64, headers.modified, 1445412480));
    take_header("Last-Modified: 2015-10-21T07:28:00.000Z\r\n", &headers);
    cr_expect(eq(i64, headers.modified, 1445412480));
    take_header("Last-Modified: Mit, 21 Okt 2015 07:28:00 GMT\r\n", &headers);
    cr_expect(eq(i64, headers.modified, 0));
}

static void read_error(const char *text, struct s3_error *error)
{
    nxr_s3_error_read(text, strlen(text), error);
}

Test(s3, errors_are_read)
{
    struct s3_error error;

    read_error("<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>a &lt;b&gt; &#65;"
               "\n\x1b[0m</Message><Region>eu-1</Region></Error>",
               &error);
    expect_text(error.code, "NoSuchKey");
    expect_text(error.message, "a <b> A  [0m");
    expect_text(error.region, "eu-1");
    read_error("<html>Not what we want</html>", &error);
    cr_expect(error.code[0] == '\0');
    read_error("<Error><Code>x", &error);
    cr_expect(error.code[0] == '\0');
    read_error("<Error><Code/></Error>", &error);
    cr_expect(error.code[0] == '\0');
}

static bool count_object(void *arg, const char *key, const struct nxr_object_found *found)
{
    int *n_p = arg;

    expect_text(key, *n_p == 0 ? "a&b" : "c");
    cr_expect(found->nbytes == 5 && strcmp(found->etag, "e") == 0);
    ++*n_p;
    return true;
}

#define OBJECT(_key)                                                                               \
    "<Contents><Key>" _key "</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified>"           \
    "<ETag>&quot;e&quot;</ETag><Size>5</Size></Contents>"

Test(s3, lists_are_read)
{
    static const char good[] =
        "<ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>t/+=</NextContinuationToken>" OBJECT("a&amp;b")
            OBJECT("c") "</ListBucketResult>";
    static const char negative[] =
        "<ListBucketResult><Contents><Key>k</Key><Size>-1</Size></Contents>";
    static const char *const bad[] = {
        "",
        "<Other/>",
        "<ListBucketResult><IsTruncated>true</IsTruncated>",
        "<ListBucketResult><Contents><Size>1</Size></Contents>",
        "<ListBucketResult><Contents><Key>k</Key></Contents>",
        negative,
    };
    struct s3_page page;
    int n = 0;

    cr_expect(nxr_s3_page_read(good, strlen(good), &page, count_object, &n) == NULL);
    cr_expect(eq(int, n, 2));
    cr_expect(page.is_truncated && strcmp(page.token, "t/+=") == 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(nxr_s3_page_read(bad[i], strlen(bad[i]), &page, count_object, &n) != NULL, "%s",
                  bad[i]);
    }
}

Test(s3, parts_are_named_in_their_order)
{
    const struct nxr_object_part parts[] = {{"a", 0xe3069283}, {"b<", 0}};
    char *text = nxr_s3_parts_write(parts, 2, true);

    cr_assert(text != NULL);
    cr_expect(strstr(text, "<Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag>"
                           "<ChecksumCRC32C>4waSgw==</ChecksumCRC32C></Part>"
                           "<Part><PartNumber>2</PartNumber><ETag>\"b&#60;\"</ETag>") != NULL);
    free(text);
}

Test(s3, the_etag_of_an_object_is_known_by_those_of_its_parts)
{
    struct nxr_object_part parts[] = {{"0cc175b9c0f1b6a831c399e269772661", 0},
                                      {"92eb5ffee6ae2fec3ad71c777531578f", 0}};
    char etag[NXR_OBJECT_ETAG_NBYTES];

    cr_expect(nxr_s3_parts_etag(parts, 2, etag));
    expect_text(etag, "96e024ba2074fe77e8e965ba43a704be-2");
    parts[1].etag[31] = 'x'; /* an etag need not be an MD5 */
    cr_expect(false == nxr_s3_parts_etag(parts, 2, etag));
    parts[0].etag[31] = '\0';
    cr_expect(false == nxr_s3_parts_etag(parts, 1, etag));
}

/* ---- AWS's files ----------------------------------------------------------------------------- */

Test(s3, profiles_are_read)
{
    static const char text[] = "# a comment\n[default]\nregion=eu-1\n  nested = 1\n"
                               "aws_access_key_id =  AK  \r\n[ profile two ]\nregion = us-2\nx=\n";
    char value[16];

    cr_assert(nxr_s3_profile_value(text, "default", "region", value, sizeof(value)));
    expect_text(value, "eu-1");
    cr_assert(nxr_s3_profile_value(text, "default", "aws_access_key_id", value, sizeof(value)));
    expect_text(value, "AK");
    cr_assert(nxr_s3_profile_value(text, "profile two", "region", value, sizeof(value)));
    expect_text(value, "us-2");
    cr_assert(nxr_s3_profile_value(text, "profile two", "x", value, sizeof(value)));
    expect_text(value, "");
    cr_expect(false == nxr_s3_profile_value(text, "default", "nested", value, sizeof(value)));
    cr_expect(false == nxr_s3_profile_value(text, "two", "region", value, sizeof(value)));
    cr_expect(false == nxr_s3_profile_value(text, "default", "region", value, 4));
    cr_expect(false == nxr_s3_profile_value("", "default", "region", value, sizeof(value)));
}

Test(s3, credentials_of_services_are_read)
{
    struct s3_credentials read;

    cr_assert(nxr_s3_credentials_read("{\"Code\" : \"Success\", \"AccessKeyId\" : \"A\","
                                      "\"SecretAccessKey\":\"s\\/x\",\n\"Token\" : \"t\","
                                      "\"Expiration\" : \"2015-10-21T07:28:00Z\"}",
                                      &read));
    expect_text(read.key_id, "A");
    expect_text(read.secret, "s/x");
    expect_text(read.token, "t");
    cr_expect(eq(i64, read.expires, 1445412480));
    cr_expect(false == nxr_s3_credentials_read("{\"AccessKeyId\" : \"A\"}", &read));
    cr_expect(false ==
              nxr_s3_credentials_read("{\"AccessKeyId\" : \"A\", \"SecretAccessKey\" : \"", &read));
    cr_expect(false == nxr_s3_credentials_read("", &read));
}

Test(s3, credentials_are_asked_for_before_they_expire)
{
    cr_expect(nxr_s3_credentials_need(0, 1000, 1000) == S3_NEED_NONE);
    cr_expect(nxr_s3_credentials_need(1300, 1000, 1000) == S3_NEED_NONE);
    cr_expect(nxr_s3_credentials_need(1299, 1000, 1000) == S3_NEED_SOON);
    cr_expect(nxr_s3_credentials_need(1001, 1000, 30) == S3_NEED_SOON);
    /* Not with each request, while they are valid. */
    cr_expect(nxr_s3_credentials_need(1299, 1000, 29) == S3_NEED_NONE);
    cr_expect(nxr_s3_credentials_need(1001, 1000, 0) == S3_NEED_NONE);
    cr_expect(nxr_s3_credentials_need(1000, 1000, 1) == S3_NEED_NOW);
    cr_expect(nxr_s3_credentials_need(1, 1000, 1) == S3_NEED_NOW);
    cr_expect(nxr_s3_credentials_need(1, 1000, 0) == S3_NEED_NONE);
}
