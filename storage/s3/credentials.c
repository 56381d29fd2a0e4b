/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials from the service of a container or of an EC2 instance (IMDSv2). They expire, and are
 * fetched again some minutes before, by whichever thread is about to sign: the services are on this
 * host and answer at once, or are given two seconds. Lock: the store's.
 */
#include "config.h"

#include "storage/s3/profile.h"
#include "storage/s3/s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_MS     1000L
#define SOON_SECONDS  300
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

/* Holds the lock. */
static bool credentials_fetch(struct nxr_object_store *store, char *why, size_t why_nbytes)
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
    if (is_fetched) {
        store->credentials = fetched;
        explicit_bzero(&fetched, sizeof(fetched));
    }
    explicit_bzero(&answer, sizeof(answer));
    return is_fetched;
}

bool nxr_s3_credentials_fetch(struct nxr_object_store *store, char *why, size_t why_nbytes)
{
    bool is_fetched;

    pthread_mutex_lock(&store->lock);
    is_fetched = credentials_fetch(store, why, why_nbytes);
    pthread_mutex_unlock(&store->lock);
    return is_fetched;
}

void nxr_s3_credentials_now(struct nxr_object_store *store, struct s3_credentials *credentials)
{
    char why[200];

    pthread_mutex_lock(&store->lock);
    if (store->credentials.expires != 0 &&
        store->credentials.expires < (int64_t)time(NULL) + SOON_SECONDS) {
        /* What fails here is tried with the next request; till then, the old ones may still do. */
        (void)credentials_fetch(store, why, sizeof(why));
    }
    *credentials = store->credentials;
    pthread_mutex_unlock(&store->lock);
}
