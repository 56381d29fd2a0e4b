/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured figures of routes and storage, from the file that nixl_bench tune has written. State:
 * its path.
 */
#include "config.h"

#include "launcher/explain_measured.h"
#include "launcher/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *measured_path; /* NULL: there is none */

/* Is the line one of that transport? */
static bool measured_take(const char *line, bool is_same_host, const char *transport,
                          uint64_t *latency_ns_p, uint64_t *bandwidth_mbps_p)
{
    char scope[8], name[16];
    uint64_t latency_ns, bandwidth_mbps;

    if (sscanf(line, "# route %7s %15s %" SCNu64 " %" SCNu64, scope, name, &latency_ns,
               &bandwidth_mbps) != 4 ||
        strcmp(scope, is_same_host ? "same" : "other") != 0 || strcmp(name, transport) != 0) {
        return false;
    }
    *latency_ns_p = latency_ns;
    *bandwidth_mbps_p = bandwidth_mbps;
    return true;
}

void explain_measured_open(const char *path)
{
    struct stat what;

    /* Of a pipe or device a rank could not read it all; the library has refused these already. */
    if (stat(path, &what) == 0 && S_ISREG(what.st_mode)) {
        measured_path = path;
    }
}

bool explain_measured(bool is_same_host, const char *transport, uint64_t *latency_ns_p,
                      uint64_t *bandwidth_mbps_p)
{
    char line[256];
    bool is_found = false;
    FILE *file = measured_path != NULL ? fopen(measured_path, "re") : NULL;

    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        is_found |= measured_take(line, is_same_host, transport, latency_ns_p, bandwidth_mbps_p);
    }
    fclose(file);
    return is_found;
}

/* ---- storage --------------------------------------------------------------------------------- */

/* Does the line tell of an engine? */
static bool measured_take_storage(const char *line, struct explain_storage *storage)
{
    struct explain_storage read = {.engine = ""};
    int at = 0;
    size_t nbytes;

    if (sscanf(line, "# storage %15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %n",
               read.engine, &read.read_mbps, &read.write_mbps, &read.reads_per_s,
               &read.writes_per_s, &at) != 5 ||
        at == 0) {
        return false;
    }
    nbytes = strcspn(line + at, "\r\n");
    if (nbytes == 0 || nbytes >= sizeof(read.directory)) {
        return false;
    }
    memcpy(read.directory, line + at, nbytes);
    *storage = read;
    return true;
}

static bool measured_is_same(const struct explain_storage *a, const struct explain_storage *b)
{
    return strcmp(a->engine, b->engine) == 0 && strcmp(a->directory, b->directory) == 0;
}

size_t explain_measured_storage(struct explain_storage *found, size_t room)
{
    FILE *file = measured_path != NULL ? fopen(measured_path, "re") : NULL;
    struct explain_storage storage;
    char line[256];
    size_t n = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        size_t i = 0;

        if (!measured_take_storage(line, &storage)) {
            continue;
        }
        while (i < n && !measured_is_same(&found[i], &storage)) {
            i++;
        }
        if (i < room) {
            found[i] = storage;
            n = i == n ? n + 1 : n;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return n;
}

void explain_storage_cells(const struct explain_storage *storage, char cells[MEASURED_CELLS_NBYTES])
{
    char directory[MEASURED_PATH_NBYTES], engine[16];

    memcpy(directory, storage->directory, sizeof(directory));
    memcpy(engine, storage->engine, sizeof(engine));
    snprintf(cells, MEASURED_CELLS_NBYTES,
             "%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, table_cell(directory),
             table_cell(engine), storage->read_mbps, storage->write_mbps, storage->reads_per_s,
             storage->writes_per_s);
}
