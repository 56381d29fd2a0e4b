/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of etcd's JSON gateway. 64-bit numbers are texts there, keys and values are in base64,
 * fields that are 0, false or empty are left out, and the messages of streams are in "result". No
 * state, no lock.
 */
#include "config.h"

#include "etcd/answer.h"
#include "etcd/value.h"
#include "nixlrun.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 1024

char *nxr_etcd_base64(const char *bytes, size_t nbytes)
{
    size_t length = BASE64_ENCODE_RAW_LENGTH(nbytes);
    char *text = malloc(length + 1);

    if (text != NULL) {
        base64_encode_raw(text, nbytes, (const uint8_t *)bytes);
        text[length] = '\0';
    }
    return text;
}

/* Decode a text of JSON. The length; -1: it is no base64, or does not fit. */
static ssize_t answer_bytes(const json_t *value, char *bytes, size_t room)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), nbytes = 0;
    struct base64_decode_ctx context;

    if (text == NULL || BASE64_DECODE_LENGTH(length) > room) {
        return -1;
    }
    base64_decode_init(&context);
    if (base64_decode_update(&context, &nbytes, (uint8_t *)bytes, length, text) == 0 ||
        base64_decode_final(&context) == 0) {
        return -1;
    }
    return (ssize_t)nbytes;
}

/* A number that may be written as a text. False: it is something else; 0 if it is not there. */
static bool answer_number(const json_t *object, const char *key, int64_t *number_p)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    char *end;

    *number_p = json_is_integer(value) ? json_integer_value(value) : 0;
    if (text == NULL) {
        return value == NULL || json_is_integer(value);
    }
    errno = 0;
    *number_p = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Codes of gRPC. */
enum {
    CODE_DEADLINE = 4,
    CODE_NOT_FOUND = 5,
    CODE_PERMISSION = 7,
    CODE_UNAVAILABLE = 14,
    CODE_UNAUTHENTICATED = 16
};

/* What etcd's words mean where its codes do not say it. */
static const struct {
    const char *words;
    int status;
    const char *advice;
} answer_failures[] = {
    {"authentication failed, invalid user", NIXL_E_ACCESS,
     ": the user or the password is wrong (NIXLRUN_ETCD_USER, NIXLRUN_ETCD_PASSWORD_FILE)"},
    {"user name is empty", NIXL_E_ACCESS,
     ": this etcd wants a user and a password: set NIXLRUN_ETCD_USER and "
     "NIXLRUN_ETCD_PASSWORD_FILE"},
    {"user name not found", NIXL_E_ACCESS, ": check NIXLRUN_ETCD_USER"},
    {"invalid auth token", NIXL_E_EXPIRED, ""},
    {"auth revision in header is old", NIXL_E_EXPIRED, ""},
    {"authentication is not enabled", NIXL_E_NOT_FOUND, ""},
    {"permission denied", NIXL_E_ACCESS, ": its user has no right to this prefix"},
    {"requested lease not found", NIXL_E_NOT_FOUND, ""},
    {"no leader", NIXL_E_AGAIN, ""},
    {"request timed out", NIXL_E_AGAIN, ""},
    {"leader changed", NIXL_E_AGAIN, ""},
    {"too many requests", NIXL_E_AGAIN, ""},
    {"server stopped", NIXL_E_AGAIN, ""},
};

/* A gateway says that it has no etcd behind it now. */
static bool http_is_away(long http)
{
    return http == 502 || http == 503 || http == 504;
}

static int answer_status_of(int64_t code, long http)
{
    switch (code) {
    case CODE_NOT_FOUND:
        return NIXL_E_NOT_FOUND;
    case CODE_PERMISSION:
        return NIXL_E_ACCESS;
    case CODE_UNAUTHENTICATED:
        return NIXL_E_EXPIRED;
    case CODE_DEADLINE:
    case CODE_UNAVAILABLE:
        return NIXL_E_AGAIN;
    default:
        return http_is_away(http) ? NIXL_E_AGAIN : NIXL_E_TRANSPORT;
    }
}

/* etcd says in an object what it does not do. */
static int answer_fail(long http, const char *message, int64_t code, char why[NXR_ETCD_WHY_NBYTES])
{
    size_t n = sizeof(answer_failures) / sizeof(answer_failures[0]), i = 0;

    while (i < n && strstr(message, answer_failures[i].words) == NULL) {
        i++;
    }
    snprintf(why, NXR_ETCD_WHY_NBYTES, "etcd says '%.160s'%s", message,
             i < n ? answer_failures[i].advice : "");
    return i < n ? answer_failures[i].status : answer_status_of(code, http);
}

/* The failure that an answer tells; NIXL_OK: it tells none. */
static int answer_failure(long http, const json_t *object, char why[NXR_ETCD_WHY_NBYTES])
{
    const json_t *error = json_object_get(object, "error");
    const json_t *where = json_is_object(error) ? error : object;
    const char *message = json_string_value(json_object_get(where, "message"));
    int64_t code;

    if (error == NULL && json_object_get(object, "code") == NULL) {
        return NIXL_OK;
    }
    if (!answer_number(where, "code", &code) || code == 0) {
        (void)answer_number(where, "grpc_code", &code);
    }
    if (message == NULL) {
        message = json_is_string(error) ? json_string_value(error) : "no reason";
    }
    return answer_fail(http, message, code, why);
}

/* It is no JSON: what may be there instead. The text is cut and cleaned for people. */
static int answer_is_no_json(long http, const char *bytes, size_t nbytes,
                             char why[NXR_ETCD_WHY_NBYTES])
{
    char shown[81];
    size_t n = nbytes < sizeof(shown) - 1 ? nbytes : sizeof(shown) - 1;

    for (size_t i = 0; i < n; i++) {
        shown[i] = bytes[i];
        if (bytes[i] < ' ' || bytes[i] > '~') {
            shown[i] = ' ';
        }
    }
    shown[n] = '\0';
    if (http_is_away(http)) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "HTTP status %ld: '%s'", http, shown);
        return NIXL_E_AGAIN;
    }
    if (memmem(bytes, nbytes, "HTTP request to an HTTPS server", 31) != NULL) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "it speaks TLS only, use etcds:// instead of etcd://");
        return NIXL_E_ACCESS;
    }
    if (http == 404) {
        snprintf(why, NXR_ETCD_WHY_NBYTES,
                 "it answers '404 %s': no etcd, or one before 3.4, or one without its JSON gateway "
                 "(--enable-grpc-gateway)",
                 shown);
        return NIXL_E_UNSUPPORTED;
    }
    snprintf(why, NXR_ETCD_WHY_NBYTES, "its answer, HTTP status %ld, is no JSON: '%s'", http,
             shown);
    return NIXL_E_TRANSPORT;
}

static int answer_is_strange(char why[NXR_ETCD_WHY_NBYTES])
{
    snprintf(why, NXR_ETCD_WHY_NBYTES, "its answer is JSON, but not that of an etcd");
    return NIXL_E_TRANSPORT;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* One key and value of a range. False: it has another form. */
static bool answer_key(const json_t *kv, struct nxr_etcd_found *found)
{
    static const char too_large[] = "it is larger than an entry of nixlrun";
    const json_t *value = json_object_get(kv, "value");
    char bytes[NXR_ETCD_VALUE_MAX + 8];
    const char *fault = too_large;
    ssize_t nbytes = 0;

    found->is_there = json_is_object(kv);
    if (!found->is_there || !answer_number(kv, "mod_revision", &found->mod_revision) ||
        !answer_number(kv, "lease", &found->lease) || (value != NULL && !json_is_string(value))) {
        return false;
    }
    if (BASE64_DECODE_LENGTH(json_string_length(value)) <= sizeof(bytes)) {
        nbytes = value != NULL ? answer_bytes(value, bytes, sizeof(bytes)) : 0;
        if (nbytes < 0) {
            return false;
        }
        fault = nxr_etcd_value_read(bytes, (size_t)nbytes, &found->entry);
    }
    found->is_entry = fault == NULL;
    snprintf(found->fault, sizeof(found->fault), "%s", fault != NULL ? fault : "");
    return true;
}

/* The keys of a range, or of one that a transaction has made; NULL: none. */
static const json_t *answer_keys(const json_t *object)
{
    const json_t *responses = json_object_get(object, "responses");
    const json_t *range = json_object_get(json_array_get(responses, 0), "response_range");

    return json_object_get(range != NULL ? range : object, "kvs");
}

/* ---- all ------------------------------------------------------------------------------------- */

static bool answer_fields(const json_t *object, struct nxr_etcd_answer *answer)
{
    const json_t *keys = answer_keys(object), *token = json_object_get(object, "token");
    const json_t *header = json_object_get(object, "header");

    if (!json_is_object(header) || !answer_number(header, "revision", &answer->revision) ||
        !answer_number(object, "ID", &answer->lease) ||
        !answer_number(object, "TTL", &answer->ttl) ||
        !answer_number(object, "compact_revision", &answer->compact_revision) ||
        (keys != NULL && !json_is_array(keys)) || (token != NULL && !json_is_string(token)) ||
        json_string_length(token) >= sizeof(answer->token)) {
        return false;
    }
    answer->has_succeeded = json_is_true(json_object_get(object, "succeeded"));
    answer->is_canceled = json_is_true(json_object_get(object, "canceled"));
    answer->has_events = json_array_size(json_object_get(object, "events")) > 0;
    if (token != NULL) {
        snprintf(answer->token, sizeof(answer->token), "%s", json_string_value(token));
    }
    answer->found.revision = answer->revision;
    return json_array_size(keys) == 0 || answer_key(json_array_get(keys, 0), &answer->found);
}

/* Load an answer. The object, and the one in it that has the fields; or the failure. */
static int answer_load(long http, const char *bytes, size_t nbytes, json_t **object_p,
                       const json_t **fields_p, char why[NXR_ETCD_WHY_NBYTES])
{
    json_t *object = json_loadb(bytes, nbytes, 0, NULL);
    int status;

    if (!json_is_object(object)) {
        json_decref(object);
        return answer_is_no_json(http, bytes, nbytes, why);
    }
    *object_p = object;
    *fields_p = json_object_get(object, "result");
    if (*fields_p == NULL) {
        *fields_p = object;
    }
    status = answer_failure(http, object, why);
    if (status == NIXL_OK && http != 200) {
        status = answer_is_strange(why);
    }
    if (status != NIXL_OK) {
        json_decref(object);
    }
    return status;
}

int nxr_etcd_answer_read(long http, const char *bytes, size_t nbytes,
                         struct nxr_etcd_answer *answer_p, char why[NXR_ETCD_WHY_NBYTES])
{
    const json_t *fields;
    json_t *object;
    int status = answer_load(http, bytes, nbytes, &object, &fields, why);

    if (status != NIXL_OK) {
        return status;
    }
    memset(answer_p, 0, sizeof(*answer_p));
    if (!answer_fields(fields, answer_p)) {
        status = answer_is_strange(why);
    }
    json_decref(object);
    return status;
}

int nxr_etcd_answer_list(long http, const char *bytes, size_t nbytes, const char *prefix,
                         void (*each)(void *arg, const char *rest,
                                      const struct nxr_etcd_found *found),
                         void *arg, char why[NXR_ETCD_WHY_NBYTES])
{
    const json_t *fields, *keys;
    struct nxr_etcd_found found;
    char key[KEY_MAX + 8];
    json_t *object;
    int status = answer_load(http, bytes, nbytes, &object, &fields, why);

    if (status != NIXL_OK) {
        return status;
    }
    keys = answer_keys(fields);
    for (size_t i = 0; i < json_array_size(keys) && status == NIXL_OK; i++) {
        const json_t *kv = json_array_get(keys, i);
        ssize_t length = answer_bytes(json_object_get(kv, "key"), key, KEY_MAX);

        memset(&found, 0, sizeof(found));
        if (length < 0 || !answer_key(kv, &found)) {
            status = answer_is_strange(why);
            continue;
        }
        key[length] = '\0';
        if (strncmp(key, prefix, strlen(prefix)) == 0) {
            each(arg, key + strlen(prefix), &found);
        }
    }
    json_decref(object);
    return status;
}
