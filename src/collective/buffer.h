/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of the members on one host: each says where its own are, and if all can reach those of
 * the others, they are read and written where they lie: in allocated regions through a mapping,
 * elsewhere by process_vm calls. Device memory is got by the GPU, and nobody else writes it, but
 * for kernels, which read and write that of all members.
 * Mappings and handles are kept until the team is given back, a few for each member.
 *
 * A member that writes into the buffer of another one visits it (node.h), so that a call that fails
 * does not return while its buffers are written.
 */
#ifndef NXR_COLLECTIVE_BUFFER_H
#define NXR_COLLECTIVE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct nixl_team;
struct nxr_range;

enum nxr_buffers { NXR_BUFFER_SRC = 1, NXR_BUFFER_DST = 2, NXR_BUFFER_KERNELS = 8 };

/* What others will read from src and write to dst; NULL: nothing. */
struct nxr_offer {
    const void *src;
    size_t src_nbytes;
    void *dst;
    size_t dst_nbytes;
    bool has_no_src;   /* src exists, but must not be read */
    bool is_in_region; /* what lies in no region is not shared */
    bool has_device;   /* what this member writes is device memory: only regions can be read */
    bool for_kernels;  /* all buffers, by kernels of all members, or none */
    const struct nxr_range *by; /* ... whose device has the own kernel; NULL: there is none */
};

/*
 * Which buffers may be used where they lie: bits of enum nxr_buffers, the same for all members of
 * the host, who all call. A set bit: each member reaches what is offered of the others; KERNELS:
 * its kernel does, and no other bit is set.
 */
int nxr_buffers_offer(struct nixl_team *team, const struct nxr_offer *offer, unsigned *shared_p);

/* Where the src of another member is mapped here; NULL: it has to be read. */
const void *nxr_buffer_src(const struct nixl_team *team, int member);

/* Where a kernel finds the buffers of another member, which has offered them to all kernels. */
char *nxr_buffer_src_for_kernels(const struct nixl_team *team, int member);
char *nxr_buffer_dst_for_kernels(const struct nixl_team *team, int member);

/* What was offered to kernels is used no more: at the end of such a call, however it ends. */
void nxr_buffers_release(struct nixl_team *team);

/*
 * Copy from the src of another member, or into its dst. NIXL_OK; any other status ends the call
 * under way, and the team is broken.
 */
int nxr_buffer_read(struct nixl_team *team, int member, size_t at, void *to, size_t nbytes);
int nxr_buffer_write(struct nixl_team *team, int member, size_t at, const void *from,
                     size_t nbytes);

/* The team is given back. */
void nxr_buffers_drop(struct nixl_team *team);

#endif
