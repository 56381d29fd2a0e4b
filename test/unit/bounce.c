/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of a bounce buffer: what it reports when it cannot serve a chunk. This process
 * is initiator and owner; a wrapped function takes away the in-flight slots.
 */
#include "config.h"

#include "control/dispatch.h"
#include "core/service.h"
#include "region/publish.h"
#include "transfer/staging_buffer.h"
#include "util/clock.h"

#include "nixlrun.h"
#include "test/unit/unit.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CHUNK_NBYTES = 4096,
    BUFFER_NBYTES = NXR_BOUNCE_HEAD_NBYTES + NXR_STAGING_SLOTS * CHUNK_NBYTES
};
#define PATIENCE_NS (60 * NXR_S)

TestSuite(bounce, .timeout = 120);

static atomic_bool has_slots;

struct nxr_inflight_slot *__real_nxr_inflight_claim_own(void);
struct nxr_inflight_slot *__wrap_nxr_inflight_claim_own(void);

struct nxr_inflight_slot *__wrap_nxr_inflight_claim_own(void)
{
    return atomic_load(&has_slots) ? __real_nxr_inflight_claim_own() : NULL;
}

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
    pthread_mutex_lock(&nxr_job.lock);
    source.peer = nxr_job.peers[nxr_job.rank];
    nxr_control_take(&source, &message);
    pthread_mutex_unlock(&nxr_job.lock);
    close(fd);
    return addr;
}

/* Have the owner serve a put of 8 bytes; its outcome. */
static int serve_put(struct nxr_bounce_buffer *buffer, const struct nxr_key *key, unsigned index)
{
    struct nxr_bounce_chunk *chunk = &buffer->chunks[index];
    int64_t until = nxr_now_ns() + PATIENCE_NS;

    memset((char *)buffer + NXR_BOUNCE_HEAD_NBYTES + index * CHUNK_NBYTES, 0x5a, 8);
    chunk->is_put = 1;
    chunk->id = key->id;
    chunk->generation = key->generation;
    chunk->offset = 0;
    chunk->nbytes = 8;
    atomic_store(&chunk->state, NXR_BOUNCE_POSTED);
    nxr_service_kick();
    while (atomic_load(&chunk->state) != NXR_BOUNCE_DONE) {
        cr_assert(lt(i64, nxr_now_ns(), until), "the chunk is not served");
        sched_yield();
    }
    return chunk->status;
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
    cr_expect(eq(int, serve_put(buffer, &key, 0), NIXL_E_LIMIT));
    cr_expect(zero(chr, *(char *)nixl_region_addr(region)));
    atomic_store(&has_slots, true);
    cr_expect(eq(int, serve_put(buffer, &key, 1), NIXL_OK));
    cr_expect(eq(chr, *(char *)nixl_region_addr(region), 0x5a));
    key.generation++;
    cr_expect(eq(int, serve_put(buffer, &key, 2), NIXL_E_STALE));
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    munmap(buffer, BUFFER_NBYTES);
}
