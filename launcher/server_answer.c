/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a defect of PMIx's server away (seen in 4.2.2; the lines are the same in its master of
 * 2025). If a rank dies while it connects, the answer to it cannot be sent. The server then drops
 * one reference too many to what it knows of the rank, which is freed while it is still in a list.
 * The next rank that connects, which may be the same one, started again, reads it there, and PMIx's
 * thread hangs or crashes.
 *
 * The public interface has nothing against that. The function that sends such answers is a symbol
 * of the library, called by name, so this file stands before it: what cannot be sent counts as
 * sent. The next read from that connection then finds its end, as if the rank had died a moment
 * later, and there nothing is dropped twice. A library that does not call it so is not changed.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "config.h"

#include "launcher/server.h"

#include <dlfcn.h>

#define EXPORTED __attribute__((visibility("default")))

typedef pmix_status_t send_blocking_fn(int fd, char *bytes, size_t nbytes);

EXPORTED send_blocking_fn pmix_ptl_base_send_blocking;

pmix_status_t pmix_ptl_base_send_blocking(int fd, char *bytes, size_t nbytes)
{
    static send_blocking_fn *_Atomic library_s;
    send_blocking_fn *function = library_s;
    pmix_status_t status;

    if (function == NULL) {
        function = (send_blocking_fn *)dlsym(RTLD_NEXT, __func__);
        library_s = function;
    }
    status = function != NULL ? function(fd, bytes, nbytes) : PMIX_ERR_NOT_SUPPORTED;
    return status == PMIX_ERR_UNREACH ? PMIX_SUCCESS : status;
}
