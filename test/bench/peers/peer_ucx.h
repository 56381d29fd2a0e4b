/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw UCX (UCP) without a runtime: a worker, an endpoint to the other rank, and waiting for
 * requests. UCX_TLS chooses the transport.
 */
#ifndef PEER_UCX_H
#define PEER_UCX_H

#include "pair.h"

#include <ucp/api/ucp.h>

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h endpoint;
static const ucp_request_param_t plain;

static inline void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "peer_ucx: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static inline void finish(ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        check(UCS_PTR_RAW_STATUS(request), "operation");
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    check(ucp_request_check_status(request), "request");
    ucp_request_free(request);
}

static inline void open_worker(uint64_t features)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;

    check(ucp_config_read(NULL, NULL, &config), "config");
    check(ucp_init(&params, config, &context), "init");
    ucp_config_release(config);
    check(ucp_worker_create(context, &worker_params, &worker), "worker");
}

static inline void open_endpoint(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t nbytes;

    check(ucp_worker_get_address(worker, &address, &nbytes), "address");
    params.address = pair_swap(address, nbytes);
    check(ucp_ep_create(worker, &params, &endpoint), "endpoint");
}

static inline unsigned char *new_memory(void)
{
    void *memory;

    if (posix_memalign(&memory, 4096, PEER_DATA_NBYTES) != 0) {
        pair_die("malloc");
    }
    memset(memory, 0, PEER_DATA_NBYTES);
    return memory;
}

#endif
