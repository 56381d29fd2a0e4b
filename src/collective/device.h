/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory in collectives. Data that is only moved is copied by the GPU between where it lies
 * and what the members share (nxr_team_copy), or from one GPU to the other (buffer.h). Reductions
 * among members on one host whose buffers are all CUDA memory are done by kernels
 * (device_reduce.c). Other reductions, and small data, go through pieces of pinned host memory of
 * the team: copied down, run as a collective on host memory, copied up, while the copies of other
 * pieces continue. The processor never touches device memory.
 */
#ifndef NXR_COLLECTIVE_DEVICE_H
#define NXR_COLLECTIVE_DEVICE_H

#include "collective/call.h"
#include "collective/team.h"
#include "util/copy.h"

#define NXR_DEVICE_STAGES 3 /* being copied down, in use by the host, being copied up */

/* A copy that runs while something else is done. */
struct nxr_device_lane {
    struct nxr_device_copy copy;
    struct nxr_device_piece *pieces; /* [size of the team] */
    _Atomic int status;              /* NIXL_INPROGRESS: it is under way */
};

/* Staging memory of a team, in host memory. */
struct nxr_device_stage {
    char *memory;
    struct nxr_device_lane down;
    struct nxr_device_lane up;
};

struct nxr_team_device {
    char *memory; /* of all stages */
    size_t nbytes;
    unsigned pinned_kinds; /* bits by enum nixl_mem_kind: have pinned this and the shared memory */
    struct nxr_device_stage stages[NXR_DEVICE_STAGES];
    struct nxr_device_piece pieces[];
};

/* Bytes of a stage, at least NXR_DEVICE_STAGE_LEAST: the same for all members. */
#define NXR_DEVICE_STAGE_LEAST ((size_t)1 << 20)
size_t nxr_device_stage_nbytes(const struct nixl_team *team);

/*
 * Make sure that the team has its stages, and that these and its shared memory are pinned for the
 * kind of a range; NULL: the processor uses them. NIXL_OK; NIXL_E_NO_MEMORY.
 */
int nxr_device_need(struct nixl_team *team, const struct nxr_range *range);

/* Start a copy of lane->pieces; nxr_device_end() waits for it. With no pieces this does nothing. */
void nxr_device_begin(struct nxr_device_lane *lane, const struct nxr_range *dst,
                      const struct nxr_range *src, size_t n_pieces);

/*
 * Run a reduction on the device of a range, and wait for it. NIXL_OK; NIXL_E_IN_USE: it did not
 * end in time, and continues; or another failure.
 */
int nxr_device_run(struct nixl_team *team, const struct nxr_device_reduction *reduction,
                   const struct nxr_range *by);

/* Wait until it has ended. NIXL_OK, also if none was started; any other status: it failed. */
int nxr_device_end(struct nxr_device_lane *lane);

/* The team is freed. */
void nxr_device_drop(struct nixl_team *team);

/* A copy that may involve device memory; see nxr_team_copy(). */
int nxr_device_team_copy(struct nixl_team *team, void *dst, const void *src, size_t nbytes);

/*
 * Copy the caller's data, in any kind of memory, from or to where the others find it. NIXL_OK; any
 * other status ends the call under way, and the team is broken.
 */
NXR_HOT static inline int nxr_team_copy(struct nixl_team *team, void *dst, const void *src,
                                        size_t nbytes)
{
    if (__builtin_expect(!team->is_plain && nxr_range_has_device(dst, src), 0)) {
        return nxr_device_team_copy(team, dst, src, nbytes);
    }
    nxr_copy(dst, src, nbytes);
    return NIXL_OK;
}

/*
 * Is it a reduction whose members cannot know whether another one has device memory, and so would
 * run it in pieces or by kernels?
 */
static inline bool nxr_device_may_be_there(const struct nixl_team *team,
                                           const struct nxr_call *call)
{
    return call->kind == NXR_CALL_REDUCTION &&
           ((call->reduction.nbytes > NXR_DEVICE_STAGE_LEAST &&
             call->reduction.nbytes > nxr_device_stage_nbytes(team)) ||
            nxr_node_may_have_kernels(&team->node));
}

/* Must a call be run by nxr_device_call_run()? */
static inline bool nxr_device_is_asked(const struct nixl_team *team, const struct nxr_call *call)
{
    return call->has_device || nxr_device_may_be_there(team, call);
}

/* As nxr_call_run(). */
int nxr_device_call_run(struct nixl_team *team, const struct nxr_call *call);

/* The same for a call that is neither strided.h's nor whole.h's. */
static inline int nxr_call_run_plain(struct nixl_team *team, const struct nxr_call *call)
{
    return __builtin_expect(nxr_device_is_asked(team, call), 0) ? nxr_device_call_run(team, call)
                                                                : nxr_call_run_on_host(team, call);
}

/*
 * A reduction by kernels; all members call it alike. *is_done_p: false if they do not all agree to
 * it, and nothing was done.
 */
int nxr_device_reduce(struct nixl_team *team, const struct nxr_call *call, bool *is_done_p);

#endif
