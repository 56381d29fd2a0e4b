/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods that are called by Python itself in their usual form, and by nanobind, which binds
 * arguments to names, in all others: for small operations that takes longer than the rest.
 */
#ifndef NIXLRUN_PYTHON_USUAL_H
#define NIXLRUN_PYTHON_USUAL_H

#include "core.h"

namespace nx
{

/* The form for METH_FASTCALL | METH_KEYWORDS; it passes on what is not usual to call_general(). */
typedef PyObject *usual_fn(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *names);

/* A table of a method for bind_usual(); `doc` begins with its signature. */
#define USUAL_METHOD(_name, _function, _doc)                                                       \
    {                                                                                              \
        _name, (PyCFunction)(void (*)())(usual_fn *)(_function), METH_FASTCALL | METH_KEYWORDS,    \
            _doc                                                                                   \
    }

/* *general_p becomes the method that nanobind has made of that name, which is replaced. */
void bind_usual(nb::handle type, PyMethodDef *method, PyObject **general_p);

PyObject *call_general(PyObject *general, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *names);

/* Make a call whose arguments are right, and return its result, or what it raises, to Python. */
template <typename Call> PyObject *call_usual(Call call)
{
    try {
        return nb::object(call()).release().ptr();
    } catch (nb::python_error &error) {
        error.restore();
        return nullptr;
    } catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
}

} // namespace nx

#endif
