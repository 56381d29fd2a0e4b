/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a probe of a peer's port finds (transports/ofi/liveness.c), without libfabric: a port that
 * refuses, one that takes the connection, and an address that no connection can be made to.
 */
#include "transports/ofi/repair.h"
#include "util/clock.h"

#include "test/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

struct nxr_ofi nxr_ofi;

static struct nxr_net_ep ep;
static int listener = -1;
static struct sockaddr_in port;

static void start(void)
{
    socklen_t nbytes = sizeof(port);

    nxr_ofi.n_rails = 1;
    nxr_ofi.rails[0].is_software = true;
    nxr_ofi.rails[0].name_nbytes = sizeof(port);
    nxr_ofi.now = NXR_S;
    port = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(zero(int, bind(listener, (struct sockaddr *)&port, sizeof(port))));
    cr_assert(zero(int, getsockname(listener, (struct sockaddr *)&port, &nbytes)));
}

/* Probe that address until the outcome is known. Does the peer count as gone? */
static bool probe(const struct sockaddr_in *name, unsigned n_rounds)
{
    bool is_gone = false;

    memcpy(ep.address.rails[0].name, name, sizeof(*name));
    for (unsigned i = 0; i < n_rounds && !is_gone; i++) {
        nxr_ofi.now += 300 * NXR_MS;
        is_gone = nxr_ofi_liveness_probe(&ep);
    }
    nxr_ofi_liveness_end(&ep);
    return is_gone;
}

TestSuite(liveness, .init = start, .timeout = 60);

Test(liveness, a_port_that_refuses_twice_is_gone)
{
    cr_assert(probe(&port, 4));
    cr_assert(eq(int, ep.paths[0].probe_error, ECONNREFUSED));
}

Test(liveness, a_port_that_takes_the_connection_is_there)
{
    cr_assert(zero(int, listen(listener, 8)));
    cr_assert(not(probe(&port, 4)));
    cr_assert(eq(int, ep.paths[0].probe_error, NXR_OFI_TAKEN));
}

/* The kernel tells that at once, and not a second time. TCP reaches no broadcast address. */
Test(liveness, an_address_that_is_unreachable_has_taken_nothing)
{
    struct sockaddr_in nowhere = port;

    nowhere.sin_addr.s_addr = htonl(0x7fffffff);
    cr_assert(not(probe(&nowhere, 4)));
    cr_assert(eq(int, ep.paths[0].probe_error, ENETUNREACH));
}
