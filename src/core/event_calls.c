/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that take events. No lock. */
#include "config.h"

#include "core/event.h"
#include "core/form.h"
#include "core/trace.h"
#include "core/wait.h"
#include "util/status.h"
#include "util/struct.h"

#include <stdlib.h>
#include <string.h>

static int event_recv(const char *operation, struct nixl_context *context, int64_t timeout_ns,
                      struct nixl_event *event_p)
{
    static const struct nxr_struct_type type = NXR_STRUCT_TYPE(nixl_event, NIXL_EVENT_INIT, rank);
    struct nixl_event ours = NIXL_EVENT_INIT;
    struct nxr_event *event;
    int64_t deadline = nxr_deadline(timeout_ns);
    int status = nxr_struct_check(operation, "event_p", &type, event_p);

    if (status != NIXL_OK) {
        return status;
    }
    do {
        status = nxr_wait_as(
            nxr_event_is_queued, context, nxr_left(timeout_ns, deadline), nxr_describe_reason,
            &(const struct nxr_reason){.kind = NXR_WAIT_EVENT, .peer = -1, .call = operation});
        if (status == NIXL_E_TIMEOUT) {
            return nxr_fail(status, operation, -1, "", 0, "no event within %s",
                            nxr_duration(timeout_ns).text);
        }
        if (status != NIXL_OK) {
            return status;
        }
        event = nxr_event_take(context); /* another thread may have taken it */
    } while (event == NULL);
    ours.type = event->type;
    ours.rank = event->rank;
    ours.incarnation = event->incarnation;
    memcpy(ours.name, event->name, strlen(event->name) + 1);
    free(event);
    nxr_struct_write(&type, &ours, event_p);
    return NIXL_OK;
}

static int call_event_recv(int64_t timeout_ns, struct nixl_event *event_p)
{
    static const char operation[] = "nixl_event_recv";
    int status = nxr_check_ready(operation);

    if (status != NIXL_OK) {
        return status;
    }
    return timeout_ns < 0 ? nxr_fail_timeout(operation, -1, timeout_ns)
                          : event_recv(operation, &nxr_context_default, timeout_ns, event_p);
}

int nixl_event_recv(int64_t timeout_ns, struct nixl_event *event_p)
{
    return NXR_TRACED(NXR_TRACE_WAIT, "nixl_event_recv", -1, 0, 0,
                      call_event_recv(timeout_ns, event_p));
}

int nixl_event_recv_x(const struct nixl_op *op, struct nixl_event *event_p)
{
    static const char operation[] = "nixl_event_recv_x";
    struct nxr_form form;
    int status = nxr_form_read(operation, op, 0, NIXL_FOREVER, &form);

    return status == NIXL_OK ? event_recv(operation, form.context, form.timeout_ns, event_p)
                             : status;
}
