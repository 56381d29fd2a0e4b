/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, finding and closing contexts. Lock: contexts_lock; context.h says what it guards. */
#include "config.h"

#include "core/context.h"
#include "core/subsystem.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CONTEXTS 1024

struct nixl_context nxr_context_default = {
    .is_open = true,
    .events = {&nxr_context_default.events, &nxr_context_default.events},
    .notes = {&nxr_context_default.notes, &nxr_context_default.notes},
};
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_contexts; /* besides the default one; contexts_lock */

static struct nixl_context *context_find(uint64_t id)
{
    struct nixl_context *context = &nxr_context_default;

    while (context != NULL && context->id != id) {
        context = nxr_context_next(context);
    }
    return context;
}

/*
 * Caller holds contexts_lock. A peer can make a context by sending to it: beyond the limit it waits
 * for room, like one whose queue is full.
 */
static struct nixl_context *context_make(uint64_t id)
{
    struct nixl_context *context = n_contexts < MAX_CONTEXTS ? calloc(1, sizeof(*context)) : NULL;

    if (context == NULL) {
        return NULL;
    }
    n_contexts++;
    context->id = id;
    nxr_list_init(&context->events);
    nxr_list_init(&context->notes);
    atomic_init(&context->next, nxr_context_next(&nxr_context_default));
    atomic_store_explicit(&nxr_context_default.next, context, memory_order_release);
    return context;
}

struct nixl_context *nxr_context_of(uint64_t id)
{
    struct nixl_context *context = context_find(id);

    if (__builtin_expect(context == NULL, 0)) {
        pthread_mutex_lock(&contexts_lock);
        context = context_find(id);
        context = context != NULL ? context : context_make(id);
        pthread_mutex_unlock(&contexts_lock);
    }
    return context;
}

struct nixl_context *nxr_context_check(const char *operation, struct nixl_context *context)
{
    struct nixl_context *known = &nxr_context_default;

    if (context == NULL) {
        return known;
    }
    while (known != NULL && known != context) {
        known = nxr_context_next(known);
    }
    if (known == NULL || !atomic_load(&known->is_open)) {
        nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "the context at %p is not open",
                 (void *)context);
        return NULL;
    }
    return known;
}

int64_t nxr_context_timeout(const struct nixl_context *context)
{
    int64_t timeout_ns = atomic_load_explicit(&context->timeout_ns, memory_order_relaxed);

    return timeout_ns != 0 ? timeout_ns : nxr_env.op_timeout;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int context_check_open(const char *operation, const char *name,
                              const struct nixl_context_params *theirs,
                              struct nixl_context_params *params, struct nixl_context **context_p)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_context_params, NIXL_CONTEXT_PARAMS_INIT, timeout_ns);
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (context_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0, "context_p is NULL");
    }
    if (name == NULL || name[0] == '\0' || strnlen(name, NIXL_NAME_MAX + 1) > NIXL_NAME_MAX) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the name is NULL, empty or too long; allowed: 1 to %d bytes",
                        NIXL_NAME_MAX);
    }
    status = theirs != NULL ? nxr_struct_read(operation, "params", &type, theirs, params) : NIXL_OK;
    return status == NIXL_OK && params->timeout_ns < 0
               ? nxr_fail_timeout(operation, -1, params->timeout_ns)
               : status;
}

/* Open it unless it is open. Caller holds contexts_lock. */
static int context_take(struct nixl_context *context, const char *name, int64_t timeout_ns)
{
    if (atomic_load(&context->is_open)) {
        return NIXL_E_NAME_IN_USE;
    }
    memcpy(context->name, name, strlen(name) + 1);
    atomic_store(&context->timeout_ns, timeout_ns);
    atomic_store(&context->is_open, true);
    return NIXL_OK;
}

int nixl_context_open(const char *name, const struct nixl_context_params *params,
                      struct nixl_context **context_p)
{
    static const char operation[] = "nixl_context_open";
    struct nixl_context_params ours = NIXL_CONTEXT_PARAMS_INIT;
    struct nixl_context *context;
    int status = context_check_open(operation, name, params, &ours, context_p);

    if (status != NIXL_OK) {
        return status;
    }
    /* Never 0, which is the default context. */
    context = nxr_context_of(nxr_hash_mix(nxr_hash(name, strlen(name)), 1) | 1);
    if (context == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0,
                        "no memory for a context, or more than %d of them", MAX_CONTEXTS);
    }
    pthread_mutex_lock(&contexts_lock);
    status = context_take(context, name, ours.timeout_ns);
    pthread_mutex_unlock(&contexts_lock);
    if (status == NIXL_OK) {
        nxr_subsystems_context_opened(context);
    }
    if (status != NIXL_OK) {
        return nxr_fail(status, operation, -1, "", 0,
                        "this process has an open context '%s', which is taken for '%s'",
                        context->name, name);
    }
    *context_p = context;
    return NIXL_OK;
}

int nixl_context_close(struct nixl_context *context)
{
    static const char operation[] = "nixl_context_close";
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    if (context == NULL || context == &nxr_context_default) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "the default context cannot be closed");
    }
    if (nxr_context_check(operation, context) == NULL) {
        return NIXL_E_INVALID_ARG;
    }
    if (atomic_load(&context->n_queues) != 0) {
        return nxr_fail(NIXL_E_IN_USE, operation, -1, "", 0,
                        "context '%s' has %u open completion queues", context->name,
                        atomic_load(&context->n_queues));
    }
    atomic_store(&context->is_open, false);
    nxr_subsystems_context_closed(context);
    return NIXL_OK;
}

static void contexts_stop(void)
{
    struct nixl_context *context = nxr_context_next(&nxr_context_default), *next;

    for (; context != NULL; context = next) {
        next = nxr_context_next(context);
        free(context);
    }
    atomic_store(&nxr_context_default.next, NULL);
    n_contexts = 0;
}

const struct nxr_subsystem nxr_context_subsystem = {
    .name = "context",
    .stop = contexts_stop,
};
