/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between nixlrun and nixlrun-inspect. */
#ifndef NIXLRUN_LAUNCHER_INSPECT_H
#define NIXLRUN_LAUNCHER_INSPECT_H

/*
 * nixlrun-inspect --info writes rows: the name of a table of info.c, then cells, a tab before each.
 * nixlrun-inspect --explain [--json] [--measured=FILE] is the program of a job: its rank 0 prints
 * what nixlrun shows. FILE is what nixl_bench tune has written.
 */
#define INSPECT_MEASURED "--measured="
#define INSPECT_PROGRAM  "nixlrun-inspect"

/* The last line of --info. */
#define INSPECT_END "end"

#endif
