/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's configuration. UCX reads its UCX_ variables and its ucx.conf itself, and values from there
 * take precedence: a setting is changed here only if UCX still has its own default, which is why
 * the table repeats the defaults. Exceptions: settings that must hold, and NIXLRUN_NET_DEVICES,
 * which takes precedence over UCX's own variables, since the user has addressed it to nixlrun.
 * Signals are handled here because they are the one setting that UCX acts upon before it can be
 * configured.
 */
#include "config.h"

#include "ucx.h"

#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Only transports between hosts: ranks of one host have nixlrun's shared memory, and UCX silently
 * drops its own if it must detect a peer's death.
 */
#define NETWORKS "^sm,self"

/*
 * UCX built with CUDA initializes the driver at startup. Exclude it if UCX is not to touch GPU
 * memory; also, with it UCX 1.22 never sends a piece of bulk over TCP at once (bulk.c).
 */
#define NETWORKS_ONLY NETWORKS ",cuda"

/*
 * Settings of UCP; it prints its current values as UCX_NAME=VALUE. Those without a default are not
 * the user's to change. Messages on two lanes would overtake each other. Over TCP, zero-copy sends
 * are ended twice if the peer dies meanwhile, in UCX 1.13 and later: with UCX's assertions that
 * ends the process, without them it ends another request. This module decides itself when a
 * rendezvous pays (message.c). The registration cache makes UCX install hooks in mmap() and the
 * like, which pays only with RDMA.
 */
static const struct {
    const char *name;
    const char *default_value; /* NULL: always set */
    const char *value;
    bool is_for_rdma; /* leave UCX's default if there is RDMA */
} settings[] = {
    {"TLS", "all", NETWORKS, false},     {"MAX_EAGER_RAILS", NULL, "1", false},
    {"ZCOPY_THRESH", NULL, "inf", true}, {"RNDV_THRESH", NULL, "inf", true},
    {"RCACHE_ENABLE", "try", "n", true},
};

/*
 * Settings of the TCP transport, which UCX does not print. Without CONN_NB, connect() to a host
 * that has vanished blocks for minutes. The sizes limit what goes into one system call: our longest
 * message (endpoint.c) and a piece of bulk (bulk.c) must fit into the first with UCX's headers,
 * since they are sent at once or not at all.
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

/* Does the setting still have UCX's default? `text` is what UCX prints of its configuration. */
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
 * UCX up to 1.16 or so expects the name of a transport's setting without the transport, later
 * versions with it. The wrong name makes it warn (log.c drops that) or returns an error, without
 * any effect.
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
 * UCX installs handlers for SIGSEGV and the like as soon as it is loaded, to print a backtrace. A
 * library in someone else's process should not do that. This runs right after, when the module is
 * loaded.
 */
static void __attribute__((constructor)) restore_signals(void)
{
    unsigned major, minor, release;

    /* In another version the options are at other offsets; the core restores the handlers, too. */
    ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor != UCP_API_MINOR || ucs_global_opts.handle_errors == 0) {
        return;
    }
    for (unsigned i = 0; i < ucs_global_opts.error_signals.count; i++) {
        ucs_debug_disable_signal(ucs_global_opts.error_signals.signals[i]);
    }
}
