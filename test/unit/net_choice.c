/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of three networks two ranks take: both ends are asked, each with its own expectations and
 * the other's card, and have to answer alike.
 */
#include "net/state.h"
#include "nixlrun.h"
#include "util/log.h"

#include "test/unit/unit.h"
#include <stdio.h>
#include <string.h>

enum { UCX, OFI, TCP, N };
#define ADAPTER false /* takes_mappings */
#define SOCKETS true

/* One end: what it has. latency_ns 0: nothing of that network. */
struct end {
    struct nxr_net_attr attr[N];
};

static bool is_reached[N];
static unsigned n_rails_reached;
static const char *const names[N] = {"ucx", "ofi", "tcp"};
static char why[400];
static size_t n_nets;

static int reach(const void *address, size_t nbytes, unsigned *n_rails_p, char *text,
                 size_t text_nbytes)
{
    int which = *(const char *)address - '0';

    cr_assert(eq(sz, nbytes, 2));
    snprintf(text, text_nbytes, "no network is common to both");
    *n_rails_p = n_rails_reached;
    return is_reached[which] ? NIXL_OK : NIXL_E_UNSUPPORTED;
}

static struct nxr_network modules[N];

static struct nxr_net_attr attr(unsigned latency_ns, unsigned bandwidth_mbps, unsigned n_rails,
                                bool is_sockets)
{
    return (struct nxr_net_attr){
        .has_bulk = true,
        .has_rma = true,
        .is_rma_better = true,
        .takes_mappings = is_sockets,
        .latency_ns = latency_ns,
        .bandwidth_mbps = bandwidth_mbps,
        .n_rails = n_rails,
    };
}

/* As the modules tell it of a host with so many Ethernet devices and no adapter. */
static struct end plain_host(unsigned n_devices)
{
    struct end end = {{
        [UCX] = attr(6500, 6000, 1, SOCKETS),
        [OFI] = attr(4300, 8000, n_devices, SOCKETS),
        [TCP] = attr(3900, 8000, n_devices, SOCKETS),
    }};

    end.attr[TCP].has_fixed_rail = true;
    end.attr[TCP].has_rma = end.attr[UCX].is_rma_better = false;
    return end;
}

static void become(const struct end *end)
{
    nxr_net.n_nets = n_nets;
    for (size_t i = 0; i < n_nets; i++) {
        modules[i] = (struct nxr_network){.name = names[i], .reach = reach};
        nxr_net.nets[i] = (struct net){.name = names[i],
                                       .module = &modules[i],
                                       .attr = &end->attr[i],
                                       .is_open = end->attr[i].latency_ns > 0,
                                       .why = "not built"};
    }
}

static void make_card(const struct end *end, struct nxr_full_card *card)
{
    become(end);
    cr_assert(eq(int, nxr_card_make(&(struct nxr_identity){0}, card), NIXL_OK));
    for (size_t i = 0; i < n_nets; i++) {
        const char address[2] = {(char)('0' + i), 0};

        if (nxr_net.nets[i].is_open) {
            cr_assert(eq(int, nxr_net_offer_add(card, &nxr_net.nets[i], address, 2), NIXL_OK));
        }
    }
}

/* "messages" or "messages, bulk", as `mine` chooses; "none". */
static const char *choice_of(const struct end *mine, const struct end *theirs)
{
    static char text[32];
    struct nxr_full_card card;
    struct nxr_net_choice choice;

    make_card(theirs, &card);
    become(mine);
    if (!nxr_net_choose(&card, &choice, why, sizeof(why))) {
        return "none";
    }
    snprintf(text, sizeof(text), "%s%s%s", choice.networks[0]->module->name,
             choice.bulk != choice.networks[0] ? ", " : "",
             choice.bulk != choice.networks[0] ? choice.bulk->module->name : "");
    return text;
}

static void expect(struct end a, struct end b, const char *text)
{
    cr_expect(eq(str, (char *)choice_of(&a, &b), (char *)text));
    cr_expect(eq(str, (char *)choice_of(&b, &a), (char *)text), "the other end");
}

static void start(void)
{
    n_nets = N;
    n_rails_reached = 8;
    for (int i = 0; i < N; i++) {
        is_reached[i] = true;
    }
}

TestSuite(choice, .init = start, .timeout = 60);

Test(choice, sockets_alone_between_plain_hosts)
{
    expect(plain_host(1), plain_host(1), "tcp");
    expect(plain_host(1), plain_host(2), "tcp");
}

Test(choice, several_rails_on_both_sides_keep_libfabric)
{
    expect(plain_host(2), plain_host(2), "ofi");
    expect(plain_host(4), plain_host(2), "ofi");
}

Test(choice, rails_that_do_not_meet_are_none)
{
    n_rails_reached = 1; /* of each host's two, as where one leads to its containers */
    expect(plain_host(2), plain_host(2), "tcp");
    n_rails_reached = 2;
    expect(plain_host(4), plain_host(4), "ofi");
}

Test(choice, adapters_go_before_sockets_also_over_several_rails)
{
    struct end host = plain_host(2);

    host.attr[UCX] = attr(2000, 12000, 1, ADAPTER);
    expect(host, host, "ucx");
    host.attr[UCX].latency_ns = 5000;
    expect(host, host, "ucx");
}

Test(choice, bulk_goes_by_the_adapters_that_move_more)
{
    struct end host = plain_host(1);

    host.attr[UCX] = attr(2000, 12000, 1, ADAPTER);
    host.attr[OFI] = attr(2000, 24000, 2, ADAPTER);
    expect(host, host, "ucx, ofi");
    host.attr[OFI].latency_ns = 1500;
    expect(host, host, "ofi");
}

Test(choice, adapters_at_one_end_are_none)
{
    struct end host = plain_host(1);

    host.attr[UCX] = attr(2000, 12000, 1, ADAPTER);
    expect(host, plain_host(1), "tcp");
    expect(host, plain_host(2), "tcp");
}

Test(choice, bulk_has_no_socket_of_its_own)
{
    struct end host = plain_host(1);

    host.attr[OFI].bandwidth_mbps = 100000;
    expect(host, host, "tcp");
}

Test(choice, what_one_end_lacks_or_cannot_reach_is_left_out)
{
    struct end bare = plain_host(2);

    bare.attr[OFI].latency_ns = 0;
    expect(plain_host(2), bare, "tcp");
    n_nets = TCP;
    expect(plain_host(2), bare, "ucx");
    is_reached[UCX] = false;
    expect(plain_host(2), bare, "none");
    cr_expect(eq(str, why, (char *)"ucx: no network is common to both; ofi: not built"));
}

Test(choice, equal_networks_are_taken_in_the_order_of_their_names)
{
    struct end host = plain_host(1);

    host.attr[UCX] = host.attr[OFI] = attr(2000, 12000, 1, ADAPTER);
    expect(host, host, "ucx");
}

/* ---- what is reported ------------------------------------------------------------------------ */

static const char *reason(struct nxr_net_offer its, struct nxr_net_offer others)
{
    struct end host = plain_host(1);

    become(&host);
    nxr_net_compare(&nxr_net.nets[OFI], &its, &nxr_net.nets[TCP], &others, why, sizeof(why));
    return why;
}

Test(choice, the_reason_is_the_one_that_decided)
{
    const struct nxr_net_offer adapters = {.latency_ns = 2000, .n_rails = 1, .has_adapters = 1};
    const struct nxr_net_offer two = {.latency_ns = 4300, .n_rails = 2};
    const struct nxr_net_offer slow = {.latency_ns = 4300, .n_rails = 1};
    const struct nxr_net_offer slower = {.latency_ns = 6500, .n_rails = 1};

    cr_expect(eq(str, (char *)reason(adapters, two),
                 (char *)"ofi moves the bytes by adapters, tcp by the processor"));
    cr_expect(eq(str, (char *)reason(two, slow),
                 (char *)"ofi has 2 rails to that host, and repairs a cut one"));
    cr_expect(eq(str, (char *)reason(slow, slower),
                 (char *)"ofi is expected to be faster (4.3 us against 6.5 us)"));
}

/* ---- cards that are wrong -------------------------------------------------------------------- */

Test(choice, an_offer_without_figures_is_none)
{
    struct end host = plain_host(1);
    struct nxr_full_card card;
    struct nxr_net_choice choice;

    become(&host);
    cr_assert(eq(int, nxr_card_make(&(struct nxr_identity){0}, &card), NIXL_OK));
    cr_assert(eq(int, nxr_card_add_address(&card, "tcp", "2", 2), NIXL_OK));
    cr_expect(not(nxr_net_choose(&card, &choice, why, sizeof(why))));
}

Test(choice, what_fits_nowhere_is_refused)
{
    struct end host = plain_host(1);
    char address[NXR_NET_ADDRESS_NBYTES + 1] = "2";
    struct nxr_full_card card;

    become(&host);
    cr_assert(eq(int, nxr_card_make(&(struct nxr_identity){0}, &card), NIXL_OK));
    cr_expect(eq(int, nxr_net_offer_add(&card, &nxr_net.nets[UCX], address, sizeof(address)),
                 NIXL_E_LIMIT));
    cr_expect(eq(int, nxr_net_offer_add(&card, &nxr_net.nets[UCX], address, NXR_NET_ADDRESS_NBYTES),
                 NIXL_OK));
    cr_expect(eq(int, nxr_net_offer_add(&card, &nxr_net.nets[OFI], address, NXR_NET_ADDRESS_NBYTES),
                 NIXL_OK));
    cr_expect(eq(int, nxr_net_offer_add(&card, &nxr_net.nets[TCP], address, 64), NIXL_E_LIMIT));
}
