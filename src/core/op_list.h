/* SPDX-License-Identifier: Apache-2.0 */
/* A list of operations, oldest first, linked by their `next`. The caller does the locking. */
#ifndef NXR_CORE_OP_LIST_H
#define NXR_CORE_OP_LIST_H

#include "transports/transport.h"

struct nxr_op_list {
    struct nxr_op *first, *last;
};

static inline void nxr_op_list_append(struct nxr_op_list *list, struct nxr_op *op)
{
    op->next = NULL;
    if (list->first == NULL) {
        list->first = op;
    } else {
        list->last->next = op;
    }
    list->last = op;
}

static inline bool nxr_op_list_has(const struct nxr_op_list *list, const struct nxr_op *op)
{
    const struct nxr_op *member = list->first;

    while (member != NULL && member != op) {
        member = member->next;
    }
    return member != NULL;
}

/* `op` must be a member. */
static inline void nxr_op_list_remove(struct nxr_op_list *list, struct nxr_op *op)
{
    struct nxr_op **link = &list->first, *before = NULL;

    while (*link != op) {
        before = *link;
        link = &(*link)->next;
    }
    *link = op->next;
    if (list->last == op) {
        list->last = before;
    }
    op->next = NULL;
}

static inline struct nxr_op *nxr_op_list_pop(struct nxr_op_list *list)
{
    struct nxr_op *op = list->first;

    if (op != NULL) {
        nxr_op_list_remove(list, op);
    }
    return op;
}

#endif
