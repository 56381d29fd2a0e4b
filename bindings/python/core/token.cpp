/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that use a token. The library waits within such a call for whoever has made the token:
 * the main thread makes it aside, so that Ctrl-C ends the wait. The call then goes on by itself, and
 * what it has started is canceled.
 *
 * Invariant: what such a call uses is given up with the GIL, and not before the call has ended.
 */
#include "request.h"

#include <mutex>
#include <unordered_set>

namespace nx
{

/* What a call uses. */
struct TokenUse {
    nb::object request_object;
    Request *request;
    Queue *queue;
    struct nixl_op op;
    bool is_plain;
    std::string grant;
    Memory message;
    Hold object, queue_hold, signal_hold;
    StartCall call;
};

struct TokenCall {
    std::unique_ptr<TokenUse> use;
    int run() const
    {
        Operation *operation = use->request->operation.get();

        return use->call(use->is_plain ? nullptr : &use->op,
                         use->queue != nullptr ? nullptr : &operation->req, operation);
    }
};

struct Abandoned {
    std::shared_ptr<Aside> aside;
    std::shared_ptr<TokenCall> call;
};

/* Calls that nobody waits for any more. They outlive Python. The lock is a leaf. */
static auto &abandoned = *new std::vector<Abandoned>;
static auto &abandoned_lock = *new std::mutex;
static std::atomic<size_t> nabandoned;

/* Ranks of this host whose tokens need nothing any more for which a call would wait. */
static auto &met = *new std::unordered_set<int>;
static uint64_t met_life;

bool token_is_met(int rank)
{
    std::lock_guard<std::mutex> guard(abandoned_lock);

    if (met_life != life) {
        met.clear();
        met_life = life;
    }
    return met.count(rank) > 0;
}

void token_meet(int rank)
{
    const int scope = nixl_scope(rank);
    std::lock_guard<std::mutex> guard(abandoned_lock);

    if (scope == NIXL_SCOPE_SELF || scope == NIXL_SCOPE_LOCAL) {
        met.insert(rank);
    }
}

void tokens_forget(int rank)
{
    std::lock_guard<std::mutex> guard(abandoned_lock);

    met.erase(rank);
}

bool Start::goes_aside() const
{
    return token_rank >= 0 && is_main_thread() && !token_is_met(token_rank);
}

nb::object token_start(nb::object self, Start *start, StartCall call)
{
    auto late = std::make_shared<TokenCall>();
    Request *request = nb::inst_ptr<Request>(self);
    const int rank = start->token_rank;

    late->use.reset(new TokenUse{self, request, start->queue, start->op, start->is_plain,
                                 std::move(start->grant), std::move(start->message),
                                 std::move(start->object_hold), std::move(start->queue_use),
                                 std::move(start->signal_use), std::move(call)});
    if ((late->use->op.flags & NIXL_OP_GRANT) != 0) {
        late->use->op.grant = late->use->grant.c_str();
    }
    const std::shared_ptr<Aside> aside =
        aside_begin(late, [](void *state) { return ((TokenCall *)state)->run(); });
    CallResult result;

    try {
        result = aside_wait(aside);
    } catch (...) {
        std::lock_guard<std::mutex> guard(abandoned_lock);

        abandoned.push_back({aside, late});
        nabandoned = abandoned.size();
        throw;
    }
    late->use.reset(); /* the thread may have the call a little longer */
    if (result.status >= 0) {
        token_meet(rank);
    }
    request_started(request, result.status, result.detail);
    return self;
}

/* Nobody has the request: cancel what was started, and report nothing. */
static void abandoned_end(const TokenUse &use, const CallResult &result)
{
    Request *request = use.request;

    if (!request->is_of_this_life()) {
        return;
    }
    if (result.status != NIXL_INPROGRESS) {
        if (use.queue != nullptr) {
            use.queue->started.erase(request->id);
        }
        request->end(result.status, result.detail);
    } else if (use.queue != nullptr) {
        (void)nixl_cq_cancel(use.queue->cq, request->id);
    } else if (nixl_req_cancel(&request->operation->req, 0, nullptr) == NIXL_OK) {
        request->end(NIXL_E_CANCELED, plain_detail(NIXL_E_CANCELED, -1, request->name));
    }
}

void tokens_reap()
{
    std::vector<Abandoned> ended;

    if (nabandoned == 0 || is_leaving || is_forked()) {
        return;
    }
    {
        std::lock_guard<std::mutex> guard(abandoned_lock);

        for (size_t i = abandoned.size(); i-- > 0;) {
            if (aside_is_done(abandoned[i].aside)) {
                ended.push_back(std::move(abandoned[i]));
                abandoned.erase(abandoned.begin() + (ptrdiff_t)i);
            }
        }
        nabandoned = abandoned.size();
    }
    for (const Abandoned &one : ended) {
        Locked locked;

        abandoned_end(*one.call->use, aside_wait(one.aside));
        one.call->use.reset();
    }
}

void bind_token(nb::module_ &module)
{
    module.def(
        "token_is_met", [](nb::handle rank) { return token_is_met(read_rank(rank)); }, "rank"_a);
}

} // namespace nx
