/* SPDX-License-Identifier: Apache-2.0 */
/* A list of variables. A name that is given again gets the later value at its first place. */
#include "launcher/envlist.h"
#include "launcher/xalloc.h"

extern char **environ;

void envlist_set(struct envlist *list, const char *assignment)
{
    size_t name_nbytes = strcspn(assignment, "=") + 1; /* with the = */

    for (size_t i = 0; i < list->n; i++) {
        if (strncmp(list->vars[i], assignment, name_nbytes) == 0) {
            free(list->vars[i]);
            list->vars[i] = x_strdup(assignment);
            return;
        }
    }
    list->vars = x_array(list->vars, list->n + 2, sizeof(*list->vars));
    list->vars[list->n++] = x_strdup(assignment);
    list->vars[list->n] = NULL;
}

bool envlist_has(const struct envlist *list, const char *name)
{
    size_t nbytes = strlen(name);

    for (size_t i = 0; i < list->n; i++) {
        if (strncmp(list->vars[i], name, nbytes) == 0 && list->vars[i][nbytes] == '=') {
            return true;
        }
    }
    return false;
}

int envlist_pass(struct envlist *list, const char *name)
{
    size_t nbytes = strlen(name);

    for (char **var = environ; *var != NULL; var++) {
        if (strncmp(*var, name, nbytes) == 0 && (*var)[nbytes] == '=') {
            envlist_set(list, *var);
            return 0;
        }
    }
    return -1;
}

void envlist_pass_prefix(struct envlist *list, const char *prefix)
{
    size_t nbytes = strlen(prefix);

    for (char **var = environ; *var != NULL; var++) {
        if (strncmp(*var, prefix, nbytes) == 0 && strchr(*var + nbytes, '=') != NULL) {
            envlist_set(list, *var);
        }
    }
}

void envlist_free(struct envlist *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->vars[i]);
    }
    free(list->vars);
    *list = (struct envlist){0};
}
