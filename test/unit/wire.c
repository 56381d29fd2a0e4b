/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of what other processes send, control messages. What is wrong is refused. */
#include "core/card.h"
#include "control/wire.h"

#include "memory/file/kind.h"
#include "test/unit/unit.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4

static union nxr_wire_message message, parsed;
static const char *why;

static int parse(size_t nbytes, int n_fds)
{
    return nxr_wire_parse(&message, nbytes, n_fds, SIZE, &parsed, &why);
}

/* The message as it stands is refused, with a reason, and nothing is written. */
static void refused(size_t nbytes, int n_fds)
{
    size_t written = 0;

    memset(&parsed, 0x5a, sizeof(parsed));
    cr_expect(eq(int, parse(nbytes, n_fds), NIXL_E_TRANSPORT));
    cr_assert(why != NULL);
    cr_expect(gt(sz, strlen(why), 5));
    while (written < sizeof(parsed) && ((unsigned char *)&parsed)[written] == 0x5a) {
        written++;
    }
    cr_assert(eq(sz, written, sizeof(parsed)), "byte %zu was written", written);
}

static const struct {
    enum nxr_wire_type type;
    int n_fds;
} types[] = {
    {NXR_WIRE_HELLO, 2},   {NXR_WIRE_WELCOME, 2}, {NXR_WIRE_RESOLVE, 0},  {NXR_WIRE_KEY, 1},
    {NXR_WIRE_CLOSED, 0},  {NXR_WIRE_DEATH, 0},   {NXR_WIRE_RING_FD, 0},  {NXR_WIRE_BOUNCE, 1},
    {NXR_WIRE_WORK, 0},    {NXR_WIRE_LEAVING, 0}, {NXR_WIRE_PROBE, 0},    {NXR_WIRE_PROBED, 0},
    {NXR_WIRE_PROPOSE, 0}, {NXR_WIRE_DECIDED, 0}, {NXR_WIRE_DETACH, 0},   {NXR_WIRE_RENEW, 0},
    {NXR_WIRE_GRANT, 0},   {NXR_WIRE_REFER, 0},   {NXR_WIRE_REFERRED, 0}, {NXR_WIRE_REFORM, 0},
    {NXR_WIRE_WHY, 0},     {NXR_WIRE_BECAUSE, 0},
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

/* A message of the type that must be taken. */
static void make(enum nxr_wire_type type)
{
    nxr_wire_init(&message, type);
    if (type == NXR_WIRE_RESOLVE || type == NXR_WIRE_PROBE) {
        strcpy(message.resolve.name, "kv");
    } else if (type == NXR_WIRE_KEY) {
        message.key.key =
            (struct nxr_key){.generation = 1, .nbytes = 64, .addr = 4096, .kind = NIXL_MEM_HOST};
    } else if (type == NXR_WIRE_CLOSED) {
        message.closed.generation = 1;
    } else if (type == NXR_WIRE_REFER) {
        message.refer.job_size = 1;
    } else if (type == NXR_WIRE_REFERRED) {
        message.referred.job_size = 1;
    } else if (type == NXR_WIRE_REFORM) {
        message.reform.step = NXR_REFORM_JOIN;
        message.reform.size = 2;
        message.reform.member = -1;
    }
}

TestSuite(wire, .timeout = 120);

Test(wire, good_messages_are_taken)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        make(types[i].type);
        cr_expect(eq(int, parse(message.header.nbytes, types[i].n_fds), NIXL_OK), "type %d: %s",
                  types[i].type, why);
        cr_expect(eq(int, memcmp(&parsed, &message, message.header.nbytes), 0));
    }
}

Test(wire, every_other_length_is_refused)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        size_t right;

        make(types[i].type);
        right = message.header.nbytes;
        for (size_t nbytes = 0; nbytes <= sizeof(message) + 1; nbytes++) {
            if (nbytes != right) {
                refused(nbytes, types[i].n_fds);
            }
        }
        message.header.nbytes++;
        refused(right, types[i].n_fds);
    }
}

Test(wire, descriptors_are_counted)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        make(types[i].type);
        refused(message.header.nbytes, NXR_WIRE_MAX_FDS + 1);
        refused(message.header.nbytes, 8);
    }
    make(NXR_WIRE_HELLO);
    refused(message.header.nbytes, 0);
    message.hello.number = -1;
    refused(message.header.nbytes, 3);
    make(NXR_WIRE_WORK);
    refused(message.header.nbytes, 1);
    make(NXR_WIRE_RESOLVE);
    refused(message.header.nbytes, 1);
    make(NXR_WIRE_KEY);
    refused(message.header.nbytes, 0); /* allocated memory comes with its descriptor */
    message.key.key.marks = NXR_KEY_REGISTERED;
    refused(message.header.nbytes, 1); /* registered memory has none */
    cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK));
}

Test(wire, the_header_is_checked)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        make(types[i].type);
        message.header.magic ^= 1;
        refused(message.header.nbytes, types[i].n_fds);
        make(types[i].type);
        message.header.version++;
        refused(message.header.nbytes, types[i].n_fds);
        make(types[i].type);
        message.header.from.rank = SIZE;
        refused(message.header.nbytes, types[i].n_fds);
        message.header.from.rank = -1;
        refused(message.header.nbytes, types[i].n_fds);
    }
    make(NXR_WIRE_WORK);
    message.header.type = 0;
    refused(message.header.nbytes, 0);
    for (unsigned type = 1 + N_TYPES; type <= UINT16_MAX; type++) { /* types begin with 1 */
        message.header.type = (uint16_t)type;
        refused(message.header.nbytes, 0);
        cr_assert_str_eq(why, "a message of an unknown type");
    }
}

Test(wire, referrals_must_be_sound)
{
    make(NXR_WIRE_REFER);
    message.refer.job_size = 0;
    refused(message.header.nbytes, 0);
    make(NXR_WIRE_REFER);
    memset(message.refer.name, 'n', sizeof(message.refer.name));
    refused(message.header.nbytes, 0);
    make(NXR_WIRE_REFERRED);
    message.referred.status = 1;
    refused(message.header.nbytes, 0);
}

Test(wire, names_must_end)
{
    make(NXR_WIRE_RESOLVE);
    memset(message.resolve.name, 'n', sizeof(message.resolve.name));
    refused(message.header.nbytes, 0);
    message.resolve.name[NIXL_NAME_MAX] = '\0';
    cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK));
    message.resolve.name[0] = '\0';
    refused(message.header.nbytes, 0);
}

Test(wire, an_extent_is_asked_for_with_the_generation_of_its_region)
{
    make(NXR_WIRE_RESOLVE);
    message.resolve.generation = 7;
    message.resolve.extent = NIXL_EXTENTS_MAX - 1;
    cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK));
    message.resolve.extent = NIXL_EXTENTS_MAX;
    refused(message.header.nbytes, 0);
    message.resolve.extent = 1;
    message.resolve.generation = 0;
    refused(message.header.nbytes, 0);
    message.resolve.extent = 0;
    message.resolve.unused = 1;
    refused(message.header.nbytes, 0);
}

/* Its address is the number of its extents. */
Test(wire, the_key_of_a_region_of_extents_names_no_memory)
{
    make(NXR_WIRE_KEY);
    message.key.key.marks = NXR_KEY_REGISTERED | NXR_KEY_EXTENTS;
    message.key.key.addr = NIXL_EXTENTS_MAX;
    cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK));
    message.key.key.addr = NIXL_EXTENTS_MAX + 1;
    refused(message.header.nbytes, 0);
    message.key.key.addr = 0;
    refused(message.header.nbytes, 0);
    message.key.key.addr = 1;
    message.key.key.marks = NXR_KEY_EXTENTS;
    refused(message.header.nbytes, 1); /* no descriptor comes with it */
    message.key.key.marks = NXR_KEY_REGISTERED | NXR_KEY_EXTENTS;
    message.key.key.kind = NIXL_MEM_CUDA;
    refused(message.header.nbytes, 0);
}

Test(wire, leaving_ranks_must_be_of_the_job)
{
    make(NXR_WIRE_LEAVING);
    message.leaving.first = 1;
    refused(message.header.nbytes, 0);
    message.leaving.first = -NXR_WIRE_LEAVING_RANKS;
    refused(message.header.nbytes, 0);
    message.leaving.first = NXR_WIRE_LEAVING_RANKS;
    refused(message.header.nbytes, 0);
    message.leaving.first = 0;
    message.leaving.incarnation = UINT32_MAX;
    refused(message.header.nbytes, 0);
    message.leaving.incarnation = 0;
    message.leaving.ranks[0] = UINT64_C(1) << SIZE;
    refused(message.header.nbytes, 0);
    message.leaving.ranks[0] = 0;
    message.leaving.ranks[NXR_WIRE_LEAVING_RANKS / 64 - 1] = UINT64_C(1) << 63;
    refused(message.header.nbytes, 0);
}

Test(wire, a_dead_rank_must_be_of_the_job)
{
    make(NXR_WIRE_DEATH);
    message.death.dead.rank = SIZE;
    refused(message.header.nbytes, 0);
    message.death.dead.rank = 0;
    message.death.has_left = 2;
    refused(message.header.nbytes, 0);
    message.death.has_left = 0;
    message.death.dead.rank = -1;
    refused(message.header.nbytes, 0);
    message.death.dead.rank = 0;
    message.death.by.rank = SIZE;
    refused(message.header.nbytes, 0);
    message.death.by.rank = -1;
    refused(message.header.nbytes, 0);
    message.death.by.rank = SIZE - 1;
    message.death.silent_ms = 1;
    cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK));
    message.death.has_left = 1;
    refused(message.header.nbytes, 0);
}

Test(wire, what_is_told_of_a_grant_can_be)
{
    const struct nxr_wire_grant bad[] = {
        {.state = -1, .rights = NIXL_GRANT_READ},
        {.state = NIXL_GRANT_CLOSED + 1, .rights = NIXL_GRANT_READ},
        {.state = NIXL_GRANT_OPEN},
        {.state = NIXL_GRANT_OPEN, .rights = 4},
        {.state = NIXL_GRANT_OPEN, .rights = NIXL_GRANT_READ, .left_ns = -1},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct nxr_wire_grant right = {.state = NIXL_GRANT_OPEN, .rights = NIXL_GRANT_WRITE};
        struct nxr_wire_header header;

        make(NXR_WIRE_GRANT);
        header = message.header;
        message.grant = right;
        message.header = header;
        cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK), "%s", why);
        message.grant = bad[i];
        message.header = header;
        refused(message.header.nbytes, 0);
    }
    make(NXR_WIRE_RENEW);
    message.renew.lifetime_ns = -1;
    refused(message.header.nbytes, 0);
}

Test(wire, keys_must_be_sound)
{
    const struct nxr_key good = {
        .generation = 1, .nbytes = 64, .addr = 4096, .kind = NIXL_MEM_HOST};
    struct nxr_key key = good;

    cr_expect(nxr_key_is_sound(&key));
    key.generation = 0;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.nbytes = 0;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.nbytes = UINT64_MAX;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.addr = UINT64_MAX - 10;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.id = NXR_N_REGION_IDS;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.kind = 99;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.flags = NXR_MEM_FLAGS;
    cr_expect(nxr_key_is_sound(&key));
    key = good, key.flags = NXR_MEM_FLAGS + 1;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.marks = 4;
    cr_expect(not(nxr_key_is_sound(&key)));
    key = good, key.access = NXR_ACCESS_ALL;
    cr_expect(nxr_key_is_sound(&key));
    key = good, key.access = NXR_ACCESS_ALL + 1;
    cr_expect(not(nxr_key_is_sound(&key)));
}

Test(wire, a_network_carries_what_needs_no_descriptor)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        bool is_local = types[i].type == NXR_WIRE_HELLO || types[i].type == NXR_WIRE_WELCOME ||
                        types[i].type == NXR_WIRE_RING_FD || types[i].type == NXR_WIRE_BOUNCE ||
                        types[i].type == NXR_WIRE_WORK;

        make(types[i].type);
        if (is_local) {
            refused(message.header.nbytes, NXR_WIRE_REMOTE);
            cr_expect_str_eq(why, "a message that only ranks of one host send");
        } else {
            cr_expect(eq(int, parse(message.header.nbytes, NXR_WIRE_REMOTE), NIXL_OK), "type %d",
                      types[i].type);
        }
    }
}

/* What a network adds to a key. */
Test(wire, remote_keys_must_be_sound)
{
    struct nxr_remote_key *remote = &message.key.remote;
    size_t nbytes;

    make(NXR_WIRE_KEY);
    nbytes = message.header.nbytes;
    strcpy(remote->network, "tcp");
    remote->nbytes = sizeof(remote->bytes);
    memset(remote->bytes, 0x5a, sizeof(remote->bytes));
    remote->takes_bulk = 1;
    cr_expect(eq(int, parse(nbytes, NXR_WIRE_REMOTE), NIXL_OK), "%s", why);
    refused(nbytes, 1); /* on one host nothing is added */
    remote->nbytes--;
    refused(nbytes, NXR_WIRE_REMOTE); /* bytes behind the key */
    remote->nbytes += 2;
    refused(nbytes, NXR_WIRE_REMOTE);
    remote->nbytes = sizeof(remote->bytes);
    remote->takes_bulk = 2;
    refused(nbytes, NXR_WIRE_REMOTE);
    remote->takes_bulk = 1;
    memset(remote->network, 'n', sizeof(remote->network));
    refused(nbytes, NXR_WIRE_REMOTE);
    memset(remote->network, 0, sizeof(remote->network));
    refused(nbytes, NXR_WIRE_REMOTE); /* the key of no network */
    make(NXR_WIRE_KEY);
    strcpy(remote->network, "tcp");
    refused(nbytes, NXR_WIRE_REMOTE); /* a network without a key */
    make(NXR_WIRE_KEY);
    message.key.export.nbytes = 64;
    refused(nbytes, NXR_WIRE_REMOTE); /* which only ranks of its host can open */
    make(NXR_WIRE_KEY);
    message.key.key.id = NXR_N_REGION_IDS;
    refused(nbytes, NXR_WIRE_REMOTE);
}

/* What a peer of one host needs to read a file itself. */
Test(wire, exports_of_files_must_be_sound)
{
    const struct nxr_export good = {.type = NXR_EXPORT_FILE, .nbytes = 64, .is_direct = 1};
    struct nxr_export bad[] = {good, good, good, good, good, good};

    bad[0].nbytes = 63; /* less than the region */
    bad[1].is_direct = 2;
    bad[2].device[3] = 1;
    bad[3].handle[0] = 1;
    bad[4].type = NXR_EXPORT_CUDA_VMM;
    bad[5].type = NXR_EXPORT_NONE; /* nothing says what the descriptor is */
    nxr_memory_register(&nxr_memory_file);
    make(NXR_WIRE_KEY);
    message.key.key = (struct nxr_key){
        .generation = 1, .nbytes = 64, .kind = NIXL_MEM_FILE, .marks = NXR_KEY_REGISTERED};
    cr_expect(eq(int, parse(message.header.nbytes, 0), NIXL_OK), "%s", why);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        message.key.export = good;
        cr_expect(eq(int, parse(message.header.nbytes, 1), NIXL_OK), "%s", why);
        message.key.export = bad[i];
        refused(message.header.nbytes, 1);
    }
    message.key.export = good;
    refused(message.header.nbytes, 0);
    refused(message.header.nbytes, NXR_WIRE_REMOTE);
    message.key.key.kind = NIXL_MEM_HOST; /* memory is no file */
    refused(message.header.nbytes, 1);
}

Test(wire, a_closed_region_is_one)
{
    make(NXR_WIRE_CLOSED);
    message.closed.id = NXR_N_REGION_IDS;
    refused(message.header.nbytes, 0);
    refused(message.header.nbytes, NXR_WIRE_REMOTE);
    make(NXR_WIRE_CLOSED);
    message.closed.generation = 0;
    refused(message.header.nbytes, 0);
    refused(message.header.nbytes, NXR_WIRE_REMOTE);
}

Test(wire, atomics_must_be_possible)
{
    const struct nxr_wire_atomic good = {
        .generation = 1, .atomic = {.type = NIXL_TYPE_DOUBLE, .op = NIXL_ATOMIC_ADD}};
    struct nxr_wire_atomic asked = good;

    cr_expect(zero(ptr, (void *)nxr_wire_check_atomic(&asked)));
    asked.generation = 0;
    cr_expect_str_eq(nxr_wire_check_atomic(&asked), "an impossible atomic operation");
    asked = good, asked.id = NXR_N_REGION_IDS;
    cr_expect(ne(ptr, (void *)nxr_wire_check_atomic(&asked), NULL));
    asked = good, asked.atomic.op = NIXL_ATOMIC_XOR;
    cr_expect(ne(ptr, (void *)nxr_wire_check_atomic(&asked), NULL), "bits of a double");
    asked = good, asked.atomic.type = NIXL_TYPE_DOUBLE + 1;
    cr_expect(ne(ptr, (void *)nxr_wire_check_atomic(&asked), NULL));
    asked = good, asked.atomic.op = NXR_ATOMIC_STORE, asked.atomic.type = 3;
    cr_expect(ne(ptr, (void *)nxr_wire_check_atomic(&asked), NULL), "a put of 3 bytes");
    asked.atomic.type = 2;
    cr_expect(zero(ptr, (void *)nxr_wire_check_atomic(&asked)));
}

Test(wire, outcomes_of_atomics_are_an_owners)
{
    struct nxr_wire_atomic_done done = {.status = NIXL_OK};

    cr_expect(eq(int, nxr_wire_atomic_outcome(&done), NIXL_OK));
    done.status = NIXL_E_STALE;
    cr_expect(eq(int, nxr_wire_atomic_outcome(&done), NIXL_E_STALE));
    done.status = NIXL_INPROGRESS;
    cr_expect(eq(int, nxr_wire_atomic_outcome(&done), NIXL_E_TRANSPORT));
    done.status = INT_MIN;
    cr_expect(eq(int, nxr_wire_atomic_outcome(&done), NIXL_E_TRANSPORT));
}

static void make_random(void)
{
    static uint64_t word = 88172645463325252u;

    for (size_t i = 0; i < sizeof(message); i += sizeof(word)) {
        size_t left = sizeof(message) - i;

        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        memcpy((unsigned char *)&message + i, &word, left < sizeof(word) ? left : sizeof(word));
    }
}

/* Random bytes, with and without a right header: never taken for more than they are, never a crash.
 */
Test(wire, random_bytes_do_no_harm)
{
    srand(1);
    for (int i = 0; i < 200000; i++) {
        size_t nbytes = (size_t)rand() % (sizeof(message) + 2);

        make_random();
        if (i % 2 == 0) {
            union nxr_wire_message header;

            nxr_wire_init(&header, (enum nxr_wire_type)(1 + i / 2 % (int)N_TYPES));
            message.header = header.header;
            nbytes = header.header.nbytes;
        }
        if (parse(nbytes, rand() % 4 - 1) == NIXL_OK) {
            cr_assert(eq(sz, parsed.header.nbytes, nbytes));
            cr_assert(lt(int, parsed.header.from.rank, SIZE));
        }
    }
}
