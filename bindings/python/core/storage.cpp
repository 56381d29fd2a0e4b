/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of what is stored: files, directories of them, and objects of an S3 store.
 *
 * Calls that ask a store are made aside. Invariant: a question that nobody waits for any more, after
 * Ctrl-C, keeps its region open until it has ended.
 */
#include "region.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace nx
{

/* A text that may be None. */
struct OptionalText {
    std::string text;
    bool is_given = false;

    void read(nb::handle given, const char *name)
    {
        is_given = !given.is_none();
        if (is_given) {
            text = read_text(given, name);
        }
    }
    const char *get() const
    {
        return is_given ? text.c_str() : nullptr;
    }
};

/* The keys of a table of objects; none: the library numbers them. */
struct Keys {
    std::vector<std::string> texts;
    std::vector<const char *> pointers;

    void read(nb::handle given)
    {
        if (given.is_none()) {
            return;
        }
        for (nb::handle key : nb::iter(given)) {
            texts.push_back(read_text(key, "a key"));
        }
        for (const std::string &key : texts) {
            pointers.push_back(key.c_str());
        }
    }
    const char *const *get() const
    {
        return pointers.empty() ? nullptr : pointers.data();
    }
};

/* ---- files and directories ------------------------------------------------------------------- */

/* ("file", path or None, descriptor, flags, nbytes, offset, mode) */
static struct nixl_region *open_file(const OptionalText &name, const nb::tuple &given,
                                     const struct nixl_mem_params *made)
{
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;
    OptionalText path;
    int status;

    path.read(given[1], "the path");
    params.fd = read_int(given[2], "fd");
    params.flags = (uint32_t)read_u64(given[3], "flags");
    params.nbytes = read_u64(given[4], "nbytes");
    params.offset = read_u64(given[5], "offset");
    params.mode = read_u32(given[6], "mode");
    params.access = made->access;
    params.context = made->context;
    {
        Unlocked unlocked;
        status = nixl_region_open_file(name.get(), path.get(), &params, &region);
    }
    check(status);
    return region;
}

/* ("directory", path, flags, number of objects, bytes of each, keys or None, mode, descriptors) */
static struct nixl_region *open_directory(const OptionalText &name, const nb::tuple &given,
                                          const struct nixl_mem_params *made)
{
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    const std::string path = read_text(given[1], "the path");
    struct nixl_region *region;
    Keys keys;
    int status;

    params.flags = (uint32_t)read_u64(given[2], "flags");
    keys.read(given[5]);
    params.keys = keys.get();
    params.nobjects = params.keys ? keys.texts.size() : read_u64(given[3], "nobjects");
    params.object_nbytes = read_u64(given[4], "object_nbytes");
    params.mode = read_u32(given[6], "mode");
    params.ndescriptors = read_u32(given[7], "ndescriptors");
    params.access = made->access;
    params.context = made->context;
    {
        Unlocked unlocked;
        status = nixl_region_open_directory(name.get(), path.c_str(), &params, &region);
    }
    check(status);
    return region;
}

/* ---- opening objects ------------------------------------------------------------------------- */

/* What nixl_region_open_object() is about. */
struct ObjectOpening {
    OptionalText name, endpoint, aws_region, ca_file;
    std::string url;
    Keys keys;
    struct nixl_object_params params = NIXL_OBJECT_PARAMS_INIT;
    std::mutex lock;
    bool is_left = false; /* nobody waits for it any more */
    struct nixl_region *region = nullptr;

    void read(const nb::tuple &given);
    int run();
    void leave();
};

void ObjectOpening::read(const nb::tuple &given)
{
    url = read_text(given[1], "the URL");
    params.flags = (uint32_t)read_u64(given[2], "flags");
    keys.read(given[5]);
    params.keys = keys.get();
    params.nobjects = params.keys ? keys.texts.size() : read_u64(given[3], "nobjects");
    params.object_nbytes = read_u64(given[4], "object_nbytes");
    params.part_nbytes = read_u64(given[6], "part_nbytes");
    params.nconnections = read_u32(given[7], "nconnections");
    endpoint.read(given[8], "the endpoint");
    aws_region.read(given[9], "aws_region");
    ca_file.read(given[10], "ca_file");
    params.endpoint = endpoint.get();
    params.region = aws_region.get();
    params.ca_file = ca_file.get();
}

int ObjectOpening::run()
{
    struct nixl_region *opened;
    int status = nixl_region_open_object(name.get(), url.c_str(), &params, &opened);

    if (status == NIXL_OK) {
        std::lock_guard<std::mutex> guard(lock);

        if (is_left) {
            (void)nixl_region_close(opened, NIXL_FOREVER);
        } else {
            region = opened;
        }
    }
    return status;
}

void ObjectOpening::leave()
{
    Unlocked unlocked;
    std::lock_guard<std::mutex> guard(lock);

    is_left = true;
    if (region != nullptr) {
        (void)nixl_region_close(region, NIXL_FOREVER);
    }
}

/*
 * ("object", URL, flags, number of objects, bytes of each, keys or None, bytes of a part,
 * connections, then endpoint, AWS's region and certificates, each a text or None)
 */
static struct nixl_region *open_objects(const OptionalText &name, const nb::tuple &given,
                                        const struct nixl_mem_params *made)
{
    auto opening = std::make_shared<ObjectOpening>();

    opening->name = name;
    opening->read(given);
    opening->params.access = made->access;
    opening->params.context = made->context;
    try {
        run_aside(opening);
    } catch (...) {
        opening->leave();
        throw;
    }
    return opening->region;
}

struct nixl_region *open_stored(nb::handle name, nb::handle stored,
                                const struct nixl_mem_params *made)
{
    static const char *const whats[] = {"file", "directory", "object", nullptr};
    const nb::tuple given = nb::cast<nb::tuple>(stored);
    OptionalText label;

    label.read(name, "name");
    switch (read_word(nb::cast<const char *>(given[0]), whats, "what")) {
    case 0:
        return open_file(label, given, made);
    case 1:
        return open_directory(label, given, made);
    default:
        return open_objects(label, given, made);
    }
}

/* ---- questions about objects ----------------------------------------------------------------- */

struct Questions {
    std::mutex lock;
    std::condition_variable changed;
    size_t n = 0;
};

void questions_wait(const std::shared_ptr<Questions> &questions, int64_t timeout_ns)
{
    const int64_t begin = questions == nullptr ? 0 : now_ns();

    while (questions != nullptr) {
        const int64_t left =
            timeout_ns == NIXL_FOREVER ? slice_of_thread() : timeout_ns - (now_ns() - begin);
        {
            Unlocked unlocked;
            std::unique_lock<std::mutex> guard(questions->lock);
            const auto slice =
                std::chrono::nanoseconds(std::clamp<int64_t>(left, 0, slice_of_thread()));

            if (questions->changed.wait_for(guard, slice, [&] { return questions->n == 0; })) {
                return;
            }
        }
        if (left <= 0) {
            fail(plain_detail(NIXL_E_TIMEOUT, -1, "nixl_region_close"));
        }
        check_signals();
        check_leaving();
    }
}

/* What is asked, and what the store has said. */
struct ObjectQuestion {
    enum { STAT, DELETE, LIST } what;
    std::shared_ptr<Questions> all; /* of the region */
    struct nixl_region *region;
    uint64_t number = 0;
    OptionalText after;
    int64_t timeout_ns;
    bool is_short = false; /* of memory */
    struct Found {
        uint64_t number, nbytes;
        int64_t modified;
        std::string etag, key;
    };
    std::vector<Found> found;

    ObjectQuestion(decltype(what) question, Region *of, nb::handle timeout);
    ~ObjectQuestion();
    int run();
    int take(const struct nixl_object_info &info) noexcept;
};

ObjectQuestion::ObjectQuestion(decltype(what) question, Region *of, nb::handle timeout)
    : what(question), region(of->handle()), timeout_ns(read_timeout(timeout))
{
    if (of->questions == nullptr) {
        of->questions = std::make_shared<Questions>();
    }
    all = of->questions;
    std::lock_guard<std::mutex> guard(all->lock);

    all->n++;
}

ObjectQuestion::~ObjectQuestion()
{
    std::lock_guard<std::mutex> guard(all->lock);

    all->n--;
    all->changed.notify_all();
}

/* The library's frames, in which it is called, have no exceptions. */
int ObjectQuestion::take(const struct nixl_object_info &info) noexcept
{
    try {
        found.push_back({info.object, info.nbytes, info.modified, info.etag, info.key});
    } catch (const std::bad_alloc &) {
        is_short = true;
    }
    return is_short;
}

int ObjectQuestion::run()
{
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    int status;

    switch (what) {
    case DELETE:
        return nixl_object_delete(region, number, timeout_ns);
    case LIST:
        return nixl_object_list(
            region, after.get(), timeout_ns,
            [](const struct nixl_object_info *one, void *arg) {
                return ((ObjectQuestion *)arg)->take(*one);
            },
            this);
    default:
        status = nixl_object_stat(region, number, timeout_ns, &info);
        if (status == NIXL_OK) {
            (void)take(info);
        }
        return status;
    }
}

/* Its arguments are read before: it may be asked until after the call has ended. */
static nb::list ask(const std::shared_ptr<ObjectQuestion> &question)
{
    nb::list rows;

    try {
        run_aside(question);
    } catch (...) {
        if (question->is_short) {
            throw std::bad_alloc();
        }
        throw;
    }
    for (const ObjectQuestion::Found &found : question->found) {
        nb::object number = nb::int_(found.number);

        if (found.number == UINT64_MAX) {
            number = nb::none();
        }
        rows.append(
            nb::make_tuple(number, found.nbytes, found.modified, found.etag, make_text(found.key)));
    }
    return rows;
}

static nb::object object_stat(Region &region, nb::handle number, nb::handle timeout)
{
    const uint64_t object = read_u64(number, "number");
    auto question = std::make_shared<ObjectQuestion>(ObjectQuestion::STAT, &region, timeout);

    question->number = object;
    return ask(question)[0];
}

static void object_delete(Region &region, nb::handle number, nb::handle timeout)
{
    const uint64_t object = read_u64(number, "number");
    auto question = std::make_shared<ObjectQuestion>(ObjectQuestion::DELETE, &region, timeout);

    question->number = object;
    (void)ask(question);
}

static nb::list object_list(Region &region, nb::handle after, nb::handle timeout)
{
    auto question = std::make_shared<ObjectQuestion>(ObjectQuestion::LIST, &region, timeout);

    question->after.read(after, "after");
    return ask(question);
}

void bind_storage(nb::module_ &module)
{
    module.def("object_stat", &object_stat, "region"_a, "number"_a, "timeout"_a.none(), guarded);
    module.def("object_delete", &object_delete, "region"_a, "number"_a, "timeout"_a.none(),
               guarded);
    module.def("object_list", &object_list, "region"_a, "after"_a.none(), "timeout"_a.none(),
               guarded);
}

} // namespace nx
