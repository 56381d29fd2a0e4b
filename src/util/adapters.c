/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapters are found by what their drivers list, which takes microseconds; the libraries take up to
 * half a second to find out. A container may have the devices without the list. No state.
 */
#include "config.h"

#include "util/adapters.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static bool adapters_are_in(const char *path, const char *prefix)
{
    DIR *folder = opendir(path);
    const struct dirent *entry = NULL;

    if (folder != NULL) {
        while ((entry = readdir(folder)) != NULL &&
               (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) != 0)) {
        }
        closedir(folder);
    }
    return entry != NULL;
}

bool nxr_adapters_exist(const char *root)
{
    /* Of RDMA, whoever made it; /dev/infiniband/rdma_cm is there without any adapter. */
    static const struct {
        const char *folder, *prefix;
    } places[] = {
        {"sys/class/infiniband", ""}, {"dev/infiniband", "uverbs"}, {"sys/class/cxi", ""},
        {"sys/class/cxi_user", ""},   {"sys/class/hfi1", ""},
    };
    char path[256];

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, places[i].folder);
        if (adapters_are_in(path, places[i].prefix)) {
            return true;
        }
    }
    return false;
}
