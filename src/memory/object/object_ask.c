/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about single objects: stat, delete, list. The thread that asks sleeps until the
 * engine's has the answer. Lock: the question's, a leaf.
 */
#include "config.h"

#include "memory/object/kind.h"
#include "memory/object/object_ask.h"
#include "util/clock.h"
#include "util/struct.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void question_ended(struct nxr_object_io *io)
{
    struct object_question *question = nxr_list_entry(io, struct object_question, io);

    pthread_mutex_lock(&question->lock);
    question->is_over = true;
    pthread_cond_signal(&question->has_ended);
    pthread_mutex_unlock(&question->lock);
}

static void question_wake(struct nxr_asking *asking)
{
    struct object_question *question = nxr_list_entry(asking, struct object_question, asking);

    pthread_mutex_lock(&question->lock);
    pthread_cond_signal(&question->has_ended);
    pthread_mutex_unlock(&question->lock);
}

/*
 * Wait until the request has ended, or it is time, or it is canceled. Holds the lock. False: it has
 * not ended.
 */
static bool question_wait(struct object_question *question, int64_t until)
{
    struct timespec time = {.tv_sec = until / NXR_S, .tv_nsec = until % NXR_S};

    while (!question->is_over) {
        if (nxr_asking_is_canceled(&question->asking)) {
            return false;
        }
        if (until == INT64_MAX) {
            pthread_cond_wait(&question->has_ended, &question->lock);
        } else if (pthread_cond_timedwait(&question->has_ended, &question->lock, &time) ==
                       ETIMEDOUT &&
                   !question->is_over) {
            return false;
        }
    }
    return true;
}

/*
 * Cancel the request, and wait for its end. Holds the lock. False: the time is over; true: it was
 * canceled, or the answer has come just in time.
 */
static bool question_give_up(const struct nxr_object_set *set, struct object_question *question)
{
    bool is_late = !nxr_asking_is_canceled(&question->asking);

    atomic_store(&question->is_canceled, true);
    set->engine->wake();
    while (!question->is_over) {
        pthread_cond_wait(&question->has_ended, &question->lock);
    }
    if (question->io.error != ECANCELED) {
        return true;
    }
    snprintf(question->io.why, sizeof(question->io.why), "nixl_question_cancel() has ended it");
    return !is_late;
}

bool nxr_object_ask(const struct nxr_object_set *set, struct object_question *question,
                    int64_t timeout_ns)
{
    pthread_condattr_t attributes;
    bool is_in_time;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&question->lock, NULL);
    pthread_cond_init(&question->has_ended, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_init(&question->is_canceled, false);
    question->is_over = false;
    question->io.store = set->store;
    question->io.is_canceled = &question->is_canceled;
    question->io.ended = question_ended;
    question->io.next = NULL;
    nxr_asking_begin(&question->asking, question_wake);
    set->engine->submit(&question->io);
    pthread_mutex_lock(&question->lock);
    is_in_time =
        question_wait(question, nxr_deadline(timeout_ns)) || question_give_up(set, question);
    pthread_mutex_unlock(&question->lock);
    nxr_asking_end(&question->asking);
    pthread_cond_destroy(&question->has_ended);
    pthread_mutex_destroy(&question->lock);
    return is_in_time;
}

int nxr_object_status(int error)
{
    switch (error) {
    case 0:
        return NIXL_OK;
    case ENOENT:
        return NIXL_E_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return NIXL_E_ACCESS;
    case ENOMEM:
        return NIXL_E_NO_MEMORY;
    case ECANCELED:
        return NIXL_E_CANCELED;
    default:
        return NIXL_E_STORAGE;
    }
}

/* ---- calls about one object ------------------------------------------------------------------ */

static int question_fail(const struct nxr_object_set *set, const struct nxr_object_io *io,
                         bool is_in_time, struct nxr_object_answer *answer)
{
    int status = is_in_time ? nxr_object_status(io->error) : NIXL_E_TIMEOUT;

    answer->error = io->error;
    snprintf(answer->why, sizeof(answer->why), "%.100s: object '%.80s': %.199s", set->label,
             io->key, is_in_time ? io->why : "no answer in time");
    return status;
}

static int ask_one(const struct nxr_memory *memory, uint64_t object, enum nxr_object_action action,
                   int64_t timeout_ns, struct object_question *question, char *key,
                   struct nxr_object_answer *answer)
{
    struct nxr_object_set *set = nxr_object_set_of(memory->range);
    bool is_in_time;

    answer->error = 0;
    if (object >= set->n_objects) {
        snprintf(answer->why, sizeof(answer->why), "object %llu of %llu",
                 (unsigned long long)object, (unsigned long long)set->n_objects);
        return NIXL_E_RANGE;
    }
    if (action == NXR_OBJECT_DELETE && set->is_read_only) {
        snprintf(answer->why, sizeof(answer->why), "the region is open for reading only");
        return NIXL_E_ACCESS;
    }
    nxr_object_key(set, object, key);
    question->io = (struct nxr_object_io){.action = action, .key = key};
    is_in_time = nxr_object_ask(set, question, timeout_ns);
    return is_in_time && question->io.error == 0
               ? NIXL_OK
               : question_fail(set, &question->io, is_in_time, answer);
}

static void info_fill(const struct nxr_object_set *set, uint64_t object, const char *key,
                      const struct nxr_object_found *found, struct nixl_object_info *info)
{
    info->object = object;
    info->nbytes = found->nbytes;
    info->modified = found->modified;
    snprintf(info->etag, sizeof(info->etag), "%s", found->etag);
    snprintf(info->key, sizeof(info->key), "%s", set->is_single ? key : key + strlen(set->prefix));
}

int nxr_objects_stat(const struct nxr_memory *memory, uint64_t object, int64_t timeout_ns,
                     struct nixl_object_info *info, struct nxr_object_answer *answer)
{
    struct object_question question;
    char key[NXR_OBJECT_KEY_MAX + 1];
    int status = ask_one(memory, object, NXR_OBJECT_HEAD, timeout_ns, &question, key, answer);

    if (status == NIXL_OK) {
        info_fill(nxr_object_set_of(memory->range), object, key, &question.io.found, info);
    }
    return status;
}

int nxr_objects_delete(const struct nxr_memory *memory, uint64_t object, int64_t timeout_ns,
                       struct nxr_object_answer *answer)
{
    struct object_question question;
    char key[NXR_OBJECT_KEY_MAX + 1];

    return ask_one(memory, object, NXR_OBJECT_DELETE, timeout_ns, &question, key, answer);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool listing_add(struct nxr_object_io *io, const char *key,
                        const struct nxr_object_found *found)
{
    struct object_listing *listing = nxr_list_entry(io, struct object_question, io)->arg;
    struct object_listed *listed = malloc(sizeof(*listed) + strlen(key) + 1);

    if (listed == NULL) {
        listing->is_short = true;
        return false;
    }
    listed->next = NULL;
    listed->found = *found;
    memcpy(listed->key, key, strlen(key) + 1);
    *listing->end = listed;
    listing->end = &listed->next;
    return true;
}

void nxr_object_listing_free(struct object_listing *listing)
{
    while (listing->first != NULL) {
        struct object_listed *listed = listing->first;

        listing->first = listed->next;
        free(listed);
    }
}

bool nxr_object_ask_list(const struct nxr_object_set *set, const char *after, int64_t timeout_ns,
                         struct object_question *question, struct object_listing *listing)
{
    char from[2 * NXR_OBJECT_KEY_MAX + 2];

    *listing = (struct object_listing){.first = NULL, .end = &listing->first};
    snprintf(from, sizeof(from), "%s%s", set->is_single ? "" : set->prefix,
             after != NULL ? after : "");
    question->arg = listing;
    question->io = (struct nxr_object_io){.action = NXR_OBJECT_LIST,
                                          .key = set->prefix,
                                          .after = after != NULL ? from : NULL,
                                          .each = listing_add};
    return nxr_object_ask(set, question, timeout_ns);
}

/* Hand over what was found. */
static int listing_hand_over(const struct nxr_object_set *set, const struct object_listing *listing,
                             nixl_object_list_fn *each, void *arg)
{
    const struct object_listed *listed;
    int status = NIXL_OK;

    for (listed = listing->first; listed != NULL && status == NIXL_OK; listed = listed->next) {
        struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;

        if (set->is_single || strncmp(listed->key, set->prefix, strlen(set->prefix)) == 0) {
            info_fill(set, nxr_object_of(set, listed->key), listed->key, &listed->found, &info);
            status = each(&info, arg) == 0 ? NIXL_OK : NIXL_E_CANCELED;
        }
    }
    return status;
}

int nxr_objects_list(const struct nxr_memory *memory, const char *after, int64_t timeout_ns,
                     nixl_object_list_fn *each, void *arg, struct nxr_object_answer *answer)
{
    struct nxr_object_set *set = nxr_object_set_of(memory->range);
    struct object_question question;
    struct object_listing listing;
    bool is_in_time = nxr_object_ask_list(set, after, timeout_ns, &question, &listing);
    int status;

    if (listing.is_short) {
        snprintf(answer->why, sizeof(answer->why), "no memory for the list");
        status = NIXL_E_NO_MEMORY;
    } else if (!is_in_time || question.io.error != 0) {
        status = question_fail(set, &question.io, is_in_time, answer);
    } else {
        status = listing_hand_over(set, &listing, each, arg);
        snprintf(answer->why, sizeof(answer->why), "each() has ended the list");
    }
    nxr_object_listing_free(&listing);
    return status;
}
