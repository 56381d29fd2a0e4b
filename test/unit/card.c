/* SPDX-License-Identifier: Apache-2.0 */
/* Cards: what is in them, which are refused, and what two of them tell of their ranks. */
#include "core/card.h"
#include "control/wire.h"
#include "core/control.h"
#include "util/env.h"

#include "test/unit/unit.h"
#include <stdio.h>
#include <string.h>

#define JOB UINT64_C(0x7f3a0c5212345678)

/* A card with two addresses. */
static struct nxr_full_card make_card(int rank)
{
    struct nxr_full_card card;

    cr_assert(eq(int, nxr_card_make(&(struct nxr_identity){JOB, rank, 1}, &card), NIXL_OK));
    cr_assert(eq(int, nxr_card_add_address(&card, "one", "address", 7), NIXL_OK));
    cr_assert(eq(int, nxr_card_add_address(&card, "two", "another address", 15), NIXL_OK));
    return card;
}

static int parse_card_of(const struct nxr_full_card *card, uint64_t job, int rank)
{
    struct nxr_full_card other;

    return nxr_card_parse(card, card->head.nbytes, &(struct nxr_identity){job, rank, 0}, &other);
}

static int parse_card(const struct nxr_full_card *card, int rank)
{
    return parse_card_of(card, JOB, rank);
}

TestSuite(card, .timeout = 120);

Test(card, a_card_is_taken_by_its_rank_only)
{
    static const struct nxr_identity owner = {JOB, 2, 0};
    struct nxr_full_card card = make_card(2), other;

    cr_expect(eq(int, nxr_card_parse(&card, card.head.nbytes, &owner, &other), NIXL_OK));
    cr_expect(eq(int, memcmp(&card, &other, sizeof(card)), 0));
    cr_expect(eq(int, parse_card(&card, 1), NIXL_E_TRANSPORT));
    cr_expect(eq(int, parse_card_of(&card, JOB + 1, 2), NIXL_E_TRANSPORT));
    cr_expect(
        eq(int, nxr_card_parse(&card, card.head.nbytes - 1u, &owner, &other), NIXL_E_TRANSPORT));
    cr_expect(eq(int, nxr_card_parse(&card, 0, &owner, &other), NIXL_E_TRANSPORT));
}

Test(card, a_card_that_never_came_has_no_address)
{
    static const struct nxr_full_card none;
    size_t nbytes;

    cr_expect(zero(ptr, (void *)nxr_card_find_address(&none, "one", &nbytes)));
}

Test(card, a_card_has_its_addresses)
{
    struct nxr_full_card card = make_card(0);
    unsigned char big[NXR_ADDRESSES_NBYTES] = {0};
    const char *address;
    size_t nbytes = 0;

    address = nxr_card_find_address(&card, "two", &nbytes);
    cr_assert(ne(ptr, (void *)address, NULL));
    cr_expect(eq(sz, nbytes, 15));
    cr_expect(eq(int, memcmp(address, "another address", 15), 0));
    cr_expect(eq(ptr, (void *)nxr_card_find_address(&card, "three", &nbytes), NULL));
    cr_expect(eq(int, nxr_card_add_address(&card, "big", big, sizeof(big)), NIXL_E_LIMIT));
    cr_expect(eq(int, nxr_card_add_address(&card, "too long", big, 8), NIXL_E_LIMIT));
}

Test(card, cards_tell_who_shares_sockets)
{
    struct nxr_card mine = make_card(0).head, other = make_card(1).head;

    cr_expect(nxr_card_shares_sockets(&mine, &other));
    other.socket_space ^= 1;
    cr_expect(not(nxr_card_shares_sockets(&mine, &other)));
    mine.socket_space = other.socket_space = 0;
    cr_expect(not(nxr_card_shares_sockets(&mine, &other)), "not known, so not shared");
}

Test(card, damaged_cards_are_refused)
{
    struct nxr_full_card good = make_card(0), card;

    card = good, card.head.magic++;
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
    card = good, card.head.version++;
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
    card = good, card.head.nbytes -= 8;
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
    card = good;
    memset(card.head.host, 'h', sizeof(card.head.host));
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
    card = good;
    memset(card.head.boot_id, 'b', sizeof(card.head.boot_id));
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
    card = good;
    memset(card.addresses, 'n', sizeof(((struct nxr_card_address *)0)->network));
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
    card = good;
    memset(card.addresses + offsetof(struct nxr_card_address, nbytes), 0xff, sizeof(uint32_t));
    cr_expect(eq(int, parse_card(&card, 0), NIXL_E_TRANSPORT));
}

Test(card, two_cards_share_no_secret)
{
    struct nxr_card a = make_card(0).head, b = make_card(0).head;

    cr_expect(ne(int, memcmp(a.nonce, b.nonce, sizeof(a.nonce)), 0));
    cr_expect(ne(int, memcmp(a.secret, b.secret, sizeof(a.secret)), 0));
    cr_expect(nxr_card_may_be_local(&a, &b));
    strcpy(b.host, "elsewhere");
    cr_expect(nxr_card_may_be_local(&a, &b), "equal boot ids are enough");
    strcpy(b.boot_id, "another boot");
    cr_expect(not(nxr_card_may_be_local(&a, &b)));
    b = a, b.flags = NXR_CARD_NOT_LOCAL;
    cr_expect(not(nxr_card_may_be_local(&a, &b)), "one that is not willing");
}

/* Ids that differ only behind what a card has room for are those of two hosts. */
Test(card, long_ids_of_hosts_are_told_apart)
{
    static char first[] = "node-0001.rack-17.row-4.datacenter-2.example.org/a";
    static char second[] = "node-0001.rack-17.row-4.datacenter-2.example.org/b";
    struct nxr_card a, b;

    nxr_env.hostid = first;
    a = make_card(0).head;
    cr_expect_str_eq(a.host, first);
    b = make_card(1).head;
    cr_expect(nxr_card_may_be_local(&a, &b));
    nxr_env.hostid = second;
    b = make_card(1).head;
    cr_expect(not(nxr_card_may_be_local(&a, &b)), "'%s' and '%s'", a.boot_id, b.boot_id);
}

/* Such a card is refused with its numbers and ours. */
static void expect_versions(unsigned wire, unsigned control)
{
    const struct nxr_card card = {.flags = wire << NXR_CARD_WIRE_SHIFT |
                                           control << NXR_CARD_CONTROL_SHIFT};
    char text[96] = "", expected[96];

    snprintf(expected, sizeof(expected), "(host protocol %u.%u, here %u.%u)", wire, control,
             (unsigned)NXR_WIRE_VERSION, (unsigned)NXR_CONTROL_VERSION);
    cr_expect(not(nxr_wire_is_common(&card, text, sizeof(text))));
    cr_expect(strstr(text, expected) != NULL, "'%s', expected '%s'", text, expected);
}

Test(card, a_card_of_another_version_is_refused_by_its_numbers)
{
    struct nxr_card card = {.flags = nxr_wire_card_flags()};
    char text[96] = "";

    cr_expect(nxr_wire_is_common(&card, text, sizeof(text)));
    cr_expect_str_eq(text, "");
    card.flags |= NXR_CARD_NOT_LOCAL | 7u << NXR_CARD_NET_SHIFT;
    cr_expect(nxr_wire_is_common(&card, text, sizeof(text)), "other flags do not matter");
    expect_versions(NXR_WIRE_VERSION + 1, NXR_CONTROL_VERSION);
    expect_versions(NXR_WIRE_VERSION, NXR_CONTROL_VERSION + 1);
    card.flags = 0;
    cr_expect(not(nxr_wire_is_common(&card, text, sizeof(text))), "it tells none");
}
