/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx_Init, with what its versions and the engines need set. No lock: only the thread that joins,
 * or ends the job, calls this.
 */
#include "config.h"

#include "boot/pmix_init.h"
#include "boot/call.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA_VARIABLE    "PMIX_MCA_gds"
#define PLUGINS_VARIABLE "PMIX_PKGLIBDIR"

static pmix_proc_t *pmix_init_self;

/*
 * PMIx 4.2.3 to 5 read the machine's whole topology when a client joins. Each rank would read the
 * PCI devices, serialized in the kernel, and query every driver that hwloc has a plugin for. If the
 * client passes a topology, they skip this. A NULL topology still lets them load it on demand
 * (PMIx_Load_topology), like versions before 4.2.3.
 */
static pmix_status_t init_pmix(void *unused)
{
    static pmix_topology_t none = {.source = (char *)"hwloc"};
    pmix_info_t info = {.value = {.type = PMIX_TOPO, .data.topo = &none}};

    (void)unused;
    PMIX_LOAD_KEY(info.key, PMIX_TOPOLOGY2);
    return PMIx_Init(pmix_init_self, &info, 1);
}

/*
 * The folder of PMIx's plugins that came with this library and its PMIx, in a Python wheel; else
 * false: PMIx knows its own. A plugin of another PMIx would load that one, too.
 */
static bool boot_find_plugins(char path[PATH_MAX])
{
    const char *slash = NULL;
    Dl_info info;

    if (dladdr(&pmix_init_self, &info) != 0 && info.dli_fname != NULL) {
        slash = strrchr(info.dli_fname, '/');
    }
    if (slash == NULL || slash - info.dli_fname > PATH_MAX - 32) {
        return false;
    }
    snprintf(path, PATH_MAX, "%.*s/nixlrun/pmix", (int)(slash - info.dli_fname), info.dli_fname);
    return access(path, X_OK) == 0;
}

/*
 * By default PMIx keeps its data in memory that ranks share with the server. The number of locks in
 * it depends on the name by which the host knows itself: if the engine uses another name for it (an
 * address, an alias, a name that two hosts share), ranks wait for each other forever. The "hash"
 * store uses messages and has no locks. Our own launcher knows its host by one name, so it needs no
 * change.
 */
pmix_status_t nxr_pmix_init(pmix_proc_t *self, bool is_foreign, int64_t timeout_ns)
{
    char plugins[PATH_MAX];
    const char *const settings[][2] = {{DATA_VARIABLE, "hash"}, {PLUGINS_VARIABLE, plugins}};
    bool is_wanted[2] = {is_foreign, boot_find_plugins(plugins)};
    pmix_status_t status;

    pmix_init_self = self;
    for (int i = 0; i < 2; i++) {
        is_wanted[i] = is_wanted[i] && getenv(settings[i][0]) == NULL;
        if (is_wanted[i]) {
            setenv(settings[i][0], settings[i][1], 0);
        }
    }
    status = nxr_call_blocking(init_pmix, NULL, timeout_ns);
    for (int i = 0; i < 2; i++) {
        if (is_wanted[i]) {
            unsetenv(settings[i][0]);
        }
    }
    return status;
}

void nxr_pmix_init_again(void)
{
    init_pmix(NULL);
}
