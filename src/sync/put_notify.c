/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data and a notification: a put or a get, followed by the notification, which its receiver gets
 * once the data is there. A network moves a small put and its notification in one trip. No lock.
 */
#include "config.h"

#include "sync/notify.h"
#include "core/trace.h"
#include "transfer/transfer.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/status.h"

/* In one trip, if a transport offers that. NIXL_E_AGAIN: do it in two steps. */
static inline int put_notify_at_once(int rank, struct nixl_region *region,
                                     const struct nxr_put_notify *what)
{
    struct nxr_segment *segment = nxr_region_segment(region, rank);
    struct nxr_put_notify placed;

    if (__builtin_expect(segment != NULL && segment->method < NXR_METHOD_MESSAGE, 1)) {
        return NIXL_E_AGAIN;
    }
    placed = *what;
    segment = nxr_transfer_message_segment(rank, region, &placed.offset, what->src, what->nbytes);
    return segment != NULL ? nxr_notify_put(segment, &placed) : NIXL_E_AGAIN;
}

/* A notification that follows a put. */
struct following {
    int rank;
    const struct nxr_put_notify *what;
    int64_t timeout_ns;
};

static int send_note(void *arg)
{
    const struct following *note = arg;

    return nxr_notify_send("nixl_put_notify", note->rank, &note->what->message, note->timeout_ns);
}

/*
 * The first use of a segment has to look it up. A call with a timeout waits for that only within
 * its timeout, and not at all with 0. NIXL_OK: continue, within what is left of *timeout_ns_p.
 */
static int await_segment(const char *operation, int rank, struct nixl_region *region,
                         const void *local, size_t nbytes, int64_t *timeout_ns_p)
{
    int64_t deadline = nxr_deadline(*timeout_ns_p);
    struct nxr_segment *segment;
    int status = nxr_transfer_check(operation, rank, region, local, nbytes);

    if (status != NIXL_OK || *timeout_ns_p >= nxr_env.resolve_timeout) {
        return status;
    }
    status = nxr_region_resolve(operation, region, rank, false, *timeout_ns_p, &segment);
    if (status == NIXL_INPROGRESS) {
        return nxr_fail(NIXL_E_AGAIN, operation, rank, "", 0,
                        "%s has not answered the request for region '%s' yet", nxr_rank_name(rank),
                        nxr_region_label(region->name));
    }
    *timeout_ns_p = nxr_left(*timeout_ns_p, deadline);
    return status;
}

static int put_then_notify(int rank, struct nixl_region *region, const struct nxr_put_notify *what,
                           int64_t timeout_ns)
{
    const struct nxr_piece piece = {what->offset, (void *)what->src, what->nbytes};
    struct following note = {rank, what, timeout_ns};
    struct nxr_peer *peer = nxr_peer_find(rank);
    int status = peer != NULL ? nxr_transfer_report_refusal("nixl_put_notify", peer) : NIXL_OK;

    if (status != NIXL_OK) {
        return status;
    }
    if (nxr_transfer_put_mapped(rank, region, what->offset, what->src, what->nbytes)) {
        return send_note(&note);
    }
    return nxr_transfer_put_then("nixl_put_notify", rank, region, &piece, 0, send_note, &note);
}

static int call_put_notify(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                           size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                           int64_t timeout_ns)
{
    const struct nxr_put_notify what = {
        .offset = offset,
        .src = src,
        .nbytes = nbytes,
        .message = {.tag = tag, .bytes = msg, .nbytes = msg_nbytes},
    };
    int status = nxr_notify_check("nixl_put_notify", rank, msg, msg_nbytes, timeout_ns);

    if (status == NIXL_OK && put_notify_at_once(rank, region, &what) == NIXL_OK) {
        return NIXL_OK;
    }
    if (status == NIXL_OK && __builtin_expect(nxr_region_segment(region, rank) == NULL, 0)) {
        status = await_segment("nixl_put_notify", rank, region, src, nbytes, &timeout_ns);
    }
    return status == NIXL_OK ? put_then_notify(rank, region, &what, timeout_ns) : status;
}

int nixl_put_notify(int rank, struct nixl_region *region, uint64_t offset, const void *src,
                    size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                    int64_t timeout_ns)
{
    return NXR_TRACED(
        NXR_TRACE_PUT, "nixl_put_notify", rank, nbytes, tag,
        call_put_notify(rank, region, offset, src, nbytes, tag, msg, msg_nbytes, timeout_ns));
}

static int call_get_notify(int rank, struct nixl_region *region, uint64_t offset, void *dst,
                           size_t nbytes, uint64_t tag, const void *msg, size_t msg_nbytes,
                           int64_t timeout_ns)
{
    const struct nxr_message message = {.tag = tag, .bytes = msg, .nbytes = msg_nbytes};
    int status = nxr_notify_check("nixl_get_notify", rank, msg, msg_nbytes, timeout_ns);

    if (status == NIXL_OK && __builtin_expect(nxr_region_segment(region, rank) == NULL, 0)) {
        status = await_segment("nixl_get_notify", rank, region, dst, nbytes, &timeout_ns);
    }
    if (status == NIXL_OK) {
        status = nxr_transfer_get("nixl_get_notify", rank, region, offset, dst, nbytes);
    }
    return status == NIXL_OK ? nxr_notify_send("nixl_get_notify", rank, &message, timeout_ns)
                             : status;
}

int nixl_get_notify(int rank, struct nixl_region *region, uint64_t offset, void *dst, size_t nbytes,
                    uint64_t tag, const void *msg, size_t msg_nbytes, int64_t timeout_ns)
{
    return NXR_TRACED(
        NXR_TRACE_GET, "nixl_get_notify", rank, nbytes, tag,
        call_get_notify(rank, region, offset, dst, nbytes, tag, msg, msg_nbytes, timeout_ns));
}
