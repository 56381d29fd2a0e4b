/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests by libcurl. Owns the clients. A request goes to the endpoint that answered last, and on
 * to the next one if that is away; a user logs in first, and again when etcd has forgotten the
 * session. No lock: the flag of nxr_etcd_interrupt() is atomic.
 *
 * Proxies of the environment are not used, redirections are not followed, and an answer that grows
 * without end is cut off: etcd does none of these.
 */
#include "config.h"

#include "etcd/client.h"
#include "nixlrun.h"
#include "util/clock.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_ENDPOINTS 16
#define CONNECT_NS    (1500 * NXR_MS) /* for one endpoint */
#define ANSWER_NS     (4 * NXR_S)     /* likewise */
#define SHORTEST_NS   (100 * NXR_MS)
#define HEADER_NBYTES (NXR_ETCD_TOKEN_NBYTES + 32)

struct nxr_etcd {
    CURLM *multi;
    CURL *easy;
    bool is_tls;
    char *endpoints[MAX_ENDPOINTS]; /* HOST:PORT, in `list` */
    unsigned n_endpoints, current;
    char *list, *user, *password, *ca_file, *cert_file, *key_file;
    void (*wait)(nxr_etcd_ready_fn *ready, void *arg, int64_t until);
    char token[NXR_ETCD_TOKEN_NBYTES]; /* of the session; "": none */
    bool wants_no_login;               /* etcd has said that it knows no users */
    atomic_bool is_interrupted;

    /* Of the request that is under way. */
    struct nxr_etcd_request *request;
    char *bytes; /* the answer so far, or what is left of its last line */
    size_t nbytes, room;
    int status; /* of request->take(), or NIXL_INPROGRESS */
    bool is_done;
    CURLcode code;
    char error[CURL_ERROR_SIZE];
    char line[NXR_ETCD_WHY_NBYTES];
};

/* ---- SIGPIPE --------------------------------------------------------------------------------- */

/* A TLS library writes to sockets whose other end may be closed. The program must not die of it. */
struct pipe_guard {
    sigset_t before;
    bool had_pipe;
};

static void pipe_guard_begin(struct pipe_guard *guard)
{
    sigset_t pipe, pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    guard->had_pipe = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &guard->before);
}

static void pipe_guard_end(const struct pipe_guard *guard)
{
    static const struct timespec now = {0, 0};
    sigset_t pipe, pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    if (!guard->had_pipe && sigismember(&pending, SIGPIPE) == 1) {
        (void)sigtimedwait(&pipe, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void curl_begin(void)
{
    curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void client_free(struct nxr_etcd *etcd)
{
    if (etcd->easy != NULL) {
        curl_easy_cleanup(etcd->easy);
    }
    if (etcd->multi != NULL) {
        curl_multi_cleanup(etcd->multi);
    }
    if (etcd->password != NULL) {
        explicit_bzero(etcd->password, strlen(etcd->password));
    }
    explicit_bzero(etcd->token, sizeof(etcd->token));
    free(etcd->list);
    free(etcd->user);
    free(etcd->password);
    free(etcd->ca_file);
    free(etcd->cert_file);
    free(etcd->key_file);
    free(etcd->bytes);
    free(etcd);
}

void nxr_etcd_close(struct nxr_etcd *etcd)
{
    struct pipe_guard guard;

    pipe_guard_begin(&guard);
    client_free(etcd);
    pipe_guard_end(&guard);
}

static bool client_copy(struct nxr_etcd *etcd, const struct nxr_etcd_settings *settings)
{
    const struct {
        char **to;
        const char *from;
    } texts[] = {{&etcd->list, settings->endpoints},      {&etcd->user, settings->user},
                 {&etcd->password, settings->password},   {&etcd->ca_file, settings->ca_file},
                 {&etcd->cert_file, settings->cert_file}, {&etcd->key_file, settings->key_file}};
    char *next;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        *texts[i].to = strdup(texts[i].from);
        if (*texts[i].to == NULL) {
            return false;
        }
    }
    next = etcd->list;
    while (next != NULL && etcd->n_endpoints < MAX_ENDPOINTS) {
        etcd->endpoints[etcd->n_endpoints++] = strsep(&next, ",");
    }
    return true;
}

int nxr_etcd_open(const struct nxr_etcd_settings *settings, struct nxr_etcd **etcd_p,
                  char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd *etcd;

    pthread_once(&curl_once, curl_begin);
    if (curl_state != CURLE_OK) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "libcurl: %s", curl_easy_strerror(curl_state));
        return NIXL_E_UNSUPPORTED;
    }
    etcd = calloc(1, sizeof(*etcd));
    if (etcd != NULL) {
        etcd->is_tls = settings->is_tls;
        etcd->wait = settings->wait;
        etcd->multi = curl_multi_init();
        etcd->easy = curl_easy_init();
    }
    if (etcd == NULL || etcd->multi == NULL || etcd->easy == NULL || !client_copy(etcd, settings)) {
        if (etcd != NULL) {
            client_free(etcd);
        }
        snprintf(why, NXR_ETCD_WHY_NBYTES, "no memory for a client of etcd");
        return NIXL_E_NO_MEMORY;
    }
    *etcd_p = etcd;
    return NIXL_OK;
}

void nxr_etcd_interrupt(struct nxr_etcd *etcd)
{
    atomic_store(&etcd->is_interrupted, true);
    (void)curl_multi_wakeup(etcd->multi);
}

/* ---- one request to one endpoint ------------------------------------------------------------- */

/* Hand over the lines of a stream that are whole. */
static void client_take_lines(struct nxr_etcd *etcd)
{
    long http = 0;
    char *end;

    curl_easy_getinfo(etcd->easy, CURLINFO_RESPONSE_CODE, &http);
    while (etcd->status == NIXL_INPROGRESS &&
           (end = memchr(etcd->bytes, '\n', etcd->nbytes)) != NULL) {
        size_t nbytes = (size_t)(end - etcd->bytes) + 1;

        if (nbytes > 1) {
            etcd->status =
                etcd->request->take(etcd->request->arg, http, etcd->bytes, nbytes - 1, etcd->line);
        }
        etcd->nbytes -= nbytes;
        memmove(etcd->bytes, end + 1, etcd->nbytes);
    }
}

/* libcurl has received some bytes of the answer. Returning another number ends it. */
static size_t client_receive(char *bytes, size_t size, size_t n, void *arg)
{
    struct nxr_etcd *etcd = arg;
    size_t nbytes = size * n, room = etcd->room;
    char *larger;

    while (room < etcd->nbytes + nbytes) {
        room = room > 0 ? 2 * room : 4096;
    }
    if (etcd->nbytes + nbytes > NXR_ETCD_MAX_ANSWER) {
        return 0;
    }
    if (room > etcd->room) {
        larger = realloc(etcd->bytes, room);
        if (larger == NULL) {
            return 0;
        }
        etcd->bytes = larger;
        etcd->room = room;
    }
    memcpy(etcd->bytes + etcd->nbytes, bytes, nbytes);
    etcd->nbytes += nbytes;
    if (etcd->request->is_stream) {
        client_take_lines(etcd);
    }
    return nbytes;
}

/* Drive the transfer. True: it has ended, or is to end. */
static bool client_step(void *arg)
{
    struct nxr_etcd *etcd = arg;
    const CURLMsg *message;
    int n_running, n_left;

    if (curl_multi_perform(etcd->multi, &n_running) != CURLM_OK) {
        etcd->code = CURLE_FAILED_INIT;
        etcd->is_done = true;
    }
    while ((message = curl_multi_info_read(etcd->multi, &n_left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            etcd->code = message->data.result;
            etcd->is_done = true;
        }
    }
    return etcd->is_done || etcd->status != NIXL_INPROGRESS ||
           (!etcd->request->is_never_stopped && atomic_load(&etcd->is_interrupted));
}

static void client_sleep(struct nxr_etcd *etcd, int64_t until)
{
    while (!client_step(etcd)) {
        int64_t left = until - nxr_now_ns();

        if (left <= 0) {
            return;
        }
        left = left / NXR_MS + 1;
        (void)curl_multi_poll(etcd->multi, NULL, 0, left < 1000 ? (int)left : 1000, NULL);
    }
}

/* What every request has. */
static void client_set_options(struct nxr_etcd *etcd, const char *url, int64_t connect_ns)
{
    CURL *easy = etcd->easy;

    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name server */
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ns / NXR_MS));
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, etcd->error);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, client_receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, etcd);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, etcd->request->body);
    if (etcd->ca_file[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_CAINFO, etcd->ca_file);
    }
    if (etcd->cert_file[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, etcd->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY,
                         etcd->key_file[0] != '\0' ? etcd->key_file : etcd->cert_file);
    }
}

/* The headers of a request; NULL: no memory. */
static struct curl_slist *client_headers(const struct nxr_etcd *etcd)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json"), *more;
    char text[HEADER_NBYTES];

    if (headers != NULL && etcd->token[0] != '\0') {
        snprintf(text, sizeof(text), "Authorization: %s", etcd->token);
        more = curl_slist_append(headers, text);
        explicit_bzero(text, sizeof(text));
        if (more == NULL) {
            curl_slist_free_all(headers);
        }
        headers = more;
    }
    return headers;
}

/* The connection has ended, as that of an etcd does which ends. */
static int client_explain_end(const struct nxr_etcd *etcd, const char *error,
                              char why[NXR_ETCD_WHY_NBYTES])
{
    snprintf(why, NXR_ETCD_WHY_NBYTES, "%.200s%s", error,
             etcd->is_tls                      ? " (if it speaks no TLS, use etcd://)"
             : etcd->code == CURLE_GOT_NOTHING ? " (if it speaks TLS only, use etcds://)"
                                               : "");
    return NIXL_E_AGAIN;
}

/* One of the two sides does not accept the other. */
static int client_explain_tls(const struct nxr_etcd *etcd, const char *error,
                              char why[NXR_ETCD_WHY_NBYTES])
{
    if (strstr(error, "wrong version number") != NULL) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "TLS: %.160s (it speaks no TLS, use etcd://)", error);
        return NIXL_E_ACCESS;
    }
    if (strstr(error, "alert") == NULL) {
        return client_explain_end(etcd, error, why);
    }
    snprintf(
        why, NXR_ETCD_WHY_NBYTES,
        "TLS: %.160s (NIXLRUN_ETCD_CERT_FILE and NIXLRUN_ETCD_KEY_FILE name the certificate of "
        "this side, if etcd wants one)",
        error);
    return NIXL_E_ACCESS;
}

/* Why there is no answer, as a status and in words. */
static int client_explain(const struct nxr_etcd *etcd, char why[NXR_ETCD_WHY_NBYTES])
{
    const char *error = etcd->error[0] != '\0' ? etcd->error : curl_easy_strerror(etcd->code);
    long number = 0;

    curl_easy_getinfo(etcd->easy, CURLINFO_OS_ERRNO, &number);
    switch (etcd->code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        snprintf(why, NXR_ETCD_WHY_NBYTES, "the host is not known");
        return NIXL_E_AGAIN;
    case CURLE_COULDNT_CONNECT:
        snprintf(why, NXR_ETCD_WHY_NBYTES, "%.160s", number != 0 ? strerror((int)number) : error);
        return NIXL_E_AGAIN;
    case CURLE_OPERATION_TIMEDOUT:
        snprintf(why, NXR_ETCD_WHY_NBYTES, "it is not reached, or does not answer");
        return NIXL_E_AGAIN;
    case CURLE_PEER_FAILED_VERIFICATION:
        snprintf(why, NXR_ETCD_WHY_NBYTES,
                 "its certificate is refused: %.160s; NIXLRUN_ETCD_CA_FILE names the CA's file",
                 error);
        return NIXL_E_ACCESS;
    case CURLE_SSL_CACERT_BADFILE:
        snprintf(why, NXR_ETCD_WHY_NBYTES, "NIXLRUN_ETCD_CA_FILE: cannot use '%.160s'",
                 etcd->ca_file);
        return NIXL_E_ACCESS;
    case CURLE_SSL_CERTPROBLEM:
        snprintf(why, NXR_ETCD_WHY_NBYTES, "NIXLRUN_ETCD_CERT_FILE, NIXLRUN_ETCD_KEY_FILE: %.160s",
                 error);
        return NIXL_E_ACCESS;
    case CURLE_WRITE_ERROR:
        snprintf(why, NXR_ETCD_WHY_NBYTES, "its answer is larger than %d bytes",
                 NXR_ETCD_MAX_ANSWER);
        return NIXL_E_TRANSPORT;
    default:
        break;
    }
    return etcd->is_tls ? client_explain_tls(etcd, error, why)
                        : client_explain_end(etcd, error, why);
}

/* What has become of the request. *is_answer_p: an etcd has said it, and others say the same. */
static int client_judge(struct nxr_etcd *etcd, bool *is_answer_p, char why[NXR_ETCD_WHY_NBYTES])
{
    const struct nxr_etcd_request *request = etcd->request;
    long http = 0;
    int status;

    curl_easy_getinfo(etcd->easy, CURLINFO_RESPONSE_CODE, &http);
    *is_answer_p = true;
    if (etcd->status != NIXL_INPROGRESS) {
        memcpy(why, etcd->line, sizeof(etcd->line));
        return etcd->status;
    }
    if (!request->is_never_stopped && atomic_exchange(&etcd->is_interrupted, false)) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "interrupted");
        return NIXL_E_CANCELED;
    }
    if (!etcd->is_done && request->is_stream && http != 0) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "nothing has changed");
        return NIXL_E_TIMEOUT;
    }
    *is_answer_p = false;
    if (!etcd->is_done) {
        etcd->code = CURLE_OPERATION_TIMEDOUT;
    }
    if (!etcd->is_done || etcd->code != CURLE_OK) {
        return client_explain(etcd, why);
    }
    status = request->take(request->arg, http, etcd->bytes, etcd->nbytes, why);
    *is_answer_p = status != NIXL_E_UNSUPPORTED && status != NIXL_E_AGAIN;
    return status;
}

/* Ask one endpoint, `n_left` of several. */
static int client_ask_one(struct nxr_etcd *etcd, unsigned n_left, bool *is_answer_p,
                          char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_request *request = etcd->request;
    int64_t now = nxr_now_ns(), share = (request->until - now) / n_left, until = request->until;
    struct curl_slist *headers = client_headers(etcd);
    char url[512];
    int status;

    *is_answer_p = false;
    if (headers == NULL) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "no memory for a request");
        return NIXL_E_NO_MEMORY;
    }
    share = share < SHORTEST_NS ? SHORTEST_NS : share;
    if (!request->is_stream && until - now > ANSWER_NS) {
        until = now + ANSWER_NS;
    }
    if (!request->is_stream && n_left > 1 && until - now > share) {
        until = now + share;
    }
    snprintf(url, sizeof(url), "%s://%s/v3/%s", etcd->is_tls ? "https" : "http",
             etcd->endpoints[etcd->current], request->path);
    etcd->nbytes = 0;
    etcd->error[0] = etcd->line[0] = '\0';
    etcd->is_done = false;
    etcd->status = NIXL_INPROGRESS;
    client_set_options(etcd, url, share < CONNECT_NS ? share : CONNECT_NS);
    curl_easy_setopt(etcd->easy, CURLOPT_HTTPHEADER, headers);
    curl_multi_add_handle(etcd->multi, etcd->easy);
    if (etcd->wait != NULL) {
        etcd->wait(client_step, etcd, until);
    } else {
        client_sleep(etcd, until);
    }
    status = client_judge(etcd, is_answer_p, why);
    curl_multi_remove_handle(etcd->multi, etcd->easy);
    curl_slist_free_all(headers);
    return status;
}

/* ---- endpoints and the session --------------------------------------------------------------- */

/* Ask one endpoint after the other, until an etcd answers. */
static int client_ask_all(struct nxr_etcd *etcd, struct nxr_etcd_request *request,
                          char why[NXR_ETCD_WHY_NBYTES])
{
    char reason[NXR_ETCD_WHY_NBYTES];
    int status = NIXL_E_AGAIN, worst = NIXL_OK;
    size_t used = 0;

    etcd->request = request;
    for (unsigned n_left = etcd->n_endpoints; n_left > 0; n_left--) {
        bool is_answer;

        status = client_ask_one(etcd, n_left, &is_answer, reason);
        if (status == NIXL_OK || is_answer || status == NIXL_E_NO_MEMORY) {
            memcpy(why, reason, sizeof(reason));
            return status;
        }
        if (used < NXR_ETCD_WHY_NBYTES) {
            used += (size_t)snprintf(why + used, NXR_ETCD_WHY_NBYTES - used, "%s%s: %s",
                                     used > 0 ? "; " : "", etcd->endpoints[etcd->current], reason);
        }
        worst = worst == NIXL_E_AGAIN ? worst : status; /* one that may come back */
        etcd->current = (etcd->current + 1) % etcd->n_endpoints;
        if (nxr_now_ns() >= etcd->request->until) {
            break;
        }
    }
    return worst;
}

static int login_take(void *arg, long http, const char *bytes, size_t nbytes,
                      char why[NXR_ETCD_WHY_NBYTES])
{
    struct nxr_etcd_answer answer;
    struct nxr_etcd *etcd = arg;
    int status = nxr_etcd_answer_read(http, bytes, nbytes, &answer, why);

    if (status == NIXL_E_NOT_FOUND) {
        etcd->wants_no_login = true;
        return NIXL_OK;
    }
    if (status == NIXL_OK && answer.token[0] == '\0') {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "etcd gives no token to its user '%.100s'", etcd->user);
        return NIXL_E_TRANSPORT;
    }
    if (status == NIXL_OK) {
        memcpy(etcd->token, answer.token, sizeof(etcd->token));
    }
    return status;
}

/* Begin a session. */
static int client_login(struct nxr_etcd *etcd, int64_t until, char why[NXR_ETCD_WHY_NBYTES])
{
    json_t *object = json_pack("{ss ss}", "name", etcd->user, "password", etcd->password);
    char *body = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    struct nxr_etcd_request request = {
        .path = "auth/authenticate", .body = body, .until = until, .take = login_take, .arg = etcd};
    int status = NIXL_E_INVALID_ARG;

    if (body == NULL) {
        snprintf(why, NXR_ETCD_WHY_NBYTES, "the user or the password for etcd is no UTF-8");
    } else {
        status = client_ask_all(etcd, &request, why);
        explicit_bzero(body, strlen(body));
    }
    json_decref(object);
    free(body);
    return status;
}

static int client_ask_in_session(struct nxr_etcd *etcd, struct nxr_etcd_request *request,
                                 char why[NXR_ETCD_WHY_NBYTES])
{
    int status = NIXL_OK;

    for (int i = 0; i < 2; i++) {
        if (etcd->user[0] != '\0' && etcd->token[0] == '\0' && !etcd->wants_no_login) {
            status = client_login(etcd, request->until, why);
        }
        if (status != NIXL_OK) {
            return status;
        }
        status = client_ask_all(etcd, request, why);
        if (status != NIXL_E_EXPIRED &&
            !(status == NIXL_E_ACCESS && etcd->user[0] != '\0' && etcd->wants_no_login)) {
            return status;
        }
        etcd->token[0] = '\0'; /* etcd was started again, or knows users only since then */
        etcd->wants_no_login = false;
        status = NIXL_OK;
    }
    snprintf(why, NXR_ETCD_WHY_NBYTES, "etcd does not accept the session that it has just given");
    return NIXL_E_ACCESS;
}

int nxr_etcd_ask(struct nxr_etcd *etcd, struct nxr_etcd_request *request,
                 char why[NXR_ETCD_WHY_NBYTES])
{
    struct pipe_guard guard;
    int status;

    pipe_guard_begin(&guard);
    status = client_ask_in_session(etcd, request, why);
    pipe_guard_end(&guard);
    etcd->request = NULL;
    return status;
}
