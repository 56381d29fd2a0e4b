/* SPDX-License-Identifier: Apache-2.0 */
/* Files of variables: what is accepted must be NAME=VALUE with each name once. */
/* sources: launcher/envfile.c launcher/envlist.c launcher/textfile.c */
#include "launcher/envfile.h"
#include "launcher/xalloc.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_list(const struct envlist *list)
{
    for (size_t i = 0; i < list->n; i++) {
        size_t name_nbytes = strcspn(list->vars[i], "=");

        if (name_nbytes == 0 || list->vars[i][name_nbytes] != '=') {
            abort();
        }
        for (size_t j = 0; j < i; j++) {
            if (strncmp(list->vars[i], list->vars[j], name_nbytes + 1) == 0) {
                abort();
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char *text = x_array(NULL, nbytes + 1, 1);
    struct envlist list = {0};
    char cause[ENVFILE_CAUSE_NBYTES] = "";

    memcpy(text, data, nbytes);
    if (envfile_parse(text, nbytes, &list, cause) != 0 &&
        (cause[0] == '\0' || strchr(cause, '\n') != NULL)) {
        abort();
    }
    check_list(&list);
    envlist_free(&list);
    free(text);
    return 0;
}
