/* SPDX-License-Identifier: Apache-2.0 */
/* One round over what is to be started and what transports carry on. No lock of its own. */
#include "config.h"

#include "progress.h"
#include "request.h"

void nxr_progress_all(void)
{
    nxr_request_start_begun();
    for (size_t i = 0; i < nxr_n_transports; i++) {
        nxr_transports[i]->progress();
    }
}
