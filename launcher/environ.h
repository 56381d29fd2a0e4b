/* SPDX-License-Identifier: Apache-2.0 */
/* Environments: a growing NULL-terminated vector of NAME=VALUE. */
#ifndef NIXLRUN_LAUNCHER_ENVIRON_H
#define NIXLRUN_LAUNCHER_ENVIRON_H

/*
 * Remove from our own environment what an outer launcher set about our own rank, so that neither
 * our PMIx server nor our ranks take it for theirs. The user's settings (PMIX_MCA_*, OMPI_MCA_*)
 * stay.
 */
void environ_leave_outer_job(void);

/* Tell Open MPI 4 that it was launched directly; a real jsrun or LSF does so itself. */
void environ_add_mpi_hints(void);

/* A copy of our environment, overridden by `extra` (NULL or a vector). */
char **environ_copy(char *const *extra);

/* Set NAME=VALUE. */
void environ_set(char ***env_p, const char *assignment);

void environ_free(char **env);

#endif
