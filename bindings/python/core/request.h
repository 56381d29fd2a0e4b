/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that were started: requests, and the queues that report their end.
 *
 * Invariant. An Operation owns what the library reads and writes until the operation has ended. It
 * outlives its Request: one that is dropped in progress is kept among the orphans.
 */
#ifndef NIXLRUN_PYTHON_REQUEST_H
#define NIXLRUN_PYTHON_REQUEST_H

#include "core.h"

#include <functional>
#include <initializer_list>
#include <unordered_map>

namespace nx
{

struct Operation {
    struct nixl_req *req = nullptr;
    std::vector<Memory> held;
    nb::object kept;                  /* regions, indices and the like */
    uint64_t value = 0;               /* what an atomic or a signal has written */
    struct nixl_team *team = nullptr; /* what making a team has written */
};

struct Queue;
struct Region;

struct Request : Handle {
    std::unique_ptr<Operation> operation = std::make_unique<Operation>();
    const char *name = "";
    Queue *queue = nullptr; /* that reports it while it is in progress */
    nb::object queue_object;
    uint64_t id = 0;
    int status = NIXL_INPROGRESS;
    Detail detail;
    int value_type = -1;  /* of the result: enum nixl_type; -1: none */
    nb::object make_team; /* makes the result of a team */
    nb::object data;
    bool is_waiting = false;

    Request() = default;
    Request(const Request &) = delete;
    ~Request();
    void end(int status, const Detail &detail);
    bool test();
    nb::object wait(int64_t timeout_ns);
    nb::object result();
};

/* How an operation is started, as keyword arguments give it. */
struct Start {
    struct nixl_op op = NIXL_OP_INIT;
    bool is_plain = true; /* `op` says nothing */
    Memory message;
    std::string grant;
    Queue *queue = nullptr;
    nb::object queue_object;
    nb::object data;
    Region *signal_region = nullptr;
    Use queue_use, signal_use;
    int token_rank = -1; /* who has made the token that it uses; -1: none */
    Hold object_hold;    /* then: of what the call uses */

    void set_queue(nb::handle queue, nb::handle data);
    void set_context(struct nixl_context *context);
    void set_note(nb::handle tag, nb::handle message);
    /* None, or a tuple of region, offset, value, and "add" or "set". */
    void set_signal(nb::handle signal);
    void set_stream(nb::handle stream);
    /* None, or the token of a grant of that rank. */
    void set_grant(nb::handle token, int rank);
    /* May the library wait within the call, so that this thread makes it by token_start()? */
    bool goes_aside() const;
    void set_durable(bool is_durable);
    /* Wait for what a call for `region` would wait for within the library; raises failures. */
    void resolve(const Region &region, int rank, int64_t timeout_ns) const;
    /* How much a call does without the GIL: all of it if the owner of a grant is asked within. */
    size_t weight(size_t nbytes) const
    {
        return (op.flags & NIXL_OP_GRANT) != 0 ? SIZE_MAX : nbytes;
    }
};

/* Is the rank's segment of the region known, so that an atomic or a signal need not wait for it? */
bool segment_is_known(const Region &region, int rank);
/* Wait until it is; NotFoundError after NIXLRUN_RESOLVE_TIMEOUT. */
void segment_resolve(const Region &region, int rank, int64_t timeout_ns);

/* Register a request with its queue, and give it the outcome of its start; raises failures. */
void request_prepare(Request *request, nb::object self, Start *start);
void request_started(Request *request, int status, const Detail &detail);

/* Calls the library: call(op, req_p, operation). */
typedef std::function<int(const struct nixl_op *, struct nixl_req **, Operation *)> StartCall;

/* Start an operation aside. `call` must own what it has; `start` is used up. */
nb::object token_start(nb::object self, Start *start, StartCall call);
/* Is it known that no use of a token of that rank waits within the library? */
bool token_is_met(int rank);
/* A token of the rank was used. */
void token_meet(int rank);
/* The rank may be another process. */
void tokens_forget(int rank);
/* Cancel what was started after nobody waited for its start any more, and give up what it holds. */
void tokens_reap();

/*
 * Start an operation. `call(op, req_p, operation)` calls the library; `nbytes`: what it may copy.
 */
template <typename Call>
nb::object start_request(const char *name, Start *start, size_t nbytes, Request *request, Call call)
{
    nb::object self = nb::cast(request, nb::rv_policy::take_ownership);
    int status;

    request->name = name;
    request_prepare(request, self, start);
    if (start->goes_aside()) {
        return token_start(self, start, call);
    }
    const struct nixl_op *op = start->is_plain ? nullptr : &start->op;
    struct nixl_req **req_p = start->queue ? nullptr : &request->operation->req;
    if (start->weight(nbytes) > LOCKED_NBYTES) {
        Unlocked unlocked;
        status = call(op, req_p, request->operation.get());
    } else {
        status = call(op, req_p, request->operation.get());
    }
    if (start->token_rank >= 0 && status >= 0 && !token_is_met(start->token_rank)) {
        token_meet(start->token_rank);
    }
    request_started(request, status, status < 0 ? last_detail(status) : Detail());
    return self;
}

/* Give up what operations hold that have ended, and whose requests were dropped. */
void requests_reap();
/* Wait as a blocking call does: on a timeout or a signal the request is canceled. */
nb::object request_finish(Request &request, int64_t timeout_ns);

/* Wait for a request of the caller's own; on a signal or a timeout it is canceled. */
void run_slow(std::unique_ptr<Operation> operation, int64_t timeout_ns);

/* Carry out an operation: as start_request(), and wait for it. */
template <typename Call>
inline void run(int64_t timeout_ns, size_t nbytes, std::initializer_list<Memory *> memories,
                Call call)
{
    struct nixl_req *req = nullptr;
    int status;

    if (nbytes > LOCKED_NBYTES) {
        Unlocked unlocked;
        status = call(&req);
    } else {
        status = call(&req);
    }
    if (__builtin_expect(status == NIXL_OK, 1)) {
        return;
    }
    if (status != NIXL_INPROGRESS) {
        fail(status);
    }
    auto operation = std::make_unique<Operation>();
    operation->req = req;
    for (Memory *memory : memories) {
        operation->held.push_back(std::move(*memory));
    }
    run_slow(std::move(operation), timeout_ns);
}

struct Queue : Handle {
    struct nixl_cq *cq = nullptr;
    nb::object context;
    std::unordered_map<uint64_t, nb::object> started;
    std::vector<nb::object> ended; /* within their start: reported by the next drain */
    bool reports_ended = true;
    bool is_waiting = false;
    bool is_armed = false; /* somebody may sleep on the descriptor */
    bool is_woken = false; /* the entry of wake() was not taken yet */
    uint64_t next_id = 1;  /* 0: of wake() */

    Queue() = default;
    Queue(const Queue &) = delete;
    ~Queue();
    std::string what() const
    {
        return "the queue";
    }
    [[noreturn]] void fail_used() const
    {
        nx::fail_used(what(), users.count());
    }
    struct nixl_cq *handle() const;
    /* Let those who wait for the queue look at `ended`, of which the library does not know. */
    void wake();
};

} // namespace nx

#endif
