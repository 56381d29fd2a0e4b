/* SPDX-License-Identifier: Apache-2.0 */
/* What a member knows of another member's buffers: for buffer*.c only. */
#ifndef NXR_COLLECTIVE_BUFFER_FAR_H
#define NXR_COLLECTIVE_BUFFER_FAR_H

#include <stdint.h>
#include <sys/types.h>

struct nixl_team;

#define NXR_MAPS_PER_MEMBER 4

/* A region of another member that is mapped here, or open. */
struct nxr_map {
    uint64_t generation; /* 0: free */
    struct nixl_region *region;
    char *addr; /* NULL: device memory */
};

/* A buffer of the call under way. */
struct nxr_far_buffer {
    char *here;                 /* where it is mapped; NULL: it is not */
    struct nxr_segment *held;   /* open for a kernel; NULL: not offered to one */
    uint64_t there;             /* its address at the member */
    struct nixl_region *region; /* NULL: it lies in none */
    uint64_t offset;            /* ... in that */
};

struct nxr_far {
    struct nxr_far_buffer src;
    struct nxr_far_buffer dst;
    struct nxr_map maps[NXR_MAPS_PER_MEMBER];
    unsigned next; /* the map to replace next */
    pid_t pid;     /* for process_vm calls; 0: not known yet; -1: they do not reach it */
};

/*
 * The region of a member that has this name and generation, in *map_p; NULL: it cannot be reached.
 * Returns as nxr_team_look().
 */
int nxr_map_find(struct nixl_team *team, int member, const char *name, uint64_t generation,
                 const struct nxr_map **map_p);

/* Release all mappings in an array [node.size] and the array; NULL: nothing. */
void nxr_fars_drop(const struct nixl_team *team, struct nxr_far *far);

/*
 * Check whether process_vm calls reach a member right now: sets its pid, or -1 for good. Returns as
 * nxr_team_look().
 */
int nxr_far_prove(struct nixl_team *team, int member);

#endif
