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
    Shared<bool> is_left{false}; /* of the job, which closes by itself */
    std::string name;

    bool is_closed() const
    {
        return is_left || Handle::is_closed();
    }
    std::string what() const
    {
        return name.empty() ? "the job" : "context '" + name + "'";
    }
    [[noreturn]] void fail_used() const
    {
        nx::fail_used(what(), users.count());
    }
    /* The handle, or ClosedError. */
    struct nixl_context *handle() const
    {
        if (__builtin_expect(is_closed(), 0)) {
            fail_closed(what());
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
