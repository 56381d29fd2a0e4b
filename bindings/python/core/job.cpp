/* SPDX-License-Identifier: Apache-2.0 */
/* The job: joining, leaving and ending it; its ranks, and how they are reached. */
#include "request.h"

#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>

namespace nx
{

/* ---- init and finalize ----------------------------------------------------------------------- */

struct FinalizeCall {
    int run()
    {
        return nixl_finalize();
    }
};

/* It goes on if a signal has ended the wait for it, and uses the memory of what is in progress. */
static std::shared_ptr<Aside> finalizing;

/* Handles have gone if this was the last of counted calls, even if it fails. */
static CallResult finalize_wait()
{
    const std::shared_ptr<Aside> call = finalizing;
    const CallResult result = aside_wait(call);

    if (finalizing == call) { /* another thread may have waited for it, too */
        finalizing.reset();
        leave_end(nixl_rank() < 0);
    }
    return result;
}

static void job_finalize()
{
    finalizing = aside_begin(std::make_shared<FinalizeCall>(),
                             [](void *state) { return ((FinalizeCall *)state)->run(); });
    const CallResult result = finalize_wait();

    if (result.status != NIXL_OK) {
        fail(result.detail);
    }
}

struct InitCall {
    int run()
    {
        struct nixl_init_params params = NIXL_INIT_PARAMS_INIT;

        return nixl_init(&params);
    }
};

/* It goes on if a signal has ended the wait for it; then it belongs to the next job. */
static std::shared_ptr<Aside> joining;

static CallResult init_wait(const std::shared_ptr<Aside> &call)
{
    try {
        return aside_wait(call);
    } catch (...) {
        joining = call;
        throw;
    }
}

static void job_init()
{
    if (finalizing != nullptr && !is_forked()) {
        (void)finalize_wait();
    }
    const std::shared_ptr<Aside> former = std::exchange(joining, nullptr);

    if (former != nullptr && !is_forked() && init_wait(former).status == NIXL_OK) {
        return;
    }
    const CallResult result = init_wait(aside_begin(
        std::make_shared<InitCall>(), [](void *state) { return ((InitCall *)state)->run(); }));

    if (result.status != NIXL_OK) {
        fail(result.detail);
    }
}

/*
 * Before the last job is closed: wait for the calls of other threads. At the exit of the program
 * those that do not end are left alone.
 */
static void job_leave(bool is_exit)
{
    if (!leave_begin(is_exit)) {
        throw nb::buffer_error((std::to_string(calls_in_progress()) +
                                " thread(s) are in calls: end them before the job is closed")
                                   .c_str());
    }
}

/* ---- the end behind Python ------------------------------------------------------------------- */

static int nlate; /* calls of nixl_finalize() that are left to make */

/* Threads of Python that are not in it may still use memory. */
static void finalize_late()
{
    struct nixl_op op = NIXL_OP_INIT;

    op.flags = NIXL_OP_KEEP;
    for (; nlate > 0 && !is_forked(); nlate--) {
        if (nixl_finalize_x(&op) != NIXL_OK) {
            fprintf(stderr, "nixlrun: leaving the job: %s\n", nixl_last_error()->text);
        }
    }
}

/* Finalize when no code of Python runs any more; false: this cannot be had. */
static bool job_finalize_late()
{
    if (nlate == 0 && Py_AtExit(finalize_late) != 0) {
        return false;
    }
    nlate++;
    return true;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

struct PeerCall {
    int rank;
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;
    int run()
    {
        return nixl_peer_query(rank, &info);
    }
};

static nb::dict job_peer(nb::handle rank)
{
    static const char *const states[] = {"alive", "lost", "finished"};
    static const char *const scopes[] = {"self", "local", "remote"};
    auto call = std::make_shared<PeerCall>();
    nb::dict info;

    call->rank = read_rank(rank);
    run_aside(call);
    info["job"] = call->info.job;
    info["rank"] = call->info.rank;
    info["incarnation"] = call->info.incarnation;
    info["state"] = states[call->info.state];
    info["scope"] = scopes[call->info.scope];
    info["host"] = nb::str(call->info.host);
    info["why"] = nb::str(call->info.why);
    info["job_rank"] = call->info.job_rank;
    info["job_size"] = call->info.job_size;
    return info;
}

static const char *job_peer_state(nb::handle rank)
{
    static const char *const states[] = {"alive", "lost", "finished"};
    int state = nixl_peer_state(read_rank(rank));

    if (state < 0) {
        fail(state);
    }
    return states[state];
}

struct RouteCall {
    int rank;
    unsigned index = 0;
    struct nixl_route_info info = NIXL_ROUTE_INFO_INIT;
    int run()
    {
        return nixl_route_query(rank, index, &info);
    }
};

static nb::dict route_dict(const struct nixl_route_info &info)
{
    nb::dict route;

    route["transport"] = nb::str(info.transport);
    route["is_usable"] = info.is_usable != 0;
    route["is_chosen"] = info.is_chosen != 0;
    route["latency_ns"] = info.latency_ns;
    route["bandwidth_mbps"] = info.bandwidth_mbps;
    route["nrails"] = info.nrails;
    route["library"] = nb::str(info.library);
    route["devices"] = nb::str(info.devices);
    route["why"] = nb::str(info.why);
    return route;
}

static nb::list job_routes(nb::handle rank)
{
    auto call = std::make_shared<RouteCall>();
    nb::list routes;

    call->rank = read_rank(rank);
    for (;; call->index++) {
        CallResult result =
            call_aside(call, [](void *state) { return ((RouteCall *)state)->run(); });

        if (result.status == NIXL_E_NOT_FOUND) {
            return routes;
        }
        if (result.status != NIXL_OK) {
            fail(result.detail);
        }
        routes.append(route_dict(call->info));
    }
}

struct KillCall {
    int rank;
    int run()
    {
        return nixl_rank_kill(rank);
    }
};

static void job_kill(nb::handle rank)
{
    auto call = std::make_shared<KillCall>();

    call->rank = read_rank(rank);
    run_aside(call);
}

static void job_readmit(nb::handle rank, nb::handle incarnation)
{
    const uint32_t number = read_u32(incarnation, "incarnation");
    const int again = read_rank(rank);

    check(nixl_peer_readmit(again, number));
    tokens_forget(again);
}

/* Writing may block. */
static void job_debug_dump(nb::handle descriptor)
{
    const int fd = read_int(descriptor, "fd");
    int status;

    {
        nb::gil_scoped_release other_threads;
        status = nixl_debug_dump(fd);
    }
    check(status);
}

/* A number of the job, or the failure. */
static int job_number(int (*get)())
{
    int number = get();

    if (number < 0) {
        fail(plain_detail(number, -1, ""));
    }
    return number;
}

/* The file of the library that is loaded. */
static std::string library_path()
{
    Dl_info info;
    bool is_known = dladdr(reinterpret_cast<void *>(&nixl_version), &info) != 0;

    return is_known && info.dli_fname != nullptr ? info.dli_fname : "";
}

void bind_job(nb::module_ &module)
{
    module.def("version", [] { return nixl_version(); });
    module.def("library_path", &library_path);
    module.attr("VERSION") = NIXL_VERSION;
    module.attr("VERSION_TEXT") = NIXLRUN_VERSION;
    module.attr("NOTE_MAX") = NIXL_NOTE_MAX;
    module.attr("NAME_MAX") = NIXL_NAME_MAX;
    module.def("init", &job_init, guarded);
    module.def("leave", &job_leave, "is_exit"_a);
    module.def("stay", [] { leave_end(false); });
    module.def("finalize", &job_finalize, guarded);
    module.def("finalize_late", &job_finalize_late);
    module.def("views_keep", &views_keep);
    module.def("is_forked", &is_forked);
    module.def("rank", [] { return job_number(nixl_rank); });
    module.def("size", [] { return job_number(nixl_size); });
    module.def("local_rank", [] { return job_number(nixl_local_rank); });
    module.def("local_size", [] { return job_number(nixl_local_size); });
    module.def("incarnation", [] { return job_number(nixl_incarnation); });
    module.def("readmit", &job_readmit, "rank"_a, "incarnation"_a);
    module.def("program", [] { return job_number(nixl_program); });
    module.def("peer", &job_peer, "rank"_a);
    module.def("peer_state", &job_peer_state, "rank"_a);
    module.def("routes", &job_routes, "rank"_a);
    module.def("kill", &job_kill, "rank"_a);
    module.def("debug_dump", &job_debug_dump, "fd"_a);
    module.def(
        "abort",
        [](nb::handle code, const std::string &why) {
            nixl_abort(read_int(code, "exit_code"), why.c_str());
        },
        "code"_a, "why"_a);
    module.def(
        "job_end",
        [](nb::handle code, const std::string &why) {
            nixl_job_end(read_int(code, "exit_code"), why.empty() ? nullptr : why.c_str());
        },
        "code"_a, "why"_a);
    module.def("views", [] {
        requests_reap();
        return (size_t)nviews;
    });
}

} // namespace nx
