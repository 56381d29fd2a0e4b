/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the context uses, and what is known of such networks. UCP has no call that lists its
 * transports and devices before there is a connection, so they are parsed from what it prints about
 * a context: lines such as "# resource 0 : md 0 dev 0 flags -- tcp/eth0". No lock.
 */
#include "config.h"

#include "transports/interface.h"
#include "ucx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Memory of GPUs is no network, nor is a connection manager ("rdmacm/sockaddr"). */
static bool is_network(const char *name)
{
    static const char *const others[] = {"cuda", "gdr", "rocm", "ze_", "sockcm"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strncmp(name, others[i], strlen(others[i])) == 0) {
            return false;
        }
    }
    return strstr(name, "/sockaddr") == NULL;
}

static void add_device(const char *name, size_t nbytes)
{
    char *device;

    if (nbytes >= NXR_UCX_NAME_NBYTES || nxr_ucx.n_devices >= NXR_UCX_MAX_DEVICES) {
        return;
    }
    device = nxr_ucx.devices[nxr_ucx.n_devices];
    memcpy(device, name, nbytes);
    device[nbytes] = '\0';
    if (is_network(device)) {
        nxr_ucx.kinds |= strncmp(device, "tcp/", 4) == 0 ? NXR_UCX_HAS_TCP : NXR_UCX_HAS_RDMA;
        nxr_ucx.n_devices++;
    }
}

/* Take the last word of each line that describes a resource. */
static void read_resources(const char *text)
{
    while (*text != '\0') {
        size_t nbytes = strcspn(text, "\n"), begin = nbytes;

        while (begin > 0 && text[begin - 1] != ' ') {
            begin--;
        }
        if (memmem(text, nbytes, " resource ", 10) != NULL &&
            memchr(text + begin, '/', nbytes - begin) != NULL) {
            add_device(text + begin, nbytes - begin);
        }
        text += nbytes + (text[nbytes] == '\n');
    }
}

int nxr_ucx_find_devices(void)
{
    size_t nbytes;
    char *text;
    FILE *stream = open_memstream(&text, &nbytes);

    if (stream == NULL) {
        return NIXL_E_NO_MEMORY;
    }
    nxr_ucx.n_devices = nxr_ucx.kinds = 0;
    ucp_context_print_info(nxr_ucx.context, stream);
    if (fclose(stream) != 0) {
        free(text);
        return NIXL_E_NO_MEMORY;
    }
    read_resources(text);
    free(text);
    return nxr_ucx.n_devices > 0 ? NIXL_OK : NIXL_E_NO_DEVICE;
}

static bool ucx_devices_leads_out(const char *name)
{
    return strncmp(name, "tcp/", 4) != 0 || nxr_interface_extent(name + 4) == NXR_EXTENT_HOSTS;
}

/* A device may be listed twice, for two transports; UCX accepts that. */
bool nxr_ucx_list_outward(char *list, size_t list_nbytes)
{
    bool has_bridge = false, has_others = false;
    size_t used = 0;

    for (unsigned i = 0; i < nxr_ucx.n_devices && used < list_nbytes; i++) {
        const char *name = nxr_ucx.devices[i];

        if (!ucx_devices_leads_out(name)) {
            has_bridge = true;
        } else {
            used += (size_t)snprintf(list + used, list_nbytes - used, "%s%s", used > 0 ? "," : "",
                                     strchr(name, '/') + 1);
            has_others |= strcmp(name, "tcp/lo") != 0;
        }
    }
    if (has_bridge && has_others && nxr_ucx.core->devices[0] == '\0' && used < list_nbytes) {
        return true;
    }
    list[0] = '\0';
    return false;
}

/* "tcp on eth0, eth1; rc_mlx5 on mlx5_0:1": UCX lists the devices of a transport together. */
static void ucx_devices_describe_devices(char *line, size_t line_nbytes)
{
    const char *last = "";
    size_t at = 0;

    line[0] = '\0';
    for (unsigned i = 0; i < nxr_ucx.n_devices && at < line_nbytes; i++) {
        const char *name = nxr_ucx.devices[i];
        const char *device = strchr(name, '/') + 1;
        size_t name_nbytes = device - name;
        int written;

        if (strncmp(last, name, name_nbytes) == 0) {
            written = snprintf(line + at, line_nbytes - at, ", %s", device);
        } else {
            written = snprintf(line + at, line_nbytes - at, "%s%.*s on %s", i > 0 ? "; " : "",
                               (int)name_nbytes - 1, name, device);
        }
        at += written > 0 ? written : 0;
        last = name;
    }
}

/*
 * Two at most, by UCX's own default. UCX does not stripe over sockets: over two links of 1 Gbit/s a
 * put and a get of 16 MiB took as long as over one (140 ms, UCX 1.13).
 */
static unsigned count_rails(bool is_rdma)
{
    unsigned n = 0;

    if (!is_rdma) {
        return 1;
    }
    for (unsigned i = 0; i < nxr_ucx.n_devices; i++) {
        n += strcmp(nxr_ucx.devices[i], "tcp/lo") != 0;
    }
    return n == 0 ? 1 : n < 2 ? n : 2;
}

/*
 * Was UCX built for CUDA, and did it find a driver? UCX's adapters reach that memory if NVIDIA's
 * kernel module lets them; else UCX copies it through host memory.
 */
static void ask_for_gpus(bool is_rdma)
{
    static const char *const lets_in[] = {
        "/sys/module/nvidia_peermem",
        "/sys/kernel/mm/memory_peers/nv_mem",
        "/sys/module/nv_peer_mem",
    };
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    unsigned *kinds_p = &nxr_ucx.attr.copied_kinds;

    if (ucp_context_query(nxr_ucx.context, &attr) != UCS_OK ||
        (attr.memory_types & (1ull << UCS_MEMORY_TYPE_CUDA)) == 0) {
        return;
    }
    for (size_t i = 0; is_rdma && i < sizeof(lets_in) / sizeof(lets_in[0]); i++) {
        if (access(lets_in[i], F_OK) == 0) {
            kinds_p = &nxr_ucx.attr.device_kinds;
        }
    }
    *kinds_p = 1u << NIXL_MEM_CUDA;
}

void nxr_ucx_fill_attr(void)
{
    bool is_rdma = (nxr_ucx.kinds & NXR_UCX_HAS_RDMA) != 0;
    unsigned major, minor, release;
    Dl_info info;

    nxr_ucx.attr = (struct nxr_net_attr){
        .message_nbytes = NXR_UCX_MESSAGE_NBYTES,
        .has_bulk = true,
        .has_rma = true,
        .is_rma_better = is_rdma || nxr_ucx.core->prefers_rma,
        .orders_writes = false,
        .put_message_nbytes = NXR_UCX_PUT_MESSAGE_NBYTES,
        .get_message_nbytes = NXR_UCX_PUT_MESSAGE_NBYTES,
        .list_get_nbytes = NXR_UCX_PUT_MESSAGE_NBYTES,
        .takes_mappings = !is_rdma,
        /*
         * Conservative estimates: over TCP between two namespaces 8 bytes took 4.3 us one way, as
         * with libfabric, which is preferred since it also reads and writes by itself. No RDMA
         * adapter was available to be measured.
         */
        .latency_ns = is_rdma ? 2000 : 6500,
        .bandwidth_mbps = is_rdma ? 12000 : 6000,
        .n_rails = count_rails(is_rdma),
    };
    ask_for_gpus(is_rdma);
    if (!is_rdma && nxr_ucx.core->wants_copied && nxr_ucx.attr.copied_kinds != 0) {
        nxr_ucx.attr.is_rma_better = true; /* bulk in pieces does not work with CUDA: settings.c */
    }
    if (nxr_ucx.core->prefers_rma && !is_rdma) {
        nxr_ucx.core->log(NXR_NET_WARN,
                          "NIXLRUN_NET_METHOD is 'rma', and UCX has no RDMA hardware here: it may "
                          "end this process when another rank dies; allowed without that is auto");
    }
    ucp_get_version(&major, &minor, &release);
    if (dladdr(__extension__(void *) ucp_init_version, &info) != 0 && info.dli_fname != NULL) {
        snprintf(nxr_ucx.attr.library, sizeof(nxr_ucx.attr.library), "UCX %u.%u.%u, %s", major,
                 minor, release, info.dli_fname);
    } else {
        snprintf(nxr_ucx.attr.library, sizeof(nxr_ucx.attr.library), "UCX %u.%u.%u", major, minor,
                 release);
    }
    ucx_devices_describe_devices(nxr_ucx.attr.devices, sizeof(nxr_ucx.attr.devices));
}
