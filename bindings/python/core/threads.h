/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of several threads, with the GIL and in a free-threaded Python, which has none.
 *
 * What the module knows of requests, queues, transfers, channels and teams is guarded by one lock:
 * the GIL, or else a critical section that a function takes as its call_guard (Locked). Both are
 * released by Unlocked, and wherever Python may run other code; a comment about the GIL means
 * either. Calls on the data path (put, get, notify, recv, signals) take no lock. They touch only
 * what does not change while an object is open, the counts here, and objects of their own.
 *
 * Invariants. A handle of the library is used within a Use of its object; closing an object is
 * refused while there are others. Each call is counted while another thread could end the job
 * (Counted), and nixl_finalize() comes when there is none, after `is_leaving` was set, by which a
 * Use fails. The one who closes or leaves sets its mark and then reads the count, the others count
 * and then read the mark; so one of the two sees the other.
 */
#ifndef NIXLRUN_PYTHON_THREADS_H
#define NIXLRUN_PYTHON_THREADS_H

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace nx
{

/* Changed by calls that take no lock. */
#ifdef NB_FREE_THREADED
template <typename T> using Shared = std::atomic<T>;
#else
template <typename T> using Shared = T;
#endif

/* ---- the job --------------------------------------------------------------------------------- */

extern Shared<uint64_t> life;   /* grows when nixl_finalize() frees all handles */
extern Shared<bool> is_leaving; /* the last job is being closed: calls that begin fail */

/* Threads that are in a call; several share a counter, but few a line of the cache. */
struct alignas(64) CallCounter {
    std::atomic<size_t> n{0};
};
struct CallDepth {
    size_t depth = 0;
    CallCounter *counter = nullptr;
    void begin();
    void end();
};
inline thread_local CallDepth call_depth; /* of this thread */
size_t calls_in_progress();

/*
 * Let no call begin any more, and wait for those in progress; false: they take too long, and calls
 * may begin again, unless the program exits.
 */
bool leave_begin(bool is_exit);
/* A thread that outlives the program: no failure, it never returns, as Python has it. */
void stay_at_exit();
void leave_end(bool has_left);

class Counted
{
  public:
    Counted()
    {
        if (call_depth.depth++ == 0) {
            call_depth.begin();
        }
    }
    ~Counted()
    {
        if (--call_depth.depth == 0) {
            call_depth.end();
        }
    }
    Counted(const Counted &) = delete;
};

/* Without the GIL, as long as it lives. */
class Unlocked
{
    Counted counted;
    nanobind::gil_scoped_release released;
};

/* ---- the lock of the module ------------------------------------------------------------------ */

#ifdef NB_FREE_THREADED
extern PyObject *module_lock;

/* The lock of the module, as long as it lives. */
class Locked
{
    nanobind::ft_object_guard guard{nanobind::handle(module_lock)};
};
using CountedUnderGil = Counted;
#else
class Locked
{
  public:
    Locked()
    {
    } /* the GIL */
};
struct CountedUnderGil {
    CountedUnderGil()
    {
    } /* nobody else runs before an Unlocked */
};
#endif

/* A function that changes what the module knows. */
constexpr nanobind::call_guard<Locked> guarded;

/* ---- objects --------------------------------------------------------------------------------- */

/* How many calls and views use an object; none, once it is closed. */
class Users
{
  public:
    bool enter()
    {
        if (__builtin_expect((n += 1) & CLOSED, 0)) {
            n -= 1;
            return false;
        }
        return true;
    }
    void leave()
    {
        n -= 1;
    }
    size_t count() const
    {
        return n & ~CLOSED;
    }
    bool is_closed() const
    {
        return (n & CLOSED) != 0;
    }
    /* False: there are users, or it is closed. */
    bool close()
    {
        size_t none = 0;
#ifdef NB_FREE_THREADED
        return n.compare_exchange_strong(none, CLOSED);
#else
        return n == none ? (n = CLOSED, true) : false;
#endif
    }
    void reopen()
    {
        n -= CLOSED;
    }

  private:
    static constexpr size_t CLOSED = (size_t)1 << 63;
    Shared<size_t> n{0};
};

/* What an object that owns a handle derives from. */
struct Handle {
    uint64_t made = life;
    Users users;

    bool is_of_this_life() const
    {
        return made == life && !is_leaving;
    }
    bool is_closed() const
    {
        return users.is_closed() || !is_of_this_life();
    }
};

[[noreturn]] void fail_closed(const std::string &what);
[[noreturn]] void fail_used(const std::string &what, size_t n); /* InUseError */

/* Keeps an object open as long as it lives, which is not longer than the object. ClosedError. */
class Hold
{
  public:
    Hold() = default;
    template <typename Of> explicit Hold(Of *object)
    {
        begin(object);
    }
    Hold(Hold &&other) noexcept : held(std::exchange(other.held, nullptr))
    {
    }
    Hold(const Hold &) = delete;
    ~Hold()
    {
        if (held != nullptr) {
            held->users.leave();
        }
    }
    template <typename Of> void begin(Of *object)
    {
        if (__builtin_expect(!object->users.enter(), 0)) {
            fail_closed(object->what());
        }
        if (__builtin_expect(!object->is_of_this_life(), 0)) {
            object->users.leave();
            fail_closed(object->what());
        }
        held = object;
    }

  private:
    Handle *held = nullptr;
};

/* A call that uses an object: its handle stays. */
class Use : CountedUnderGil, public Hold
{
  public:
    Use() = default;
    using Hold::Hold;
    Use(Use &&other) noexcept : Hold(std::move(other))
    {
    }
};

/* Closing an object: nobody uses it any more. It is open again unless it was done(). */
class Closing
{
  public:
    /* Calls and views that are to be ended first: an InUseError, or a BufferError of fail_used(). */
    template <typename Of> explicit Closing(Of *object) : closed(object)
    {
        if (!object->users.close()) {
            closed = nullptr;
            if (!object->users.is_closed()) {
                object->fail_used();
            }
        } else if (is_leaving && object->made == life) {
            object->users.reopen();
            fail_closed("the job"); /* which needs the memory of what is in progress */
        }
    }
    ~Closing()
    {
        if (closed != nullptr) {
            closed->users.reopen();
        }
    }
    Closing(const Closing &) = delete;
    /* False: it was closed before, or another thread does. */
    bool is_mine() const
    {
        return closed != nullptr;
    }
    void done()
    {
        closed = nullptr;
    }

  private:
    CountedUnderGil counted;
    Handle *closed;
};

} // namespace nx

#endif
