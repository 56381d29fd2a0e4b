/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and ending calls of the extended form; form.h says what they share. No lock. */
#include "config.h"

#include "core/form.h"
#include "core/cq.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/struct.h"

#define ALL_FLAGS                                                                                  \
    (NIXL_OP_NOTE | NIXL_OP_SIGNAL | NIXL_OP_STREAM | NIXL_OP_RANK | NIXL_OP_GETS |                \
     NIXL_OP_GRANT | NIXL_OP_DURABLE | NIXL_OP_PREPARE | NIXL_OP_KEEP)

int nxr_form_refuse(const char *operation, int rank, const char *flag, const char *why)
{
    return nxr_fail(NIXL_E_UNSUPPORTED, operation, rank, "", 0, "%s: %s; see nixl_op(3)", flag,
                    why);
}

static const char *flag_name(uint32_t flags)
{
    return (flags & NIXL_OP_NOTE) != 0      ? "NIXL_OP_NOTE"
           : (flags & NIXL_OP_SIGNAL) != 0  ? "NIXL_OP_SIGNAL"
           : (flags & NIXL_OP_STREAM) != 0  ? "NIXL_OP_STREAM"
           : (flags & NIXL_OP_RANK) != 0    ? "NIXL_OP_RANK"
           : (flags & NIXL_OP_GETS) != 0    ? "NIXL_OP_GETS"
           : (flags & NIXL_OP_GRANT) != 0   ? "NIXL_OP_GRANT"
           : (flags & NIXL_OP_DURABLE) != 0 ? "NIXL_OP_DURABLE"
           : (flags & NIXL_OP_PREPARE) != 0 ? "NIXL_OP_PREPARE"
                                            : "NIXL_OP_KEEP";
}

/* Check the fields that mean the same in all calls. */
static int form_check(const char *operation, const struct nixl_op *op, uint32_t allowed)
{
    if ((op->flags & ~(uint32_t)ALL_FLAGS) != 0) {
        return nxr_fail(
            NIXL_E_INVALID_ARG, operation, -1, "", 0,
            "flags %#x; allowed: NIXL_OP_NOTE (%#x), _SIGNAL (%#x), _STREAM (%#x), "
            "_RANK (%#x), _GETS (%#x), _GRANT (%#x), _DURABLE (%#x), _PREPARE (%#x) and "
            "_KEEP (%#x)",
            op->flags, NIXL_OP_NOTE, NIXL_OP_SIGNAL, NIXL_OP_STREAM, NIXL_OP_RANK, NIXL_OP_GETS,
            NIXL_OP_GRANT, NIXL_OP_DURABLE, NIXL_OP_PREPARE, NIXL_OP_KEEP);
    }
    if ((op->flags & ~allowed) != 0) {
        return nxr_form_refuse(operation, -1, flag_name(op->flags & ~allowed),
                               "the call has no use for it");
    }
    if (op->timeout_ns < NIXL_AT_ONCE) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "timeout_ns is %lld; allowed: 0 (the default), NIXL_AT_ONCE (%d), or more "
                        "than 0",
                        (long long)op->timeout_ns, NIXL_AT_ONCE);
    }
    if ((op->flags & NIXL_OP_RANK) != 0 && !nxr_is_rank(op->rank)) {
        return nxr_fail_rank(operation, op->rank);
    }
    return NIXL_OK;
}

int nxr_form_read(const char *operation, const struct nixl_op *op, uint32_t allowed,
                  int64_t default_ns, struct nxr_form *form)
{
    static const struct nxr_struct_type type = NXR_STRUCT_TYPE(nixl_op, NIXL_OP_INIT, signal_op);
    static const struct nixl_op zeros = NIXL_OP_INIT;
    int status = nxr_check_ready(operation);

    form->op = &zeros;
    if (status == NIXL_OK && op != NULL) {
        const void *read = nxr_struct_view(operation, "op", &type, op, &form->copy, &status);

        if (read != NULL) {
            form->op = read;
            status = form_check(operation, read, allowed);
        }
    }
    if (status != NIXL_OK) {
        return status;
    }
    form->context = nxr_context_check(operation, form->op->context);
    if (form->context == NULL) {
        return NIXL_E_INVALID_ARG;
    }
    form->timeout_ns = form->op->timeout_ns == NIXL_AT_ONCE ? 0
                       : form->op->timeout_ns > 0           ? form->op->timeout_ns
                       : default_ns != 0                    ? default_ns
                                                            : nxr_context_timeout(form->context);
    return form->op->cq == NULL || nxr_cq_is_open(form->op->cq)
               ? NIXL_OK
               : nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                          "the completion queue at %p is not open", (void *)form->op->cq);
}

int nxr_form_read_start(const char *operation, const struct nixl_op *op, uint32_t allowed,
                        struct nixl_req **req_p, struct nxr_form *form)
{
    int status = nxr_form_read(operation, op, allowed, 0, form);

    if (status == NIXL_OK && req_p != NULL && form->op->cq != NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "both a request and a completion queue are asked for; allowed: one of "
                        "them");
    }
    return status;
}

int nxr_form_end(const char *operation, const struct nxr_form *form, int status,
                 struct nixl_req *req, struct nixl_req **req_p)
{
    if (status == NIXL_INPROGRESS && req_p == NULL && form->op->cq == NULL) {
        return nxr_request_complete(operation, req, form->timeout_ns);
    }
    if (status == NIXL_INPROGRESS) {
        if (form->op->timeout_ns != 0) {
            nxr_request_expire(req, nxr_deadline(form->timeout_ns));
        }
        if (form->op->cq != NULL) {
            nxr_request_report(req, form->op->cq, form->op->user_data);
            req = NULL;
        }
        nxr_request_leave();
    }
    if (req_p != NULL && status >= 0) {
        *req_p = status == NIXL_INPROGRESS ? req : NULL;
    }
    return status;
}
