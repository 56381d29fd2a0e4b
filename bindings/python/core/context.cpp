/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: notifications and events, sent and received. */
#include "context.h"
#include "request.h"

namespace nx
{

const char *Event::type_name() const
{
    switch (type) {
    case NIXL_EVENT_PEER_LOST:
        return "peer_lost";
    case NIXL_EVENT_REGION_CLOSED:
        return "region_closed";
    case NIXL_EVENT_LAUNCHER_LOST:
        return "launcher_lost";
    case NIXL_EVENT_PEER_LEFT:
        return "peer_left";
    case NIXL_EVENT_PEER_JOINED:
        return "peer_joined";
    default:
        return "other";
    }
}

static void context_open(Context *context, const std::string &name, nb::handle timeout)
{
    struct nixl_context_params params = NIXL_CONTEXT_PARAMS_INIT;
    struct nixl_context *handle;

    if (name.find('\0') != std::string::npos) {
        fail_value("name has a zero byte");
    }
    params.timeout_ns = timeout.ptr() == default_timeout ? 0 : read_timeout(timeout);
    check(nixl_context_open(name.c_str(), &params, &handle));
    new (context) Context();
    context->context = handle;
    context->name = name;
}

static void context_close(Context *context)
{
    if (context->context == nullptr) { /* the job, whose calls nixl_finalize() waits for */
        context->is_left = true;
        return;
    }
    Closing closing(context);

    if (!closing.is_mine()) {
        return;
    }
    if (context->is_of_this_life()) {
        check(nixl_context_close(context->context));
    }
    closing.done();
}

static void context_notify(Context &context, nb::handle rank, nb::handle tag, nb::handle message,
                           nb::handle timeout)
{
    struct nixl_op op = NIXL_OP_INIT;
    const int target = read_rank(rank);
    const int64_t timeout_ns = read_timeout(timeout);
    Use use(&context);
    Memory payload;
    int status;

    op.context = context.handle();
    op.tag = read_u64(tag, "tag");
    if (!message.is_none()) {
        payload = read_host_memory(message, "msg");
    }
    op.timeout_ns = NIXL_AT_ONCE;
    status = nixl_notify_x(target, op.tag, payload.addr, payload.nbytes, &op, nullptr);
    if (status == NIXL_E_AGAIN && timeout_ns != 0) {
        status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            op.timeout_ns = ns;
            return nixl_notify_x(target, op.tag, payload.addr, payload.nbytes, &op, nullptr);
        });
    }
    check(status);
}

/* Never waits: what cannot be sent yet is kept by the library, up to a limit. */
static void context_post(Context &context, nb::handle rank, nb::handle tag, nb::handle message)
{
    struct nixl_op op = NIXL_OP_INIT;
    const int target = read_rank(rank);
    const uint64_t number = read_u64(tag, "tag");
    struct nixl_req *none = nullptr;
    Use use(&context);
    Memory payload;

    op.context = context.handle();
    if (!message.is_none()) {
        payload = read_host_memory(message, "msg");
    }
    check(nixl_notify_x(target, number, payload.addr, payload.nbytes, &op, &none));
}

/* The note that was received with this status, or raise; StaleError has the note. */
static nb::object note_object(const struct nixl_note &note, int status)
{
    Detail detail = status < 0 ? last_detail(status) : Detail();

    if (status != NIXL_OK && status != NIXL_E_STALE) {
        fail(detail);
    }
    nb::object received =
        nb::cast(Note{note.rank, note.tag, nb::bytes((const char *)note.payload, note.nbytes),
                      status == NIXL_E_STALE});
    if (status == NIXL_E_STALE) {
        nb::object error = exception_of(detail);

        error.attr("note") = received;
        PyErr_SetObject((PyObject *)Py_TYPE(error.ptr()), error.ptr());
        throw nb::python_error();
    }
    return received;
}

static nb::object context_recv(Context &context, nb::handle rank, nb::handle tag, nb::handle mask,
                               int64_t timeout_ns)
{
    struct nixl_op op = NIXL_OP_INIT;
    const int sender = rank.is_none() ? NIXL_ANY_RANK : read_rank(rank);
    const uint64_t wanted = tag.is_none() ? 0 : read_u64(tag, "tag");
    const uint64_t bits = tag.is_none() ? 0 : mask.is_none() ? UINT64_MAX : read_u64(mask, "mask");
    Use use(&context);
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    op.context = context.handle();
    op.timeout_ns = NIXL_AT_ONCE;
    status = nixl_notify_recv_x(sender, wanted, bits, &op, &note);
    if (status == NIXL_INPROGRESS && timeout_ns != 0) {
        status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            op.timeout_ns = ns;
            return nixl_notify_recv_x(sender, wanted, bits, &op, &note);
        });
    }
    if (status == NIXL_INPROGRESS) {
        return nb::none();
    }
    return note_object(note, status);
}

static nb::object context_event(Context &context, int64_t timeout_ns)
{
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_event event = NIXL_EVENT_INIT;
    Use use(&context);
    int status;

    op.context = context.handle();
    status = wait_in_slices(timeout_ns, [&](int64_t ns) {
        op.timeout_ns = op_timeout(ns);
        return nixl_event_recv_x(&op, &event);
    });
    if (status == NIXL_INPROGRESS) {
        return nb::none();
    }
    check(status);
    return nb::cast(Event{event.type, event.rank, event.name, event.incarnation});
}

static void context_flush(Context &context, nb::handle rank, bool with_gets, bool durable,
                          nb::handle timeout)
{
    struct nixl_op op = NIXL_OP_INIT;
    const int target = rank.is_none() ? NIXL_ALL_RANKS : read_rank(rank);
    const int64_t timeout_ns = read_timeout(timeout);
    Use use(&context);

    op.context = context.handle();
    op.flags = (with_gets ? NIXL_OP_GETS : 0) | (durable ? NIXL_OP_DURABLE : 0);
    run(timeout_ns, 0, {},
        [&](struct nixl_req **req_p) { return nixl_flush_x(target, nullptr, &op, req_p); });
    requests_reap();
}

static nb::object context_start_flush(Context &context, nb::handle rank, bool with_gets,
                                      bool durable, nb::handle queue, nb::handle data)
{
    const int target = rank.is_none() ? NIXL_ALL_RANKS : read_rank(rank);
    Use use(&context);
    Start start;

    start.set_queue(queue, data);
    start.set_context(context.handle());
    start.op.flags |= with_gets ? NIXL_OP_GETS : 0;
    start.set_durable(durable);
    start.is_plain = false;
    return start_request("nixl_flush_x", &start, 0, new Request,
                         [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *) {
                             return nixl_flush_x(target, nullptr, op, req_p);
                         });
}

static void bind_received(nb::module_ &module)
{
    nb::class_<Note> note(
        module, "Note",
        R"(A notification that was received: ``rank`` (the sender), ``tag``, ``payload`` (bytes).

``is_stale``: a put that the sender had made before did not arrive.)");

    note.def_ro("rank", &Note::rank).def_ro("tag", &Note::tag).def_ro("payload", &Note::payload);
    note.def_ro("is_stale", &Note::is_stale);
    note.def("__repr__", [](const Note &self) {
        return "Note(rank=" + std::to_string(self.rank) + ", tag=" + std::to_string(self.tag) +
               ", payload=" + nb::repr(self.payload).c_str() +
               (self.is_stale ? ", is_stale=True)" : ")");
    });
    nb::class_<Event> event(
        module, "Event",
        R"(What happened: ``type`` ("peer_lost", "peer_left", "peer_joined", "region_closed",
"launcher_lost"), ``rank``, ``name`` of the region or publication, or "", and ``incarnation``: how many processes
the rank has had in its job before.)");
    event.def_prop_ro("type", &Event::type_name).def_ro("rank", &Event::rank);
    event.def_prop_ro("name", [](const Event &self) { return make_text(self.name); });
    event.def_ro("incarnation", &Event::incarnation);
    event.def("__repr__", [](const Event &self) {
        return std::string("Event(type='") + self.type_name() +
               "', rank=" + std::to_string(self.rank) +
               ", name=" + nb::repr(make_text(self.name)).c_str() + ")";
    });
}

static void bind_receiving(nb::class_<Context> &type)
{
    nb::object none = nb::none();

    type.def(
        "recv",
        [](Context &context, nb::handle rank, nb::handle tag, nb::handle mask, nb::handle timeout) {
            return must_find(context_recv(context, rank, tag, mask, read_timeout(timeout)),
                             "nixl_notify_recv_x");
        },
        "rank"_a.none() = none, "tag"_a.none() = none, "mask"_a.none() = none,
        "timeout"_a.none() = none,
        R"(Receive the oldest notification that matches; waits for it. Others stay queued.

All puts that its sender made before it are visible then.

Args:
    rank: the sender; None: any.
    tag, mask: compared in the bits that are set in mask, by default all; tag None: any.
    timeout: seconds; None: no limit.

Raises:
    PeerLostError: rank has died or left, and all that it had sent was received; with any rank once
        for each such rank.
    StaleError: it arrived, as the ``note`` of the exception, but a put before it did not.
    LimitError: more that do not match are queued than NIXLRUN_NOTE_QUEUE allows.
    TimedOutError.)");
    type.def(
        "try_recv",
        [](Context &context, nb::handle rank, nb::handle tag, nb::handle mask) {
            return context_recv(context, rank, tag, mask, 0);
        },
        "rank"_a.none() = none, "tag"_a.none() = none, "mask"_a.none() = none,
        "As recv(), but None instead of waiting.");
    type.def(
        "event",
        [](Context &context, nb::handle timeout) {
            return must_find(context_event(context, read_timeout(timeout)), "nixl_event_recv_x");
        },
        "timeout"_a.none() = none,
        "Take the oldest event of a peer or region; waits for it. Each goes to one call only.");
    type.def(
        "try_event", [](Context &context) { return context_event(context, 0); },
        "As event(), but None instead of waiting.");
}

void bind_context(nb::module_ &module)
{
    nb::class_<Context> type(module, "Context");
    nb::object none = nb::none();
    nb::object usual = nb::borrow(default_timeout);

    bind_received(module);
    type.def("__init__", [](Context *context) { new (context) Context(); });
    type.def("__init__", &context_open, "name"_a, "timeout"_a.none() = usual);
    type.def("_close", &context_close);
    type.def_prop_ro("is_closed", [](const Context &context) { return context.is_closed(); });
    type.def("notify", &context_notify, "rank"_a.none(), "tag"_a.none(), "msg"_a.none() = none,
             "timeout"_a.none() = usual,
             R"(Send a rank a tag and up to NOTE_MAX bytes, behind all earlier puts to it.

Delivered once, and in order for each sender and receiver; a full queue makes the call wait.

Args:
    tag: 0 to 2**64 - 1.
    msg: bytes or any buffer; it is copied.

Raises:
    PeerLostError, TimedOutError (nothing was sent), StaleError (an earlier put was dropped),
    InvalidArgumentError (more than NOTE_MAX bytes).)");
    type.def("_post", &context_post, "rank"_a, "tag"_a, "msg"_a.none() = none);
    bind_receiving(type);
    type.def("flush", &context_flush, "rank"_a.none() = none, nb::kw_only(), "gets"_a = false,
             "durable"_a = false, "timeout"_a.none() = usual,
             R"(Wait until all earlier puts to a rank (None: to all) are visible.

This includes puts whose requests were dropped. ``gets``: and until all earlier gets have filled
their memory. ``durable``: and until all that was put into files there is on the medium.

Raises:
    StaleError: a put was dropped, since its region had been closed; or the failure of a dropped
    request. PeerLostError, TimedOutError.)");
    type.def("start_flush", &context_start_flush, "rank"_a.none() = none, nb::kw_only(),
             "gets"_a = false, "durable"_a = false, "queue"_a.none() = none, "data"_a.none() = none,
             guarded, "Start a flush(); returns a Request.");
    hide(type, {"notify", "recv", "try_recv", "event", "try_event", "flush"});
}

} // namespace nx
