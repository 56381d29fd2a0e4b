/* SPDX-License-Identifier: Apache-2.0 */
/* Mailboxes: their layout, and moving messages piece by piece. Lock: none, see mailbox.h. */
#include "config.h"

#include "collective/device.h"
#include "collective/mailbox.h"
#include "collective/team.h"
#include "transfer/transfer.h"
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
#define TELL_NS (5 * NXR_S)

/* The traffic with another member. Numbers of pieces, which wrap around. */
struct nxr_mailbox_way {
    uint32_t sent;
    uint32_t taken;
    uint32_t told; /* how much of `taken` was reported to the other member */
};

static uint64_t slot_offset(const struct nixl_team *team, const struct nxr_mailbox *post, int place,
                            uint32_t piece)
{
    uint64_t slot = (uint64_t)place * post->n_slots + piece % post->n_slots;

    return nxr_mailbox_word_offset(team->size + 1) + slot * post->slot_nbytes;
}

int nxr_mailbox_open(struct nxr_mailbox *post, const char *name, int size, size_t slot_nbytes,
                     uint32_t n_slots)
{
    size_t nbytes = nxr_mailbox_word_offset(size + 1) + (size_t)size * n_slots * slot_nbytes;
    struct nxr_mailbox_way *ways = calloc((size_t)size, sizeof(*ways));
    int status = NIXL_ERR_NO_MEMORY;

    if (ways != NULL) {
        status = nxr_region_alloc_internal(name, nbytes, &post->region);
    }
    if (status != NIXL_OK) {
        free(ways);
        return status;
    }
    post->ways = ways;
    post->slot_nbytes = slot_nbytes;
    post->n_slots = n_slots;
    return NIXL_OK;
}

void nxr_mailbox_close(struct nxr_mailbox *post)
{
    if (post->region != NULL) {
        (void)nixl_region_close(post->region, NXR_S);
        free(post->ways);
        *post = (struct nxr_mailbox){.region = NULL};
    }
}

/* ---- regions of other members ---------------------------------------------------------------- */

struct finding {
    struct nixl_team *team;
    int place;
    struct nxr_region_part *part;
    int status;
};

static bool is_found(void *arg)
{
    struct finding *finding = arg;

    if (atomic_load_explicit(&finding->part->state, memory_order_acquire) != NXR_PART_ASKING) {
        return true;
    }
    finding->status = nxr_team_look(finding->team, finding->place);
    return finding->status != NIXL_OK;
}

/* A member cannot be reached: it is lost, or has freed its team. */
static int fail_member(struct nixl_team *team, int status, int place)
{
    if (status == NIXL_ERR_STALE) {
        atomic_store(&team->cause, status);
    }
    return nxr_team_break(team, status == NIXL_ERR_STALE ? NIXL_ERR_CANCELED : status,
                          team->ranks[place]);
}

int nxr_team_find_part(struct nixl_team *team, struct nixl_region *region, int place)
{
    struct finding finding = {.team = team, .place = place, .status = NIXL_OK};
    int rank = team->ranks[place], status;

    if (__builtin_expect(nxr_region_part(region, rank) != NULL, 1)) {
        return NIXL_OK;
    }
    pthread_mutex_lock(&nxr_job.lock);
    status = nxr_region_want_part(region, rank, false, &finding.part);
    pthread_mutex_unlock(&nxr_job.lock);
    if (status == NIXL_OK) {
        status = nxr_wait(is_found, &finding, nxr_team_left(team));
    }
    if (finding.status != NIXL_OK) {
        return finding.status;
    }
    if (status == NIXL_OK && atomic_load(&finding.part->state) != NXR_PART_READY) {
        status = nxr_region_fail_part(team->operation, finding.part);
    }
    return status == NIXL_OK ? status : fail_member(team, status, place);
}

/* ---- breaking -------------------------------------------------------------------------------- */

static bool mailbox_is_answered(void *arg)
{
    struct nxr_region_part *part = arg;

    return atomic_load_explicit(&part->state, memory_order_acquire) != NXR_PART_ASKING;
}

/* The mailbox of a member, requested if necessary; NULL: no memory. */
static struct nxr_region_part *mailbox_ask_for(const struct nxr_mailbox *post, int rank)
{
    struct nxr_region_part *part = NULL;

    pthread_mutex_lock(&nxr_job.lock);
    if (nxr_region_want_part(post->region, rank, false, &part) != NIXL_OK) {
        part = NULL;
    }
    pthread_mutex_unlock(&nxr_job.lock);
    return part;
}

static void tell_broken(const struct nixl_team *team, const struct nxr_mailbox *post, int rank,
                        int64_t until_ns)
{
    struct nxr_region_part *part = mailbox_ask_for(post, rank);
    int64_t left_ns = until_ns - nxr_now_ns();
    int status = NIXL_ERR_NO_MEMORY;

    if (part != NULL) {
        status = nxr_wait(mailbox_is_answered, part, left_ns > 0 ? left_ns : 1);
    }
    if (status == NIXL_OK) {
        int cause = atomic_load(&team->broken);

        nxr_fail_quiet_begin();
        status = nixl_signal_set(rank, post->region, nxr_mailbox_word_offset(team->size),
                                 (uint64_t) - (cause < 0 ? cause : NIXL_ERR_CANCELED));
        nxr_fail_quiet_end();
    }
    if (status != NIXL_OK) {
        nxr_debug(COLL, "rank %d does not hear that its team is broken: %s", rank,
                  nixl_strerror(status));
    }
}

/* Is this member notified by the post, and not through shared memory? */
static bool hears_by_post(const struct nixl_team *team, int place)
{
    return team->node_of[place] != team->my_node || (place != team->me && team->node.head == NULL);
}

void nxr_mailbox_break(const struct nixl_team *team, const struct nxr_mailbox *post)
{
    int64_t until_ns = nxr_now_ns() + TELL_NS;

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
    int place;
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
    int status;
};

static struct stream mailbox_stream_of(int place, size_t nbytes, size_t piece_nbytes)
{
    size_t n_pieces = nbytes == 0 ? 1 : (nbytes + piece_nbytes - 1) / piece_nbytes;

    return (struct stream){
        .place = place, .nbytes = nbytes, .n_left = place < 0 ? 0 : (uint32_t)n_pieces};
}

static size_t mailbox_next_piece(const struct swapping *swapping, const struct stream *stream)
{
    size_t left = stream->nbytes - stream->at;

    return left < swapping->piece_nbytes ? left : swapping->piece_nbytes;
}

static bool can_send(const struct swapping *swapping)
{
    const struct nxr_mailbox *post = swapping->post;
    int place = swapping->out.place;

    return swapping->out.n_left > 0 &&
           post->ways[place].sent - (uint32_t)nxr_mailbox_read_word(post, place) < post->n_slots;
}

static bool can_receive(const struct swapping *swapping)
{
    const struct nxr_mailbox *post = swapping->post;
    int place = swapping->in.place;

    return swapping->in.n_left > 0 &&
           (uint32_t)(nxr_mailbox_read_word(post, place) >> 32) != post->ways[place].taken;
}

/* The word for a member: how much was sent to it and taken from it. */
static uint64_t news_for(struct nxr_mailbox_way *way)
{
    way->told = way->taken;
    return (uint64_t)way->sent << 32 | way->taken;
}

static int mailbox_tell(const struct nixl_team *team, const struct nxr_mailbox *post, int place)
{
    return nixl_signal_set(team->ranks[place], post->region, nxr_mailbox_word_offset(team->me),
                           news_for(&post->ways[place]));
}

/* Report as above, if possible: a member that has left the team may miss it. */
static void try_to_tell(const struct nixl_team *team, const struct nxr_mailbox *post, int place)
{
    nxr_fail_quiet_begin();
    (void)mailbox_tell(team, post, place);
    nxr_fail_quiet_end();
}

/* The same with a piece; a small piece and the word go in one message. */
static int put_piece(const struct swapping *swapping, uint64_t offset, const void *src,
                     size_t nbytes)
{
    const struct nixl_team *team = swapping->team;
    struct nixl_region *region = swapping->post->region;
    int place = swapping->out.place;
    const struct nxr_put_signal what = {
        .offset = offset,
        .src = src,
        .nbytes = nbytes,
        .atomic = {.op = NIXL_ATOMIC_SET,
                   .type = NIXL_UINT64,
                   .offset = nxr_mailbox_word_offset(team->me),
                   .operand = news_for(&swapping->post->ways[place])}};

    return nxr_transfer_put_signal(team->operation, team->ranks[place], region, region, &what);
}

static int mailbox_send_piece(struct swapping *swapping)
{
    const struct nixl_team *team = swapping->team;
    struct nxr_mailbox *post = swapping->post;
    struct stream *out = &swapping->out;
    struct nxr_mailbox_way *way = &post->ways[out->place];
    size_t nbytes = mailbox_next_piece(swapping, out);
    uint64_t offset = slot_offset(team, post, team->me, way->sent++);
    const char *src = (const char *)swapping->swap->src + out->at;

    out->at += nbytes;
    out->n_left--;
    return nbytes > 0 ? put_piece(swapping, offset, src, nbytes)
                      : mailbox_tell(team, post, out->place);
}

/* Must a member be told what was taken? If not, the next piece that goes there says it. */
static bool owes_news(const struct swapping *swapping)
{
    const struct nxr_mailbox *post = swapping->post;
    const struct nxr_mailbox_way *way = &post->ways[swapping->in.place];

    return way->taken - way->told >= (post->n_slots + 1) / 2;
}

/*
 * Is the mailbox of the other member known? This does not wait: a member that has left the team
 * does not answer, and does not need the report.
 */
static bool can_tell(const struct swapping *swapping)
{
    int place = swapping->in.place;

    return place >= 0 && owes_news(swapping) &&
           nxr_region_part(swapping->post->region, swapping->team->ranks[place]) != NULL;
}

static void tell_taken(const struct swapping *swapping)
{
    if (can_tell(swapping)) {
        try_to_tell(swapping->team, swapping->post, swapping->in.place);
    }
}

static int mailbox_take_piece(struct swapping *swapping)
{
    struct nixl_team *team = swapping->team;
    const struct nxr_mailbox_swap *swap = swapping->swap;
    struct nxr_mailbox *post = swapping->post;
    struct stream *in = &swapping->in;
    struct nxr_mailbox_way *way = &post->ways[in->place];
    const char *came = nixl_region_addr(post->region);
    size_t nbytes = mailbox_next_piece(swapping, in);
    char *dst = (char *)swap->dst + in->at;
    int status = NIXL_OK;

    came += slot_offset(team, post, in->place, way->taken);
    if (nbytes > 0 && swap->combine == NULL) {
        status = nxr_team_copy(team, dst, came, nbytes);
    } else if (nbytes > 0) {
        const char *mine = swap->operand != NULL ? (const char *)swap->operand + in->at : dst;

        nxr_combine_two(swap->combine, dst, swap->is_right ? mine : came,
                        swap->is_right ? came : mine, nbytes);
    }
    way->taken++;
    in->at += nbytes;
    in->n_left--;
    if (owes_news(swapping) && !can_tell(swapping)) {
        (void)mailbox_ask_for(post, team->ranks[in->place]);
    }
    return status;
}

/* ---- whole messages -------------------------------------------------------------------------- */

static bool can_go_on(void *arg)
{
    struct swapping *swapping = arg;

    if (can_receive(swapping) || can_send(swapping) || can_tell(swapping)) {
        return true;
    }
    swapping->status = nxr_team_look(swapping->team, swapping->in.n_left > 0 ? swapping->in.place
                                                                             : swapping->out.place);
    return swapping->status != NIXL_OK;
}

static int mailbox_move_pieces(struct swapping *swapping)
{
    struct nixl_team *team = swapping->team;
    int status = NIXL_OK;

    while (status == NIXL_OK && (swapping->in.n_left > 0 || swapping->out.n_left > 0)) {
        tell_taken(swapping);
        if (can_send(swapping)) {
            status = mailbox_send_piece(swapping);
            if (status != NIXL_OK) {
                return fail_member(team, status, swapping->out.place);
            }
        }
        while (status == NIXL_OK && can_receive(swapping)) {
            status = mailbox_take_piece(swapping);
            tell_taken(swapping);
        }
        if (status == NIXL_OK && !can_send(swapping) &&
            (swapping->in.n_left > 0 || swapping->out.n_left > 0)) {
            status = nxr_wait(can_go_on, swapping, nxr_team_left(team));
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
    if (swap->to >= 0) {
        status = nxr_team_find_part(team, post->region, swap->to);
    }
    return status == NIXL_OK ? mailbox_move_pieces(&swapping) : status;
}

int nxr_mailbox_expect(struct nixl_team *team, struct nxr_mailbox *post, int from, size_t n_pieces)
{
    const struct nxr_mailbox_way *way = &post->ways[from];
    uint32_t n_untold = way->taken - way->told;
    int status = NIXL_OK;

    if (n_untold + n_pieces > post->n_slots) { /* it will wait, so it cannot have left */
        status = nxr_team_find_part(team, post->region, from);
        if (status == NIXL_OK && n_untold > 0) {
            try_to_tell(team, post, from);
        }
    }
    return status;
}
