/* SPDX-License-Identifier: Apache-2.0 */
/* Mailboxes: their layout, and moving messages piece by piece. Lock: none, see mailbox.h. */
#include "config.h"

#include "collective/device.h"
#include "collective/mailbox.h"
#include "collective/team.h"
#include "core/trace.h"
#include "net/clients.h"
#include "sync/atomic.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/status.h"
#include "core/wait.h"

#include <stdlib.h>
#include <string.h>

/*
 * How long breaking a team may take to reach all members. A member that has freed the team does not
 * answer.
 */
#define TELL_NS      (5 * NXR_S)
#define TELL_LOSS_NS (1 * NXR_S) /* who is waited for may be the lost one */

/*
 * For a piece of this size or larger, its place in the caller's buffer is posted: bulk lands there
 * and is not copied out of the slot. For a smaller one the lock costs more than the copy.
 */
#define POSTED_NBYTES (64ul << 10)

/* The traffic with another member. Numbers of pieces, which wrap around. */
struct nxr_mailbox_path {
    uint32_t sent;
    uint32_t taken;
    uint32_t told; /* how much of `taken` was reported to the other member */
};

static uint64_t slot_offset(const struct nixl_team *team, const struct nxr_mailbox *post,
                            int team_rank, uint32_t piece)
{
    uint64_t slot = (uint64_t)team_rank * post->n_slots + piece % post->n_slots;

    return nxr_mailbox_word_offset(team->size + 1) + slot * post->slot_nbytes;
}

int nxr_mailbox_open(struct nxr_mailbox *post, const char *name, int size, size_t slot_nbytes,
                     uint32_t n_slots)
{
    size_t nbytes = nxr_mailbox_word_offset(size + 1) + (size_t)size * n_slots * slot_nbytes;
    struct nxr_mailbox_path *paths = calloc((size_t)size, sizeof(*paths));
    int status = NIXL_E_NO_MEMORY;

    if (paths != NULL) {
        status = nxr_region_alloc_internal(name, nbytes, &post->region);
    }
    if (status != NIXL_OK) {
        free(paths);
        return status;
    }
    post->paths = paths;
    post->slot_nbytes = slot_nbytes;
    post->n_slots = n_slots;
    return NIXL_OK;
}

void nxr_mailbox_close(struct nxr_mailbox *post)
{
    if (post->region != NULL) {
        (void)nixl_region_close(post->region, NXR_S);
        free(post->paths);
        *post = (struct nxr_mailbox){.region = NULL};
    }
}

/* ---- regions of other members ---------------------------------------------------------------- */

struct finding {
    struct nixl_team *team;
    int team_rank;
    struct nxr_region_segment *segment;
    int status;
};

static bool is_found(void *arg)
{
    struct finding *finding = arg;

    if (atomic_load_explicit(&finding->segment->state, memory_order_acquire) !=
        NXR_SEGMENT_ASKING) {
        return true;
    }
    finding->status = nxr_team_look(finding->team, finding->team_rank);
    return finding->status != NIXL_OK;
}

/* A member cannot be reached: it is lost, or has freed its team. */
static int fail_member(struct nixl_team *team, int status, int team_rank)
{
    if (status == NIXL_E_STALE) {
        atomic_store(&team->cause, status);
    }
    return nxr_team_break(team, status == NIXL_E_STALE ? NIXL_E_CANCELED : status,
                          team->ranks[team_rank]);
}

static int finding_ask(struct finding *finding, struct nixl_region *region)
{
    int rank = finding->team->ranks[finding->team_rank], status;

    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_region_want_segment(region, rank, false, &finding->segment);
    pthread_mutex_unlock(&nxr_job.lock);
    return status;
}

/* Wait for the answer, whatever it is. Returns as nxr_team_look(). */
static int finding_wait(struct finding *finding)
{
    struct nixl_team *team = finding->team;
    const struct nxr_team_wait wait = {team, finding->team_rank};
    int64_t since_ns = nxr_now_ns();
    int status = nxr_wait_as(is_found, finding, nxr_team_left(team), nxr_team_describe, &wait);

    nxr_team_waited(team, since_ns, nxr_now_ns());
    if (finding->status != NIXL_OK) {
        return finding->status;
    }
    return status == NIXL_OK ? status : fail_member(team, status, finding->team_rank);
}

int nxr_team_await_segment(struct nixl_team *team, struct nixl_region *region, int team_rank)
{
    struct finding finding = {.team = team, .team_rank = team_rank, .status = NIXL_OK};

    return finding_ask(&finding, region) == NIXL_OK ? finding_wait(&finding) : NIXL_OK;
}

int nxr_team_find_segment(struct nixl_team *team, struct nixl_region *region, int team_rank)
{
    struct finding finding = {.team = team, .team_rank = team_rank, .status = NIXL_OK};
    int status;

    if (__builtin_expect(nxr_region_segment(region, team->ranks[team_rank]) != NULL, 1)) {
        return NIXL_OK;
    }
    status = finding_ask(&finding, region);
    if (status == NIXL_OK) {
        status = finding_wait(&finding);
        if (status != NIXL_OK) {
            return status;
        }
        if (atomic_load(&finding.segment->state) != NXR_SEGMENT_READY) {
            status = nxr_region_fail_segment(team->operation, finding.segment);
        }
    }
    return status == NIXL_OK ? status : fail_member(team, status, team_rank);
}

/* ---- breaking -------------------------------------------------------------------------------- */

static bool mailbox_is_answered(void *arg)
{
    struct nxr_region_segment *segment = arg;

    return atomic_load_explicit(&segment->state, memory_order_acquire) != NXR_SEGMENT_ASKING;
}

/* The mailbox of a member, requested if necessary; NULL: no memory. */
static struct nxr_region_segment *mailbox_ask_for(const struct nxr_mailbox *post, int rank)
{
    struct nxr_region_segment *segment = NULL;

    pthread_mutex_lock(&nxr_job.lock);
    if (nxr_region_want_segment(post->region, rank, false, &segment) != NIXL_OK) {
        segment = NULL;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return segment;
}

static void tell_broken(const struct nixl_team *team, const struct nxr_mailbox *post, int rank,
                        int64_t until_ns)
{
    struct nxr_region_segment *segment = mailbox_ask_for(post, rank);
    int64_t left_ns = until_ns - nxr_now_ns();
    int status = NIXL_E_NO_MEMORY;

    if (segment != NULL) {
        status = nxr_wait(mailbox_is_answered, segment, left_ns > 0 ? left_ns : 1);
    }
    if (status == NIXL_OK) {
        int cause = atomic_load(&team->broken);
        int lost =
            cause == NIXL_E_PEER_LOST ? nxr_team_rank_of(team, atomic_load(&team->lost_rank)) : -1;

        nxr_fail_quiet_begin();
        status = nxr_internal_set(team->operation, rank, post->region,
                                  nxr_mailbox_word_offset(team->size),
                                  nxr_mailbox_broken_word(cause < 0 ? cause : NIXL_E_CANCELED, lost,
                                                          atomic_load(&team->lost_leaves)));
        nxr_fail_quiet_end();
    }
    if (status != NIXL_OK) {
        nxr_debug(COLL, "cannot notify %s that its team is broken: %s", nxr_rank_name(rank),
                  nixl_strerror(status));
    }
}

/* Is this member notified by the post, and not through shared memory? */
static bool hears_by_post(const struct nixl_team *team, int team_rank)
{
    return team->node_of[team_rank] != team->my_node ||
           (team_rank != team->me && team->node.head == NULL);
}

void nxr_mailbox_break(const struct nixl_team *team, const struct nxr_mailbox *post)
{
    int64_t until_ns =
        nxr_now_ns() + (atomic_load(&team->broken) == NIXL_E_PEER_LOST ? TELL_LOSS_NS : TELL_NS);

    if (post->region == NULL) {
        return;
    }
    for (int i = 0; i < team->size; i++) {
        if (hears_by_post(team, i)) {
            (void)mailbox_ask_for(post, team->ranks[i]); /* all at once */
        }
    }
    for (int i = 0; i < team->size; i++) {
        if (hears_by_post(team, i)) {
            tell_broken(team, post, team->ranks[i], until_ns);
        }
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* A message in progress: what is left of it. */
struct stream {
    int team_rank;
    uint32_t n_left; /* pieces */
    size_t at;       /* bytes that were moved */
    size_t nbytes;
};

struct swapping {
    struct nixl_team *team;
    struct nxr_mailbox *post;
    const struct nxr_mailbox_swap *swap;
    size_t piece_nbytes; /* of all pieces but the last */
    struct stream out;
    struct stream in;

    /* Places in dst, by slot: those of the next n_posted pieces that come in. */
    struct nxr_net_posted posted[NXR_MAILBOX_SLOTS];
    uint32_t n_posted;
    bool posts;
    int status;
};

static struct stream mailbox_stream_of(int team_rank, size_t nbytes, size_t piece_nbytes)
{
    size_t n_pieces = nbytes == 0 ? 1 : (nbytes + piece_nbytes - 1) / piece_nbytes;

    return (struct stream){
        .team_rank = team_rank, .nbytes = nbytes, .n_left = team_rank < 0 ? 0 : (uint32_t)n_pieces};
}

static size_t mailbox_next_piece(const struct swapping *swapping, const struct stream *stream)
{
    size_t left = stream->nbytes - stream->at;

    return left < swapping->piece_nbytes ? left : swapping->piece_nbytes;
}

static bool can_send(const struct swapping *swapping)
{
    const struct nxr_mailbox *post = swapping->post;
    int team_rank = swapping->out.team_rank;

    return swapping->out.n_left > 0 &&
           post->paths[team_rank].sent - (uint32_t)nxr_mailbox_read_word(post, team_rank) <
               post->n_slots;
}

static bool can_receive(const struct swapping *swapping)
{
    const struct nxr_mailbox *post = swapping->post;
    int team_rank = swapping->in.team_rank;

    return swapping->in.n_left > 0 &&
           (uint32_t)(nxr_mailbox_read_word(post, team_rank) >> 32) != post->paths[team_rank].taken;
}

/* The word for a member: how much was sent to it and taken from it. */
static uint64_t news_for(struct nxr_mailbox_path *path)
{
    path->told = path->taken;
    return (uint64_t)path->sent << 32 | path->taken;
}

static int mailbox_tell(const struct nixl_team *team, const struct nxr_mailbox *post, int team_rank)
{
    return nxr_internal_set(team->operation, team->ranks[team_rank], post->region,
                            nxr_mailbox_word_offset(team->me), news_for(&post->paths[team_rank]));
}

/* Report as above, if possible: a member that has left the team may miss it. */
static void try_to_tell(const struct nixl_team *team, const struct nxr_mailbox *post, int team_rank)
{
    uint32_t told = post->paths[team_rank].told;

    nxr_fail_quiet_begin();
    if (mailbox_tell(team, post, team_rank) != NIXL_OK) {
        post->paths[team_rank].told = told; /* it is still to be told */
    }
    nxr_fail_quiet_end();
}

/*
 * The same with a piece; a small piece and the word go in one message. If the call ends before the
 * piece has left, a copy of it goes on: it lands in a mailbox that no member reads any more.
 */
static int put_piece(const struct swapping *swapping, uint64_t offset, const void *src,
                     size_t nbytes)
{
    struct nixl_team *team = swapping->team;
    struct nixl_region *region = swapping->post->region;
    int team_rank = swapping->out.team_rank;
    const struct nxr_put_signal what = {
        .offset = offset,
        .src = src,
        .nbytes = nbytes,
        .atomic = {.op = NIXL_ATOMIC_SET,
                   .type = NIXL_TYPE_UINT64,
                   .offset = nxr_mailbox_word_offset(team->me),
                   .operand = news_for(&swapping->post->paths[team_rank])},
        .until_ns = nxr_team_deadline(team)};

    return nxr_internal_put_set(team->operation, team->ranks[team_rank], region, &what);
}

static int mailbox_send_piece(struct swapping *swapping)
{
    const struct nixl_team *team = swapping->team;
    struct nxr_mailbox *post = swapping->post;
    struct stream *out = &swapping->out;
    struct nxr_mailbox_path *path = &post->paths[out->team_rank];
    size_t nbytes = mailbox_next_piece(swapping, out);
    uint64_t offset = slot_offset(team, post, team->me, path->sent++);
    const char *src = (const char *)swapping->swap->src + out->at;

    out->at += nbytes;
    out->n_left--;
    return nbytes > 0 ? put_piece(swapping, offset, src, nbytes)
                      : mailbox_tell(team, post, out->team_rank);
}

/*
 * Must a member be notified of what was taken? If not, the next piece to it carries that. Within a
 * message, half of the slots keep the sender busy. Behind a message it is told only when it knows
 * of a single free slot, because a piece of the next call often tells it first.
 */
static bool owes_news(const struct swapping *swapping)
{
    const struct nxr_mailbox *post = swapping->post;
    const struct nxr_mailbox_path *path = &post->paths[swapping->in.team_rank];
    uint32_t n_most = swapping->in.n_left > 0 ? (post->n_slots + 1) / 2 : post->n_slots - 1;

    return path->taken - path->told >= (n_most > 0 ? n_most : 1);
}

/*
 * Is the mailbox of the other member known? This does not wait: a member that has left the team
 * does not answer, and does not need the report.
 */
static bool can_tell(const struct swapping *swapping)
{
    int team_rank = swapping->in.team_rank;

    return team_rank >= 0 && owes_news(swapping) &&
           nxr_region_segment(swapping->post->region, swapping->team->ranks[team_rank]) != NULL;
}

static void tell_taken(const struct swapping *swapping)
{
    if (can_tell(swapping)) {
        try_to_tell(swapping->team, swapping->post, swapping->in.team_rank);
    }
}

/* ---- places of pieces that come in ----------------------------------------------------------- */

/* The k-th piece that is taken from now on. */
static struct nxr_net_posted *mailbox_posted(struct swapping *swapping, uint32_t k)
{
    const struct nxr_mailbox *post = swapping->post;

    return &swapping->posted[(post->paths[swapping->in.team_rank].taken + k) % post->n_slots];
}

static void mailbox_post_piece(struct swapping *swapping, uint32_t k, size_t at, size_t nbytes)
{
    const struct nxr_mailbox *post = swapping->post;
    const struct nxr_key *key = &post->region->published->key;
    int team_rank = swapping->in.team_rank;
    struct nxr_net_posted *posted = mailbox_posted(swapping, k);

    *posted = (struct nxr_net_posted){
        .generation = key->generation,
        .id = key->id,
        .offset = slot_offset(swapping->team, post, team_rank, post->paths[team_rank].taken + k),
        .nbytes = nbytes,
        .buffer = (char *)swapping->swap->dst + at,
    };
    nxr_net_post(posted);
}

/* Does the message go to host memory as it comes? */
static bool mailbox_may_post(const struct swapping *swapping)
{
    const struct nxr_mailbox_swap *swap = swapping->swap;

    return swap->combine == NULL && swapping->in.n_left > 0 &&
           mailbox_next_piece(swapping, &swapping->in) >= POSTED_NBYTES &&
           (swapping->team->is_plain || !nxr_range_has_device(swap->dst, swap->dst));
}

/* Post the places of the next pieces, as many as there are slots. */
static void mailbox_post_pieces(struct swapping *swapping)
{
    const struct stream *in = &swapping->in;
    uint32_t n_slots = swapping->post->n_slots;
    uint32_t n = in->n_left < n_slots ? in->n_left : n_slots;

    while (swapping->n_posted < n) {
        size_t at = in->at + swapping->n_posted * swapping->piece_nbytes, left = in->nbytes - at;

        mailbox_post_piece(swapping, swapping->n_posted++, at,
                           left < swapping->piece_nbytes ? left : swapping->piece_nbytes);
    }
}

/* Is the next piece already where it goes? Its place is not posted any more. */
static bool mailbox_unpost_piece(struct swapping *swapping)
{
    if (swapping->n_posted == 0) {
        return false;
    }
    swapping->n_posted--;
    return nxr_net_unpost(mailbox_posted(swapping, 0));
}

/* The call ends: nothing writes into the caller's buffer any more. */
static void mailbox_unpost_rest(struct swapping *swapping)
{
    while (swapping->n_posted > 0) {
        (void)nxr_net_unpost(mailbox_posted(swapping, --swapping->n_posted));
    }
}

/* ---- taking pieces --------------------------------------------------------------------------- */

static int mailbox_take_piece(struct swapping *swapping)
{
    struct nixl_team *team = swapping->team;
    const struct nxr_mailbox_swap *swap = swapping->swap;
    struct nxr_mailbox *post = swapping->post;
    struct stream *in = &swapping->in;
    struct nxr_mailbox_path *path = &post->paths[in->team_rank];
    const char *came = nixl_region_addr(post->region);
    size_t nbytes = mailbox_next_piece(swapping, in);
    char *dst = (char *)swap->dst + in->at;
    bool has_landed = mailbox_unpost_piece(swapping);
    int status = NIXL_OK;

    came += slot_offset(team, post, in->team_rank, path->taken);
    if (nbytes > 0 && swap->combine == NULL) {
        status = has_landed ? NIXL_OK : nxr_team_copy(team, dst, came, nbytes);
    } else if (nbytes > 0) {
        const char *mine = swap->operand != NULL ? (const char *)swap->operand + in->at : dst;

        nxr_combine_two(swap->combine, dst, swap->is_right ? mine : came,
                        swap->is_right ? came : mine, nbytes);
    }
    path->taken++;
    in->at += nbytes;
    in->n_left--;
    if (owes_news(swapping) && !can_tell(swapping)) {
        (void)mailbox_ask_for(post, team->ranks[in->team_rank]);
    }
    return status;
}

/* ---- whole messages -------------------------------------------------------------------------- */

/* The member that can end a wait. */
static int swapping_awaits(const struct swapping *swapping)
{
    return swapping->in.n_left > 0 ? swapping->in.team_rank : swapping->out.team_rank;
}

static bool can_go_on(void *arg)
{
    struct swapping *swapping = arg;

    if (can_receive(swapping) || can_send(swapping)) {
        return true;
    }
    swapping->status = nxr_team_look(swapping->team, swapping_awaits(swapping));
    return swapping->status != NIXL_OK || can_tell(swapping);
}

static int mailbox_move_pieces(struct swapping *swapping)
{
    struct nixl_team *team = swapping->team;
    int status = NIXL_OK;

    while (status == NIXL_OK && (swapping->in.n_left > 0 || swapping->out.n_left > 0)) {
        if (swapping->posts) {
            mailbox_post_pieces(swapping);
        }
        if (can_send(swapping)) {
            status = mailbox_send_piece(swapping);
            if (status != NIXL_OK) {
                return fail_member(team, status, swapping->out.team_rank);
            }
        }
        tell_taken(swapping); /* what the piece has not told */
        while (status == NIXL_OK && can_receive(swapping)) {
            status = mailbox_take_piece(swapping);
            tell_taken(swapping);
        }
        if (status == NIXL_OK && !can_send(swapping) &&
            (swapping->in.n_left > 0 || swapping->out.n_left > 0)) {
            const struct nxr_team_wait wait = {team, swapping_awaits(swapping)};
            int64_t since_ns = nxr_now_ns();

            status =
                nxr_wait_as(can_go_on, swapping, nxr_team_left(team), nxr_team_describe, &wait);
            nxr_team_waited(team, since_ns, nxr_now_ns());
            status = status == NIXL_OK ? swapping->status : nxr_team_break(team, status, -1);
        }
    }
    return status;
}

int nxr_mailbox_swap(struct nixl_team *team, struct nxr_mailbox *post,
                     const struct nxr_mailbox_swap *swap)
{
    struct swapping swapping = {.team = team,
                                .post = post,
                                .swap = swap,
                                .piece_nbytes = post->slot_nbytes,
                                .status = NIXL_OK};
    size_t element_nbytes =
        swap->combine != NULL ? swap->combine->element_nbytes : swap->element_nbytes;
    int status = NIXL_OK;

    if (element_nbytes != 0) {
        swapping.piece_nbytes -= post->slot_nbytes % element_nbytes;
    }
    swapping.out = mailbox_stream_of(swap->to, swap->src_nbytes, swapping.piece_nbytes);
    swapping.in = mailbox_stream_of(swap->from, swap->dst_nbytes, swapping.piece_nbytes);
    swapping.posts = mailbox_may_post(&swapping);
    if (swap->to >= 0) {
        status = nxr_team_find_segment(team, post->region, swap->to);
    }
    if (status == NIXL_OK) {
        status =
            NXR_TRACED_STEP(NXR_TRACE_COLLECTIVE, "with a member",
                            team->ranks[swap->from >= 0 ? swap->from : swap->to],
                            swap->src_nbytes + swap->dst_nbytes, mailbox_move_pieces(&swapping));
        mailbox_unpost_rest(&swapping);
    }
    return status;
}

int nxr_mailbox_expect(struct nixl_team *team, struct nxr_mailbox *post, int from, size_t n_pieces)
{
    const struct nxr_mailbox_path *path = &post->paths[from];
    uint32_t n_untold = path->taken - path->told;
    int status = NIXL_OK;

    if (n_untold + n_pieces > post->n_slots) { /* it will wait, so it cannot have left */
        status = nxr_team_find_segment(team, post->region, from);
        if (status == NIXL_OK && n_untold > 0) {
            try_to_tell(team, post, from);
        }
    }
    return status;
}
