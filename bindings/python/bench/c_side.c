/* SPDX-License-Identifier: Apache-2.0 */
/* The C side of bench.py, which loads it: the same calls in the same process. Times are in ns. */
#include <nixlrun.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Puts of 8 bytes to a rank's region; ns for each, or a negative status. */
double c_put(int rank, const char *name, const void *src, int n)
{
    struct nixl_region *region;
    int status = nixl_region_open(name, &region);
    int64_t begin;

    if (status != NIXL_OK || (status = nixl_put(rank, region, 0, src, 8)) != NIXL_OK) {
        return status;
    }
    begin = now_ns();
    for (int i = 0; i < n && status == NIXL_OK; i++) {
        status = nixl_put(rank, region, 0, src, 8);
    }
    begin = now_ns() - begin;
    (void)nixl_region_close(region, NIXL_FOREVER);
    return status == NIXL_OK ? (double)begin / n : status;
}

/*
 * Starts of a prepared transfer of indexed blocks, each waited for; ns of each start, and of each
 * until its end.
 */
int c_transfer(int rank, const char *name, void *memory, uint64_t nbytes, uint64_t nblocks,
               const uint64_t *here, const uint64_t *there, int n, double *starts, double *ends)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_region *region;
    struct nixl_xfer *xfer;
    int status = nixl_region_open(name, &region);

    if (status != NIXL_OK) {
        return status;
    }
    local.addr = memory;
    remote.region = region;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = nbytes;
    local.nblocks = remote.nblocks = nblocks;
    local.index = here;
    remote.index = there;
    status = nixl_xfer_create(NIXL_XFER_PUT, rank, &local, 1, &remote, 1, &xfer);
    for (int i = 0; i < n && status == NIXL_OK; i++) {
        struct nixl_req *req = NULL;
        int64_t begin = now_ns();

        status = nixl_xfer_start(xfer, &req);
        starts[i] = (double)(now_ns() - begin);
        status = status == NIXL_INPROGRESS ? nixl_req_wait(&req, NIXL_FOREVER) : status;
        ends[i] = (double)(now_ns() - begin);
    }
    (void)nixl_xfer_free(xfer);
    (void)nixl_region_close(region, NIXL_FOREVER);
    return status;
}

/* Send n notifications with pauses, in which the receiver falls asleep; each has its time. */
int c_send(int rank, uint64_t tag, int n, int64_t pause_ns)
{
    const struct timespec pause = {.tv_nsec = pause_ns};
    int status = NIXL_OK;

    for (int i = 0; i < n && status == NIXL_OK; i++) {
        int64_t now;

        nanosleep(&pause, NULL);
        now = now_ns();
        status = nixl_notify(rank, tag, &now, sizeof(now), NIXL_FOREVER);
    }
    return status;
}

/* The same into a descriptor, without the library. */
int c_send_bare(int descriptor, int n, int64_t pause_ns)
{
    const struct timespec pause = {.tv_nsec = pause_ns};

    for (int i = 0; i < n; i++) {
        int64_t now;

        nanosleep(&pause, NULL);
        now = now_ns();
        if (write(descriptor, &now, sizeof(now)) != (ssize_t)sizeof(now)) {
            return -1;
        }
    }
    return 0;
}

/* Round trips of notifications, which `is_first` begins; ns for each, or a negative status. */
double c_round_trips(int rank, uint64_t tag, int n, int is_first)
{
    const int64_t begin = now_ns();
    struct nixl_note note;
    int status = NIXL_OK;

    nixl_note_init(&note);
    for (int i = 0; i < 2 * n && status == NIXL_OK; i++) {
        status = i % 2 != is_first ? nixl_notify(rank, tag, NULL, 0, NIXL_FOREVER)
                                   : nixl_notify_recv(rank, tag, UINT64_MAX, NIXL_FOREVER, &note);
    }
    return status == NIXL_OK ? (double)(now_ns() - begin) / n : status;
}

/* Receive them; ns from sending to having each. */
int c_receive(int rank, uint64_t tag, int n, double *times)
{
    struct nixl_note note;
    int status = NIXL_OK;

    nixl_note_init(&note);
    for (int i = 0; i < n && status == NIXL_OK; i++) {
        int64_t sent;

        status = nixl_notify_recv(rank, tag, UINT64_MAX, NIXL_FOREVER, &note);
        memcpy(&sent, note.payload, sizeof(sent));
        times[i] = (double)(now_ns() - sent);
    }
    return status;
}
