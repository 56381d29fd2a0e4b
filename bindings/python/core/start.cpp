/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an operation is started: what keyword arguments say, as struct nixl_op has it; and what is
 * waited for before, since the library would wait for it within its call.
 */
#include "region.h"
#include "request.h"

namespace nx
{

void Start::set_queue(nb::handle object, nb::handle user)
{
    data = nb::borrow(user);
    if (object.is_none()) {
        return;
    }
    queue_object = nb::borrow(object);
    if (!nb::isinstance<Queue>(object)) {
        fail_type("queue must be a Queue, not " + type_text(object));
    }
    queue = nb::cast<Queue *>(object);
    queue_use.begin(queue);
    op.cq = queue->handle();
    op.user_data = queue->next_id++;
    is_plain = false;
}

void Start::set_context(struct nixl_context *context)
{
    if (context != nullptr) {
        op.context = context;
        is_plain = false;
    }
}

void Start::set_note(nb::handle tag, nb::handle text)
{
    if (tag.is_none()) {
        if (!text.is_none()) {
            fail_value("msg needs a tag");
        }
        return;
    }
    op.flags |= NIXL_OP_NOTE;
    op.tag = read_u64(tag, "tag");
    if (!text.is_none()) {
        message = read_host_memory(text, "msg");
        op.msg = message.addr;
        op.msg_nbytes = message.nbytes;
    }
    is_plain = false;
}

void Start::set_signal(nb::handle signal)
{
    static const char *const ops[] = {"add", "set", nullptr}; /* as enum nixl_signal_op */

    if (signal.is_none()) {
        return;
    }
    if (!nb::isinstance<nb::tuple>(signal) || nb::len(signal) != 4 ||
        !nb::isinstance<Region>(signal[0]) || !nb::isinstance<nb::str>(signal[3])) {
        fail_type("signal must be what Signal.adding() or Signal.setting() gives");
    }
    nb::tuple parts = nb::cast<nb::tuple>(signal);
    op.flags |= NIXL_OP_SIGNAL;
    signal_region = nb::cast<Region *>(parts[0]);
    signal_use.begin(signal_region);
    op.signal_region = signal_region->region;
    op.signal_offset = read_u64(parts[1], "the offset of the signal");
    op.signal_value = read_u64(parts[2], "the value of the signal");
    op.signal_op = read_word(nb::cast<const char *>(parts[3]), ops, "op");
    is_plain = false;
}

void Start::set_grant(nb::handle token, int rank)
{
    if (token.is_none()) {
        return;
    }
    grant = read_text(token, "grant");
    op.flags |= NIXL_OP_GRANT;
    op.grant = grant.c_str();
    token_rank = rank;
    is_plain = false;
}

void Start::set_durable(bool is_durable)
{
    if (is_durable) {
        op.flags |= NIXL_OP_DURABLE;
        is_plain = false;
    }
}

void Start::set_stream(nb::handle stream)
{
    if (!stream.is_none()) {
        op.flags |= NIXL_OP_STREAM;
        op.stream = read_stream(stream);
        is_plain = false;
    }
}

void Start::resolve(const Region &region, int rank, int64_t timeout_ns) const
{
    if (signal_region != nullptr) {
        segment_resolve(*signal_region, rank, timeout_ns);
    }
    if ((op.flags & NIXL_OP_STREAM) != 0) {
        segment_resolve(region, rank, timeout_ns);
    }
}

bool segment_is_known(const Region &region, int rank)
{
    return region.name.empty() || (region.addr != nullptr && rank == nixl_rank()) ||
           nixl_region_is_published(rank, region.region, 0) == NIXL_OK;
}

void segment_resolve(const Region &region, int rank, int64_t timeout_ns)
{
    struct nixl_region *handle = region.region;
    static char nothing;

    if (segment_is_known(region, rank)) {
        return;
    }
    try { /* unlike what waits within its call, a get has a request, also for the segment */
        run(timeout_ns, 0, {}, [&](struct nixl_req **req_p) {
            return nixl_get_x(rank, handle, 0, &nothing, 0, nullptr, req_p);
        });
    } catch (nb::python_error &error) {
        const int status = nb::cast<int>(nb::getattr(error.value(), "status", nb::int_(0)));

        if (status == NIXL_E_NOT_FOUND) {
            Detail detail = plain_detail(status, rank, "nixl_region_query");

            detail.text = "rank " + std::to_string(rank) + " has not published " + region.what() +
                          " within NIXLRUN_RESOLVE_TIMEOUT";
            fail(detail);
        }
        if (status != NIXL_E_ACCESS) {
            throw;
        }
    }
}

} // namespace nx
