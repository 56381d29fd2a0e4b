/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a thread waits for. */
#ifndef NXR_MEMORY_OBJECT_OBJECT_ASK_H
#define NXR_MEMORY_OBJECT_OBJECT_ASK_H

#include "core/asking.h"
#include "memory/object/object.h"

struct object_question {
    struct nxr_object_io io; /* action, key and what else it needs: filled in by the caller */
    pthread_mutex_t lock;
    pthread_cond_t has_ended;
    bool is_over;
    atomic_bool is_canceled;  /* for the engine */
    struct nxr_asking asking; /* nixl_question_cancel() ends it */
    void *arg;                /* the caller's */
};

/*
 * Have a request answered. io->error and io->why are the outcome; ECANCELED: that of
 * nixl_question_cancel(). False: it was given up after `timeout_ns`.
 */
bool nxr_object_ask(const struct nxr_object_set *set, struct object_question *question,
                    int64_t timeout_ns);

/* NIXL_OK, or what an errno of a request is. */
int nxr_object_status(int error);

/*
 * What a store has, in its order: those whose keys begin with the prefix of the set, from behind
 * the key `after` on. The question has the outcome, and this the list, as far as it came.
 */
struct object_listed {
    struct object_listed *next;
    struct nxr_object_found found;
    char key[];
};
struct object_listing {
    struct object_listed *first, **end;
    bool is_short; /* of memory */
};
bool nxr_object_ask_list(const struct nxr_object_set *set, const char *after, int64_t timeout_ns,
                         struct object_question *question, struct object_listing *listing);
void nxr_object_listing_free(struct object_listing *listing);

#endif
