/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of other jobs: publishing a name, attaching by it, detaching. */
#include "core.h"

#include <algorithm>

namespace nx
{

static const std::string &text_of(const std::string &text, const char *name)
{
    if (text.find('\0') != std::string::npos) {
        fail_value(std::string(name) + " has a zero byte");
    }
    return text;
}

/* What one of the calls is about; those that wait for others are made aside. */
struct AttachCall {
    std::string where, name, schema, text;
    int64_t timeout_ns = 0;
    int rank = -1;

    AttachCall(const std::string &place, const std::string &who, const std::string &what)
        : where(text_of(place, "where")), name(text_of(who, "name")),
          schema(text_of(what, "schema"))
    {
    }
};

static void attach_publish(const std::string &where, const std::string &name,
                           const std::string &schema)
{
    const AttachCall call(where, name, schema);
    int status;

    {
        Unlocked unlocked;
        status = nixl_publish(call.where.c_str(), call.name.c_str(), call.schema.c_str());
    }
    check(status);
}

static std::string attach_published_at(const std::string &where, const std::string &name)
{
    const AttachCall call(where, name, "");
    std::string text(where.size() + 512, '\0');

    check(nixl_publish_query(call.where.c_str(), call.name.c_str(), text.data(), text.size()));
    return text.c_str();
}

static void attach_unpublish(const std::string &where, const std::string &name)
{
    const AttachCall call(where, name, "");
    int status;

    {
        Unlocked unlocked;
        status = nixl_unpublish(call.where.c_str(), call.name.c_str());
    }
    check(status);
}

/* ---- attaching ------------------------------------------------------------------------------- */

constexpr int64_t ATTACH_MOST_NS = 3 * SLICE_NS; /* less than closing the job waits */
constexpr int64_t ATTACH_LEAST_NS = 1000 * 1000;

/*
 * Attempts in slices of the time, so that nothing waits for others when the job is closed, or
 * nobody wants the result any more. Who is there and does not answer has longer and longer for it.
 */
template <typename Call>
static std::shared_ptr<Call> attach_in_slices(const Call &wanted, int64_t timeout_ns)
{
    const int64_t begin = timeout_ns == NIXL_FOREVER ? 0 : now_ns();
    int64_t most = SLICE_NS;

    for (;;) {
        const int64_t left =
            timeout_ns == NIXL_FOREVER ? timeout_ns : timeout_ns - (now_ns() - begin);
        const bool is_last = left <= most;
        auto call = std::make_shared<Call>(wanted);

        if (is_last) { /* 0 would mean something else */
            call->timeout_ns = timeout_ns == 0 ? 0 : std::max(left, ATTACH_LEAST_NS);
        } else { /* the last one is a whole one, whose length the text of the failure has */
            call->timeout_ns = left < 2 * most ? left - most : most;
        }
        const int64_t attempted = now_ns();
        CallResult result = call_aside(call, [](void *state) { return ((Call *)state)->run(); });
        if (is_last || call->is_final(result.status, now_ns() - attempted)) {
            if (result.status == NIXL_OK) {
                return call;
            }
            tell_whole_time(&result.detail, timeout_ns, call->timeout_ns);
            if (result.status == NIXL_INPROGRESS) {
                result.detail = plain_detail(NIXL_E_TIMEOUT, -1, "nixl_attach");
                result.detail.text = "no living process has published '" + wanted.name + "' in '" +
                                     wanted.where + "' yet";
            }
            fail(result.detail);
        }
        if (result.status == NIXL_E_TIMEOUT && most < ATTACH_MOST_NS) {
            most += SLICE_NS;
        }
        check_leaving();
    }
}

struct AttachName : AttachCall {
    using AttachCall::AttachCall;
    int run()
    {
        return nixl_attach(where.c_str(), name.c_str(), schema.c_str(), timeout_ns, &rank);
    }
    static bool is_final(int status, int64_t)
    {
        return status != NIXL_E_NOT_FOUND && status != NIXL_E_TIMEOUT;
    }
};

static int attach_attach(const std::string &where, const std::string &name,
                         const std::string &schema, nb::handle timeout)
{
    return attach_in_slices(AttachName(where, name, schema), read_timeout(timeout))->rank;
}

struct AttachRank : AttachCall {
    int through = -1, job_rank = -1;
    uint64_t job = 0;

    AttachRank() : AttachCall("", "", "")
    {
    }
    int run()
    {
        return nixl_attach_rank(through, job, job_rank, timeout_ns, &rank);
    }
    /* What may change is tried again for all of the time. */
    bool is_final(int status, int64_t took_ns) const
    {
        return status == NIXL_OK || took_ns < timeout_ns;
    }
};

static int attach_attach_rank(nb::handle through, nb::handle job, nb::handle job_rank,
                              nb::handle timeout)
{
    AttachRank wanted;

    wanted.through = read_rank(through);
    wanted.job = read_u64(job, "job");
    wanted.job_rank = read_rank(job_rank);
    return attach_in_slices(wanted, read_timeout(timeout))->rank;
}

struct AttachList : AttachCall {
    using AttachCall::AttachCall;
    int run()
    {
        return nixl_publish_list(where.c_str(), timeout_ns, text.data(), text.size(), nullptr);
    }
    static bool is_final(int status, int64_t)
    {
        return status != NIXL_E_TIMEOUT;
    }
};

static std::string attach_published(const std::string &where, nb::handle timeout)
{
    static const size_t room = 256 * 1024;
    AttachList wanted(where, "", "");

    wanted.text.resize(room);
    return attach_in_slices(wanted, read_timeout(timeout))->text.c_str();
}

static int attach_number(nb::handle job, nb::handle job_rank)
{
    int rank = -1;

    check(nixl_peer_number(read_u64(job, "job"), read_rank(job_rank), &rank));
    return rank;
}

struct Detaching {
    int rank;
    int64_t timeout_ns;
    int run()
    {
        return nixl_detach(rank, timeout_ns);
    }
};

/* If a signal ends the wait, so does the call. */
static void attach_detach(nb::handle rank, nb::handle timeout)
{
    auto call = std::make_shared<Detaching>();
    CallResult result;

    call->rank = read_rank(rank);
    call->timeout_ns = read_timeout(timeout);
    try {
        result = call_aside(call, [](void *state) { return ((Detaching *)state)->run(); });
    } catch (...) {
        (void)nixl_detach(call->rank, 0);
        throw;
    }
    if (result.status != NIXL_OK && result.status != NIXL_INPROGRESS) {
        fail(result.detail);
    }
}

void bind_attach(nb::module_ &module)
{
    module.def("publish", &attach_publish, "where"_a, "name"_a, "schema"_a);
    module.def("published_at", &attach_published_at, "where"_a, "name"_a);
    module.def("published", &attach_published, "where"_a, "timeout"_a.none());
    module.def("unpublish", &attach_unpublish, "where"_a, "name"_a);
    module.def("attach", &attach_attach, "where"_a, "name"_a, "schema"_a, "timeout"_a.none());
    module.def("attach_rank", &attach_attach_rank, "through"_a, "job"_a, "job_rank"_a,
               "timeout"_a.none());
    module.def("peer_number", &attach_number, "job"_a, "job_rank"_a);
    module.def("detach", &attach_detach, "rank"_a, "timeout"_a.none());
}

} // namespace nx
