/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that a public call waits for, and that nixl_question_cancel() ends: to stores of
 * objects, and to the owners of grants. Each is on the stack of the thread that asks.
 */
#ifndef NXR_CORE_ASKING_H
#define NXR_CORE_ASKING_H

#include "util/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct nxr_asking {
    struct nxr_list link;
    pid_t thread;
    atomic_bool is_canceled;
    void (*wake)(struct nxr_asking *asking); /* have the thread look at it; takes leaf locks only */
};

/* The calling thread asks from now on, until it has called the other one. */
void nxr_asking_begin(struct nxr_asking *asking, void (*wake)(struct nxr_asking *asking));
void nxr_asking_end(struct nxr_asking *asking);

static inline bool nxr_asking_is_canceled(const struct nxr_asking *asking)
{
    return atomic_load_explicit(&asking->is_canceled, memory_order_acquire);
}

#endif
