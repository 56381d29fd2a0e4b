/* SPDX-License-Identifier: Apache-2.0 */
/* One round over what is to be started and what transports carry on. No lock of its own. */
#include "config.h"

#include "core/progress.h"
#include "core/request.h"
#include "transfer/stage.h"
#include "transfer/xfer.h"

_Atomic uint32_t nxr_n_user_rounds;

bool nxr_progress_all(void)
{
    bool has_moved = nxr_request_start_begun();

    has_moved |= nxr_xfer_progress();
    for (size_t i = 0; i < nxr_n_transports; i++) {
        has_moved |= nxr_transports[i]->progress() > 0;
    }
    has_moved |= nxr_transport_stage.progress() > 0;
    return has_moved | (nxr_device_progress() > 0);
}
