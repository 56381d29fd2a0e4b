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

    AttachCall() = default;
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

static std::string attach_published(const std::string &where, nb::handle timeout)
{
    static const size_t room = 256 * 1024;
    auto call = std::make_shared<AttachCall>(where, "", "");

    call->timeout_ns = read_timeout(timeout);
    call->text.resize(room);
    CallResult result = call_aside(call, [](void *state) {
        auto *list = (AttachCall *)state;

        return nixl_publish_list(list->where.c_str(), list->timeout_ns, list->text.data(),
                                 list->text.size(), nullptr);
    });
    if (result.status != NIXL_OK) {
        fail(result.detail);
    }
    return call->text.c_str();
}

constexpr int64_t ATTACH_MOST_NS = 3 * SLICE_NS; /* less than closing the job waits */
constexpr int64_t ATTACH_LEAST_NS = 1000 * 1000;

/* Does nobody want the result any more? */
static void check_wanted(nb::handle is_wanted)
{
    check_leaving();
    if (!is_wanted.is_none() && !nb::cast<bool>(is_wanted())) {
        fail(plain_detail(NIXL_E_CANCELED, -1, "nixl_attach"));
    }
}

/*
 * Attempts in slices of the time, so that nothing waits for a name that nobody has published when
 * the job is closed, or the caller does not want it any more. A publisher that is there has longer
 * and longer to answer.
 */
static CallResult attach_in_slices(const AttachCall &wanted, int64_t timeout_ns,
                                   nb::handle is_wanted, int *rank_p)
{
    const int64_t begin = timeout_ns == NIXL_FOREVER ? 0 : now_ns();
    int64_t most = SLICE_NS;

    for (;;) {
        const int64_t left =
            timeout_ns == NIXL_FOREVER ? timeout_ns : timeout_ns - (now_ns() - begin);
        const bool is_last = left <= most;
        auto call = std::make_shared<AttachCall>(wanted);

        if (is_last) { /* 0 would mean something else */
            call->timeout_ns = timeout_ns == 0 ? 0 : std::max(left, ATTACH_LEAST_NS);
        } else { /* the last one is a whole one, whose length the text of the failure has */
            call->timeout_ns = left < 2 * most ? left - most : most;
        }
        CallResult result = call_aside(call, [](void *state) {
            auto *attach = (AttachCall *)state;

            return nixl_attach(attach->where.c_str(), attach->name.c_str(), attach->schema.c_str(),
                               attach->timeout_ns, &attach->rank);
        });
        const bool is_over = result.status != NIXL_E_NOT_FOUND && result.status != NIXL_E_TIMEOUT;
        if (is_over || is_last) {
            *rank_p = call->rank;
            tell_whole_time(&result.detail, timeout_ns, call->timeout_ns);
            return result;
        }
        if (result.status == NIXL_E_TIMEOUT && most < ATTACH_MOST_NS) {
            most += SLICE_NS;
        }
        check_wanted(is_wanted);
    }
}

static int attach_attach(const std::string &where, const std::string &name,
                         const std::string &schema, nb::handle timeout, nb::handle is_wanted)
{
    int rank = -1;
    CallResult result =
        attach_in_slices(AttachCall(where, name, schema), read_timeout(timeout), is_wanted, &rank);

    if (result.status == NIXL_INPROGRESS) {
        Detail detail = plain_detail(NIXL_E_TIMEOUT, -1, "nixl_attach");

        detail.text = "no living process has published '" + name + "' in '" + where + "' yet";
        fail(detail);
    }
    if (result.status != NIXL_OK) {
        fail(result.detail);
    }
    return rank;
}

/* What nixl_attach_rank() is about. */
struct AttachRankCall {
    int through;
    uint64_t job;
    int job_rank;
    int64_t timeout_ns;
    int rank = -1;
};

static int attach_attach_rank(nb::handle through, nb::handle job, nb::handle job_rank,
                              nb::handle timeout)
{
    auto call = std::make_shared<AttachRankCall>();

    call->through = read_rank(through);
    call->job = read_u64(job, "job");
    call->job_rank = read_rank(job_rank);
    call->timeout_ns = read_timeout(timeout);
    CallResult result = call_aside(call, [](void *state) {
        auto *attach = (AttachRankCall *)state;

        return nixl_attach_rank(attach->through, attach->job, attach->job_rank, attach->timeout_ns,
                                &attach->rank);
    });
    if (result.status != NIXL_OK) {
        fail(result.detail);
    }
    return call->rank;
}

static int attach_number(nb::handle job, nb::handle job_rank)
{
    int rank = -1;

    check(nixl_peer_number(read_u64(job, "job"), read_rank(job_rank), &rank));
    return rank;
}

static void attach_detach(nb::handle rank, nb::handle timeout)
{
    auto call = std::make_shared<AttachCall>();

    call->rank = read_rank(rank);
    call->timeout_ns = read_timeout(timeout);
    CallResult result = call_aside(call, [](void *state) {
        auto *attach = (AttachCall *)state;

        return nixl_detach(attach->rank, attach->timeout_ns);
    });
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
    module.def("attach", &attach_attach, "where"_a, "name"_a, "schema"_a, "timeout"_a.none(),
               "is_wanted"_a.none());
    module.def("attach_rank", &attach_attach_rank, "through"_a, "job"_a, "job_rank"_a,
               "timeout"_a.none());
    module.def("peer_number", &attach_number, "job"_a, "job_rank"_a);
    module.def("detach", &attach_detach, "rank"_a, "timeout"_a.none());
}

} // namespace nx
