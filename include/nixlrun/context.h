/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/context.h
 * Contexts: components of one process that do not take each other's notifications and events.
 */
#ifndef NIXLRUN_CONTEXT_H
#define NIXLRUN_CONTEXT_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A component of a program: a library, a connector, a subsystem. Each context has its own queue of
 * notifications, its own copy of every event, its own names of regions and teams, its own
 * completion queues and its own default timeout. Ranks, connections and the service thread are
 * shared by all contexts of the process.
 *
 * Contexts of different processes belong together if they have the same name: what a rank sends in
 * the context "kv" is received in the context "kv" of the other rank. Every call that takes a
 * struct nixl_op works in its `context`; NULL, and all calls without such a struct, mean the
 * default context, which always exists. An operation on a region needs no context of its own: the
 * region has one.
 *
 * (The idea is that of MPI's communicators and OpenSHMEM's contexts, without their ordering.)
 */
struct nixl_context;

struct nixl_context_params {
    size_t struct_nbytes;
    int64_t timeout_ns; /**< of operations in it that give none; 0: NIXLRUN_OP_TIMEOUT */
};
#define NIXL_CONTEXT_PARAMS_INIT                                                                   \
    {                                                                                              \
        sizeof(struct nixl_context_params), 0                                                      \
    }

/**
 * Open the context of a name. Notifications that arrived for it before are there.
 *
 * @param name       1 .. NIXL_NAME_MAX bytes, the same in all processes of the component
 * @param params     NULL for the defaults; its timeout is not for waits for notifications, events
 *                   and signals, which have no limit if the call gives none
 * @param context_p  the handle, to be closed with nixl_context_close()
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG  the name is NULL, empty or too long; a negative timeout
 * @return NIXL_E_NAME_IN_USE  this process has an open context of that name: another component, or
 *                             this one twice
 * @return NIXL_E_NO_MEMORY    also if more than 1024 names were used since nixl_init()
 * @return NIXL_E_NOT_INIT
 * Collective: no. Threads: any.
 */
NIXL_API int nixl_context_open(const char *name, const struct nixl_context_params *params,
                               struct nixl_context **context_p) NIXL_MUST_CHECK;

/**
 * Close a context: its notifications and events are dropped. Regions and teams that were made in it
 * stay until they are closed or freed. The last nixl_finalize() closes all contexts.
 * @return NIXL_OK
 * @return NIXL_E_IN_USE       it has an open completion queue
 * @return NIXL_E_INVALID_ARG  no open context; the default one cannot be closed
 * Threads: any, but no other call may use the handle.
 */
NIXL_API int nixl_context_close(struct nixl_context *context);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_CONTEXT_H */
