/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new peer's names in the rails of libfabric (transports/ofi/peer.c), without libfabric: in all
 * rails that lead to it, or in none; a rail that is closed for now gets them when it opens.
 */
#include "transports/ofi/outbox.h"
#include "transports/ofi/repair.h"
#include "transports/ofi/rma.h"
#include "transports/tcp_health.h"

#include "test/unit/unit.h"

enum { N_RAILS = 3, NAME_NBYTES = 16 };

struct nxr_ofi nxr_ofi;

/* An address vector, and what it was told. */
static struct vector {
    struct fid_av av;
    bool is_refusing;
    int n_held;
} vectors[N_RAILS];

static int insert(struct fid_av *av, const void *name, size_t n, fi_addr_t *addr, uint64_t flags,
                  void *context)
{
    struct vector *vector = (struct vector *)(void *)av;

    (void)name;
    (void)flags;
    (void)context;
    if (vector->is_refusing) {
        return 0;
    }
    *addr = (fi_addr_t)vector->n_held++;
    return (int)n;
}

static int take_out(struct fid_av *av, fi_addr_t *addr, size_t n, uint64_t flags)
{
    struct vector *vector = (struct vector *)(void *)av;

    (void)flags;
    cr_assert_eq(n, 1);
    cr_assert_eq(*addr, --vector->n_held, "the last one that was inserted");
    return 0;
}

static struct fi_ops_av ops = {.size = sizeof(ops), .insert = insert, .remove = take_out};

/* ---- what peer.c calls ----------------------------------------------------------------------- */

bool nxr_ofi_post_messages(struct nxr_net_ep *ep)
{
    (void)ep;
    return false;
}

void nxr_ofi_liveness_end(struct nxr_net_ep *ep)
{
    (void)ep;
}

void nxr_ofi_outbox_free(struct nxr_net_ep *ep)
{
    (void)ep;
}

void nxr_ofi_repair_within(int64_t after_ns)
{
    (void)after_ns;
}

void nxr_ofi_rmas_end(struct nxr_net_ep *ep, int status)
{
    (void)ep;
    (void)status;
}

void nxr_tcp_health_to(const void *bytes, size_t nbytes, char *line, size_t line_nbytes)
{
    (void)bytes;
    (void)nbytes;
    (void)line_nbytes;
    line[0] = '\0';
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const struct nxr_net_core core = {.size = 2};
static struct nxr_ofi_address theirs;

static void make_address(struct nxr_ofi_address *address, uint64_t id)
{
    *address =
        (struct nxr_ofi_address){.n_rails = N_RAILS, .id = id, .host = id, .provider = "net"};
    for (unsigned i = 0; i < N_RAILS; i++) {
        address->rails[i].fabric = i + 1;
        address->rails[i].nbytes = NAME_NBYTES;
        address->rails[i].flags = NXR_OFI_ROUTED;
    }
}

static void start(void)
{
    nxr_ofi = (struct nxr_ofi){.core = &core, .n_rails = N_RAILS};
    for (unsigned i = 0; i < NXR_OFI_N_PEER_LISTS; i++) {
        nxr_list_init(&nxr_ofi.peers[i]);
    }
    make_address(&nxr_ofi.address, 1);
    make_address(&theirs, 2);
    for (unsigned i = 0; i < N_RAILS; i++) {
        vectors[i].av.ops = &ops;
        nxr_ofi.rails[i].index = i;
        nxr_ofi.rails[i].av = &vectors[i].av;
        nxr_ofi.rails[i].name_nbytes = NAME_NBYTES;
    }
}

TestSuite(ofi_peer, .init = start, .fini = nxr_ofi_peers_free, .timeout = 60);

Test(ofi_peer, all_rails_that_lead_to_it_know_its_name)
{
    cr_assert(nxr_ofi_peer_make(&theirs) != NULL);
    for (unsigned i = 0; i < N_RAILS; i++) {
        cr_expect_eq(vectors[i].n_held, 1, "rail %u", i);
    }
}

Test(ofi_peer, a_name_that_one_rail_refuses_stays_in_none)
{
    for (unsigned refusing = 0; refusing < N_RAILS; refusing++) {
        vectors[refusing].is_refusing = true;
        cr_assert(nxr_ofi_peer_make(&theirs) == NULL);
        vectors[refusing].is_refusing = false;
        for (unsigned i = 0; i < N_RAILS; i++) {
            cr_expect_eq(vectors[i].n_held, 0, "rail %u, refused by rail %u", i, refusing);
        }
    }
}

Test(ofi_peer, a_rail_that_is_closed_gets_the_name_when_it_opens)
{
    struct nxr_ofi_rail *rail = &nxr_ofi.rails[1];

    rail->av = NULL;
    cr_assert(nxr_ofi_peer_make(&theirs) != NULL);
    cr_expect_eq(vectors[0].n_held, 1);
    cr_expect_eq(vectors[1].n_held, 0);
    rail->av = &vectors[1].av;
    nxr_ofi_peers_insert(rail);
    cr_expect_eq(vectors[1].n_held, 1);
}

Test(ofi_peer, a_refusal_beside_a_closed_rail_ends_well)
{
    nxr_ofi.rails[0].av = NULL;
    vectors[2].is_refusing = true;
    cr_assert(nxr_ofi_peer_make(&theirs) == NULL);
    cr_expect_eq(vectors[1].n_held, 0);
}
