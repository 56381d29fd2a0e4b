/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: its table, its thread, and the life of a request: submitted, waiting for its time or
 * for a connection, at the store, judged, ended. The thread sleeps in curl_multi_poll() until a
 * connection, a submission or a time needs it; it blocks signals, SIGPIPE too. Lock: s3.lock,
 * for what is submitted and for the end; a leaf.
 */
#include "config.h"

#include "nixlrun.h"
#include "storage/s3/s3.h"
#include "util/clock.h"
#include "util/random.h"
#include "util/signals.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_DELAY_NS (50 * NXR_MS) /* doubled with each attempt, and a random part of it taken */
#define MAX_DELAY_NS   (5 * NXR_S)
#define SLEEP_MS       1000
#define MAX_IDLE       64 /* easy handles that are kept */

static struct {
    pthread_mutex_t lock;
    struct nxr_object_io *submitted, **submitted_end;
    bool is_stopping;
    CURLM *multi;
    pthread_t thread;

    atomic_bool must_look; /* at is_canceled of all requests */

    /* The thread's. */
    struct s3_queue timed;          /* for later attempts, and timers */
    struct s3_queue active;         /* at their stores */
    struct nxr_object_store *ready; /* stores with requests that wait for a connection */
    CURL *idle[MAX_IDLE];
    unsigned n_idle;
} s3 = {.lock = PTHREAD_MUTEX_INITIALIZER, .submitted_end = &s3.submitted};

/* ---- queues ---------------------------------------------------------------------------------- */

static void queue_add(struct s3_queue *queue, struct s3_request *request)
{
    request->next = NULL;
    *queue->end = request;
    queue->end = &request->next;
}

/* Take the request out that *link points to. */
static struct s3_request *queue_take(struct s3_queue *queue, struct s3_request **link)
{
    struct s3_request *request = *link;

    *link = request->next;
    if (queue->end == &request->next) {
        queue->end = link;
    }
    return request;
}

static void queue_remove(struct s3_queue *queue, const struct s3_request *request)
{
    for (struct s3_request **link = &queue->first; *link != NULL; link = &(*link)->next) {
        if (*link == request) {
            (void)queue_take(queue, link);
            return;
        }
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void request_ready(struct s3_request *request)
{
    struct nxr_object_store *store = request->store;

    if (store->ready.first == NULL) {
        store->ready.end = &store->ready.first;
    }
    queue_add(&store->ready, request);
    if (!store->is_listed) {
        store->is_listed = true;
        store->next_ready = s3.ready;
        s3.ready = store;
    }
}

static CURL *easy_take(void)
{
    return s3.n_idle > 0 ? s3.idle[--s3.n_idle] : curl_easy_init();
}

static void easy_give(CURL *easy)
{
    if (easy != NULL && s3.n_idle < MAX_IDLE) {
        s3.idle[s3.n_idle++] = easy;
    } else if (easy != NULL) {
        curl_easy_cleanup(easy);
    }
}

static void request_end(struct s3_request *request)
{
    struct nxr_object_io *io = request->io;

    easy_give(request->easy);
    curl_slist_free_all(request->lines);
    free(request->body);
    free(request->bytes);
    free(request);
    io->ended(io);
}

static void io_fail(struct nxr_object_io *io, int error)
{
    io->error = error;
    snprintf(io->why, sizeof(io->why), "%s", strerror(error));
    io->ended(io);
}

static void request_new(struct nxr_object_io *io)
{
    struct s3_request *request = calloc(1, sizeof(*request));

    io->error = 0;
    io->why[0] = '\0';
    io->is_denied = io->is_no_bucket = false;
    if (request == NULL) {
        io_fail(io, ENOMEM);
        return;
    }
    request->io = io;
    request->action = io->action;
    request->store = io->store;
    request->is_ranged =
        io->action == NXR_OBJECT_GET && (io->offset != 0 || io->nbytes != io->object_nbytes);
    if (io->action == NXR_OBJECT_DELAY) {
        request->not_before = nxr_now_ns() + io->delay_ns;
        queue_add(&s3.timed, request);
    } else {
        request_ready(request);
    }
}

/* How long to wait before the next attempt: at random, so that clients do not come together. */
static int64_t request_delay(const struct s3_request *request)
{
    unsigned shift = request->n_attempts < 10 ? request->n_attempts - 1 : 9;
    int64_t most = FIRST_DELAY_NS << shift;
    int64_t least = (int64_t)request->headers.retry_after * NXR_S;
    uint64_t random = 0;

    if (!nxr_random(&random, sizeof(random))) {
        random = (uint64_t)nxr_now_ns();
    }
    most = most < MAX_DELAY_NS ? most : MAX_DELAY_NS;
    least = least < MAX_DELAY_NS ? least : MAX_DELAY_NS;
    return least + most / 4 + (int64_t)(random % (uint64_t)(3 * most / 4));
}

static void request_retry(struct s3_request *request)
{
    const _Atomic int64_t *until_p = request->io->until;
    int64_t until = until_p != NULL ? atomic_load(until_p) : 0;

    request->location[0] = '\0'; /* a redirection counts once: the next one may lead elsewhere */
    request->n_turns = 0;
    request->not_before = nxr_now_ns() + request_delay(request);
    if (request->n_attempts >= request->store->max_attempts ||
        (until != 0 && request->not_before >= until)) {
        if (nxr_s3_judge_last(request) == S3_AGAIN) {
            request_ready(request);
        } else {
            request_end(request);
        }
        return;
    }
    queue_add(&s3.timed, request);
}

static void request_judge(struct s3_request *request, CURLcode code)
{
    enum s3_verdict verdict = nxr_s3_judge(request, code);

    request->store->n_active--;
    if (verdict == S3_DONE || verdict == S3_FAILED) {
        if (verdict == S3_DONE) {
            request->io->error = 0;
            request->io->why[0] = '\0';
        }
        request_end(request);
    } else if (verdict == S3_AGAIN) {
        request_ready(request);
    } else {
        request->n_attempts++;
        request_retry(request);
    }
}

static bool is_canceled(const struct s3_request *request)
{
    return request->io->is_canceled != NULL && atomic_load(request->io->is_canceled);
}

static void request_cancel(struct s3_request *request)
{
    request->io->error = ECANCELED;
    snprintf(request->io->why, sizeof(request->io->why), "given up");
    request_end(request);
}

static void request_begin(struct s3_request *request)
{
    int error = ENOMEM;

    if (is_canceled(request)) { /* when nobody looked */
        request_cancel(request);
        return;
    }
    if (request->easy == NULL) {
        request->easy = easy_take();
    }
    if (request->easy != NULL) {
        error = nxr_s3_request_prepare(request);
    }
    if (error == 0 && curl_multi_add_handle(s3.multi, request->easy) != CURLM_OK) {
        error = ENOMEM;
    }
    if (error != 0) {
        request->io->error = error;
        snprintf(request->io->why, sizeof(request->io->why), "%s", strerror(error));
        request_end(request);
        return;
    }
    request->store->n_active++;
    queue_add(&s3.active, request);
}

void nxr_s3_wake(void)
{
    (void)curl_multi_wakeup(s3.multi);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void loop_take_submitted(void)
{
    struct nxr_object_io *io;

    pthread_mutex_lock(&s3.lock);
    io = s3.submitted;
    s3.submitted = NULL;
    s3.submitted_end = &s3.submitted;
    pthread_mutex_unlock(&s3.lock);
    while (io != NULL) {
        struct nxr_object_io *next = io->next;

        request_new(io);
        io = next;
    }
}

static void loop_take_ended(void)
{
    const CURLMsg *message;
    int n_left;

    while ((message = curl_multi_info_read(s3.multi, &n_left)) != NULL) {
        struct s3_request *request = NULL;
        CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;

        if (message->msg == CURLMSG_DONE) {
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&request);
            curl_multi_remove_handle(s3.multi, easy);
            queue_remove(&s3.active, request);
            request_judge(request, code);
        }
    }
}

/* End what was canceled, in one queue. */
static void loop_stop_canceled(struct s3_queue *queue)
{
    struct s3_request **link = &queue->first;

    while (*link != NULL) {
        struct s3_request *request = *link;

        if (!is_canceled(request)) {
            link = &request->next;
            continue;
        }
        (void)queue_take(queue, link);
        if (queue == &s3.active) {
            curl_multi_remove_handle(s3.multi, request->easy);
            request->store->n_active--;
        }
        request_cancel(request);
    }
}

static void loop_look(void)
{
    if (atomic_exchange(&s3.must_look, false)) {
        loop_stop_canceled(&s3.active);
        loop_stop_canceled(&s3.timed);
        for (struct nxr_object_store *store = s3.ready; store != NULL; store = store->next_ready) {
            loop_stop_canceled(&store->ready);
        }
    }
}

/* Make ready, or end, whose time has come; returns when the next one's comes. */
static int64_t loop_take_timed(int64_t now)
{
    struct s3_request **link = &s3.timed.first;
    int64_t next = INT64_MAX;

    while (*link != NULL) {
        struct s3_request *request = *link;

        if (request->not_before > now) {
            next = next < request->not_before ? next : request->not_before;
            link = &request->next;
            continue;
        }
        (void)queue_take(&s3.timed, link);
        if (request->io->action == NXR_OBJECT_DELAY) {
            request_end(request);
        } else {
            request_ready(request);
        }
    }
    return next;
}

/* Begin what has a connection. True: some have begun. */
static bool loop_begin(void)
{
    struct nxr_object_store **link = &s3.ready;
    bool has_begun = false;

    while (*link != NULL) {
        struct nxr_object_store *store = *link;

        while (store->ready.first != NULL && store->n_active < store->n_connections &&
               nxr_s3_credentials_are_there(store)) {
            has_begun = true;
            request_begin(queue_take(&store->ready, &store->ready.first));
        }
        if (store->ready.first != NULL) {
            link = &store->next_ready;
            continue;
        }
        store->is_listed = false;
        *link = store->next_ready;
    }
    return has_begun;
}

static bool loop_is_stopping(void)
{
    bool is_stopping;

    pthread_mutex_lock(&s3.lock);
    is_stopping = s3.is_stopping;
    pthread_mutex_unlock(&s3.lock);
    return is_stopping;
}

static void *loop_run(void *arg)
{
    (void)arg;
    while (!loop_is_stopping()) {
        int64_t now = nxr_now_ns(), left;
        int n_running;

        loop_take_submitted();
        loop_look();
        left = loop_take_timed(now) - now;
        do {
            (void)curl_multi_perform(s3.multi, &n_running);
            loop_take_ended();
        } while (loop_begin());
        left = left < SLEEP_MS * NXR_MS ? left / NXR_MS + 1 : SLEEP_MS;
        (void)curl_multi_poll(s3.multi, NULL, 0, left > 0 ? (int)left : 0, NULL);
    }
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state;

static void curl_begin(void)
{
    curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static const char *s3_libraries(void)
{
    return curl_version();
}

/* libcurl's stack in TLS is deep: the system's usual size is kept. */
static int loop_start(void)
{
    const sigset_t sent = nxr_signals_sent();
    sigset_t before;
    int error;

    pthread_sigmask(SIG_SETMASK, &sent, &before);
    error = pthread_create(&s3.thread, NULL, loop_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int s3_start(char *why, size_t why_nbytes)
{
    int error = ENOMEM;

    pthread_once(&curl_once, curl_begin);
    if (curl_state != CURLE_OK) {
        snprintf(why, why_nbytes, "libcurl: %s", curl_easy_strerror(curl_state));
        return NIXL_E_UNSUPPORTED;
    }
    s3.is_stopping = false;
    s3.timed = (struct s3_queue){NULL, &s3.timed.first};
    s3.active = (struct s3_queue){NULL, &s3.active.first};
    s3.multi = curl_multi_init();
    if (s3.multi != NULL) {
        error = loop_start();
    }
    if (error != 0) {
        curl_multi_cleanup(s3.multi);
        s3.multi = NULL;
        snprintf(why, why_nbytes, "no thread can be started: %s", strerror(error));
        return NIXL_E_LIMIT;
    }
    return NIXL_OK;
}

/* Curl may write to connections as it closes them. */
static void s3_stop(void)
{
    static const struct timespec at_once = {0, 0};
    sigset_t pipe, before;

    pthread_mutex_lock(&s3.lock);
    s3.is_stopping = true;
    pthread_mutex_unlock(&s3.lock);
    (void)curl_multi_wakeup(s3.multi);
    pthread_join(s3.thread, NULL);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    while (s3.n_idle > 0) {
        curl_easy_cleanup(s3.idle[--s3.n_idle]);
    }
    curl_multi_cleanup(s3.multi);
    s3.multi = NULL;
    if (sigismember(&before, SIGPIPE) == 0) {
        while (sigtimedwait(&pipe, NULL, &at_once) == SIGPIPE) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void store_free(struct nxr_object_store *store)
{
    nxr_s3_settings_free(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static int s3_open(const struct nxr_object_settings *settings, struct nxr_object_store **store_p,
                   char *why, size_t why_nbytes)
{
    struct nxr_object_store *store = calloc(1, sizeof(*store));
    int status;

    if (store == NULL) {
        snprintf(why, why_nbytes, "no memory");
        return NIXL_E_NO_MEMORY;
    }
    pthread_mutex_init(&store->lock, NULL);
    status = nxr_s3_settings_read(settings, store, why, why_nbytes);
    if (status != NIXL_OK) {
        store_free(store);
        return status;
    }
    *store_p = store;
    return NIXL_OK;
}

/* The thread may still be in the turn in which the store's last request has ended. */
struct next_turn {
    struct nxr_object_io io;
    sem_t has_come;
};

static void next_turn_has_come(struct nxr_object_io *io)
{
    sem_post(&((struct next_turn *)io)->has_come); /* its first member */
}

static void s3_submit(struct nxr_object_io *list);

static void s3_close(struct nxr_object_store *store)
{
    struct next_turn turn = {.io = {.action = NXR_OBJECT_DELAY, .ended = next_turn_has_come}};

    sem_init(&turn.has_come, 0, 0);
    s3_submit(&turn.io);
    while (sem_wait(&turn.has_come) != 0) {
    }
    sem_destroy(&turn.has_come);
    nxr_s3_credentials_end(store);
    store_free(store);
}

static const char *s3_path(const struct nxr_object_store *store)
{
    return store->place.path;
}

static void s3_describe(const struct nxr_object_store *store, char *text, size_t text_nbytes)
{
    static const char *const sources[] = {[S3_ANONYMOUS] = "anonymous",
                                          [S3_GIVEN] = "a key",
                                          [S3_CONTAINER] = "the container's role",
                                          [S3_INSTANCE] = "the instance's role"};

    snprintf(text, text_nbytes, "%s%.60s, bucket %.63s, by %s; %s",
             store->place.host[0] == '\0' ? "AWS"
             : store->place.is_tls        ? "https://"
                                          : "http://",
             store->place.host, store->place.bucket, sources[store->source],
             store->uses_md5      ? "MD5"
             : store->checks_puts ? "CRC32C"
                                  : "no checksums");
}

static void s3_submit(struct nxr_object_io *list)
{
    pthread_mutex_lock(&s3.lock);
    *s3.submitted_end = list;
    while (*s3.submitted_end != NULL) {
        s3.submitted_end = &(*s3.submitted_end)->next;
    }
    pthread_mutex_unlock(&s3.lock);
    (void)curl_multi_wakeup(s3.multi);
}

static void s3_wake(void)
{
    atomic_store(&s3.must_look, true);
    nxr_s3_wake();
}

NIXL_API extern const struct nxr_object_engine nxr_object_engine;

const struct nxr_object_engine nxr_object_engine = {
    .abi = NXR_OBJECT_ABI,
    .name = "s3",
    .libraries = s3_libraries,
    .start = s3_start,
    .stop = s3_stop,
    .open = s3_open,
    .close = s3_close,
    .path = s3_path,
    .describe = s3_describe,
    .submit = s3_submit,
    .wake = s3_wake,
};
