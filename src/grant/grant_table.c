/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of what this rank has lent, and lending. Locks: lent_lock (nxr_lent_lock) guards the
 * slots, the free pages and the requests; it is taken inside job.lock. table_making serializes the
 * creation of the table, and is taken outside both.
 */
#include "config.h"

#include "grant/grant.h"
#include "core/request.h"
#include "core/service.h"
#include "core/trace.h"
#include "util/clock.h"
#include "util/status.h"
#include "util/struct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_PAGE UINT32_MAX

static pthread_mutex_t table_making = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t nxr_lent_lock = PTHREAD_MUTEX_INITIALIZER;
struct nxr_list nxr_lent_list = {&nxr_lent_list, &nxr_lent_list};
static struct nxr_list lent_unused = {&lent_unused, &lent_unused}; /* the longest unused first */
static struct nxr_grant_table *lent_table; /* NULL: nothing has been lent yet */
static struct nxr_lent *lent_slots;        /* [NXR_GRANT_N_SLOTS] */

/* The page behind each, in a chain of a grant or of the free ones: users see a copy of it. */
static uint32_t lent_next_page[NXR_GRANT_N_PAGES];
static uint32_t free_page = NO_PAGE;
static uint32_t n_free_pages;

/* ---- the table ------------------------------------------------------------------------------- */

/* Caller holds the lock. */
static void adopt_table(struct nxr_lent *slots, struct nixl_region *region)
{
    for (uint32_t i = 0; i < NXR_GRANT_N_SLOTS; i++) {
        nxr_list_append(&lent_unused, &slots[i].link);
    }
    for (uint32_t i = 0; i < NXR_GRANT_N_PAGES; i++) {
        lent_next_page[i] = i + 1 < NXR_GRANT_N_PAGES ? i + 1 : NO_PAGE;
    }
    free_page = 0;
    n_free_pages = NXR_GRANT_N_PAGES;
    lent_slots = slots;
    lent_table = nixl_region_addr(region);
}

static int make_lent_table(const char *operation)
{
    struct nxr_lent *slots = calloc(NXR_GRANT_N_SLOTS, sizeof(*slots));
    struct nixl_region *region;
    int status;

    if (slots == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, -1, "", 0,
                        "no memory for the table of grants");
    }
    status = nxr_region_alloc_internal(NXR_GRANT_TABLE, sizeof(*lent_table), &region);
    if (status != NIXL_OK) {
        free(slots);
        return nxr_fail_inner(status, operation, -1);
    }
    pthread_mutex_lock(&nxr_lent_lock);
    adopt_table(slots, region);
    pthread_mutex_unlock(&nxr_lent_lock);
    return NIXL_OK;
}

static int need_lent_table(const char *operation)
{
    int status = NIXL_OK;

    pthread_mutex_lock(&table_making);
    if (lent_table == NULL) {
        status = make_lent_table(operation);
    }
    pthread_mutex_unlock(&table_making);
    return status;
}

struct nxr_grant_record *nxr_lent_record(const struct nxr_lent *lent)
{
    return &lent_table->records[lent - lent_slots];
}

struct nxr_lent *nxr_lent_at(uint32_t slot)
{
    return lent_slots != NULL && slot < NXR_GRANT_N_SLOTS ? &lent_slots[slot] : NULL;
}

void nxr_lent_drop(void)
{
    pthread_mutex_lock(&nxr_lent_lock);
    free(lent_slots);
    lent_slots = NULL;
    lent_table = NULL; /* the region is closed with all others */
    nxr_list_init(&nxr_lent_list);
    nxr_list_init(&lent_unused);
    pthread_mutex_unlock(&nxr_lent_lock);
}

/* ---- pages: all under the lock --------------------------------------------------------------- */

static uint32_t pages_of(uint32_t n_pieces)
{
    return n_pieces <= NXR_GRANT_N_OWN
               ? 0
               : (n_pieces + NXR_GRANT_PAGE_PIECES - 1) / NXR_GRANT_PAGE_PIECES;
}

/* Write the pieces where users read them, into pages that are there. */
static void write_pieces(struct nxr_lent *lent, struct nxr_grant_record *record,
                         const struct nxr_grant_pieces *pieces)
{
    uint32_t n_left = pieces->n, *link = &lent->first_page;

    lent->n_pages = pages_of(pieces->n);
    lent->first_page = NO_PAGE;
    if (lent->n_pages == 0) {
        memcpy(record->own, pieces->list, n_left * sizeof(*pieces->list));
    }
    for (uint32_t i = 0; i < lent->n_pages; i++) {
        uint32_t number = free_page;
        struct nxr_grant_page *page = &lent_table->pages[number];
        uint32_t n = n_left < NXR_GRANT_PAGE_PIECES ? n_left : NXR_GRANT_PAGE_PIECES;

        free_page = lent_next_page[number];
        lent_next_page[number] = NO_PAGE;
        *link = number;
        link = &lent_next_page[number];
        page->next = i + 1 < lent->n_pages ? free_page : NO_PAGE;
        memcpy(page->pieces, pieces->list + (pieces->n - n_left), n * sizeof(*pieces->list));
        n_left -= n;
    }
    n_free_pages -= lent->n_pages;
    record->first_page = lent->first_page;
}

static void free_pages(struct nxr_lent *lent)
{
    for (uint32_t i = 0; i < lent->n_pages; i++) {
        uint32_t number = lent->first_page;

        lent->first_page = lent_next_page[number];
        lent_next_page[number] = free_page;
        free_page = number;
    }
    n_free_pages += lent->n_pages;
    lent->n_pages = 0;
}

void nxr_lent_give(struct nxr_lent *lent)
{
    free_pages(lent);
    lent->region = NULL;
    lent->req = NULL;
    nxr_list_remove(&lent->link);
    nxr_list_append(&lent_unused, &lent->link);
}

/* ---- lending --------------------------------------------------------------------------------- */

/* A grant to be made. */
struct loan {
    const char *operation;
    struct nixl_region *region;
    struct nixl_grant_params params;
    uint64_t nbytes;
    struct nxr_grant_pieces pieces;
};

static int read_params(struct loan *loan, const struct nixl_grant_params *params)
{
    static const struct nxr_struct_type type =
        NXR_STRUCT_TYPE(nixl_grant_params, NIXL_GRANT_PARAMS_INIT, lifetime_ns);
    static const struct nixl_grant_params none = NIXL_GRANT_PARAMS_INIT;
    const uint32_t all = NIXL_GRANT_READ | NIXL_GRANT_WRITE;
    int status = NIXL_OK;

    loan->params = none;
    if (params != NULL) {
        status = nxr_struct_read(loan->operation, "params", &type, params, &loan->params);
    }
    if (status != NIXL_OK) {
        return status;
    }
    if ((loan->params.rights & ~all) != 0) {
        return nxr_fail(
            NIXL_E_INVALID_ARG, loan->operation, -1, "", 0,
            "rights %#x; allowed: NIXL_GRANT_READ (%#x), NIXL_GRANT_WRITE (%#x), or both",
            loan->params.rights, NIXL_GRANT_READ, NIXL_GRANT_WRITE);
    }
    if (loan->params.uses > NIXL_GRANT_USES_MAX) {
        return nxr_fail(NIXL_E_INVALID_ARG, loan->operation, -1, "", 0,
                        "uses is %u; allowed: 1 .. %d, or 0 for any number", loan->params.uses,
                        NIXL_GRANT_USES_MAX);
    }
    if (loan->params.lifetime_ns < 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, loan->operation, -1, "", 0,
                        "lifetime_ns is %lld; allowed: more than 0, or 0 for no limit",
                        (long long)loan->params.lifetime_ns);
    }
    loan->params.rights += loan->params.rights == 0 ? NIXL_GRANT_READ : 0u;
    return NIXL_OK;
}

/* May peers do with the region what the grant allows? */
static int check_loan_access(const struct loan *loan)
{
    const uint32_t rights = loan->params.rights, access = loan->region->memory.access;
    const bool no_get = (rights & NIXL_GRANT_READ) != 0 && (access & NIXL_ACCESS_NO_GET) != 0;
    const bool no_put = (rights & NIXL_GRANT_WRITE) != 0 && (access & NIXL_ACCESS_NO_PUT) != 0;

    return !no_get && !no_put
               ? NIXL_OK
               : nxr_fail(NIXL_E_ACCESS, loan->operation, -1, "", 0,
                          "region '%s' was made with %s: its blocks cannot be lent for that",
                          nxr_region_label(loan->region->name),
                          no_get ? "NIXL_ACCESS_NO_GET" : "NIXL_ACCESS_NO_PUT");
}

static int fail_pieces(const struct loan *loan, int status)
{
    return status == NIXL_E_NO_MEMORY
               ? nxr_fail(status, loan->operation, -1, "", 0, "no memory for a list of blocks")
               : nxr_fail(status, loan->operation, -1, "", 0,
                          "the blocks make more than %d pieces that do not adjoin",
                          NIXL_GRANT_PIECES_MAX);
}

/* Find the memory of the entry, and what pieces its blocks make. */
static int measure_blocks(struct loan *loan, struct nxr_side *side)
{
    const struct nxr_blocks *blocks = &side->blocks[0];
    int status;

    if (blocks->nblocks == 0) {
        return nxr_fail(NIXL_E_INVALID_ARG, loan->operation, -1, "", 0, "there are no blocks");
    }
    status = nxr_side_find(loan->operation, NXR_OP_PUT, nxr_job.rank, NIXL_XFER_LOCAL, side);
    if (status == NIXL_OK) {
        status = nxr_side_count(loan->operation, nxr_job.rank, side);
    }
    if (status == NIXL_OK) {
        loan->nbytes = side->nbytes;
        status = nxr_grant_pieces_make(blocks, &loan->pieces);
        status = status == NIXL_OK ? status : fail_pieces(loan, status);
    }
    return status;
}

static int find_pieces(struct loan *loan, const struct nixl_blocks *entry)
{
    struct nxr_side side = {0};
    int status = nxr_side_copy(loan->operation, nxr_job.rank, NIXL_XFER_LOCAL, entry, 1, &side);

    if (status == NIXL_OK && side.blocks != NULL) {
        status = measure_blocks(loan, &side);
    }
    free(side.blocks);
    return status;
}

/* Is the entry of a region whose blocks can be lent? */
static int check_lender(struct loan *loan, const struct nixl_blocks *blocks)
{
    int status = nxr_check_ready(loan->operation);
    const char *fault = NULL;

    if (status != NIXL_OK) {
        return status;
    }
    loan->region = blocks != NULL ? blocks->region : NULL;
    if (!nxr_region_is_open(loan->region)) {
        fault = blocks == NULL         ? "blocks is NULL"
                : loan->region == NULL ? "the entry has no region"
                                       : "the region is closed";
    } else if (loan->region->published == NULL || loan->region->is_revoked) {
        fault = "the region has no segment of this rank";
    } else if (!nxr_region_is_named(loan->region)) {
        fault = "the region has no name: no user can reach it";
    }
    return fault == NULL ? NIXL_OK
                         : nxr_fail(NIXL_E_INVALID_ARG, loan->operation, -1, "", 0, "%s", fault);
}

/*
 * Fill a slot, and open it last: a user that finds the word open with the token's turn has read
 * what does not change. Caller holds the lock.
 */
static void fill_record(struct nxr_lent *lent, const struct loan *loan,
                        const struct nxr_token *token)
{
    struct nxr_grant_record *record = nxr_lent_record(lent);
    uint32_t uses = loan->params.uses == 0 ? NXR_GRANT_ANY_USES : loan->params.uses;

    atomic_store(&record->word, nxr_grant_word(token->turn, 0, (enum nixl_grant_state)0));
    for (unsigned i = 0; i < NXR_GRANT_N_PLACES; i++) {
        atomic_store(&record->places[i], 0); /* users of former turns, which give up at once */
    }
    memcpy(record->nonce, token->nonce, sizeof(record->nonce));
    record->nbytes = loan->nbytes;
    record->rights = loan->params.rights;
    record->first_extent = loan->pieces.first_extent;
    record->n_extents = loan->pieces.n_extents;
    record->n_pieces = loan->pieces.n;
    memcpy(record->name, loan->region->name, strlen(loan->region->name) + 1);
    write_pieces(lent, record, &loan->pieces);
    atomic_store(&record->word, nxr_grant_word(token->turn, uses, NIXL_GRANT_OPEN));
}

/* A free slot; NULL: there is none, or no room for the pieces. Caller holds the lock. */
static struct nxr_lent *take_slot(const struct loan *loan)
{
    struct nxr_list *link;

    if (n_free_pages < pages_of(loan->pieces.n)) {
        return NULL;
    }
    link = nxr_list_pop(&lent_unused);
    return link != NULL ? nxr_list_entry(link, struct nxr_lent, link) : NULL;
}

static int lend(const struct loan *loan, struct nixl_req *req, struct nxr_token *token)
{
    bool must_kick = false;
    struct nxr_lent *lent;

    pthread_mutex_lock(&nxr_lent_lock);
    lent = take_slot(loan);
    if (lent != NULL) {
        token->slot = (uint32_t)(lent - lent_slots);
        token->turn = ++lent->turn;
        lent->region = loan->region;
        lent->uses = loan->params.uses;
        lent->req = req;
        memcpy(lent->nonce, token->nonce, sizeof(lent->nonce));
        fill_record(lent, loan, token);
        req->owned = lent;
        nxr_list_append(&nxr_lent_list, &lent->link);
        must_kick = nxr_lent_expires(lent, loan->params.lifetime_ns == 0
                                               ? INT64_MAX
                                               : nxr_deadline(loan->params.lifetime_ns));
    }
    pthread_mutex_unlock(&nxr_lent_lock);
    if (must_kick) {
        nxr_service_kick();
    }
    return lent != NULL ? NIXL_OK : NIXL_E_LIMIT;
}

static int fail_limit(const struct loan *loan)
{
    return nxr_fail(NIXL_E_LIMIT, loan->operation, -1, "", 0,
                    "%u grants are open, or their blocks and %u new pieces exceed the room of %u "
                    "pages; end one first",
                    NXR_GRANT_N_SLOTS, loan->pieces.n, NXR_GRANT_N_PAGES);
}

/* Everything is checked: make the grant. */
static int make_grant(const struct loan *loan, char *token_p, struct nixl_req **req_p)
{
    struct nxr_token token = {
        .use = NXR_TOKEN_GRANT, .maker = nxr_job.self, .nbytes = loan->nbytes};
    struct nixl_req *req = NULL;
    int status;

    if (!nxr_token_make_nonce(token.nonce)) {
        return nxr_fail(NIXL_E_INTERNAL, loan->operation, -1, "", errno, "no random numbers");
    }
    if (nxr_peer_get(nxr_job.rank) != NULL) {
        req = nxr_request_new(loan->operation, &nxr_lent_owner, NULL);
    }
    if (req == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, loan->operation, -1, "", 0, "no memory for a request");
    }
    req->op.nbytes = loan->nbytes;
    status = lend(loan, req, &token);
    if (status == NIXL_E_LIMIT) {
        nxr_lent_look_all(); /* those that have ended, if nobody has waited for them */
        status = lend(loan, req, &token);
    }
    if (status != NIXL_OK) {
        free(req);
        return fail_limit(loan);
    }
    nxr_token_write(&token, token_p);
    *req_p = req;
    return NIXL_INPROGRESS;
}

static int call_grant_create(const struct nixl_blocks *blocks,
                             const struct nixl_grant_params *params, char *token_p,
                             size_t token_nbytes, struct nixl_req **req_p)
{
    struct loan loan = {.operation = "nixl_grant_create"};
    int status = check_lender(&loan, blocks);

    if (status == NIXL_OK) {
        status = read_params(&loan, params);
    }
    if (status != NIXL_OK || loan.region == NULL) {
        return status;
    }
    if (token_p == NULL || req_p == NULL) {
        return nxr_fail(NIXL_E_INVALID_ARG, loan.operation, -1, "", 0, "%s",
                        token_p == NULL ? "token_p is NULL" : "req_p is NULL");
    }
    status = nxr_token_check_room(loan.operation, token_nbytes);
    if (status == NIXL_OK) {
        status = check_loan_access(&loan);
    }
    if (status == NIXL_OK) {
        status = need_lent_table(loan.operation);
    }
    if (status == NIXL_OK) {
        status = find_pieces(&loan, blocks);
    }
    if (status == NIXL_OK) {
        status = make_grant(&loan, token_p, req_p);
    }
    free(loan.pieces.list);
    return status;
}

int nixl_grant_create(const struct nixl_blocks *blocks, const struct nixl_grant_params *params,
                      char *token_p, size_t token_nbytes, struct nixl_req **req_p)
{
    return NXR_TRACED(NXR_TRACE_REGION, "nixl_grant_create", -1, 0, 0,
                      call_grant_create(blocks, params, token_p, token_nbytes, req_p));
}
