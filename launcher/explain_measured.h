/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun --explain: what nixl_bench tune has measured of routes on these machines. */
#ifndef NIXLRUN_LAUNCHER_EXPLAIN_MEASURED_H
#define NIXLRUN_LAUNCHER_EXPLAIN_MEASURED_H

#include <stdbool.h>
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

#endif
