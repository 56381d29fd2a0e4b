/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module: its parts, in an order in which each finds the types that it uses. */
#include "usual.h"

#ifdef NB_FREE_THREADED
PyObject *nx::module_lock;
#endif

void nx::hide(nb::handle type, std::initializer_list<const char *> names)
{
    for (const char *name : names) {
        nb::setattr(type, (std::string("_") + name).c_str(), type.attr(name));
        nb::delattr(type, name);
    }
}

void nx::bind_usual(nb::handle type, PyMethodDef *method, PyObject **general_p)
{
    *general_p = nb::object(type.attr(method->ml_name)).release().ptr();
    nb::setattr(type, method->ml_name,
                nb::steal(PyDescr_NewMethod((PyTypeObject *)type.ptr(), method)));
}

PyObject *nx::call_general(PyObject *general, PyObject *self, PyObject *const *args,
                           Py_ssize_t nargs, PyObject *names)
{
    std::vector<PyObject *> all{self};

    all.insert(all.end(), args, args + nargs + (names == nullptr ? 0 : PyTuple_Size(names)));
    return PyObject_Vectorcall(general, all.data(), (size_t)nargs + 1, names);
}

static bool is_loaded;

/* Under a name of its own, since nanobind would start anew before a line of it runs. */
NB_MODULE(_core_once, module)
{
#ifdef NB_FREE_THREADED
    nx::module_lock = nb::dict().release().ptr(); /* any object that nobody else locks */
#endif
    nb::set_leak_warnings(false); /* a program that exits need not free its regions */
    nx::bind_errors(module);
    nx::bind_arguments(module);
    nx::bind_wait(module);
    nx::bind_job(module);
    nx::bind_attach(module);
    nx::bind_context(module);
    nx::bind_queue(module);
    nx::bind_request(module);
    nx::bind_region(module);
    nx::bind_words(module);
    nx::bind_blocks(module);
    nx::bind_token(module);
    nx::bind_transfer(module);
    nx::bind_channel(module);
    nx::bind_team(module);
    nx::bind_collective(module);
    nx::bind_pair(module);
    nx::bind_log(module);
    nx::bind_stats(module);
    nx::bind_storage(module);
    is_loaded = true;
}

/*
 * Types, and what the module knows of the job, are of the process. A second load, for another
 * interpreter or after sys.modules was emptied, would take them from the first, which then crashes.
 */
extern "C" NB_EXPORT PyObject *PyInit__core(void)
{
    if (is_loaded) {
        PyErr_SetString(
            PyExc_ImportError,
            "nixlrun is loaded already: a process can load it once, in one interpreter");
        return nullptr;
    }
    return PyInit__core_once();
}
