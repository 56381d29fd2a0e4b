/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new peer's names in the rails of libfabric (transports/ofi/peer.c), without libfabric: in all
 * rails that lead to it, or in none; a rail that is closed for now gets them when it opens. Peers
 * that the core does not have (aside.c).
 */
#include "transports/ofi/outbox.h"
#include "transports/ofi/repair.h"
#include "transports/ofi/rma.h"
#include "transports/tcp_health.h"

#include "test/unit/unit.h"

enum { N_RAILS = 3, NAME_NBYTES = 16 };

struct nxr_ofi nxr_ofi;

static bool must_be_last = true; /* names are taken out in the reverse order */

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
    vector->n_held--;
    if (must_be_last) {
        cr_assert_eq(*addr, (fi_addr_t)vector->n_held, "the last one that was inserted");
    }
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

static bool is_sending; /* libfabric still uses every outbox */
static int n_freed;     /* outboxes */

bool nxr_ofi_outbox_is_under_way(const struct nxr_net_ep *ep)
{
    (void)ep;
    return is_sending;
}

void nxr_ofi_outbox_free(struct nxr_net_ep *ep)
{
    (void)ep;
    n_freed++;
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
    nxr_list_init(&nxr_ofi.aside);
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

/* ---- peers that the core does not have ------------------------------------------------------- */

enum { MOST = NXR_OFI_MAX_ASIDE + 2 /* core.size */ };

/* A process that the core has opened, and that has ended. */
static void come_and_end(uint64_t id)
{
    struct nxr_net_ep *ep;
    size_t nbytes = nxr_ofi_address_nbytes(N_RAILS);

    make_address(&theirs, id);
    theirs.magic = NXR_OFI_ADDRESS_MAGIC;
    theirs.version = NXR_OFI_LAYOUT_VERSION;
    nxr_ofi_address_seal(&theirs);
    cr_assert_eq(nxr_ofi_ep_open(&theirs, nbytes, &theirs, &ep), NIXL_OK);
    nxr_ofi_peer_fail(ep, "it has ended");
    nxr_ofi_ep_close(ep, false);
    nxr_ofi_peers_shed();
}

Test(ofi_peer, those_that_have_ended_are_forgotten_in_their_order)
{
    must_be_last = false;
    for (uint64_t id = 10; id < 10 + 3 * MOST; id++) {
        come_and_end(id);
        cr_assert_leq(nxr_ofi.n_aside, MOST);
        cr_assert_eq(vectors[0].n_held, (int)nxr_ofi.n_aside, "their names stay no longer");
    }
    cr_expect(nxr_ofi_peer_find(10) == NULL, "the oldest");
    cr_expect(nxr_ofi_peer_find(9 + 3 * MOST) != NULL, "the newest");
}

Test(ofi_peer, one_that_the_core_has_or_that_speaks_is_kept)
{
    struct nxr_net_ep *open, *spoken;

    must_be_last = false;
    come_and_end(3);
    make_address(&theirs, 4);
    spoken = nxr_ofi_peer_make(&theirs);
    make_address(&theirs, 5);
    theirs.magic = NXR_OFI_ADDRESS_MAGIC;
    theirs.version = NXR_OFI_LAYOUT_VERSION;
    nxr_ofi_address_seal(&theirs);
    cr_assert_eq(nxr_ofi_ep_open(&theirs, nxr_ofi_address_nbytes(N_RAILS), &theirs, &open),
                 NIXL_OK);
    for (uint64_t id = 10; id < 10 + 3 * MOST; id++) {
        come_and_end(id);
        nxr_ofi_aside_heard(spoken);
    }
    cr_expect(nxr_ofi_peer_find(3) == NULL);
    cr_expect_eq(nxr_ofi_peer_find(4), spoken);
    cr_expect_eq(nxr_ofi_peer_find(5), open);
}

Test(ofi_peer, an_outbox_is_given_back_when_libfabric_has_released_it)
{
    is_sending = true;
    come_and_end(3);
    cr_expect_eq(n_freed, 0);
    is_sending = false;
    nxr_ofi_aside_rest(nxr_ofi_peer_find(3));
    cr_expect_eq(n_freed, 1);
}

Test(ofi_peer, one_that_libfabric_still_uses_is_not_forgotten)
{
    is_sending = true;
    for (uint64_t id = 10; id < 10 + 2 * MOST; id++) {
        come_and_end(id);
    }
    cr_expect(nxr_ofi_peer_find(10) != NULL);
    is_sending = false;
    must_be_last = false;
    nxr_ofi_peers_shed();
    cr_expect(nxr_ofi_peer_find(10) == NULL);
    cr_expect_eq(nxr_ofi.n_aside, MOST);
}
