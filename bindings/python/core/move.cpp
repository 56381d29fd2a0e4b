/* SPDX-License-Identifier: Apache-2.0 */
/* Put and get: methods of regions. */
#include "region.h"
#include "request.h"
#include "usual.h"

#include <climits>

namespace nx
{

/* ---- put and get ----------------------------------------------------------------------------- */

static void check_copy(nb::handle tag, nb::handle message)
{
    if (tag.is_none() && !message.is_none()) {
        fail_value("msg needs a tag");
    }
}

static nb::object start_form(Region &region, int rank, uint64_t offset, Memory memory, bool is_put,
                             Start *start)
{
    struct nixl_region *handle = region.handle();
    void *addr = memory.addr;
    const size_t nbytes = memory.nbytes;
    auto request = std::make_unique<Request>();

    request->operation->held.push_back(std::move(memory));
    request->operation->kept = nb::find(region);
    start->object_hold.begin(&region);
    start->set_context(nb::cast<Context &>(region.context).handle());
    start->resolve(region, rank, default_timeout_ns);
    return start_request(is_put ? "nixl_put_x" : "nixl_get_x", start, nbytes, request.release(),
                         [=](const struct nixl_op *op, struct nixl_req **req_p, Operation *) {
                             return is_put
                                        ? nixl_put_x(rank, handle, offset, addr, nbytes, op, req_p)
                                        : nixl_get_x(rank, handle, offset, addr, nbytes, op, req_p);
                         });
}

/* With a stream the call returns when the copy is queued. */
static void put_form(Region &region, int rank, uint64_t offset, Memory *memory, bool is_put,
                     Start *start, int64_t timeout_ns)
{
    struct nixl_region *handle = region.handle();
    const bool is_queued = (start->op.flags & NIXL_OP_STREAM) != 0;

    if (start->goes_aside() && !is_queued) {
        nb::object started = start_form(region, rank, offset, std::move(*memory), is_put, start);

        (void)request_finish(*nb::inst_ptr<Request>(started), timeout_ns);
        return;
    }

    start->resolve(region, rank, timeout_ns);
    run(timeout_ns, start->weight(memory->nbytes), {memory, &start->message},
        [&](struct nixl_req **req_p) {
            struct nixl_req **out = is_queued ? nullptr : req_p;

            return is_put ? nixl_put_x(rank, handle, offset, memory->addr, memory->nbytes,
                                       &start->op, out)
                          : nixl_get_x(rank, handle, offset, memory->addr, memory->nbytes,
                                       &start->op, out);
        });
}

static void region_put(Region &region, nb::handle rank, nb::handle source, nb::handle offset,
                       nb::handle tag, nb::handle message, nb::handle signal, nb::handle stream,
                       nb::handle grant, bool durable, nb::handle timeout)
{
    Use use(&region);
    struct nixl_region *handle = region.region;
    const int target = read_rank(rank);
    const uint64_t at = read_u64(offset, "offset");
    const int64_t timeout_ns = read_timeout(timeout);
    Memory memory(source, false);

    if (__builtin_expect(tag.is_none() && signal.is_none() && stream.is_none() && grant.is_none() &&
                             !durable,
                         1)) {
        check_copy(tag, message);
        run(timeout_ns, memory.nbytes, {&memory}, [&](struct nixl_req **req_p) {
            return nixl_put_x(target, handle, at, memory.addr, memory.nbytes, nullptr, req_p);
        });
        return;
    }
    Start start;
    start.set_context(nb::cast<Context &>(region.context).handle());
    start.set_note(tag, message);
    start.set_signal(signal);
    start.set_stream(stream);
    start.set_grant(grant, target);
    start.set_durable(durable);
    put_form(region, target, at, &memory, true, &start, timeout_ns);
}

static void region_get(Region &region, nb::handle rank, nb::handle destination, nb::handle offset,
                       nb::handle tag, nb::handle message, nb::handle stream, nb::handle grant,
                       nb::handle timeout)
{
    Use use(&region);
    struct nixl_region *handle = region.region;
    const int owner = read_rank(rank);
    const uint64_t at = read_u64(offset, "offset");
    const int64_t timeout_ns = read_timeout(timeout);
    Memory memory(destination, true);

    if (__builtin_expect(tag.is_none() && stream.is_none() && grant.is_none(), 1)) {
        check_copy(tag, message);
        run(timeout_ns, memory.nbytes, {&memory}, [&](struct nixl_req **req_p) {
            return nixl_get_x(owner, handle, at, memory.addr, memory.nbytes, nullptr, req_p);
        });
        return;
    }
    Start start;
    start.set_context(nb::cast<Context &>(region.context).handle());
    start.set_note(tag, message);
    start.set_stream(stream);
    start.set_grant(grant, owner);
    put_form(region, owner, at, &memory, false, &start, timeout_ns);
}

static nb::object region_start(Region &region, bool is_put, int rank, nb::handle memory,
                               nb::handle offset, Start *start)
{
    Use use(&region);
    const uint64_t at = read_u64(offset, "offset");

    return start_form(region, rank, at, Memory(memory, !is_put), is_put, start);
}

static nb::object region_start_put(Region &region, nb::handle rank, nb::handle source,
                                   nb::handle offset, nb::handle tag, nb::handle message,
                                   nb::handle signal, nb::handle stream, nb::handle grant,
                                   bool durable, nb::handle queue, nb::handle data)
{
    const int peer = read_rank(rank);
    Start start;

    start.set_queue(queue, data);
    start.set_note(tag, message);
    start.set_signal(signal);
    start.set_stream(stream);
    start.set_grant(grant, peer);
    start.set_durable(durable);
    return region_start(region, true, peer, source, offset, &start);
}

static nb::object region_start_get(Region &region, nb::handle rank, nb::handle destination,
                                   nb::handle offset, nb::handle tag, nb::handle message,
                                   nb::handle stream, nb::handle grant, nb::handle queue,
                                   nb::handle data)
{
    const int peer = read_rank(rank);
    Start start;

    start.set_queue(queue, data);
    start.set_note(tag, message);
    start.set_stream(stream);
    start.set_grant(grant, peer);
    return region_start(region, false, peer, destination, offset, &start);
}

/* ---- the usual form -------------------------------------------------------------------------- */

static PyObject *general_put, *general_get; /* as nanobind calls them */

/* A whole number from 0 to `most`; -1: something else. */
static inline int64_t small_number(PyObject *number, long most)
{
    int overflow = 0;
    long value = PyLong_Check(number) ? PyLong_AsLongAndOverflow(number, &overflow) : -1;

    return overflow == 0 && value >= 0 && value <= most ? value : -1;
}

/* put(rank, src[, offset]) and get(rank, dst[, offset]) of buffers, without keywords. */
template <bool IS_PUT>
static PyObject *region_move(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *names)
{
    PyObject *general = IS_PUT ? general_put : general_get;
    int64_t rank = -1, offset = 0;

    if (names == nullptr && (nargs == 2 || nargs == 3)) {
        rank = small_number(args[0], INT32_MAX);
        offset = nargs == 3 ? small_number(args[2], LONG_MAX) : 0;
    }
    Memory memory;
    if (__builtin_expect(rank < 0 || offset < 0 || !nb::inst_ready(self) ||
                             !memory.take_buffer(args[1], !IS_PUT),
                         0)) {
        return call_general(general, self, args, nargs, names);
    }
    return call_usual([&] {
        Region *region = nb::inst_ptr<Region>(self);
        Use use(region);
        struct nixl_region *handle = region->region;

        run(default_timeout_ns, memory.nbytes, {&memory}, [&](struct nixl_req **req_p) {
            return IS_PUT ? nixl_put_x((int)rank, handle, (uint64_t)offset, memory.addr,
                                       memory.nbytes, nullptr, req_p)
                          : nixl_get_x((int)rank, handle, (uint64_t)offset, memory.addr,
                                       memory.nbytes, nullptr, req_p);
        });
        return nb::none();
    });
}

static PyMethodDef usual_put = USUAL_METHOD(
    "put", region_move<true>,
    "put($self, rank, src, offset=0, *, tag=None, msg=None, signal=None, stream=None, grant=None, "
    "durable=False, timeout=...)\n--\n\n"
    R"(Copy bytes from local memory into a rank's segment of the region.

The rank makes no call, and may compute. When put() returns, ``src`` may be reused; a notification,
a signal or flush() makes the data visible. An aligned put of 1, 2, 4 or 8 bytes is never torn.

Args:
    rank: 0 <= rank < job.size; may be this one.
    src: any contiguous buffer or tensor, of the host or of a GPU; all of its bytes.
    offset: bytes from the start of the segment.
    tag, msg: a notification to the rank behind the data, with up to NOTE_MAX bytes.
    signal: Signal.adding() or Signal.setting(): what happens to a signal behind the data.
    stream: a CUDA stream; the copy is queued on it, and the call returns at once.
    durable: into a file: the put ends, and what follows it comes, when its bytes are on the medium;
        into objects: when all that the region has begun to collect is in the store.
    timeout: seconds; then the put is canceled.

Raises:
    RangeError: offset + bytes is outside of the segment; nothing moved.
    AccessError: the rank does not allow it; nothing moved.
    NotFoundError: the rank did not publish the name within NIXLRUN_RESOLVE_TIMEOUT.
    StaleError: the owner has closed the region; Region.info() finds its successor.
    PeerLostError: the rank has died; how much arrived is unknown.
    TimedOutError, UnsupportedError, BufferError.)");

static PyMethodDef usual_get =
    USUAL_METHOD("get", region_move<false>,
                 "get($self, rank, dst, offset=0, *, tag=None, msg=None, stream=None, grant=None, "
                 "timeout=...)\n--\n\n"
                 R"(Copy bytes from a rank's segment of the region into local memory.

When get() returns, ``dst``, a writable buffer or tensor, holds the data; its size says how many
bytes. A notification of tag and msg goes to the rank after its last byte was read. A get may
overtake an earlier put to the same rank unless flush() is called between them. Arguments and
failures are those of put(); after a failure dst may hold some of the data.)");

/* ---- the methods ----------------------------------------------------------------------------- */

void bind_moves(nb::class_<Region> &type)
{
    nb::object none = nb::none();
    nb::object usual = nb::borrow(default_timeout);
    nb::object zero = nb::int_(0);

    type.def("put", &region_put, "rank"_a.none(), "src"_a.none(), "offset"_a.none() = zero,
             nb::kw_only(), "tag"_a.none() = none, "msg"_a.none() = none, "signal"_a.none() = none,
             "stream"_a.none() = none, "grant"_a.none() = none, "durable"_a = false,
             "timeout"_a.none() = usual);
    type.def("get", &region_get, "rank"_a.none(), "dst"_a.none(), "offset"_a.none() = zero,
             nb::kw_only(), "tag"_a.none() = none, "msg"_a.none() = none, "stream"_a.none() = none,
             "grant"_a.none() = none, "timeout"_a.none() = usual);
    bind_usual(type, &usual_put, &general_put);
    bind_usual(type, &usual_get, &general_get);
    hide(type, {"put", "get"});
    type.def("start_put", &region_start_put, "rank"_a.none(), "src"_a.none(),
             "offset"_a.none() = zero, nb::kw_only(), "tag"_a.none() = none, "msg"_a.none() = none,
             "signal"_a.none() = none, "stream"_a.none() = none, "grant"_a.none() = none,
             "durable"_a = false, "queue"_a.none() = none, "data"_a.none() = none, guarded,
             R"(Start a put; returns a Request. ``src`` must not change until it has ended.

Up to 128 KiB are copied within the call on one host. ``queue``: the queue that reports the end;
None: Request.wait(). ``data``: any object, which the request carries. Otherwise as put().)");
    type.def("start_get", &region_start_get, "rank"_a.none(), "dst"_a.none(),
             "offset"_a.none() = zero, nb::kw_only(), "tag"_a.none() = none, "msg"_a.none() = none,
             "stream"_a.none() = none, "grant"_a.none() = none, "queue"_a.none() = none,
             "data"_a.none() = none, guarded,
             R"(Start a get; returns a Request. ``dst`` must not be touched until it has ended.

Otherwise as get() and start_put().)");
}

} // namespace nx
