/* SPDX-License-Identifier: Apache-2.0 */
/* Environments of ranks: what they inherit, what is removed, what is overridden. */
#include "config.h"

#include "launcher/environ.h"
#include "launcher/xalloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Does this variable tell a process which rank of which job it is? */
static bool names_a_rank(const char *variable)
{
    static const char *const prefixes[] = {
        "PMIX_",
        "PMI_",
        "PMI2_",
        "OMPI_",
        "HYDI_",
        "OMPI_MCA_orte_",
        "OMPI_MCA_ess",
        "OMPI_MCA_pmix=",
        "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
        "OMPI_MCA_initial_wdir",
    };
    static const size_t first_of_outer_mca = 5; /* entries that match inside OMPI_MCA_ */
    bool is_mca = starts_with(variable, "PMIX_MCA_") || starts_with(variable, "OMPI_MCA_");

    for (size_t i = is_mca ? first_of_outer_mca : 0; i < sizeof(prefixes) / sizeof(*prefixes);
         i++) {
        if (starts_with(variable, prefixes[i])) {
            return true;
        }
    }
    return false;
}

void environ_leave_outer_job(void)
{
    static const char *const marks[] = {"PMIX_NAMESPACE", "PMI_RANK", "PMI_FD",
                                        "OMPI_COMM_WORLD_RANK"};
    bool is_inside = false;
    char **from, **to;

    unsetenv("NIXLRUN_INCARNATION");
    unsetenv("NIXLRUN_RENDEZVOUS");
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        is_inside = is_inside || getenv(marks[i]) != NULL;
    }
    if (!is_inside) {
        return;
    }
    for (from = to = environ; *from != NULL; from++) {
        if (!names_a_rank(*from)) {
            *to++ = *from;
        }
    }
    *to = NULL;
}

void environ_add_mpi_hints(void)
{
    if (getenv("LSB_JOBID") == NULL && getenv("JSM_NAMESPACE_RANK") == NULL) {
        setenv("JSM_JSRUN_PORT", "1", 0);
    }
}

void environ_set(char ***env_p, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    size_t n = 0, name_nbytes = equals != NULL ? (size_t)(equals - assignment) + 1 : 0;

    if (equals == NULL) {
        return;
    }
    for (; (*env_p)[n] != NULL; n++) {
        if (strncmp((*env_p)[n], assignment, name_nbytes) == 0) {
            free((*env_p)[n]);
            (*env_p)[n] = x_strdup(assignment);
            return;
        }
    }
    *env_p = x_array(*env_p, n + 2, sizeof(char *));
    (*env_p)[n] = x_strdup(assignment);
    (*env_p)[n + 1] = NULL;
}

char **environ_copy(char *const *extra)
{
    size_t n = 0;
    char **env;

    while (environ[n] != NULL) {
        n++;
    }
    env = x_calloc(n + 1, sizeof(*env));
    for (size_t i = 0; i < n; i++) {
        env[i] = x_strdup(environ[i]);
    }
    for (; extra != NULL && *extra != NULL; extra++) {
        environ_set(&env, *extra);
    }
    return env;
}

void environ_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        free(env[i]);
    }
    free(env);
}
