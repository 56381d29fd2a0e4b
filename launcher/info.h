/* SPDX-License-Identifier: Apache-2.0 */
/* nixlrun --info: what this host has for jobs, and what is missing. */
#ifndef NIXLRUN_LAUNCHER_INFO_H
#define NIXLRUN_LAUNCHER_INFO_H

#include "launcher/table.h"

#include <stdbool.h>
#include <stdio.h>

/* Find out and print. Runs programs (engines with --version, nixlrun-inspect); never fails. */
void info_print(FILE *out, bool is_json);

/* ---- what the kernel and hwloc know (info_host.c) -------------------------------------------- */

/* Columns of the tables that these fill. */
extern const struct table_column info_interface_columns[], info_gpu_columns[];

void info_add_interfaces(struct table *table);
void info_add_gpus(struct table *table);

/* ---- what processes that share memory may do (info_sharing.c) -------------------------------- */

extern const struct table_column info_sharing_columns[];
void info_add_sharing(struct table *table);

#endif
