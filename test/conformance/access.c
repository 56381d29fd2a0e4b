/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantees on what peers may do with a segment: what its owner forbids is refused at the caller,
 * by every call, before anything happens; what is left works, and the owner itself may do all.
 */
#include "conformance.h"
#include "test/op_form.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_REFUSED 0xacc1
#define TAG_DATA    0xacc2
#define TAG_TOKEN   0xacc3

#define NBYTES ((size_t)1 << 16)
#define WORDS  (NBYTES / 2) /* where the words of a segment begin */

static char block[NBYTES];

/* Every rank's segment with what its rank has put there, and words that are 0. */
static struct segment begin(const char *name, uint32_t access)
{
    struct segment segment = conf_segment_with(name, NBYTES, access);

    mpt_fill(block, WORDS, (uint64_t)conf.rank);
    MPT_OK(nixl_put(conf.rank, segment.region, 0, block, WORDS));
    mpt_barrier();
    return segment;
}

/* The owner looks at its own segment, as it was or with `word` as the first of its words. */
static void is_now(const struct segment *segment, uint64_t word)
{
    uint64_t own = ~word;

    mpt_barrier();
    memset(block, 0, NBYTES);
    MPT_OK(nixl_get(conf.rank, segment->region, 0, block, WORDS));
    MPT_CHECK(block, WORDS, (uint64_t)conf.rank);
    MPT_OK(nixl_atomic(conf.rank, segment->region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL,
                       &own));
    MPT_EQ(own, word);
}

static void is_refused(int status, const char *flag)
{
    const char *text = nixl_last_error()->text;
    bool is_read = strcmp(flag, "NIXL_ACCESS_NO_GET") == 0;

    MPT_STATUS(status, NIXL_E_ACCESS);
    MPT_EQ(nixl_last_error()->rank, conf.next);
    MPT_TRUE(strstr(text, flag) != NULL);
    if (strstr(text, " | ") == NULL) { /* one of them: what is not allowed, in words */
        MPT_TRUE(strstr(text, is_read ? "may not read" : "may not change") != NULL);
    }
}

static int create(enum nixl_xfer_op op, struct nixl_region *region, struct nixl_xfer **xfer)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;

    local.addr = block;
    remote.region = region;
    local.block_nbytes = remote.block_nbytes = 64;
    local.stride = remote.stride = 128;
    local.nblocks = remote.nblocks = 4;
    return nixl_xfer_create(op, conf.next, &local, 1, &remote, 1, xfer);
}

/* ---- puts ------------------------------------------------------------------------------------ */

static void puts_are_refused(struct nixl_region *region)
{
    static const char flag[] = "NIXL_ACCESS_NO_PUT";
    const size_t sizes[] = {0, 1, 8, 1000, WORDS};
    struct nixl_xfer *xfer = NULL;
    struct nixl_req *req = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        is_refused(nixl_put(conf.next, region, 0, block, sizes[i]), flag);
        is_refused(nixl_put_x(conf.next, region, 0, block, sizes[i], NULL, &req), flag);
        is_refused(nixl_put_notify(conf.next, region, 0, block, sizes[i], TAG_REFUSED, "m", 1,
                                   MPT_PATIENCE),
                   flag);
    }
    is_refused(nixl_put_strided(conf.next, region, 0, 64, block, 128, 32, 4), flag);
    is_refused(
        nixl_put_x(conf.next, region, 0, block, 8, (struct nixl_op[]){op_stream(NULL)}, NULL),
        flag);
    is_refused(create(NIXL_XFER_PUT, region, &xfer), flag);
    MPT_TRUE(xfer == NULL && req == NULL);
}

static void changes_are_refused(struct nixl_region *region)
{
    static const char flag[] = "NIXL_ACCESS_NO_PUT";
    uint64_t one = 1, zero = 0, before = 77;
    struct nixl_req *req = NULL;

    is_refused(nixl_signal_set(conf.next, region, WORDS, 5), flag);
    is_refused(nixl_signal_add(conf.next, region, WORDS, 5), flag);
    is_refused(nixl_signal_x(conf.next, region, WORDS, NIXL_SIGNAL_ADD, 5, NULL, &req), flag);
    is_refused(nixl_signal_x(conf.next, region, WORDS, NIXL_SIGNAL_SET, 5,
                             (struct nixl_op[]){op_stream(NULL)}, NULL),
               flag);
    is_refused(nixl_atomic(conf.next, region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL),
               flag);
    is_refused(nixl_atomic_x(conf.next, region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                             NULL, &before, &req),
               flag);
    is_refused(
        nixl_atomic_compare_swap(conf.next, region, WORDS, NIXL_TYPE_UINT64, &zero, &one, &before),
        flag);
    MPT_EQ(before, 77);
    MPT_TRUE(req == NULL);
}

static void reads_work(struct nixl_region *region)
{
    struct nixl_xfer *xfer = NULL;
    struct nixl_req *req = NULL;
    uint64_t word = 77;

    memset(block, 0, NBYTES);
    MPT_OK(nixl_get(conf.next, region, 0, block, WORDS));
    MPT_CHECK(block, WORDS, (uint64_t)conf.next);
    memset(block, 0, NBYTES);
    MPT_OK(conf_outcome(nixl_get_x(conf.next, region, 0, block, WORDS, NULL, &req), &req));
    MPT_CHECK(block, WORDS, (uint64_t)conf.next);
    MPT_OK(nixl_get_strided(conf.next, region, 0, 64, block, 64, 32, 4));
    MPT_OK(create(NIXL_XFER_GET, region, &xfer));
    MPT_OK(nixl_xfer_start(xfer, NULL) == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, MPT_PATIENCE)
                                                          : NIXL_OK);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_atomic(conf.next, region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &word));
    MPT_EQ(word, 0);
}

static void what_peers_may_not_put_to_stays_as_it_is(void)
{
    struct segment segment = begin("access.no_put", NIXL_ACCESS_NO_PUT);
    struct segment open = conf_segment("access.open", NBYTES);
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    static struct nixl_note note;
    struct nixl_req *req = NULL;
    uint64_t seven = 7, word = 77;

    mpt_barrier();
    puts_are_refused(segment.region);
    changes_are_refused(segment.region);
    is_refused(
        nixl_put_signal(conf.next, segment.region, 0, block, 8, open.region, 0, NIXL_SIGNAL_ADD, 1),
        "NIXL_ACCESS_NO_PUT");
    is_refused(nixl_put_signal(conf.next, open.region, 8, &seven, 8, segment.region, WORDS,
                               NIXL_SIGNAL_ADD, 1),
               "NIXL_ACCESS_NO_PUT");
    is_refused(nixl_put_x(conf.next, segment.region, 0, block, 8,
                          (struct nixl_op[]){op_signal(open.region, 0, NIXL_SIGNAL_ADD, 1)}, &req),
               "NIXL_ACCESS_NO_PUT");
    reads_work(segment.region);
    MPT_OK(nixl_region_query(conf.next, segment.region, MPT_PATIENCE, &info));
    MPT_EQ(info.access, NIXL_ACCESS_NO_PUT);
    MPT_OK(nixl_region_query(conf.next, open.region, MPT_PATIENCE, &info));
    MPT_EQ(info.access, 0);
    is_now(&segment, 0);
    for (uint64_t offset = 0; offset <= 8; offset += 8) {
        MPT_OK(nixl_get(conf.rank, open.region, offset, &word, 8));
        MPT_EQ(word, 0); /* neither the signal nor the data that it was to follow */
    }
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, TAG_REFUSED, UINT64_MAX, 0, &note), NIXL_INPROGRESS);
    /* The owner changes what it likes. */
    MPT_OK(nixl_signal_set(conf.rank, segment.region, WORDS, 7));
    is_now(&segment, 7);
    conf_end(&open);
    conf_drop(&segment);
}

/* ---- gets ------------------------------------------------------------------------------------ */

static void gets_are_refused(struct nixl_region *region)
{
    static const char flag[] = "NIXL_ACCESS_NO_GET";
    const size_t sizes[] = {0, 1, 8, 1000, WORDS};
    struct nixl_xfer *xfer = NULL;
    struct nixl_req *req = NULL;
    uint64_t one = 1, word = 77, signal = 0;

    memset(block, 0x3c, NBYTES);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        is_refused(nixl_get(conf.next, region, 0, block, sizes[i]), flag);
        is_refused(nixl_get_x(conf.next, region, 0, block, sizes[i], NULL, &req), flag);
        is_refused(nixl_get_notify(conf.next, region, 0, block, sizes[i], TAG_REFUSED, "m", 1,
                                   MPT_PATIENCE),
                   flag);
    }
    is_refused(nixl_get_x(conf.next, region, 0, block, 8,
                          (struct nixl_op[]){op_own_signal(&signal, NIXL_SIGNAL_ADD, 1)}, &req),
               flag);
    is_refused(nixl_get_strided(conf.next, region, 0, 64, block, 128, 32, 4), flag);
    is_refused(
        nixl_get_x(conf.next, region, 0, block, 8, (struct nixl_op[]){op_stream(NULL)}, NULL),
        flag);
    is_refused(create(NIXL_XFER_GET, region, &xfer), flag);
    is_refused(
        nixl_atomic(conf.next, region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_FETCH, NULL, &word),
        flag);
    is_refused(
        nixl_atomic(conf.next, region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, &word),
        flag);
    MPT_CHECK_BYTES(block, NBYTES, 0x3c);
    MPT_TRUE(xfer == NULL && req == NULL && word == 77 && signal == 0);
}

/* Every way to put, to the same bytes, and signals that come to 21. */
static void writes_work(struct nixl_region *region)
{
    struct nixl_xfer *xfer = NULL;
    struct nixl_req *req = NULL;
    static struct nixl_note note;

    mpt_fill(block, WORDS, (uint64_t)conf.next);
    MPT_OK(nixl_put(conf.next, region, 0, block, 8));
    MPT_OK(conf_outcome(nixl_put_x(conf.next, region, 8, block + 8, 1000, NULL, &req), &req));
    MPT_OK(nixl_put_strided(conf.next, region, 0, 64, block, 64, 32, 4));
    MPT_OK(create(NIXL_XFER_PUT, region, &xfer));
    MPT_OK(nixl_xfer_start(xfer, NULL) == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, MPT_PATIENCE)
                                                          : NIXL_OK);
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_signal_set(conf.next, region, WORDS, 1));
    MPT_OK(nixl_signal_add(conf.next, region, WORDS, 4));
    MPT_OK(nixl_put_signal(conf.next, region, 0, block, 8, region, WORDS, NIXL_SIGNAL_ADD, 16));
    MPT_OK(nixl_put_notify(conf.next, region, 0, block, WORDS, TAG_DATA, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.prev, TAG_DATA, UINT64_MAX, MPT_PATIENCE, &note));
}

static void what_peers_may_not_read_is_written_only(void)
{
    struct segment segment = begin("access.no_get", NIXL_ACCESS_NO_GET);
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    static struct nixl_note note;

    gets_are_refused(segment.region);
    writes_work(segment.region);
    is_now(&segment, 21);
    MPT_OK(nixl_region_query(conf.next, segment.region, MPT_PATIENCE, &info));
    MPT_EQ(info.access, NIXL_ACCESS_NO_GET);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, TAG_REFUSED, UINT64_MAX, 0, &note), NIXL_INPROGRESS);
    conf_end(&segment);
}

/* M25 */
static void both_may_be_forbidden(void)
{
    struct segment segment = begin("access.none", NIXL_ACCESS_NO_PUT | NIXL_ACCESS_NO_GET);
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;

    puts_are_refused(segment.region);
    changes_are_refused(segment.region);
    gets_are_refused(segment.region);
    MPT_OK(nixl_region_query(conf.next, segment.region, MPT_PATIENCE, &info));
    MPT_EQ(info.access, NIXL_ACCESS_NO_PUT | NIXL_ACCESS_NO_GET);
    is_now(&segment, 0);
    conf_end(&segment);
}

/* What the owner allows is known only when its key has come. */
static void the_first_use_is_refused_too(void)
{
    struct segment segment = begin("access.first", NIXL_ACCESS_NO_PUT);
    struct nixl_region *fresh;
    struct nixl_req *req = NULL;

    MPT_OK(nixl_region_open("access.first", &fresh));
    MPT_STATUS(conf_outcome(nixl_put_x(conf.next, fresh, 0, block, 8, NULL, &req), &req),
               NIXL_E_ACCESS);
    MPT_EQ(nixl_last_error()->rank, conf.next);
    MPT_OK(nixl_region_close(fresh, MPT_PATIENCE));
    MPT_OK(nixl_region_open("access.first", &fresh));
    is_refused(nixl_put_notify(conf.next, fresh, 0, block, 8, TAG_REFUSED, NULL, 0, MPT_PATIENCE),
               "NIXL_ACCESS_NO_PUT");
    MPT_OK(nixl_region_close(fresh, MPT_PATIENCE));
    is_now(&segment, 0);
    conf_end(&segment);
}

/* ---- other ways to the bytes ----------------------------------------------------------------- */

/* Can the processor store at this address? The kernel tries it. */
static bool is_writable(void *addr)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ssize_t nbytes = read(fd, addr, 1);

    MPT_GE(fd, 0);
    close(fd);
    return nbytes == 1;
}

static void a_segment_is_mapped_as_far_as_it_is_allowed(void)
{
    struct segment readable = begin("access.map", NIXL_ACCESS_NO_PUT);
    struct segment writable = conf_segment_with("access.unmapped", NBYTES, NIXL_ACCESS_NO_GET);
    bool is_shared = !conf.is_registered && mpt_scope(conf.next) == NIXL_SCOPE_LOCAL;
    unsigned char *bytes = NULL;

    mpt_barrier();
    if (is_shared && conf.segment_kind == NIXL_MEM_HOST) {
        MPT_OK(nixl_region_map(conf.next, readable.region, (void **)&bytes));
        MPT_CHECK(bytes, WORDS, (uint64_t)conf.next);
        MPT_TRUE(!is_writable(bytes));
        MPT_OK(nixl_region_unmap(conf.next, readable.region, bytes));
        is_refused(nixl_region_map(conf.next, writable.region, (void **)&bytes),
                   "NIXL_ACCESS_NO_GET");
    } else {
        int status = nixl_region_map(conf.next, readable.region, (void **)&bytes);

        MPT_TRUE(status == NIXL_E_UNSUPPORTED ||
                 (status == NIXL_E_ACCESS && conf.segment_kind == NIXL_MEM_CUDA));
        MPT_TRUE(bytes == NULL);
    }
    if (conf.segment_kind == NIXL_MEM_HOST) {
        MPT_OK(nixl_region_map(conf.rank, readable.region, (void **)&bytes));
        MPT_TRUE(is_writable(bytes + WORDS));
        MPT_OK(nixl_region_unmap(conf.rank, readable.region, bytes));
    }
    conf_end(&writable);
    conf_drop(&readable);
}

/* A token does not give what the region forbids. */
static void tokens_give_what_the_region_allows(void)
{
    struct segment segment = begin("access.pair", NIXL_ACCESS_NO_PUT);
    char token[NIXL_TOKEN_MAX + 1];
    static struct nixl_note note;
    struct nixl_req *exposed = NULL, *req = NULL;

    MPT_STATUS(nixl_pair_expose(conf.next, segment.region, 0, 64, NIXL_PAIR_WRITE, NIXL_FOREVER,
                                token, sizeof(token), &exposed),
               NIXL_E_ACCESS);
    MPT_TRUE(exposed == NULL && strstr(nixl_last_error()->text, "NIXL_ACCESS_NO_PUT") != NULL);
    MPT_STATUS(nixl_pair_expose(conf.next, segment.region, 0, WORDS, NIXL_PAIR_READ, NIXL_FOREVER,
                                token, sizeof(token), &exposed),
               NIXL_INPROGRESS);
    MPT_OK(nixl_notify(conf.next, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(conf.prev, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(conf_outcome(nixl_pair_read((const char *)note.payload, block, WORDS, &req), &req));
    MPT_CHECK(block, WORDS, (uint64_t)conf.prev);
    MPT_OK(nixl_req_wait(&exposed, MPT_PATIENCE));
    conf_end(&segment);
}

/* Both ends name the region of a context as the program does. */
static void what_is_forbidden_in_a_context_is_named(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_region *region;
    struct nixl_req *exposed = NULL;

    MPT_OK(nixl_context_open("access", NULL, &params.context));
    params.access = NIXL_ACCESS_NO_GET;
    MPT_OK(nixl_region_alloc("of.context", 64, &params, &region));
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, region, 0, 64, NIXL_PAIR_READ, NIXL_FOREVER, token,
                                sizeof(token), &exposed),
               NIXL_E_ACCESS);
    MPT_TRUE(strstr(nixl_last_error()->text, "'of.context'") != NULL);
    if (conf.next != conf.rank) {
        MPT_STATUS(nixl_get(conf.next, region, 0, block, 64), NIXL_E_ACCESS);
        MPT_TRUE(strstr(nixl_last_error()->text, "'of.context'") != NULL);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    MPT_OK(nixl_context_close(params.context));
}

/* Items go into slots that producers may not read; without puts there is no channel. */
static void producers_need_not_read_slots(void)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nixl_channel *in = NULL, *out = NULL;
    int rank = -1;
    size_t nbytes = 0;
    void *slot = NULL;

    params.access = NIXL_ACCESS_NO_PUT;
    MPT_STATUS(nixl_channel_open("access", conf.prev, NIXL_CHANNEL_CONSUMER, 64, 4, &params, &in),
               NIXL_E_INVALID_ARG);
    MPT_TRUE(in == NULL && strstr(nixl_last_error()->text, "NIXL_ACCESS_NO_PUT") != NULL);
    mpt_barrier();
    params.access = NIXL_ACCESS_NO_GET;
    MPT_OK(nixl_channel_open("access", conf.prev, NIXL_CHANNEL_CONSUMER, 64, 4, &params, &in));
    MPT_OK(nixl_channel_open("access", conf.next, NIXL_CHANNEL_PRODUCER, 64, 4, NULL, &out));
    for (uint64_t item = 0; item < 20; item++) {
        MPT_OK(nixl_channel_acquire(out, MPT_PATIENCE, &slot));
        mpt_fill(slot, 64, item);
        MPT_OK(nixl_channel_publish(out, 64));
        MPT_OK(nixl_channel_recv(in, MPT_PATIENCE, &slot, &nbytes, &rank));
        MPT_CHECK(slot, nbytes, item);
        MPT_OK(nixl_channel_release(in, slot));
    }
    mpt_barrier();
    MPT_OK(nixl_channel_close(out, MPT_PATIENCE));
    MPT_OK(nixl_channel_close(in, MPT_PATIENCE));
    mpt_barrier();
}

/* A member gives its buffer to the collective: the result is the same, whatever else peers may. */
static void collectives_take_restricted_buffers(void)
{
    const uint32_t all = NIXL_ACCESS_NO_PUT | NIXL_ACCESS_NO_GET;

    for (uint32_t access = 1; access <= all + 1; access++) { /* the last: without a name */
        const char *src_name = access <= all ? "access.src" : NULL;
        const char *dst_name = access <= all ? "access.dst" : NULL;
        struct segment src = conf_segment_with(src_name, NBYTES, access & all);
        struct segment dst = conf_segment_with(dst_name, NBYTES, access & all);
        struct nixl_reduce_args sum = NIXL_REDUCE_ARGS_INIT;
        int64_t mine = conf.rank + 1, result = 0;
        struct nixl_team *team;

        MPT_OK(nixl_team_world(MPT_PATIENCE, &team));
        for (size_t i = 0; i < NBYTES / sizeof(mine); i++) {
            memcpy(block + i * sizeof(mine), &mine, sizeof(mine));
        }
        MPT_OK(nixl_put(conf.rank, src.region, 0, block, NBYTES));
        sum.src = src.addr;
        sum.dst = dst.addr;
        sum.count = NBYTES / sizeof(mine);
        sum.type = NIXL_TYPE_INT64;
        MPT_OK(nixl_allreduce(team, &sum, MPT_PATIENCE));
        for (size_t i = 0; i < 2; i++) {
            MPT_OK(nixl_get(conf.rank, dst.region, i * (NBYTES - 8), &result, sizeof(result)));
            MPT_EQ(result, conf.size * (conf.size + 1) / 2);
        }
        MPT_OK(nixl_broadcast(team, 0, src.addr, NBYTES, MPT_PATIENCE));
        MPT_OK(nixl_get(conf.rank, src.region, NBYTES - 8, &result, sizeof(result)));
        MPT_EQ(result, 1);
        MPT_OK(nixl_team_free(team));
        conf_drop(&dst);
        conf_drop(&src);
    }
}

/* ---- regions without a name ------------------------------------------------------------------ */

static void is_no_name(int status)
{
    MPT_STATUS(status, NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_last_error()->rank, conf.next);
    MPT_TRUE(strstr(nixl_last_error()->text, "no name") != NULL);
}

static void other_ranks_are_out_of_reach(struct nixl_region *region)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_xfer *xfer = NULL;
    struct nixl_req *req = NULL;
    uint64_t one = 1;
    void *addr = NULL;

    is_no_name(nixl_put(conf.next, region, 0, block, 8));
    is_no_name(nixl_get(conf.next, region, 0, block, 8));
    is_no_name(nixl_put_x(conf.next, region, 0, block, 8, NULL, &req));
    is_no_name(nixl_put_notify(conf.next, region, 0, block, 8, TAG_REFUSED, NULL, 0, 0));
    is_no_name(nixl_signal_add(conf.next, region, 0, 1));
    is_no_name(nixl_atomic(conf.next, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one, NULL));
    is_no_name(create(NIXL_XFER_PUT, region, &xfer));
    is_no_name(nixl_region_query(conf.next, region, 0, &info));
    is_no_name(nixl_region_query(conf.next, region, MPT_PATIENCE, &info));
    is_no_name(nixl_region_map(conf.next, region, &addr));
    MPT_STATUS(nixl_region_is_published(conf.next, region, MPT_PATIENCE), NIXL_E_NOT_FOUND);
    MPT_TRUE(req == NULL && xfer == NULL && addr == NULL);
}

static void it_reaches_its_own_rank(const struct segment *segment)
{
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = NULL;
    uint64_t offset = 0, before = 77, one = 1;

    mpt_fill(block, WORDS, (uint64_t)conf.rank);
    MPT_OK(nixl_put(conf.rank, segment->region, 0, block, WORDS));
    memset(block, 0, NBYTES);
    MPT_OK(nixl_get(conf.rank, segment->region, 0, block, WORDS));
    MPT_CHECK(block, WORDS, (uint64_t)conf.rank);
    MPT_OK(nixl_atomic(conf.rank, segment->region, WORDS, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &one,
                       &before));
    MPT_EQ(before, 0);
    MPT_OK(nixl_region_query(conf.rank, segment->region, MPT_PATIENCE, &info));
    MPT_EQ(info.nbytes, NBYTES);
    MPT_EQ(info.kind, conf.segment_kind);
    MPT_EQ(info.access, NIXL_ACCESS_NO_PUT | NIXL_ACCESS_NO_GET);
    MPT_STATUS(nixl_region_is_published(conf.rank, segment->region, 0), NIXL_E_NOT_FOUND);
    MPT_OK(nixl_region_of(segment->addr + 100, &region, &offset));
    MPT_TRUE(region == segment->region && offset == 100);
}

static void a_region_without_a_name_is_for_its_rank_alone(void)
{
    struct segment segment = conf_segment_with(NULL, NBYTES, 0);
    struct segment another = conf_segment_with(NULL, NBYTES, 0);
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = NULL;

    mpt_barrier();
    if (conf.size > 1) {
        other_ranks_are_out_of_reach(segment.region);
    }
    it_reaches_its_own_rank(&segment);
    it_reaches_its_own_rank(&another);
    MPT_STATUS(nixl_pair_expose(NIXL_ANY_RANK, segment.region, 0, 8, NIXL_PAIR_READ, NIXL_FOREVER,
                                token, sizeof(token), &req),
               NIXL_E_INVALID_ARG);
    MPT_TRUE(req == NULL && strstr(nixl_last_error()->text, "no name") != NULL);
    conf_end(&another);
    conf_drop(&segment);
}

/* A transfer between a region without a name, by its handle, and one that all have. */
static void move_blocks(enum nixl_xfer_op op, struct nixl_region *local, struct nixl_region *remote,
                        uint64_t offset)
{
    struct nixl_blocks here = NIXL_BLOCKS_INIT, there = NIXL_BLOCKS_INIT;
    struct nixl_xfer *xfer;
    int status;

    here.region = local;
    there.region = remote;
    here.offset = there.offset = offset;
    here.block_nbytes = there.block_nbytes = here.stride = there.stride = 512;
    here.nblocks = there.nblocks = WORDS / 512;
    MPT_OK(nixl_xfer_create(op, conf.next, &here, 1, &there, 1, &xfer));
    status = nixl_xfer_start(xfer, NULL);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_xfer_wait(xfer, MPT_PATIENCE) : status);
    MPT_OK(nixl_xfer_free(xfer));
}

static void a_region_without_a_name_is_local_memory(void)
{
    struct segment local = conf_segment_with(NULL, NBYTES, 0);
    struct segment remote = conf_segment("access.remote", NBYTES);

    mpt_barrier();
    mpt_fill(block, NBYTES, (uint64_t)conf.next);
    MPT_OK(nixl_put(conf.rank, local.region, 0, block, NBYTES));
    MPT_OK(nixl_put(conf.next, remote.region, 0, local.addr, WORDS));
    move_blocks(NIXL_XFER_PUT, local.region, remote.region, WORDS);
    MPT_OK(nixl_flush(conf.next, MPT_PATIENCE));
    mpt_barrier();
    memset(block, 0, NBYTES);
    MPT_OK(nixl_get(conf.rank, remote.region, 0, block, NBYTES));
    MPT_CHECK(block, NBYTES, (uint64_t)conf.rank);
    memset(block, 0, NBYTES);
    MPT_OK(nixl_put(conf.rank, local.region, 0, block, NBYTES));
    MPT_OK(nixl_get(conf.next, remote.region, 0, local.addr, WORDS));
    move_blocks(NIXL_XFER_GET, local.region, remote.region, WORDS);
    MPT_OK(nixl_get(conf.rank, local.region, 0, block, NBYTES));
    MPT_CHECK(block, NBYTES, (uint64_t)conf.next);
    conf_end(&remote);
    conf_drop(&local);
}

const struct guarantee conf_access[] = {
    {"access", NULL, 0},
    {"what_peers_may_not_put_to_stays_as_it_is", what_peers_may_not_put_to_stays_as_it_is,
     CONF_PEERS},
    {"what_peers_may_not_read_is_written_only", what_peers_may_not_read_is_written_only,
     CONF_PEERS},
    {"both_may_be_forbidden", both_may_be_forbidden, CONF_PEERS},
    {"the_first_use_is_refused_too", the_first_use_is_refused_too, CONF_PEERS},
    {"a_segment_is_mapped_as_far_as_it_is_allowed", a_segment_is_mapped_as_far_as_it_is_allowed,
     CONF_PEERS},
    {"tokens_give_what_the_region_allows", tokens_give_what_the_region_allows, CONF_PEERS},
    {"what_is_forbidden_in_a_context_is_named", what_is_forbidden_in_a_context_is_named, 0},
    {"producers_need_not_read_slots", producers_need_not_read_slots, CONF_PEERS},
    {"collectives_take_restricted_buffers", collectives_take_restricted_buffers, 0},
    {"a_region_without_a_name_is_for_its_rank_alone", a_region_without_a_name_is_for_its_rank_alone,
     0},
    {"a_region_without_a_name_is_local_memory", a_region_without_a_name_is_local_memory, 0},
    {0},
};
