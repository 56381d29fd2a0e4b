/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the two ends of a libfabric rail agree to close it (transports/ofi/repair.c), without
 * libfabric: what a FENCE and its answer do, also late and repeated ones.
 */
#include "transports/ofi/outbox.h"
#include "transports/ofi/repair.h"
#include "transports/ofi/rma.h"

#include "test/unit/unit.h"

enum { RAIL_BITS = 8, N_RAILS = 2 };

struct nxr_ofi nxr_ofi;

static struct nxr_net_ep ep;
static struct {
    enum nxr_ofi_frame_type type;
    uint64_t argument;
    unsigned n;
} sent;
static unsigned n_reopened, n_pings;

/* ---- what repair.c calls --------------------------------------------------------------------- */

bool nxr_ofi_send_control(struct nxr_net_ep *to, unsigned path, enum nxr_ofi_frame_type type,
                          uint64_t argument)
{
    (void)to;
    (void)path;
    n_pings += type == NXR_OFI_PING;
    if (type == NXR_OFI_FENCE || type == NXR_OFI_FENCED) {
        sent.type = type;
        sent.argument = argument;
        sent.n++;
    }
    return true;
}

int nxr_ofi_rail_reopen(struct nxr_ofi_rail *rail)
{
    (void)rail;
    n_reopened++;
    return NIXL_OK;
}

void nxr_ofi_peers_each(void (*visit)(struct nxr_net_ep *ep, unsigned rail), unsigned rail)
{
    visit(&ep, rail);
}

void nxr_ofi_peer_fail(struct nxr_net_ep *failed, const char *why)
{
    (void)failed;
    (void)why;
    cr_assert(false, "the peer is there");
}

void nxr_ofi_peer_text(const struct nxr_net_ep *of, char *line, size_t line_nbytes)
{
    (void)of;
    (void)line_nbytes;
    line[0] = '\0';
}

void nxr_ofi_send_again(struct nxr_net_ep *to)
{
    (void)to;
}

void nxr_ofi_ep_finish_close(struct nxr_net_ep *of)
{
    (void)of;
}

bool nxr_ofi_post_pieces(struct nxr_net_ep *of)
{
    (void)of;
    return false;
}

void nxr_ofi_pieces_rail_closed(struct nxr_net_ep *of, unsigned rail)
{
    (void)of;
    (void)rail;
}

void nxr_ofi_outbox_rail_closed(struct nxr_net_ep *of, unsigned rail)
{
    (void)of;
    (void)rail;
}

void nxr_ofi_aside_rest(struct nxr_net_ep *of)
{
    (void)of;
}

bool nxr_ofi_liveness_probe(struct nxr_net_ep *of)
{
    (void)of;
    return false;
}

void nxr_ofi_liveness_end(struct nxr_net_ep *of)
{
    (void)of;
}

static void log_nothing(enum nxr_net_log level, const char *format, ...)
{
    (void)level;
    (void)format;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const struct nxr_net_core core = {.log = log_nothing};

/* Both paths of a peer are in use; own rail 0 leads to its rail 1, and the reverse. */
static void start(void)
{
    nxr_ofi = (struct nxr_ofi){.core = &core, .n_rails = N_RAILS, .now = nxr_now_ns()};
    nxr_list_init(&ep.waiting);
    for (unsigned i = 0; i < N_RAILS; i++) {
        nxr_ofi.rails[i].index = i;
        nxr_ofi.rails[i].is_software = true;
        nxr_ofi.rails[i].ep = (struct fid_ep *)(void *)&core; /* it is open */
        ep.paths[i] =
            (struct nxr_ofi_path){.theirs = 1 - (int)i, .is_proven = true, .was_proven = true};
        nxr_list_init(&ep.paths[i].pieces);
        nxr_list_init(&ep.paths[i].fenced);
    }
    ep.is_open = ep.is_reached = true;
    ep.next_seq = 1;
}

TestSuite(repair, .init = start, .timeout = 60);

static uint64_t fence(uint64_t number, unsigned rail)
{
    return number << RAIL_BITS | rail;
}

static void do_round(void)
{
    nxr_ofi.now += NXR_OFI_TICK_NS;
    nxr_ofi_repair();
    nxr_ofi_reset_rails();
    nxr_ofi.now += NXR_OFI_TICK_NS;
    nxr_ofi_repair();
}

Test(repair, only_a_path_that_is_not_proven_is_asked)
{
    ep.paths[0].moved_at = ep.paths[1].moved_at = nxr_ofi.now;
    nxr_ofi.repair_at = nxr_ofi.now;
    do_round();
    cr_expect_eq(n_pings, 0, "both are proven");
    ep.paths[1].is_proven = false;
    nxr_ofi.repair_at = nxr_ofi.now;
    do_round();
    cr_expect(n_pings > 0);
}

Test(repair, the_earliest_look_counts)
{
    int64_t now = nxr_now_ns();

    nxr_ofi_repair_within(NXR_S);
    nxr_ofi_repair_within(10 * NXR_S);
    cr_expect(nxr_ofi.repair_at >= now + NXR_S && nxr_ofi.repair_at < now + 10 * NXR_S);
    nxr_ofi_repair_within(0);
    cr_expect(nxr_ofi.repair_at >= now && nxr_ofi.repair_at < now + NXR_S);
}

Test(repair, pieces_wait_for_the_answer_to_the_last_fence)
{
    struct nxr_list piece;

    nxr_list_init(&piece);
    nxr_list_append(&ep.paths[0].fenced, &piece);
    ep.paths[0].must_fence = true;
    ep.paths[0].fence = 2;
    nxr_ofi_fenced(&ep, fence(1, 1));
    cr_expect(nxr_list_is_empty(&ep.waiting), "the answer to an older one");
    nxr_ofi_fenced(&ep, fence(3, 1));
    cr_expect(nxr_list_is_empty(&ep.waiting), "to one that was not asked");
    nxr_ofi_fenced(&ep, fence(2, 0));
    cr_expect(nxr_list_is_empty(&ep.waiting), "of another rail");
    cr_expect(ep.paths[0].must_fence);
    nxr_ofi_fenced(&ep, fence(2, 1));
    cr_expect(not(nxr_list_is_empty(&ep.waiting)));
    cr_expect(not(ep.paths[0].must_fence));
    nxr_ofi_fenced(&ep, fence(2, 1));
    cr_expect(nxr_list_is_empty(&ep.paths[0].fenced));
}

/* A rail is closed here while a write is under way there, which waits from then on. */
static void close_with_a_write(struct nxr_list *piece)
{
    nxr_list_append(&ep.paths[0].fenced, piece);
    nxr_ofi_fence(&ep.paths[0]);
    nxr_ofi.repair_at = nxr_ofi.now;
}

Test(repair, each_closing_has_a_fence_of_its_own)
{
    struct nxr_list pieces[3];
    uint64_t first, second;

    close_with_a_write(&pieces[0]);
    do_round();
    first = sent.argument;
    cr_expect_eq(first, fence(1, 1));
    close_with_a_write(&pieces[1]);
    nxr_ofi_fenced(&ep, first);
    cr_expect(nxr_list_is_empty(&ep.waiting), "its end was closed before the second write began");
    do_round();
    second = sent.argument;
    cr_expect_neq(second, first, "the peer closes its end once for each number");
    nxr_ofi_fenced(&ep, first);
    cr_expect(nxr_list_is_empty(&ep.waiting));
    nxr_ofi_fenced(&ep, second);
    cr_expect(not(nxr_list_is_empty(&ep.waiting)));
    cr_expect(nxr_list_is_empty(&ep.paths[0].fenced));
    close_with_a_write(&pieces[2]);
    do_round();
    cr_expect_eq(sent.argument, second + (1u << RAIL_BITS), "also after an answer");
}

Test(repair, a_rail_is_closed_once_for_each_fence)
{
    nxr_ofi_fence_asked(&ep, 1, fence(1, 0));
    do_round();
    cr_expect(eq(u32, n_reopened, 1));
    cr_expect(eq(u32, sent.n, 1));
    cr_expect(eq(u64, sent.argument, fence(1, 0)));
    nxr_ofi_fence_asked(&ep, 1, fence(1, 0)); /* the answer was lost */
    do_round();
    cr_expect(eq(u32, n_reopened, 1), "it was closed for that");
    cr_expect(eq(u32, sent.n, 2), "but is told again");
    cr_expect(eq(int, (int)sent.type, NXR_OFI_FENCED));
    nxr_ofi_fence_asked(&ep, 1, fence(2, 0));
    do_round();
    cr_expect(eq(u32, n_reopened, 2));
    cr_expect(eq(u64, sent.argument, fence(2, 0)));
}

Test(repair, a_fence_of_no_rail_or_no_number_does_nothing)
{
    nxr_ofi_fence_asked(&ep, 1, fence(1, N_RAILS));
    nxr_ofi_fence_asked(&ep, 1, fence(0, 0));
    do_round();
    cr_expect(eq(u32, n_reopened, 0));
    cr_expect(eq(u32, sent.n, 0));
}

/* A peer that asks by another path hears nothing on this one: nor would it the answer. */
Test(repair, a_path_is_left_where_the_fence_came_by_another)
{
    nxr_ofi_fence_asked(&ep, 0, fence(1, 0));
    cr_expect(ep.paths[0].is_proven, "it came here: the path works");
    nxr_ofi_fence_asked(&ep, 1, fence(2, 0));
    cr_expect(not(ep.paths[0].is_proven));
    cr_expect(ep.paths[1].is_proven);
}

/* The peer owes an answer on one path and has answered on the other since. */
static void expect_cut(unsigned silent)
{
    unsigned other = 1 - silent;
    int64_t asked_at = nxr_ofi.now;

    ep.n_rmas = 1;
    ep.message_path = other;
    ep.paths[silent].pinged_at = asked_at;
    nxr_ofi.now += NXR_S;
    nxr_ofi.repair_at = ep.paths[other].moved_at = nxr_ofi.now;
    nxr_ofi_repair();
    cr_expect(not(ep.paths[silent].is_proven), "rail %u is silent", silent);
    cr_expect(ep.paths[other].is_proven);
}

Test(repair, a_path_is_cut_where_the_peer_answers_on_the_first_one_only)
{
    expect_cut(1);
}

Test(repair, a_path_is_cut_where_the_peer_answers_on_the_last_one_only)
{
    expect_cut(0);
}

Test(repair, a_path_is_kept_where_the_peer_is_silent_everywhere)
{
    ep.n_rmas = 1;
    ep.paths[0].pinged_at = ep.paths[1].pinged_at = nxr_ofi.now;
    nxr_ofi.now += NXR_S;
    nxr_ofi.repair_at = nxr_ofi.now;
    nxr_ofi_repair();
    cr_expect(ep.paths[0].is_proven);
    cr_expect(ep.paths[1].is_proven);
}
