/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from other hosts, whole, into a job that is made up: rank 0 of 3 with the whole core, a
 * network that swallows what is sent, an own region, and gets under way to rank 1. Rank 2 has not
 * greeted. Region and buffers are on the heap by themselves: AddressSanitizer sees a byte that is
 * written beside them. Messages without the secret of rank 0 must change nothing at all.
 *
 * The input is a row of pieces: how it comes (enum piece_kind), two bytes of length, the bytes.
 */
/* libs: pmix hwloc */
/* sources: src/boot/ src/collective/ src/host/ src/net/ src/util/ src/ */
/* sources: src/memory/[a-u]*.c src/memory/vulkan_none.c */
/* sources: transports/ transports/cuda_ipc/ transports/self/ transports/shm/ */
/* sources: transports/vulkan_ipc/ test/unit/fake_net.c */
#include "test/unit/fake_net.h"

#include "region.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_GET = 64, LARGE_GET = 20000 };

enum piece_kind {
    PIECE_RAW,      /* the bytes are the message */
    PIECE_OF_1,     /* they stand behind a head of rank 1 */
    PIECE_OF_2,     /* ... of rank 2 */
    PIECE_BULK,     /* behind a head of rank 1, and bulk as long as the message says, which lands */
    PIECE_BULK_CUT, /* the same, and the bulk breaks off */
    PIECE_N_KINDS
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static char *small, *large;
static struct nixl_region *theirs;
static struct nixl_req *reqs[2];

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* A message of a rank, copied so that a read behind its end is seen. */
static void deliver(const void *bytes, size_t nbytes)
{
    unsigned char *message = malloc(nbytes > 0 ? nbytes : 1);

    must(message != NULL);
    memcpy(message, bytes, nbytes);
    net_lock();
    net_received(message, nbytes);
    net_unlock();
    free(message);
    fake_round();
}

static size_t put_head(int rank, unsigned char *bytes)
{
    struct nxr_net_head head = {
        .magic = NXR_NET_MAGIC, .version = NXR_NET_VERSION, .rank = rank, .token = net_own_token()};

    memcpy(bytes, &head, sizeof(head));
    return sizeof(head);
}

/* Rank 1 is linked, and two gets from it are under way. */
static void begin(void)
{
    struct net_peer *np;

    fake_start();
    np = fake_link(1);
    small = malloc(SMALL_GET);
    large = malloc(LARGE_GET);
    must(small != NULL && large != NULL);
    must(nixl_region_open("theirs", &theirs) == NIXL_OK);
    must(nixl_get_nb(1, theirs, 0, small, SMALL_GET, &reqs[0]) == NIXL_INPROGRESS);
    must(nixl_get_nb(1, theirs, 0, large, LARGE_GET, &reqs[1]) == NIXL_INPROGRESS);
    fake_key_coming(1, false);
    fake_round();
    must(nxr_list_is_empty(&np->peer->asks));
    for (size_t i = 0; i < 2; i++) {
        must(nixl_req_test(&reqs[i]) == NIXL_INPROGRESS);
    }
    must(net_move_find(np, 1) != NULL && net_move_find(np, 2) != NULL);
}

/* Everything of this input is gone; the own region stays. */
static void end(void)
{
    fake_lose(1);
    fake_lose(2);
    fake_round();
    for (size_t i = 0; i < 2; i++) {
        must(nixl_req_test(&reqs[i]) != NIXL_INPROGRESS);
    }
    must(nixl_region_close(theirs, NIXL_FOREVER) == NIXL_OK);
    fake_stop();
    free(small);
    free(large);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Without the secret: dropped, and nothing has changed. */
static void deliver_raw(const uint8_t *bytes, size_t nbytes)
{
    struct nxr_net_head head = {0};
    unsigned n_sent_before = fake_n_messages();
    char before[FAKE_OWN_NBYTES];

    memcpy(&head, bytes, nbytes < sizeof(head) ? nbytes : sizeof(head));
    memcpy(before, fake.own, sizeof(before));
    deliver(bytes, nbytes);
    must(head.token == net_own_token() ||
         (memcmp(before, fake.own, sizeof(before)) == 0 && fake_n_messages() == n_sent_before));
}

static void deliver_of(int rank, const uint8_t *bytes, size_t nbytes)
{
    unsigned char message[FAKE_MESSAGE_NBYTES];
    size_t head_nbytes = put_head(rank, message);

    nbytes = nbytes < sizeof(message) - head_nbytes ? nbytes : sizeof(message) - head_nbytes;
    memcpy(message + head_nbytes, bytes, nbytes);
    deliver(message, head_nbytes + nbytes);
}

/* The bulk is as long as the record behind the head says, or as the first bytes, if it is none. */
static uint64_t bulk_nbytes_of(const uint8_t *bytes, size_t nbytes)
{
    struct nxr_net_record record = {0};
    struct nxr_net_put put = {0};
    struct nxr_net_got got = {0};

    if (nbytes >= sizeof(record)) {
        memcpy(&record, bytes, sizeof(record));
        bytes += sizeof(record);
        nbytes -= sizeof(record);
    }
    memcpy(&put, bytes, nbytes < sizeof(put) ? nbytes : sizeof(put));
    memcpy(&got, bytes, nbytes < sizeof(got) ? nbytes : sizeof(got));
    return record.type == NXR_NET_BULK_GOT ? got.nbytes : put.nbytes;
}

static void deliver_bulk(const uint8_t *bytes, size_t nbytes, bool is_cut)
{
    unsigned char header[NXR_NET_HEADER_NBYTES];
    size_t head_nbytes = put_head(1, header);
    uint64_t bulk_nbytes = bulk_nbytes_of(bytes, nbytes);
    void *cookie = NULL, *addr;

    nbytes = nbytes < sizeof(header) - head_nbytes ? nbytes : sizeof(header) - head_nbytes;
    memcpy(header + head_nbytes, bytes, nbytes);
    net_lock();
    addr = net_incoming(header, head_nbytes + nbytes, bulk_nbytes, &cookie);
    if (addr != NULL) {
        memset(addr, 0x7e, is_cut ? bulk_nbytes / 2 : bulk_nbytes);
        net_landed(cookie, is_cut ? NIXL_ERR_TRANSPORT : NIXL_OK);
    }
    net_unlock();
    fake_round();
}

static void deliver_piece(unsigned kind, const uint8_t *bytes, size_t nbytes)
{
    switch (kind % PIECE_N_KINDS) {
    case PIECE_RAW:
        deliver_raw(bytes, nbytes);
        break;
    case PIECE_OF_1:
    case PIECE_OF_2:
        deliver_of(kind % PIECE_N_KINDS == PIECE_OF_1 ? 1 : 2, bytes, nbytes);
        break;
    default:
        deliver_bulk(bytes, nbytes, kind % PIECE_N_KINDS == PIECE_BULK_CUT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    begin();
    while (nbytes >= 3) {
        size_t length = (size_t)data[1] | (size_t)data[2] << 8;

        length = length < nbytes - 3 ? length : nbytes - 3;
        deliver_piece(data[0], data + 3, length);
        data += 3 + length;
        nbytes -= 3 + length;
    }
    end();
    return 0;
}
