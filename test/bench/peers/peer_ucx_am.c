/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same work by UCX's active messages, which take both sides: the data travels in the message, a
 * put is answered when it has landed, a get is asked for. What UCX offers where its one-sided calls
 * are slow.
 */
#include "peer_ucx.h"

#define MESSAGE_ID 1

enum kind {
    KIND_SIGNAL, /* data, and nothing else to do */
    KIND_PUT,    /* data; after `count` of them KIND_DONE is owed */
    KIND_DONE,
    KIND_GET,  /* KIND_DATA is owed */
    KIND_DATA, /* what was asked for */
    N_KINDS
};

struct header {
    uint64_t kind, count;
};

static unsigned char *mine, *local, *inbox; /* inbox: where what was asked for lands */
static long n_in_flight;                    /* own messages whose memory is still used */
static uint64_t n_heard, n_awaited, n_landed, n_done, n_got;
static uint64_t n_owed_done, n_owed_data;

/* The message with this header is here, all of it. */
static void arrived(const struct header *header)
{
    switch ((enum kind)header->kind) {
    case KIND_SIGNAL:
        n_heard++;
        break;
    case KIND_PUT:
        if (++n_landed == header->count) {
            n_landed = 0;
            n_owed_done++;
        }
        break;
    case KIND_DONE:
        n_done++;
        break;
    case KIND_GET:
        n_owed_data++;
        break;
    case KIND_DATA:
        n_got++;
        break;
    case N_KINDS:
        break;
    }
}

static void landed(void *request, ucs_status_t status, size_t nbytes, void *user)
{
    (void)nbytes;
    check(status, "receiving");
    arrived(user);
    free(user);
    ucp_request_free(request);
}

static ucs_status_t fetch(const struct header *header, void *announced, void *place, size_t nbytes)
{
    struct header *kept = malloc(sizeof(*kept));
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.recv_am = landed,
                                 .user_data = kept};
    ucs_status_ptr_t request;

    if (kept == NULL) {
        pair_die("malloc");
    }
    *kept = *header;
    request = ucp_am_recv_data_nbx(worker, announced, place, nbytes, &param);
    if (UCS_PTR_IS_PTR(request)) {
        return UCS_INPROGRESS;
    }
    check(UCS_PTR_RAW_STATUS(request), "receiving");
    arrived(kept);
    free(kept);
    return UCS_OK;
}

/* Large data announces itself and is fetched; small data is here. */
static ucs_status_t on_message(void *arg, const void *header_bytes, size_t header_nbytes,
                               void *data, size_t nbytes, const ucp_am_recv_param_t *message)
{
    const struct header *header = header_bytes;
    unsigned char *place = header->kind == KIND_DATA ? inbox : mine;

    (void)arg;
    (void)header_nbytes;
    if (message->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return fetch(header, data, place, nbytes);
    }
    memcpy(place, data, nbytes);
    arrived(header);
    return UCS_OK;
}

static void sent(void *request, ucs_status_t status, void *user)
{
    (void)user;
    check(status, "sending");
    n_in_flight--;
    ucp_request_free(request);
}

/* All messages of a kind that are in flight together have one header, which must stay. */
static void start(enum kind kind, const void *data, size_t nbytes, uint64_t count)
{
    static struct header headers[N_KINDS];
    static const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                              .cb.send = sent};
    ucs_status_ptr_t request;

    headers[kind] = (struct header){(uint64_t)kind, count};
    request = ucp_am_send_nbx(endpoint, MESSAGE_ID, &headers[kind], sizeof(headers[kind]), data,
                              nbytes, &param);

    if (UCS_PTR_IS_PTR(request)) {
        n_in_flight++;
    } else {
        check(UCS_PTR_RAW_STATUS(request), "sending");
    }
}

/* Also answers what the other asked for. */
static void progress(void)
{
    ucp_worker_progress(worker);
    for (; n_owed_done > 0; n_owed_done--) {
        start(KIND_DONE, NULL, 0, 0);
    }
    for (; n_owed_data > 0; n_owed_data--) {
        start(KIND_DATA, mine, peer_nbytes, 0);
    }
}

static void barrier(void)
{
    while (n_in_flight > 0) {
        progress();
    }
    pair_barrier(progress);
}

/* Until *n is `until`, and own memory is free again. */
static void await(const uint64_t *n, uint64_t until)
{
    while (*n < until || n_in_flight > 0) {
        progress();
    }
}

static void put(long count)
{
    uint64_t until = n_done + 1;

    for (long i = 0; i < count; i++) {
        start(KIND_PUT, local, peer_nbytes, (uint64_t)count);
    }
    await(&n_done, until);
}

static void get(long count)
{
    uint64_t until = n_got + (uint64_t)count;

    for (long i = 0; i < count; i++) {
        start(KIND_GET, NULL, 0, 0);
    }
    await(&n_got, until);
}

static void put_signal(size_t nbytes)
{
    start(KIND_SIGNAL, local, nbytes, 0);
}

static void wait_signal(void)
{
    await(&n_heard, ++n_awaited);
}

int main(void)
{
    struct peer_calls calls = {.barrier = barrier,
                               .put = put,
                               .get = get,
                               .put_signal = put_signal,
                               .wait_signal = wait_signal};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                    UCP_AM_HANDLER_PARAM_FIELD_CB,
                                      .id = MESSAGE_ID,
                                      .cb = on_message};

    pair_start();
    open_worker(UCP_FEATURE_AM);
    check(ucp_worker_set_am_recv_handler(worker, &handler), "handler");
    open_endpoint();
    mine = new_memory();
    local = new_memory();
    inbox = new_memory();
    calls.mine = mine;
    calls.local = local;
    pair_barrier(progress);
    peer_run(&calls);
    pair_end();
}
