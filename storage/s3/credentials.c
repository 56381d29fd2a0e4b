/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials from the service of a container or of an EC2 instance (IMDSv2). They expire, and are
 * fetched again some minutes before. The services are on this host and mostly answer at once, but
 * one that hangs takes a second for each question. The thread that serves all stores must not wait
 * for that while the former credentials are valid, nor for what concerns one store only. So a
 * thread, which is started for it, asks. Lock: the store's, which is not held meanwhile.
 */
#include "config.h"

#include "storage/s3/profile.h"
#include "storage/s3/s3.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_MS     1000L
#define ANSWER_NBYTES 16384
#define TOKEN_HEADER  "X-aws-ec2-metadata-token: "

struct service_answer {
    char text[ANSWER_NBYTES];
    size_t nbytes;
};

static size_t service_receive(char *bytes, size_t size, size_t n, void *arg)
{
    struct service_answer *answer = arg;
    size_t nbytes = size * n;

    if (nbytes >= sizeof(answer->text) - answer->nbytes) {
        return 0;
    }
    memcpy(answer->text + answer->nbytes, bytes, nbytes);
    answer->nbytes += nbytes;
    answer->text[answer->nbytes] = '\0';
    return nbytes;
}

/* Ask a service; `method` NULL is GET, `line` NULL no header. */
static bool service_ask(const char *url, const char *method, const char *line,
                        struct service_answer *answer, char *why, size_t why_nbytes)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *lines = line != NULL ? curl_slist_append(NULL, line) : NULL;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    long http = 0;

    answer->nbytes = 0;
    answer->text[0] = '\0';
    if (easy != NULL) {
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a name server */
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ANSWER_MS);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, service_receive);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
        if (method != NULL) {
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
        }
        code = curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http);
        curl_easy_cleanup(easy);
    }
    curl_slist_free_all(lines);
    if (code != CURLE_OK || http != 200) {
        snprintf(why, why_nbytes, "%.80s: %s", url,
                 code != CURLE_OK ? curl_easy_strerror(code) : "it has none");
        return false;
    }
    return true;
}

static bool ask_instance(const struct nxr_object_store *store, struct service_answer *answer,
                         char *why, size_t why_nbytes)
{
    static const char path[] = "/latest/meta-data/iam/security-credentials/";
    char url[512], line[sizeof(TOKEN_HEADER) + 512];
    bool is_answered;

    snprintf(url, sizeof(url), "%s/latest/api/token", store->metadata);
    if (!service_ask(url, "PUT", "X-aws-ec2-metadata-token-ttl-seconds: 300", answer, why,
                     why_nbytes)) {
        return false;
    }
    snprintf(line, sizeof(line), TOKEN_HEADER "%.*s", (int)strcspn(answer->text, "\r\n"),
             answer->text);
    snprintf(url, sizeof(url), "%s%s", store->metadata, path);
    is_answered = service_ask(url, NULL, line, answer, why, why_nbytes);
    if (is_answered) {
        snprintf(url, sizeof(url), "%s%s%.*s", store->metadata, path,
                 (int)(strcspn(answer->text, "\r\n") % 200), answer->text);
        is_answered = service_ask(url, NULL, line, answer, why, why_nbytes);
    }
    explicit_bzero(line, sizeof(line));
    return is_answered;
}

/* The token may be in a file, which EKS writes anew from time to time. */
static bool ask_container(const struct nxr_object_store *store, struct service_answer *answer,
                          char *why, size_t why_nbytes)
{
    char token[4200] = "", line[sizeof(token) + 20];
    FILE *file = store->service_token_file != NULL ? fopen(store->service_token_file, "re") : NULL;
    bool is_answered;

    if (file != NULL) {
        token[fread(token, 1, sizeof(token) - 1, file)] = '\0';
        fclose(file);
    } else if (store->service_token != NULL) {
        snprintf(token, sizeof(token), "%s", store->service_token);
    }
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(line, sizeof(line), "Authorization: %s", token);
    is_answered = service_ask(store->service_url, NULL, token[0] != '\0' ? line : NULL, answer, why,
                              why_nbytes);
    explicit_bzero(token, sizeof(token));
    explicit_bzero(line, sizeof(line));
    return is_answered;
}

bool nxr_s3_credentials_fetch(struct nxr_object_store *store, char *why, size_t why_nbytes)
{
    struct service_answer answer;
    struct s3_credentials fetched;
    bool is_fetched = false;

    if (store->source == S3_CONTAINER ? store->service_url != NULL : store->metadata != NULL) {
        is_fetched = store->source == S3_CONTAINER ? ask_container(store, &answer, why, why_nbytes)
                                                   : ask_instance(store, &answer, why, why_nbytes);
    }
    if (is_fetched && !nxr_s3_credentials_read(answer.text, &fetched)) {
        snprintf(why, why_nbytes, "it answers, but with no credentials");
        is_fetched = false;
    }
    pthread_mutex_lock(&store->lock);
    store->asked_ns = nxr_now_ns(); /* a failure counts, too: the next one would fail as well */
    if (is_fetched) {
        store->credentials = fetched;
        explicit_bzero(&fetched, sizeof(fetched));
    }
    pthread_mutex_unlock(&store->lock);
    explicit_bzero(&answer, sizeof(answer));
    return is_fetched;
}

/* ---- asking meanwhile ------------------------------------------------------------------------ */

/* What fails here is tried again later; till then, the former ones may still do. */
static void *asker_run(void *arg)
{
    struct nxr_object_store *store = arg;
    char why[200];

    (void)nxr_s3_credentials_fetch(store, why, sizeof(why));
    pthread_mutex_lock(&store->lock);
    store->is_asking = false;
    pthread_mutex_unlock(&store->lock);
    nxr_s3_wake();
    return NULL;
}

static void asker_join(struct nxr_object_store *store)
{
    if (store->has_asker) {
        pthread_join(store->asker, NULL);
        store->has_asker = false;
    }
}

/* The new thread blocks signals as the loop's does, which calls this. False: there is none. */
static bool asker_start(struct nxr_object_store *store)
{
    asker_join(store); /* the former one has ended */
    pthread_mutex_lock(&store->lock);
    store->is_asking = true;
    pthread_mutex_unlock(&store->lock);
    store->has_asker = pthread_create(&store->asker, NULL, asker_run, store) == 0;
    if (!store->has_asker) {
        pthread_mutex_lock(&store->lock);
        store->is_asking = false;
        store->asked_ns = nxr_now_ns();
        pthread_mutex_unlock(&store->lock);
    }
    return store->has_asker;
}

bool nxr_s3_credentials_are_there(struct nxr_object_store *store)
{
    int64_t now = (int64_t)time(NULL), expires, seconds;
    enum s3_need need;
    bool is_asking;

    pthread_mutex_lock(&store->lock);
    expires = store->credentials.expires;
    is_asking = store->is_asking;
    seconds = (nxr_now_ns() - store->asked_ns) / NXR_S;
    pthread_mutex_unlock(&store->lock);
    need = nxr_s3_credentials_need(expires, now, seconds);
    if (is_asking) {
        return expires > now;
    }
    return need == S3_NEED_NONE || !asker_start(store) || need == S3_NEED_SOON;
}

void nxr_s3_credentials_now(struct nxr_object_store *store, struct s3_credentials *credentials)
{
    pthread_mutex_lock(&store->lock);
    *credentials = store->credentials;
    pthread_mutex_unlock(&store->lock);
}

void nxr_s3_credentials_end(struct nxr_object_store *store)
{
    asker_join(store);
}
