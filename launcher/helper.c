/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the programs that belong to this nixlrun, not to another one that is installed. */
#include "config.h"

#include "launcher/helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool helper_find(const char *name, char path[PATH_MAX])
{
    static const char *const places[] = {"", "/../libexec/nixlrun"};
    char self[PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/') != NULL) {
        *strrchr(self, '/') = '\0';
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char candidate[PATH_MAX];

        snprintf(candidate, sizeof(candidate), "%s%s/%s", self, places[i], name);
        if (realpath(candidate, path) != NULL) {
            return true;
        }
    }
    snprintf(path, PATH_MAX, "%s/%s", NXR_LIBEXECDIR, name);
    return access(path, X_OK) == 0;
}
