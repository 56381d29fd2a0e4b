/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing transports. The result of the probes is constant after init: no lock. */
#include "config.h"

#include "core/route.h"
#include "util/env.h"
#include "util/log.h"

#include <stdio.h>
#include <string.h>

static bool is_usable[NXR_MAX_TRANSPORTS];
static char why_not[NXR_MAX_TRANSPORTS][96];

static bool is_in_list(const char *list, const char *name)
{
    size_t name_nbytes = strlen(name);

    while (*list != '\0') {
        size_t item_nbytes = strcspn(list, ",");

        if (item_nbytes == name_nbytes && strncmp(list, name, name_nbytes) == 0) {
            return true;
        }
        list += item_nbytes;
        list += *list == ',';
    }
    return false;
}

bool nxr_route_is_allowed(const char *name)
{
    const char *wanted = nxr_env.transports;
    bool is_excluding = wanted[0] == '^';
    const char *list = wanted + is_excluding;

    return list[0] == '\0' || is_in_list(list, name) != is_excluding;
}

void nxr_route_init(void)
{
    for (size_t i = 0; i < nxr_n_transports; i++) {
        const struct nxr_transport *transport = nxr_transports[i];

        is_usable[i] = false;
        if (!nxr_route_is_allowed(transport->name)) {
            snprintf(why_not[i], sizeof(why_not[i]), "excluded by NIXLRUN_TRANSPORTS");
        } else {
            is_usable[i] = transport->probe(why_not[i], sizeof(why_not[i])) == NIXL_OK;
        }
        nxr_debug(ROUTE, "transport %s: %s", transport->name, is_usable[i] ? "usable" : why_not[i]);
    }
}

const struct nxr_transport *nxr_route_choose(enum nixl_scope_kind scope, char *why,
                                             size_t why_nbytes)
{
    size_t used = 0;

    why[0] = '\0';
    for (size_t i = 0; i < nxr_n_transports; i++) {
        const struct nxr_transport *transport = nxr_transports[i];
        char reason[96];

        memcpy(reason, why_not[i], sizeof(reason));
        if (is_usable[i] &&
            transport->reach(scope, NIXL_MEM_HOST, reason, sizeof(reason)) == NIXL_OK) {
            return transport;
        }
        if (used < why_nbytes) {
            used += (size_t)snprintf(why + used, why_nbytes - used, "%s%s: %s",
                                     used > 0 ? "; " : "", transport->name, reason);
        }
    }
    return NULL;
}

const struct nxr_transport *nxr_route_next(size_t *index_p, enum nixl_scope_kind scope,
                                           enum nixl_mem_kind kind)
{
    char reason[96];

    while (*index_p < nxr_n_transports) {
        size_t i = (*index_p)++;

        if (is_usable[i] &&
            nxr_transports[i]->reach(scope, kind, reason, sizeof(reason)) == NIXL_OK) {
            return nxr_transports[i];
        }
    }
    return NULL;
}

const struct nxr_transport *nxr_route_at(size_t index, bool *is_usable_p, const char **why_p)
{
    if (index >= nxr_n_transports) {
        return NULL;
    }
    *is_usable_p = is_usable[index];
    *why_p = is_usable[index] ? "" : why_not[index];
    return nxr_transports[index];
}

void nxr_route_expect_of(const struct nxr_transport *transport, const struct nxr_peer *peer,
                         enum nxr_method method, uint64_t *latency_ns_p, uint64_t *bandwidth_mbps_p)
{
    *latency_ns_p = 0;
    *bandwidth_mbps_p = 0;
    if (transport->expect != NULL) {
        transport->expect(peer, method, latency_ns_p, bandwidth_mbps_p);
    }
}

void nxr_route_expect(const struct nxr_segment *segment, uint64_t *latency_ns_p,
                      uint64_t *bandwidth_mbps_p)
{
    nxr_route_expect_of(segment->transport, segment->peer, segment->method, latency_ns_p,
                        bandwidth_mbps_p);
}

const char nxr_storage_route[] = "storage";

/* The last ones are names of storage engines. */
static const char *const route_method_names[NXR_N_METHODS] = {
    [NXR_METHOD_NONE] = "",
    [NXR_METHOD_MEMCPY] = "memcpy",
    [NXR_METHOD_PROCESS_VM] = "process_vm",
    [NXR_METHOD_BOUNCE] = "bounce",
    [NXR_METHOD_MESSAGE] = "message",
    [NXR_METHOD_RMA] = "rma",
    [NXR_METHOD_DEVICE] = "device",
    [NXR_METHOD_URING] = "io_uring",
    [NXR_METHOD_THREADS] = "threads",
    [NXR_METHOD_S3] = "s3",
    [NXR_METHOD_CUFILE] = "cuFile",
};

const char *nxr_method_name(enum nxr_method method)
{
    return route_method_names[method];
}

enum nxr_method nxr_key_storage(const struct nxr_key *key)
{
    unsigned number = (key->marks & NXR_KEY_STORAGE) >> NXR_KEY_STORAGE_SHIFT;

    return number != 0 && number < NXR_N_METHODS - NXR_METHOD_DEVICE
               ? (enum nxr_method)(NXR_METHOD_DEVICE + number)
               : NXR_METHOD_NONE;
}

uint8_t nxr_storage_marks(const char *engine)
{
    for (unsigned method = NXR_METHOD_DEVICE + 1; method < NXR_N_METHODS; method++) {
        if (strcmp(engine, route_method_names[method]) == 0) {
            return (uint8_t)((method - NXR_METHOD_DEVICE) << NXR_KEY_STORAGE_SHIFT);
        }
    }
    return 0;
}
