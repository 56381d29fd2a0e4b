/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the libfabric network decides without libfabric: addresses, keys and frames from others,
 * and which rails talk to each other.
 */
#include "transports/ofi/address.h"
#include "transports/ofi/frame.h"
#include "transports/ofi/nearest.h"
#include "topology.h"
#include "util/locality.h"

#include "nixlrun.h"

#include <arpa/inet.h>
#include "test/unit/unit.h"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(ofi, .timeout = 120);

/* ---- addresses and keys ---------------------------------------------------------------------- */

static struct nxr_ofi_address an_address(unsigned n_rails, uint64_t first_fabric)
{
    struct nxr_ofi_address address = {.magic = NXR_OFI_ADDRESS_MAGIC,
                                      .version = NXR_OFI_LAYOUT_VERSION,
                                      .n_rails = (uint8_t)n_rails,
                                      .id = 7,
                                      .host = 1,
                                      .provider = "net"};

    for (unsigned i = 0; i < n_rails && i < NXR_OFI_MAX_RAILS; i++) {
        address.rails[i] = (struct nxr_ofi_address_rail){.fabric = first_fabric + i, .nbytes = 16};
    }
    if (n_rails <= NXR_OFI_MAX_RAILS) {
        nxr_ofi_address_seal(&address);
    }
    return address;
}

static int parse(const struct nxr_ofi_address *address, size_t nbytes)
{
    struct nxr_ofi_address parsed, before;
    const char *why;
    int status;

    memset(&parsed, 0x5a, sizeof(parsed));
    before = parsed;
    status = nxr_ofi_address_parse(address, nbytes, &parsed, &why);
    cr_expect(eq(int, status == NIXL_OK, why == NULL));
    if (status != NIXL_OK) {
        cr_expect(eq(int, memcmp(&parsed, &before, sizeof(parsed)), 0), "something was written");
    }
    return status;
}

Test(ofi, every_number_of_rails_is_taken)
{
    for (unsigned n = 1; n <= NXR_OFI_MAX_RAILS; n++) {
        struct nxr_ofi_address address = an_address(n, 100);

        cr_expect(eq(int, parse(&address, nxr_ofi_address_nbytes(n)), NIXL_OK));
    }
}

Test(ofi, other_lengths_and_bits_are_refused)
{
    struct nxr_ofi_address address = an_address(3, 100);
    size_t right = nxr_ofi_address_nbytes(3);

    for (size_t nbytes = 0; nbytes <= sizeof(address); nbytes++) {
        if (nbytes != right) {
            cr_expect(eq(int, parse(&address, nbytes), NIXL_E_TRANSPORT), "%zu bytes", nbytes);
        }
    }
    for (size_t bit = 0; bit < right * 8; bit++) {
        ((unsigned char *)&address)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_expect(eq(int, parse(&address, right), NIXL_E_TRANSPORT), "bit %zu", bit);
        ((unsigned char *)&address)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

Test(ofi, addresses_that_lie_are_refused)
{
    struct nxr_ofi_address address = an_address(1, 100);

    address.rails[0].nbytes = NXR_OFI_NAME_NBYTES + 1;
    nxr_ofi_address_seal(&address);
    cr_expect(eq(int, parse(&address, nxr_ofi_address_nbytes(1)), NIXL_E_TRANSPORT));
    address = an_address(1, 100);
    memset(address.provider, 'x', sizeof(address.provider));
    nxr_ofi_address_seal(&address);
    cr_expect(eq(int, parse(&address, nxr_ofi_address_nbytes(1)), NIXL_E_TRANSPORT));
    address = an_address(1, 100);
    address.id = 0;
    nxr_ofi_address_seal(&address);
    cr_expect(eq(int, parse(&address, nxr_ofi_address_nbytes(1)), NIXL_E_TRANSPORT));
}

Test(ofi, keys_are_checked)
{
    struct nxr_ofi_key key = {.magic = NXR_OFI_KEY_MAGIC,
                              .version = NXR_OFI_LAYOUT_VERSION,
                              .n_rails = 2,
                              .nbytes = 4096};
    struct nxr_ofi_key parsed;
    const char *why;

    nxr_ofi_key_seal(&key);
    cr_expect(eq(int, nxr_ofi_key_parse(&key, nxr_ofi_key_nbytes(2), &parsed, &why), NIXL_OK));
    cr_expect(
        eq(int, nxr_ofi_key_parse(&key, nxr_ofi_key_nbytes(3), &parsed, &why), NIXL_E_TRANSPORT));
    key.rails[1].base = UINT64_MAX - 4095;
    nxr_ofi_key_seal(&key);
    cr_expect(
        eq(int, nxr_ofi_key_parse(&key, nxr_ofi_key_nbytes(2), &parsed, &why), NIXL_E_TRANSPORT));
}

/* ---- which rails talk ------------------------------------------------------------------------ */

Test(ofi, rails_of_one_network_are_pairs)
{
    struct nxr_ofi_address mine = an_address(3, 100), theirs = an_address(3, 101);
    int pairs[NXR_OFI_MAX_RAILS];

    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 2));
    cr_expect(eq(int, pairs[0], -1));
    cr_expect(eq(int, pairs[1], 0));
    cr_expect(eq(int, pairs[2], 1));
    cr_expect(eq(int, pairs[3], -1));
}

Test(ofi, several_rails_in_one_network_are_dealt)
{
    struct nxr_ofi_address mine = an_address(4, 0), theirs = an_address(2, 0);
    int pairs[NXR_OFI_MAX_RAILS];

    for (unsigned i = 0; i < 4; i++) {
        mine.rails[i].fabric = theirs.rails[i % 2].fabric = 5;
    }
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 4));
    for (int i = 0; i < 4; i++) {
        cr_expect(eq(int, pairs[i], i % 2));
    }
}

Test(ofi, loopback_ends_at_the_host)
{
    struct nxr_ofi_address mine = an_address(1, 5), theirs = an_address(1, 5);
    int pairs[NXR_OFI_MAX_RAILS];

    mine.rails[0].flags = theirs.rails[0].flags = NXR_OFI_THIS_HOST;
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 1));
    theirs.host = 2;
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 0));
}

Test(ofi, other_networks_are_reached_by_routing_only)
{
    struct nxr_ofi_address mine = an_address(2, 5), theirs = an_address(1, 50);
    int pairs[NXR_OFI_MAX_RAILS];

    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 0));
    mine.rails[0].flags = theirs.rails[0].flags = NXR_OFI_ROUTED;
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 1));
    cr_expect(eq(int, pairs[0], 0));
    strcpy(theirs.provider, "efa");
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 0));
}

/* A rail at that IPv4 address. */
static void put_at(struct nxr_ofi_address *address, unsigned rail, const char *ip, uint16_t port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};

    cr_assert(eq(int, inet_pton(AF_INET, ip, &name.sin_addr), 1));
    memcpy(address->rails[rail].name, &name, sizeof(name));
    address->rails[rail].flags = NXR_OFI_ROUTED | NXR_OFI_IP;
}

Test(ofi, an_address_that_both_hosts_have_is_no_rail)
{
    struct nxr_ofi_address mine = an_address(2, 100), theirs = an_address(2, 100);
    int pairs[NXR_OFI_MAX_RAILS];

    put_at(&mine, 0, "172.17.0.1", 7);
    put_at(&mine, 1, "10.0.0.1", 7);
    put_at(&theirs, 0, "172.17.0.1", 8);
    put_at(&theirs, 1, "10.0.0.2", 8);
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 2), "on one host it is one");
    theirs.host = 2;
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 1));
    cr_expect(eq(int, pairs[0], -1));
    cr_expect(eq(int, pairs[1], 1));
    mine.rails[1].fabric = 7; /* and where only routing is left */
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 1));
    cr_expect(eq(int, pairs[0], -1));
    cr_expect(eq(int, pairs[1], 1));
    put_at(&theirs, 1, "10.0.0.1", 8);
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 0));
    mine.rails[1].flags = theirs.rails[1].flags = NXR_OFI_ROUTED;
    cr_expect(eq(uint, nxr_ofi_pair(&mine, &theirs, pairs), 1), "not an IP address");
}

Test(ofi, rails_are_counted_alike_on_both_sides)
{
    struct nxr_ofi_address mine = an_address(4, 0), theirs = an_address(2, 0);

    for (unsigned i = 0; i < 4; i++) {
        mine.rails[i].fabric = theirs.rails[i % 2].fabric = 5;
    }
    cr_expect(eq(uint, nxr_ofi_count_rails(&mine, &theirs), 2));
    cr_expect(eq(uint, nxr_ofi_count_rails(&theirs, &mine), 2));
    theirs.rails[1].fabric = 6;
    cr_expect(eq(uint, nxr_ofi_count_rails(&mine, &theirs), 1));
    cr_expect(eq(uint, nxr_ofi_count_rails(&theirs, &mine), 1));
}

/* ---- which path a piece takes ---------------------------------------------------------------- */

/* The four adapters of a recorded machine, as far as they are from one of its GPUs. */
static void paths_from(const char *gpu, struct nxr_ofi_choice paths[4])
{
    static const struct nxr_device_location adapters[4] = {
        {.name = "mlx5_0"}, {.name = "mlx5_1"}, {.name = "mlx5_2"}, {.name = "mlx5_3"}};
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");
    unsigned far[4];

    cr_assert(nxr_distances_from_gpu(topology, gpu, adapters, 4, far));
    for (unsigned i = 0; i < 4; i++) {
        paths[i] = (struct nxr_ofi_choice){.has_room = true, .far = far[i]};
    }
    hwloc_topology_destroy(topology);
}

/* Give away pieces until there is no room for more than two each; the paths that they took. */
static void take_paths(struct nxr_ofi_choice paths[4], bool is_cut, int taken[8])
{
    for (unsigned i = 0; i < 8; i++) {
        taken[i] = nxr_ofi_best_path(paths, 4, is_cut);
        cr_assert(ge(int, taken[i], 0));
        paths[taken[i]].has_room = ++paths[taken[i]].n_pieces < 2;
    }
    cr_expect(eq(int, nxr_ofi_best_path(paths, 4, is_cut), -1));
}

static const char *const gpus[] = {"0000:12:00.0", "0000:22:00.0", "0000:92:00.0", "0000:a2:00.0"};

Test(ofi, small_transfers_take_the_rail_at_the_switch_of_the_gpu)
{
    for (int gpu = 0; gpu < 4; gpu++) {
        struct nxr_ofi_choice paths[4];
        int taken[8];

        paths_from(gpus[gpu], paths);
        take_paths(paths, false, taken);
        for (unsigned i = 0; i < 2; i++) {
            cr_expect(eq(int, taken[i], gpu), "its switch");
            cr_expect(eq(int, taken[2 + i], gpu ^ 1), "then its socket");
        }
        for (unsigned i = 4; i < 8; i++) {
            cr_expect(ne(int, taken[i] / 2, gpu / 2), "then the other one, in turn");
            cr_expect(eq(int, taken[i] % 2, (int)i % 2));
        }
    }
}

Test(ofi, pieces_of_a_large_transfer_take_all_rails_from_the_gpus_on)
{
    for (int gpu = 0; gpu < 4; gpu++) {
        struct nxr_ofi_choice paths[4];
        int taken[8];

        paths_from(gpus[gpu], paths);
        take_paths(paths, true, taken);
        for (unsigned i = 0; i < 8; i += 4) {
            cr_expect(eq(int, taken[i], gpu));
            cr_expect(eq(int, taken[i + 1], gpu ^ 1));
            cr_expect(eq(int, taken[i + 2] + taken[i + 3], gpu < 2 ? 2 + 3 : 0 + 1));
        }
    }
}

Test(ofi, a_gpu_that_is_not_found_has_no_distances)
{
    hwloc_topology_t topology = recorded_topology("2-sockets-4-nics");
    const struct nxr_device_location adapter = {.name = "mlx5_0"};
    unsigned far = 7;

    cr_expect(not(nxr_distances_from_gpu(topology, "0000:77:00.0", &adapter, 1, &far)));
    cr_expect(not(nxr_distances_from_gpu(topology, "no address", &adapter, 1, &far)));
    cr_expect(eq(uint, far, 7));
    hwloc_topology_destroy(topology);
}

Test(ofi, rails_as_far_share_small_transfers)
{
    struct nxr_ofi_choice paths[4] = {{true, 0, 5}, {true, 0, 5}, {true, 0, 5}, {true, 0, 5}};
    int taken[8];

    take_paths(paths, false, taken);
    for (int i = 0; i < 8; i++) {
        cr_expect(eq(int, taken[i], i % 4));
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

Test(ofi, frames_are_whole_and_for_us)
{
    _Alignas(8) unsigned char bytes[sizeof(struct nxr_ofi_frame) + 16] = {0};
    struct nxr_ofi_frame *frame = (struct nxr_ofi_frame *)(void *)bytes;

    *frame = (struct nxr_ofi_frame){.magic = NXR_OFI_FRAME_MAGIC,
                                    .type = NXR_OFI_DATA,
                                    .nbytes = 9,
                                    .to = 3,
                                    .from = 4,
                                    .seq = 1};
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(bytes), 3) == NULL);
    for (size_t nbytes = 0; nbytes < sizeof(bytes); nbytes++) {
        cr_expect(nxr_ofi_frame_check(bytes, nbytes, 3) != NULL, "%zu bytes", nbytes);
    }
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(bytes), 4) != NULL);
    frame->nbytes = UINT32_MAX;
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(bytes), 3) != NULL);
    frame->nbytes = 9;
    frame->seq = 0;
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(bytes), 3) != NULL);
    frame->type = NXR_OFI_PING;
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(bytes), 3) == NULL, "a ping with an address");
    frame->type = NXR_OFI_PONG;
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(bytes), 3) != NULL, "a pong with content");
    frame->nbytes = 0;
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(*frame), 3) == NULL);
    frame->type = NXR_OFI_N_TYPES;
    cr_expect(nxr_ofi_frame_check(bytes, sizeof(*frame), 3) != NULL);
}
