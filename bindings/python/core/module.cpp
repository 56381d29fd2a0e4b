/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module: its parts, in an order in which each finds the types that it uses. */
#include "core.h"

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

NB_MODULE(_core, module)
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
    nx::bind_transfer(module);
    nx::bind_channel(module);
    nx::bind_team(module);
    nx::bind_collective(module);
    nx::bind_pair(module);
    nx::bind_log(module);
    nx::bind_stats(module);
    nx::bind_storage(module);
}
