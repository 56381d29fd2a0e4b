/* SPDX-License-Identifier: Apache-2.0 */
/* Every call about one rank, with an attached process: what each side does in turn. */
#include "config.h"

#include "attach_calls.h"
#include "test/mp/mptest.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    NBYTES = 1 << 20,
    N_ITEMS = 100,
    N_BLOCKS = 64,
    BLOCK = 64,
    N_FILES = 16, /* of a directory */
    FILE_NBYTES = NBYTES / N_FILES,
    TAG_TURN = 1000, /* the other side's turn */
    TAG_NOTIFIED,    /* what a put is notified with */
    TAG_TOKEN,       /* the token of an exposed buffer */
    WORD_SIGNAL = 0, /* offsets of words */
    WORD_ATOMIC = 64,
    WORD_REGISTERED = 0,
};

/* The other side may go on; and wait until this one may. */
static void give_turn(int rank)
{
    MPT_OK(nixl_notify(rank, TAG_TURN, NULL, 0, MPT_PATIENCE));
}

static void take_turn(int rank)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_TURN, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.rank, rank);
}

/* ---- regions --------------------------------------------------------------------------------- */

struct regions {
    struct nixl_region *data, *words, *registered, *file;
    struct nixl_region *directory; /* NULL: there is nowhere to make one */
    void *memory;                  /* that is registered */
    char *path;                    /* of the directory */
};

/* A file of no name, so that nothing is left of it; if the root is only read, one in memory. */
static struct nixl_region *make_file(void)
{
    const char *dir = getenv("TMPDIR");
    struct nixl_file_params params = NIXL_FILE_PARAMS_INIT;
    struct nixl_region *region;

    params.fd = open(dir != NULL ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (params.fd < 0) {
        params.fd = memfd_create("attach.file", MFD_CLOEXEC);
    }
    MPT_TRUE(params.fd >= 0);
    params.nbytes = NBYTES;
    MPT_OK(nixl_region_open_file("attach.file", NULL, &params, &region));
    MPT_EQ(close(params.fd), 0);
    return region;
}

/* Files that are replaced as a whole. The root of a container may be read-only. */
static void make_directory(struct regions *regions)
{
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    const char *base = getenv("TMPDIR");

    MPT_TRUE(asprintf(&regions->path, "%s/attach-XXXXXX", base != NULL ? base : "/tmp") > 0);
    if (mkdtemp(regions->path) == NULL) {
        MPT_EQ(errno, EROFS);
        return;
    }
    params.nobjects = N_FILES;
    params.object_nbytes = FILE_NBYTES;
    MPT_OK(nixl_region_open_directory("attach.directory", regions->path, &params,
                                      &regions->directory));
}

static void remove_directory(struct regions *regions)
{
    char path[PATH_MAX];

    if (regions->directory != NULL) {
        for (unsigned i = 0; i < N_FILES; i++) {
            snprintf(path, sizeof(path), "%s/%016x", regions->path, i);
            MPT_EQ(unlink(path), 0);
        }
        MPT_EQ(rmdir(regions->path), 0);
    }
    free(regions->path);
}

static struct regions regions_open(bool is_owner)
{
    struct regions regions = {.data = NULL};

    if (!is_owner) {
        MPT_OK(nixl_region_open("attach.directory", &regions.directory));
        MPT_OK(nixl_region_open("attach.data", &regions.data));
        MPT_OK(nixl_region_open("attach.words", &regions.words));
        MPT_OK(nixl_region_open("attach.registered", &regions.registered));
        MPT_OK(nixl_region_open("attach.file", &regions.file));
        return regions;
    }
    regions.memory = calloc(1, NBYTES);
    MPT_TRUE(regions.memory != NULL);
    MPT_OK(nixl_region_alloc("attach.data", NBYTES, NULL, &regions.data));
    MPT_OK(nixl_region_alloc("attach.words", 4096, NULL, &regions.words));
    MPT_OK(nixl_region_register("attach.registered", regions.memory, NBYTES, NULL,
                                &regions.registered));
    regions.file = make_file();
    make_directory(&regions);
    return regions;
}

static void regions_close(struct regions *regions)
{
    MPT_OK(nixl_region_close(regions->data, MPT_PATIENCE));
    MPT_OK(nixl_region_close(regions->words, MPT_PATIENCE));
    MPT_OK(nixl_region_close(regions->registered, MPT_PATIENCE));
    MPT_OK(nixl_region_close(regions->file, MPT_PATIENCE));
    if (regions->directory != NULL) {
        MPT_OK(nixl_region_close(regions->directory, MPT_PATIENCE));
    }
    free(regions->memory);
}

/* ---- moving data ----------------------------------------------------------------------------- */

static void put_and_get(int rank, struct nixl_region *region, size_t nbytes)
{
    unsigned char *there = malloc(nbytes), *back = malloc(nbytes);
    struct nixl_req *req = NULL;
    int status;

    MPT_TRUE(there != NULL && back != NULL);
    mpt_fill(there, nbytes, nbytes);
    MPT_OK(nixl_put(rank, region, 8, there, nbytes - 8));
    MPT_OK(nixl_flush(rank, MPT_PATIENCE));
    MPT_OK(nixl_get(rank, region, 8, back, nbytes - 8));
    MPT_CHECK(back, nbytes - 8, nbytes);
    status = nixl_put_x(rank, region, 0, there, nbytes, NULL, &req);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    if (status == NIXL_INPROGRESS) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
    MPT_OK(nixl_fence(rank));
    MPT_OK(nixl_flush(NIXL_ALL_RANKS, MPT_PATIENCE));
    free(there);
    free(back);
}

static void visit_data(int rank, struct regions *regions)
{
    static const char text[] = "after the data";
    uint64_t one = 1, old = 99;
    unsigned char bytes[256];

    for (size_t nbytes = 16; nbytes <= NBYTES; nbytes *= 16) {
        put_and_get(rank, regions->data, nbytes);
        put_and_get(rank, regions->registered, nbytes);
        put_and_get(rank, regions->file, nbytes);
    }
    mpt_fill(bytes, sizeof(bytes), 5);
    MPT_OK(nixl_put_notify(rank, regions->data, 0, bytes, sizeof(bytes), TAG_NOTIFIED, text,
                           sizeof(text), MPT_PATIENCE));
    take_turn(rank);
    MPT_OK(nixl_put_signal(rank, regions->registered, 0, bytes, sizeof(bytes), regions->words,
                           WORD_SIGNAL, NIXL_SIGNAL_ADD, 3));
    MPT_OK(nixl_signal_add(rank, regions->words, WORD_SIGNAL, 4));
    take_turn(rank);
    MPT_OK(nixl_atomic(rank, regions->words, WORD_ATOMIC, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                       &old));
    MPT_EQ(old, 0);
    MPT_OK(nixl_atomic(rank, regions->words, WORD_ATOMIC, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL,
                       &old));
    MPT_EQ(old, 1);
    for (uint64_t i = 0; i < 200; i++) { /* more than a ring has slots */
        MPT_OK(nixl_atomic(rank, regions->registered, 512, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                           &old));
    }
    MPT_TRUE(old >= 199);
}

static void serve_data(int rank, struct regions *regions)
{
    const uint64_t *word = nixl_region_addr(regions->words);
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_NOTIFIED, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_EQ(note.rank, rank);
    MPT_TRUE(strcmp((const char *)note.payload, "after the data") == 0);
    MPT_CHECK(nixl_region_addr(regions->data), 256, 5);
    give_turn(rank);
    op.flags |= NIXL_OP_RANK;
    op.rank = rank; /* the leaving of a former visitor may be heard only now */
    op.timeout_ns = MPT_PATIENCE;
    MPT_OK(nixl_signal_wait_x(&word[WORD_SIGNAL / 8], NIXL_COMPARE_EQ, 7, &op, NULL));
    MPT_CHECK(regions->memory, 256, 5);
    give_turn(rank);
}

/* ---- prepared transfers ---------------------------------------------------------------------- */

static void visit_transfer(int rank, struct regions *regions)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    static unsigned char bytes[N_BLOCKS * BLOCK];
    struct nixl_xfer *xfer;

    local.addr = bytes;
    local.block_nbytes = sizeof(bytes);
    remote.region = regions->data;
    remote.block_nbytes = BLOCK;
    remote.stride = 2 * BLOCK;
    remote.nblocks = N_BLOCKS;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, rank, &local, 1, &remote, 1, &xfer));
    for (uint64_t turn = 1; turn <= 3; turn++) {
        mpt_fill(bytes, sizeof(bytes), turn);
        MPT_OK(nixl_xfer_start_x(xfer, NULL, NULL));
        give_turn(rank);
        take_turn(rank);
    }
    MPT_OK(nixl_xfer_free(xfer));
}

static void serve_transfer(int rank, struct regions *regions)
{
    const unsigned char *data = nixl_region_addr(regions->data);
    unsigned char bytes[N_BLOCKS * BLOCK];

    for (uint64_t turn = 1; turn <= 3; turn++) {
        take_turn(rank);
        for (int i = 0; i < N_BLOCKS; i++) {
            memcpy(bytes + i * BLOCK, data + (size_t)i * 2 * BLOCK, BLOCK);
        }
        MPT_CHECK(bytes, sizeof(bytes), turn);
        give_turn(rank);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A put and a prepared transfer, each with a notification when it is durable. */
static void visit_file(int rank, struct regions *regions)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_op op = NIXL_OP_INIT;
    unsigned char bytes[N_BLOCKS * BLOCK];
    struct nixl_xfer *xfer;

    op.flags = NIXL_OP_DURABLE | NIXL_OP_NOTE;
    op.tag = TAG_NOTIFIED;
    mpt_fill(bytes, sizeof(bytes), 8);
    MPT_OK(nixl_put_x(rank, regions->file, 5, bytes, sizeof(bytes), &op, NULL));
    take_turn(rank);
    mpt_fill(bytes, sizeof(bytes), 9);
    local.addr = bytes;
    remote.region = regions->file;
    remote.offset = 5;
    local.block_nbytes = remote.block_nbytes = sizeof(bytes);
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, rank, &local, 1, &remote, 1, &xfer));
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    MPT_OK(nixl_xfer_free(xfer));
    take_turn(rank);
}

static void serve_file(int rank, struct regions *regions)
{
    unsigned char bytes[N_BLOCKS * BLOCK];
    struct nixl_note note;

    for (uint64_t turn = 8; turn <= 9; turn++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(rank, TAG_NOTIFIED, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_OK(nixl_get(nixl_rank(), regions->file, 5, bytes, sizeof(bytes)));
        MPT_CHECK(bytes, sizeof(bytes), turn);
        give_turn(rank);
    }
}

/* ---- files of a directory -------------------------------------------------------------------- */

/* All of them, by a durable prepared transfer and back; and one by pieces. */
static void visit_directory(int rank, struct regions *regions)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    unsigned char *there = malloc(NBYTES), *back = malloc(NBYTES);
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_xfer *xfer;

    MPT_TRUE(there != NULL && back != NULL);
    op.flags = NIXL_OP_DURABLE | NIXL_OP_NOTE;
    op.tag = TAG_NOTIFIED;
    mpt_fill(there, NBYTES, 21);
    local.addr = there;
    remote.region = regions->directory;
    local.block_nbytes = remote.block_nbytes = local.stride = remote.stride = FILE_NBYTES;
    local.nblocks = remote.nblocks = N_FILES;
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, rank, &local, 1, &remote, 1, &xfer));
    MPT_OK(nixl_xfer_start_x(xfer, &op, NULL));
    MPT_OK(nixl_xfer_free(xfer));
    take_turn(rank);
    MPT_OK(nixl_get(rank, regions->directory, 0, back, NBYTES));
    MPT_CHECK(back, NBYTES, 21);
    mpt_fill(there, NBYTES, 22);
    MPT_OK(nixl_put(rank, regions->directory, 100, there + 100, NBYTES - 100));
    MPT_OK(nixl_get(rank, regions->directory, 0, back, FILE_NBYTES));
    MPT_CHECK(back, FILE_NBYTES, 21); /* its first bytes have not come */
    op.flags = NIXL_OP_NOTE;
    MPT_OK(nixl_put_x(rank, regions->directory, 0, there, 100, &op, NULL));
    take_turn(rank);
    free(there);
    free(back);
}

static void serve_directory(int rank, struct regions *regions)
{
    unsigned char *bytes = malloc(NBYTES);
    struct nixl_note note;

    MPT_TRUE(bytes != NULL);
    for (uint64_t turn = 21; turn <= 22; turn++) {
        nixl_note_init(&note);
        MPT_OK(nixl_notify_recv(rank, TAG_NOTIFIED, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_OK(nixl_get(nixl_rank(), regions->directory, 0, bytes, NBYTES));
        MPT_CHECK(bytes, NBYTES, turn);
        give_turn(rank);
    }
    free(bytes);
}

/* ---- channels -------------------------------------------------------------------------------- */

static void produce(int rank, const char *name)
{
    struct nixl_channel *channel;

    MPT_OK(nixl_channel_open(name, rank, NIXL_CHANNEL_PRODUCER, 256, 8, NULL, &channel));
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        void *slot;

        MPT_OK(nixl_channel_acquire(channel, MPT_PATIENCE, &slot));
        mpt_fill(slot, 256, i);
        MPT_OK(nixl_channel_publish(channel, 256));
    }
    take_turn(rank);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

static void consume(int rank, const char *name)
{
    struct nixl_channel *channel;

    MPT_OK(nixl_channel_open(name, rank, NIXL_CHANNEL_CONSUMER, 256, 8, NULL, &channel));
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        size_t nbytes;
        void *slot;
        int from;

        MPT_OK(nixl_channel_recv(channel, MPT_PATIENCE, &slot, &nbytes, &from));
        MPT_EQ(from, rank);
        MPT_CHECK(slot, nbytes, i);
        MPT_OK(nixl_channel_release(channel, slot));
    }
    give_turn(rank);
    MPT_OK(nixl_channel_close(channel, MPT_PATIENCE));
}

/* ---- paired operations ----------------------------------------------------------------------- */

static void expose(int rank, struct regions *regions, int for_rank)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req;

    mpt_fill(nixl_region_addr(regions->data), 4096, 77);
    MPT_EQ(nixl_pair_expose(for_rank, regions->data, 0, 4096, NIXL_PAIR_READ, NIXL_FOREVER, token,
                            sizeof(token), &req),
           NIXL_INPROGRESS);
    MPT_OK(nixl_notify(rank, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
}

static void use_token(int rank)
{
    struct nixl_req *req = NULL;
    unsigned char bytes[4096];
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(rank, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    status = nixl_pair_read((const char *)note.payload, bytes, sizeof(bytes), &req);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS);
    if (status == NIXL_INPROGRESS) {
        MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
    }
    MPT_CHECK(bytes, sizeof(bytes), 77);
}

/* ---- questions ------------------------------------------------------------------------------- */

/*
 * What should reach the other side: ATTACH_OVER, a transport; "host": shm on this host, else tcp.
 */
static const char *wanted_to(const char *host, const char *own_host)
{
    const char *wanted = getenv("ATTACH_OVER");

    if (wanted != NULL && strcmp(wanted, "host") == 0) {
        return strcmp(host, own_host) == 0 ? "shm" : "tcp";
    }
    return wanted != NULL ? wanted : "shm";
}

static void ask_route(int rank, const char *wanted)
{
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    int i = 0;

    do {
        MPT_OK(nixl_route_query(rank, i++, &route));
    } while (!route.is_chosen);
    if (strcmp(route.transport, wanted) != 0) {
        mpt_fail(__FILE__, __LINE__, "reached by %s, and not by %s", route.transport, wanted);
    }
}

static void ask_about(int rank)
{
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT, mine = NIXL_PEER_INFO_INIT;
    struct nixl_team *team;
    const char *wanted;
    bool is_over_shm;
    int ranks[2];

    MPT_TRUE(rank >= nixl_size());
    MPT_EQ(nixl_peer_state(rank), NIXL_PEER_ALIVE);
    MPT_OK(nixl_peer_query(rank, &info));
    MPT_OK(nixl_peer_query(nixl_rank(), &mine));
    MPT_EQ(info.rank, rank);
    MPT_TRUE(info.job != mine.job);
    MPT_TRUE(nixl_host(rank) != NULL && strcmp(nixl_host(rank), info.host) == 0);
    wanted = wanted_to(info.host, mine.host);
    is_over_shm = strcmp(wanted, "shm") == 0;
    MPT_EQ(nixl_scope(rank), is_over_shm ? NIXL_SCOPE_LOCAL : NIXL_SCOPE_REMOTE);
    MPT_TRUE(!is_over_shm || strcmp(info.host, mine.host) == 0);
    ask_route(rank, wanted);
    ranks[0] = nixl_rank();
    ranks[1] = rank;
    MPT_EQ(nixl_team_create(ranks, 2, MPT_PATIENCE, &team), NIXL_E_INVALID_ARG);
    MPT_TRUE(nixl_last_error()->rank == rank || nixl_size() == 1);
}

/* ---- both sides ------------------------------------------------------------------------------ */

void attach_calls_visit(int rank)
{
    struct regions theirs = regions_open(false);

    ask_about(rank);
    take_turn(rank);
    visit_data(rank, &theirs);
    visit_transfer(rank, &theirs);
    visit_file(rank, &theirs);
    if (nixl_region_is_published(rank, theirs.directory, MPT_PATIENCE) == NIXL_OK) {
        visit_directory(rank, &theirs);
    }
    produce(rank, "to");
    consume(rank, "from");
    use_token(rank);
    use_token(rank);
    regions_close(&theirs);
    give_turn(rank);
    take_turn(rank);
}

void attach_calls_serve(int rank)
{
    struct regions own = regions_open(true);

    ask_about(rank);
    give_turn(rank);
    serve_data(rank, &own);
    serve_transfer(rank, &own);
    serve_file(rank, &own);
    if (own.directory != NULL) {
        serve_directory(rank, &own);
    }
    consume(rank, "to");
    produce(rank, "from");
    expose(rank, &own, rank);
    expose(rank, &own, NIXL_ANY_RANK);
    take_turn(rank);
    regions_close(&own);
    remove_directory(&own);
    give_turn(rank);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Publish in the folder where this process is, and leave it. */
static void publish_and_leave(const char *dir, const char *name)
{
    MPT_EQ(chdir(dir), 0);
    MPT_OK(nixl_publish("file:.", name, NULL));
    MPT_EQ(chdir("/"), 0);
}

void attach_calls_paths(const char *where, const char *name)
{
    const char *dir = where + strlen("file:");
    char slash[300], link[300], text[300];

    snprintf(slash, sizeof(slash), "%s/", where);
    snprintf(link, sizeof(link), "%s.link", where);
    MPT_OK(nixl_publish(where, name, NULL));
    MPT_EQ(nixl_publish(slash, name, NULL), NIXL_E_IN_USE);
    MPT_EQ(nixl_publish(link, name, NULL), NIXL_E_IN_USE);
    MPT_OK(nixl_publish_query(slash, name, text, sizeof(text)));
    puts("published");
    fflush(stdout);
    while (getchar() != '\n') {
    }
    MPT_OK(nixl_unpublish(link, name));
    MPT_EQ(nixl_unpublish(where, name), NIXL_E_NOT_FOUND);
    publish_and_leave(dir, name);
    MPT_EQ(nixl_unpublish("file:./", name), NIXL_E_NOT_FOUND);
    MPT_OK(nixl_unpublish("file:.", name));
    publish_and_leave(dir, name);
    MPT_OK(nixl_unpublish(where, name));
    publish_and_leave(dir, name); /* nixl_finalize() removes it */
}
