/* SPDX-License-Identifier: Apache-2.0 */
/* Regions, as the other files use them. */
#ifndef NIXLRUN_PYTHON_REGION_H
#define NIXLRUN_PYTHON_REGION_H

#include "context.h"

namespace nx
{

struct Questions; /* to a store, which are not answered yet (storage.cpp) */

struct Region : Handle {
    struct nixl_region *region = nullptr;
    nb::object context;
    std::string name;
    void *addr = nullptr; /* of this rank's segment; NULL: there is none, or it is closed */
    size_t nbytes = 0;
    int kind = NIXL_MEM_NONE;
    int device = -1;                      /* of CUDA memory */
    std::vector<Memory> registered;       /* what keeps the memory of a registered region */
    std::shared_ptr<Questions> questions; /* NULL: there was none */

    Region();
    Region(const Region &) = delete;
    ~Region();

    std::string what() const
    {
        return "region '" + name + "'";
    }
    [[noreturn]] void fail_used() const
    {
        throw nb::buffer_error((what() + " has " + std::to_string(users.count()) +
                                " view(s), transfers or calls in other threads: end them before it "
                                "is closed")
                                   .c_str());
    }
    struct nixl_region *handle() const
    {
        if (__builtin_expect(is_closed(), 0)) {
            fail_closed(what());
        }
        return region;
    }
};

/* Wait until no question about a region's objects is asked any more; TimedOutError. */
void questions_wait(const std::shared_ptr<Questions> &questions, int64_t timeout_ns);

/* Open a file, a directory or objects, as a tuple says (storage.cpp). Raises failures. */
struct nixl_region *open_stored(nb::handle name, nb::handle stored,
                                const struct nixl_mem_params *made);

/* put(), get() and what starts them: methods of Region (move.cpp). */
void bind_moves(nb::class_<Region> &type);

} // namespace nx

#endif
