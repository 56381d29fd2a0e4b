/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks, as transfer.cpp reads them. */
#ifndef NIXLRUN_PYTHON_BLOCKS_H
#define NIXLRUN_PYTHON_BLOCKS_H

#include "core.h"

#include <array>

namespace nx
{

enum BlocksField {
    BLOCKS_MEMORY,
    BLOCKS_BLOCK_NBYTES,
    BLOCKS_OFFSET,
    BLOCKS_STRIDE,
    BLOCKS_COUNT,
    BLOCKS_INDEX,
    BLOCKS_EXTENTS,
    BLOCKS_FIRST_EXTENT,
    BLOCKS_NFIELDS
};

/* What an object of Python has; references, since another thread may change the object. */
struct BlocksFields {
    BlocksFields(nb::handle object, const char *name); /* TypeError: it is no Blocks */
    nb::handle operator[](BlocksField field) const
    {
        return held[field];
    }

  private:
    std::array<nb::object, BLOCKS_NFIELDS> held;
};

bool is_blocks(nb::handle object);

} // namespace nx

#endif
