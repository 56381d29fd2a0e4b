/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The upcalls of the PMIx server module that are in files of their own. They run on PMIx's threads
 * and only queue.
 */
#ifndef NIXLRUN_LAUNCHER_SERVER_UPCALLS_H
#define NIXLRUN_LAUNCHER_SERVER_UPCALLS_H

#include "launcher/server.h"

/* server_data.c */
pmix_status_t up_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t n_info,
                         pmix_op_cbfunc_t done, void *arg);
pmix_status_t up_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                        size_t n_info, pmix_lookup_cbfunc_t done, void *arg);
pmix_status_t up_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                           size_t n_info, pmix_op_cbfunc_t done, void *arg);

/* server_control.c, server_query.c, server_iof.c */
pmix_status_t up_job_control(const pmix_proc_t *from, const pmix_proc_t targets[], size_t n_targets,
                             const pmix_info_t directives[], size_t n_directives,
                             pmix_info_cbfunc_t done, void *arg);
pmix_status_t up_query(pmix_proc_t *from, pmix_query_t *queries, size_t n_queries,
                       pmix_info_cbfunc_t done, void *arg);
void up_log(const pmix_proc_t *from, const pmix_info_t data[], size_t n_data,
            const pmix_info_t directives[], size_t n_directives, pmix_op_cbfunc_t done, void *arg);
pmix_status_t up_iof_pull(const pmix_proc_t procs[], size_t n_procs, const pmix_info_t directives[],
                          size_t n_directives, pmix_iof_channel_t channels, pmix_op_cbfunc_t done,
                          void *arg);
pmix_status_t up_push_stdin(const pmix_proc_t *from, const pmix_proc_t targets[], size_t n_targets,
                            const pmix_info_t directives[], size_t n_directives,
                            const pmix_byte_object_t *bytes, pmix_op_cbfunc_t done, void *arg);

/* spawn.c */
pmix_status_t up_spawn(const pmix_proc_t *from, const pmix_info_t info[], size_t n_info,
                       const pmix_app_t apps[], size_t n_apps, pmix_spawn_cbfunc_t done, void *arg);

#endif
