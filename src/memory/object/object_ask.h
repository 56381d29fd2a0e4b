/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a thread waits for. */
#ifndef NXR_MEMORY_OBJECT_OBJECT_ASK_H
#define NXR_MEMORY_OBJECT_OBJECT_ASK_H

#include "memory/object/object.h"

struct object_question {
    struct nxr_object_io io; /* action, key and what else it needs: filled in by the caller */
    pthread_mutex_t lock;
    pthread_cond_t has_ended;
    bool is_over;
    atomic_bool is_canceled;
    void *arg; /* the caller's */
};

/*
 * Have a request answered. io->error and io->why are the outcome. False: it was given up after
 * `timeout_ns`.
 */
bool nxr_object_ask(struct nxr_object_store *store, struct object_question *question,
                    int64_t timeout_ns);

/* NIXL_OK, or what an errno of a request is. */
int nxr_object_status(int error);

#endif
