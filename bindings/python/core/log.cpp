/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's log lines, for the logging module. The sink may be called by any thread, also by
 * one that the holder of the GIL waits for, so it never takes the GIL: it queues the line, and a
 * thread of Python takes it from here.
 */
#include "core.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace nx
{

constexpr size_t MAX_LINES = 10000;

struct Line {
    int level;
    std::string subsystem, text;
};

/* These outlive the process's exit, as threads of the library do. */
static auto &lock = *new std::mutex;
static auto &changed = *new std::condition_variable;
static auto &lines = *new std::deque<Line>;
static size_t nlost;
static bool is_stopped = true;

static void sink(enum nixl_log_level level, const char *subsystem, const char *text, void *)
{
    std::lock_guard<std::mutex> guard(lock);

    if (lines.size() == MAX_LINES) {
        nlost++;
        return;
    }
    lines.push_back({level, subsystem, text});
    changed.notify_one();
}

static void log_start()
{
    {
        std::lock_guard<std::mutex> guard(lock);
        is_stopped = false;
    }
    nixl_log_set_fn(sink, nullptr);
}

/* Lines that come later go to stderr again. */
static void log_stop()
{
    nixl_log_set_fn(nullptr, nullptr);
    std::lock_guard<std::mutex> guard(lock);
    is_stopped = true;
    changed.notify_all();
}

/* Wait for lines: (level, subsystem, text). None: stopped, and all lines were taken. */
static nb::object log_wait()
{
    std::deque<Line> taken;
    size_t lost;
    nb::list list;

    {
        nb::gil_scoped_release released; /* not Unlocked: no call that closing the job waits for */
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [] { return is_stopped || !lines.empty(); });
        taken.swap(lines);
        lost = nlost;
        nlost = 0;
    }
    for (const Line &line : taken) {
        list.append(
            nb::make_tuple(line.level, line.subsystem,
                           nb::steal(PyUnicode_DecodeUTF8(
                               line.text.data(), (Py_ssize_t)line.text.size(), "replace"))));
    }
    if (lost > 0) {
        list.append(
            nb::make_tuple((int)NIXL_LOG_WARN, "log", std::to_string(lost) + " lines were lost"));
    }
    return list.size() == 0 ? nb::none() : nb::object(list);
}

void bind_log(nb::module_ &module)
{
    module.def("log_start", &log_start);
    module.def("log_stop", &log_stop);
    module.def("log_wait", &log_wait);
}

} // namespace nx
