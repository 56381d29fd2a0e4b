/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and what is received in them. */
#ifndef NIXLRUN_PYTHON_CONTEXT_H
#define NIXLRUN_PYTHON_CONTEXT_H

#include "core.h"

namespace nx
{

/* A context of the library; the job is the default one, whose handle is NULL. */
struct Context : Handle {
    struct nixl_context *context = nullptr;
    bool is_closed = false;
    std::string name;

    /* The handle, or ClosedError. */
    struct nixl_context *handle() const
    {
        if (__builtin_expect(is_closed || !is_of_this_life(), 0)) {
            fail_closed(name.empty() ? "the job" : "context '" + name + "'");
        }
        return context;
    }
};

struct Note {
    int rank;
    uint64_t tag;
    nb::bytes payload;
    bool is_stale;
};

struct Event {
    int type;
    int rank;
    std::string name;
    uint32_t incarnation;

    const char *type_name() const;
};

} // namespace nx

#endif
