/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all calls of the extended form share: reading struct nixl_op, and deciding who hears of the
 * end of what was started. No lock.
 */
#ifndef NXR_CORE_FORM_H
#define NXR_CORE_FORM_H

#include "core/context.h"
#include "core/request.h"

/*
 * A struct nixl_op that was read and checked, for the time of the call: `op` may be the caller's
 * own. A form is never copied, because `op` may point into it.
 */
struct nxr_form {
    const struct nixl_op *op;
    struct nixl_context *context;
    int64_t timeout_ns;  /* how long a call that waits may wait; 0: it only tests */
    struct nixl_op copy; /* of a caller whose struct has another size; else not written */
};

static inline bool nxr_form_has(const struct nxr_form *form, enum nixl_op_flag flag)
{
    return (form->op->flags & flag) != 0;
}

/*
 * Read the caller's struct; NULL: all zeros. `allowed`: the flags that mean something to the call.
 * default_ns: its timeout if the struct gives none, whatever the context's is; 0: the context's.
 * NIXL_OK, or the failure of `operation`, recorded.
 */
int nxr_form_read(const char *operation, const struct nixl_op *op, uint32_t allowed,
                  int64_t default_ns, struct nxr_form *form);

/* The same for a call that starts something: may it return the request, too? */
int nxr_form_read_start(const char *operation, const struct nixl_op *op, uint32_t allowed,
                        struct nixl_req **req_p, struct nxr_form *form);

/*
 * The call has started something: `status` and, with NIXL_INPROGRESS, the request. Hand it to the
 * caller or to the completion queue, or wait for it. Returns what the call returns.
 */
int nxr_form_end(const char *operation, const struct nxr_form *form, int status,
                 struct nixl_req *req, struct nixl_req **req_p);

/* Does the call return when the operation is started? Else it waits for its end. */
static inline bool nxr_form_is_started(const struct nxr_form *form, struct nixl_req *const *req_p)
{
    return req_p != NULL || form->op->cq != NULL;
}

/* Does a call only start something? Then there is no form to read, and it ends as below. */
static inline bool nxr_form_is_plain(const struct nixl_op *op, struct nixl_req *const *req_p)
{
    return __builtin_expect(op == NULL && req_p != NULL, 1);
}

/*
 * The same of one that asks for these flags besides, and else for nothing: what the flags need is
 * in `op` itself.
 */
static inline bool nxr_form_is_plain_but(const struct nixl_op *op, struct nixl_req *const *req_p,
                                         uint32_t flags)
{
    return op != NULL && req_p != NULL && op->struct_nbytes == sizeof(*op) && op->flags == flags &&
           op->context == NULL && op->cq == NULL && op->timeout_ns == 0;
}

/* nxr_form_end() of such a call. */
static inline int nxr_form_end_plain(int status, struct nixl_req *req, struct nixl_req **req_p)
{
    if (__builtin_expect(status == NIXL_INPROGRESS, 0)) {
        nxr_request_leave();
    }
    if (status >= 0) {
        *req_p = status == NIXL_INPROGRESS ? req : NULL;
    }
    return status;
}

/* The call cannot do what a flag asks for. */
int nxr_form_refuse(const char *operation, int rank, const char *flag, const char *why);

#endif
