/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/team.h
 * Teams: ordered sets of ranks, which run collectives.
 */
#ifndef NIXLRUN_TEAM_H
#define NIXLRUN_TEAM_H

#include <nixlrun/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An ordered set of ranks that runs collectives. The members are counted from 0; a member's number
 * is its place, its rank is that of the job.
 *
 * Teams are made by all of their members together, each calling the same functions in the same
 * order, and live until each member gives its own handle back. A collective is called by all
 * members of a team in the same order; a team runs one at a time, in whichever thread, and several
 * teams run side by side. A member that dies ends the collectives of the team with
 * NIXL_ERR_PEER_LOST on all others; nixl_team_shrink() makes a team of those.
 *
 * The members of a call that makes a team agree on how it ends: all that survive get NIXL_OK, or
 * all get the same error, whoever dies meanwhile. Where a member dies at the very end, all may get
 * a team that has the dead member, whose collectives end with NIXL_ERR_PEER_LOST.
 *
 * A collective that fails otherwise (a timeout, a cancel, a connection) leaves the members in
 * different states: from then on the team is broken, its collectives return NIXL_ERR_CANCELED on
 * all members, and the contents of buffers are undefined. Only wrong arguments break nothing, and
 * do nothing.
 */
struct nixl_team;
struct nixl_req;

#define NIXL_NO_COLOR (-1) /**< nixl_team_split(): in none of the new teams */

/**
 * The team of all ranks of the job; places are the ranks.
 *
 * A call that ends with NIXL_ERR_TIMEOUT or NIXL_INPROGRESS has not given up: the team is made in
 * the background, and the next call with the same ranks goes on where this one has left. So one
 * member may come late, or call again and again with timeout 0.
 *
 * @param timeout_ns  how long to wait for the other members
 * @param team_p      the handle, to be given back with nixl_team_free()
 * @return NIXL_OK
 * @return NIXL_INPROGRESS       timeout 0, and a member has not come yet
 * @return NIXL_ERR_INVALID_ARG  team_p is NULL, or the timeout is negative; on all members:
 *                               NIXLRUN_COLL_TABLE or its file is not the same on all
 * @return NIXL_ERR_TIMEOUT      a member did not come in time
 * @return NIXL_ERR_PEER_LOST    a member has died
 * @return NIXL_ERR_CANCELED     this rank leaves the job
 * @return NIXL_ERR_IN_USE       another call or request makes a team of the same ranks
 * @return NIXL_ERR_UNSUPPORTED  no transport reaches a member
 * @return NIXL_ERR_NO_MEMORY, NIXL_ERR_LIMIT
 * Where it fails on one member for another reason than its arguments or its timeout, all members
 * get the same error.
 * Collective: all ranks. Threads: any.
 */
NIXL_API int nixl_team_world(int64_t timeout_ns, struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * Begin to make the team of all ranks. Members may use either form. A request that is canceled
 * leaves the team to the next call with the same ranks, which goes on.
 * @param team_p  written before the request ends with NIXL_OK; must be there until then
 * @param req_p   the request
 * @return NIXL_INPROGRESS, NIXL_ERR_INVALID_ARG, NIXL_ERR_IN_USE, NIXL_ERR_NO_MEMORY. The request
 * ends as nixl_team_world(). Collective: all ranks. Threads: any.
 */
NIXL_API int nixl_team_world_nb(struct nixl_team **team_p, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * The team of the ranks on this host, those whose memory can be shared, by rank. All ranks of the
 * job call it. Else as nixl_team_world().
 */
NIXL_API int nixl_team_node(int64_t timeout_ns, struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * A team of given ranks, whose places are those in the list. Only these ranks call it, all with the
 * same list; other ranks need not know.
 * @param ranks   different ranks of the job, the caller's among them
 * @param nranks  1 .. nixl_size()
 * @return NIXL_ERR_INVALID_ARG  also if a rank is not in the job, is there twice, or the caller's
 *                               is not there
 * Else as nixl_team_world().
 */
NIXL_API int nixl_team_create(const int *ranks, size_t nranks, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/** Begin to make a team of given ranks; as nixl_team_create() and nixl_team_world_nb(). */
NIXL_API int nixl_team_create_nb(const int *ranks, size_t nranks, struct nixl_team **team_p,
                                 struct nixl_req **req_p) NIXL_MUST_CHECK;

/** A team of the ranks first, first + stride, ... (count of them). Else as nixl_team_create(). */
NIXL_API int nixl_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                               struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * Divide a team: members of one color are in one new team, ordered by key, then by place. Also of a
 * broken team whose members live. A call that goes on with one that timed out has its color and
 * key, or ends with NIXL_ERR_INVALID_ARG.
 * @param color  0 or more, or NIXL_NO_COLOR: then *team_p becomes NULL
 * @return NIXL_ERR_PEER_LOST  a member of @p team has died, in whichever of the new teams it were
 * @return NIXL_ERR_IN_USE     another call or request divides the team
 * Collective: all members of @p team. Else as nixl_team_world().
 */
NIXL_API int nixl_team_split(struct nixl_team *team, int color, int key, int64_t timeout_ns,
                             struct nixl_team **team_p) NIXL_MUST_CHECK;

/** Begin to divide a team; as nixl_team_split() and nixl_team_world_nb(). */
NIXL_API int nixl_team_split_nb(struct nixl_team *team, int color, int key,
                                struct nixl_team **team_p, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * A team of the living members of @p team, in the same order; also of a broken team, or one without
 * a loss. A death in the midst of it is one more: the survivors agree on who is left, and get no
 * NIXL_ERR_PEER_LOST.
 * Collective: the living members. Else as nixl_team_world().
 */
NIXL_API int nixl_team_shrink(struct nixl_team *team, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * Give a team back. Requests on it are canceled first; other members may go on with what does not
 * need this one.
 * @return NIXL_OK, or NIXL_ERR_INVALID_ARG: no team. Collective: no. Threads: any, but no other
 * call may use the handle.
 */
NIXL_API int nixl_team_free(struct nixl_team *team);

/** The number of members, or a negative status. Threads: any. */
NIXL_API int nixl_team_size(const struct nixl_team *team);

/** The caller's place, or a negative status. Threads: any. */
NIXL_API int nixl_team_rank(const struct nixl_team *team);

/**
 * Where a member of one team stands in another.
 * @param from   a team, or NULL for the job, whose places are the ranks
 * @param place  in @p from
 * @param to     a team, or NULL for the job
 * @return the place in @p to; NIXL_ERR_NOT_FOUND: not a member; NIXL_ERR_INVALID_ARG
 * Threads: any.
 */
NIXL_API int nixl_team_translate(const struct nixl_team *from, int place,
                                 const struct nixl_team *to);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_TEAM_H */
