/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of what is stored: files. */
#include "region.h"

#include <cstring>

namespace nx
{

int open_file(struct nixl_region **handle_p, const char *name, uint64_t nbytes, nb::handle file,
              const struct nixl_mem_params *made)
{
    const nb::tuple given = nb::cast<nb::tuple>(file);
    const bool has_path = !given[0].is_none();
    const nb::bytes path = has_path ? nb::cast<nb::bytes>(given[0]) : nb::bytes("", 0);
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;

    if (strlen(path.c_str()) != path.size()) {
        fail_value("the path has a zero byte");
    }
    params.fd = read_int_slow(given[1], "fd");
    params.flags = (uint32_t)read_u64(given[2], "flags");
    params.nbytes = nbytes;
    params.offset = read_u64(given[3], "offset");
    params.mode = (uint32_t)read_u64(given[4], "mode");
    params.access = made->access;
    params.context = made->context;
    Unlocked unlocked;

    return nixl_region_open_file(name, has_path ? path.c_str() : nullptr, &params, handle_p);
}

} // namespace nx
