/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of this process: how much went where. */
#include "core.h"

namespace nx
{

static nb::dict times_dict(const struct nixl_stats_times &times)
{
    nb::dict dict;
    nb::list buckets;

    for (uint64_t n : times.buckets) {
        buckets.append(n);
    }
    dict["count"] = times.count;
    dict["sum_ns"] = times.sum_ns;
    dict["max_ns"] = times.max_ns;
    dict["buckets"] = nb::tuple(buckets);
    return dict;
}

/* The names of the operations, in the order of enum nixl_stats_op. */
static const char *const stats_ops[] = {
    "put",  "get",  "atomic",       "notify",          "receive",   "collective",
    "wait", "wake", "channel_send", "channel_receive", "rail_send", "rail_receive"};

static nb::dict stats_dict(const struct nixl_stats &stats)
{
    nb::dict dict;

    dict["rank"] = stats.rank;
    dict["op"] = stats.op == NIXL_STATS_ANY ? "" : stats_ops[stats.op];
    dict["transport"] = nb::str(stats.transport);
    dict["method"] = nb::str(stats.method);
    dict["name"] =
        nb::steal(PyUnicode_DecodeUTF8(stats.name, (Py_ssize_t)strlen(stats.name), "replace"));
    dict["members"] = stats.nmembers;
    dict["nops"] = stats.nops;
    dict["nbytes"] = stats.nbytes;
    dict["nfailed"] = stats.nfailed;
    dict["nrequests"] = stats.nrequests;
    dict["nretries"] = stats.nretries;
    dict["nstages"] = stats.nstages;
    dict["post"] = times_dict(stats.post);
    dict["complete"] = times_dict(stats.complete);
    dict["wait"] = times_dict(stats.wait);
    return dict;
}

static nb::list stats_list()
{
    nb::list list;
    struct nixl_stats stats = NIXL_STATS_INIT;
    int status;

    for (unsigned i = 0; (status = nixl_stats_query(i, &stats)) == NIXL_OK; i++) {
        list.append(stats_dict(stats));
    }
    if (status != NIXL_E_NOT_FOUND) {
        fail(status);
    }
    return list;
}

static nb::dict stats_sum(nb::handle rank, const std::string &op, const std::string &transport)
{
    struct nixl_stats stats = NIXL_STATS_INIT;
    unsigned number = NIXL_STATS_ANY;
    int status;

    for (unsigned i = 0; i < sizeof(stats_ops) / sizeof(stats_ops[0]); i++) {
        number = op == stats_ops[i] ? i : number;
    }
    if (number == NIXL_STATS_ANY && !op.empty()) {
        throw nb::value_error("op is one of put, get, atomic, notify, receive, collective, wait, "
                              "wake, channel_send, channel_receive, rail_send, rail_receive");
    }
    status = nixl_stats_sum(rank.is_none() ? NIXL_ANY_RANK : read_rank(rank), number,
                            transport.empty() ? nullptr : transport.c_str(), &stats);
    if (status != NIXL_OK) {
        fail(status);
    }
    return stats_dict(stats);
}

void bind_stats(nb::module_ &module)
{
    module.def("stats", &stats_list);
    module.def("stats_sum", &stats_sum, "rank"_a.none(), "op"_a, "transport"_a);
}

} // namespace nx
