/* SPDX-License-Identifier: Apache-2.0 */
/* Teams, as collectives use them. */
#ifndef NIXLRUN_PYTHON_TEAM_H
#define NIXLRUN_PYTHON_TEAM_H

#include "context.h"

namespace nx
{

struct Team : Handle {
    struct nixl_team *team = nullptr;

    ~Team()
    {
        CountedUnderGil counted;

        if (team != nullptr && is_of_this_life() && !is_forked()) {
            (void)nixl_team_free(team);
        }
    }
    std::string what() const
    {
        return "the team";
    }
    [[noreturn]] void fail_used() const
    {
        nx::fail_used(what(), users.count());
    }
    struct nixl_team *handle() const
    {
        if (is_closed()) {
            fail_closed(what());
        }
        return team;
    }
    int size() const
    {
        return nixl_team_size(handle());
    }
    int rank() const
    {
        return nixl_team_rank(handle());
    }
};

} // namespace nx

#endif
