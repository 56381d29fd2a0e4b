/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of blocks, whose indices may be arrays of numpy: prepared transfers, and grants. */
#include "blocks.h"
#include "region.h"
#include "request.h"
#include "usual.h"

#include <algorithm>
#include <array>

namespace nx
{

/* One side: the entries, and what keeps their memory. */
struct Side {
    std::vector<struct nixl_blocks> entries;
    std::vector<Memory> memories, indices;
    std::vector<nb::object> regions;
    std::vector<Hold> holds; /* of regions: a handle of one that is closed becomes another's */
};

struct Transfer : Handle {
    struct nixl_xfer *xfer = nullptr;
    nb::object context;
    bool is_put = true;
    int rank = 0;
    std::array<Side, 2> sides; /* of enum nixl_xfer_side */
    uint64_t nbytes = 0;

    Transfer() = default;
    Transfer(const Transfer &) = delete;
    ~Transfer();
    std::string what() const
    {
        return "the transfer";
    }
    [[noreturn]] void fail_used() const
    {
        nx::fail_used(what(), users.count());
    }
    struct nixl_xfer *handle() const
    {
        if (is_closed()) {
            fail_closed(what());
        }
        return xfer;
    }
};

Transfer::~Transfer()
{
    CountedUnderGil counted;

    if (xfer != nullptr && is_of_this_life() && !is_forked()) {
        if (nixl_xfer_free(xfer) == NIXL_E_IN_USE) {
            new std::array<Side, 2>(std::move(sides)); /* still read or written: never released */
        }
    }
}

/* An index: 64-bit integers, which are not copied. */
static Memory read_blocks_index(nb::handle object)
{
    Memory index = read_host_memory(object, "an index", true);

    if (index.type != NIXL_TYPE_UINT64 && index.type != NIXL_TYPE_INT64) {
        fail_type("an index must be a contiguous array of 64-bit integers, which is not copied; "
                  "convert it once, for instance by numpy's astype('uint64')");
    }
    return index;
}

/* A number of extents, or of one. */
static uint32_t read_extent(nb::handle number, const char *what)
{
    const uint64_t value = read_u64(number, what);

    if (value > UINT32_MAX) {
        fail_value(std::string(what) + " is " + std::to_string(value) + "; allowed: up to " +
                   std::to_string(UINT32_MAX) + " (ALL_EXTENTS)");
    }
    return (uint32_t)value;
}

/* Add an entry, which must be Blocks; `name`: the argument that has it. */
static void side_add(Side *side, nb::handle entry, const char *name, bool is_remote,
                     bool is_written)
{
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    const BlocksFields fields(entry, name);
    nb::handle memory = fields[BLOCKS_MEMORY];

    if (nb::isinstance<Region>(memory)) {
        Region *region = nb::inst_ptr<Region>(memory);

        side->regions.push_back(nb::borrow(memory));
        side->holds.emplace_back(region);
        blocks.region = region->region;
    } else if (is_remote) {
        fail_type(std::string("the memory of a remote side must be a Region, not ") +
                  type_text(memory));
    } else {
        side->memories.emplace_back(memory, is_written);
        blocks.addr = side->memories.back().addr;
    }
    blocks.block_nbytes = read_u64(fields[BLOCKS_BLOCK_NBYTES], "block_nbytes");
    blocks.offset = read_u64(fields[BLOCKS_OFFSET], "offset");
    blocks.stride = read_u64(fields[BLOCKS_STRIDE], "stride");
    blocks.nblocks = read_u64(fields[BLOCKS_COUNT], "count");
    blocks.nextents = read_extent(fields[BLOCKS_EXTENTS], "extents");
    blocks.first_extent = read_extent(fields[BLOCKS_FIRST_EXTENT], "first_extent");
    if (!fields[BLOCKS_INDEX].is_none()) {
        side->indices.push_back(read_blocks_index(fields[BLOCKS_INDEX]));
        blocks.index = (const uint64_t *)side->indices.back().addr;
        blocks.nblocks = side->indices.back().nbytes / sizeof(uint64_t);
    } else {
        side->indices.emplace_back();
    }
    side->entries.push_back(blocks);
}

/* Fill a side with Blocks, or with a sequence of them. */
static void side_fill(Side *side, nb::handle given, const char *name, bool is_remote,
                      bool is_written)
{
    if (is_blocks(given)) {
        side_add(side, given, name, is_remote, is_written);
        return;
    }
    const size_t n = nb::len_hint(given);

    side->entries.reserve(n);
    side->indices.reserve(n);
    (is_remote ? side->regions.reserve(n) : side->memories.reserve(n));
    for (nb::handle entry : nb::iter(given)) {
        side_add(side, entry, name, is_remote, is_written);
    }
}

/* Do all numbers of blocks keep to a limit? Without a branch, so that a compiler takes several. */
static bool index_is_within(const uint64_t *index, uint64_t n, uint64_t limit)
{
    const uint64_t top = (uint64_t)1 << 63;
    uint64_t seen = 0;

    for (uint64_t i = 0; i < n; i++) {
        seen |= index[i] | (limit - index[i]); /* what is larger than the limit wraps */
    }
    return (seen & top) == 0;
}

/* The greatest number of a block; the caller has checked that there is one. */
static uint64_t blocks_last(const struct nixl_blocks &blocks)
{
    return blocks.index == nullptr ? blocks.nblocks - 1
                                   : *std::max_element(blocks.index, blocks.index + blocks.nblocks);
}

/* Is each block within so many bytes? A limit is below 2**63: no buffer is larger. */
static bool blocks_are_within(const struct nixl_blocks &blocks, size_t nbytes)
{
    if (nbytes < blocks.block_nbytes || nbytes - blocks.block_nbytes < blocks.offset) {
        return false;
    }
    if (blocks.stride == 0) {
        return true;
    }
    const uint64_t limit = (nbytes - blocks.block_nbytes - blocks.offset) / blocks.stride;

    return blocks.index == nullptr ? blocks.nblocks - 1 <= limit
                                   : index_is_within(blocks.index, blocks.nblocks, limit);
}

/* Memory of the caller's has a known size, which the library does not see. */
static void side_check(const Side &side)
{
    size_t at = 0;

    for (const struct nixl_blocks &blocks : side.entries) {
        if (blocks.region != nullptr) {
            continue;
        }
        const size_t nbytes = side.memories[at++].nbytes;
        if (blocks.nblocks == 0 || blocks_are_within(blocks, nbytes)) {
            continue;
        }
        PyErr_SetString(PyExc_IndexError,
                        ("block number " + std::to_string(blocks_last(blocks)) +
                         " goes beyond the local buffer of " + std::to_string(nbytes) + " bytes")
                            .c_str());
        throw nb::python_error();
    }
}

/* Know the remote segments, so that the creation does not wait. */
static void resolve(const Transfer &transfer)
{
    struct nixl_region *last = nullptr;

    for (const nb::object &region : transfer.sides[NIXL_XFER_REMOTE].regions) {
        struct nixl_region *handle = nb::inst_ptr<Region>(region)->region;
        struct nixl_region_info info = NIXL_REGION_INFO_INIT;

        if (handle == last) {
            continue; /* many entries of one region: layers of a cache */
        }
        last = handle;
        int status = wait_in_slices(default_timeout_ns, [&](int64_t ns) {
            return nixl_region_query(transfer.rank, handle, ns, &info);
        });

        if (status == NIXL_INPROGRESS) {
            fail(plain_detail(NIXL_E_TIMEOUT, transfer.rank, "nixl_xfer_create"));
        }
        check(status);
    }
}

static void transfer_init(Transfer *self, nb::object context, const char *op_name, nb::handle rank,
                          nb::handle local, nb::handle remote)
{
    static const char *const ops[] = {"put", "get", nullptr};
    const auto op = (enum nixl_xfer_op)read_word(op_name, ops, "op");
    auto transfer = std::make_unique<Transfer>();
    Side &here = transfer->sides[NIXL_XFER_LOCAL], &there = transfer->sides[NIXL_XFER_REMOTE];
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    int status;

    nb::cast<Context &>(context).handle();
    transfer->rank = read_rank(rank);
    transfer->is_put = op == NIXL_XFER_PUT;
    transfer->context = context;
    side_fill(&here, local, "local", false, op == NIXL_XFER_GET);
    side_fill(&there, remote, "remote", true, false);
    resolve(*transfer);
    side_check(here);
    {
        Unlocked unlocked;
        status = nixl_xfer_create(op, transfer->rank, here.entries.data(), here.entries.size(),
                                  there.entries.data(), there.entries.size(), &transfer->xfer);
    }
    check(status);
    check(nixl_xfer_query(transfer->xfer, &info));
    new (self) Transfer();
    self->xfer = transfer->xfer;
    transfer->xfer = nullptr;
    self->rank = transfer->rank;
    self->context = transfer->context;
    self->is_put = transfer->is_put;
    self->sides = std::move(transfer->sides);
    self->nbytes = info.nbytes;
}

/* Indices may have changed since; the library checks those of regions itself. */
static void transfer_check(const Transfer &transfer)
{
    for (const Memory &index : transfer.sides[NIXL_XFER_LOCAL].indices) {
        if (index.addr != nullptr) {
            side_check(transfer.sides[NIXL_XFER_LOCAL]);
            return;
        }
    }
}

static nb::object transfer_start(nb::object self, nb::handle tag, nb::handle message,
                                 nb::handle signal, nb::handle grant, bool durable,
                                 nb::handle queue, nb::handle data)
{
    Transfer *transfer = nb::inst_ptr<Transfer>(self);
    Use use(transfer);
    struct nixl_xfer *xfer = transfer->xfer;
    auto request = std::make_unique<Request>();
    Start start;

    transfer_check(*transfer);
    start.set_queue(queue, data);
    start.set_note(tag, message);
    start.set_signal(signal);
    start.set_grant(grant, transfer->rank);
    start.object_hold.begin(transfer);
    start.set_durable(durable);
    start.set_context(nb::cast<Context &>(transfer->context).handle());
    if (start.signal_region != nullptr) {
        segment_resolve(*start.signal_region, transfer->rank, default_timeout_ns);
    }
    request->operation->kept = self;
    return start_request("nixl_xfer_start_x", &start, transfer->nbytes, request.release(),
                         [xfer](const struct nixl_op *op, struct nixl_req **req_p, Operation *) {
                             return nixl_xfer_start_x(xfer, op, req_p);
                         });
}

static PyObject *general_start;

/* start() without an argument. */
static PyObject *transfer_usual_start(PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *names)
{
    if (nargs > 0 || names != nullptr || !nb::inst_ready(self)) {
        return call_general(general_start, self, args, nargs, names);
    }
    return call_usual([&] {
        Locked locked;
        nb::handle none(Py_None);

        return transfer_start(nb::borrow(self), none, none, none, none, false, none, none);
    });
}

static PyMethodDef usual_start = USUAL_METHOD(
    "start", transfer_usual_start,
    "start($self, *, tag=None, msg=None, signal=None, grant=None, durable=False, queue=None, "
    "data=None)\n--\n\n"
    R"(Start it: indices and local memory must not change until the request has ended.

Args:
    tag, msg: a notification to the rank behind the last byte.
    signal: of a put: Signal.adding() or setting(), which happens behind the data.
    grant: the token of Job.grant(), if the rank has lent its blocks.
    durable: of a put into files: it ends, and what follows it comes, when all of its bytes are on
        the medium.
    queue: the queue that reports the end; None: the request is waited for.

Raises:
    RangeError, IndexError: an index points outside of a segment or buffer; nothing moved.
    InUseError: the last start has not ended.)");

static void transfer_run(nb::object self, nb::handle tag, nb::handle message, nb::handle grant,
                         bool durable, nb::handle timeout)
{
    Transfer &transfer = *nb::inst_ptr<Transfer>(self);
    Use use(&transfer);
    struct nixl_xfer *xfer = transfer.xfer;
    const int64_t timeout_ns = read_timeout(timeout);
    const nb::handle none(Py_None);
    Start start;

    start.set_grant(grant, transfer.rank);
    if (start.goes_aside()) {
        nb::object started = transfer_start(self, tag, message, none, grant, durable, none, none);

        (void)request_finish(*nb::inst_ptr<Request>(started), timeout_ns);
        return;
    }
    transfer_check(transfer);
    start.set_note(tag, message);
    start.set_durable(durable);
    start.set_context(nb::cast<Context &>(transfer.context).handle());
    run(timeout_ns, start.weight(transfer.nbytes), {&start.message},
        [&](struct nixl_req **req_p) { return nixl_xfer_start_x(xfer, &start.op, req_p); });
}

static void transfer_set_index(Transfer &transfer, const char *side_name, nb::handle number,
                               nb::handle object)
{
    static const char *const names[] = {"local", "remote", nullptr};
    const auto side = (enum nixl_xfer_side)read_word(side_name, names, "side");
    Side &changed = transfer.sides[side];
    const uint64_t entry = read_u64(number, "entry");
    Memory index = read_blocks_index(object);

    if (entry >= changed.entries.size()) {
        fail_value("entry is " + std::to_string(entry) + "; the side has " +
                   std::to_string(changed.entries.size()));
    }
    check(nixl_xfer_set_index(transfer.handle(), side, entry, index.nbytes / sizeof(uint64_t),
                              (const uint64_t *)index.addr));
    changed.entries[entry].index = (const uint64_t *)index.addr;
    changed.entries[entry].nblocks = index.nbytes / sizeof(uint64_t);
    changed.indices[entry] = std::move(index);
}

static nb::dict transfer_info(Transfer &transfer)
{
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    nb::dict known;

    check(nixl_xfer_query(transfer.handle(), &info));
    known["nbytes"] = info.nbytes;
    known["nblocks"] = info.nblocks;
    known["memory_nbytes"] = info.memory_nbytes;
    known["estimated_ns"] = info.estimated_ns;
    known["nstarts"] = info.nstarts;
    known["npieces"] = info.npieces;
    known["took_ns"] = info.took_ns;
    known["had_estimated_ns"] = info.had_estimated_ns;
    return known;
}

static void transfer_close(Transfer *transfer)
{
    Closing closing(transfer);
    std::array<Side, 2> sides; /* giving them up may call Python */

    if (!closing.is_mine()) {
        return;
    }
    if (transfer->is_of_this_life()) {
        check(nixl_xfer_free(transfer->xfer));
    }
    closing.done();
    transfer->xfer = nullptr;
    std::swap(sides, transfer->sides);
}

/* ---- grants: blocks that are lent ------------------------------------------------------------ */

static nb::tuple grant_create(nb::handle blocks, unsigned rights, nb::handle uses,
                              nb::handle lifetime)
{
    struct nixl_grant_params params = NIXL_GRANT_PARAMS_INIT;
    char token[NIXL_TOKEN_MAX + 1];
    auto request = std::make_unique<Request>();
    Side side;
    Start start;

    side_add(&side, blocks, "blocks", true, false);
    params.rights = rights;
    if (!uses.is_none()) {
        const uint64_t number = read_u64(uses, "uses");

        if (number < 1 || number > NIXL_GRANT_USES_MAX) {
            fail_value("uses is " + std::to_string(number) + "; allowed: 1 to " +
                       std::to_string(NIXL_GRANT_USES_MAX) + ", or None: any number");
        }
        params.uses = (uint32_t)number;
    }
    params.lifetime_ns = lifetime.is_none() ? 0 : read_timeout(lifetime);
    if (params.lifetime_ns == 0 && !lifetime.is_none()) { /* which is no limit to the library */
        fail_value("lifetime is 0; allowed: seconds above 0, or None: no limit");
    }
    request->operation->kept = side.regions.front();
    nb::object made = start_request(
        "nixl_grant_create", &start, 0, request.release(),
        [&](const struct nixl_op *, struct nixl_req **req_p, Operation *) {
            return nixl_grant_create(&side.entries.front(), &params, token, sizeof(token), req_p);
        });
    return nb::make_tuple(nb::str(token), made);
}

struct GrantCall {
    std::string token;
    int64_t time_ns = 0;
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    int (*call)(GrantCall *);
    int run()
    {
        return call(this);
    }
};

static void grant_renew(const std::string &token, nb::handle lifetime)
{
    auto call = std::make_shared<GrantCall>();

    call->token = token;
    call->time_ns = read_timeout(lifetime);
    call->call = [](GrantCall *of) { return nixl_grant_renew(of->token.c_str(), of->time_ns); };
    run_aside(call);
}

static void grant_revoke(const std::string &token, nb::handle timeout)
{
    int status = wait_in_slices(read_timeout(timeout),
                                [&](int64_t ns) { return nixl_grant_revoke(token.c_str(), ns); });

    if (status == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, -1, "nixl_grant_revoke"));
    }
    check(status);
}

static nb::dict grant_query(const std::string &token)
{
    static const char *const states[] = {"", "open", "used", "expired", "revoked", "closed"};
    auto call = std::make_shared<GrantCall>();
    nb::dict known;

    call->token = token;
    call->call = [](GrantCall *of) { return nixl_grant_query(of->token.c_str(), &of->info); };
    run_aside(call);
    const struct nixl_grant_info &info = call->info;
    known["rank"] = info.rank;
    known["state"] = states[info.state];
    known["may_read"] = (info.rights & NIXL_GRANT_READ) != 0;
    known["may_write"] = (info.rights & NIXL_GRANT_WRITE) != 0;
    known["uses_left"] =
        info.uses_left == UINT32_MAX ? nb::none() : nb::object(nb::int_(info.uses_left));
    known["users"] = info.nusers;
    known["left"] = info.left_ns == NIXL_FOREVER
                        ? nb::none()
                        : nb::object(nb::float_((double)info.left_ns / 1e9));
    known["nbytes"] = info.nbytes;
    return known;
}

void bind_transfer(nb::module_ &module)
{
    nb::class_<Transfer> type(module, "Transfer");
    nb::object none = nb::none();

    type.def("__init__", &transfer_init, "context"_a, "op"_a, "rank"_a, "local"_a.none(),
             "remote"_a.none());
    type.def("start", &transfer_start, nb::kw_only(), "tag"_a.none() = none, "msg"_a.none() = none,
             "signal"_a.none() = none, "grant"_a.none() = none, "durable"_a = false,
             "queue"_a.none() = none, "data"_a.none() = none, guarded);
    bind_usual(type, &usual_start, &general_start);
    type.def("run", &transfer_run, nb::kw_only(), "tag"_a.none() = none, "msg"_a.none() = none,
             "grant"_a.none() = none, "durable"_a = false,
             "timeout"_a.none() = nb::borrow(default_timeout), guarded);
    hide(type, {"run"});
    type.def("set_index", &transfer_set_index, "side"_a, "entry"_a, "index"_a, guarded);
    type.def("_info", &transfer_info, guarded);
    type.def("close", &transfer_close, guarded);
    type.def_prop_ro("is_closed", [](const Transfer &transfer) { return transfer.is_closed(); });
    type.def_ro("rank", &Transfer::rank).def_ro("nbytes", &Transfer::nbytes);
    module.def("grant_create", &grant_create, "blocks"_a, "rights"_a, "uses"_a.none(),
               "lifetime"_a.none(), guarded);
    module.def("grant_renew", &grant_renew, "token"_a, "lifetime"_a.none());
    module.def("grant_revoke", &grant_revoke, "token"_a, "timeout"_a.none());
    module.def("grant_query", &grant_query, "token"_a);
}

} // namespace nx
