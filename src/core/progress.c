/* SPDX-License-Identifier: Apache-2.0 */
/* One round over what subsystems and transports carry on. No lock of its own. */
#include "config.h"

#include "core/progress.h"
#include "transports/transport.h"
#include "core/subsystem.h"

_Atomic uint32_t nxr_n_started;
_Atomic uint32_t nxr_n_at_networks;
_Atomic uint32_t nxr_n_at_devices;
_Atomic uint32_t nxr_n_user_rounds;

bool nxr_progress_all(void)
{
    return nxr_subsystems_progress();
}

#ifdef NXR_DEBUG
static __thread bool is_in_progress;

bool nxr_progress_is_allowed(void)
{
    return !is_in_progress && !nxr_core_is_locked();
}

static void progress_set_inside(bool is_inside)
{
    NXR_ASSERT(!is_inside || nxr_progress_is_allowed());
    is_in_progress = is_inside;
}
#else
#define progress_set_inside(_is_inside) ((void)0)
#endif

static bool transports_progress(void)
{
    bool has_moved = false;

    progress_set_inside(true);
    for (size_t i = 0; i < nxr_n_transports; i++) {
        has_moved |= nxr_transports[i]->progress() > 0;
    }
    progress_set_inside(false);
    return has_moved;
}

const struct nxr_subsystem nxr_transports_subsystem = {
    .name = "transports",
    .progress = transports_progress,
};
