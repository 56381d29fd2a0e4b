/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from other hosts, whole, into a job that is made up: rank 0 of 3 with the whole core, a
 * network that swallows what is sent, an own region, and two gets and a list of gets under way to
 * rank 1. Rank 2 has not greeted. Region and buffers are on the heap by themselves:
 * AddressSanitizer sees a byte that is written beside them. Messages without the secret of rank 0
 * must change nothing at all.
 *
 * The input is a row of pieces: how it comes (enum piece_kind), two bytes of length, the bytes.
 */
/* libs: pmix hwloc nettle */
/* sources: src/boot/ src/channel/ src/collective/ src/control/ src/core/ src/host/ src/net/ */
/* sources: src/attach/ src/grant/ src/pair/ src/region/ src/sync/ src/transfer/ src/util/ */
/* sources: src/ src/memory/ src/memory/file/ src/memory/object/ */
/* sources: storage/move.c storage/cufile/ storage/threads/ storage/directory/ */
/* sources: src/memory/cuda/ src/memory/kernels/ src/memory/vulkan/vulkan_none.c */
/* sources: transports/ transports/gpu/ transports/self/ transports/shm/ */
/* sources: test/unit/fake_job.c test/unit/fake_net.c test/unit/fake_message.c */
#include "test/unit/fake_net.h"

#include "region/region.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_GET = 64, LARGE_GET = 20000, N_LISTED = 3, LISTED_GET = 32, N_LANDINGS = 4 };

enum piece_kind {
    PIECE_RAW,      /* the bytes are the message */
    PIECE_OF_1,     /* they stand behind a head of rank 1 */
    PIECE_OF_2,     /* ... of rank 2 */
    PIECE_BULK,     /* behind a head of rank 1, and bulk as long as the message says, which lands */
    PIECE_BULK_CUT, /* the same, and the bulk breaks off */
    PIECE_BULK_OPEN, /* ... and the bulk stays on its way, if there are not too many */
    PIECE_LAND,      /* the oldest of these lands; it breaks off if there are bytes */
    PIECE_N_KINDS
};

/* Bulk that is on its way: what comes behind it waits. */
struct landing {
    void *cookie;
    void *addr;
    uint64_t nbytes;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static char *small, *large, *listed;
static struct nixl_region *theirs;
static struct nixl_req *reqs[2];
static struct nxr_piece pieces[N_LISTED];
static struct nxr_op list;
static bool list_has_ended;
static struct landing landings[N_LANDINGS];
static size_t n_landings;

/*
 * A message of a rank, copied so that a read behind its end is seen. Every second length lies at no
 * multiple of 8, as in a network's own buffer.
 */
static void deliver(const void *bytes, size_t nbytes)
{
    size_t at = nbytes / 8 % 2 * 4;
    unsigned char *message = malloc(at + nbytes > 0 ? at + nbytes : 1);

    fake_must(message != NULL);
    memcpy(message + at, bytes, nbytes);
    net_lock();
    nxr_net_received(message + at, nbytes);
    net_unlock();
    free(message);
    fake_round();
}

static size_t put_head(int rank, unsigned char *bytes)
{
    struct nxr_net_head head = {.magic = NXR_NET_MAGIC,
                                .version = NXR_NET_VERSION,
                                .from = {FAKE_JOB, rank, FAKE_INCARNATION},
                                .token = nxr_net_own_token()};

    memcpy(bytes, &head, sizeof(head));
    return sizeof(head);
}

static void list_ended(struct nxr_op *op, int status)
{
    (void)op;
    (void)status;
    list_has_ended = true;
}

/* As nixl_xfer_start() does. */
static void begin_list(void)
{
    struct nxr_segment *segment = nxr_region_segment(theirs, 1);

    for (size_t i = 0; i < N_LISTED; i++) {
        pieces[i] = (struct nxr_piece){2 * i * LISTED_GET, listed + i * LISTED_GET, LISTED_GET};
    }
    list = (struct nxr_op){
        .transport = segment->transport,
        .segment = segment,
        .kind = NXR_OP_GET,
        .local = listed,
        .nbytes = (size_t)N_LISTED * LISTED_GET,
        .pieces = pieces,
        .n_pieces = N_LISTED,
        .ended = list_ended,
    };
    list_has_ended = false;
    fake_must(segment->transport->start_list(&list) == NIXL_INPROGRESS);
}

/* Rank 1 is connected; the gets from it have the numbers 1 and 2, those of the list follow. */
static void begin(void)
{
    struct net_peer *np;

    fake_start();
    fake.attr.list_get_nbytes = LISTED_GET;
    np = fake_link(1);
    small = malloc(SMALL_GET);
    large = malloc(LARGE_GET);
    listed = malloc((size_t)N_LISTED * LISTED_GET);
    fake_must(small != NULL && large != NULL && listed != NULL);
    fake_must(nixl_region_open("theirs", &theirs) == NIXL_OK);
    fake_must(nixl_get_x(1, theirs, 0, small, SMALL_GET, NULL, &reqs[0]) == NIXL_INPROGRESS);
    fake_must(nixl_get_x(1, theirs, 0, large, LARGE_GET, NULL, &reqs[1]) == NIXL_INPROGRESS);
    fake_key_coming(1, false);
    fake_round();
    fake_must(nxr_list_is_empty(nxr_region_asks(np->peer)));
    for (size_t i = 0; i < 2; i++) {
        fake_must(nixl_req_test(&reqs[i]) == NIXL_INPROGRESS);
    }
    begin_list();
    for (uint64_t id = 1; id <= 2 + N_LISTED; id++) {
        fake_must(nxr_net_move_find(np, id) != NULL);
    }
}

/* The oldest bulk on its way lands, or breaks off in the middle. */
static void land(bool is_cut)
{
    const struct landing landing = landings[0];

    n_landings--;
    memmove(landings, landings + 1, n_landings * sizeof(landings[0]));
    memset(landing.addr, 0x7e, is_cut ? landing.nbytes / 2 : landing.nbytes);
    net_lock();
    nxr_net_landed(landing.cookie, is_cut ? NIXL_E_TRANSPORT : NIXL_OK);
    net_unlock();
    fake_round();
}

/* Everything of this input is gone; the own region stays. */
static void end(void)
{
    fake_lose(1);
    fake_lose(2);
    fake_round();
    while (n_landings > 0) {
        land(true);
    }
    for (size_t i = 0; i < 2; i++) {
        fake_must(nixl_req_test(&reqs[i]) != NIXL_INPROGRESS);
    }
    fake_must(list_has_ended);
    fake_must(nixl_region_close(theirs, NIXL_FOREVER) == NIXL_OK);
    fake_stop();
    free(small);
    free(large);
    free(listed);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* Without the secret: dropped, and nothing has changed. */
static void deliver_raw(const uint8_t *bytes, size_t nbytes)
{
    struct nxr_net_head head = {0};
    unsigned n_sent_before = fake_n_messages();
    char before[FAKE_OWN_NBYTES];

    memcpy(&head, bytes, nbytes < sizeof(head) ? nbytes : sizeof(head));
    memcpy(before, fake_job.own, sizeof(before));
    deliver(bytes, nbytes);
    fake_must(
        head.token == nxr_net_own_token() ||
        (memcmp(before, fake_job.own, sizeof(before)) == 0 && fake_n_messages() == n_sent_before));
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

/* Bulk is announced, and on its way if there is memory for it. */
static void announce(const uint8_t *bytes, size_t nbytes)
{
    unsigned char header[NXR_NET_HEADER_NBYTES];
    size_t head_nbytes = put_head(1, header);
    struct landing landing = {.nbytes = bulk_nbytes_of(bytes, nbytes)};

    nbytes = nbytes < sizeof(header) - head_nbytes ? nbytes : sizeof(header) - head_nbytes;
    memcpy(header + head_nbytes, bytes, nbytes);
    net_lock();
    landing.addr = nxr_net_incoming(header, head_nbytes + nbytes, landing.nbytes, &landing.cookie);
    net_unlock();
    if (landing.addr != NULL) {
        landings[n_landings++] = landing;
    }
    fake_round();
}

static void deliver_piece(enum piece_kind kind, const uint8_t *bytes, size_t nbytes)
{
    switch (kind) {
    case PIECE_RAW:
        deliver_raw(bytes, nbytes);
        break;
    case PIECE_OF_1:
    case PIECE_OF_2:
        deliver_of(kind == PIECE_OF_1 ? 1 : 2, bytes, nbytes);
        break;
    case PIECE_LAND:
        if (n_landings > 0) {
            land(nbytes > 0);
        }
        break;
    default:
        if (n_landings == N_LANDINGS) {
            land(false);
        }
        announce(bytes, nbytes);
        while (n_landings > 0 && kind != PIECE_BULK_OPEN) {
            land(kind == PIECE_BULK_CUT);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    begin();
    while (nbytes >= 3) {
        size_t length = (size_t)data[1] | (size_t)data[2] << 8;

        length = length < nbytes - 3 ? length : nbytes - 3;
        deliver_piece(data[0] % PIECE_N_KINDS, data + 3, length);
        data += 3 + length;
        nbytes -= 3 + length;
    }
    end();
    return 0;
}
