/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What UCX is asked for. UCX reads its UCX_ variables and its ucx.conf itself, and what stands
 * there wins over what is set here: a setting is made only where UCX still has its own default,
 * which is why the defaults are repeated in the table; but for what must hold. NIXLRUN_NET_DEVICES
 * wins over both, since the user has said it to nixlrun. Signals are in here because they are the
 * one setting that UCX acts upon before anybody can ask.
 */
#include "config.h"

#include "ucx.h"

#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Only what crosses hosts: ranks of one host have nixlrun's shared memory, and UCX's own is
 * silently dropped where UCX must notice a peer's death.
 */
#define NETWORKS "^sm,self"

/*
 * UCX built with CUDA starts the driver when it is set up. Where it is not to touch GPU memory it
 * shall not; and with it, UCX 1.22 sends no piece of bulk over TCP at once (bulk.c).
 */
#define NETWORKS_ONLY NETWORKS ",cuda"

/*
 * Settings of UCP, which prints what it has of the user as UCX_NAME=VALUE. Those without a default
 * are not the user's. Messages on two lanes would overtake each other. Over TCP what is sent from
 * where it lies is ended twice if the peer dies meanwhile, in UCX 1.13 and its successors: with
 * UCX's assertions that is the end of the process, without them of somebody else's request. When a
 * rendezvous is worth it, this module says (message.c). The cache of registrations makes UCX write
 * hooks into mmap() and its like, which is worth it only with RDMA.
 */
static const struct {
    const char *name;
    const char *default_value; /* NULL: must hold */
    const char *value;
    bool is_for_rdma; /* leave it as it is where there is RDMA */
} settings[] = {
    {"TLS", "all", NETWORKS, false},     {"MAX_EAGER_RAILS", NULL, "1", false},
    {"ZCOPY_THRESH", NULL, "inf", true}, {"RNDV_THRESH", NULL, "inf", true},
    {"RCACHE_ENABLE", "try", "n", true},
};

/*
 * Settings of the TCP transport, which UCX does not print. Without CONN_NB a connect() to a host
 * that has vanished blocks for minutes. The sizes are of what goes into one system call: our
 * longest message (endpoint.c) and a piece of bulk (bulk.c) must fit into the first with UCX's
 * headers, since they are sent at once or not at all.
 */
static const struct {
    const char *name;
    bool must;
    const char *value;
} tcp_settings[] = {
    {"CONN_NB", true, "y"},
    {"TX_SEG_SIZE", true, "132k"},
    {"RX_SEG_SIZE", false, "256k"},
};

/* Is the setting as UCX ships it? `text` is what UCX prints of its configuration. */
static bool is_default(const char *text, const char *name, const char *value)
{
    char line[128];

    snprintf(line, sizeof(line), "UCX_%s=%s\n", name, value);
    return strstr(text, line) != NULL;
}

static bool needs_cuda(const struct nxr_net_core *core, bool has_rdma)
{
    return core->wants_copied || (has_rdma && core->wants_devices);
}

static ucs_status_t set_defaults(ucp_config_t *config, const struct nxr_net_core *core,
                                 bool has_rdma, const char *devices)
{
    ucs_status_t status = UCS_OK;
    size_t nbytes;
    char *text;
    FILE *stream = open_memstream(&text, &nbytes);

    if (stream == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    if (fclose(stream) != 0) {
        free(text);
        return UCS_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && status == UCS_OK; i++) {
        const char *name = settings[i].name, *default_value = settings[i].default_value;
        const char *value = settings[i].value;

        if ((default_value == NULL || is_default(text, name, default_value)) &&
            !(settings[i].is_for_rdma && has_rdma)) {
            if (strcmp(value, NETWORKS) == 0 && !needs_cuda(core, has_rdma)) {
                value = NETWORKS_ONLY;
            }
            status = ucp_config_modify(config, name, value);
        }
    }
    if (status == UCS_OK && devices[0] != '\0' && is_default(text, "NET_DEVICES", "all")) {
        status = ucp_config_modify(config, "NET_DEVICES", devices);
    }
    free(text);
    return status;
}

/*
 * UCX up to 1.16 or so wants the name of a transport's setting without the transport, later ones
 * with it. The wrong one makes it warn (log.c hears that), or is an error that stays without
 * effect.
 */
static ucs_status_t set_tcp(ucp_config_t *config)
{
    for (size_t i = 0; i < sizeof(tcp_settings) / sizeof(tcp_settings[0]); i++) {
        const char *name = tcp_settings[i].name, *value = tcp_settings[i].value;
        char long_name[32], variable[32];
        ucs_status_t status, long_status;

        snprintf(long_name, sizeof(long_name), "TCP_%s", name);
        snprintf(variable, sizeof(variable), "UCX_TCP_%s", name);
        if (!tcp_settings[i].must && getenv(variable) != NULL) {
            continue;
        }
        status = ucp_config_modify(config, name, value);
        long_status = ucp_config_modify(config, long_name, value);
        if (status != UCS_OK && long_status != UCS_OK) {
            return status;
        }
    }
    return UCS_OK;
}

ucs_status_t nxr_ucx_settings(const struct nxr_net_core *core, bool has_rdma, const char *devices,
                              ucp_config_t **config_p)
{
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK) {
        return status;
    }
    status = set_defaults(config, core, has_rdma, devices);
    if (status == UCS_OK) {
        status = set_tcp(config);
    }
    if (status == UCS_OK && core->devices[0] != '\0') {
        status = ucp_config_modify(config, "NET_DEVICES", core->devices);
    }
    if (status != UCS_OK) {
        ucp_config_release(config);
        return status;
    }
    *config_p = config;
    return UCS_OK;
}

/*
 * UCX catches SIGSEGV and its like from the moment it is loaded, to print a backtrace. A library in
 * somebody's process has no business with them. This runs when the module is loaded, right after.
 */
static void __attribute__((constructor)) restore_signals(void)
{
    unsigned major, minor, release;

    /* In another version the options lie elsewhere; the core undoes it, too. */
    ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor != UCP_API_MINOR || ucs_global_opts.handle_errors == 0) {
        return;
    }
    for (unsigned i = 0; i < ucs_global_opts.error_signals.count; i++) {
        ucs_debug_disable_signal(ucs_global_opts.error_signals.signals[i]);
    }
}
