/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a trace for Perfetto: the few messages of its TrackEvent protobuf that nixlrun needs
 * (protos/perfetto/trace/ of Perfetto), encoded by hand. Times are nanoseconds. Tracks are named by
 * numbers of the caller's choice that are not 0. Names are constant while the writer is open: each
 * is written once, and then stands for its number.
 */
#ifndef NIXLRUN_LAUNCHER_PERFETTO_H
#define NIXLRUN_LAUNCHER_PERFETTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct perfetto_buffer {
    unsigned char *bytes;
    size_t nbytes, room;
};

enum perfetto_names { PERFETTO_CATEGORIES, PERFETTO_EVENTS, PERFETTO_KEYS, PERFETTO_N_NAMES };

struct perfetto {
    FILE *out;
    bool has_begun;
    struct {
        char **texts; /* number i + 1 */
        size_t n;
    } names[PERFETTO_N_NAMES];
    struct perfetto_buffer packet, message, part, interned;
};

enum perfetto_type { PERFETTO_BEGIN = 1, PERFETTO_END = 2, PERFETTO_INSTANT = 3 };

/* A debug annotation of an event: a number or a text. */
struct perfetto_note {
    const char *key;
    const char *text; /* NULL: the number */
    int64_t number;
};

struct perfetto_event {
    enum perfetto_type type;
    uint64_t track;
    int64_t ns;
    const char *category, *name; /* not of an END */
    uint64_t flow;               /* an arrow begins, goes through or, last, ends here; 0: none */
    bool is_flow_end;
    const struct perfetto_note *notes;
    size_t n_notes;
};

/* Write to `out`; perfetto_close() must follow, which does not close it. */
void perfetto_open(struct perfetto *trace, FILE *out);
void perfetto_close(struct perfetto *trace);

/* The track of a process. */
void perfetto_process(struct perfetto *trace, uint64_t track, int32_t pid, const char *name);

/* The track of a thread of it. */
void perfetto_thread(struct perfetto *trace, uint64_t track, int32_t pid, int32_t tid,
                     const char *name);

/* A track below another one. */
void perfetto_track(struct perfetto *trace, uint64_t track, uint64_t parent, const char *name);

void perfetto_event(struct perfetto *trace, const struct perfetto_event *event);

#endif
