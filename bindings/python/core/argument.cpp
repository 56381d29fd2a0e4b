/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of Python as the library takes them. What is wrong is named with what is allowed.
 */
#include "core.h"

#include <cmath>
#include <cstring>

namespace nx
{

PyObject *default_timeout;
Shared<int64_t> default_timeout_ns{(int64_t)60 * 1000 * 1000 * 1000};

static std::string text_of(nb::handle value)
{
    return nb::repr(value).c_str();
}

/* An int, or TypeError. */
static nb::object read_index(nb::handle value, const char *name)
{
    if (!PyIndex_Check(value.ptr())) {
        fail_type(std::string(name) + " must be an int, not " + type_text(value));
    }
    PyObject *index = PyNumber_Index(value.ptr());

    if (index == nullptr) {
        throw nb::python_error(); /* of its __index__() */
    }
    return nb::steal(index);
}

std::string read_text(nb::handle value, const char *name)
{
    std::string text;

    if (nb::isinstance<nb::bytes>(value)) {
        text.assign(nb::cast<nb::bytes>(value).c_str(), nb::cast<nb::bytes>(value).size());
    } else if (nb::isinstance<nb::str>(value)) {
        nb::object bytes =
            nb::steal(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogateescape"));

        if (!bytes.is_valid()) {
            throw nb::python_error();
        }
        text.assign(nb::cast<nb::bytes>(bytes).c_str(), nb::cast<nb::bytes>(bytes).size());
    } else {
        fail_type(std::string(name) + " must be a str, not " + type_text(value));
    }
    if (text.find('\0') != std::string::npos) {
        fail_value(std::string(name) + " has a zero byte");
    }
    return text;
}

nb::object make_text(const std::string &bytes)
{
    return nb::steal(
        PyUnicode_DecodeUTF8(bytes.data(), (Py_ssize_t)bytes.size(), "surrogateescape"));
}

int read_int(nb::handle value, const char *name)
{
    int overflow;
    long number = PyLong_AsLongAndOverflow(read_index(value, name).ptr(), &overflow);

    if (overflow || number < INT32_MIN || number > INT32_MAX) {
        fail_value(std::string(name) + " is " + text_of(value) + "; allowed: 32-bit integers");
    }
    return (int)number;
}

uint64_t read_u64_slow(nb::handle value, const char *name)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(read_index(value, name).ptr());

    if (number == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        fail_value(std::string(name) + " is " + text_of(value) + "; allowed: 0 to 2**64 - 1");
    }
    return number;
}

uint32_t read_u32(nb::handle value, const char *name)
{
    const uint64_t number = read_u64(value, name);

    if (number > UINT32_MAX) {
        fail_value(std::string(name) + " is " + std::to_string(number) + "; allowed: up to " +
                   std::to_string(UINT32_MAX));
    }
    return (uint32_t)number;
}

int64_t read_timeout_slow(nb::handle value)
{
    double seconds;

    if (value.is_none()) {
        return NIXL_FOREVER;
    }
    seconds = PyFloat_AsDouble(value.ptr());
    if (seconds == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError)) {
            throw nb::python_error(); /* too large, or of its __float__() */
        }
        PyErr_Clear();
        fail_type(std::string("timeout must be seconds, None or DEFAULT, not ") + type_text(value));
    }
    if (std::isnan(seconds) || seconds < 0) {
        fail_value("timeout is " + text_of(value) +
                   "; allowed: seconds from 0 on, or None: no limit");
    }
    return seconds > 9.2e9 ? NIXL_FOREVER : (int64_t)std::ceil(seconds * 1e9);
}

int64_t op_timeout(int64_t timeout_ns)
{
    return timeout_ns == 0 ? NIXL_AT_ONCE : timeout_ns;
}

/* ---- words, types and values ----------------------------------------------------------------- */

int read_word(const char *word, const char *const *words, const char *name)
{
    std::string allowed;

    for (int i = 0; words[i] != nullptr; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
        allowed += std::string(i > 0 ? ", " : "") + "'" + words[i] + "'";
    }
    fail_value(std::string(name) + " is '" + word + "'; allowed: " + allowed);
}

/* In the order of enum nixl_type. */
static const char *const type_names[] = {"int32",   "uint32",   "int64", "uint64", "float32",
                                         "float64", "int8",     "uint8", "int16",  "uint16",
                                         "float16", "bfloat16", nullptr};

int read_type(const char *name)
{
    return read_word(name, type_names, "dtype");
}

size_t type_nbytes(int type)
{
    static const size_t nbytes[] = {4, 4, 8, 8, 4, 8, 1, 1, 2, 2, 2, 2};

    return nbytes[type];
}

[[noreturn]] static void fail_overflow(nb::handle value, int type)
{
    PyErr_SetString(PyExc_OverflowError,
                    (text_of(value) + " does not fit " + type_names[type]).c_str());
    throw nb::python_error();
}

uint64_t read_value(nb::handle value, int type)
{
    const bool is_signed = type == NIXL_TYPE_INT32 || type == NIXL_TYPE_INT64;
    const bool is_word = type == NIXL_TYPE_INT32 || type == NIXL_TYPE_UINT32;

    if (type == NIXL_TYPE_FLOAT || type == NIXL_TYPE_DOUBLE) {
        double real = PyFloat_AsDouble(value.ptr());
        float single = (float)real;
        uint64_t bits = 0;

        if (real == -1 && PyErr_Occurred()) {
            throw nb::python_error();
        }
        if (type == NIXL_TYPE_FLOAT && std::isinf(single) && !std::isinf(real)) {
            fail_overflow(value, type);
        }
        if (type == NIXL_TYPE_DOUBLE) {
            memcpy(&bits, &real, sizeof(real));
        } else {
            memcpy(&bits, &single, sizeof(single));
        }
        return bits;
    }
    nb::object index = read_index(value, "the value");
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    uint64_t bits = (uint64_t)number;
    bool fits = !overflow;

    if (overflow > 0 && !is_signed && !is_word) {
        bits = PyLong_AsUnsignedLongLong(index.ptr());
        fits = !PyErr_Occurred();
        PyErr_Clear();
    } else if (fits) {
        fits = is_signed ? !is_word || (number >= INT32_MIN && number <= INT32_MAX)
                         : number >= 0 && (!is_word || number <= UINT32_MAX);
    }
    if (!fits) {
        fail_overflow(value, type);
    }
    return bits;
}

nb::object value_object(uint64_t bits, int type)
{
    float single;
    double real;

    switch (type) {
    case NIXL_TYPE_INT32:
        return nb::int_((int32_t)bits);
    case NIXL_TYPE_UINT32:
        return nb::int_((uint32_t)bits);
    case NIXL_TYPE_INT64:
        return nb::int_((int64_t)bits);
    case NIXL_TYPE_FLOAT:
        memcpy(&single, &bits, sizeof(single));
        return nb::float_(single);
    case NIXL_TYPE_DOUBLE:
        memcpy(&real, &bits, sizeof(real));
        return nb::float_(real);
    default:
        return nb::int_(bits);
    }
}

/* ---- streams --------------------------------------------------------------------------------- */

void *read_stream(nb::handle stream)
{
    nb::object number = nb::borrow(stream);

    if (nb::hasattr(stream, "__cuda_stream__")) {
        number = stream.attr("__cuda_stream__");
        number = nb::object(PyCallable_Check(number.ptr()) ? number() : number)[1];
    } else if (nb::hasattr(stream, "cuda_stream")) {
        number = stream.attr("cuda_stream"); /* torch */
    } else if (nb::hasattr(stream, "ptr")) {
        number = stream.attr("ptr"); /* CuPy */
    }
    return (void *)(uintptr_t)read_u64(number, "stream");
}

/* ---- the default timeout --------------------------------------------------------------------- */

struct Default {
};

void bind_arguments(nb::module_ &module)
{
    nb::class_<Default> type(module, "Default");

    type.def("__repr__", [](const Default &) { return "DEFAULT"; });
    module.attr("DEFAULT") = nb::cast(Default{});
    default_timeout = nb::object(module.attr("DEFAULT")).release().ptr();
    module.def(
        "set_default_timeout",
        [](nb::handle seconds) { default_timeout_ns = read_timeout(seconds); }, "seconds"_a.none());
    module.def(
        "check_timeout", [](nb::handle seconds) { (void)read_timeout(seconds); },
        "seconds"_a.none());
    module.def("default_timeout", []() -> nb::object {
        const int64_t ns = default_timeout_ns;

        return ns == NIXL_FOREVER ? nb::none() : nb::object(nb::float_((double)ns / 1e9));
    });
}

} // namespace nx
