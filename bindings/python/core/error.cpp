/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of the library become exceptions of the package's Python module _errors, one class for
 * each status.
 */
#include "core.h"

namespace nx
{

Detail last_detail(int status)
{
    const struct nixl_error *error = nixl_last_error();
    Detail detail;

    detail.status = status;
    if (error->status == status) {
        detail.rank = error->rank;
        detail.native_code = error->native_code;
        detail.operation = error->operation;
        detail.transport = error->transport;
        detail.text = error->text;
    } else {
        detail.text = nixl_strerror(status);
    }
    return detail;
}

Detail plain_detail(int status, int rank, const char *operation)
{
    Detail detail;

    detail.status = status;
    detail.rank = rank;
    detail.operation = operation;
    detail.text = nixl_strerror(status);
    return detail;
}

/* A path or a name in a text may have any bytes; those that are not UTF-8 are printed as \xff. */
static nb::object message_object(const std::string &text)
{
    return nb::steal(
        PyUnicode_DecodeUTF8(text.data(), (Py_ssize_t)text.size(), "backslashreplace"));
}

nb::object exception_of(const Detail &detail)
{
    nb::object make = nb::module_::import_("nixlrun._errors").attr("make");

    return make(detail.status, message_object(detail.text), detail.rank, detail.operation,
                detail.transport, detail.native_code);
}

void fail(const Detail &detail)
{
    stay_at_exit();
    nb::object error = exception_of(detail);

    PyErr_SetObject((PyObject *)Py_TYPE(error.ptr()), error.ptr());
    throw nb::python_error();
}

void fail(int status)
{
    fail(last_detail(status));
}

nb::object must_find(nb::object found, const char *operation)
{
    if (found.is_none()) {
        fail(plain_detail(NIXL_E_TIMEOUT, -1, operation));
    }
    return found;
}

void fail_type(const std::string &text)
{
    throw nb::type_error(text.c_str());
}

void fail_value(const std::string &text)
{
    throw nb::value_error(text.c_str());
}

void fail_closed(const std::string &what)
{
    stay_at_exit();
    nb::object type = nb::module_::import_("nixlrun._errors").attr("ClosedError");

    PyErr_SetString(type.ptr(), (what + " is closed").c_str());
    throw nb::python_error();
}

void fail_used(const std::string &what, size_t n)
{
    Detail detail = plain_detail(NIXL_E_IN_USE, -1, "");

    detail.text = what + " is used by " + std::to_string(n) +
                  " call(s) in other threads: end them before it is closed";
    fail(detail);
}

void bind_errors(nb::module_ &module)
{
    nb::register_exception_translator([](const std::exception_ptr &raised, void *) {
        try {
            std::rethrow_exception(raised);
        } catch (const std::bad_cast &) {
            PyErr_SetString(PyExc_TypeError, "an argument has a wrong type");
        }
    });
    module.def(
        "strerror", [](int status) { return std::string(nixl_strerror(status)); }, "status"_a);
    module.def("statuses", [] {
        nb::dict names;
#define STATUS_NAME(_name, _value, _text) names[#_name] = _value;
        NIXL_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
        return names;
    });
}

} // namespace nx
