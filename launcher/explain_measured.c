/* SPDX-License-Identifier: Apache-2.0 */
/* Measured figures of routes, from the file that nixl_bench tune has written. State: its path. */
#include "config.h"

#include "launcher/explain_measured.h"

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
