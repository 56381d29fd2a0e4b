/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into nixlrun and nixlrun-inspect: the library says that it is version 99.98.97. */
#include "nixlrun.h"

uint32_t nixl_version(void)
{
    return NIXL_VERSION_NUMBER(99, 98, 97);
}
