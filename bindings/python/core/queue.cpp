/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: what ended, was notified or was lost, in one call. */
#include "context.h"
#include "request.h"

namespace nx
{

constexpr size_t BATCH = 64;

/* What drain() returns: three tuples. */
struct Drained {
    nb::tuple done, notes, events;
};

static nb::object *nothing; /* the Drained without anything */

struct nixl_cq *Queue::handle() const
{
    if (is_closed()) {
        fail_closed(what());
    }
    return cq;
}

Queue::~Queue()
{
    CountedUnderGil counted;

    if (cq != nullptr && is_of_this_life() && !is_forked() && started.empty()) {
        (void)nixl_cq_close(cq);
    }
}

void Queue::wake()
{
    static const uint64_t raised = 1; /* a signal that the queue reports at once */
    struct nixl_op op = NIXL_OP_INIT;

    op.cq = cq;
    if ((is_waiting || is_armed) && !is_woken) {
        is_woken =
            nixl_signal_wait_x(&raised, NIXL_COMPARE_EQ, raised, &op, nullptr) == NIXL_INPROGRESS;
    }
}

static void queue_open(Queue *queue, nb::object context, bool notes, bool events,
                       bool reports_ended)
{
    struct nixl_cq_params params = NIXL_CQ_PARAMS_INIT;
    struct nixl_cq *cq;

    params.context = nb::cast<Context &>(context).handle();
    params.flags = (notes ? NIXL_CQ_NOTES : 0) | (events ? NIXL_CQ_EVENTS : 0);
    check(nixl_cq_open(&params, &cq));
    new (queue) Queue();
    queue->cq = cq;
    queue->context = context;
    queue->reports_ended = reports_ended;
}

/* The request that an entry is about has ended; None: it is not one of this queue. */
static nb::object queue_ended(Queue *queue, const struct nixl_cq_entry &entry)
{
    auto found = queue->started.find(entry.user_data);

    if (found == queue->started.end()) {
        return nb::none();
    }
    nb::object object = found->second;
    Request *request = nb::cast<Request *>(object);

    queue->started.erase(found);
    if (entry.kind == NIXL_CQ_SIGNAL) {
        request->operation->value = entry.value;
    }
    request->end(entry.status, entry.status < 0
                                   ? plain_detail(entry.status, entry.rank, request->name)
                                   : Detail());
    return object;
}

static nb::object note_of(const struct nixl_cq_entry &entry)
{
    return nb::cast(Note{entry.rank, entry.value, nb::bytes((const char *)entry.data, entry.nbytes),
                         entry.status == NIXL_E_STALE});
}

static nb::object event_of(const struct nixl_cq_entry &entry)
{
    return nb::cast(Event{(int)entry.value, entry.rank,
                          std::string(entry.data == nullptr ? "" : (const char *)entry.data,
                                      entry.data == nullptr ? 0 : entry.nbytes),
                          (uint32_t)entry.user_data});
}

struct Lists {
    nb::list done, notes, events;
};

static void queue_take(Queue *queue, const struct nixl_cq_entry *entries, size_t nentries,
                       Lists *lists)
{
    for (size_t i = 0; i < nentries; i++) {
        if (entries[i].kind == NIXL_CQ_NOTE) {
            lists->notes.append(note_of(entries[i]));
        } else if (entries[i].kind == NIXL_CQ_EVENT) {
            lists->events.append(event_of(entries[i]));
        } else if (entries[i].user_data == 0) {
            queue->is_woken = false;
        } else {
            nb::object request = queue_ended(queue, entries[i]);

            if (!request.is_none()) {
                lists->done.append(request);
            }
        }
    }
}

/* One thread at a time may take from a queue. */
struct QueueWaiting {
    Queue *queue;
    explicit QueueWaiting(Queue *taken) : queue(taken)
    {
        if (queue->is_waiting) {
            fail_value("another thread waits for this queue");
        }
        queue->is_waiting = true;
        queue->is_armed = false;
    }
    ~QueueWaiting()
    {
        queue->is_waiting = false;
    }
};

/* Take what there is, behind the first `n` entries. */
static nb::object queue_take_all(Queue &queue, struct nixl_cq_entry *entries, size_t n, size_t max)
{
    Lists lists;
    size_t taken = 0;
    std::vector<nb::object> ended;

    ended.swap(queue.ended); /* meanwhile more may end */
    for (nb::object &request : ended) {
        lists.done.append(request);
    }
    while (n > 0) {
        queue_take(&queue, entries, n, &lists);
        taken += n;
        if ((n < BATCH || taken >= max) && !queue.is_woken) {
            break; /* that was all; no later drain is woken in vain */
        }
        n = 0;
        const int status = nixl_cq_wait(queue.cq, entries, BATCH, 0, &n);
        if (status < 0) {
            fail(status);
        }
    }
    return nb::cast(
        Drained{nb::tuple(lists.done), nb::tuple(lists.notes), nb::tuple(lists.events)});
}

static nb::object queue_drain(Queue &queue, nb::handle timeout, nb::handle most)
{
    struct nixl_cq_entry entries[BATCH];
    Use use(&queue);
    struct nixl_cq *cq = queue.cq;
    const int64_t timeout_ns = read_timeout(timeout);
    const uint64_t max = read_u64(most, "max");
    QueueWaiting waiting(&queue);
    size_t n = 0;
    int status = nixl_cq_wait(cq, entries, BATCH, 0, &n);

    if (status == NIXL_INPROGRESS && queue.ended.empty()) {
        if (timeout_ns == 0) {
            return *nothing;
        }
        status = wait_in_slices(
            timeout_ns, [&](int64_t ns) { return nixl_cq_wait(cq, entries, BATCH, ns, &n); });
    }
    if (status < 0) {
        fail(status);
    }
    return queue_take_all(queue, entries, n, max);
}

/* As drain(), but for a short time, after which it returns without anything, too. */
static nb::object queue_spin(Queue &queue, nb::handle seconds)
{
    struct nixl_cq_entry entries[BATCH];
    Use use(&queue);
    struct nixl_cq *cq = queue.cq;
    const int64_t spin_ns = read_timeout(seconds);
    QueueWaiting waiting(&queue);
    size_t n = 0;
    int status = nixl_cq_wait(cq, entries, BATCH, 0, &n);

    if (status == NIXL_INPROGRESS && queue.ended.empty()) {
        Unlocked unlocked;

        status = nixl_cq_wait(cq, entries, BATCH, spin_ns, &n);
    }
    if (status < 0 && status != NIXL_E_TIMEOUT) {
        fail(status);
    }
    return n == 0 && queue.ended.empty() ? *nothing : queue_take_all(queue, entries, n, SIZE_MAX);
}

static int queue_fileno(Queue &queue)
{
    int fd = nixl_cq_fd(queue.handle());

    if (fd < 0) {
        fail(fd);
    }
    return fd;
}

static bool queue_arm(Queue &queue)
{
    int status;

    if (!queue.ended.empty()) {
        return false;
    }
    (void)queue_fileno(queue); /* makes the descriptor that is armed */
    status = nixl_cq_arm(queue.handle());
    if (status < 0) {
        fail(status);
    }
    queue.is_armed = status == NIXL_OK;
    return queue.is_armed;
}

/* Cancel what is in progress, and take its ends, so that no memory is used any more. */
static void queue_end_all(Queue *queue, int64_t timeout_ns, Lists *lists)
{
    for (auto &entry : queue->started) {
        check(nixl_cq_cancel(queue->cq, entry.first));
    }
    while (!queue->started.empty()) {
        struct nixl_cq_entry entries[BATCH];
        size_t n = 0;
        int status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            return nixl_cq_wait(queue->cq, entries, BATCH, ns, &n);
        });

        if (status == NIXL_INPROGRESS) {
            fail(plain_detail(NIXL_E_TIMEOUT, -1, "nixl_cq_close"));
        }
        check(status);
        queue_take(queue, entries, n, lists);
    }
}

static void queue_close(Queue &queue, nb::handle timeout)
{
    const int64_t timeout_ns = read_timeout(timeout);
    Lists lists;

    if (queue.users.is_closed() || queue.made != life) {
        std::unordered_map<uint64_t, nb::object> dropped;

        dropped.swap(queue.started); /* giving up an object may call Python */
        return;
    }
    QueueWaiting waiting(&queue);
    Closing closing(&queue); /* nothing is started with it any more */
    try {
        queue_end_all(&queue, timeout_ns, &lists);
        check(nixl_cq_close(queue.cq));
    } catch (...) { /* it stays open: what has ended is reported by the next drain */
        for (nb::handle request : lists.done) {
            queue.ended.push_back(nb::borrow(request));
        }
        throw;
    }
    closing.done();
    queue.cq = nullptr;
}

/* Not what is in progress, which holds memory until it has ended. */
static int queue_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
        Queue *queue = nb::inst_ptr<Queue>(self);

        Py_VISIT(queue->context.ptr());
        for (const nb::object &request : queue->ended) {
            Py_VISIT(request.ptr());
        }
    }
    return 0;
}

/* The context stays: its own dictionary is what refers to the queue. */
static int queue_clear(PyObject *self)
{
    std::vector<nb::object> ended;

    ended.swap(nb::inst_ptr<Queue>(self)->ended); /* giving up an object may call Python */
    return 0;
}

static PyType_Slot queue_slots[] = {
    {Py_tp_traverse, (void *)queue_traverse},
    {Py_tp_clear, (void *)queue_clear},
    {0, nullptr},
};

void bind_queue(nb::module_ &module)
{
    nb::class_<Drained> drained(
        module, "Drained",
        R"(What drain() has taken: requests that have ended, notifications and events, each a tuple.

False if all are empty.)");
    nb::class_<Queue> type(
        module, "Queue", nb::type_slots(queue_slots),
        R"(A completion queue; made by Job.queue(). One thread at a time takes from it.

It reports the requests that were started with it, and, if it was opened so, the notifications and
events of its context.)");

    drained.def_ro("done", &Drained::done).def_ro("notes", &Drained::notes);
    drained.def_ro("events", &Drained::events);
    drained.def("__bool__", [](const Drained &self) {
        return self.done.size() + self.notes.size() + self.events.size() > 0;
    });
    drained.def("__repr__", [](const Drained &self) {
        return std::string("Drained(done=") + nb::repr(self.done).c_str() +
               ", notes=" + nb::repr(self.notes).c_str() +
               ", events=" + nb::repr(self.events).c_str() + ")";
    });
    nothing = new nb::object(
        nb::cast(Drained{nb::tuple(nb::list()), nb::tuple(nb::list()), nb::tuple(nb::list())}));
    type.def("__init__", &queue_open, "context"_a, nb::kw_only(), "notes"_a = false,
             "events"_a = false, "reports_ended"_a = true);
    type.def("drain", &queue_drain, "timeout"_a.none() = nb::object(nb::int_(0)),
             "max"_a = nb::object(nb::int_(1024)), guarded,
             R"(Everything that ended, was notified or was lost since the last call, as a Drained.

By default at once: with a timeout it waits for the first of it, and then raises TimedOutError if
there is nothing. Takes about ``max`` entries. What has ended within its start is reported, too.)");
    type.def("_spin", &queue_spin, "seconds"_a, guarded);
    type.def(
        "arm", &queue_arm, guarded,
        R"(Say that the caller is about to sleep on fileno(). True: sleep; False: drain() first.)");
    type.def("fileno", &queue_fileno, guarded,
             R"(A descriptor for select, epoll and event loops. Neither read nor close it.

It becomes readable when there is something to drain, if arm() was called since it was last
readable.)");
    type.def("close", &queue_close, "timeout"_a.none() = nb::borrow(default_timeout), guarded,
             "Cancel what it would report, wait until no byte moves any more, and close it.");
    type.def_prop_ro(
        "pending", [](const Queue &queue) { return queue.started.size(); }, guarded);
    type.def_prop_ro("is_closed", [](const Queue &queue) { return queue.is_closed(); });
}

} // namespace nx
