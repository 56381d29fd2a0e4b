/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of the library, in a state in which all of them must be refused. */
#include "mptest.h"
#include "test/op_form.h"

static int no_object(const struct nixl_object_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return 0;
}

static void every_region_call(struct nixl_region *region, int expected)
{
    struct nixl_object_info object = NIXL_OBJECT_INFO_INIT;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *other = NULL;
    void *addr = NULL;
    char byte = 0;
    const struct nixl_extent extent = {&byte, 1};

    MPT_STATUS(nixl_region_alloc("refused", 64, NULL, &other), expected);
    MPT_STATUS(nixl_region_register("refused", &byte, 1, NULL, &other), expected);
    MPT_STATUS(nixl_region_register_extents("refused", &extent, 1, NULL, &other), expected);
    MPT_STATUS(nixl_region_open("refused", &other), expected);
    MPT_STATUS(nixl_region_open_file("refused", "/dev/null", NULL, &other), expected);
    MPT_STATUS(nixl_region_open_object("refused", "s3://bucket/key", NULL, &other), expected);
    MPT_STATUS(nixl_region_open_directory("refused", "/", NULL, &other), expected);
    MPT_STATUS(nixl_object_stat(region, 0, 0, &object), expected);
    MPT_STATUS(nixl_object_delete(region, 0, 0), expected);
    MPT_STATUS(nixl_object_list(region, NULL, 0, no_object, NULL), expected);
    MPT_STATUS(nixl_region_query(0, region, 0, &info), expected);
    MPT_STATUS(nixl_region_query_extent(0, region, 0, 0, &info), expected);
    MPT_STATUS(nixl_region_map(0, region, &addr), expected);
    MPT_STATUS(nixl_region_unmap(0, region, addr), expected);
    MPT_STATUS(nixl_region_close(region, MPT_S), expected);
    MPT_TRUE(other == NULL && addr == NULL);
}

static void every_transfer_call(struct nixl_region *region, int expected)
{
    struct nixl_req *req = NULL;
    char byte = 0;

    MPT_STATUS(nixl_put(0, region, 0, &byte, 1), expected);
    MPT_STATUS(nixl_get(0, region, 0, &byte, 1), expected);
    MPT_STATUS(nixl_put_x(0, region, 0, &byte, 1, NULL, &req), expected);
    MPT_STATUS(nixl_get_x(0, region, 0, &byte, 1, NULL, &req), expected);
    MPT_STATUS(nixl_put_notify(0, region, 0, &byte, 1, 1, NULL, 0, MPT_S), expected);
    MPT_STATUS(nixl_get_notify(0, region, 0, &byte, 1, 1, NULL, 0, MPT_S), expected);
    MPT_STATUS(nixl_fence(0), expected);
    MPT_STATUS(nixl_flush(NIXL_ALL_RANKS, MPT_S), expected);
    MPT_TRUE(req == NULL);
}

static void every_xfer_call(struct nixl_region *region, int expected)
{
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_xfer_info info = NIXL_XFER_INFO_INIT;
    struct nixl_xfer *xfer = NULL;
    char byte = 0;

    local.addr = &byte;
    remote.region = region;
    local.block_nbytes = remote.block_nbytes = 1;
    MPT_STATUS(nixl_xfer_create(NIXL_XFER_PUT, 0, &local, 1, &remote, 1, &xfer), expected);
    MPT_TRUE(xfer == NULL);
    MPT_STATUS(nixl_xfer_start(xfer, NULL), expected);
    MPT_STATUS(nixl_xfer_start_x(xfer, (struct nixl_op[]){op_note(1, NULL, 0)}, NULL), expected);
    MPT_STATUS(nixl_xfer_wait(xfer, MPT_S), expected);
    MPT_STATUS(nixl_xfer_cancel(xfer, MPT_S, NULL), expected);
    MPT_STATUS(nixl_xfer_set_index(xfer, NIXL_XFER_LOCAL, 0, 1, NULL), expected);
    MPT_STATUS(nixl_xfer_query(xfer, &info), expected);
    MPT_STATUS(nixl_xfer_free(xfer), expected);
}

static void every_extended_call(struct nixl_region *region, int expected)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_context *context = NULL;
    struct nixl_region *other = NULL;
    struct nixl_op op = NIXL_OP_INIT;
    struct nixl_cq_entry entry;
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;
    struct nixl_cq *cq = NULL;
    struct nixl_note note;
    int self = 0;
    char byte = 0;
    size_t n;

    op.timeout_ns = NIXL_AT_ONCE;
    nixl_note_init(&note);
    MPT_STATUS(nixl_context_open("every", NULL, &context), expected);
    MPT_STATUS(nixl_context_close(NULL), expected);
    MPT_STATUS(nixl_cq_open(NULL, &cq), expected);
    MPT_STATUS(nixl_cq_wait(cq, &entry, 1, 0, &n), expected);
    MPT_STATUS(nixl_cq_cancel(cq, 0), expected);
    MPT_STATUS(nixl_cq_fd(cq), expected);
    MPT_STATUS(nixl_cq_arm(cq), expected);
    MPT_STATUS(nixl_cq_close(cq), expected);
    MPT_STATUS(nixl_put_x(0, region, 0, &byte, 1, &op, NULL), expected);
    MPT_STATUS(nixl_get_x(0, region, 0, &byte, 1, &op, NULL), expected);
    MPT_STATUS(nixl_flush_x(0, region, &op, &req), expected);
    MPT_STATUS(nixl_notify_x(0, 1, NULL, 0, &op, NULL), expected);
    MPT_STATUS(nixl_notify_recv_x(0, 1, 0, &op, &note), expected);
    MPT_STATUS(nixl_event_recv_x(&op, &event), expected);
    MPT_STATUS(nixl_region_open_x("every", &op, &other), expected);
    MPT_STATUS(nixl_team_world_x(&op, &team, NULL), expected);
    MPT_STATUS(nixl_team_node_x(&op, &team, &req), expected);
    MPT_STATUS(nixl_team_create_x(&self, 1, &op, &team, NULL), expected);
    MPT_STATUS(nixl_team_strided_x(0, 1, 1, &op, &team, &req), expected);
    MPT_TRUE(req == NULL && team == NULL && other == NULL && cq == NULL && context == NULL);
}

static void every_channel_call(int expected)
{
    struct nixl_channel *channel = NULL;
    void *slot = NULL;

    MPT_STATUS(nixl_channel_open("refused", 0, NIXL_CHANNEL_CONSUMER, 8, 1, NULL, &channel),
               expected);
    MPT_STATUS(nixl_channel_acquire(channel, MPT_S, &slot), expected);
    MPT_STATUS(nixl_channel_publish(channel, 1), expected);
    MPT_STATUS(nixl_channel_recv(channel, MPT_S, &slot, NULL, NULL), expected);
    MPT_STATUS(nixl_channel_release(channel, slot), expected);
    MPT_STATUS(nixl_channel_close(channel, MPT_S), expected);
    MPT_TRUE(channel == NULL && slot == NULL);
}

static void every_pair_call(struct nixl_region *region, int expected)
{
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    char token[NIXL_TOKEN_MAX + 1] = "", byte = 0;
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_pair_expose(0, region, 0, 1, NIXL_PAIR_READ, MPT_S, token, sizeof(token), &req),
               expected);
    MPT_STATUS(nixl_pair_query(token, &info), expected);
    MPT_STATUS(nixl_pair_read(token, &byte, 1, &req), expected);
    MPT_STATUS(nixl_pair_write(token, &byte, 1, &req), expected);
    MPT_STATUS(nixl_pair_decline(token), expected);
    MPT_TRUE(req == NULL && token[0] == '\0');
}

static void every_grant_call(struct nixl_region *region, int expected)
{
    struct nixl_grant_info info = NIXL_GRANT_INFO_INIT;
    struct nixl_blocks blocks = NIXL_BLOCKS_INIT;
    char token[NIXL_TOKEN_MAX + 1] = "";
    struct nixl_req *req = NULL;

    blocks.region = region;
    blocks.block_nbytes = 1;
    MPT_STATUS(nixl_grant_create(&blocks, NULL, token, sizeof(token), &req), expected);
    MPT_STATUS(nixl_grant_renew(token, MPT_S), expected);
    MPT_STATUS(nixl_grant_revoke(token, 0), expected);
    MPT_STATUS(nixl_grant_query(token, &info), expected);
    MPT_TRUE(req == NULL && token[0] == '\0');
}

static void every_word_call(struct nixl_region *region, int expected)
{
    uint64_t word = 1, fetched = 2;
    const uint64_t *words = &word;
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_atomic(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, &fetched),
               expected);
    MPT_STATUS(nixl_atomic_post(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word), expected);
    MPT_STATUS(nixl_atomic_compare_swap(0, region, 0, NIXL_TYPE_UINT64, &word, &word, &fetched),
               expected);
    MPT_STATUS(nixl_signal_set(0, region, 0, 1), expected);
    MPT_STATUS(nixl_signal_add(0, region, 0, 1), expected);
    MPT_STATUS(nixl_put_signal(0, region, 0, &word, 8, region, 8, NIXL_SIGNAL_ADD, 1), expected);
    MPT_STATUS(nixl_signal_wait(&word, NIXL_COMPARE_EQ, 1, MPT_S, &fetched), expected);
    MPT_STATUS(nixl_signal_wait_any(&words, 1, NIXL_COMPARE_EQ, 1, MPT_S, NULL, &fetched),
               expected);
    MPT_STATUS(nixl_word_wait(&word, NIXL_TYPE_INT64, NIXL_COMPARE_EQ, &word, MPT_S, &fetched),
               expected);
    MPT_STATUS(nixl_word_wait_any(&word, 8, 1, NIXL_TYPE_INT64, NIXL_COMPARE_EQ, &word, MPT_S, NULL,
                                  &fetched),
               expected);
    MPT_STATUS(
        nixl_atomic_x(0, region, 0, NIXL_TYPE_UINT64, NIXL_ATOMIC_ADD, &word, NULL, &fetched, &req),
        expected);
    MPT_STATUS(nixl_atomic_compare_swap_x(0, region, 0, NIXL_TYPE_UINT64, &word, &word, NULL,
                                          &fetched, &req),
               expected);
    MPT_STATUS(nixl_signal_x(0, region, 0, NIXL_SIGNAL_SET, 1, NULL, &req), expected);
    MPT_STATUS(nixl_put_x(0, region, 0, &word, 8,
                          (struct nixl_op[]){op_signal(region, 8, NIXL_SIGNAL_ADD, 1)}, &req),
               expected);
    MPT_STATUS(nixl_get_x(0, region, 0, &fetched, 8,
                          (struct nixl_op[]){op_own_signal(&word, NIXL_SIGNAL_ADD, 1)}, &req),
               expected);
    MPT_TRUE(req == NULL && fetched == 2 && word == 1);
}

static void every_collective_call(int expected)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_vector_args vector = NIXL_VECTOR_ARGS_INIT;
    struct nixl_team *team = NULL, *other = NULL;
    struct nixl_req *req = NULL;
    int rank = 0;

    MPT_STATUS(nixl_team_world(MPT_S, &other), expected);
    MPT_STATUS(nixl_team_world_x(NULL, &other, &req), expected);
    MPT_STATUS(nixl_team_create_x(&rank, 1, NULL, &other, &req), expected);
    MPT_STATUS(nixl_team_node(MPT_S, &other), expected);
    MPT_STATUS(nixl_team_create(&rank, 1, MPT_S, &other), expected);
    MPT_STATUS(nixl_team_strided(0, 1, 1, MPT_S, &other), expected);
    MPT_STATUS(nixl_team_split(team, 0, 0, MPT_S, &other), expected);
    MPT_STATUS(nixl_team_split_x(team, 0, 0, NULL, &other, &req), expected);
    MPT_STATUS(nixl_team_shrink(team, MPT_S, &other), expected);
    MPT_STATUS(nixl_team_reform(&rank, 1, MPT_S, &other), expected);
    MPT_STATUS(nixl_team_reform_x(&rank, 1, NULL, &other, &req), expected);
    MPT_STATUS(nixl_team_free(team), expected);
    MPT_EQ(nixl_team_size(team), expected);
    MPT_EQ(nixl_team_rank(team), expected);
    MPT_EQ(nixl_team_translate(NULL, 0, NULL), expected);
    MPT_STATUS(nixl_barrier(team, MPT_S), expected);
    MPT_STATUS(nixl_broadcast(team, 0, &rank, 4, MPT_S), expected);
    MPT_STATUS(nixl_reduce(team, 0, &args, MPT_S), expected);
    MPT_STATUS(nixl_allreduce(team, &args, MPT_S), expected);
    MPT_STATUS(nixl_reduce_scatter(team, &args, MPT_S), expected);
    MPT_STATUS(nixl_scan(team, &args, MPT_S), expected);
    MPT_STATUS(nixl_gather(team, 0, &rank, &rank, 4, MPT_S), expected);
    MPT_STATUS(nixl_scatter(team, 0, &rank, &rank, 4, MPT_S), expected);
    MPT_STATUS(nixl_allgather(team, &rank, &rank, 4, MPT_S), expected);
    MPT_STATUS(nixl_alltoall(team, &rank, &rank, 4, MPT_S), expected);
    MPT_STATUS(nixl_gatherv(team, 0, &vector, MPT_S), expected);
    MPT_STATUS(nixl_scatterv(team, 0, &vector, MPT_S), expected);
    MPT_STATUS(nixl_allgatherv(team, &vector, MPT_S), expected);
    MPT_STATUS(nixl_alltoallv(team, &vector, MPT_S), expected);
    MPT_TRUE(other == NULL);
}

static void every_stream_call(struct nixl_region *region, int expected)
{
    struct nixl_req *req = NULL;
    uint64_t word = 1;

    MPT_STATUS(nixl_put_x(0, region, 0, &word, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               expected);
    MPT_STATUS(nixl_get_x(0, region, 0, &word, 8, (struct nixl_op[]){op_stream(NULL)}, &req),
               expected);
    MPT_STATUS(nixl_put_x(0, region, 0, &word, 8,
                          (struct nixl_op[]){op_stream_note(NULL, 1, NULL, 0)}, NULL),
               expected);
    MPT_STATUS(
        nixl_signal_x(0, region, 0, NIXL_SIGNAL_SET, 1, (struct nixl_op[]){op_stream(NULL)}, NULL),
        expected);
    MPT_STATUS(
        nixl_signal_wait_x(&word, NIXL_COMPARE_EQ, 1, (struct nixl_op[]){op_stream(NULL)}, NULL),
        expected);
    MPT_TRUE(req == NULL);
}

static void every_started_collective(int expected)
{
    struct nixl_reduce_args args = NIXL_REDUCE_ARGS_INIT;
    struct nixl_vector_args vector = NIXL_VECTOR_ARGS_INIT;
    struct nixl_team *team = NULL;
    struct nixl_req *req = NULL;
    int value = 0;

    MPT_STATUS(nixl_barrier_x(team, NULL, &req), expected);
    MPT_STATUS(nixl_broadcast_x(team, 0, &value, 4, NULL, &req), expected);
    MPT_STATUS(nixl_reduce_x(team, 0, &args, NULL, &req), expected);
    MPT_STATUS(nixl_allreduce_x(team, &args, NULL, &req), expected);
    MPT_STATUS(nixl_reduce_scatter_x(team, &args, NULL, &req), expected);
    MPT_STATUS(nixl_scan_x(team, &args, NULL, &req), expected);
    MPT_STATUS(nixl_gather_x(team, 0, &value, &value, 4, NULL, &req), expected);
    MPT_STATUS(nixl_scatter_x(team, 0, &value, &value, 4, NULL, &req), expected);
    MPT_STATUS(nixl_allgather_x(team, &value, &value, 4, NULL, &req), expected);
    MPT_STATUS(nixl_alltoall_x(team, &value, &value, 4, NULL, &req), expected);
    MPT_STATUS(nixl_gatherv_x(team, 0, &vector, NULL, &req), expected);
    MPT_STATUS(nixl_scatterv_x(team, 0, &vector, NULL, &req), expected);
    MPT_STATUS(nixl_allgatherv_x(team, &vector, NULL, &req), expected);
    MPT_STATUS(nixl_alltoallv_x(team, &vector, NULL, &req), expected);
    MPT_STATUS(nixl_coll_start(NULL, MPT_S), expected);
    MPT_STATUS(nixl_coll_start_x(NULL, NULL, &req), expected);
    MPT_STATUS(nixl_coll_free(NULL), expected);
    MPT_TRUE(req == NULL);
}

void mpt_every_call(struct nixl_region *region, int expected)
{
    static _Thread_local int rank = -1;
    struct nixl_note note;
    struct nixl_event event = NIXL_EVENT_INIT;
    struct nixl_route_info route = NIXL_ROUTE_INFO_INIT;
    struct nixl_peer_info peer = NIXL_PEER_INFO_INIT;
    struct nixl_stats stats = NIXL_STATS_INIT;
    char text[64];

    MPT_EQ(nixl_rank(), expected);
    MPT_EQ(nixl_size(), expected);
    MPT_EQ(nixl_local_rank(), expected);
    MPT_EQ(nixl_local_size(), expected);
    MPT_EQ(nixl_program(), expected);
    MPT_EQ(nixl_scope(0), expected);
    MPT_EQ(nixl_peer_state(0), expected);
    MPT_STATUS(nixl_peer_query(0, &peer), expected);
    MPT_STATUS(nixl_peer_readmit(0, 1), expected);
    MPT_EQ(nixl_incarnation(), expected);
    MPT_EQ(nixl_event_fd(), expected);
    MPT_STATUS(nixl_debug_dump(2), expected);
    MPT_TRUE(nixl_host(0) == NULL);
    MPT_STATUS(nixl_rank_kill(0), expected);
    MPT_STATUS(nixl_question_cancel(0), expected);
    MPT_STATUS(nixl_route_query(0, 0, &route), expected);
    MPT_STATUS(nixl_route_query_segment(0, region, NULL, 0, &route), expected);
    MPT_STATUS(nixl_stats_query(0, &stats), expected);
    MPT_STATUS(nixl_stats_sum(0, NIXL_STATS_PUT, NULL, &stats), expected);
    every_region_call(region, expected);
    every_transfer_call(region, expected);
    every_extended_call(region, expected);
    every_xfer_call(region, expected);
    every_channel_call(expected);
    every_pair_call(region, expected);
    every_grant_call(region, expected);
    every_word_call(region, expected);
    every_collective_call(expected);
    every_stream_call(region, expected);
    every_started_collective(expected);
    nixl_note_init(&note);
    MPT_STATUS(nixl_notify(0, 1, NULL, 0, MPT_S), expected);
    MPT_STATUS(nixl_notify_recv(NIXL_ANY_RANK, 0, 0, MPT_S, &note), expected);
    MPT_STATUS(nixl_event_arm(), expected);
    MPT_STATUS(nixl_event_recv(MPT_S, &event), expected);
    MPT_STATUS(nixl_publish("file:.", "every", ""), expected);
    MPT_STATUS(nixl_publish_query("file:.", "every", text, sizeof(text)), expected);
    MPT_STATUS(nixl_publish_list("file:.", MPT_S, text, sizeof(text), NULL), expected);
    MPT_STATUS(nixl_unpublish("file:.", "every"), expected);
    MPT_STATUS(nixl_attach("file:.", "every", "", 0, &rank), expected);
    MPT_STATUS(nixl_attach_rank(0, 1, 0, 0, &rank), expected);
    MPT_STATUS(nixl_peer_number(1, 0, &rank), expected);
    MPT_STATUS(nixl_detach(1, 0), expected);
    MPT_STATUS(nixl_finalize_x(NULL), expected);
    MPT_STATUS(nixl_finalize(), expected);
    MPT_EQ(nixl_last_error()->status, expected);
    MPT_TEXT(nixl_last_error()->operation, "nixl_finalize");
}
