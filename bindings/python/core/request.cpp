/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests. One that is started without a queue has a request of the library; one with a queue is
 * in the queue's table until the queue has reported it.
 */
#include "request.h"
#include "region.h"

#include <mutex>

namespace nx
{

constexpr int64_t CANCEL_NS =
    (int64_t)5 * 1000 * 1000 * 1000; /* copies in flight end in that time */

/*
 * Wait for a request in slices. NIXL_OK: it has ended, as *outcome_p says, which may be a timeout
 * of its own; NIXL_INPROGRESS: a timeout of 0 was not enough.
 */
static int req_wait(struct nixl_req **req_p, int64_t timeout_ns, int *outcome_p)
{
    return wait_in_slices(timeout_ns, [&](int64_t ns) {
        *outcome_p = nixl_req_wait(req_p, ns);
        return *req_p == nullptr ? NIXL_OK : *outcome_p;
    });
}

/*
 * Operations in progress whose Request is gone. They outlive Python. The lock is a leaf: what an
 * operation holds is given up without it, since that may call Python.
 */
static auto &orphans = *new std::vector<std::unique_ptr<Operation>>;
static auto &orphans_lock = *new std::mutex;
static std::atomic<size_t> norphans;
static uint64_t orphans_life;

static void orphans_reap()
{
    std::vector<std::unique_ptr<Operation>> ended;

    if (is_leaving) {
        return; /* nixl_finalize() ends them */
    }
    std::lock_guard<std::mutex> guard(orphans_lock);

    if (orphans_life != life) {
        for (auto &orphan : orphans) {
            orphan->req = nullptr;
        }
        ended.swap(orphans);
        orphans_life = life;
    }
    for (size_t i = orphans.size(); i-- > 0;) {
        if (nixl_req_test(&orphans[i]->req) != NIXL_INPROGRESS) {
            ended.push_back(std::move(orphans[i]));
            orphans.erase(orphans.begin() + (ptrdiff_t)i);
        }
    }
    norphans = orphans.size();
}

void requests_reap()
{
    tokens_reap();
    if (norphans > 0) {
        Counted counted;

        orphans_reap();
    }
}

static void orphans_add(std::unique_ptr<Operation> operation)
{
    orphans_reap();
    std::lock_guard<std::mutex> guard(orphans_lock);

    orphans.push_back(std::move(operation));
    norphans = orphans.size();
}

Request::~Request()
{
    CountedUnderGil counted;

    if (status != NIXL_INPROGRESS || queue != nullptr || operation->req == nullptr) {
        return;
    }
    if (is_forked() || made != life) {
        return;
    }
    if (is_leaving || nixl_req_test(&operation->req) == NIXL_INPROGRESS) {
        orphans_add(std::move(operation));
    }
}

/* ---- starts ---------------------------------------------------------------------------------- */

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

void request_prepare(Request *request, nb::object self, Start *start)
{
    requests_reap();
    request->data = start->data;
    if (start->queue != nullptr) {
        request->queue = start->queue;
        request->queue_object = start->queue_object;
        request->id = start->op.user_data;
        start->queue->started.emplace(request->id, self);
    }
}

void request_started(Request *request, int status, const Detail &detail)
{
    Queue *queue = request->queue;
    nb::object self;

    if (status == NIXL_INPROGRESS) {
        return;
    }
    if (queue != nullptr) {
        self = queue->started[request->id];
        queue->started.erase(request->id);
    }
    request->end(status, detail);
    if (status < 0) {
        fail(detail);
    }
    if (queue != nullptr && queue->reports_ended) {
        queue->ended.push_back(self);
        queue->wake();
    }
}

void run_slow(std::unique_ptr<Operation> operation, int64_t timeout_ns)
{
    int outcome = NIXL_OK;
    int status;

    try {
        status = req_wait(&operation->req, timeout_ns, &outcome);
    } catch (...) {
        int canceled;
        {
            Unlocked unlocked;
            canceled = nixl_req_cancel(&operation->req, CANCEL_NS, nullptr);
        }
        if (canceled != NIXL_OK && operation->req != nullptr) {
            orphans_add(std::move(operation));
        }
        throw;
    }
    if (status == NIXL_INPROGRESS) {
        {
            Unlocked unlocked;
            status = nixl_req_cancel(&operation->req, CANCEL_NS, nullptr);
        }
        if (status != NIXL_OK) {
            orphans_add(std::move(operation));
        }
        fail(plain_detail(NIXL_E_TIMEOUT, -1, ""));
    }
    check(outcome);
}

/* ---- a request of the program ---------------------------------------------------------------- */

void Request::end(int outcome, const Detail &why)
{
    status = outcome;
    detail = why;
    queue = nullptr;
    queue_object.reset();
    operation->held.clear();
    operation->kept.reset();
}

static void request_check(const Request *request)
{
    if (!request->is_of_this_life()) {
        fail_closed("the job of the request");
    }
    if (request->is_waiting) {
        fail_value("another thread waits for this request");
    }
}

/* A failure's detail must be taken before anything else is called. */
static void request_ended(Request *request, int status)
{
    request->end(status, status < 0 ? last_detail(status) : Detail());
}

bool Request::test()
{
    int outcome;

    if (status != NIXL_INPROGRESS) {
        return true;
    }
    request_check(this);
    if (queue != nullptr) {
        return false;
    }
    outcome = nixl_req_test(&operation->req);
    if (outcome != NIXL_INPROGRESS) {
        request_ended(this, outcome);
    }
    return outcome != NIXL_INPROGRESS;
}

nb::object Request::wait(int64_t timeout_ns)
{
    int outcome = NIXL_OK;
    int waited;

    if (status != NIXL_INPROGRESS) {
        return result();
    }
    request_check(this);
    if (queue != nullptr) {
        fail_value("the end of this request is reported by its queue: drain() that");
    }
    is_waiting = true;
    try {
        waited = req_wait(&operation->req, timeout_ns, &outcome);
    } catch (...) {
        is_waiting = false;
        throw;
    }
    is_waiting = false;
    if (waited == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, -1, name));
    }
    request_ended(this, outcome);
    return result();
}

nb::object Request::result()
{
    if (status == NIXL_INPROGRESS) {
        fail_value("the request is in progress");
    }
    if (status != NIXL_OK) {
        fail(detail);
    }
    if (make_team.is_valid()) {
        return make_team(nb::capsule(operation->team, "nixl_team"));
    }
    return value_type >= 0 ? value_object(operation->value, value_type) : nb::none();
}

nb::object request_finish(Request &request, int64_t timeout_ns)
{
    try {
        return request.wait(timeout_ns);
    } catch (...) {
        int status = NIXL_OK;

        if (request.status == NIXL_INPROGRESS && !request.is_waiting && request.is_of_this_life()) {
            request.is_waiting = true;
            {
                Unlocked unlocked;
                status = nixl_req_cancel(&request.operation->req, CANCEL_NS, nullptr);
            }
            request.is_waiting = false;
        }
        if (request.status == NIXL_INPROGRESS && status == NIXL_OK) {
            request.end(NIXL_E_CANCELED, plain_detail(NIXL_E_CANCELED, -1, request.name));
        }
        throw;
    }
}

/* In the order of enum nixl_outcome. */
static const char *request_cancel(Request *request, nb::handle timeout)
{
    static const char *const outcomes[] = {"untouched", "partial", "done"};
    const int64_t timeout_ns = read_timeout(timeout);
    int32_t outcome = NIXL_OUTCOME_DONE;
    int status;

    if (request->status != NIXL_INPROGRESS) {
        return outcomes[NIXL_OUTCOME_DONE];
    }
    request_check(request);
    if (request->queue != nullptr) {
        check(nixl_cq_cancel(request->queue->handle(), request->id));
        return "requested";
    }
    request->is_waiting = true;
    try {
        status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            return nixl_req_cancel(&request->operation->req, ns, &outcome);
        });
    } catch (...) {
        request->is_waiting = false;
        throw;
    }
    request->is_waiting = false;
    if (status == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, -1, "nixl_req_cancel"));
    }
    check(status);
    if (outcome == NIXL_OUTCOME_DONE) {
        request->end(NIXL_OK, Detail());
    } else {
        request->end(NIXL_E_CANCELED, plain_detail(NIXL_E_CANCELED, -1, request->name));
    }
    return outcomes[outcome];
}

static nb::object request_wait_any(nb::sequence requests, nb::handle timeout)
{
    const int64_t timeout_ns = read_timeout(timeout);
    std::vector<Request *> all;
    std::vector<nb::object> kept;
    std::vector<struct nixl_req *> reqs;
    size_t index = 0;
    int outcome = NIXL_OK;
    int status;

    for (nb::handle object : requests) {
        if (!nb::isinstance<Request>(object)) {
            fail_type("requests must be Requests, not " + type_text(object));
        }
        Request *request = nb::cast<Request *>(object);

        if (request->test()) {
            return nb::borrow(object);
        }
        if (request->queue != nullptr) {
            fail_value("the end of a request is reported by its queue: drain() that");
        }
        all.push_back(request);
        kept.push_back(nb::borrow(object));
    }
    if (all.empty()) {
        fail_value("there are no requests");
    }
    for (Request *request : all) {
        request->is_waiting = true;
        reqs.push_back(request->operation->req);
    }
    auto leave = [&] {
        for (size_t i = 0; i < all.size(); i++) {
            all[i]->operation->req = reqs[i];
            all[i]->is_waiting = false;
        }
    };
    try {
        status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            index = SIZE_MAX;
            outcome = nixl_req_wait_any(reqs.data(), reqs.size(), ns, &index);

            /* The outcome of a request may be "timed out", too. */
            return index == SIZE_MAX ? outcome : NIXL_OK;
        });
    } catch (...) {
        leave();
        throw;
    }
    Detail detail = outcome < 0 ? last_detail(outcome) : Detail();
    leave();
    if (status == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, -1, "nixl_req_wait_any"));
    }
    check(status);
    all[index]->end(outcome, detail);
    return kept[index];
}

/* What the program gives as `data` often has the request in turn: only the collector frees both. */
static int request_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Request *request = nb::inst_ptr<Request>(self);

        Py_VISIT(request->data.ptr());
        Py_VISIT(request->make_team.ptr());
    }
    return 0;
}

static int request_clear(PyObject *self)
{
    nb::object data;

    std::swap(nb::inst_ptr<Request>(self)->data, data); /* its end may call Python */
    return 0;
}

static PyType_Slot request_slots[] = {
    {Py_tp_traverse, (void *)request_traverse},
    {Py_tp_clear, (void *)request_clear},
    {0, nullptr},
};

void bind_request(nb::module_ &module)
{
    nb::class_<Request> type(module, "Request", nb::type_slots(request_slots),
                             R"(An operation that was started.

It holds its buffers until it has ended, even if it is dropped. ``data`` is what the caller gave
with the start.)");

    type.def_prop_ro("done", &Request::test, guarded, "Whether it has ended; never waits.");
    type.def(
        "wait",
        [](Request &request, nb::handle timeout) { return request.wait(read_timeout(timeout)); },
        nb::arg("timeout").none() = nb::none(), guarded,
        "Wait until it has ended, and return its result(). TimedOutError leaves it in progress.");
    type.def(
        "_finish",
        [](Request &request, nb::handle timeout) {
            return request_finish(request, read_timeout(timeout));
        },
        "timeout"_a.none(), guarded);
    type.def("result", &Request::result, guarded,
             "What it has given: a word's old value, a team, or None. Raises what has ended it.");
    type.def("cancel", &request_cancel, nb::arg("timeout").none() = nb::handle(default_timeout),
             guarded, R"(Stop it: when the call returns, no byte moves any more.

Returns what had happened: "untouched", "partial" or "done". One that a queue reports gives
"requested": its end comes by the queue.)");
    type.def_prop_rw(
        "data", [](const Request &request) { return request.data; },
        [](Request &request, nb::object data) { std::swap(request.data, data); }, guarded,
        nb::arg("data").none());
    type.def(
        "__repr__",
        [](Request &request) {
            return std::string("<Request ") + request.name + ": " +
                   (request.status == NIXL_INPROGRESS ? "in progress"
                    : request.status == NIXL_OK       ? "done"
                                                      : request.detail.text) +
                   ">";
        },
        guarded);
    module.def("wait_any", &request_wait_any, "requests"_a, nb::arg("timeout").none() = nb::none(),
               guarded);
}

} // namespace nx
