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
    (int64_t)5 * 1000 * 1000 * 1000; /* copies in flight end in that time, if the peer answers */
constexpr int64_t HURRY_NS =
    20 * 1000 * 1000; /* a signal, or the end of the job, waits no longer */

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

/* Is it the time of the call that is over, and not what a signal handler has raised? */
static bool is_timeout(const nb::python_error &error)
{
    return error.matches(nb::module_::import_("nixlrun._errors").attr("TimedOutError"));
}

/*
 * Cancel a request that is not waited for to its end: because of a signal, or of a timeout, after
 * which a signal ends this wait, too. What has not ended then goes on.
 */
static void req_give_up(struct nixl_req **req_p, bool is_timeout)
{
    const int64_t end = now_ns() + CANCEL_NS;
    int status;

    do {
        {
            Unlocked unlocked;
            status = nixl_req_cancel(req_p, is_timeout ? SHORT_SLICE_NS : HURRY_NS, nullptr);
        }
        if (is_timeout) {
            check_signals();
        }
    } while (is_timeout && status == NIXL_E_TIMEOUT && now_ns() < end);
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

/* The operation of a caller that does not wait for it any more. */
static void give_up(std::unique_ptr<Operation> operation, bool is_timeout)
{
    struct nixl_req **req_p = &operation->req;

    try {
        req_give_up(req_p, is_timeout);
    } catch (...) {
        orphans_add(std::move(operation));
        throw;
    }
    if (*req_p != nullptr) {
        orphans_add(std::move(operation));
    }
}

void run_slow(std::unique_ptr<Operation> operation, int64_t timeout_ns)
{
    int outcome = NIXL_OK;
    int status;

    try {
        status = req_wait(&operation->req, timeout_ns, &outcome);
    } catch (const nb::python_error &error) {
        give_up(std::move(operation), is_timeout(error));
        throw;
    }
    if (status == NIXL_INPROGRESS) {
        give_up(std::move(operation), true);
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
    } catch (const nb::python_error &error) {
        if (request.status != NIXL_INPROGRESS || request.is_waiting || !request.is_of_this_life()) {
            throw;
        }
        request.is_waiting = true;
        try {
            req_give_up(&request.operation->req, is_timeout(error));
        } catch (...) {
            request.is_waiting = false;
            throw;
        }
        request.is_waiting = false;
        if (request.operation->req == nullptr) {
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
