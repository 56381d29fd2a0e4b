/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce_scatter over several hosts. On each host, the members combine their data for the members
 * of another host. Each of them does so for some of those members and sends them the result
 * directly; a receiver combines it with what its own host has for it. So a part crosses the network
 * once from each other host, over as many paths as a host has members, and is stored nowhere in
 * between.
 *
 * All members go through the parts piece by piece, in step: a member sends the next piece before it
 * waits for the last one, so that the hosts combine while data is under way. A piece fills a slot
 * of the mailboxes, two of which are always free at that point, so no wait is endless. Operands are
 * combined in an order that depends only on the team. No lock.
 */
#include "config.h"

#include "collective/phase.h"
#include "collective/two_level.h"

#include <stdlib.h>

struct scattering {
    struct nixl_team *team;
    const struct nxr_reduction *what;
    size_t part_nbytes;
    size_t piece_nbytes; /* of a part */
    int *members;        /* [size of the team]: team ranks, host by host */
    int *first;          /* [n_nodes + 1]: where each host starts in members */
    size_t *begins;      /* [node.size]: for the reduction under way */
    char *out;           /* a piece combined for another host */
    char *sum;           /* in place: the result, while dst still has operands; else NULL */
};

/* ---- locations of members -------------------------------------------------------------------- */

static void list_members(const struct scattering *scattering)
{
    const struct nixl_team *team = scattering->team;
    int n = 0;

    for (int node = 0; node < team->n_nodes; node++) {
        scattering->first[node] = n;
        for (int i = 0; i < team->size; i++) {
            if (team->node_of[i] == node) {
                scattering->members[n++] = i;
            }
        }
    }
    scattering->first[team->n_nodes] = n;
}

static int count_on(const struct scattering *scattering, int node)
{
    return scattering->first[node + 1] - scattering->first[node];
}

/* The i-th member of a host; -1: it has less. */
static int member_on(const struct scattering *scattering, int node, int i)
{
    return i < count_on(scattering, node) ? scattering->members[scattering->first[node] + i] : -1;
}

/* ---- a piece of all parts -------------------------------------------------------------------- */

struct piece {
    size_t at; /* in each part */
    size_t nbytes;
};

static const char *operands_for(const struct scattering *scattering, int team_rank,
                                const struct piece *piece)
{
    return (const char *)scattering->what->src + (size_t)team_rank * scattering->part_nbytes +
           piece->at;
}

/*
 * Combine what this host has for members of a host, starting with the i-th, one for each member
 * here; the piece that this member combines goes to dst.
 */
static int combine_for(const struct scattering *scattering, int node, int i,
                       const struct piece *piece, void *dst)
{
    struct nixl_team *team = scattering->team;
    struct nxr_reduction on_host = *scattering->what;

    for (int k = 0; k < team->node.size; k++) {
        int team_rank = member_on(scattering, node, i + k);

        scattering->begins[k] =
            team_rank >= 0 ? (size_t)team_rank * scattering->part_nbytes : NXR_REDUCE_NO_PART;
    }
    on_host.src = (const char *)on_host.src + piece->at;
    on_host.dst = dst;
    on_host.nbytes = piece->nbytes * (size_t)team->node.size;
    on_host.begins = scattering->begins;
    return nxr_node_reduce(team, &on_host);
}

/* Send a member what this host has for it; -1: none, but the other members here have one. */
static int scatter2_send_piece(const struct scattering *scattering, int node, int i,
                               const struct piece *piece)
{
    struct nixl_team *team = scattering->team;
    int to = member_on(scattering, node, i + team->node.me), status = NIXL_OK;
    const char *src = scattering->out;

    if (team->node.size > 1) {
        status = combine_for(scattering, node, i, piece, scattering->out);
    } else {
        src = operands_for(scattering, to, piece);
    }
    return status == NIXL_OK && to >= 0
               ? nxr_mailbox_send_operands(team, &team->post, to, &scattering->what->combine, src,
                                           piece->nbytes)
               : status;
}

static int send_to_hosts(const struct scattering *scattering, const struct piece *piece)
{
    const struct nixl_team *team = scattering->team;
    int n = team->n_nodes, status = NIXL_OK;

    for (int k = 1; k < n && status == NIXL_OK; k++) {
        int node = (team->my_node + k) % n;

        for (int i = 0; i < count_on(scattering, node) && status == NIXL_OK; i += team->node.size) {
            status = scatter2_send_piece(scattering, node, i, piece);
        }
    }
    return status;
}

/* The member of another host that sends this member's part. */
static int sender_on(const struct scattering *scattering, int node)
{
    int n = count_on(scattering, node), me = scattering->team->node.me;

    return member_on(scattering, node, n > 1 ? me % n : 0);
}

static int take_from_hosts(const struct scattering *scattering, const struct piece *piece)
{
    struct nixl_team *team = scattering->team;
    char *dst = (char *)scattering->what->dst + piece->at;
    char *sum = scattering->sum != NULL ? scattering->sum : dst;
    const char *mine = sum;
    int n = team->n_nodes, status = NIXL_OK;

    if (team->node.size > 1) {
        status = combine_for(scattering, team->my_node, 0, piece, sum);
    } else {
        mine = operands_for(scattering, team->me, piece);
    }
    for (int k = 1; k < n && status == NIXL_OK; k++) {
        const struct nxr_mailbox_swap swap = {
            .to = -1,
            .from = sender_on(scattering, (team->my_node - k + n) % n),
            .dst = sum,
            .dst_nbytes = piece->nbytes,
            .combine = &scattering->what->combine,
            .operand = mine,
            .is_right = true};

        status = nxr_mailbox_swap(team, &team->post, &swap);
        mine = sum;
    }
    if (status == NIXL_OK && sum != dst) {
        nxr_copy(dst, sum, piece->nbytes);
    }
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static struct piece piece_at(const struct scattering *scattering, size_t at)
{
    size_t left = scattering->part_nbytes - at;

    return (struct piece){at, left < scattering->piece_nbytes ? left : scattering->piece_nbytes};
}

/* A member that cannot send its piece would keep the others on its host from combining the next. */
static int expect_pieces(const struct scattering *scattering)
{
    struct nixl_team *team = scattering->team;
    size_t n = (scattering->part_nbytes + scattering->piece_nbytes - 1) / scattering->piece_nbytes;
    int status = NIXL_OK;

    for (int node = 0; node < team->n_nodes && status == NIXL_OK; node++) {
        if (node != team->my_node) {
            status = nxr_mailbox_expect(team, &team->post, sender_on(scattering, node), n);
        }
    }
    return status;
}

static int scatter2_move_pieces(const struct scattering *scattering)
{
    struct piece next = piece_at(scattering, 0);
    int status = expect_pieces(scattering);

    if (status == NIXL_OK) {
        status = send_to_hosts(scattering, &next);
    }
    while (status == NIXL_OK && next.nbytes > 0) {
        struct piece piece = next;

        next = piece_at(scattering, piece.at + piece.nbytes);
        if (next.nbytes > 0) {
            status = send_to_hosts(scattering, &next);
        }
        if (status == NIXL_OK) {
            status = take_from_hosts(scattering, &piece);
        }
    }
    return status;
}

static bool scatter2_allocate(struct scattering *scattering)
{
    const struct nixl_team *team = scattering->team;
    size_t nbytes = scattering->piece_nbytes;
    bool wants_out = team->node.size > 1;
    /* Members other than the first have operands where the result goes. */
    bool wants_sum = scattering->what->src == scattering->what->dst && team->me != 0;

    scattering->members = calloc((size_t)team->size, sizeof(*scattering->members));
    scattering->first = calloc((size_t)team->n_nodes + 1, sizeof(*scattering->first));
    scattering->begins = calloc((size_t)team->node.size, sizeof(*scattering->begins));
    scattering->out = wants_out ? malloc(nbytes) : NULL;
    scattering->sum = wants_sum ? malloc(nbytes) : NULL;
    return scattering->members != NULL && scattering->first != NULL && scattering->begins != NULL &&
           (scattering->out != NULL || !wants_out) && (scattering->sum != NULL || !wants_sum);
}

int nxr_two_level_reduce_scatter(struct nixl_team *team, const struct nxr_reduction *what)
{
    struct scattering scattering = {
        .team = team, .what = what, .part_nbytes = what->nbytes / (size_t)team->size};
    size_t slot = team->post.slot_nbytes, room = slot - slot % what->combine.element_nbytes;
    int status;

    scattering.piece_nbytes = scattering.part_nbytes < room ? scattering.part_nbytes : room;
    if (scatter2_allocate(&scattering)) {
        list_members(&scattering);
        status = scatter2_move_pieces(&scattering);
    } else {
        status = nxr_team_break(team, NIXL_E_NO_MEMORY, -1);
    }
    free(scattering.members);
    free(scattering.first);
    free(scattering.begins);
    free(scattering.out);
    free(scattering.sum);
    return status;
}
