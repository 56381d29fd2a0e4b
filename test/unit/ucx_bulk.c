/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk over UCX as it comes in: each piece goes to the bulk that it is of, also where another one
 * found no memory. And as it goes out: from where it lies now. UCX and the core are played here.
 * Linked with --wrap=malloc.
 */
#include "test/unit/ucx_case.h"

#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t nbytes);
void *__wrap_malloc(size_t nbytes);

static uint64_t from; /* the process that sends */
static ucp_am_recv_callback_t handlers[NXR_UCX_PIECE + 1];
static bool has_no_memory;

/* What UCX takes, and what it took of the pieces. */
static unsigned room;
static char sent[3 * NXR_UCX_PIECE_NBYTES];
static size_t n_sent;
static unsigned n_ended;

/* ---- memory ---------------------------------------------------------------------------------- */

void *__wrap_malloc(size_t nbytes)
{
    return has_no_memory ? NULL : __real_malloc(nbytes);
}

/* ---- UCX, and the rest of the module --------------------------------------------------------- */

ucs_status_t nxr_ucx_set_handler(unsigned id, ucp_am_recv_callback_t handler)
{
    handlers[id] = handler;
    return UCS_OK;
}

void ucp_request_free(void *request)
{
    (void)request;
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_nbytes,
                                 const void *bytes, size_t nbytes, const ucp_request_param_t *param)
{
    (void)ep;
    (void)header;
    (void)header_nbytes;
    (void)param;
    if (room == 0) {
        return UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
    }
    room--;
    if (id == NXR_UCX_PIECE) {
        cr_assert(le(sz, n_sent + nbytes, sizeof(sent)));
        memcpy(sent + n_sent, bytes, nbytes);
        n_sent += nbytes;
    }
    return NULL;
}

void nxr_ucx_end(struct nxr_net_op *op, int status)
{
    (void)op;
    cr_expect(eq(int, status, NIXL_OK));
    n_ended++;
}

void nxr_ucx_keep(struct nxr_net_ep *ep, struct nxr_net_op *op)
{
    (void)ep;
    (void)op;
}

/* ---- the core -------------------------------------------------------------------------------- */

static void core_landing(void *cookie, size_t nbytes)
{
    (void)cookie;
    (void)nbytes;
}

static const struct nxr_net_core core = {
    .size = 1, .incoming = ucx_core_incoming, .landing = core_landing, .landed = ucx_core_landed};

static void begin(void)
{
    nxr_ucx.core = &core;
    from = 7;
    nxr_ucx_senders_init();
    nxr_list_init(&nxr_ucx.cut);
    nxr_list_init(&nxr_ucx.heads);
    nxr_list_init(&nxr_ucx.bulk_eps);
    cr_assert(eq(int, nxr_ucx_bulks_start(), UCS_OK));
}

static void end(void)
{
    nxr_ucx_senders_free();
    nxr_ucx_bulks_free();
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* The header of bulk. */
static void head(void)
{
    static const ucp_am_recv_param_t param;
    const struct {
        uint64_t sender, nbytes;
    } head = {from, UCX_BULK_NBYTES};
    char of_core[] = "the core's";

    handlers[NXR_UCX_BULK_HEAD](NULL, &head, sizeof(head), of_core, sizeof(of_core), &param);
}

/* All bytes of bulk, in three pieces. */
static void pieces(char content)
{
    static const ucp_am_recv_param_t param;
    char bytes[UCX_BULK_NBYTES / 3];

    memset(bytes, content, sizeof(bytes));
    for (int i = 0; i < 3; i++) {
        handlers[NXR_UCX_PIECE](NULL, &from, sizeof(from), bytes, sizeof(bytes), &param);
    }
}

static void head_without_memory(void)
{
    has_no_memory = true;
    head();
    has_no_memory = false;
}

static void expect_landed(unsigned i, char content)
{
    char bytes[UCX_BULK_NBYTES];

    memset(bytes, content, sizeof(bytes));
    cr_expect(eq(int, ucx_landings[i].status, NIXL_OK));
    cr_expect(zero(int, memcmp(ucx_landings[i].bytes, bytes, sizeof(bytes))));
}

Test(ucx_bulk, pieces_go_to_the_oldest, .init = begin, .fini = end)
{
    head();
    head();
    pieces('a');
    cr_expect(eq(int, ucx_landings[1].status, NIXL_INPROGRESS));
    pieces('b');
    expect_landed(0, 'a');
    expect_landed(1, 'b');
}

Test(ucx_bulk, refused_bulk_without_memory_is_skipped, .init = begin, .fini = end)
{
    ucx_core_refuses = true;
    head_without_memory();
    ucx_core_refuses = false;
    head();
    pieces('x');
    cr_expect(eq(int, ucx_landings[0].status, NIXL_INPROGRESS));
    pieces('a');
    expect_landed(0, 'a');
}

Test(ucx_bulk, bulk_without_memory_fails_alone, .init = begin, .fini = end)
{
    head_without_memory();
    cr_expect(eq(int, ucx_landings[0].status, NIXL_E_NO_MEMORY));
    head();
    pieces('x');
    pieces('a');
    expect_landed(1, 'a');
}

Test(ucx_bulk, what_is_skipped_has_its_turn, .init = begin, .fini = end)
{
    head();
    ucx_core_refuses = true;
    head_without_memory();
    head_without_memory();
    head(); /* this one is remembered, and dropped */
    ucx_core_refuses = false;
    head();
    pieces('a');
    expect_landed(0, 'a');
    for (int i = 0; i < 3; i++) {
        pieces('x');
    }
    cr_expect(eq(int, ucx_landings[1].status, NIXL_INPROGRESS));
    pieces('b');
    expect_landed(1, 'b');
}

Test(ucx_bulk, processes_are_told_apart, .init = begin, .fini = end)
{
    head();
    from += NXR_UCX_N_BUCKETS; /* in the same bucket */
    head();
    pieces('b');
    expect_landed(1, 'b');
    cr_expect(eq(int, ucx_landings[0].status, NIXL_INPROGRESS));
    from -= NXR_UCX_N_BUCKETS;
    pieces('a');
    expect_landed(0, 'a');
}

Test(ucx_bulk, a_process_without_an_endpoint_gives_way_but_not_its_bulk, .init = begin, .fini = end)
{
    head();
    from = 8;
    cr_expect(nxr_ucx_sender_of(&from, sizeof(from)) != NULL);
    for (from = 100; from < 100 + 4 * NXR_UCX_MAX_STRANGERS; from++) {
        cr_assert(nxr_ucx_sender_of(&from, sizeof(from)) != NULL);
    }
    cr_expect(nxr_ucx.n_strangers <= NXR_UCX_MAX_STRANGERS + 1);
    from = 7;
    pieces('a');
    expect_landed(0, 'a');
}

Test(ucx_bulk, a_process_is_kept_for_its_endpoints, .init = begin, .fini = end)
{
    struct nxr_ucx_sender *first = nxr_ucx_sender_hold(from);

    cr_assert(first != NULL && first == nxr_ucx_sender_hold(from));
    first->was_heard = true;
    cr_expect(eq(uint, nxr_ucx.n_strangers, 0));
    nxr_ucx_sender_let_go(first);
    cr_expect(eq(uint, nxr_ucx.n_strangers, 0));
    nxr_ucx_sender_let_go(first);
    cr_expect(eq(uint, nxr_ucx.n_strangers, 1));
    cr_expect(eq(ptr, nxr_ucx_sender_of(&from, sizeof(from)), first), "it may be heard still");
    cr_expect(nxr_ucx_sender_of(&from, 4) == NULL, "another header");
    head();
    for (from = 100; from < 100 + 2 * NXR_UCX_MAX_STRANGERS; from++) {
        cr_assert(nxr_ucx_sender_of(&from, sizeof(from)) != NULL);
    }
    cr_expect(eq(int, ucx_landings[0].status, NIXL_E_TRANSPORT), "it has ended: it gives way");
}

/* ---- what goes ------------------------------------------------------------------------------- */

Test(ucx_bulk, goes_on_from_where_it_was_moved_to, .init = begin, .fini = end)
{
    static char bytes[sizeof(sent)], moved[sizeof(sent)];
    struct nxr_net_op op, other;
    struct nxr_net_ep ep = {.has_sent_hello = true};

    nxr_list_init(&ep.bulks);
    nxr_list_init(&ep.bulk_link);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = moved[i] = (char)(i / 1000);
    }
    room = 2; /* its head and the first piece */
    cr_assert(
        eq(int, nxr_ucx_bulk_send(&ep, "head", 4, bytes, sizeof(bytes), &op), NIXL_INPROGRESS));
    cr_expect(not(nxr_ucx_bulk_rebase(&ep, &other, moved)), "UCX has that one itself");
    cr_assert(nxr_ucx_bulk_rebase(&ep, &op, moved));
    memset(bytes, -1, sizeof(bytes));
    room = 2;
    cr_expect(eq(int, nxr_ucx_bulks_progress(), 2));
    cr_expect(eq(uint, n_ended, 1));
    cr_assert(eq(sz, n_sent, sizeof(sent)));
    cr_expect(zero(int, memcmp(sent, moved, sizeof(sent))));
}
