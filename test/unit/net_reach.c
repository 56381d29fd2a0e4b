/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory a network is given. The device memory here are addresses that nobody may touch: who
 * takes them for host memory dies.
 */
#include "net_case.h"

#include "memory/cuda/cuda.h"
#include "memory/memory.h"
#include "region/region.h"
#include "transfer/staging.h"
#include "util/env.h"

#include "test/unit/unit.h"
#include "transfer/transfer.h"
#include "transfer/op.h"
#include <sys/mman.h>

enum { DEVICE_NBYTES = 1 << 20, CUDA_BIT = 1u << NIXL_MEM_CUDA };

static struct nxr_cuda_device gpu = {.pci = "0000:12:00.0"};
static struct nxr_cuda_memory gpu_memory = {.device = &gpu, .home = -1};
static struct nxr_range *range;
static char *device;

static void begin(void)
{
    start();
    device = mmap(NULL, DEVICE_NBYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(ne(ptr, device, MAP_FAILED));
    cr_assert(zero(int, nxr_range_add((uintptr_t)device, DEVICE_NBYTES, &nxr_memory_cuda,
                                      &gpu_memory, &range)));
    nxr_env.net_gpu = "auto";
}

static void end(void)
{
    nxr_env.net_gpu = "auto";
    stop();
    nxr_range_remove(range);
    munmap(device, DEVICE_NBYTES);
}

static bool takes(void)
{
    return nxr_net_takes(np->bulk, range, false);
}

Test(reach, a_kind_that_the_library_does_not_know_never_comes_to_it, .init = begin, .fini = end)
{
    range->is_direct = true;
    cr_expect(not(takes()));
    nxr_env.net_gpu = "always";
    cr_expect(not(takes()));
    cr_expect(zero(u32, fake.n_shown));
    cr_expect(nxr_net_takes(np->bulk, NULL, false), "host memory always");
}

Test(reach, the_library_is_shown_a_kind_once, .init = begin, .fini = end)
{
    range->is_direct = true;
    fake.attr.device_kinds = CUDA_BIT;
    cr_expect(takes());
    cr_expect(takes());
    cr_expect(eq(u32, fake.n_shown, 1));
    cr_expect(eq(u32, fake.shown, NIXL_MEM_CUDA));
    nxr_env.net_gpu = "never";
    cr_expect(not(takes()));
}

Test(reach, what_it_refuses_is_staged_and_not_shown_again, .init = begin, .fini = end)
{
    range->is_direct = true;
    fake.attr.device_kinds = CUDA_BIT;
    fake.mem_answer = NIXL_E_UNSUPPORTED;
    cr_expect(not(takes()));
    fake.mem_answer = NIXL_OK;
    cr_expect(not(takes()));
    cr_expect(eq(u32, fake.n_shown, 1));
}

Test(reach, memory_that_no_adapter_may_open_is_not_shown, .init = begin, .fini = end)
{
    fake.attr.device_kinds = CUDA_BIT;
    cr_expect(not(takes()));
    cr_expect(zero(u32, fake.n_shown));
}

Test(reach, what_the_library_would_copy_itself_is_asked_for, .init = begin, .fini = end)
{
    fake.attr.copied_kinds = CUDA_BIT;
    cr_expect(not(takes()), "staging does the same");
    nxr_env.net_gpu = "always";
    cr_expect(takes());
}

Test(reach, mapped_memory_is_as_the_hosts, .init = begin, .fini = end)
{
    range->is_mapped = true;
    cr_expect(not(takes()), "an adapter would have to pin it");
    fake.attr.takes_mappings = true;
    cr_expect(takes());
    cr_expect(zero(u32, fake.n_shown), "as host memory");
    cr_expect(eq(u32, nxr_net_local_kind(device), NIXL_MEM_HOST));
    nxr_env.net_gpu = "never";
    cr_expect(not(takes()));
}

/* Of any size, by the network's own writes: no byte is read here. */
Test(reach, device_memory_is_written_from_where_it_lies, .init = begin, .fini = end)
{
    struct nixl_region *region;
    struct nixl_req *req = NULL;

    range->is_direct = true;
    fake.attr.device_kinds = CUDA_BIT;
    fake.attr.is_rma_better = true;
    fake.answer = NIXL_INPROGRESS;
    region = fake_region(1, true);
    cr_assert(ne(ptr, (void *)nxr_segment_mover(nxr_region_segment(region, 1), device),
                 (void *)&nxr_transport_staging));
    for (size_t nbytes = 8; nbytes <= 200000; nbytes *= 5) {
        int n_moved = fake.n_moved;

        cr_assert(eq(int,
                     nxr_transfer_start("put", NXR_OP_PUT, 1, region,
                                        &(struct nxr_piece){0, device, nbytes}, &req),
                     NIXL_INPROGRESS));
        cr_expect(gt(int, fake.n_moved, n_moved));
        cr_expect(eq(u32, fake.moved, NIXL_MEM_CUDA));
        cr_expect(eq(str, (char *)fake.moved_pci, gpu.pci), "by which the rail is chosen");
        while (fake_n_ops() > 0) {
            fake_end_ops(NIXL_OK);
        }
        cr_expect(eq(int, nixl_req_wait(&req, 0), NIXL_OK));
    }
    cr_expect(zero(u32, fake_n_sent(NXR_NET_PUT)));
    nixl_region_close(region, 0);
}

/* A segment that is reached by messages has a processor at the other end. */
Test(reach, messages_carry_no_device_memory, .init = begin, .fini = end)
{
    struct nixl_region *region;

    range->is_direct = true;
    fake.attr.device_kinds = CUDA_BIT;
    fake.attr.takes_mappings = true;
    region = fake_region(1, false);
    cr_expect(eq(ptr, (void *)nxr_segment_mover(nxr_region_segment(region, 1), device),
                 (void *)&nxr_transport_staging));
    range->is_mapped = true;
    cr_expect(ne(ptr, (void *)nxr_segment_mover(nxr_region_segment(region, 1), device),
                 (void *)&nxr_transport_staging));
    nixl_region_close(region, 0);
}

/* What the owner of a region answers to a request for it. */
static struct nxr_remote_key answer_about(const char *name)
{
    const union nxr_wire_message *message;
    struct nxr_memory memory = {.kind = &nxr_memory_cuda,
                                .addr = device,
                                .nbytes = DEVICE_NBYTES,
                                .fd = -1,
                                .range = range};
    struct nxr_remote_key answer;
    struct nxr_published *published;

    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(zero(int, nxr_publish(name, &memory, &published)));
    nxr_publish_ask(&(struct nxr_control_source){.peer = np->peer}, 1, name);
    message = fake_last(NXR_NET_CONTROL);
    cr_assert(ne(ptr, (void *)message, NULL));
    cr_assert(eq(u16, message->header.type, NXR_WIRE_KEY));
    answer = message->key.remote;
    nxr_net_forget(published);
    nxr_publish_revoke(published);
    nxr_publish_free(published);
    pthread_mutex_unlock(&nxr_job.lock);
    fake_forget_sent();
    return answer;
}

/* A peer that was given no window asks for a copy between it and device memory all the same. */
Test(reach, nothing_is_copied_without_a_window, .init = begin, .fini = end)
{
    struct nxr_memory memory = {.kind = &nxr_memory_cuda,
                                .addr = device,
                                .nbytes = DEVICE_NBYTES,
                                .fd = -1,
                                .range = range};
    struct nxr_net_stage stage = {.nbytes = 8};
    struct nxr_published *published;

    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(zero(int, nxr_publish("device", &memory, &published)));
    pthread_mutex_unlock(&nxr_job.lock);
    stage.generation = published->key.generation;
    stage.id = published->key.id;
    fake_receive(1, NXR_NET_STAGE, &stage, sizeof(stage), NULL, 0);
    cr_assert(eq(u32, fake_n_sent(NXR_NET_STAGED), 1));
    cr_expect(eq(int, ((const struct nxr_net_staged *)fake_last(NXR_NET_STAGED))->status,
                 NIXL_E_INVALID_ARG));
    pthread_mutex_lock(&nxr_job.lock);
    nxr_publish_revoke(published);
    nxr_publish_free(published);
    pthread_mutex_unlock(&nxr_job.lock);
}

Test(reach, the_owner_says_how_its_memory_is_reached, .init = begin, .fini = end)
{
    struct nxr_remote_key key = answer_about("unknown");

    cr_expect(zero(u32, key.takes_bulk));
    cr_expect(zero(chr, key.network[0]), "through a window");
    range->is_mapped = fake.attr.takes_mappings = true;
    cr_expect(eq(u32, answer_about("mapped").takes_bulk, 1));
    range->is_mapped = false;
    range->is_direct = true;
    fake.attr.device_kinds = CUDA_BIT;
    key = answer_about("direct");
    cr_expect(zero(u32, key.takes_bulk));
    cr_expect(eq(chr, key.network[0], 'u'), "with the network's key");
    fake.key_nbytes = 1;
    key = answer_about("short");
    cr_expect(eq(chr, key.network[0], 'u'), "however short that is");
    cr_expect(eq(u32, key.nbytes, 1));
}

static int stage(unsigned slot, size_t nbytes)
{
    const struct nxr_net_stage what = {.generation = fake_job.own_key.generation,
                                       .nbytes = nbytes,
                                       .id = fake_job.own_key.id,
                                       .slot = (uint16_t)slot};

    fake_forget_sent();
    fake_receive(1, NXR_NET_STAGE, &what, sizeof(what), NULL, 0);
    cr_assert(eq(u32, fake_n_sent(NXR_NET_STAGED), 1));
    return ((const struct nxr_net_staged *)fake_last(NXR_NET_STAGED))->status;
}

Test(reach, no_window_no_copy, .init = start, .fini = stop)
{
    const struct nxr_net_staged staged = {0, NIXL_OK};

    cr_expect(eq(int, stage(0, 8), NIXL_E_INVALID_ARG), "there is no window");
    fake_receive(1, NXR_NET_STAGED, &staged, sizeof(staged), NULL, 0);
    cr_expect(eq(u64, nxr_net.n_dropped, 1), "an answer about no window");
}
