/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls wait: without the GIL, and in slices or aside, so that Ctrl-C ends those of the main
 * thread within 100 ms, and closing the job those of others. How calls are counted.
 */
#include "core.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace nx
{

Shared<uint64_t> life{1};
Shared<bool> is_leaving{false};
Shared<size_t> nviews{0};
Shared<size_t> nslot_views{0};

static Shared<unsigned long> main_thread{0}; /* 0: not asked yet */
static pid_t importer = getpid();

bool is_forked()
{
    return getpid() != importer;
}

bool is_main_thread()
{
    if (main_thread == 0) {
        nb::object thread = nb::module_::import_("threading").attr("main_thread")();

        main_thread = nb::cast<unsigned long>(thread.attr("ident"));
    }
    return PyThread_get_thread_ident() == main_thread;
}

int64_t now_ns()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void check_signals()
{
    if (PyErr_CheckSignals() != 0) {
        throw nb::python_error();
    }
}

/* As the library writes a time. */
static std::string duration(int64_t ns)
{
    const bool is_seconds = ns >= 1000 * 1000 * 1000;
    char text[40];

    snprintf(text, sizeof(text), "%.4g %s", (double)ns / (is_seconds ? 1e9 : 1e6),
             is_seconds ? "s" : "ms");
    return text;
}

void tell_whole_time(Detail *detail, int64_t timeout_ns, int64_t slice_ns)
{
    const std::string slice = duration(slice_ns);
    const size_t at = detail->text.find(slice);

    if (at != std::string::npos) {
        detail->text.replace(at, slice.size(), duration(timeout_ns));
    }
}

void fail_timeout(int64_t timeout_ns, int64_t slice_ns)
{
    Detail detail = last_detail(NIXL_E_TIMEOUT);

    if (slice_ns > 0) {
        tell_whole_time(&detail, timeout_ns, slice_ns);
    }
    fail(detail);
}

/* ---- counting calls -------------------------------------------------------------------------- */

constexpr size_t NCOUNTERS = 64;
static CallCounter counters[NCOUNTERS];
static std::atomic<size_t> next_counter;

void CallDepth::begin()
{
    if (counter == nullptr) {
        counter = &counters[next_counter.fetch_add(1) % NCOUNTERS];
    }
    counter->n.fetch_add(1);
}

void CallDepth::end()
{
    counter->n.fetch_sub(1);
}

size_t calls_in_progress()
{
    size_t n = 0;

    for (const CallCounter &counter : counters) {
        n += counter.n.load();
    }
    return n;
}

static Shared<bool> is_exiting{false};

void stay_at_exit()
{
    if (!is_exiting || is_main_thread()) {
        return;
    }
    nb::gil_scoped_release released;

    if (call_depth.depth > 0) {
        call_depth.end();
    }
    for (;;) {
        pause();
    }
}

/*
 * By which other threads end the waits of one that makes a call for a task (nixlrun/_pump.py). It
 * looks every SHORT_SLICE_NS, where a wait is cut into slices.
 */
struct Cancel {
    std::atomic<bool> is_set{false};
};
static thread_local const Cancel *cancel_of_thread;

static nb::object cancel_run(const Cancel &cancel, nb::callable call)
{
    struct Bound {
        explicit Bound(const Cancel *of)
        {
            cancel_of_thread = of;
        }
        ~Bound()
        {
            cancel_of_thread = nullptr;
        }
    } bound(&cancel);

    return call();
}

int64_t slice_of_thread()
{
    return is_main_thread() || cancel_of_thread != nullptr ? SHORT_SLICE_NS : SLICE_NS;
}

void check_leaving()
{
    if (is_leaving) {
        fail_closed("the job");
    }
    if (cancel_of_thread != nullptr && cancel_of_thread->is_set) {
        fail(plain_detail(NIXL_E_CANCELED, -1, ""));
    }
}

void bind_wait(nb::module_ &module)
{
    nb::class_<Cancel> type(module, "Cancel");

    type.def(nb::init<>());
    type.def("run", &cancel_run, "call"_a);
    type.def("set", [](Cancel &cancel) { cancel.is_set = true; });
    module.def(
        "question_cancel", [](int64_t thread) { (void)nixl_question_cancel(thread); }, "thread"_a);
}

/* Calls that wait look for it every SLICE_NS; others end by themselves. */
constexpr int64_t LEAVE_NS = 4 * SLICE_NS;
constexpr auto LEAVE_PAUSE = std::chrono::microseconds(200);

bool leave_begin(bool is_exit)
{
    const int64_t end = now_ns() + LEAVE_NS;

    (void)is_main_thread(); /* others no longer ask Python */
    is_exiting = is_exit;
    is_leaving = true;
    while (calls_in_progress() > 0 && now_ns() < end) {
        {
            nb::gil_scoped_release released;
            std::this_thread::sleep_for(LEAVE_PAUSE);
        }
        if (PyErr_CheckSignals() != 0) {
            is_leaving = false;
            throw nb::python_error();
        }
    }
    is_leaving = is_exit || calls_in_progress() == 0;
    return is_leaving;
}

void leave_end(bool has_left)
{
    if (has_left) {
        life += 1;
    }
    is_leaving = false;
}

/* ---- calls aside ----------------------------------------------------------------------------- */

struct Aside {
    std::mutex lock;
    std::condition_variable changed;
    bool is_done = false;
    std::atomic<int64_t> thread{0}; /* once it runs */
    CallResult result;
    std::shared_ptr<void> state;
};

static void aside_run(Aside *aside, int (*call)(void *state))
{
    Counted counted;
    aside->thread = syscall(SYS_gettid);
    int status = call(aside->state.get());
    CallResult result = {status, status == NIXL_OK ? Detail() : last_detail(status)};
    std::lock_guard<std::mutex> guard(aside->lock);

    aside->result = std::move(result);
    aside->is_done = true;
    aside->changed.notify_all();
}

std::shared_ptr<Aside> aside_begin(std::shared_ptr<void> state, int (*call)(void *state))
{
    auto aside = std::make_shared<Aside>();

    aside->state = std::move(state);
    if (is_main_thread()) {
        std::thread([aside, call] { aside_run(aside.get(), call); }).detach();
    } else {
        Unlocked unlocked;

        aside_run(aside.get(), call);
    }
    return aside;
}

CallResult aside_wait(const std::shared_ptr<Aside> &aside)
{
    for (;;) {
        {
            Unlocked unlocked;
            std::unique_lock<std::mutex> guard(aside->lock);

            aside->changed.wait_for(guard, std::chrono::nanoseconds(SHORT_SLICE_NS),
                                    [&] { return aside->is_done; });
            if (aside->is_done) {
                return aside->result;
            }
        }
        try {
            check_signals();
        } catch (...) {
            if (aside->thread != 0) {
                (void)nixl_question_cancel(aside->thread);
            }
            throw;
        }
    }
}

bool aside_is_done(const std::shared_ptr<Aside> &aside)
{
    std::lock_guard<std::mutex> guard(aside->lock);

    return aside->is_done;
}

CallResult call_aside(std::shared_ptr<void> state, int (*call)(void *state))
{
    return aside_wait(aside_begin(std::move(state), call));
}

} // namespace nx
