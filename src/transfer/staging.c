/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging as a transport, for operations that none can do directly: the engine is in
 * staging_pipeline.c. No state, no lock.
 */
#include "config.h"

#include "net/net.h"
#include "region/region.h"
#include "transfer/staging_pipeline.h"

#include <stdio.h>

bool nxr_staging_is_needed(const struct nxr_segment *segment)
{
    return nxr_net_needs_window(segment); /* also while the segment is being closed */
}

static int staging_probe(char *why, size_t why_nbytes)
{
    (void)why;
    (void)why_nbytes;
    return NIXL_OK;
}

static int staging_reach(enum nixl_scope_kind scope, enum nixl_mem_kind kind, char *why,
                         size_t why_nbytes)
{
    (void)scope;
    (void)kind;
    snprintf(why, why_nbytes, "serves no segment by itself");
    return NIXL_E_UNSUPPORTED;
}

static int staging_segment_open(struct nxr_segment *segment, int fd,
                                const struct nxr_remote_key *remote)
{
    (void)segment;
    (void)fd;
    (void)remote;
    return NIXL_E_UNSUPPORTED;
}

static void staging_segment_close(struct nxr_segment *segment)
{
    (void)segment;
}

/* Host memory that fits into a message needs no staging. */
static int staging_put(struct nxr_segment *segment, uint64_t offset, const void *src, size_t nbytes)
{
    return nxr_range_find(src) == NULL ? segment->transport->put(segment, offset, src, nbytes)
                                       : NIXL_E_AGAIN;
}

static int staging_get(struct nxr_segment *segment, uint64_t offset, void *dst, size_t nbytes)
{
    return nxr_range_find(dst) == NULL ? segment->transport->get(segment, offset, dst, nbytes)
                                       : NIXL_E_AGAIN;
}

static int staging_notify(struct nxr_peer *peer, const struct nxr_message *message)
{
    (void)peer;
    (void)message;
    return NIXL_E_UNSUPPORTED;
}

const struct nxr_transport nxr_transport_staging = {
    .name = "staging",
    .probe = staging_probe,
    .reach = staging_reach,
    .segment_open = staging_segment_open,
    .serves = nxr_no_serves,
    .segment_close = staging_segment_close,
    .segment_is_busy = nxr_no_segment_is_busy,
    .put = staging_put,
    .get = staging_get,
    .put_notify = nxr_no_put_notify,
    .put_signal = nxr_no_put_signal,
    .move_list = nxr_no_move_list,
    .start = nxr_staging_start,
    .start_list = nxr_staging_start,
    .cancel = nxr_staging_cancel,
    .progress = nxr_staging_progress,
    .notify = staging_notify,
    .fence = nxr_no_order,
    .flush = nxr_no_order,
    .atomic = nxr_no_atomic,
    .signal = nxr_no_signal,
};
