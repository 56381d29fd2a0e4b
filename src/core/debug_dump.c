/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_debug_dump(): the observation page of this rank in words. No lock and no memory: what is
 * read is written for readers in other processes, or is atomic.
 */
#include "config.h"

#include "core/job.h"
#include "core/observe.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/wait_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define DUMP_LINE_NBYTES 512

struct dump {
    int fd;
    int error; /* an errno; 0: all was written so far */
};

static void dump_line(struct dump *dump, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void dump_line(struct dump *dump, const char *format, ...)
{
    char line[DUMP_LINE_NBYTES], *at = line;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    n = n < 0 ? 0 : n > (int)sizeof(line) - 2 ? (int)sizeof(line) - 2 : n;
    line[n++] = '\n';
    while (n > 0 && dump->error == 0) {
        ssize_t written = write(dump->fd, at, (size_t)n);

        if (written < 0 && errno != EINTR) {
            dump->error = errno;
        }
        at += written > 0 ? written : 0;
        n -= written > 0 ? (int)written : 0;
    }
}

static void dump_wait(struct dump *dump, const struct nxr_wait_record *record)
{
    int64_t ms = (nxr_now_ns() - record->since_ns) / NXR_MS;
    char text[NXR_WAIT_TEXT_NBYTES];

    dump_line(dump, "  thread %" PRId32 " %s, for %" PRId64 ".%" PRId64 " s", record->tid,
              nxr_wait_text(record, nxr_job.size, text), ms / 1000, ms % 1000 / 100);
}

/* Since when has the first of them waited? INT64_MAX: no thread does. */
static int64_t dump_waits(struct dump *dump, const struct nxr_observe_waits *waits)
{
    struct nxr_wait_record record;
    int64_t since_ns = INT64_MAX;

    for (int i = 0; i < NXR_OBSERVE_N_WAITS; i++) {
        if (atomic_load(&waits->records[i].is_used) != 0 &&
            nxr_observe_read(&record, &waits->records[i], sizeof(record)) &&
            record.kind != NXR_WAIT_NONE) {
            dump_wait(dump, &record);
            since_ns = record.since_ns < since_ns ? record.since_ns : since_ns;
        }
    }
    if (since_ns == INT64_MAX) {
        dump_line(dump, "  no thread waits in a call");
    }
    return since_ns;
}

/* A thread that has waited for 50 ms lists them each second: what was listed before is over. */
static void dump_lists(struct dump *dump, const struct nxr_observe_waits *waits)
{
    int64_t ms = (nxr_now_ns() - atomic_load(&waits->listed_ns)) / NXR_MS;
    char text[NXR_WAIT_TEXT_NBYTES];
    struct nxr_wait_flights flights;
    struct nxr_wait_notes notes;

    if (nxr_observe_read(&notes, &waits->notes, sizeof(notes)) && notes.n > 0) {
        dump_line(dump, "  queued unmatched, %" PRId64 " ms ago: %s", ms,
                  nxr_wait_notes_text(&notes, nxr_job.size, text));
    }
    if (nxr_observe_read(&flights, &waits->flights, sizeof(flights)) && flights.n > 0) {
        dump_line(dump, "  operations under way, %" PRId64 " ms ago: %s", ms,
                  nxr_wait_flights_text(&flights, nxr_job.size, text));
    }
}

static void dump_peers(struct dump *dump)
{
    for (const struct nxr_peer *peer = nxr_peers_next(NULL); peer != NULL;
         peer = nxr_peers_next(peer)) {
        if (nxr_peer_is_lost(peer)) {
            dump_line(dump, "  %s %d is lost",
                      peer->rank < nxr_job.size ? "rank" : "the attached process", peer->rank);
        }
    }
}

int nixl_debug_dump(int fd)
{
    static const char operation[] = "nixl_debug_dump";
    const struct nxr_observe_waits *waits = nxr_observed_waits;
    struct dump dump = {.fd = fd};
    int status = nxr_check_ready(operation), flags;

    if (status != NIXL_OK) {
        return status;
    }
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, -1, "", 0,
                        "%d is no descriptor that can be written to", fd);
    }
    dump_line(&dump, "rank %d of %d on host %s (pid %d):", nxr_job.rank, nxr_job.size,
              nxr_job.card.head.host, (int)getpid());
    if (waits == NULL) {
        dump_line(&dump, "  has no memory to record what it waits for");
    } else {
        int64_t since_ns = dump_waits(&dump, waits);

        if (atomic_load(&waits->listed_ns) >= since_ns) {
            dump_lists(&dump, waits);
        }
    }
    dump_peers(&dump);
    return dump.error == 0 ? NIXL_OK
                           : nxr_fail(NIXL_E_TRANSPORT, operation, -1, "", 0,
                                      "cannot write to descriptor %d: error %d", fd, dump.error);
}
