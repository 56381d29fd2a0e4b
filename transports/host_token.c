/* SPDX-License-Identifier: Apache-2.0 */
/* The id of this network namespace, for modules that publish addresses. No state. */
#include "config.h"

#include "host_token.h"

#include <stdio.h>
#include <sys/stat.h>

uint64_t nxr_host_token(void)
{
    char boot_id[40] = "";
    struct stat ns = {0};
    uint64_t token;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file != NULL) {
        if (fgets(boot_id, sizeof(boot_id), file) == NULL) {
            boot_id[0] = '\0';
        }
        fclose(file);
    }
    if (stat("/proc/self/ns/net", &ns) != 0) {
        ns.st_ino = 0;
    }
    token = ns.st_ino;
    for (const char *at = boot_id; *at != '\0'; at++) {
        token = (token ^ (unsigned char)*at) * 0x100000001b3u;
    }
    return token;
}
