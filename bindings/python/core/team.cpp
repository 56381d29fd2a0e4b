/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: how they are made, asked and freed. What they do together: collective.cpp. */
#include "team.h"
#include "request.h"

namespace nx
{

static std::vector<int> read_ranks(nb::handle ranks)
{
    std::vector<int> list;

    for (nb::handle rank : ranks) {
        list.push_back(read_rank(rank));
    }
    return list;
}

/* `how` is world, node, create (ranks), reform (ranks) or split (of, color, key). */
static nb::object start_team(nb::object context, const char *how, nb::handle of, nb::handle ranks,
                             nb::handle color_object, nb::handle key_object, nb::object make,
                             nb::handle queue, nb::handle data)
{
    static const char *const ways[] = {"world", "node", "create", "split", "reform", nullptr};
    const int way = read_word(how, ways, "how");
    const int color = read_int(color_object, "color"), key = read_int(key_object, "key");
    struct nixl_context *handle = nb::cast<Context &>(context).handle();
    Use use(&nb::cast<Context &>(context));
    Use parent_use;
    if (!of.is_none()) {
        parent_use.begin(&nb::cast<Team &>(of));
    }
    struct nixl_team *parent = of.is_none() ? nullptr : nb::cast<Team &>(of).handle();
    const std::vector<int> list = way == 2 || way == 4 ? read_ranks(ranks) : std::vector<int>();
    auto request = std::make_unique<Request>();
    Start start;

    start.set_queue(queue, data);
    if (way != 3) {
        start.set_context(handle);
    }
    request->make_team = make;
    request->operation->kept = nb::borrow(of);
    return start_request(
        "nixl_team", &start, SIZE_MAX, request.release(),
        [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *into) {
            switch (way) {
            case 0:
                return nixl_team_world_x(op, &into->team, req_p);
            case 1:
                return nixl_team_node_x(op, &into->team, req_p);
            case 2:
                return nixl_team_create_x(list.data(), list.size(), op, &into->team, req_p);
            case 4:
                return nixl_team_reform_x(list.data(), list.size(), op, &into->team, req_p);
            default:
                return nixl_team_split_x(parent, color, key, op, &into->team, req_p);
            }
        });
}

static void team_init(Team *team, nb::capsule made)
{
    new (team) Team();
    team->team = (struct nixl_team *)made.data();
}

/* No request can be had: it is cut into slices, which a later call continues. */
static nb::object team_shrink(Team &team, nb::handle timeout)
{
    Use use(&team);
    struct nixl_team *old = team.team;
    struct nixl_team *made = nullptr;
    int status = wait_in_slices(read_timeout(timeout),
                                [&](int64_t ns) { return nixl_team_shrink(old, ns, &made); });

    if (status == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, -1, "nixl_team_shrink"));
    }
    check(status);
    return nb::capsule(made, "nixl_team");
}

static void team_free(Team *team)
{
    Closing closing(team);

    if (!closing.is_mine()) {
        return;
    }
    if (team->is_of_this_life()) {
        check(nixl_team_free(team->team));
    }
    closing.done();
    team->team = nullptr;
}

static nb::object team_translate(Team &from, nb::handle team_rank, nb::handle to)
{
    struct nixl_team *other = to.is_none() ? nullptr : nb::cast<Team &>(to).handle();
    int rank = nixl_team_translate(from.handle(), read_int(team_rank, "team_rank"), other);

    if (rank == NIXL_E_NOT_FOUND) {
        return nb::none();
    }
    if (rank < 0) {
        fail(rank);
    }
    return nb::int_(rank);
}

void bind_team(nb::module_ &module)
{
    nb::class_<Team> type(module, "Team");

    module.def("start_team", &start_team, "context"_a, "how"_a, "of"_a.none(), "ranks"_a.none(),
               "color"_a, "key"_a, "make"_a, "queue"_a.none(), "data"_a.none(), guarded);
    type.def("__init__", &team_init, "made"_a);
    type.def("_shrink", &team_shrink, "timeout"_a.none(), guarded);
    type.def("free", &team_free, guarded);
    type.def_prop_ro("size", &Team::size, guarded).def_prop_ro("rank", &Team::rank, guarded);
    type.def("translate", &team_translate, "team_rank"_a, "to"_a.none() = nb::none(), guarded);
    type.def_prop_ro("is_freed", [](const Team &team) { return team.is_closed(); });
}

} // namespace nx
