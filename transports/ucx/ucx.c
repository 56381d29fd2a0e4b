/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UCX network: its table, its life, and how it is driven. There is one context and one worker,
 * which serves all peers. The worker uses UCX's thread mode "single", since the core lets in one
 * thread at a time.
 *
 * UCX's descriptors are in an epoll instance of ours: that one is closed on exec, and contains the
 * timer of orderly closes, too. The core's lock.
 */
#include "config.h"

#include "envelope.h"
#include "ucx.h"
#include "util/adapters.h"
#include "util/debug.h"
#include "util/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How often close() drives UCX, at most, to complete forced closes. */
#define CLOSE_ROUNDS 1000

/* The UCP calls that this module needs exist since these versions. */
#define OLDEST_MAJOR 1u
#define OLDEST_MINOR 12u

struct nxr_ucx nxr_ucx;

static int ucx_timer_fd = -1;

static int ucx_probe(char *why, size_t why_nbytes)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if (major != OLDEST_MAJOR || minor < OLDEST_MINOR) {
        snprintf(why, why_nbytes, "the library is UCX %u.%u.%u; UCX %u.%u or newer is needed",
                 major, minor, release, OLDEST_MAJOR, OLDEST_MINOR);
        return NIXL_E_UNSUPPORTED;
    }
    return NIXL_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

static ucs_status_t open_context_for(bool has_rdma, const char *devices)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
        .name = "nixlrun",
    };
    ucp_config_t *config;
    ucs_status_t status = nxr_ucx_settings(nxr_ucx.core, has_rdma, devices, &config);

    if (status != UCS_OK) {
        return status;
    }
    status = ucp_init(&params, config, &nxr_ucx.context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        nxr_ucx.context = NULL;
    }
    return status;
}

/*
 * What TCP needs depends on whether there is anything else, and UCX reports that only after it was
 * set up: the user may have chosen TCP although there are adapters. The same holds for the devices:
 * UCX would treat a bridge to this host's containers as a path to other hosts, and wait there for
 * an answer.
 */
static ucs_status_t open_context(void)
{
    bool may_have_rdma = nxr_adapters_exist(""), has_rdma;
    ucs_status_t status = open_context_for(may_have_rdma, "");
    char devices[NXR_UCX_LIST_NBYTES];

    if (status != UCS_OK || nxr_ucx_find_devices() != NIXL_OK) {
        return status;
    }
    has_rdma = may_have_rdma && (nxr_ucx.kinds & NXR_UCX_HAS_RDMA) != 0;
    if (nxr_ucx_list_outward(devices, sizeof(devices)) || has_rdma != may_have_rdma) {
        ucp_cleanup(nxr_ucx.context);
        status = open_context_for(has_rdma, devices);
    }
    return status;
}

static ucs_status_t open_worker(void)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENT_FD,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
        .event_fd = nxr_ucx.event_fd,
    };
    ucs_status_t status = ucp_worker_create(nxr_ucx.context, &params, &nxr_ucx.worker);

    if (status != UCS_OK) {
        nxr_ucx.worker = NULL;
        return status;
    }
    return nxr_ucx_messages_start();
}

static int open_events(void)
{
    struct epoll_event event = {.events = EPOLLIN};

    nxr_ucx.event_fd = epoll_create1(EPOLL_CLOEXEC);
    ucx_timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (nxr_ucx.event_fd < 0 || ucx_timer_fd < 0 ||
        epoll_ctl(nxr_ucx.event_fd, EPOLL_CTL_ADD, ucx_timer_fd, &event) != 0) {
        return errno;
    }
    return 0;
}

static void ucx_close_all(void)
{
    if (nxr_ucx.worker != NULL) {
        ucp_worker_destroy(nxr_ucx.worker);
    }
    if (nxr_ucx.context != NULL) {
        ucp_cleanup(nxr_ucx.context);
    }
    if (ucx_timer_fd >= 0) {
        close(ucx_timer_fd);
    }
    if (nxr_ucx.event_fd >= 0) {
        close(nxr_ucx.event_fd);
    }
    ucx_timer_fd = -1;
}

/* The state of other processes is freed last: incomplete bulk hangs there. */
static void forget_senders(void)
{
    nxr_ucx_senders_free();
    nxr_ucx_bulks_free();
}

static bool prepare_to_hear(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    /* Up to UCX 1.13, a queued request or reply is dangerous over TCP: endpoint.c. */
    nxr_ucx.must_hear = major == 1 && minor < 14 && nxr_ucx.kinds == NXR_UCX_HAS_TCP;
    return nxr_random(&nxr_ucx.id, sizeof(nxr_ucx.id));
}

/* What UCX logged meanwhile says more than its status. */
static void ucx_explain(char *why, size_t why_nbytes, ucs_status_t status)
{
    char line[200];

    nxr_ucx_log_take(line, sizeof(line));
    snprintf(why, why_nbytes, "UCX: %s%s%s", ucs_status_string(status), line[0] != '\0' ? ": " : "",
             line);
}

static int ucx_open(const struct nxr_net_core *core, char *why, size_t why_nbytes)
{
    ucs_status_t status;
    int error;

    memset(&nxr_ucx, 0, sizeof(nxr_ucx));
    nxr_ucx.core = core;
    nxr_ucx.event_fd = -1;
    nxr_list_init(&nxr_ucx.endpoints);
    nxr_list_init(&nxr_ucx.wanted);
    nxr_list_init(&nxr_ucx.failed);
    nxr_list_init(&nxr_ucx.closing);
    nxr_list_init(&nxr_ucx.abandoned);
    nxr_list_init(&nxr_ucx.landings);
    nxr_list_init(&nxr_ucx.ended);
    nxr_list_init(&nxr_ucx.bulk_eps);
    nxr_list_init(&nxr_ucx.heads);
    nxr_list_init(&nxr_ucx.cut);
    nxr_ucx_senders_init();
    nxr_ucx_log_start();
    error = open_events();
    if (error != 0) {
        snprintf(why, why_nbytes, "no event descriptor: %s", strerror(error));
    } else {
        status = open_context();
        if (status == UCS_OK) {
            status = open_worker();
        }
        if (status != UCS_OK) {
            ucx_explain(why, why_nbytes, status);
        } else if (nxr_ucx_find_devices() != NIXL_OK) {
            snprintf(why, why_nbytes, "UCX has no network device to use");
        } else if (!prepare_to_hear()) {
            snprintf(why, why_nbytes, "no random number to name this process (getrandom)");
        } else {
            nxr_ucx_fill_attr();
            nxr_rail_open(core, "ucx", NULL, "ucx", &nxr_ucx.rail);
            return NIXL_OK;
        }
    }
    ucx_close_all();
    forget_senders();
    nxr_ucx_log_stop();
    nxr_ucx.core = NULL;
    return NIXL_E_TRANSPORT;
}

static void ucx_close(void)
{
    nxr_ucx.is_progressing = true;
    nxr_ucx_tell_ended();
    nxr_ucx_endpoints_close();
    for (unsigned i = 0; i < CLOSE_ROUNDS && ucp_worker_progress(nxr_ucx.worker) > 0; i++) {
    }
    ucx_close_all();
    nxr_ucx_endpoints_free();
    nxr_ucx_messages_stop();
    forget_senders();
    nxr_rail_close(nxr_ucx.core, &nxr_ucx.rail);
    nxr_ucx_log_tell();
    nxr_ucx_log_stop();
    nxr_ucx.core = NULL;
}

static const struct nxr_net_attr *ucx_attr(void)
{
    return &nxr_ucx.attr;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int ucx_address(void *bytes, size_t *nbytes_p)
{
    ucp_worker_attr_t attr = {
        .field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS,
        .address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY,
    };
    struct nxr_ucx_envelope envelope = {.magic = NXR_UCX_ADDRESS_MAGIC};
    unsigned major, minor, release;
    size_t nbytes;

    if (ucp_worker_query(nxr_ucx.worker, &attr) != UCS_OK) {
        return NIXL_E_TRANSPORT;
    }
    ucp_get_version(&major, &minor, &release);
    envelope.ucx_major = major;
    envelope.ucx_minor = minor;
    envelope.kinds = nxr_ucx.kinds;
    envelope.id = nxr_ucx.id;
    nbytes =
        nxr_ucx_wrap(&envelope, attr.address, attr.address_length, bytes, NXR_NET_ADDRESS_NBYTES);
    ucp_worker_release_address(nxr_ucx.worker, attr.address);
    if (nbytes == 0) {
        nxr_ucx.core->log(
            NXR_NET_ERROR,
            "UCX's address has %zu bytes with %u devices, and %zu fit: choose devices "
            "with NIXLRUN_NET_DEVICES",
            attr.address_length, nxr_ucx.n_devices, NXR_NET_ADDRESS_NBYTES - sizeof(envelope));
        return NIXL_E_LIMIT;
    }
    *nbytes_p = nbytes;
    return NIXL_OK;
}

/*
 * UCX finds out with the first message whether it can reach a peer, not before. What can be checked
 * here: the address is intact, both have a network of the same kind, and the same version, since
 * UCX keeps its messages compatible within one version only.
 */
static int ucx_reach(const void *address, size_t nbytes, unsigned *n_rails_p, char *why,
                     size_t why_nbytes)
{
    struct nxr_ucx_envelope envelope;
    unsigned major, minor, release;
    const void *contents;
    char reason[80];

    if (nxr_ucx_unwrap(NXR_UCX_ADDRESS_MAGIC, address, nbytes, &envelope, &contents, reason,
                       sizeof(reason)) != NIXL_OK) {
        snprintf(why, why_nbytes, "the peer's address is damaged: %s", reason);
        return NIXL_E_UNSUPPORTED;
    }
    ucp_get_version(&major, &minor, &release);
    if (envelope.ucx_major != major || envelope.ucx_minor != minor) {
        snprintf(why, why_nbytes, "the peer has UCX %u.%u and this rank %u.%u: they must be equal",
                 envelope.ucx_major, envelope.ucx_minor, major, minor);
        return NIXL_E_UNSUPPORTED;
    }
    if ((envelope.kinds & nxr_ucx.kinds) == 0) {
        snprintf(why, why_nbytes, "the peer has no network of a kind that this rank has (%s)",
                 nxr_ucx.attr.devices);
        return NIXL_E_UNSUPPORTED;
    }
    *n_rails_p = nxr_ucx.attr.n_rails;
    return NIXL_OK;
}

/* ---- driving it ------------------------------------------------------------------------------ */

static int ucx_progress(void)
{
    int n;

    NXR_ASSERT(!nxr_ucx.is_progressing);
    nxr_ucx.is_progressing = true;
    nxr_ucx.is_idle = true;
    nxr_ucx.is_inside = true;
    n = (int)ucp_worker_progress(nxr_ucx.worker);
    nxr_ucx.is_inside = false;
    if (!nxr_list_is_empty(&nxr_ucx.bulk_eps) || !nxr_list_is_empty(&nxr_ucx.cut)) {
        n += nxr_ucx_bulks_progress();
    }
    if (n > 0) {
        nxr_ucx.is_idle = false;
    }
    if (!nxr_list_is_empty(&nxr_ucx.ended)) {
        n += nxr_ucx_tell_ended();
    }
    if (!nxr_list_is_empty(&nxr_ucx.failed) || !nxr_list_is_empty(&nxr_ucx.closing) ||
        !nxr_list_is_empty(&nxr_ucx.wanted)) {
        n += nxr_ucx_endpoints_progress();
    }
    n += nxr_ucx_log_tell();
    nxr_ucx.is_progressing = false;
    return n;
}

void nxr_ucx_set_timer(int64_t after_ns)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = after_ns / 1000000000, .tv_nsec = after_ns % 1000000000},
    };

    (void)timerfd_settime(ucx_timer_fd, 0, &when, NULL);
}

static int ucx_event_fd(void)
{
    return nxr_ucx.event_fd;
}

/*
 * UCX has work that no descriptor signals, such as the steps of making a connection: the caller may
 * sleep only after a progress that found nothing.
 */
static int ucx_arm(void)
{
    if (!nxr_ucx.is_idle || !nxr_list_is_empty(&nxr_ucx.ended) ||
        !nxr_list_is_empty(&nxr_ucx.failed) || !nxr_ucx_log_is_empty()) {
        return NIXL_E_AGAIN;
    }
    return ucp_worker_arm(nxr_ucx.worker) == UCS_OK ? NIXL_OK : NIXL_E_AGAIN;
}

static int ucx_describe(unsigned index, char *line, size_t line_nbytes)
{
    if (index >= nxr_ucx.n_devices) {
        return NIXL_E_NOT_FOUND;
    }
    snprintf(line, line_nbytes, "%s", nxr_ucx.devices[index]);
    return NIXL_OK;
}

NIXL_API extern const struct nxr_network nxr_network_ucx;

const struct nxr_network nxr_network_ucx = {
    .abi = NXR_NETWORK_ABI,
    .name = "ucx",
    .probe = ucx_probe,
    .open = ucx_open,
    .close = ucx_close,
    .attr = ucx_attr,
    .address = ucx_address,
    .reach = ucx_reach,
    .ep_open = nxr_ucx_ep_open,
    .ep_close = nxr_ucx_ep_close,
    .ep_reach = nxr_ucx_ep_reach,
    .ep_state = nxr_ucx_ep_state,
    .send = nxr_ucx_send,
    .rebase = nxr_ucx_bulk_rebase,
    .mem_register = nxr_ucx_mem_register,
    .mem_release = nxr_ucx_mem_release,
    .key_open = nxr_ucx_key_open,
    .key_close = nxr_ucx_key_close,
    .write = nxr_ucx_write,
    .read = nxr_ucx_read,
    .progress = ucx_progress,
    .event_fd = ucx_event_fd,
    .arm = ucx_arm,
    .describe = ucx_describe,
};
