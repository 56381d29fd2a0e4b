/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of this folder: stores and requests.
 *
 * One thread, of loop.c, talks to all stores, by one multi handle of libcurl. It alone uses
 * requests, and a store's region, clock and connections; what of a store it shares with open() is
 * constant, and its credentials have a lock of their own, since a thread of their own gets new
 * ones.
 */
#ifndef NXR_S3_S3_H
#define NXR_S3_S3_H

#include "storage/object.h"
#include "storage/s3/answer.h"
#include "storage/s3/place.h"
#include "storage/s3/sign.h"

#include <curl/curl.h>
#include <nettle/md5.h>
#include <pthread.h>

#define S3_MAX_ANSWER (8u << 20) /* bytes of an answer that is no object */

/* Where credentials are from, and so how they are had again when they expire. */
enum s3_source {
    S3_ANONYMOUS,
    S3_GIVEN,     /* by variables or files: they stay */
    S3_CONTAINER, /* ECS, EKS */
    S3_INSTANCE,  /* EC2 */
};

struct s3_request;

/* Requests in a row. */
struct s3_queue {
    struct s3_request *first, **end;
};

struct nxr_object_store {
    struct s3_place place; /* host "": that of AWS in the region */
    char region[S3_REGION_NBYTES];
    char ca_file[1024];
    bool checks_puts, checks_gets; /* by CRC-32C */
    bool uses_md5;
    unsigned max_attempts, n_connections;
    char *service_url, *service_token, *service_token_file; /* S3_CONTAINER; NULL: none */
    char *metadata;                                         /* S3_INSTANCE: the service's URL */

    pthread_mutex_t lock; /* for the next ones; a leaf */
    enum s3_source source;
    struct s3_credentials credentials;
    int64_t asked_ns; /* when the service of credentials was asked last, of nxr_now_ns() */
    bool is_asking;   /* by the thread `asker` */

    pthread_t asker; /* of the loop's thread, then of close() */
    bool has_asker;  /* it is to be joined */

    struct s3_queue ready; /* requests that wait for a connection */
    struct nxr_object_store *next_ready;
    bool is_listed;       /* among those with such requests */
    unsigned n_active;    /* requests that are at the store */
    int64_t skew_seconds; /* how far its clock is ahead of ours */
};

struct s3_request {
    struct nxr_object_io *io;
    enum nxr_object_action action; /* io's; or HEAD, once the outcome of COMPLETE is in doubt */
    struct nxr_object_store *store;
    struct s3_request *next;
    CURL *easy;
    struct curl_slist *lines;
    char *body;          /* of COMPLETE */
    int64_t not_before;  /* for the next attempt, or the end of a DELAY */
    unsigned n_attempts; /* failed ones */
    unsigned n_turns;    /* since then: what was sent elsewhere, and the like */
    bool is_ranged;      /* a GET of a part of the object */
    bool is_skewed;      /* the store's clock was asked for already */
    bool asks_why;       /* a HEAD was refused, and a GET of one byte is sent instead */
    char location[512];  /* by a redirection, without the query; "": the store's */
    char token[1200];    /* of a list's next page */
    int doubt_error;     /* why the outcome of COMPLETE is in doubt */
    char doubt[NXR_OBJECT_WHY_NBYTES];

    /* Of the attempt under way. */
    struct s3_headers headers;
    uint64_t got; /* bytes of the object */
    uint32_t crc32c;
    struct md5_ctx md5;
    char *bytes; /* of an answer that is no object */
    size_t nbytes, room;
    char error[CURL_ERROR_SIZE];
};

/* ---- settings.c ------------------------------------------------------------------------------ */

/* Fill a store by the settings, the environment and AWS's files. As open() of object.h. */
int nxr_s3_settings_read(const struct nxr_object_settings *settings, struct nxr_object_store *store,
                         char *why, size_t why_nbytes);
void nxr_s3_settings_free(struct nxr_object_store *store);

/* ---- credentials.c --------------------------------------------------------------------------- */

/*
 * Get credentials from the service of the store's source, which may take three seconds. False and
 * one line in `why`.
 */
bool nxr_s3_credentials_fetch(struct nxr_object_store *store, char *why, size_t why_nbytes);

/*
 * Are there some to sign with? If they soon expire, or have, others are asked for meanwhile. False:
 * they have expired, and nxr_s3_wake() is called when the service has answered, or has not. On the
 * loop's thread, which it does not block.
 */
bool nxr_s3_credentials_are_there(struct nxr_object_store *store);
void nxr_s3_credentials_now(struct nxr_object_store *store, struct s3_credentials *credentials);

/* Nobody asks any more. It may have to wait for the answer of the service. */
void nxr_s3_credentials_end(struct nxr_object_store *store);

/* ---- loop.c ---------------------------------------------------------------------------------- */

/* Look again at what can begin. */
void nxr_s3_wake(void);

/* ---- request.c ------------------------------------------------------------------------------- */

/* Make request->easy ready for an attempt. 0, or an errno. */
int nxr_s3_request_prepare(struct s3_request *request);

/* ---- judge.c --------------------------------------------------------------------------------- */

enum s3_verdict {
    S3_DONE,   /* io has the outcome */
    S3_FAILED, /* likewise: io->error, io->why */
    S3_AGAIN,  /* it is no failure: once more, at once */
    S3_RETRY,  /* io->error and io->why say what failed; after a while once more */
};

/* What has become of an attempt. */
enum s3_verdict nxr_s3_judge(struct s3_request *request, CURLcode code);

/* No attempt is left after S3_RETRY. S3_FAILED; or S3_AGAIN: what is in doubt is asked for. */
enum s3_verdict nxr_s3_judge_last(struct s3_request *request);

#endif
