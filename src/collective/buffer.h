/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the members on one host. Each member publishes where its own are; if all can reach
 * those of the others, the buffers are read and written in place: in allocated regions through a
 * mapping, elsewhere by process_vm calls. Device memory is read by the GPU and written only by its
 * owner; kernels are the exception: they read and write the device memory of all members. Mappings
 * and handles are kept until the team is freed, a few for each member.
 *
 * A member that writes into another member's buffer makes a visit (node.h), so that a call that
 * fails does not return while its buffers are written.
 */
#ifndef NXR_COLLECTIVE_BUFFER_H
#define NXR_COLLECTIVE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct nixl_team;
struct nxr_range;

enum nxr_buffers { NXR_BUFFER_SRC = 1, NXR_BUFFER_DST = 2, NXR_BUFFER_KERNELS = 8 };

/* What others may read from src and write to dst; NULL: nothing. */
struct nxr_offer {
    const void *src;
    size_t src_nbytes;
    void *dst;
    size_t dst_nbytes;
    bool has_no_src;   /* src exists, but must not be read */
    bool is_in_region; /* memory outside of regions is not shared */
    bool has_device;   /* this member writes device memory: only regions can be read */
    bool cannot_write; /* it has in device memory what it would write into dst of others */
    bool for_kernels;  /* all buffers, by kernels of all members, or none */
    bool is_rooted; /* nothing is shared unless `root' offers a buffer, or writes device memory */
    int root;       /* its number on this host */
    const struct nxr_range *by; /* ... the device of this member's kernel; NULL: none */
};

/*
 * Which buffers may be used in place: bits of enum nxr_buffers, the same for all members of the
 * host, which all call. A set bit: each member reaches what the others offer. KERNELS: its kernel
 * reaches it, and no other bit is set.
 */
int nxr_buffers_offer(struct nixl_team *team, const struct nxr_offer *offer, unsigned *shared_p);

/* Where the src of another member is mapped here; NULL: use nxr_buffer_read(). */
const void *nxr_buffer_src(const struct nixl_team *team, int member);

/* The address of another member's buffers for a kernel; all were offered to kernels. */
char *nxr_buffer_src_for_kernels(const struct nixl_team *team, int member);
char *nxr_buffer_dst_for_kernels(const struct nixl_team *team, int member);

/* Release what was offered to kernels: at the end of such a call, even if it fails. */
void nxr_buffers_release(struct nixl_team *team);

/*
 * Copy from the src of another member, or into its dst. NIXL_OK; any other status ends the call
 * under way, and the team is broken.
 */
int nxr_buffer_read(struct nixl_team *team, int member, size_t at, void *to, size_t nbytes);
int nxr_buffer_write(struct nixl_team *team, int member, size_t at, const void *from,
                     size_t nbytes);

/* The team is freed. */
void nxr_buffers_drop(struct nixl_team *team);

#endif
