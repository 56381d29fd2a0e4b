/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of Python objects: the buffer protocol first, then __cuda_array_interface__, then DLPack.
 * No library of arrays is imported. Memory that is not contiguous is refused, since a copy behind
 * the caller's back would be slow for a source and useless for a destination.
 */
#include "core.h"

#include <nanobind/ndarray.h>

#include <cstring>

namespace nx
{

void Memory::move_from(Memory &other) noexcept
{
    addr = other.addr;
    nbytes = other.nbytes;
    item_nbytes = other.item_nbytes;
    type = other.type;
    is_on_device = other.is_on_device;
    is_buffer = other.is_buffer;
    if (is_buffer) {
        /* PyBuffer_FillInfo() makes shape point to len, and strides to itemsize. */
        view = other.view;
        if (other.view.shape == &other.view.len) {
            view.shape = &view.len;
        }
        if (other.view.strides == &other.view.itemsize) {
            view.strides = &view.itemsize;
        }
    }
    owner = std::move(other.owner);
    tensor = std::move(other.tensor);
    other.is_buffer = false;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The type of a kind (i, u, f) and a size, or -1. */
static int type_of(char kind, size_t nbytes)
{
    switch (kind) {
    case 'i':
        return nbytes == 1   ? NIXL_TYPE_INT8
               : nbytes == 2 ? NIXL_TYPE_INT16
               : nbytes == 4 ? NIXL_TYPE_INT32
               : nbytes == 8 ? NIXL_TYPE_INT64
                             : -1;
    case 'u':
        return nbytes == 1   ? NIXL_TYPE_UINT8
               : nbytes == 2 ? NIXL_TYPE_UINT16
               : nbytes == 4 ? NIXL_TYPE_UINT32
               : nbytes == 8 ? NIXL_TYPE_UINT64
                             : -1;
    case 'f':
        return nbytes == 2   ? NIXL_TYPE_FLOAT16
               : nbytes == 4 ? NIXL_TYPE_FLOAT
               : nbytes == 8 ? NIXL_TYPE_DOUBLE
                             : -1;
    default:
        return -1;
    }
}

void read_format(const Py_buffer &view, Memory *memory)
{
    const char *format = view.format == nullptr ? "B" : view.format;

    memory->item_nbytes = (size_t)view.itemsize;
    if (*format == '@' || *format == '=' || *format == '<') {
        format++;
    }
    if (format[0] == '\0' || format[1] != '\0') {
        return;
    }
    if (strchr("bhilqn", *format) != nullptr) {
        memory->type = type_of('i', memory->item_nbytes);
    } else if (strchr("BHILQN", *format) != nullptr) {
        memory->type = type_of('u', memory->item_nbytes);
    } else if (strchr("efd", *format) != nullptr) {
        memory->type = type_of('f', memory->item_nbytes);
    }
}

/* ---- __cuda_array_interface__ ---------------------------------------------------------------- */

/* Bytes of a contiguous array of this shape; strides may be None. */
static size_t contiguous_nbytes(nb::tuple shape, nb::object strides, size_t item_nbytes)
{
    size_t nbytes = item_nbytes;

    for (size_t i = shape.size(); i-- > 0;) {
        const size_t length = nb::cast<size_t>(shape[i]);

        if (!strides.is_none() && length > 1 &&
            nb::cast<long long>(strides[i]) != (long long)nbytes) {
            throw nb::buffer_error("the array is not C-contiguous");
        }
        nbytes *= length;
    }
    return nbytes;
}

static void acquire_cuda_array(nb::dict array, bool is_written, Memory *memory)
{
    nb::tuple data = nb::cast<nb::tuple>(array["data"]);
    std::string typestr = nb::cast<std::string>(array["typestr"]);
    nb::object strides = array.contains("strides") ? nb::object(array["strides"]) : nb::none();

    if (typestr.size() < 3) {
        fail_value("__cuda_array_interface__ has the typestr '" + typestr + "'");
    }
    if (is_written && nb::cast<bool>(data[1])) {
        throw nb::buffer_error("the array is read-only");
    }
    memory->is_on_device = true; /* or nobody knows */
    memory->item_nbytes = std::stoul(typestr.substr(2));
    memory->type = type_of(typestr[1], memory->item_nbytes);
    memory->addr = (void *)nb::cast<uintptr_t>(data[0]);
    memory->nbytes =
        contiguous_nbytes(nb::cast<nb::tuple>(array["shape"]), strides, memory->item_nbytes);
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

/* Can the processor read memory of this kind of device? */
static bool is_read_by_cpu(int device_type)
{
    return device_type == nb::device::cpu::value || device_type == nb::device::cuda_host::value ||
           device_type == nb::device::rocm_host::value ||
           device_type == nb::device::cuda_managed::value;
}

template <typename Array> static void read_dlpack(const Array &array, Memory *memory)
{
    const nb::dlpack::dtype dtype = array.dtype();
    int64_t stride = 1;

    for (size_t i = array.ndim(); i-- > 0;) {
        if (array.shape(i) > 1 && array.stride(i) != stride) {
            throw nb::buffer_error("the tensor is not C-contiguous");
        }
        stride *= (int64_t)array.shape(i);
    }
    memory->is_on_device = !is_read_by_cpu(array.device_type());
    memory->item_nbytes = dtype.bits / 8;
    if (dtype.code == (uint8_t)nb::dlpack::dtype_code::Bfloat) {
        memory->type = NIXL_TYPE_BFLOAT16;
    } else {
        const char kind = dtype.code == (uint8_t)nb::dlpack::dtype_code::Int     ? 'i'
                          : dtype.code == (uint8_t)nb::dlpack::dtype_code::UInt  ? 'u'
                          : dtype.code == (uint8_t)nb::dlpack::dtype_code::Float ? 'f'
                                                                                 : '?';
        memory->type = type_of(kind, memory->item_nbytes);
    }
    memory->addr = (void *)array.data();
    memory->nbytes = array.nbytes();
}

/* Take a tensor, and return what keeps its memory. */
template <typename Array>
static std::shared_ptr<void> take_tensor(const Array &array, Memory *memory)
{
    read_dlpack(array, memory);
    return std::make_shared<Array>(array);
}

static std::shared_ptr<void> acquire_tensor(nb::handle object, bool is_written, Memory *memory)
{
    nb::ndarray<> tensor;

    /* nanobind takes one that says to be read-only as nb::ro alone. */
    if (is_written && nb::try_cast(object, tensor)) {
        return take_tensor(tensor, memory);
    }
    nb::ndarray<nb::ro> source = nb::cast<nb::ndarray<nb::ro>>(object);

    if (is_written) {
        throw nb::buffer_error("the tensor is read-only");
    }
    return take_tensor(source, memory);
}

void Memory::acquire_other(nb::handle object, bool is_written)
{
    nb::python_error refused;

    if (nb::hasattr(object, "__cuda_array_interface__")) {
        nb::object array = object.attr("__cuda_array_interface__");

        acquire_cuda_array(nb::cast<nb::dict>(array), is_written, this);
        owner = nb::borrow(object);
        return;
    }
    if (nb::hasattr(object, "__dlpack__") && !PyObject_CheckBuffer(object.ptr())) {
        tensor = acquire_tensor(object, is_written, this);
        owner = nb::borrow(object);
        return;
    }
    if (PyObject_CheckBuffer(object.ptr())) {
        throw nb::buffer_error(nb::str(refused.value()).c_str());
    }
    fail_type(std::string("memory must be an object with the buffer protocol, "
                          "__cuda_array_interface__ or __dlpack__, not ") +
              type_text(object));
}

Memory read_host_memory(nb::handle object, const char *name, bool is_typed)
{
    Memory memory(object, false, is_typed);

    if (memory.is_on_device) {
        fail_type(std::string(name) + " must be in the memory of the host, which the processor "
                                      "reads; copy it there first");
    }
    return memory;
}

nb::object make_dlpack(void *addr, size_t nbytes, int device_type, int device, nb::object owner)
{
    const size_t shape[] = {nbytes};
    nb::ndarray<uint8_t, nb::array_api> array(addr, 1, shape, owner, nullptr, nb::dtype<uint8_t>(),
                                              device_type, device);

    return nb::cast(array, nb::rv_policy::reference);
}

} // namespace nx
