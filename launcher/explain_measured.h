/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nixl_bench tune has measured of routes and storage on these machines, for nixlrun --explain
 * and --info.
 */
#ifndef NIXLRUN_LAUNCHER_EXPLAIN_MEASURED_H
#define NIXLRUN_LAUNCHER_EXPLAIN_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Take figures from that file, if it is one. The path is kept. */
void explain_measured_open(const char *path);

/*
 * What a line "# route SCOPE TRANSPORT LATENCY_NS MB_S" of it says; SCOPE is same or other: a rank
 * of the same host or of another one. The library takes such lines for comments. The last one that
 * fits counts. False: there is none.
 */
bool explain_measured(bool is_same_host, const char *transport, uint64_t *latency_ns_p,
                      uint64_t *bandwidth_mbps_p);

enum { MEASURED_PATH_NBYTES = 128 };

/* An engine and the files of a directory: of 1 MiB in order, and of 4 KiB at random. */
struct explain_storage {
    char engine[16], directory[MEASURED_PATH_NBYTES];
    uint64_t read_mbps, write_mbps, reads_per_s, writes_per_s;
};

/*
 * What lines "# storage ENGINE READ_MB_S WRITE_MB_S READS_S WRITES_S DIRECTORY" say, in their
 * order; the last one of an engine and a directory counts. At most `room`; returns how many.
 */
size_t explain_measured_storage(struct explain_storage *found, size_t room);

/* Directory, engine and figures as cells of a row of the table, a tab between. */
enum { MEASURED_CELLS_NBYTES = 256 };
void explain_storage_cells(const struct explain_storage *storage,
                           char cells[MEASURED_CELLS_NBYTES]);

#define EXPLAIN_STORAGE_TABLE "storage_figures"

/* The columns of these cells. */
#define EXPLAIN_STORAGE_COLUMNS                                                                    \
    {"directory", "directory", TABLE_TEXT}, {"by", "by", TABLE_TEXT},                              \
        {"read_mb_s", "read MB/s", TABLE_NUMBER}, {"write_mb_s", "write MB/s", TABLE_NUMBER},      \
        {"reads_per_s", "4 KiB reads/s", TABLE_NUMBER},                                            \
    {                                                                                              \
        "writes_per_s", "4 KiB writes/s", TABLE_NUMBER                                             \
    }

#endif
