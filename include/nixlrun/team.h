/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file nixlrun/team.h
 * Teams: ordered sets of ranks that run collectives.
 */
#ifndef NIXLRUN_TEAM_H
#define NIXLRUN_TEAM_H

#include <nixlrun/base.h>
#include <nixlrun/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An ordered set of ranks that runs collectives. The members are numbered from 0; a member's number
 * is its team rank, while its rank is its rank in the job.
 *
 * All members make a team together: each calls the same functions in the same order. A team lives
 * until each member has freed its own handle. All members of a team call its collectives in the
 * same order; a team runs one at a time, in any thread, and several teams run at the same time. A
 * member that dies ends the collectives of the team with NIXL_E_PEER_LOST on all others;
 * nixl_team_shrink() makes a team of the survivors. A member in nixl_finalize() breaks the team in
 * the same way, after a second or two, if a call that it has not begun needs it; one that has left,
 * or has ended an attachment, breaks it at once. A call in which it has done its part completes as
 * if it were still there.
 *
 * The members that make a team agree on the outcome: all survivors get NIXL_OK, or all get the same
 * error, whichever members die meanwhile. If a member dies at the very end, all may get a team that
 * includes the dead member; its collectives then end with NIXL_E_PEER_LOST.
 *
 * A collective that fails otherwise (a timeout, a cancel, a connection) leaves the members in
 * different states: from then on the team is broken, its collectives return NIXL_E_CANCELED on
 * all members, and the contents of buffers are undefined. A member that has not returned yet from
 * an earlier collective may get NIXL_E_CANCELED from that, too, although it has ended on others.
 * Only a call with wrong arguments does not break the team, and has no effect.
 *
 * A call whose time is over returns at once, except while a network library still sends from the
 * caller's buffer: libfabric does, and so does UCX with an RDMA adapter or for pieces of up to 128
 * KiB. Then the call returns when these bytes have left, or the peer counts as lost.
 */
struct nixl_team;
struct nixl_req;

#define NIXL_NO_COLOR (-1) /**< nixl_team_split(): in none of the new teams */

/**
 * The team of all ranks of the job; team ranks equal ranks.
 *
 * A call that ends with NIXL_E_TIMEOUT or NIXL_INPROGRESS has not given up: the team is made in
 * the background, and the next call with the same ranks continues from there. So a member may call
 * late, or repeatedly with timeout 0.
 *
 * @param timeout_ns  how long to wait for the other members
 * @param team_p      the handle, to be freed with nixl_team_free()
 * @return NIXL_OK
 * @return NIXL_INPROGRESS       timeout 0, and a member has not called yet
 * @return NIXL_E_INVALID_ARG    team_p is NULL, or the timeout is negative; on all members:
 *                               NIXLRUN_COLL_TABLE or its file differs between members
 * @return NIXL_E_TIMEOUT        a member did not call in time
 * @return NIXL_E_PEER_LOST      a member has died, or leaves the job without having called
 * @return NIXL_E_CANCELED       this rank is leaving the job
 * @return NIXL_E_IN_USE         another call or request is making a team of the same ranks
 * @return NIXL_E_UNSUPPORTED    no transport reaches a member
 * @return NIXL_E_NO_MEMORY, NIXL_E_LIMIT
 * If it fails on one member for a reason other than its arguments or its timeout, all members get
 * the same error.
 * Collective: all ranks. Threads: any.
 */
NIXL_API int nixl_team_world(int64_t timeout_ns, struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * The extended form of making a team: in a context, where teams of the same ranks are others than
 * those of other contexts; all members name the same context. Each member may use either form.
 * Canceling the request leaves the team to the next call with the same ranks, which continues. Of
 * struct nixl_op, no flag is used. With neither a request nor a queue the call waits for
 * `timeout_ns`, 0: the context's default.
 * @param team_p  written before the request ends with NIXL_OK; must stay valid until then
 * @return as nixl_team_world(), at once or as the end of the request. Collective: all ranks.
 * Threads: any.
 */
NIXL_API int nixl_team_world_x(const struct nixl_op *op, struct nixl_team **team_p,
                               struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * The team of the ranks on this host, that is, those whose memory can be shared, in the order of
 * ranks. All ranks of the job must call it. Otherwise as nixl_team_world().
 */
NIXL_API int nixl_team_node(int64_t timeout_ns, struct nixl_team **team_p) NIXL_MUST_CHECK;

/** The extended form of nixl_team_node(); as nixl_team_world_x(). */
NIXL_API int nixl_team_node_x(const struct nixl_op *op, struct nixl_team **team_p,
                              struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * A team of given ranks, none of which was started again, with team ranks in the order of the list.
 * Only these ranks call it, all with the same list; other ranks are not involved.
 * @param ranks   distinct ranks of the job, including the caller's
 * @param nranks  1 .. nixl_size()
 * @return NIXL_E_INVALID_ARG    also if a rank is not in the job or appears twice, or the caller's
 *                               is missing
 * Else as nixl_team_world().
 */
NIXL_API int nixl_team_create(const int *ranks, size_t nranks, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/** The extended form of nixl_team_create(); as nixl_team_world_x(). */
NIXL_API int nixl_team_create_x(const int *ranks, size_t nranks, const struct nixl_op *op,
                                struct nixl_team **team_p, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * A team of the ranks first, first + stride, ... (count of them). Otherwise as nixl_team_create().
 */
NIXL_API int nixl_team_strided(int first, int stride, size_t count, int64_t timeout_ns,
                               struct nixl_team **team_p) NIXL_MUST_CHECK;

/** The extended form of nixl_team_strided(); as nixl_team_world_x(). */
NIXL_API int nixl_team_strided_x(int first, int stride, size_t count, const struct nixl_op *op,
                                 struct nixl_team **team_p,
                                 struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Divide a team: members of one color are in one new team, ordered by key, then by team rank. Also
 * works on a broken team whose members are alive. A call that continues one that timed out must
 * pass the same color and key, or it ends with NIXL_E_INVALID_ARG.
 * @param color  0 or more, or NIXL_NO_COLOR: then *team_p becomes NULL
 * @return NIXL_E_PEER_LOST    a member of @p team has died, whichever of the new teams it belongs
 *                             to
 * @return NIXL_E_IN_USE       another call or request is dividing the team
 * Collective: all members of @p team. Otherwise as nixl_team_world().
 */
NIXL_API int nixl_team_split(struct nixl_team *team, int color, int key, int64_t timeout_ns,
                             struct nixl_team **team_p) NIXL_MUST_CHECK;

/** The extended form of nixl_team_split(), in the context of @p team; as nixl_team_world_x(). */
NIXL_API int nixl_team_split_x(struct nixl_team *team, int color, int key, const struct nixl_op *op,
                               struct nixl_team **team_p, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * A team of the living members of @p team, in the same order; @p team may be broken, or have lost
 * no member. A member that dies during the call is left out too, and one that is in
 * nixl_finalize(): the others agree on the remaining members, and get no NIXL_E_PEER_LOST.
 * Collective: the living members. Otherwise as nixl_team_world().
 */
NIXL_API int nixl_team_shrink(struct nixl_team *team, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * A team of processes that each member knows by numbers of its own: ranks of the job, such as those
 * that have come back and were readmitted (nixl_peer_readmit()), and attached processes of other
 * jobs. Each member names all of them in the same order, by its own numbers; they become the
 * members in that order. Former teams are left as they are, to be freed.
 *
 * The members agree within the timeout, or the call fails on all that have called, with an error
 * that names who is missing, lost, or names other members. The errors may differ: if two members
 * are lost, each caller learns of one of them. A failed call leaves nothing behind: it can be
 * repeated at once, with the same or other members, also while others are still in the one that
 * fails. Members that name different ones have a second to learn who has died, or is in
 * nixl_finalize(), which explains it; then their calls fail. A process takes part in one such call
 * at a time in each context.
 *
 * Once all have called, the team is made within a second even if the time is over meanwhile. If
 * that is not enough, or a member does not answer then (SIGSTOP), some members may have a team that
 * others have given up; it is broken, and its first collective fails.
 *
 * @param ranks       distinct numbers, including the caller's own rank
 * @param nranks      1 or more
 * @param timeout_ns  more than 0, or NIXL_FOREVER; each member may have another one
 * @param team_p      the handle, to be freed with nixl_team_free()
 * @return NIXL_OK
 * @return NIXL_E_INVALID_ARG   a rank is not known or appears twice, the caller's is missing, the
 *                              timeout is 0; a member names other members, or in another order
 * @return NIXL_E_TIMEOUT       a member did not call in time
 * @return NIXL_E_PEER_LOST     a member has died or left, was not readmitted, or leaves the job
 *                              without having called
 * @return NIXL_E_IN_USE        another call or request of this process re-forms a team
 * @return NIXL_E_CANCELED      this rank is leaving the job
 * @return NIXL_E_UNSUPPORTED   no transport reaches a member
 * @return NIXL_E_NO_MEMORY, NIXL_E_LIMIT
 * Collective: the members. Threads: any.
 */
NIXL_API int nixl_team_reform(const int *ranks, size_t nranks, int64_t timeout_ns,
                              struct nixl_team **team_p) NIXL_MUST_CHECK;

/**
 * The extended form of nixl_team_reform(): in a context; each member may use either form. Canceling
 * the request gives up the attempt. With a request or a queue, `timeout_ns` 0 means no deadline.
 * Otherwise as nixl_team_world_x().
 */
NIXL_API int nixl_team_reform_x(const int *ranks, size_t nranks, const struct nixl_op *op,
                                struct nixl_team **team_p, struct nixl_req **req_p) NIXL_MUST_CHECK;

/**
 * Free a team. Requests on it are canceled first; other members may continue with whatever does not
 * need this one.
 * @return NIXL_OK, or NIXL_E_INVALID_ARG: no team. Collective: no. Threads: any, but no other
 * call may use the handle.
 */
NIXL_API int nixl_team_free(struct nixl_team *team);

/** The number of members, or a negative status. Threads: any. */
NIXL_API int nixl_team_size(const struct nixl_team *team);

/** The caller's team rank, or a negative status. Threads: any. */
NIXL_API int nixl_team_rank(const struct nixl_team *team);

/**
 * The team rank in one team of a member of another.
 * @param from   a team, or NULL for the job, whose team ranks are the ranks, and the numbers of
 *               attached processes
 * @param team_rank  in @p from
 * @param to     a team, or NULL for the job
 * @return the team rank in @p to; NIXL_E_NOT_FOUND: not a member; NIXL_E_INVALID_ARG
 * Threads: any.
 */
NIXL_API int nixl_team_translate(const struct nixl_team *from, int team_rank,
                                 const struct nixl_team *to);

#ifdef __cplusplus
}
#endif

#endif /* NIXLRUN_TEAM_H */
