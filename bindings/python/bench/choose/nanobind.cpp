/* SPDX-License-Identifier: Apache-2.0 */
/* A put by nanobind, as small as it can be. */
#include <nanobind/nanobind.h>
#include <nixlrun.h>

namespace nb = nanobind;
using namespace nb::literals;

struct Region {
    struct nixl_region *region = nullptr;

    explicit Region(const char *name)
    {
        if (nixl_region_open(name, &region) != NIXL_OK) {
            throw nb::value_error(nixl_last_error()->text);
        }
    }
    void put(int rank, nb::handle data, uint64_t offset)
    {
        struct nixl_req *req = nullptr;
        Py_buffer view;

        if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) {
            throw nb::python_error();
        }
        int status = nixl_put_x(rank, region, offset, view.buf, (size_t)view.len, nullptr, &req);
        PyBuffer_Release(&view);
        if (status != NIXL_OK) {
            throw nb::value_error(nixl_last_error()->text);
        }
    }
};

NB_MODULE(by_nanobind, module)
{
    module.def("empty", [](int number) { return number; });
    nb::class_<Region>(module, "Region")
        .def(nb::init<const char *>())
        .def("put", &Region::put, "rank"_a, "data"_a, "offset"_a = 0);
}
