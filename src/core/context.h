/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: who in this process takes what arrives. A context is identified on the wire by a hash
 * of its name; 0 is the default one.
 *
 * A context is made when it is opened, or when something arrives for it before that, and lives
 * until the last finalize, so that a pointer to one is never dangling. Lock: contexts_lock
 * (context.c) for making, opening and closing; the list is read without it.
 */
#ifndef NXR_CORE_CONTEXT_H
#define NXR_CORE_CONTEXT_H

#include "core/job.h"
#include "util/list.h"
#include "util/symbol.h"

struct nixl_context {
    uint64_t id;                       /* constant */
    struct nixl_context *_Atomic next; /* in the list of all, which only grows */
    atomic_bool is_open;               /* by the program; the default one always is */
    _Atomic unsigned n_queues;         /* its open completion queues */
    _Atomic int64_t timeout_ns;        /* of operations that give none; 0: NIXLRUN_OP_TIMEOUT */
    char name[NIXL_NAME_MAX + 1];      /* "" until it is opened, and of the default one */

    /* core/event.c: events_lock */
    struct nxr_list events;
    _Atomic int n_events;

    /* sync/inbox.c: nxr_inbox_spin to write */
    struct nxr_list notes;
    _Atomic uint64_t queued_nbytes; /* of `notes` */
    _Atomic int n_deaths_told;      /* to receives from any rank */
};

extern NXR_HIDDEN struct nixl_context nxr_context_default;

static inline struct nixl_context *nxr_context_next(const struct nixl_context *context)
{
    return atomic_load_explicit(&context->next, memory_order_acquire);
}

/* Is the default context the only one that anything was ever sent to or opened? */
static inline bool nxr_context_is_alone(void)
{
    return nxr_context_next(&nxr_context_default) == NULL;
}

/* The context of that identity, made if there is none; NULL: no memory. Any thread. */
struct nixl_context *nxr_context_of(uint64_t id);

/*
 * The context that a caller names; NULL means the default one. NULL is returned, and the failure
 * recorded, if it is not open.
 */
struct nixl_context *nxr_context_check(const char *operation, struct nixl_context *context);

/* Its default timeout. */
int64_t nxr_context_timeout(const struct nixl_context *context);

extern const struct nxr_subsystem nxr_context_subsystem;

#endif
