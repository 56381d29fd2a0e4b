/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of a bounce buffer: what it reports when it cannot serve a chunk. This process
 * is initiator and owner; wrapped functions take away the in-flight slots, and let a region be
 * memory of a device whose copies fail.
 */
#include "config.h"

#include "control/dispatch.h"
#include "core/service.h"
#include "memory/memory.h"
#include "region/publish.h"
#include "transfer/staging_buffer.h"
#include "util/clock.h"

#include "nixlrun.h"
#include "test/unit/unit.h"
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_NBYTES = 4096,
    BUFFER_NBYTES = NXR_BOUNCE_HEAD_NBYTES + NXR_BOUNCE_MEMORY_CHUNKS * CHUNK_NBYTES
};
#define PATIENCE_NS (60 * NXR_S)

TestSuite(bounce, .timeout = 120);

static atomic_bool has_slots;
static atomic_int n_slots_left = INT_MAX; /* while it has slots */

struct nxr_inflight_slot *__real_nxr_inflight_claim_own(void);
struct nxr_inflight_slot *__wrap_nxr_inflight_claim_own(void);

struct nxr_inflight_slot *__wrap_nxr_inflight_claim_own(void)
{
    return atomic_load(&has_slots) && atomic_fetch_sub(&n_slots_left, 1) > 0
               ? __real_nxr_inflight_claim_own()
               : NULL;
}

/* ---- a device -------------------------------------------------------------------------------- */

static void pin_nothing(void *addr, size_t nbytes)
{
    (void)addr;
    (void)nbytes;
}

static const struct nxr_memory_kind device_kind = {
    .kind = NIXL_MEM_CUDA, .pin = pin_nothing, .unpin = NULL};
static const struct nxr_range device_range = {.kind = &device_kind};
static atomic_bool is_of_device; /* every region */

struct nxr_own_memory __real_nxr_publish_memory(uint32_t id);
struct nxr_own_memory __wrap_nxr_publish_memory(uint32_t id);

struct nxr_own_memory __wrap_nxr_publish_memory(uint32_t id)
{
    struct nxr_own_memory own = __real_nxr_publish_memory(id);

    own.range = atomic_load(&is_of_device) ? &device_range : own.range;
    return own;
}

int __real_nxr_device_copy_begin(struct nxr_device_copy *copy);
int __wrap_nxr_device_copy_begin(struct nxr_device_copy *copy);

int __wrap_nxr_device_copy_begin(struct nxr_device_copy *copy)
{
    return atomic_load(&is_of_device) ? NIXL_E_TRANSPORT : __real_nxr_device_copy_begin(copy);
}

/* ---- the buffer ------------------------------------------------------------------------------ */

/* Offer a buffer to this rank's own service thread. */
static struct nxr_bounce_buffer *offer_buffer(void)
{
    int fd = memfd_create("bounce", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct nxr_control_source source = {.fds = &fd, .n_fds = 1};
    union nxr_wire_message message;
    void *addr;

    cr_assert(ge(int, fd, 0));
    cr_assert(zero(int, ftruncate(fd, BUFFER_NBYTES)));
    cr_assert(zero(int, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)));
    addr = mmap(NULL, BUFFER_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(ne(ptr, addr, MAP_FAILED));
    nxr_wire_init(&message, NXR_WIRE_BOUNCE);
    message.bounce.nbytes = BUFFER_NBYTES;
    message.bounce.n_chunks = NXR_BOUNCE_MEMORY_CHUNKS;
    pthread_mutex_lock(&nxr_job.lock);
    source.peer = nxr_job.peers[nxr_job.rank];
    nxr_control_take(&source, &message);
    pthread_mutex_unlock(&nxr_job.lock);
    close(fd);
    return addr;
}

/* Have the owner serve a put or a get of 8 bytes at that place; its outcome. */
static int serve_at(uint64_t offset, struct nxr_bounce_buffer *buffer, const struct nxr_key *key,
                    bool is_put, unsigned index)
{
    struct nxr_bounce_chunk *chunk = &buffer->chunks[index];
    int64_t until = nxr_now_ns() + PATIENCE_NS;

    memset((char *)buffer + NXR_BOUNCE_HEAD_NBYTES + index * CHUNK_NBYTES, 0x5a, 8);
    chunk->is_put = is_put;
    chunk->id = key->id;
    chunk->generation = key->generation;
    chunk->offset = offset;
    chunk->nbytes = 8;
    atomic_store(&chunk->state, NXR_BOUNCE_POSTED);
    nxr_service_kick();
    while (atomic_load(&chunk->state) != NXR_BOUNCE_DONE) {
        cr_assert(lt(i64, nxr_now_ns(), until), "the chunk is not served");
        sched_yield();
    }
    return chunk->status;
}

static int serve(struct nxr_bounce_buffer *buffer, const struct nxr_key *key, bool is_put,
                 unsigned index)
{
    return serve_at(0, buffer, key, is_put, index);
}

Test(bounce, no_free_slot_is_a_limit_and_not_a_closed_region)
{
    struct nxr_bounce_buffer *buffer;
    struct nixl_region *region;
    struct nxr_key key;

    cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
    cr_assert(eq(int, nixl_region_alloc("own", 4096, NULL, &region), NIXL_OK));
    pthread_mutex_lock(&nxr_job.lock);
    key = nxr_publish_find("own")->key;
    pthread_mutex_unlock(&nxr_job.lock);
    buffer = offer_buffer();
    cr_expect(eq(int, serve(buffer, &key, true, 0), NIXL_E_LIMIT));
    cr_expect(zero(chr, *(char *)nixl_region_addr(region)));
    atomic_store(&has_slots, true);
    cr_expect(eq(int, serve(buffer, &key, true, 1), NIXL_OK));
    cr_expect(eq(chr, *(char *)nixl_region_addr(region), 0x5a));
    key.generation++;
    cr_expect(eq(int, serve(buffer, &key, true, 2), NIXL_E_STALE));
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    munmap(buffer, BUFFER_NBYTES);
}

/* The bytes of a chunk, as the owner has left them. */
static const char *bytes_of(struct nxr_bounce_buffer *buffer, unsigned index)
{
    return (char *)buffer + NXR_BOUNCE_HEAD_NBYTES + index * CHUNK_NBYTES;
}

Test(bounce, the_owner_refuses_what_its_region_forbids)
{
    struct nixl_mem_params params = NIXL_MEM_PARAMS_INIT;
    struct nxr_bounce_buffer *buffer;
    struct nixl_region *region;
    struct nxr_key key;

    atomic_store(&has_slots, true);
    cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
    buffer = offer_buffer();
    for (uint32_t access = 0; access <= NXR_ACCESS_ALL; access++) {
        bool may_put = (access & NIXL_ACCESS_NO_PUT) == 0;
        bool may_get = (access & NIXL_ACCESS_NO_GET) == 0;

        params.access = access;
        cr_assert(eq(int, nixl_region_alloc("own", 4096, &params, &region), NIXL_OK));
        pthread_mutex_lock(&nxr_job.lock);
        key = nxr_publish_find("own")->key;
        pthread_mutex_unlock(&nxr_job.lock);
        cr_expect(eq(int, key.access, (int)access));
        cr_expect(eq(int, serve(buffer, &key, true, 0), may_put ? NIXL_OK : NIXL_E_ACCESS));
        cr_expect(eq(chr, *(char *)nixl_region_addr(region), may_put ? 0x5a : 0));
        memset(nixl_region_addr(region), 0x11, 8);
        cr_expect(eq(int, serve(buffer, &key, false, 1), may_get ? NIXL_OK : NIXL_E_ACCESS));
        cr_expect(eq(chr, *bytes_of(buffer, 1), may_get ? 0x11 : 0x5a));
        cr_assert(eq(int, nixl_region_close(region, PATIENCE_NS), NIXL_OK));
    }
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    munmap(buffer, BUFFER_NBYTES);
}

/* Each copy takes a slot of its own, and gives it back also where it fails. */
Test(bounce, a_copy_that_fails_keeps_no_slot)
{
    struct nxr_bounce_buffer *buffer;
    struct nixl_region *region;
    struct nxr_key key;

    atomic_store(&has_slots, true);
    cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
    cr_assert(eq(int, nixl_region_alloc("own", 4096, NULL, &region), NIXL_OK));
    pthread_mutex_lock(&nxr_job.lock);
    key = nxr_publish_find("own")->key;
    pthread_mutex_unlock(&nxr_job.lock);
    buffer = offer_buffer();
    atomic_store(&is_of_device, true);
    for (int i = 0; i < NXR_N_INFLIGHT_SLOTS + 10; i++) {
        cr_assert(eq(int, serve(buffer, &key, true, 0), NIXL_E_TRANSPORT), "copy %d", i);
    }
    atomic_store(&n_slots_left, 0);
    cr_expect(eq(int, serve(buffer, &key, true, 0), NIXL_E_LIMIT));
    atomic_store(&n_slots_left, INT_MAX);
    cr_expect(eq(int, serve(buffer, &key, true, 0), NIXL_E_TRANSPORT));
    atomic_store(&is_of_device, false);
    cr_assert(eq(int, nixl_region_close(region, PATIENCE_NS), NIXL_OK));
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    munmap(buffer, BUFFER_NBYTES);
}

/* A peer that was freed may have had the same address: it is no proof that both are one process. */
Test(bounce, bytes_of_two_processes_are_never_mixed_in_an_object)
{
    struct nixl_directory_params params = NIXL_DIRECTORY_PARAMS_INIT;
    struct nixl_object_info info = NIXL_OBJECT_INFO_INIT;
    char path[] = "/tmp/nixlrun-bounce.XXXXXX";
    struct nxr_bounce_buffer *buffer;
    struct nixl_region *region;
    struct nxr_key key;

    atomic_store(&has_slots, true);
    cr_assert(ne(ptr, mkdtemp(path), NULL));
    cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
    params.nobjects = 1;
    params.object_nbytes = 16;
    cr_assert(eq(int, nixl_region_open_directory("objects", path, &params, &region), NIXL_OK));
    pthread_mutex_lock(&nxr_job.lock);
    key = nxr_publish_find("objects")->key;
    pthread_mutex_unlock(&nxr_job.lock);
    buffer = offer_buffer();
    cr_expect(eq(int, serve_at(0, buffer, &key, true, 0), NIXL_OK));
    nxr_job.peers[nxr_job.rank]->identity.incarnation++; /* another process has its place */
    cr_expect(eq(int, serve_at(8, buffer, &key, true, 1), NIXL_OK));
    cr_expect(eq(int, nixl_object_stat(region, 0, PATIENCE_NS, &info), NIXL_E_NOT_FOUND));
    cr_expect(eq(int, serve_at(0, buffer, &key, true, 0), NIXL_OK));
    cr_expect(eq(int, nixl_object_stat(region, 0, PATIENCE_NS, &info), NIXL_OK),
              "the second one has put all");
    nxr_job.peers[nxr_job.rank]->identity.incarnation--;
    cr_expect(eq(int, nixl_object_delete(region, 0, PATIENCE_NS), NIXL_OK));
    cr_assert(eq(int, nixl_region_close(region, PATIENCE_NS), NIXL_OK));
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    munmap(buffer, BUFFER_NBYTES);
    cr_expect(zero(int, rmdir(path)));
}
