/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the TCP network decides without sockets: addresses, hellos and frames from others, and which
 * paths to a peer are tried, in which order.
 */
#include "transports/tcp/address.h"
#include "transports/tcp/frame.h"

#include "nixlrun.h"

#include "test/unit/unit.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(tcp, .timeout = 120);

/* ---- addresses ------------------------------------------------------------------------------- */

static void add_path(struct nxr_tcp_address *address, const char *ip, unsigned prefix_nbits)
{
    struct nxr_tcp_path *path = &address->paths[address->n_paths++];

    path->family = strchr(ip, ':') != NULL ? 6 : 4;
    path->prefix_nbits = (uint8_t)prefix_nbits;
    path->port = 1000;
    cr_assert(eq(int, inet_pton(path->family == 6 ? AF_INET6 : AF_INET, ip, path->ip), 1));
}

static struct nxr_tcp_address an_address(uint64_t host)
{
    return (struct nxr_tcp_address){.magic = NXR_TCP_ADDRESS_MAGIC,
                                    .version = NXR_TCP_LAYOUT_VERSION,
                                    .rank = 3,
                                    .connect_secret = 11,
                                    .answer = 12,
                                    .host = host};
}

static struct nxr_tcp_address sealed(unsigned n_paths)
{
    struct nxr_tcp_address address = an_address(1);

    for (unsigned i = 0; i < n_paths; i++) {
        add_path(&address, i % 2 == 0 ? "10.1.2.3" : "fd00::1", 24);
    }
    nxr_tcp_address_seal(&address);
    return address;
}

/* Is it taken? What is refused is not written. */
static bool parses(const struct nxr_tcp_address *address, size_t nbytes)
{
    struct nxr_tcp_address parsed, before;
    const char *why;

    memset(&parsed, 0x5a, sizeof(parsed));
    before = parsed;
    why = nxr_tcp_address_parse(address, nbytes, &parsed);
    cr_expect(eq(int, memcmp(&parsed, why == NULL ? address : &before, sizeof(parsed)), 0));
    return why == NULL;
}

Test(tcp, every_number_of_paths_is_taken)
{
    for (unsigned n = 1; n <= NXR_TCP_MAX_PATHS; n++) {
        struct nxr_tcp_address address = sealed(n);

        cr_expect(parses(&address, nxr_tcp_address_nbytes(n)), "%u paths", n);
    }
}

Test(tcp, other_lengths_and_bits_are_refused)
{
    struct nxr_tcp_address address = sealed(3);
    size_t right = nxr_tcp_address_nbytes(3);

    for (size_t nbytes = 0; nbytes <= sizeof(address); nbytes++) {
        cr_expect(eq(int, parses(&address, nbytes), nbytes == right), "%zu bytes", nbytes);
    }
    for (size_t bit = 0; bit < right * 8; bit++) {
        ((unsigned char *)&address)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_expect(not(parses(&address, right)), "bit %zu", bit);
        ((unsigned char *)&address)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

/* Versions of one layout talk to each other, so that how the sum is made must not change in it. */
Test(tcp, the_sum_is_that_of_this_layout)
{
    struct nxr_tcp_address address = sealed(2);
    const unsigned char *at = (const unsigned char *)&address;
    uint32_t sum = NXR_TCP_ADDRESS_MAGIC;

    for (size_t i = 8; i < nxr_tcp_address_nbytes(2); i++) { /* behind magic and checksum */
        sum = 31 * sum + at[i];
    }
    cr_expect(eq(u32, address.checksum, sum));
}

Test(tcp, paths_that_lie_are_refused)
{
    static const struct nxr_tcp_path wrong[] = {
        {.family = 4, .prefix_nbits = 33, .port = 1},
        {.family = 6, .prefix_nbits = 129, .port = 1},
        {.family = 5, .prefix_nbits = 8, .port = 1},
        {.family = 4, .prefix_nbits = 8, .port = 0},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct nxr_tcp_address address = sealed(2);

        address.paths[1] = wrong[i];
        nxr_tcp_address_seal(&address);
        cr_expect(not(parses(&address, nxr_tcp_address_nbytes(2))), "path %zu", i);
    }
}

/* ---- which paths are tried ------------------------------------------------------------------- */

static void expect_order(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                         const char *expected)
{
    uint8_t order[NXR_TCP_MAX_PATHS];
    unsigned n = nxr_tcp_order(mine, theirs, order);
    char text[NXR_TCP_MAX_PATHS + 1] = "";

    for (unsigned i = 0; i < n; i++) {
        text[i] = (char)('0' + order[i]);
    }
    cr_expect(eq(str, text, (char *)expected));
    /* Both ends choose their networks alike. */
    cr_expect(eq(int, n > 0, nxr_tcp_order(theirs, mine, order) > 0));
}

Test(tcp, paths_in_a_common_network_come_first)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);

    add_path(&mine, "10.1.2.3", 24);
    add_path(&mine, "10.9.128.1", 17);
    add_path(&theirs, "192.168.0.1", 16);
    add_path(&theirs, "10.1.2.77", 24);
    add_path(&theirs, "fd00::2", 64);
    add_path(&theirs, "10.9.0.5", 17);
    add_path(&theirs, "10.9.255.5", 17);
    expect_order(&mine, &theirs, "1403");
    add_path(&mine, "fd00::1", 64);
    expect_order(&mine, &theirs, "12403");
}

Test(tcp, other_families_do_not_reach_each_other)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);

    add_path(&mine, "10.1.2.3", 24);
    add_path(&theirs, "fd00::2", 64);
    expect_order(&mine, &theirs, "");
    theirs.host = 1;
    expect_order(&mine, &theirs, "0");
}

Test(tcp, loopback_ends_at_the_host)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(1);

    add_path(&mine, "127.0.0.1", 8);
    add_path(&theirs, "127.0.0.1", 8);
    expect_order(&mine, &theirs, "0");
    theirs.host = 2;
    expect_order(&mine, &theirs, "");
    add_path(&theirs, "10.1.2.3", 24);
    expect_order(&mine, &theirs, "");
    add_path(&mine, "10.1.2.4", 24);
    expect_order(&mine, &theirs, "1");
}

Test(tcp, an_address_that_both_hosts_have_leads_nowhere)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);

    add_path(&mine, "172.17.0.1", 16);
    add_path(&theirs, "172.17.0.1", 16);
    expect_order(&mine, &theirs, "");
    add_path(&theirs, "10.0.0.2", 24);
    expect_order(&mine, &theirs, "");
    add_path(&mine, "10.0.1.1", 24);
    expect_order(&mine, &theirs, "1");
    theirs.host = 1;
    expect_order(&mine, &theirs, "01");
}

/* What lies behind the last path is none. */
Test(tcp, an_address_that_the_other_host_no_longer_has_leads_there)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);

    add_path(&mine, "10.0.1.1", 24);
    add_path(&theirs, "10.0.1.2", 24);
    add_path(&theirs, "10.0.1.1", 24);
    expect_order(&mine, &theirs, "");
    theirs.n_paths = 1;
    expect_order(&mine, &theirs, "0");
}

/* ---- hellos and frames ----------------------------------------------------------------------- */

Test(tcp, hellos_are_for_this_rank_and_in_turn)
{
    const struct nxr_tcp_hello right = {.magic = NXR_TCP_HELLO_MAGIC,
                                        .version = NXR_TCP_LAYOUT_VERSION,
                                        .type = NXR_TCP_HELLO,
                                        .from = 3,
                                        .to = 1};
    struct nxr_tcp_hello hello = right;

    cr_expect(nxr_tcp_hello_check(&hello, NXR_TCP_HELLO, 1) == NULL);
    cr_expect(nxr_tcp_hello_check(&hello, NXR_TCP_ANSWER, 1) != NULL);
    cr_expect(nxr_tcp_hello_check(&hello, NXR_TCP_HELLO, 2) != NULL);
    hello.magic++;
    cr_expect(nxr_tcp_hello_check(&hello, NXR_TCP_HELLO, 1) != NULL);
    hello = right;
    hello.version++;
    cr_expect(nxr_tcp_hello_check(&hello, NXR_TCP_HELLO, 1) != NULL);
}

static bool is_frame(uint32_t magic, uint32_t nbytes, uint64_t bulk_nbytes)
{
    const struct nxr_tcp_frame frame = {magic, nbytes, bulk_nbytes};

    return nxr_tcp_frame_check(&frame) == NULL;
}

Test(tcp, frames_are_within_their_limits)
{
    cr_expect(is_frame(NXR_TCP_FRAME_MAGIC, 1, 0));
    cr_expect(is_frame(NXR_TCP_FRAME_MAGIC, NXR_TCP_MESSAGE_NBYTES, 0));
    cr_expect(is_frame(NXR_TCP_FRAME_MAGIC, 256, 1));
    cr_expect(not(is_frame(NXR_TCP_FRAME_MAGIC + 1, 1, 0)));
    cr_expect(not(is_frame(NXR_TCP_FRAME_MAGIC, 0, 0)));
    cr_expect(not(is_frame(NXR_TCP_FRAME_MAGIC, NXR_TCP_MESSAGE_NBYTES + 1, 0)));
    cr_expect(not(is_frame(NXR_TCP_FRAME_MAGIC, UINT32_MAX, 0)));
    cr_expect(not(is_frame(NXR_TCP_FRAME_MAGIC, 257, 1)), "bulk has a short header");
    cr_expect(not(is_frame(NXR_TCP_FRAME_MAGIC, 8, UINT64_MAX)));
}

/* ---- rails ----------------------------------------------------------------------------------- */

/* The number of pairs, which both sides see alike. */
static unsigned n_pairs(const struct nxr_tcp_address *mine, const struct nxr_tcp_address *theirs,
                        struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS])
{
    struct nxr_tcp_pair others[NXR_TCP_MAX_RAILS];
    unsigned n = nxr_tcp_pairs(mine, theirs, pairs);

    cr_expect(eq(uint, nxr_tcp_pairs(theirs, mine, others), n));
    return n;
}

Test(tcp, rails_are_pairs_of_addresses_in_one_network)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);
    struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS];

    add_path(&mine, "10.0.0.1", 24);
    add_path(&mine, "10.0.1.1", 24);
    add_path(&mine, "10.0.2.1", 24);
    add_path(&theirs, "10.0.1.2", 24);
    add_path(&theirs, "10.0.3.2", 24);
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 1));
    cr_expect(eq(uint, pairs[0].mine, 1));
    cr_expect(eq(uint, pairs[0].theirs, 0));
    add_path(&theirs, "10.0.0.2", 24);
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 2));
    add_path(&theirs, "10.0.0.3", 24); /* each address is in one pair only */
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 2));
    add_path(&mine, "10.0.0.4", 24);
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 3));
    theirs.host = mine.host;
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 0), "within a host");
}

Test(tcp, rails_are_of_the_family_that_has_more)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);
    struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS];

    add_path(&mine, "10.0.0.1", 24);
    add_path(&mine, "fd00:0:0:1::1", 64);
    add_path(&theirs, "10.0.0.2", 24);
    add_path(&theirs, "fd00:0:0:1::2", 64);
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 1), "one card has both");
    add_path(&mine, "fd00:0:0:2::1", 64);
    add_path(&theirs, "fd00:0:0:2::2", 64);
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 2));
    cr_expect(eq(int, mine.paths[pairs[0].mine].family, 6));
    mine.paths[2].prefix_nbits = 48; /* the two sides do not call it the same network */
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), 1));
}

Test(tcp, there_are_not_more_rails_than_there_is_room_for)
{
    struct nxr_tcp_address mine = an_address(1), theirs = an_address(2);
    struct nxr_tcp_pair pairs[NXR_TCP_MAX_RAILS];

    for (unsigned i = 0; i < NXR_TCP_MAX_PATHS; i++) {
        char ip[INET_ADDRSTRLEN];

        snprintf(ip, sizeof(ip), "10.0.%u.1", i);
        add_path(&mine, ip, 24);
        snprintf(ip, sizeof(ip), "10.0.%u.2", i);
        add_path(&theirs, ip, 24);
    }
    cr_expect(eq(uint, n_pairs(&mine, &theirs, pairs), NXR_TCP_MAX_RAILS));
}

static bool is_plan(uint64_t number, uint32_t piece_nbytes, uint64_t bulk_nbytes)
{
    const struct nxr_tcp_plan plan = {number, piece_nbytes, 0};

    return nxr_tcp_plan_check(&plan, bulk_nbytes, 5) == NULL;
}

static bool is_plan_frame(uint32_t nbytes, uint64_t bulk_nbytes)
{
    const struct nxr_tcp_frame frame = {NXR_TCP_PLAN_MAGIC, nbytes, bulk_nbytes};

    return nxr_tcp_plan_frame_check(&frame) == NULL;
}

Test(tcp, plans_are_within_their_limits)
{
    cr_expect(is_plan_frame(17, 1));
    cr_expect(is_plan_frame(16 + 256, 1));
    cr_expect(not(is_plan_frame(16, 1)), "no message");
    cr_expect(not(is_plan_frame(16 + 257, 1)));
    cr_expect(not(is_plan_frame(17, 0)));
    cr_expect(not(is_plan_frame(17, UINT64_MAX)));
    cr_expect(is_plan(6, 64 << 10, 1));
    cr_expect(is_plan(UINT64_MAX, 512 << 10, 1 << 30));
    cr_expect(not(is_plan(5, 64 << 10, 1)), "the number of an earlier one");
    cr_expect(not(is_plan(0, 64 << 10, 1)));
    cr_expect(not(is_plan(6, 0, 1)));
    cr_expect(not(is_plan(6, (64 << 10) - 1, 1)));
    cr_expect(not(is_plan(6, (512 << 10) + 1, 1)));
    cr_expect(not(is_plan(6, 64 << 10, UINT64_MAX / 2)), "more pieces than there are indices");
}

static bool is_piece(uint64_t number, uint64_t nbytes)
{
    const struct nxr_tcp_piece piece = {NXR_TCP_PIECE_MAGIC, 0, number, nbytes};

    return nxr_tcp_piece_check(&piece, 5) == NULL;
}

static bool fits(uint32_t index, uint64_t nbytes)
{
    const struct nxr_tcp_piece piece = {NXR_TCP_PIECE_MAGIC, index, 1, nbytes};

    return nxr_tcp_piece_fits(&piece, 2500 << 10, 1000 << 10);
}

Test(tcp, pieces_are_exactly_those_of_their_plan)
{
    cr_expect(is_piece(5, 1));
    cr_expect(is_piece(1, 512 << 10));
    cr_expect(not(is_piece(0, 1)));
    cr_expect(not(is_piece(6, 1)), "before its plan");
    cr_expect(not(is_piece(5, 0)));
    cr_expect(not(is_piece(5, (512 << 10) + 1)));
    cr_expect(fits(0, 1000 << 10));
    cr_expect(fits(1, 1000 << 10));
    cr_expect(fits(2, 500 << 10));
    cr_expect(not(fits(2, 1000 << 10)), "beyond the end");
    cr_expect(not(fits(0, 500 << 10)), "it would overlap or leave a gap");
    cr_expect(not(fits(3, 1)));
    cr_expect(not(fits(UINT32_MAX, 1000 << 10)));
}

/* ---- what is announced ----------------------------------------------------------------------- */

Test(tcp, what_is_announced_is_read)
{
    static const char *const bad[] = {
        "host",           "10.1.2",          "10.1.2.3,",     "10.1.2.3:80",
        "10.1.2.3,80",    "10.1.2.3,80:",    "10.1.2.3,0:1",  "10.1.2.3,1:0",
        "10.1.2.3,9-8:1", "[fd00::1]",       "10.1.2.3,1:2 ", "10.1.2.3,1-3:65534",
        ",80:90",         "10.1.2.3,1:65536"};
    struct nxr_announced announced;
    char many[200] = "::1";

    cr_expect(nxr_announce_parse("", &announced) && announced.host[0] == '\0');
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(not(nxr_announce_parse(bad[i], &announced)), "'%s'", bad[i]);
    }
    cr_assert(nxr_announce_parse("203.0.113.5,7300:30300,7301-7310:40001", &announced));
    cr_expect(eq(str, announced.host, (char *)"203.0.113.5"));
    cr_expect(eq(int, announced.family, 4));
    cr_expect(eq(int, nxr_announce_port(&announced, 7300), 30300));
    cr_expect(eq(int, nxr_announce_port(&announced, 7301), 40001));
    cr_expect(eq(int, nxr_announce_port(&announced, 7310), 40010));
    cr_expect(eq(int, nxr_announce_port(&announced, 7311), 7311), "the same on both sides");
    for (unsigned i = 0; i <= NXR_ANNOUNCE_MAX_RANGES; i++) {
        cr_expect(eq(int, nxr_announce_parse(many, &announced), 1), "%u ranges", i);
        strcat(many, ",9:9");
    }
    cr_expect(not(nxr_announce_parse(many, &announced)), "too many");
}

Test(tcp, ports_are_a_range)
{
    static const char *const bad[] = {"0", "1-", "-1", "2-1", "65536", "1-65536", "a", "1 ", "1,2"};
    struct nxr_port_range range;

    cr_expect(nxr_ports_parse("", &range) && range.first == 0 && range.last == 0);
    cr_expect(nxr_ports_parse("7", &range) && range.first == 7 && range.last == 7);
    cr_expect(nxr_ports_parse("7-65535", &range) && range.first == 7 && range.last == 65535);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect(not(nxr_ports_parse(bad[i], &range)), "'%s'", bad[i]);
    }
}

Test(tcp, the_announced_path_is_tried_first_but_after_near_ones)
{
    struct nxr_tcp_address inner = an_address(1), mine = an_address(2), told, parsed;
    uint8_t order[NXR_TCP_MAX_PATHS];
    struct nxr_announced announced;

    add_path(&inner, "fd00::1", 64);
    add_path(&inner, "172.17.0.2", 16);
    inner.paths[1].port = 7301;
    cr_assert(nxr_announce_parse("203.0.113.5,7301:31301", &announced));
    nxr_tcp_address_tell(&inner, &announced, &told);
    nxr_tcp_address_seal(&told);
    cr_assert(nxr_tcp_address_parse(&told, nxr_tcp_address_nbytes(told.n_paths), &parsed) == NULL);
    cr_expect(eq(int, parsed.n_paths, 3));
    cr_expect(eq(int, parsed.paths[0].port, 31301), "that of the first path of its family");

    add_path(&mine, "10.9.9.9", 24);
    cr_expect(eq(int, nxr_tcp_order(&mine, &parsed, order), 2));
    cr_expect(order[0] == 0 && order[1] == 2, "from afar: the announced one");
    add_path(&mine, "172.17.0.3", 16);
    cr_expect(eq(int, nxr_tcp_order(&mine, &parsed, order), 2));
    cr_expect(order[0] == 2 && order[1] == 0, "in the same network: that one");
}

Test(tcp, without_room_the_last_path_is_not_told)
{
    struct nxr_tcp_address own = sealed(NXR_TCP_MAX_PATHS), told;
    struct nxr_announced announced;

    cr_assert(nxr_announce_parse("", &announced));
    nxr_tcp_address_tell(&own, &announced, &told);
    cr_expect(eq(int, memcmp(&told, &own, sizeof(own)), 0), "nothing is announced");
    cr_assert(nxr_announce_parse("2001:db8::7", &announced));
    nxr_tcp_address_tell(&own, &announced, &told);
    cr_expect(eq(int, told.n_paths, NXR_TCP_MAX_PATHS));
    cr_expect(eq(int, told.paths[0].prefix_nbits, 128));
    cr_expect(
        eq(int, memcmp(&told.paths[1], own.paths, sizeof(own.paths) - sizeof(own.paths[0])), 0));
}
