/* SPDX-License-Identifier: Apache-2.0 */
/* Words of regions: atomics, signals, and waiting for them. */
#include "region.h"
#include "request.h"

#include <cstring>

namespace nx
{

/* In the order of enum nixl_atomic_op; "set" is the same as "swap". */
static const char *const atomic_ops[] = {"add",  "and", "or",    "xor",
                                         "swap", "set", "fetch", nullptr};
/* In the order of enum nixl_compare. */
static const char *const compares[] = {"==", "!=", "<", "<=", ">", ">=", nullptr};
static const char *const signal_ops[] = {"add", "set", nullptr};

static int read_word_type(const char *dtype)
{
    int type = read_type(dtype);

    if (type > NIXL_TYPE_DOUBLE) {
        fail_value(std::string("dtype is '") + dtype +
                   "'; allowed for words: int32, uint32, int64, uint64, float32, float64");
    }
    return type;
}

/* ---- atomics --------------------------------------------------------------------------------- */

struct AtomicWord {
    struct nixl_region *region;
    int rank;
    uint64_t offset;
    enum nixl_type type;
};

static AtomicWord atomic_word(const Region &region, nb::handle rank, nb::handle offset,
                              const char *dtype)
{
    return {region.handle(), read_rank(rank), read_u64(offset, "offset"),
            (enum nixl_type)read_word_type(dtype)};
}

static nb::object start_atomic(nb::object self, nb::handle rank, const char *op_name,
                               nb::handle offset, nb::handle value, const char *dtype,
                               nb::handle queue, nb::handle data, nb::handle timeout)
{
    Region *region = nb::inst_ptr<Region>(self);
    Use use(region);
    const AtomicWord word = atomic_word(*region, rank, offset, dtype);
    const auto op_code = (enum nixl_atomic_op)read_word(op_name, atomic_ops, "op");
    if (value.is_none() && strcmp(op_name, "fetch") != 0) {
        fail_type(std::string("op '") + op_name + "' needs a value");
    }
    const uint64_t operand = value.is_none() ? 0 : read_value(value, word.type);
    auto request = std::make_unique<Request>();
    Start start;

    start.set_queue(queue, data);
    request->value_type = word.type;
    request->operation->kept = self;
    segment_resolve(*region, word.rank, read_timeout(timeout));
    return start_request(
        "nixl_atomic_x", &start, 0, request.release(),
        [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *operation) {
            return nixl_atomic_x(word.rank, word.region, word.offset, word.type, op_code, &operand,
                                 op, &operation->value, req_p);
        });
}

static nb::object start_compare_swap(nb::object self, nb::handle rank, nb::handle offset,
                                     nb::handle expected, nb::handle desired, const char *dtype,
                                     nb::handle queue, nb::handle data, nb::handle timeout)
{
    Region *region = nb::inst_ptr<Region>(self);
    Use use(region);
    const AtomicWord word = atomic_word(*region, rank, offset, dtype);
    const uint64_t old_bits = read_value(expected, word.type);
    const uint64_t new_bits = read_value(desired, word.type);
    auto request = std::make_unique<Request>();
    Start start;

    start.set_queue(queue, data);
    request->value_type = word.type;
    request->operation->kept = self;
    segment_resolve(*region, word.rank, read_timeout(timeout));
    return start_request(
        "nixl_atomic_compare_swap_x", &start, 0, request.release(),
        [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *operation) {
            return nixl_atomic_compare_swap_x(word.rank, word.region, word.offset, word.type,
                                              &old_bits, &new_bits, op, &operation->value, req_p);
        });
}

/* ---- signals --------------------------------------------------------------------------------- */

static nb::object start_signal(nb::object self, nb::handle rank, nb::handle offset,
                               const char *op_name, nb::handle value, nb::handle stream,
                               nb::handle queue, nb::handle data)
{
    Region *region = nb::inst_ptr<Region>(self);
    Use use(region);
    struct nixl_region *handle = region->handle();
    const int target = read_rank(rank);
    const uint64_t at = read_u64(offset, "offset");
    const uint64_t operand = read_u64(value, "value");
    const auto op_code = (enum nixl_signal_op)read_word(op_name, signal_ops, "op");
    auto request = std::make_unique<Request>();
    Start start;

    start.set_queue(queue, data);
    start.set_stream(stream);
    request->operation->kept = self;
    segment_resolve(*region, target, default_timeout_ns);
    return start_request("nixl_signal_x", &start, 0, request.release(),
                         [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *) {
                             return nixl_signal_x(target, handle, at, op_code, operand, op, req_p);
                         });
}

/* Like start_signal(), and waits: for earlier puts, too. */
static void raise_signal(Region &region, nb::handle rank, nb::handle offset, const char *op_name,
                         nb::handle value, nb::handle stream, nb::handle timeout)
{
    Use use(&region);
    struct nixl_region *handle = region.handle();
    const int target = read_rank(rank);
    const uint64_t at = read_u64(offset, "offset");
    const uint64_t operand = read_u64(value, "value");
    const auto op_code = (enum nixl_signal_op)read_word(op_name, signal_ops, "op");
    const int64_t timeout_ns = read_timeout(timeout);
    Start start;

    start.set_stream(stream);
    segment_resolve(region, target, timeout_ns);
    run(timeout_ns, 0, {}, [&](struct nixl_req **req_p) {
        return nixl_signal_x(target, handle, at, op_code, operand,
                             start.is_plain ? nullptr : &start.op, req_p);
    });
}

/* The address of a word of this rank's segment; the caller uses the region. */
static const uint64_t *own_word(const Region &region, nb::handle offset)
{
    const uint64_t at = read_u64(offset, "offset");

    if (region.addr == nullptr || at % sizeof(uint64_t) != 0 || at >= region.nbytes ||
        region.nbytes - at < sizeof(uint64_t)) {
        fail_value("offset " + std::to_string(at) + " is no aligned 64-bit word of region '" +
                   region.name + "', of which this rank has " + std::to_string(region.nbytes) +
                   " bytes");
    }
    return (const uint64_t *)((const char *)region.addr + at);
}

static uint64_t signal_value(Region &region, nb::handle offset)
{
    Use use(&region);
    const uint64_t *word = own_word(region, offset);

    if (region.kind != NIXL_MEM_HOST) {
        fail_value("the signal is not in host memory: use Region.atomic() with 'fetch'");
    }
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static nb::object signal_wait(Region &region, nb::handle offset, nb::handle value,
                              const char *compare, nb::handle rank, nb::handle stream,
                              nb::handle timeout)
{
    Use use(&region);
    const uint64_t *word = own_word(region, offset);
    const uint64_t wanted = read_u64(value, "value");
    const auto how = (enum nixl_compare)read_word(compare, compares, "compare");
    const int64_t timeout_ns = read_timeout(timeout);
    uint64_t seen = 0;
    Start start;
    int status;

    start.set_stream(stream);
    if (!rank.is_none()) {
        start.op.flags |= NIXL_OP_RANK;
        start.op.rank = read_rank(rank);
    }
    if (!stream.is_none()) {
        check(nixl_signal_wait_x(word, how, wanted, &start.op, nullptr));
        return nb::none();
    }
    start.op.timeout_ns = NIXL_AT_ONCE;
    status = nixl_signal_wait_x(word, how, wanted, &start.op, &seen);
    if (status == NIXL_INPROGRESS && timeout_ns != 0) {
        status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            start.op.timeout_ns = ns;
            return nixl_signal_wait_x(word, how, wanted, &start.op, &seen);
        });
    }
    if (status == NIXL_INPROGRESS) {
        return nb::none();
    }
    check(status);
    return nb::int_(seen);
}

static nb::object start_signal_wait(nb::object self, nb::handle offset, nb::handle value,
                                    const char *compare, nb::handle rank, nb::handle queue,
                                    nb::handle data)
{
    Region *region = nb::inst_ptr<Region>(self);
    Use use(region);
    const uint64_t *word = own_word(*region, offset);
    const uint64_t wanted = read_u64(value, "value");
    const auto how = (enum nixl_compare)read_word(compare, compares, "compare");
    auto request = std::make_unique<Request>();
    Start start;

    if (queue.is_none()) {
        fail_value("a wait that is only started needs a queue");
    }
    start.set_queue(queue, data);
    if (!rank.is_none()) {
        start.op.flags |= NIXL_OP_RANK;
        start.op.rank = read_rank(rank);
    }
    request->value_type = NIXL_TYPE_UINT64;
    request->operation->kept = self;
    return start_request("nixl_signal_wait_x", &start, 0, request.release(),
                         [&](const struct nixl_op *op, struct nixl_req **, Operation *operation) {
                             return nixl_signal_wait_x(word, how, wanted, op, &operation->value);
                         });
}

/* `words`: a sequence of (region, offset). Returns the index of the first that compares true. */
static nb::object signal_wait_any(nb::sequence words, nb::handle value, const char *compare,
                                  nb::handle timeout)
{
    const uint64_t wanted = read_u64(value, "value");
    const auto how = (enum nixl_compare)read_word(compare, compares, "compare");
    const int64_t timeout_ns = read_timeout(timeout);
    std::vector<const uint64_t *> all;
    std::vector<Use> uses;
    size_t index = 0;
    int status;

    for (nb::handle word : words) {
        Region &region = nb::cast<Region &>(word[0]);

        uses.emplace_back(&region);
        all.push_back(own_word(region, nb::object(word[1])));
    }
    status = wait_in_slices(timeout_ns, [&](int64_t ns) {
        return nixl_signal_wait_any(all.data(), all.size(), how, wanted, ns, &index, nullptr);
    });
    if (status == NIXL_INPROGRESS) {
        return nb::none();
    }
    check(status);
    return nb::int_(index);
}

/* For asyncio, which makes these waits in a thread. */
static bool words_are_known(Region &region, nb::handle rank)
{
    Use use(&region);

    return segment_is_known(region, read_rank(rank));
}

static void words_resolve(Region &region, nb::handle rank)
{
    Use use(&region);

    segment_resolve(region, read_rank(rank), default_timeout_ns);
}

void bind_words(nb::module_ &module)
{
    module.def("start_atomic", &start_atomic, "region"_a, "rank"_a, "op"_a, "offset"_a,
               "value"_a.none(), "dtype"_a, "queue"_a.none(), "data"_a.none(), "timeout"_a.none(),
               guarded);
    module.def("start_compare_swap", &start_compare_swap, "region"_a, "rank"_a, "offset"_a,
               "expected"_a, "desired"_a, "dtype"_a, "queue"_a.none(), "data"_a.none(),
               "timeout"_a.none(), guarded);
    module.def("segment_is_known", &words_are_known, "region"_a, "rank"_a);
    module.def("segment_resolve", &words_resolve, "region"_a, "rank"_a);
    module.def("start_signal", &start_signal, "region"_a, "rank"_a, "offset"_a, "op"_a, "value"_a,
               "stream"_a.none(), "queue"_a.none(), "data"_a.none(), guarded);
    module.def("raise_signal", &raise_signal, "region"_a, "rank"_a, "offset"_a, "op"_a, "value"_a,
               "stream"_a.none(), "timeout"_a.none());
    module.def("signal_value", &signal_value, "region"_a, "offset"_a);
    module.def("signal_wait", &signal_wait, "region"_a, "offset"_a, "value"_a, "compare"_a,
               "rank"_a.none(), "stream"_a.none(), "timeout"_a.none());
    module.def("start_signal_wait", &start_signal_wait, "region"_a, "offset"_a, "value"_a,
               "compare"_a, "rank"_a.none(), "queue"_a.none(), "data"_a.none(), guarded);
    module.def("signal_wait_any", &signal_wait_any, "words"_a, "value"_a, "compare"_a,
               "timeout"_a.none());
}

} // namespace nx
