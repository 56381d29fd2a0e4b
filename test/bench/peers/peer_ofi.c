/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw libfabric (an RDM endpoint) without a runtime. A notification is the remote completion data
 * of a write. PEER_PROVIDER chooses the provider, as "net;ofi_rxm"; it is shm if nothing is said.
 */
#include "pair.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

static struct fi_info *info;
static struct fid_domain *domain;
static struct fid_ep *endpoint;
static struct fid_cq *sent_queue, *received_queue;
static struct fid_mr *my_key, *local_key;
static fi_addr_t other;
static unsigned char *mine, *local;
static uint64_t remote, remote_key;
static long n_in_flight, n_heard, n_expected, n_received, n_posted;

static void check(ssize_t status, const char *what)
{
    if (status != 0) {
        fprintf(stderr, "peer_ofi: %s: %s\n", what, fi_strerror((int)-status));
        exit(1);
    }
}

static void poll_queue(struct fid_cq *queue)
{
    struct fi_cq_data_entry entries[16];
    ssize_t n = fi_cq_read(queue, entries, 16);

    if (n == -FI_EAGAIN) {
        return;
    }
    if (n < 0) {
        check(n, "completion queue");
    }
    for (ssize_t i = 0; i < n; i++) {
        if ((entries[i].flags & FI_REMOTE_CQ_DATA && !(entries[i].flags & FI_RECV)) ||
            entries[i].flags & FI_REMOTE_WRITE) {
            n_heard++;
        } else if (entries[i].flags & FI_RECV) {
            n_received++;
        } else {
            n_in_flight--;
        }
    }
}

static void progress(void)
{
    poll_queue(sent_queue);
    poll_queue(received_queue);
}

static void barrier(void)
{
    pair_barrier(progress);
}

static void drain(void)
{
    while (n_in_flight > 0) {
        progress();
    }
}

/* Repeat a call until the provider has room. */
#define POST(_call)                                                                                \
    do {                                                                                           \
        ssize_t status_;                                                                           \
        while ((status_ = (_call)) == -FI_EAGAIN) {                                                \
            progress();                                                                            \
        }                                                                                          \
        check(status_, #_call);                                                                    \
    } while (0)

static void start_write(uint64_t flags, size_t nbytes)
{
    void *descriptor = fi_mr_desc(local_key);
    struct iovec source = {local, nbytes};
    struct fi_rma_iov target = {remote, nbytes, remote_key};
    struct fi_msg_rma message = {.msg_iov = &source,
                                 .desc = &descriptor,
                                 .iov_count = 1,
                                 .addr = other,
                                 .rma_iov = &target,
                                 .rma_iov_count = 1,
                                 .data = 7};

    n_in_flight++;
    POST(fi_writemsg(endpoint, &message, FI_COMPLETION | flags));
}

static void put(long count)
{
    for (long i = 0; i < count; i++) {
        start_write(FI_DELIVERY_COMPLETE, peer_nbytes);
    }
    drain();
}

static void get(long count)
{
    for (long i = 0; i < count; i++) {
        n_in_flight++;
        POST(fi_read(endpoint, local, peer_nbytes, fi_mr_desc(local_key), other, remote, remote_key,
                     NULL));
    }
    drain();
}

/* Small data is injected, which needs no completion: the fastest that the library offers. */
static void put_signal(size_t nbytes)
{
    nbytes = nbytes > 0 ? nbytes : 8;
    if (nbytes <= info->tx_attr->inject_size) {
        POST(fi_inject_writedata(endpoint, local, nbytes, 7, other, remote, remote_key));
    } else {
        start_write(FI_REMOTE_CQ_DATA, nbytes);
    }
}

static void wait_signal(void)
{
    n_expected++;
    while (n_heard < n_expected) {
        progress();
    }
    drain();
}

static void start_send(size_t nbytes, int tag)
{
    n_in_flight++;
    POST(fi_tsend(endpoint, local, nbytes, fi_mr_desc(local_key), other, (uint64_t)tag, NULL));
}

static void start_receive(size_t nbytes, int tag)
{
    POST(fi_trecv(endpoint, mine, nbytes, fi_mr_desc(my_key), FI_ADDR_UNSPEC, (uint64_t)tag, 0,
                  NULL));
    n_posted++;
}

static void wait_received(void)
{
    while (n_received < n_posted) {
        progress();
    }
}

static void send_message(size_t nbytes, int tag)
{
    start_send(nbytes, tag);
    drain();
}

static void receive(size_t nbytes, int tag)
{
    start_receive(nbytes, tag);
    wait_received();
}

static void send_window(long n)
{
    for (long i = 0; i < n * peer_window; i++) {
        if (peer_rank == 0) {
            start_send(peer_nbytes, 2);
        } else {
            start_receive(peer_nbytes, 2);
        }
    }
    drain();
    wait_received();
}

static struct fi_info *find_provider(void)
{
    const char *provider = getenv("PEER_PROVIDER");
    struct fi_info *hints = fi_allocinfo(), *found;

    hints->caps = FI_TAGGED | FI_RMA | FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->fabric_attr->prov_name = strdup(provider != NULL ? provider : "shm");
    check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found), "fi_getinfo");
    return found;
}

static struct fid_av *open_endpoint(void)
{
    struct fi_cq_attr queue_attributes = {
        .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE, .size = 4096};
    struct fi_av_attr address_attributes = {.type = FI_AV_TABLE, .count = 8};
    struct fid_fabric *fabric;
    struct fid_av *addresses;

    info = find_provider();
    check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    check(fi_cq_open(domain, &queue_attributes, &sent_queue, NULL), "fi_cq_open");
    check(fi_cq_open(domain, &queue_attributes, &received_queue, NULL), "fi_cq_open");
    check(fi_av_open(domain, &address_attributes, &addresses, NULL), "fi_av_open");
    check(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
    check(fi_ep_bind(endpoint, &sent_queue->fid, FI_TRANSMIT), "fi_ep_bind");
    check(fi_ep_bind(endpoint, &received_queue->fid, FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind");
    check(fi_enable(endpoint), "fi_enable");
    return addresses;
}

static void connect_pair(struct fid_av *addresses)
{
    char name[512];
    size_t name_nbytes = sizeof(name);
    uint64_t me[2], *them;
    void *their_name;

    if (posix_memalign((void **)&mine, 4096, PEER_DATA_NBYTES) != 0 ||
        posix_memalign((void **)&local, 4096, PEER_DATA_NBYTES) != 0) {
        pair_die("malloc");
    }
    memset(mine, 0, PEER_DATA_NBYTES);
    memset(local, 0, PEER_DATA_NBYTES);
    check(fi_mr_reg(domain, mine, PEER_DATA_NBYTES, FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RECV, 0,
                    1, 0, &my_key, NULL),
          "fi_mr_reg");
    check(fi_mr_reg(domain, local, PEER_DATA_NBYTES, FI_READ | FI_WRITE | FI_SEND | FI_RECV, 0, 2,
                    0, &local_key, NULL),
          "fi_mr_reg");
    check(fi_getname(&endpoint->fid, name, &name_nbytes), "fi_getname");
    their_name = pair_swap(name, name_nbytes);
    me[0] = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)mine : 0;
    me[1] = fi_mr_key(my_key);
    them = pair_swap(me, sizeof(me));
    remote = them[0];
    remote_key = them[1];
    if (fi_av_insert(addresses, their_name, 1, &other, 0, NULL) != 1) {
        pair_die("fi_av_insert");
    }
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
                               .send_window = send_window};

    pair_start();
    connect_pair(open_endpoint());
    calls.mine = mine;
    calls.local = local;
    peer_run(&calls);
    pair_end();
}
