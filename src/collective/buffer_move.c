/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching the buffers of other members: mappings of their regions, process_vm calls for memory
 * elsewhere, and copying by either. No lock.
 */
#include "config.h"

#include "collective/buffer.h"
#include "collective/buffer_far.h"
#include "collective/team.h"
#include "util/copy.h"
#include "util/log.h"
#include "util/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Bytes moved between two checks whether the call has to end. */
#define CALL_NBYTES  (4ul << 20)
#define VISIT_NBYTES (64ul << 20)

/* ---- mappings -------------------------------------------------------------------------------- */

static void drop_map(const struct nixl_team *team, int member, struct nxr_map *map)
{
    if (map->generation != 0) {
        if (map->addr != NULL) {
            (void)nixl_region_unmap(team->ranks[team->local[member]], map->region, map->addr);
        }
        (void)nixl_region_close(map->region, NIXL_FOREVER);
        map->generation = 0;
    }
}

/* Host memory is mapped; device memory that this process has open needs nothing more. */
static bool map_segment(struct nixl_region *region, int rank, const struct nxr_segment *segment,
                        void **addr_p)
{
    if (segment->key.kind != NIXL_MEM_HOST) {
        return segment->method == NXR_METHOD_DEVICE;
    }
    return nixl_region_map(rank, region, addr_p) == NIXL_OK;
}

/* Open and map a region; if that is not possible, the map stays free. As nxr_team_look(). */
static int make_map(struct nixl_team *team, int member, const char *name, uint64_t generation,
                    struct nxr_map *map)
{
    int team_rank = team->local[member], rank = team->ranks[team_rank], status;
    const struct nxr_segment *segment;
    void *addr = NULL;

    if (nxr_region_open_internal(name, &map->region) != NIXL_OK) {
        return NIXL_OK;
    }
    status = nxr_team_await_segment(team, map->region, team_rank);
    segment = status == NIXL_OK ? nxr_region_segment(map->region, rank) : NULL;
    if (segment != NULL && segment->key.generation == generation &&
        map_segment(map->region, rank, segment, &addr)) {
        map->addr = addr;
        map->generation = generation;
    } else {
        (void)nixl_region_close(map->region, NIXL_FOREVER);
    }
    return status;
}

int nxr_map_find(struct nixl_team *team, int member, const char *name, uint64_t generation,
                 const struct nxr_map **map_p)
{
    struct nxr_far *far = &team->far[member];
    struct nxr_map *map;
    int status;

    for (unsigned i = 0; i < NXR_MAPS_PER_MEMBER; i++) {
        if (far->maps[i].generation == generation) {
            /* The call may look for a second one, which must not take the place of this one. */
            far->next += i == far->next % NXR_MAPS_PER_MEMBER;
            *map_p = &far->maps[i];
            return NIXL_OK;
        }
    }
    map = &far->maps[far->next++ % NXR_MAPS_PER_MEMBER];
    drop_map(team, member, map);
    status = make_map(team, member, name, generation, map);
    *map_p = map->generation == generation ? map : NULL;
    return status;
}

void nxr_fars_drop(const struct nixl_team *team, struct nxr_far *far)
{
    for (int member = 0; far != NULL && member < team->node.size; member++) {
        for (int i = 0; i < NXR_MAPS_PER_MEMBER; i++) {
            drop_map(team, member, &far[member].maps[i]);
        }
    }
    free(far);
}

/* ---- process_vm calls ------------------------------------------------------------------------ */

/* The kernel's answer changes if one of the two changes its user, so it is queried each time. */
int nxr_far_prove(struct nixl_team *team, int member)
{
    struct nxr_far *far = &team->far[member];
    int team_rank = team->local[member], status = NIXL_OK, error = ESRCH;
    const struct nxr_peer *peer;

    if (far->pid < 0) {
        return NIXL_OK;
    }
    if (far->pid == 0) {
        status = nxr_team_find_segment(team, team->boot.region, team_rank); /* connects it */
    }
    if (status != NIXL_OK) {
        return status;
    }
    peer = nxr_peer_find(team->ranks[team_rank]);
    if (peer != NULL && nxr_peer_is_local(peer) && nxr_peer_pid(peer) > 0) {
        error = nxr_peer_prove_pid(peer, nxr_peer_pid(peer));
    }
    far->pid = error == 0 ? nxr_peer_pid(peer) : -1;
    if (error != 0) {
        nxr_info(COLL, "unregistered buffers of %s go through shared memory: %s",
                 nxr_peer_name(peer), strerror(error));
    }
    return NIXL_OK;
}

/* A process_vm call has failed: the member has died, or it gave an invalid address. */
static int buffer_move_fail_call(struct nixl_team *team, int member, int error)
{
    int team_rank = team->local[member], status = nxr_team_look(team, team_rank);

    if (status != NIXL_OK) {
        return status;
    }
    if (error == ESRCH) { /* its memory disappears before others learn of the death */
        return nxr_team_break(team, NIXL_E_PEER_LOST, team->ranks[team_rank]);
    }
    nxr_fail(NIXL_E_TRANSPORT, team->operation, team->ranks[team_rank], "shm", 0,
             "process_vm call on the buffer of %s: %s", nxr_rank_name(team->ranks[team_rank]),
             strerror(error));
    return nxr_team_break(team, NIXL_E_TRANSPORT, -1);
}

/* ---- copying --------------------------------------------------------------------------------- */

int nxr_buffer_read(struct nixl_team *team, int member, size_t at, void *to, size_t nbytes)
{
    const struct nxr_far *far = &team->far[member];
    int status = NIXL_OK;

    if (far->src.here != NULL && !nxr_range_is_device(to)) {
        nxr_copy(to, far->src.here + at, nbytes);
        return NIXL_OK;
    }
    if (far->src.region != NULL) {
        int rank = team->ranks[team->local[member]];

        status = nixl_get(rank, far->src.region, far->src.offset + at, to, nbytes);
        return status == NIXL_OK ? status : nxr_team_break(team, status, rank);
    }
    for (size_t done = 0; done < nbytes && status == NIXL_OK;) {
        size_t left = nbytes - done, n = left < CALL_NBYTES ? left : CALL_NBYTES;
        struct iovec here = {(char *)to + done, n};
        struct iovec there = {(void *)(uintptr_t)(far->src.there + at + done), n};
        ssize_t moved = process_vm_readv(far->pid, &here, 1, &there, 1, 0);

        if (moved <= 0) {
            return buffer_move_fail_call(team, member, moved < 0 ? errno : EFAULT);
        }
        done += (size_t)moved;
        status = done < nbytes ? nxr_team_look(team, -1) : NIXL_OK;
    }
    return status;
}

/* One visit: *moved_p bytes of at most nbytes. 0, or the errno of the call. */
static int write_some(const struct nxr_far *far, size_t at, const void *from, size_t nbytes,
                      size_t *moved_p)
{
    if (far->dst.here != NULL) {
        *moved_p = nbytes < VISIT_NBYTES ? nbytes : VISIT_NBYTES;
        nxr_copy(far->dst.here + at, from, *moved_p);
    } else {
        size_t n = nbytes < CALL_NBYTES ? nbytes : CALL_NBYTES;
        struct iovec here = {(void *)(uintptr_t)from, n};
        struct iovec there = {(void *)(uintptr_t)(far->dst.there + at), n};
        ssize_t moved = process_vm_writev(far->pid, &here, 1, &there, 1, 0);

        if (moved <= 0) {
            return moved < 0 ? errno : EFAULT;
        }
        *moved_p = (size_t)moved;
    }
    return 0;
}

int nxr_buffer_write(struct nixl_team *team, int member, size_t at, const void *from, size_t nbytes)
{
    int status = NIXL_OK, error = 0;

    for (size_t done = 0, moved = 0; done < nbytes; done += moved) {
        status = nxr_node_visit(team);
        if (status != NIXL_OK) {
            return status;
        }
        error = write_some(&team->far[member], at + done, (const char *)from + done, nbytes - done,
                           &moved);
        nxr_node_leave(&team->node);
        if (error != 0) {
            return buffer_move_fail_call(team, member, error);
        }
        if (done + moved < nbytes) {
            status = nxr_team_look(team, -1);
            if (status != NIXL_OK) {
                return status;
            }
        }
    }
    return NIXL_OK;
}
