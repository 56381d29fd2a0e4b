/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels. A slot is memory of the channel while it is held; views of it are counted, and it is
 * not given back before they are gone.
 */
#include "context.h"

#include <cstring>

namespace nx
{

struct Channel : Handle {
    struct nixl_channel *channel = nullptr;
    std::string name;
    bool is_producer = false;
    size_t slot_nbytes = 0;
    size_t nviews = 0;

    std::string what() const
    {
        return "channel '" + name + "'";
    }
    [[noreturn]] void fail_used() const
    {
        nx::fail_used(what(), users.count());
    }
};

struct Slot {
    nb::object channel;
    void *addr = nullptr; /* NULL: published or released */
    size_t nbytes = 0;
    int rank = -1;
    size_t nviews = 0;
};

struct OpenCall {
    std::string name;
    int peer;
    enum nixl_channel_role role;
    size_t slot_nbytes, nslots;
    struct nixl_channel *channel = nullptr;
    int run()
    {
        return nixl_channel_open(name.c_str(), peer, role, slot_nbytes, nslots, nullptr, &channel);
    }
};

static void channel_init(Channel *channel, nb::object context, const std::string &name,
                         nb::handle peer, const char *role, nb::handle slot_nbytes,
                         nb::handle nslots)
{
    static const char *const roles[] = {"consumer", "producer", nullptr};
    auto call = std::make_shared<OpenCall>();

    if (name.find('\0') != std::string::npos) {
        fail_value("name has a zero byte");
    }
    nb::cast<Context &>(context).handle();
    call->name = name;
    call->peer = peer.is_none() ? NIXL_ANY_RANK : read_rank(peer);
    call->role = (enum nixl_channel_role)read_word(role, roles, "role");
    call->slot_nbytes = read_u64(slot_nbytes, "slot_nbytes");
    call->nslots = read_u64(nslots, "nslots");
    run_aside(call);
    new (channel) Channel();
    channel->channel = call->channel;
    channel->name = name;
    channel->is_producer = call->role == NIXL_CHANNEL_PRODUCER;
    channel->slot_nbytes = call->slot_nbytes;
}

static nb::object channel_acquire(nb::object self, int64_t timeout_ns)
{
    Channel *channel = nb::inst_ptr<Channel>(self);
    Use use(channel);
    struct nixl_channel *handle = channel->channel;
    void *slot = nullptr;
    int status = nixl_channel_acquire(handle, 0, &slot);

    if (status == NIXL_INPROGRESS && timeout_ns != 0) {
        status = wait_in_slices(
            timeout_ns, [&](int64_t ns) { return nixl_channel_acquire(handle, ns, &slot); });
    }
    if (status == NIXL_INPROGRESS) {
        return nb::none();
    }
    check(status);
    return nb::cast(Slot{self, slot, channel->slot_nbytes, nixl_rank(), 0});
}

static nb::object channel_recv(nb::object self, int64_t timeout_ns)
{
    Channel *channel = nb::inst_ptr<Channel>(self);
    Use use(channel);
    struct nixl_channel *handle = channel->channel;
    void *slot = nullptr;
    size_t nbytes = 0;
    int rank = -1;
    int status = nixl_channel_recv(handle, 0, &slot, &nbytes, &rank);

    if (status == NIXL_INPROGRESS && timeout_ns != 0) {
        status = wait_in_slices(timeout_ns, [&](int64_t ns) {
            return nixl_channel_recv(handle, ns, &slot, &nbytes, &rank);
        });
    }
    if (status == NIXL_INPROGRESS) {
        return nb::none();
    }
    check(status);
    return nb::cast(Slot{self, slot, nbytes, rank, 0});
}

static void channel_close(Channel *channel, nb::handle timeout)
{
    const int64_t timeout_ns = read_timeout(timeout);
    int status;

    if (channel->users.is_closed() || channel->made != life) {
        return;
    }
    if (channel->nviews > 0) {
        throw nb::buffer_error(("channel '" + channel->name +
                                "' has views of its slots: release "
                                "them before it is closed")
                                   .c_str());
    }
    Closing closing(channel);

    if (!closing.is_mine()) {
        return;
    }
    status = wait_in_slices(timeout_ns,
                            [&](int64_t ns) { return nixl_channel_close(channel->channel, ns); });
    if (status != NIXL_OK) {
        fail(status == NIXL_INPROGRESS ? plain_detail(NIXL_E_TIMEOUT, -1, "nixl_channel_close")
                                       : last_detail(status));
    }
    closing.done();
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* The channel, if the slot is held and nothing points into it. */
static Channel *slot_channel(const Slot &slot)
{
    if (slot.addr == nullptr) {
        fail_closed("the slot");
    }
    if (slot.nviews > 0) {
        throw nb::buffer_error("the slot has views: release them first");
    }
    return nb::inst_ptr<Channel>(slot.channel);
}

static void slot_publish(Slot &slot, nb::handle nbytes)
{
    const uint64_t size = nbytes.is_none() ? slot.nbytes : read_u64(nbytes, "nbytes");
    Channel *channel = slot_channel(slot);
    Use use(channel);
    void *addr = std::exchange(slot.addr, nullptr); /* nobody else publishes or shows it */
    int status;

    {
        Unlocked unlocked;
        status = nixl_channel_publish(channel->channel, size);
    }
    if (status != NIXL_OK) {
        slot.addr = addr;
        fail(status);
    }
}

/* Copy an item into a slot and publish it. */
static void channel_send(nb::object self, nb::handle item, nb::handle timeout)
{
    Channel *channel = nb::inst_ptr<Channel>(self);
    const int64_t timeout_ns = read_timeout(timeout);
    const Memory data = read_host_memory(item, "the item");

    if (data.nbytes > channel->slot_nbytes) {
        fail_value("the item has " + std::to_string(data.nbytes) + " bytes; a slot has " +
                   std::to_string(channel->slot_nbytes));
    }
    Use use(channel);
    nb::object acquired = must_find(channel_acquire(self, timeout_ns), "nixl_channel_acquire");
    Slot &slot = nb::cast<Slot &>(acquired);

    if (data.nbytes > LOCKED_NBYTES) {
        Unlocked unlocked;
        memcpy(slot.addr, data.addr, data.nbytes);
    } else if (data.nbytes > 0) { /* an array without elements may have no address */
        memcpy(slot.addr, data.addr, data.nbytes);
    }
    slot_publish(slot, nb::int_(data.nbytes));
}

static void slot_release(Slot &slot)
{
    if (slot.addr != nullptr) {
        Channel *channel = slot_channel(slot);
        Use use(channel);

        check(nixl_channel_release(channel->channel, slot.addr));
        slot.addr = nullptr;
    }
}

static int slot_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    Slot *slot = nb::inst_ptr<Slot>(object);
    Channel *channel = nb::inst_ptr<Channel>(slot->channel);
    Locked locked;

    if (slot->addr == nullptr || channel->is_closed()) {
        PyErr_SetString(PyExc_BufferError, "the slot was given back, or its channel is closed");
        return -1;
    }
    if (PyBuffer_FillInfo(view, object, slot->addr, (Py_ssize_t)slot->nbytes, !channel->is_producer,
                          flags) != 0) {
        return -1;
    }
    slot->nviews++;
    channel->nviews++;
    nviews += 1;
    nslot_views += 1;
    return 0;
}

static void slot_releasebuffer(PyObject *object, Py_buffer *)
{
    Slot *slot = nb::inst_ptr<Slot>(object);
    Locked locked;

    slot->nviews--;
    nb::inst_ptr<Channel>(slot->channel)->nviews--;
    nviews -= 1;
    nslot_views -= 1;
}

static PyType_Slot slot_slots[] = {
    {Py_bf_getbuffer, (void *)slot_getbuffer},
    {Py_bf_releasebuffer, (void *)slot_releasebuffer},
    {0, nullptr},
};

void bind_channel(nb::module_ &module)
{
    nb::class_<Channel> type(module, "Channel");
    nb::class_<Slot> slot(
        module, "Slot", nb::type_slots(slot_slots),
        R"(A slot of a channel that is held: memory by the buffer protocol, as long as it is held.

``rank`` is the producer, ``nbytes`` the size of the item, or of the slot to be filled.)");
    nb::object none = nb::none();

    type.def("__init__", &channel_init, "context"_a, "name"_a, "peer"_a.none(), "role"_a,
             "slot_nbytes"_a, "nslots"_a);
    type.def(
        "_acquire",
        [](nb::object self, nb::handle timeout) {
            return must_find(channel_acquire(self, read_timeout(timeout)), "nixl_channel_acquire");
        },
        "timeout"_a.none() = none, guarded);
    type.def(
        "_recv",
        [](nb::object self, nb::handle timeout) {
            return must_find(channel_recv(self, read_timeout(timeout)), "nixl_channel_recv");
        },
        "timeout"_a.none() = none, guarded);
    type.def("_send", &channel_send, "item"_a, "timeout"_a.none(), guarded);
    type.def(
        "_try_acquire", [](nb::object self) { return channel_acquire(self, 0); }, guarded);
    type.def(
        "_try_recv", [](nb::object self) { return channel_recv(self, 0); }, guarded);
    type.def("_close", &channel_close, "timeout"_a.none(), guarded);
    type.def_ro("name", &Channel::name).def_ro("slot_nbytes", &Channel::slot_nbytes);
    type.def_ro("is_producer", &Channel::is_producer);
    type.def_prop_ro("is_closed", [](const Channel &channel) { return channel.is_closed(); });
    slot.def_ro("rank", &Slot::rank).def_ro("nbytes", &Slot::nbytes);
    slot.def("__len__", [](const Slot &self) { return self.nbytes; });
    slot.def("publish", &slot_publish, "nbytes"_a.none() = none, guarded,
             "Producer: hand it over, with its first nbytes. BufferError: views of it exist.");
    slot.def("release", &slot_release, guarded,
             "Consumer: give it back to its producer. BufferError: views of it exist.");
    slot.def_prop_ro(
        "is_held", [](const Slot &self) { return self.addr != nullptr; }, guarded);
}

} // namespace nx
