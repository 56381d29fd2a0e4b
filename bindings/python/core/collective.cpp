/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of teams. All are started; the blocking forms of the Python class wait for their
 * requests, so that a signal ends them. Prepared ones are made by the functions that start them,
 * which then get a Prepared where a queue is expected.
 */
#include "request.h"
#include "team.h"

namespace nx
{

/* ---- what collectives have in common --------------------------------------------------------- */

/* A prepared collective: it keeps its team and its memory. */
struct Prepared : Handle {
    struct nixl_coll *coll = nullptr;
    std::vector<Memory> held;
    nb::object team;

    Prepared() = default;
    Prepared(const Prepared &) = delete;
    ~Prepared()
    {
        CountedUnderGil counted;

        /* A team that was freed has freed it: the handle may be another one's by now. */
        if (!is_freed() && !is_forked() && nixl_coll_free(coll) == NIXL_E_IN_USE) {
            (void)new std::vector<Memory>(std::move(held)); /* a start goes on: they stay */
        }
    }
    bool is_freed() const
    {
        return coll == nullptr || is_closed() ||
               nb::inst_ptr<Team>(team)->is_closed(); /* which frees them */
    }
    std::string what() const
    {
        return "the prepared collective";
    }
    [[noreturn]] void fail_used() const
    {
        nx::fail_used(what(), users.count());
    }
    struct nixl_coll *handle() const
    {
        if (is_freed()) {
            fail_closed(what());
        }
        return coll;
    }
};

/* What collectives have in common: the request keeps the team and the memory. */
struct Collective {
    std::unique_ptr<Request> request = std::make_unique<Request>();
    Use use;
    Start start;
    Prepared *prepared = nullptr; /* what is made, if it is not started */
    Memory none;                  /* of an argument that is None */
    struct nixl_team *team;
    int size, rank;

    Collective(nb::object self, nb::handle queue, nb::handle data)
    {
        Team *of = nb::inst_ptr<Team>(self);

        use.begin(of);
        team = of->handle();
        size = of->size();
        rank = of->rank();
        if (nb::isinstance<Prepared>(queue)) {
            prepared = nb::inst_ptr<Prepared>(queue);
            prepared->team = self;
        } else {
            start.set_queue(queue, data);
        }
        request->operation->kept = self;
    }
    /* Memory of an argument that may be None; it must have `nbytes`, unless that is SIZE_MAX. */
    Memory *hold(nb::handle object, bool is_written, size_t nbytes, const char *name)
    {
        if (object.is_none()) {
            return &none;
        }
        request->operation->held.reserve(4);
        request->operation->held.emplace_back(object, is_written, true);
        Memory *memory = &request->operation->held.back();
        if (nbytes != SIZE_MAX && memory->nbytes != nbytes) {
            fail_value(std::string(name) + " has " + std::to_string(memory->nbytes) +
                       " bytes; this team of " + std::to_string(size) + " needs " +
                       std::to_string(nbytes));
        }
        return memory;
    }
    /* All members have come before: it waits for none for long. */
    template <typename Call> nb::object prepare(Call call)
    {
        struct nixl_op op = NIXL_OP_INIT;
        int status;

        op.flags = NIXL_OP_PREPARE;
        op.coll_p = &prepared->coll;
        {
            Unlocked unlocked;
            status = call(&op, nullptr);
        }
        check(status);
        prepared->held = std::move(request->operation->held);
        return nb::none();
    }
    template <typename Call> nb::object run(const char *name, size_t nbytes, Call call)
    {
        if (prepared != nullptr) {
            return prepare(call);
        }
        return start_request(name, &start, nbytes, request.release(),
                             [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *) {
                                 return call(op, req_p);
                             });
    }
};

/* ---- moving data ------------------------------------------------------------------------------ */

static nb::object start_barrier(nb::object self, nb::handle queue, nb::handle data)
{
    Collective all(self, queue, data);

    return all.run("nixl_barrier_x", 0, [&](const struct nixl_op *op, struct nixl_req **req_p) {
        return nixl_barrier_x(all.team, op, req_p);
    });
}

static nb::object start_broadcast(nb::object self, nb::handle buffer, nb::handle root_object,
                                  nb::handle queue, nb::handle data)
{
    Collective all(self, queue, data);
    const int root = read_int(root_object, "root");
    const Memory *memory = all.hold(buffer, all.rank != root, SIZE_MAX, "buf");

    return all.run("nixl_broadcast_x", memory->nbytes,
                   [&, addr = memory->addr, nbytes = memory->nbytes](const struct nixl_op *op,
                                                                     struct nixl_req **req_p) {
                       return nixl_broadcast_x(all.team, root, addr, nbytes, op, req_p);
                   });
}

static void need(nb::handle object, const char *name)
{
    if (object.is_none()) {
        fail_type(std::string(name) + " is None, but this member needs it");
    }
}

/* src of each goes to its place in dst of the root, or of all (None). */
static nb::object start_gather(nb::object self, nb::handle src, nb::handle dst,
                               nb::handle root_object, nb::handle queue, nb::handle data)
{
    Collective all(self, queue, data);
    const bool is_for_all = root_object.is_none();
    const int root = is_for_all ? -1 : read_int(root_object, "root");
    const bool gets = is_for_all || all.rank == root;
    size_t nbytes;
    const void *from;
    void *to = nullptr;

    if (gets) {
        need(dst, "dst");
    }
    if (src.is_none()) { /* in place */
        if (!gets) {
            need(src, "src");
        }
        Memory *whole = all.hold(dst, true, SIZE_MAX, "dst");
        if (whole->nbytes % (size_t)all.size != 0) {
            fail_value("dst has " + std::to_string(whole->nbytes) +
                       " bytes, which is no multiple of the " + std::to_string(all.size) +
                       " members");
        }
        nbytes = whole->nbytes / (size_t)all.size;
        to = whole->addr;
        from = (char *)to + (size_t)all.rank * nbytes;
    } else {
        Memory *mine = all.hold(src, false, SIZE_MAX, "src");
        nbytes = mine->nbytes;
        from = mine->addr;
        if (gets) {
            to = all.hold(dst, true, nbytes * (size_t)all.size, "dst")->addr;
        }
    }
    return all.run(is_for_all ? "nixl_allgather_x" : "nixl_gather_x", SIZE_MAX,
                   [&](const struct nixl_op *op, struct nixl_req **req_p) {
                       return is_for_all
                                  ? nixl_allgather_x(all.team, from, to, nbytes, op, req_p)
                                  : nixl_gather_x(all.team, root, from, to, nbytes, op, req_p);
                   });
}

static nb::object start_scatter(nb::object self, nb::handle src, nb::handle dst,
                                nb::handle root_object, nb::handle queue, nb::handle data)
{
    Collective all(self, queue, data);
    const int root = read_int(root_object, "root");
    const void *from = nullptr;

    need(dst, "dst");
    Memory *mine = all.hold(dst, true, SIZE_MAX, "dst");
    const size_t nbytes = mine->nbytes;
    void *to = mine->addr;
    if (all.rank == root) {
        need(src, "src");
        from = all.hold(src, false, nbytes * (size_t)all.size, "src")->addr;
    }
    return all.run("nixl_scatter_x", SIZE_MAX,
                   [&](const struct nixl_op *op, struct nixl_req **req_p) {
                       return nixl_scatter_x(all.team, root, from, to, nbytes, op, req_p);
                   });
}

static nb::object start_alltoall(nb::object self, nb::handle src, nb::handle dst, nb::handle queue,
                                 nb::handle data)
{
    Collective all(self, queue, data);

    need(dst, "dst");
    Memory *got = all.hold(dst, true, SIZE_MAX, "dst");
    const size_t whole = got->nbytes;
    void *to = got->addr;
    const void *from = src.is_none() ? to : all.hold(src, false, whole, "src")->addr;
    if (whole % (size_t)all.size != 0) {
        fail_value("dst has " + std::to_string(whole) + " bytes, which is no multiple of the " +
                   std::to_string(all.size) + " members");
    }
    return all.run(
        "nixl_alltoall_x", SIZE_MAX, [&](const struct nixl_op *op, struct nixl_req **req_p) {
            return nixl_alltoall_x(all.team, from, to, whole / (size_t)all.size, op, req_p);
        });
}

/* ---- pieces of different sizes --------------------------------------------------------------- */

/* Where the pieces of one side are: counts of elements, one behind the other. */
struct Pieces {
    std::vector<size_t> nbytes, offsets;
    size_t total = 0;

    void read(nb::handle counts, size_t item_nbytes, int size, const char *name)
    {
        if (counts.is_none()) {
            fail_type(std::string(name) + " is None, but this member needs it");
        }
        for (nb::handle count : counts) {
            size_t size_of_piece;

            offsets.push_back(total);
            if (__builtin_mul_overflow(read_u64(count, name), item_nbytes, &size_of_piece) ||
                __builtin_add_overflow(total, size_of_piece, &total)) {
                fail_value(std::string(name) + " need more bytes than any memory has");
            }
            nbytes.push_back(size_of_piece);
        }
        if (nbytes.size() != (size_t)size) {
            fail_value(std::string(name) + " has " + std::to_string(nbytes.size()) +
                       " entries; the team has " + std::to_string(size) + " members");
        }
    }
    void check(const Memory &memory, const char *name) const
    {
        if (total > memory.nbytes) {
            fail_value(std::string(name) + " has " + std::to_string(memory.nbytes) +
                       " bytes; its counts need " + std::to_string(total));
        }
    }
};

/* gatherv, scatterv, allgatherv, alltoallv: which sides have counts depends on the member. */
static nb::object start_vector(nb::object self, const char *name, nb::handle src,
                               nb::handle src_counts, nb::handle dst, nb::handle dst_counts,
                               nb::handle root_object, nb::handle queue, nb::handle data)
{
    static const char *const names[] = {"gatherv", "scatterv", "allgatherv", "alltoallv", nullptr};
    const int which = read_word(name, names, "name");
    Collective all(self, queue, data);
    const int root = read_int(root_object, "root");
    const bool is_root = all.rank == root;
    const bool splits = which == 3 || (which == 1 && is_root);
    const bool joins = which == 2 || which == 3 || (which == 0 && is_root);
    struct nixl_vector_args args = NIXL_VECTOR_ARGS_INIT;
    Pieces sent, got;

    if (which != 1 || is_root) {
        need(src, "src");
        Memory *memory = all.hold(src, false, SIZE_MAX, "src");
        args.src = memory->addr;
        args.nbytes = memory->nbytes;
        if (splits) {
            sent.read(src_counts, memory->item_nbytes, all.size, "src_counts");
            sent.check(*memory, "src");
        }
    }
    if (which != 0 || is_root) {
        need(dst, "dst");
        Memory *memory = all.hold(dst, true, SIZE_MAX, "dst");
        args.dst = memory->addr;
        if (which == 1) {
            args.nbytes = memory->nbytes;
        }
        if (joins) {
            got.read(dst_counts, memory->item_nbytes, all.size, "dst_counts");
            got.check(*memory, "dst");
        }
    }
    args.src_nbytes = sent.nbytes.data();
    args.src_offsets = sent.offsets.data();
    args.dst_nbytes = got.nbytes.data();
    args.dst_offsets = got.offsets.data();
    return all.run(name, SIZE_MAX, [&](const struct nixl_op *op, struct nixl_req **req_p) {
        switch (which) {
        case 0:
            return nixl_gatherv_x(all.team, root, &args, op, req_p);
        case 1:
            return nixl_scatterv_x(all.team, root, &args, op, req_p);
        case 2:
            return nixl_allgatherv_x(all.team, &args, op, req_p);
        default:
            return nixl_alltoallv_x(all.team, &args, op, req_p);
        }
    });
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* The type of the elements: as the caller says, or as the arrays do. */
static int element_type(nb::handle dtype, const Memory &memory)
{
    if (!dtype.is_none()) {
        return read_type(nb::cast<const char *>(dtype));
    }
    if (memory.type < 0) {
        fail_type("the array has no type that a reduction knows; give dtype=, such as 'float32'");
    }
    return memory.type;
}

/* reduce, allreduce, reduce_scatter, scan, exscan. src None: in place, in dst. */
static nb::object start_reduce(nb::object self, const char *name, nb::handle src, nb::handle dst,
                               const char *op_name, nb::handle root_object, nb::handle dtype,
                               nb::handle queue, nb::handle data)
{
    static const char *const names[] = {"reduce", "allreduce", "reduce_scatter",
                                        "scan",   "exscan",    nullptr};
    static const char *const ops[] = {"sum", "prod", "min", "max", "and", "or", "xor", nullptr};
    const int which = read_word(name, names, "name");
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    Collective all(self, queue, data);
    const int root = read_int(root_object, "root");
    const bool gets = which != 0 || all.rank == root;
    const size_t times = which == 2 ? (size_t)all.size : 1;
    Memory *from = nullptr, *to = nullptr;

    args.op = read_word(op_name, ops, "op");
    if (gets || src.is_none()) {
        need(dst, "dst");
        to = all.hold(dst, true, SIZE_MAX, "dst");
    }
    if (!src.is_none()) {
        from = all.hold(src, false, to == nullptr ? SIZE_MAX : to->nbytes * times, "src");
    }
    if (from == nullptr && times > 1 && to->nbytes % times != 0) {
        fail_value("dst has " + std::to_string(to->nbytes) +
                   " bytes, which is no multiple of the members");
    }
    args.type = element_type(dtype, from == nullptr ? *to : *from);
    args.src = from == nullptr ? to->addr : from->addr;
    args.dst = to == nullptr ? nullptr : to->addr;
    const size_t all_nbytes = from == nullptr ? to->nbytes : from->nbytes;
    args.count = all_nbytes / times / type_nbytes(args.type);
    if (args.count * times * type_nbytes(args.type) != all_nbytes) {
        fail_value("the array has " + std::to_string(all_nbytes) +
                   " bytes, which is no number of elements");
    }
    args.is_exclusive = which == 4;
    return all.run(name, SIZE_MAX, [&](const struct nixl_op *op, struct nixl_req **req_p) {
        switch (which) {
        case 0:
            return nixl_reduce_x(all.team, root, &args, op, req_p);
        case 1:
            return nixl_allreduce_x(all.team, &args, op, req_p);
        case 2:
            return nixl_reduce_scatter_x(all.team, &args, op, req_p);
        default:
            return nixl_scan_x(all.team, &args, op, req_p);
        }
    });
}

/* ---- prepared -------------------------------------------------------------------------------- */

static nb::object prepared_start(nb::object self, nb::handle queue, nb::handle data)
{
    Prepared *prepared = nb::inst_ptr<Prepared>(self);
    struct nixl_coll *coll = prepared->handle();
    Use use(prepared);
    Use team_use(nb::inst_ptr<Team>(prepared->team));
    auto request = std::make_unique<Request>();
    Start start;

    start.set_queue(queue, data);
    request->operation->kept = self;
    return start_request("nixl_coll_start_x", &start, SIZE_MAX, request.release(),
                         [&](const struct nixl_op *op, struct nixl_req **req_p, Operation *) {
                             return nixl_coll_start_x(coll, op, req_p);
                         });
}

static void prepared_free(Prepared *prepared)
{
    Closing closing(prepared);
    std::vector<Memory> held; /* giving it up may call Python */

    if (!closing.is_mine()) {
        return;
    }
    if (prepared->coll != nullptr && prepared->is_of_this_life() &&
        !nb::inst_ptr<Team>(prepared->team)->is_closed()) {
        check(nixl_coll_free(prepared->coll));
    }
    closing.done();
    prepared->coll = nullptr;
    held.swap(prepared->held);
}

static void bind_prepared(nb::module_ &module)
{
    nb::class_<Prepared> type(module, "Prepared");

    type.def(nb::init<>());
    type.def("_start", &prepared_start, "queue"_a.none(), "data"_a.none(), guarded);
    type.def("free", &prepared_free, guarded);
    type.def_prop_ro("is_freed", &Prepared::is_freed, guarded);
}

void bind_collective(nb::module_ &module)
{
    bind_prepared(module);
    module.def("start_barrier", &start_barrier, "team"_a, "queue"_a.none(), "data"_a.none(),
               guarded);
    module.def("start_broadcast", &start_broadcast, "team"_a, "buf"_a, "root"_a, "queue"_a.none(),
               "data"_a.none(), guarded);
    module.def("start_gather", &start_gather, "team"_a, "src"_a.none(), "dst"_a.none(),
               "root"_a.none(), "queue"_a.none(), "data"_a.none(), guarded);
    module.def("start_scatter", &start_scatter, "team"_a, "src"_a.none(), "dst"_a.none(), "root"_a,
               "queue"_a.none(), "data"_a.none(), guarded);
    module.def("start_alltoall", &start_alltoall, "team"_a, "src"_a.none(), "dst"_a.none(),
               "queue"_a.none(), "data"_a.none(), guarded);
    module.def("start_vector", &start_vector, "team"_a, "name"_a, "src"_a.none(),
               "src_counts"_a.none(), "dst"_a.none(), "dst_counts"_a.none(), "root"_a,
               "queue"_a.none(), "data"_a.none(), guarded);
    module.def("start_reduce", &start_reduce, "team"_a, "name"_a, "src"_a.none(), "dst"_a.none(),
               "op"_a, "root"_a, "dtype"_a.none(), "queue"_a.none(), "data"_a.none(), guarded);
}

} // namespace nx
