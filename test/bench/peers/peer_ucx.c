/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's one-sided calls, and its messages with tags. The target's memory is UCX's own, or with
 * PEER_MALLOC=1 malloc memory that is registered afterwards.
 */
#include "peer_ucx.h"

#define FLAG_OFFSET PEER_MAX_NBYTES

static ucp_rkey_h rkey;
static unsigned char *mine, *local;
static uint64_t remote; /* address of the other's memory */
static uint64_t n_signaled, n_awaited;
static void progress(void)
{
    ucp_worker_progress(worker);
}

static void barrier(void)
{
    pair_barrier(progress);
}

static void flush(void)
{
    finish(ucp_ep_flush_nbx(endpoint, &plain));
}

/* Started; a flush completes it. */
static void post(ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        check(UCS_PTR_STATUS(request), "post");
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void put(long count)
{
    for (long i = 0; i < count; i++) {
        post(ucp_put_nbx(endpoint, local, peer_nbytes, remote, rkey, &plain));
    }
    flush();
}

/* One get is complete when its request is. */
static void get(long count)
{
    if (count == 1) {
        finish(ucp_get_nbx(endpoint, local, peer_nbytes, remote, rkey, &plain));
        return;
    }
    for (long i = 0; i < count; i++) {
        post(ucp_get_nbx(endpoint, local, peer_nbytes, remote, rkey, &plain));
    }
    flush();
}

static void fetch_add(long n)
{
    static const uint64_t one = 1;
    uint64_t before;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
                                                       UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                                       .datatype = ucp_dt_make_contig(8),
                                       .reply_buffer = &before};

    for (long i = 0; i < n; i++) {
        finish(ucp_atomic_op_nbx(endpoint, UCP_ATOMIC_OP_ADD, &one, 1, remote, rkey, &param));
    }
}

/* Data, fence, and a flag that the target watches. */
static void put_signal(size_t nbytes)
{
    if (nbytes > 0) {
        post(ucp_put_nbx(endpoint, local, nbytes, remote, rkey, &plain));
        check(ucp_worker_fence(worker), "fence");
    }
    n_signaled++;
    post(
        ucp_put_nbx(endpoint, &n_signaled, sizeof(n_signaled), remote + FLAG_OFFSET, rkey, &plain));
}

static void wait_signal(void)
{
    n_awaited++;
    while (*(volatile uint64_t *)(void *)(mine + FLAG_OFFSET) < n_awaited) {
        ucp_worker_progress(worker);
    }
}

static ucs_status_ptr_t start_send(size_t nbytes, int tag)
{
    return ucp_tag_send_nbx(endpoint, local, nbytes, (ucp_tag_t)tag, &plain);
}

static ucs_status_ptr_t start_receive(size_t nbytes, int tag)
{
    return ucp_tag_recv_nbx(worker, mine, nbytes, (ucp_tag_t)tag, UINT64_MAX, &plain);
}

static void send_message(size_t nbytes, int tag)
{
    finish(start_send(nbytes, tag));
}

static void receive(size_t nbytes, int tag)
{
    finish(start_receive(nbytes, tag));
}

static void send_window(long n)
{
    static ucs_status_ptr_t requests[PEER_MAX_WINDOW];

    for (long i = 0; i < n; i++) {
        for (long j = 0; j < peer_window; j++) {
            requests[j] =
                peer_rank == 0 ? start_send(peer_nbytes, 2) : start_receive(peer_nbytes, 2);
        }
        for (long j = 0; j < peer_window; j++) {
            finish(requests[j]);
        }
    }
}

static ucp_mem_h open_memory(void)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = PEER_DATA_NBYTES,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_mem_h memory;

    if (getenv("PEER_MALLOC") != NULL) {
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params.address = new_memory();
    }
    check(ucp_mem_map(context, &params, &memory), "map");
    check(ucp_mem_query(memory, &attributes), "query");
    mine = attributes.address;
    memset(mine, 0, PEER_DATA_NBYTES);
    return memory;
}

/* The other's memory through its key: mine is mapped, packed, swapped. */
static void swap_keys(ucp_mem_h memory)
{
    uint64_t address_of_mine = (uint64_t)(uintptr_t)mine, *address_of_theirs;
    size_t key_nbytes;
    void *key;

    check(ucp_rkey_pack(context, memory, &key, &key_nbytes), "pack");
    check(ucp_ep_rkey_unpack(endpoint, pair_swap(key, key_nbytes), &rkey), "key");
    address_of_theirs = pair_swap(&address_of_mine, sizeof(address_of_mine));
    remote = *address_of_theirs;
}

int main(void)
{
    struct peer_calls calls = {.barrier = barrier,
                               .put = put,
                               .get = get,
                               .put_signal = put_signal,
                               .wait_signal = wait_signal,
                               .send = send_message,
                               .receive = receive,
                               .send_window = send_window,
                               .fetch_add = fetch_add};

    pair_start();
    open_worker(UCP_FEATURE_RMA | UCP_FEATURE_TAG | UCP_FEATURE_AMO64);
    open_endpoint();
    local = new_memory();
    swap_keys(open_memory());
    calls.mine = mine;
    calls.local = local;
    peer_run(&calls);
    pair_end();
}
