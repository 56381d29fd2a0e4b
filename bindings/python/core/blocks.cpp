/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: an entry of a side of a prepared transfer. A plan of a cache has one for each layer, so
 * that making and reading them is most of its cost: a type of Python's own API, since a class of
 * Python, or of nanobind, takes more than twice as long.
 *
 * Invariant: a field is an object; or NULL, after `del` or before __init__(). The fields are changed
 * and read with the object locked.
 */
#include "blocks.h"
#include "usual.h"

#include <cstddef>
#include <structmember.h>

namespace nx
{

struct Blocks {
    PyObject ob_base; /* PyObject_HEAD, without a name that a macro would give */
    PyObject *fields[BLOCKS_NFIELDS];
};

/* Of BlocksField; PyArg_ParseTupleAndKeywords() takes them so, too. */
static const char *const field_names[] = {"memory",  "block_nbytes", "offset",
                                          "stride",  "count",        "index",
                                          "extents", "first_extent", nullptr};
constexpr int NREQUIRED = 2, NPOSITIONAL = 6;

static PyTypeObject *blocks_type;
static PyObject *zero, *one;

bool is_blocks(nb::handle object)
{
    return PyObject_TypeCheck(object.ptr(), blocks_type);
}

BlocksFields::BlocksFields(nb::handle object, const char *name)
{
    if (!is_blocks(object)) {
        fail_type(std::string(name) + " must be Blocks, or a sequence of them, not " +
                  type_text(object));
    }
    nb::ft_object_guard guard(object);
    PyObject *const *fields = ((Blocks *)object.ptr())->fields;

    for (int i = 0; i < BLOCKS_NFIELDS; i++) {
        if (fields[i] == nullptr) {
            PyErr_Format(PyExc_AttributeError, "%s of these Blocks was deleted", field_names[i]);
            throw nb::python_error();
        }
        held[i] = nb::borrow(fields[i]);
    }
}

/* ---- the type -------------------------------------------------------------------------------- */

/* Blocks(memory, block_nbytes, ...) without keywords needs no parser. */
static bool parse(PyObject *args, PyObject *keywords, PyObject **values)
{
    const Py_ssize_t n = PyTuple_Size(args);

    if (keywords != nullptr || n < NREQUIRED || n > NPOSITIONAL) {
        return PyArg_ParseTupleAndKeywords(args, keywords, "OO|OOOO$OO:Blocks",
                                           (char **)field_names, &values[0], &values[1], &values[2],
                                           &values[3], &values[4], &values[5], &values[6],
                                           &values[7]) != 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        values[i] = PyTuple_GetItem(args, i);
    }
    return true;
}

static int blocks_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *values[BLOCKS_NFIELDS] = {nullptr, nullptr, zero, zero, one, Py_None, zero, zero};
    PyObject **fields = ((Blocks *)self)->fields;

    if (!parse(args, keywords, values)) {
        return -1;
    }
    {
        nb::ft_object_guard guard(self);

        for (int i = 0; i < BLOCKS_NFIELDS; i++) {
            Py_INCREF(values[i]);
            std::swap(fields[i], values[i]);
        }
    }
    for (PyObject *before : values) {
        Py_XDECREF(before);
    }
    return 0;
}

static int blocks_traverse(PyObject *self, visitproc visit, void *arg)
{
    for (PyObject *field : ((Blocks *)self)->fields) {
        Py_VISIT(field);
    }
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int blocks_clear(PyObject *self)
{
    for (PyObject *&field : ((Blocks *)self)->fields) {
        Py_CLEAR(field);
    }
    return 0;
}

static void blocks_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    (void)blocks_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *blocks_repr(PyObject *self)
{
    return call_usual([&] {
        const BlocksFields fields(self, "self");
        const bool is_indexed = !fields[BLOCKS_INDEX].is_none();

        return nb::steal(PyUnicode_FromFormat(
            "Blocks(%R, %S, offset=%S, stride=%S, %s=%R)", fields[BLOCKS_MEMORY].ptr(),
            fields[BLOCKS_BLOCK_NBYTES].ptr(), fields[BLOCKS_OFFSET].ptr(),
            fields[BLOCKS_STRIDE].ptr(), is_indexed ? "index" : "count",
            fields[is_indexed ? BLOCKS_INDEX : BLOCKS_COUNT].ptr()));
    });
}

/* For copy and pickle: what is given by position, and a state with what is not. */
static PyObject *blocks_reduce(PyObject *self, PyObject *)
{
    return call_usual([&] {
        const BlocksFields fields(self, "self");
        nb::dict extents;

        extents["extents"] = fields[BLOCKS_EXTENTS];
        extents["first_extent"] = fields[BLOCKS_FIRST_EXTENT];
        return nb::make_tuple(nb::handle((PyObject *)Py_TYPE(self)),
                              nb::make_tuple(fields[BLOCKS_MEMORY], fields[BLOCKS_BLOCK_NBYTES],
                                             fields[BLOCKS_OFFSET], fields[BLOCKS_STRIDE],
                                             fields[BLOCKS_COUNT], fields[BLOCKS_INDEX]),
                              nb::make_tuple(nb::none(), extents));
    });
}

static const char doc[] =
    "Blocks(memory, block_nbytes, offset=0, stride=0, count=1, index=None, *, extents=0, "
    "first_extent=0)\n--\n\n"
    R"(Blocks of one size: an entry of a side of a prepared transfer.

Block i begins at ``offset + n * stride``, where n is ``index[i]``, or i without an index.

Args:
    memory: a Region, or, on the local side, any contiguous buffer or tensor. It is held as long as
        the transfer lives.
    block_nbytes: bytes of a block, > 0.
    offset: bytes from the start of the memory.
    stride: bytes from one number to the next; ignored for one block without index.
    count: number of blocks; ignored with an index.
    index: a contiguous array of 64-bit integers (numpy, torch on the CPU, ``array("Q")``). It is not
        copied: its numbers may change between starts.
    extents: of a region of extents: the same blocks of so many extents, or ALL_EXTENTS, one after
        the other; ``offset`` counts from the beginning of each. 0: blocks anywhere in the region,
        each within one extent.
    first_extent: with ``extents``.)";

static PyMethodDef methods[] = {
    {"__reduce__", blocks_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

void bind_blocks(nb::module_ &module)
{
    static PyMemberDef members[BLOCKS_NFIELDS + 1];
    static PyType_Slot slots[] = {
        {Py_tp_doc, (void *)doc},
        {Py_tp_new, (void *)PyType_GenericNew},
        {Py_tp_init, (void *)blocks_init},
        {Py_tp_dealloc, (void *)blocks_dealloc},
        {Py_tp_traverse, (void *)blocks_traverse},
        {Py_tp_clear, (void *)blocks_clear},
        {Py_tp_repr, (void *)blocks_repr},
        {Py_tp_members, members},
        {Py_tp_methods, methods},
        {0, nullptr},
    };
    static PyType_Spec spec = {"nixlrun.Blocks", sizeof(Blocks), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                               slots};

    for (int i = 0; i < BLOCKS_NFIELDS; i++) {
        members[i].name = field_names[i];
        members[i].type = T_OBJECT_EX;
        members[i].offset = (Py_ssize_t)(offsetof(Blocks, fields) + (size_t)i * sizeof(PyObject *));
    }
    zero = PyLong_FromLong(0);
    one = PyLong_FromLong(1);
    module.attr("Blocks") = nb::steal(PyType_FromSpec(&spec));
    blocks_type = (PyTypeObject *)nb::object(module.attr("Blocks")).release().ptr();
}

} // namespace nx
