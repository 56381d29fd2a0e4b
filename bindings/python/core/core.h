/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the extension module share: how arguments are read, how failures become
 * exceptions, and how a call waits. threads.h says how calls of several threads are kept apart.
 *
 * Invariants. A handle of the library is used only within a Use of its owner, which nixl_finalize()
 * and closing wait for or refuse. Memory that an operation uses is held by a Memory object until the
 * operation has ended.
 */
#ifndef NIXLRUN_PYTHON_CORE_H
#define NIXLRUN_PYTHON_CORE_H

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nixlrun.h>

#include "threads.h"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace nx
{

constexpr size_t LOCKED_NBYTES = 4096;               /* copies up to this keep the GIL */
constexpr int64_t SHORT_SLICE_NS = 50 * 1000 * 1000; /* looking for signals, or for Cancel */
constexpr int64_t SLICE_NS = 500 * 1000 * 1000;      /* others look whether the job is closed */

/* ---- failures (error.cpp) -------------------------------------------------------------------- */

/* A copy of nixl_last_error(), which belongs to the thread that failed. */
struct Detail {
    int status = NIXL_OK;
    int rank = -1;
    int native_code = 0;
    std::string operation, transport, text;
};

Detail last_detail(int status);
/* Of a failure that the library has reported without its detail: an entry of a queue. */
Detail plain_detail(int status, int rank, const char *operation);
nb::object exception_of(const Detail &detail);
[[noreturn]] void fail(const Detail &detail);
[[noreturn]] void fail(int status);
[[noreturn]] void fail_type(const std::string &text);
[[noreturn]] void fail_value(const std::string &text);

/* The name of an object's type, for texts of failures. */
inline std::string type_text(nb::handle object)
{
    return nb::cast<std::string>(object.type().attr("__name__"));
}

/* What a call with a timeout of 0 has found; None raises. */
nb::object must_find(nb::object found, const char *operation);

inline void check(int status)
{
    if (__builtin_expect(status != NIXL_OK, 0)) {
        fail(status);
    }
}

/* ---- arguments (argument.cpp) ---------------------------------------------------------------- */

uint64_t read_u64_slow(nb::handle value, const char *name);
int read_int(nb::handle value, const char *name);
uint32_t read_u32(nb::handle value, const char *name);

/* An int, or what has __index__, such as a Rank or an integer of numpy. */
inline int read_rank(nb::handle value)
{
    int overflow = 0;
    long rank =
        PyLong_CheckExact(value.ptr()) ? PyLong_AsLongAndOverflow(value.ptr(), &overflow) : -1;

    return rank >= 0 && rank <= INT32_MAX && !overflow ? (int)rank : read_int(value, "rank");
}

/* 0 .. 2**64 - 1. */
inline uint64_t read_u64(nb::handle value, const char *name)
{
    int overflow = 0;
    long long number =
        PyLong_CheckExact(value.ptr()) ? PyLong_AsLongLongAndOverflow(value.ptr(), &overflow) : -1;

    return __builtin_expect(number >= 0 && !overflow, 1) ? (uint64_t)number
                                                         : read_u64_slow(value, name);
}

/* A str, or bytes of a path, without a zero byte. */
std::string read_text(nb::handle value, const char *name);

/* A name of any bytes, as os.fsdecode() has it; read_text() takes it back. */
nb::object make_text(const std::string &bytes);

/* The one object that means "the default timeout". */
extern PyObject *default_timeout;
extern Shared<int64_t> default_timeout_ns;

/* Seconds, None for no limit, or DEFAULT. */
int64_t read_timeout_slow(nb::handle value);
inline int64_t read_timeout(nb::handle value)
{
    if (__builtin_expect(value.ptr() == default_timeout, 1)) {
        return default_timeout_ns;
    }
    return read_timeout_slow(value);
}
/* The same for struct nixl_op, where 0 is the default: NIXL_AT_ONCE. */
int64_t op_timeout(int64_t timeout_ns);

/* The index of `word` in `words`, which ends with NULL; ValueError names what is allowed. */
int read_word(const char *word, const char *const *words, const char *name);
int read_type(const char *name);
size_t type_nbytes(int type);
/* A value of an integer type, as its bits; OverflowError if it does not fit. */
uint64_t read_value(nb::handle value, int type);
nb::object value_object(uint64_t bits, int type);

/* A CUDA stream: an int, or an object of torch, CuPy or the __cuda_stream__ protocol. */
void *read_stream(nb::handle stream);

/* ---- memory of the caller (memory.cpp) ------------------------------------------------------- */

/*
 * Contiguous memory of a Python object: by the buffer protocol, __cuda_array_interface__ or DLPack.
 * Held, and so valid, until it is released.
 */
class Memory
{
  public:
    Memory() = default;
    Memory(nb::handle object, bool is_written, bool is_typed = false)
    {
        acquire(object, is_written, is_typed);
    }
    Memory(Memory &&other) noexcept
    {
        move_from(other);
    }
    Memory &operator=(Memory &&other) noexcept
    {
        if (this != &other) {
            release();
            move_from(other);
        }
        return *this;
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory()
    {
        release();
    }

    /* By the buffer protocol; false: it has none, or refuses, and nothing is held. */
    bool take_buffer(PyObject *object, bool is_written)
    {
        is_buffer = PyObject_GetBuffer(object, &view,
                                       PyBUF_SIMPLE | (is_written ? PyBUF_WRITABLE : 0)) == 0;
        if (__builtin_expect(!is_buffer, 0)) {
            PyErr_Clear();
            return false;
        }
        addr = view.buf;
        nbytes = (size_t)view.len;
        return true;
    }
    void release()
    {
        if (is_buffer) {
            is_buffer = false;
            PyBuffer_Release(&view);
        }
        tensor.reset();
        owner.reset();
    }

    void *addr = nullptr;
    size_t nbytes = 0;
    size_t item_nbytes = 1;
    int type = -1;             /* enum nixl_type if it was acquired as typed and has one; else -1 */
    bool is_on_device = false; /* not by the buffer protocol: the processor may not reach it */

  private:
    void acquire(nb::handle object, bool is_written, bool is_typed);
    void acquire_other(nb::handle object, bool is_written);
    void move_from(Memory &other) noexcept;

    bool is_buffer = false;
    Py_buffer view;
    nb::object owner;
    std::shared_ptr<void> tensor; /* what __dlpack__() gave: its memory need not be its owner's */
};

/* Memory that this process reads itself; TypeError for that of a device. `name`: the argument. */
Memory read_host_memory(nb::handle object, const char *name, bool is_typed = false);

inline void Memory::acquire(nb::handle object, bool is_written, bool is_typed)
{
    int flags = is_typed ? PyBUF_C_CONTIGUOUS | PyBUF_FORMAT : PyBUF_SIMPLE;
    void read_format(const Py_buffer &, Memory *);

    if (PyObject_GetBuffer(object.ptr(), &view, flags | (is_written ? PyBUF_WRITABLE : 0)) == 0) {
        is_buffer = true;
        addr = view.buf;
        nbytes = (size_t)view.len;
        if (is_typed) {
            read_format(view, this);
        }
        return;
    }
    acquire_other(object, is_written);
}

/* What a region of device memory gives to torch, CuPy and others. */
nb::object make_dlpack(void *addr, size_t nbytes, int device_type, int device, nb::object owner);

/* ---- waiting (wait.cpp) ---------------------------------------------------------------------- */

bool is_main_thread();
int64_t now_ns();
/* Raise what a signal handler raised, such as KeyboardInterrupt. */
void check_signals();
/* ClosedError if the job is being closed, CanceledError if nobody wants this thread's call. */
void check_leaving();
/* How long this thread waits before it looks again for what may end its wait. */
int64_t slice_of_thread();
/* A wait was cut into slices: give the text of the last one the whole time. */
void tell_whole_time(Detail *detail, int64_t timeout_ns, int64_t slice_ns);
[[noreturn]] void fail_timeout(int64_t timeout_ns, int64_t slice_ns);

/*
 * Call `call(ns)` until it returns another status than "in progress" or "timed out", or the time is
 * over: in slices, so that a signal, or the end of the job, is noticed. Returns its status;
 * NIXL_INPROGRESS if a timeout of 0 found nothing, and NIXL_E_TIMEOUT raises.
 */
template <typename Call> int wait_in_slices(int64_t timeout_ns, Call call)
{
    const int64_t most = slice_of_thread();
    const int64_t begin = timeout_ns > most && timeout_ns != NIXL_FOREVER ? now_ns() : 0;

    for (;;) {
        int64_t left = timeout_ns;
        int64_t slice = timeout_ns; /* of a short time: the whole, however little is left */
        int status;

        if (timeout_ns > most) {
            if (timeout_ns != NIXL_FOREVER) {
                left = timeout_ns - (now_ns() - begin);
            }
            /* The last slice is a whole one, whose length the text of the failure has. */
            slice = left > most && left < 2 * most ? left - most : most;
        }
        {
            Unlocked unlocked;
            status = call(slice);
        }
        if (status != NIXL_E_TIMEOUT && status != NIXL_INPROGRESS) {
            return status;
        }
        if (timeout_ns == 0) {
            return NIXL_INPROGRESS;
        }
        if (left <= slice) {
            fail_timeout(timeout_ns, timeout_ns > most ? most : 0);
        }
        check_signals();
        check_leaving();
    }
}

/*
 * Make a call that cannot be cut into slices in a thread of its own, so that a signal ends the wait
 * for it. What it uses must be owned by `call`, which may outlive the wait.
 */
struct CallResult {
    int status;
    Detail detail;
};
struct Aside;
std::shared_ptr<Aside> aside_begin(std::shared_ptr<void> state, int (*call)(void *state));
/* Raises what ends the wait; then it may be waited for again. */
CallResult aside_wait(const std::shared_ptr<Aside> &aside);
bool aside_is_done(const std::shared_ptr<Aside> &aside);
CallResult call_aside(std::shared_ptr<void> state, int (*call)(void *state));

/* Run `state->run()` aside, and raise its failure. */
template <typename State> void run_aside(const std::shared_ptr<State> &state)
{
    CallResult result = call_aside(state, [](void *arg) { return ((State *)arg)->run(); });

    if (result.status != NIXL_OK) {
        fail(result.detail);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

extern Shared<size_t> nviews;      /* views of regions and slots that exist */
extern Shared<size_t> nslot_views; /* those of slots */
/* The job is left while there are views: keep their memory. False: some will be unmapped. */
bool views_keep();
bool is_forked();

/*
 * Call methods by names with an underscore, as the flavours of a class take them; in texts they
 * keep the names that the user knows.
 */
void hide(nb::handle type, std::initializer_list<const char *> names);

/* ---- the parts of the module ----------------------------------------------------------------- */

void bind_errors(nb::module_ &module);
void bind_arguments(nb::module_ &module);
void bind_blocks(nb::module_ &module);
void bind_job(nb::module_ &module);
void bind_attach(nb::module_ &module);
void bind_context(nb::module_ &module);
void bind_request(nb::module_ &module);
void bind_queue(nb::module_ &module);
void bind_region(nb::module_ &module);
void bind_words(nb::module_ &module);
void bind_token(nb::module_ &module);
void bind_transfer(nb::module_ &module);
void bind_channel(nb::module_ &module);
void bind_team(nb::module_ &module);
void bind_collective(nb::module_ &module);
void bind_pair(nb::module_ &module);
void bind_log(nb::module_ &module);
void bind_stats(nb::module_ &module);
void bind_storage(nb::module_ &module);
void bind_wait(nb::module_ &module);

} // namespace nx

#endif
