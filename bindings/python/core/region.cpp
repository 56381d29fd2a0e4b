/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: made, described, viewed and closed. */
#include "region.h"
#include "request.h"

#include <dlfcn.h>
#include <mutex>
#include <unordered_set>

namespace nx
{

/* In the order of enum nixl_mem_kind. */
static const char *const kinds[] = {"none", "host", "cuda",   "vulkan",
                                    "auto", "file", "object", nullptr};

/* All regions that exist, for views_keep(). They outlive Python; the lock is a leaf. */
static auto &all_regions = *new std::unordered_set<Region *>;
static auto &all_regions_lock = *new std::mutex;

Region::Region()
{
    std::lock_guard<std::mutex> guard(all_regions_lock);

    all_regions.insert(this);
}

Region::~Region()
{
    if (!registered.empty() && !users.is_closed() && made == life) {
        new std::vector<Memory>(std::move(registered)); /* still published: never released */
    }
    std::lock_guard<std::mutex> guard(all_regions_lock);

    all_regions.erase(this);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* How a region is made, as keyword arguments give it. */
struct RegionParams {
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    std::string device;

    RegionParams(Context &context, const char *kind, nb::handle device_name, bool no_put,
                 bool no_get)
    {
        params.context = context.handle();
        params.kind = read_word(kind, kinds, "kind");
        params.access = (no_put ? NIXL_ACCESS_NO_PUT : 0) | (no_get ? NIXL_ACCESS_NO_GET : 0);
        if (!device_name.is_none()) {
            device = nb::str(device_name).c_str();
            params.device = device.c_str();
        }
    }
};

static std::string region_label(nb::handle name)
{
    return name.is_none() ? "" : read_text(name, "name");
}

/* The number that CUDA gives the GPU of an address; -1: no CUDA. */
static int cuda_device_of(const void *addr)
{
    typedef int get_fn(void *data, int attribute, unsigned long long pointer);
    constexpr int DEVICE_ORDINAL = 9;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    get_fn *get = library == nullptr ? nullptr : (get_fn *)dlsym(library, "cuPointerGetAttribute");
    int device = -1;

    if (get == nullptr || get(&device, DEVICE_ORDINAL, (uintptr_t)addr) != 0) {
        return -1;
    }
    return device;
}

/* Fill in what the library knows of this rank's own segment. */
static void region_made(Region *region, struct nixl_region *handle, nb::object context,
                        nb::handle name)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    region->region = handle;
    region->context = context;
    region->name = region_label(name);
    region->addr = nixl_region_addr(handle);
    region->nbytes = (size_t)nixl_region_nbytes(handle);
    if (nixl_region_query(nixl_rank(), handle, 0, &info) == NIXL_OK) {
        region->kind = info.kind;
    } else if (region->addr != nullptr) {
        region->kind = NIXL_MEM_HOST;
    }
    if (region->kind == NIXL_MEM_CUDA) {
        region->device = cuda_device_of(region->addr);
    }
}

static int alloc_segment(struct nixl_region **handle_p, const char *name, uint64_t nbytes,
                         const struct nixl_mem_params *params)
{
    Unlocked unlocked;

    return nixl_region_alloc(name, nbytes, params, handle_p);
}

/* One memory, or a list of them, as a region of extents. */
static int register_segment(struct nixl_region **handle_p, const char *name,
                            const std::vector<Memory> &memories, bool is_list,
                            const struct nixl_mem_params *params)
{
    std::vector<struct nixl_extent> extents;
    Unlocked unlocked;

    if (!is_list) {
        return nixl_region_register(name, memories[0].addr, memories[0].nbytes, params, handle_p);
    }
    for (const Memory &memory : memories) {
        extents.push_back({memory.addr, memory.nbytes});
    }
    return nixl_region_register_extents(name, extents.data(), extents.size(), params, handle_p);
}

static bool is_list_of_memories(nb::handle memory)
{
    return nb::isinstance<nb::list>(memory) || nb::isinstance<nb::tuple>(memory);
}

static std::vector<Memory> read_memories(nb::handle memory, bool is_written)
{
    std::vector<Memory> memories;

    if (!is_list_of_memories(memory)) {
        memories.emplace_back(memory, is_written);
        return memories;
    }
    for (nb::handle one : nb::cast<nb::sequence>(memory)) {
        memories.emplace_back(one, is_written);
    }
    return memories;
}

/*
 * Open what is `stored`, allocate `nbytes`, or register `memory`, or, with none of them, open the
 * name.
 */
static void region_init(Region *region, nb::object context, nb::handle name, nb::handle nbytes,
                        nb::handle memory, const char *kind, nb::handle numa_node, bool huge,
                        bool pinned, bool populate, nb::handle device, bool no_put, bool no_get,
                        nb::handle stored)
{
    RegionParams made(nb::cast<Context &>(context), kind, device, no_put, no_get);
    const std::string label = region_label(name);
    const char *given = name.is_none() ? nullptr : label.c_str();
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_region *handle;
    std::vector<Memory> registered;

    made.params.flags = (huge ? NIXL_MEM_HUGE : 0) | (pinned ? NIXL_MEM_PINNED : 0) |
                        (populate ? NIXL_MEM_POPULATE : 0);
    if (!numa_node.is_none()) {
        made.params.flags |= NIXL_MEM_NUMA;
        made.params.numa_node = read_int(numa_node, "numa_node");
    }
    if (!stored.is_none()) {
        handle = open_stored(name, stored, &made.params);
    } else if (!memory.is_none()) {
        registered = read_memories(memory, !no_put);
        made.params.kind = NIXL_MEM_AUTO; /* of each memory, as its driver says */
        check(register_segment(&handle, given, registered, is_list_of_memories(memory),
                               &made.params));
    } else if (!nbytes.is_none()) {
        check(alloc_segment(&handle, given, read_u64(nbytes, "nbytes"), &made.params));
    } else {
        op.context = made.params.context;
        check(nixl_region_open_x(given, &op, &handle));
    }
    new (region) Region();
    region->registered = std::move(registered);
    region_made(region, handle, context, name);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void region_close(Region *region, nb::handle timeout)
{
    const int64_t timeout_ns = read_timeout(timeout);
    int status;

    if (region->made != life) {
        region->registered.clear();
        return;
    }
    requests_reap();
    Closing closing(region); /* other threads find it closed */

    if (!closing.is_mine()) {
        return;
    }
    questions_wait(region->questions, timeout_ns);
    status = wait_in_slices(timeout_ns,
                            [&](int64_t ns) { return nixl_region_close(region->region, ns); });
    if (status != NIXL_OK) {
        fail(status == NIXL_INPROGRESS ? plain_detail(NIXL_E_TIMEOUT, -1, "nixl_region_close")
                                       : last_detail(status));
    }
    closing.done();
    region->addr = nullptr;
    region->registered.clear();
}

/* ---- views ----------------------------------------------------------------------------------- */

static void view_end(void *arg) noexcept
{
    nb::object object = nb::steal((PyObject *)arg);

    nb::inst_ptr<Region>(object)->users.leave();
    nviews -= 1;
}

/* An object that keeps the region open as long as it lives. */
static nb::object view_begin(nb::object object)
{
    nb::object view = nb::capsule(object.ptr(), view_end);

    (void)nb::inst_ptr<Region>(object)->users.enter(); /* the caller uses it */
    nviews += 1;
    (void)object.release(); /* view_end() takes it */
    return view;
}

/* Is the region's memory unmapped by nixl_finalize(), and does something use it? */
static bool region_is_viewed(const Region &region)
{
    return region.users.count() > 0 && region.made == life && region.addr != nullptr &&
           region.registered.empty();
}

/* What has pointers that nixl_region_map() gave stays after the end of its region. */
bool views_keep()
{
    std::lock_guard<std::mutex> guard(all_regions_lock);
    bool are_kept = nslot_views == 0;

    for (const Region *region : all_regions) {
        void *addr = nullptr;

        if (region_is_viewed(*region) &&
            (region->kind != NIXL_MEM_HOST ||
             nixl_region_map(nixl_rank(), region->region, &addr) != NIXL_OK ||
             addr != region->addr)) {
            are_kept = false;
        }
    }
    return are_kept;
}

static int region_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Region *region = nb::inst_ptr<Region>(object);

    try {
        Use use(region);

        if (region->addr == nullptr || region->kind != NIXL_MEM_HOST) {
            PyErr_Format(PyExc_BufferError, "region '%s' has no host memory here",
                         region->name.c_str());
            return -1;
        }
        if (PyBuffer_FillInfo(view, object, region->addr, (Py_ssize_t)region->nbytes, 0, flags) !=
            0) {
            return -1;
        }
        (void)region->users.enter();
        nviews += 1;
        return 0;
    } catch (nb::python_error &error) {
        error.restore();
        return -1;
    }
}

static void region_releasebuffer(PyObject *object, Py_buffer *)
{
    nb::inst_ptr<Region>(object)->users.leave();
    nviews -= 1;
}

static PyType_Slot region_slots[] = {
    {Py_bf_getbuffer, (void *)region_getbuffer},
    {Py_bf_releasebuffer, (void *)region_releasebuffer},
    {0, nullptr},
};

static nb::dict region_cuda_array(nb::handle_t<Region> self)
{
    Region *region = nb::inst_ptr<Region>(self);
    Use use(region);
    nb::dict array;

    if (region->kind != NIXL_MEM_CUDA) {
        throw nb::attribute_error("only CUDA memory has __cuda_array_interface__");
    }
    array["shape"] = nb::make_tuple(region->nbytes);
    array["typestr"] = "|u1";
    array["data"] = nb::make_tuple((uintptr_t)region->addr, false);
    array["strides"] = nb::none();
    array["version"] = 3;
    return array;
}

/* As DLPack numbers kinds of devices. */
constexpr int DLPACK_CPU = 1;
constexpr int DLPACK_CUDA = 2;

static nb::object region_tensor(nb::object self)
{
    Region *region = nb::inst_ptr<Region>(self);
    const bool is_cuda = region->kind == NIXL_MEM_CUDA;
    Use use(region);

    if (region->addr == nullptr || region->kind == NIXL_MEM_VULKAN) {
        throw nb::buffer_error("the region has no memory here that a tensor could show");
    }
    return make_dlpack(region->addr, region->nbytes, is_cuda ? DLPACK_CUDA : DLPACK_CPU,
                       is_cuda ? region->device : 0, view_begin(self));
}

/* A consumer may name a stream; the bytes need none. */
static nb::object region_dlpack(nb::object self, nb::kwargs arguments)
{
    return region_tensor(self).attr("__dlpack__")(**arguments);
}

static nb::tuple region_dlpack_device(const Region &region)
{
    const bool is_cuda = region.kind == NIXL_MEM_CUDA;

    return nb::make_tuple(is_cuda ? DLPACK_CUDA : DLPACK_CPU, is_cuda ? region.device : 0);
}

/* ---- what is known --------------------------------------------------------------------------- */

/* Of the segment, or of one of its extents. */
static nb::dict region_query(Region &region, nb::handle rank, nb::handle timeout, nb::handle extent)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    Use use(&region);
    struct nixl_region *handle = region.handle();
    const int owner = read_rank(rank);
    const uint64_t number = extent.is_none() ? 0 : read_u64(extent, "extent");
    nb::dict known;
    int status = wait_in_slices(read_timeout(timeout), [&](int64_t ns) {
        return extent.is_none() ? nixl_region_query(owner, handle, ns, &info)
                                : nixl_region_query_extent(owner, handle, number, ns, &info);
    });

    if (status == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, owner, "nixl_region_query"));
    }
    check(status);
    known["nbytes"] = info.nbytes;
    known["kind"] = kinds[info.kind];
    known["is_registered"] = info.is_registered != 0;
    known["huge"] = (info.flags & NIXL_MEM_HUGE) != 0;
    known["pinned"] = (info.flags & NIXL_MEM_PINNED) != 0;
    known["numa"] = (info.flags & NIXL_MEM_NUMA) != 0;
    known["transport"] = nb::str(info.transport);
    known["method"] = nb::str(info.method);
    known["note"] = nb::str(info.note);
    known["latency_ns"] = info.latency_ns;
    known["bandwidth_mbps"] = info.bandwidth_mbps;
    known["device"] = nb::str(info.device);
    known["no_put"] = (info.access & NIXL_ACCESS_NO_PUT) != 0;
    known["no_get"] = (info.access & NIXL_ACCESS_NO_GET) != 0;
    known["offset"] = info.offset;
    known["nextents"] = info.nextents;
    return known;
}

static bool region_is_published(Region &region, nb::handle rank, nb::handle timeout)
{
    Use use(&region);
    struct nixl_region *handle = region.handle();
    const int owner = read_rank(rank);
    int status = wait_in_slices(read_timeout(timeout), [&](int64_t ns) {
        return nixl_region_is_published(owner, handle, ns);
    });

    if (status == NIXL_E_NOT_FOUND) {
        return false;
    }
    if (status == NIXL_INPROGRESS) {
        fail(plain_detail(NIXL_E_TIMEOUT, owner, "nixl_region_is_published"));
    }
    check(status);
    return true;
}

/* ---- the type -------------------------------------------------------------------------------- */

void bind_region(nb::module_ &module)
{
    nb::class_<Region> type(module, "RegionBase", nb::type_slots(region_slots));
    nb::object none = nb::none();
    nb::object usual = nb::borrow(default_timeout);

    type.def("__init__", &region_init, "context"_a, "name"_a.none(), "nbytes"_a.none() = none,
             "memory"_a.none() = none, nb::kw_only(), "kind"_a = "host",
             "numa_node"_a.none() = none, "huge"_a = false, "pinned"_a = false,
             "populate"_a = false, "device"_a.none() = none, "no_put"_a = false, "no_get"_a = false,
             "stored"_a.none() = none);
    type.def_prop_ro("name", [](const Region &region) { return make_text(region.name); });
    type.def_ro("context", &Region::context);
    type.def_prop_ro("nbytes", [](const Region &region) { return region.nbytes; });
    type.def_prop_ro(
        "addr", [](const Region &region) { return (uintptr_t)region.addr; }, guarded);
    type.def_prop_ro("kind", [](const Region &region) { return kinds[region.kind]; });
    type.def_prop_ro("is_closed", [](const Region &region) { return region.is_closed(); });
    type.def_prop_ro("views", [](const Region &region) {
        requests_reap();
        return region.users.count();
    });
    type.def("__len__", [](const Region &region) { return region.nbytes; });
    type.def("_close", &region_close, "timeout"_a.none(), guarded);
    type.def("_query", &region_query, "rank"_a, "timeout"_a.none() = usual,
             "extent"_a.none() = nb::none());
    type.def("is_published", &region_is_published, "rank"_a, "timeout"_a.none() = usual);
    type.def("__dlpack__", &region_dlpack);
    type.def("__dlpack_device__", &region_dlpack_device);
    type.def_prop_ro("__cuda_array_interface__", &region_cuda_array);
    bind_moves(type);
}

} // namespace nx
