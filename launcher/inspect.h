/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between nixlrun and nixlrun-inspect. */
#ifndef NIXLRUN_LAUNCHER_INSPECT_H
#define NIXLRUN_LAUNCHER_INSPECT_H

/*
 * nixlrun-inspect --info writes rows: the name of a table of info.c, then cells, a tab before each.
 * nixlrun-inspect --explain [--json] [--measured=FILE] [--lost=HOST=WHY]... is the program of a
 * job: its rank 0 prints what nixlrun shows. FILE is what nixl_bench tune has written; on a lost
 * HOST no rank can be started. nixlrun-inspect --there does nothing: it shows that one can.
 */
#define INSPECT_MEASURED "--measured="
#define INSPECT_LOST     "--lost="
#define INSPECT_THERE    "--there"
#define INSPECT_PROGRAM  "nixlrun-inspect"

/* The last line of --info. */
#define INSPECT_END "end"

#endif
