/* SPDX-License-Identifier: Apache-2.0 */
/* What the library asks of etcd, as requests to its gateway, and the table of it. No state. */
#include "config.h"

#include "etcd/answer.h"
#include "etcd/client.h"
#include "etcd/value.h"
#include "nixlrun.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 64-bit numbers are texts in the gateway's JSON. */
struct number {
    char text[24];
};

static struct number number_of(int64_t value)
{
    struct number number;

    snprintf(number.text, sizeof(number.text), "%" PRId64, value);
    return number;
}

static int call_take(void *arg, long http, const char *bytes, size_t nbytes,
                     char why[NXR_ETCD_WHY_NBYTES])
{
    return nxr_etcd_answer_read(http, bytes, nbytes, arg, why);
}

/* Send a request with that body, which is freed, and read its answer. NULL: there was no memory. */
static int call(struct nxr_etcd *etcd, const char *path, json_t *object, int64_t until,
                struct nxr_etcd_answer *answer_p, char why[NXR_ETCD_WHY_NBYTES])
{
    char *body = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    struct nxr_etcd_request request = {
        .path = path, .body = body, .until = until, .take = call_take, .arg = answer_p};
    int status = NIXL_E_NO_MEMORY;

    if (body != NULL) {
        request.is_never_stopped = strcmp(path, "lease/revoke") == 0;
        status = nxr_etcd_ask(etcd, &request, why);
    } else {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "no memory for a request");
    }
    json_decref(object);
    free(body);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int call_read(struct nxr_etcd *etcd, const char *key, int64_t until,
                     struct nxr_etcd_found *found_p, char why[NXR_ETCD_WHY_NBYTES])
{
    char *key64 = nxr_etcd_base64(key, strlen(key));
    struct nxr_etcd_answer answer;
    int status = call(etcd, "kv/range", json_pack("{ss}", "key", key64), until, &answer, why);

    free(key64);
    if (status == NIXL_OK) {
        *found_p = answer.found;
    }
    return status;
}

/* A line of a watch. Whatever tells that something has changed, or may have, is an end. */
static int call_take_event(void *arg, long http, const char *bytes, size_t nbytes,
                           char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_answer answer;
    int status = nxr_etcd_answer_read(http, bytes, nbytes, &answer, why);

    (void)arg;
    if (status != NIXL_OK) {
        return status;
    }
    return answer.has_events || answer.is_canceled ? NIXL_OK : NIXL_INPROGRESS;
}

/*
 * A watch that etcd cancels has lost its beginning, since etcd has been compacted meanwhile; the
 * stream stays open, and says nothing any more. The caller reads the key again.
 */
static int call_await(struct nxr_etcd *etcd, const char *key, int64_t revision, int64_t until,
                      char why[NXR_ETCD_WHY_NBYTES])
{
    char *key64 = nxr_etcd_base64(key, strlen(key));
    json_t *object = json_pack("{s{ss ss}}", "create_request", "key", key64, "start_revision",
                               number_of(revision + 1).text);
    char *body = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    struct nxr_etcd_request request = {
        .path = "watch", .body = body, .until = until, .is_stream = true, .take = call_take_event};
    int status = NIXL_E_NO_MEMORY;

    if (body != NULL) {
        status = nxr_etcd_ask(etcd, &request, why);
    } else {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "no memory for a request");
    }
    json_decref(object);
    free(body);
    free(key64);
    return status == NIXL_INPROGRESS ? NIXL_OK : status; /* the stream has ended */
}

struct listing {
    const char *prefix;
    void (*each)(void *arg, const char *rest, const struct nxr_etcd_found *found);
    void *arg;
};

static int call_take_list(void *arg, long http, const char *bytes, size_t nbytes,
                          char why[NXR_ETCD_WHY_NBYTES])
{
    const struct listing *listing = arg;

    return nxr_etcd_answer_list(http, bytes, nbytes, listing->prefix, listing->each, listing->arg,
                                why);
}

static int call_list(struct nxr_etcd *etcd, const char *prefix, int64_t until,
                     void (*each)(void *arg, const char *rest, const struct nxr_etcd_found *found),
                     void *arg, char why[NXR_ETCD_WHY_NBYTES])
{
    struct listing listing = {prefix, each, arg};
    size_t nbytes = strlen(prefix);
    char *end = strdup(prefix), *from64 = nxr_etcd_base64(prefix, nbytes), *to64 = NULL;
    char *body = NULL;
    json_t *object = NULL;
    int status = NIXL_E_NO_MEMORY;

    if (end != NULL && nbytes > 0) {
        end[nbytes - 1]++; /* the first key behind those that begin so */
        to64 = nxr_etcd_base64(end, nbytes);
    }
    if (from64 != NULL && to64 != NULL) {
        object = json_pack("{ss ss ss}", "key", from64, "range_end", to64, "limit",
                           number_of(NXR_ETCD_MAX_LISTED).text);
        body = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    }
    if (body != NULL) {
        status = nxr_etcd_ask(etcd,
                              &(struct nxr_etcd_request){.path = "kv/range",
                                                         .body = body,
                                                         .until = until,
                                                         .take = call_take_list,
                                                         .arg = &listing},
                              why);
    } else {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "no memory for a request");
    }
    json_decref(object);
    free(body);
    free(end);
    free(from64);
    free(to64);
    return status;
}

/* ---- leases ---------------------------------------------------------------------------------- */

static int call_grant(struct nxr_etcd *etcd, int seconds, int64_t until, int64_t *lease_p,
                      char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_answer answer;
    int status = call(etcd, "lease/grant", json_pack("{ss}", "TTL", number_of(seconds).text), until,
                      &answer, why);

    if (status == NIXL_OK && answer.lease == 0) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "etcd grants a lease, but does not name it");
        return NIXL_E_TRANSPORT;
    }
    if (status == NIXL_OK) {
        *lease_p = answer.lease;
    }
    return status;
}

/* etcd answers for a lease that it does not know, too; such a one has no time left. */
static int call_keep_alive(struct nxr_etcd *etcd, int64_t lease, int64_t until,
                           char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_answer answer;
    int status = call(etcd, "lease/keepalive", json_pack("{ss}", "ID", number_of(lease).text),
                      until, &answer, why);

    if (status == NIXL_OK && answer.ttl <= 0) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "the lease has ended");
        return NIXL_E_NOT_FOUND;
    }
    return status;
}

static int call_revoke(struct nxr_etcd *etcd, int64_t lease, int64_t until,
                       char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_answer answer;

    return call(etcd, "lease/revoke", json_pack("{ss}", "ID", number_of(lease).text), until,
                &answer, why);
}

/* ---- entries --------------------------------------------------------------------------------- */

static int call_put(struct nxr_etcd *etcd, const char *key, const struct nxr_etcd_entry *entry,
                    int64_t lease, int64_t mod_revision, int64_t until, bool *is_put_p,
                    struct nxr_etcd_found *found_p, char why[NXR_ETCD_WHY_NBYTES])
{
    char *value = nxr_etcd_value_write(entry), *value64 = NULL;
    char *key64 = nxr_etcd_base64(key, strlen(key));
    struct nxr_etcd_answer answer;
    json_t *object = NULL;
    int status;

    if (value != NULL) {
        value64 = nxr_etcd_base64(value, strlen(value));
    }
    if (value64 != NULL && key64 != NULL) {
        object =
            json_pack("{s[{ss ss ss ss}] s[{s{ss ss ss}}] s[{s{ss}}]}", "compare", "target", "MOD",
                      "result", "EQUAL", "key", key64, "mod_revision", number_of(mod_revision).text,
                      "success", "request_put", "key", key64, "value", value64, "lease",
                      number_of(lease).text, "failure", "request_range", "key", key64);
    }
    status = call(etcd, "kv/txn", object, until, &answer, why);
    free(value);
    free(value64);
    free(key64);
    if (status == NIXL_OK) {
        *is_put_p = answer.has_succeeded;
        *found_p = answer.found;
    }
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const char *call_libraries(void)
{
    static _Thread_local char text[160];

    snprintf(text, sizeof(text), "%.120s jansson/%s", curl_version(), jansson_version_str());
    return text;
}

NIXL_API extern const struct nxr_etcd_module nxr_etcd_module;

const struct nxr_etcd_module nxr_etcd_module = {
    .abi = NXR_ETCD_ABI,
    .libraries = call_libraries,
    .open = nxr_etcd_open,
    .close = nxr_etcd_close,
    .interrupt = nxr_etcd_interrupt,
    .read = call_read,
    .await = call_await,
    .list = call_list,
    .grant = call_grant,
    .put = call_put,
    .keep_alive = call_keep_alive,
    .revoke = call_revoke,
};
