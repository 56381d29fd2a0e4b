/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How calls wait: without the GIL, and, in the main thread, in slices or aside, so that Ctrl-C ends
 * them within 100 ms.
 */
#include "core.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace nx
{

uint64_t life = 1;
size_t nviews = 0;

static unsigned long main_thread; /* 0: not asked yet */
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

void fail_timeout(int64_t timeout_ns, bool was_cut)
{
    Detail detail = last_detail(NIXL_E_TIMEOUT);
    const std::string slice = duration(SLICE_NS);
    const size_t at = was_cut ? detail.text.find(slice) : std::string::npos;

    if (at != std::string::npos) {
        detail.text.replace(at, slice.size(), duration(timeout_ns));
    }
    fail(detail);
}

/* ---- calls aside ----------------------------------------------------------------------------- */

struct Aside {
    std::mutex lock;
    std::condition_variable changed;
    bool is_done = false;
    CallResult result;
    std::shared_ptr<void> state;
};

static void aside_run(Aside *aside, int (*call)(void *state))
{
    int status = call(aside->state.get());
    CallResult result = {status, status == NIXL_OK ? Detail() : last_detail(status)};
    std::lock_guard<std::mutex> guard(aside->lock);

    aside->result = std::move(result);
    aside->is_done = true;
    aside->changed.notify_all();
}

CallResult call_aside(std::shared_ptr<void> state, int (*call)(void *state))
{
    auto aside = std::make_shared<Aside>();

    aside->state = std::move(state);
    if (!is_main_thread()) {
        Unlocked unlocked;

        aside_run(aside.get(), call);
        return aside->result;
    }
    std::thread([aside, call] { aside_run(aside.get(), call); }).detach();
    for (;;) {
        {
            Unlocked unlocked;
            std::unique_lock<std::mutex> guard(aside->lock);

            aside->changed.wait_for(guard, std::chrono::nanoseconds(SLICE_NS),
                                    [&] { return aside->is_done; });
            if (aside->is_done) {
                return aside->result;
            }
        }
        check_signals();
    }
}

} // namespace nx
