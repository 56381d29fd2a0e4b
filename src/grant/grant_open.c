/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of others that this rank has looked up: what their owner says of the grant is read once,
 * and kept for the next uses. What was read is right if the grant is open afterwards, since a
 * record does not change while its turn is open. Lock: opened_lock; no lock is taken inside it.
 */
#include "config.h"

#include "grant/grant.h"
#include "transfer/transfer.h"
#include "util/hash.h"
#include "util/status.h"

#include <stdlib.h>
#include <string.h>

#define N_KEPT    64u /* one of each hash */
#define AT_NONCE  56  /* in the text: characters that differ from token to token */
#define NO_RECORD "there was never such a grant"

static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nxr_grant_opened *opened_kept[N_KEPT];
static struct nixl_region *_Atomic opened_tables; /* the handle to the tables of all ranks */

/* ---- the table of an owner ------------------------------------------------------------------- */

static int open_tables(const char *operation, struct nixl_region **tables_p)
{
    struct nixl_region *none = NULL, *opened;
    int status;

    *tables_p = atomic_load_explicit(&opened_tables, memory_order_acquire);
    if (*tables_p != NULL) {
        return NIXL_OK;
    }
    status = nxr_region_open_internal(NXR_GRANT_TABLE, &opened);
    if (status != NIXL_OK) {
        return nxr_fail_inner(status, operation, -1);
    }
    /* If two threads made one, the first stays; the other handle is closed with all others. */
    *tables_p = atomic_compare_exchange_strong(&opened_tables, &none, opened) ? opened : none;
    return NIXL_OK;
}

/* Is it as large as a table, and may its words be changed? That of a broken owner is not. */
static bool is_table(const struct nxr_segment *segment)
{
    return nxr_segment_has_range(segment, 0, sizeof(struct nxr_grant_table)) &&
           nxr_segment_allows(segment, NIXL_ACCESS_NO_PUT);
}

int nxr_grant_table_of(const char *operation, int rank, struct nxr_segment **table_p)
{
    struct nixl_region *tables;
    int status = open_tables(operation, &tables);
    uint64_t offset = 0;

    if (status != NIXL_OK) {
        return status;
    }
    *table_p = nxr_region_segment(tables, rank);
    if (*table_p == NULL || !is_table(*table_p)) {
        status = nxr_transfer_find_segment(operation, rank, tables, NIXL_ACCESS_NO_PUT, &offset,
                                           sizeof(struct nxr_grant_table), table_p);
    }
    return status;
}

/* ---- reading what the owner says ------------------------------------------------------------- */

/* A token that is being looked up. */
struct lookup {
    const char *operation;
    int rank;
    const struct nxr_token *token;
    struct nixl_region *tables;
    struct nxr_segment *table;
    uint64_t offset;                /* of the record */
    uint64_t word;                  /* as it was last read */
    struct nxr_grant_record record; /* but for the words in it */
};

static int lookup_refuse(const struct lookup *lookup, int status, const char *why)
{
    return nxr_token_refuse(lookup->operation, lookup->rank, status, why);
}

static int read_table(const struct lookup *lookup, uint64_t offset, void *dst, size_t nbytes)
{
    int status = nixl_get(lookup->rank, lookup->tables, offset, dst, nbytes);

    return status == NIXL_OK ? status : nxr_fail_inner(status, lookup->operation, lookup->rank);
}

/* Is the record the one of the token? */
static int compare_record(const struct lookup *lookup)
{
    const struct nxr_token *token = lookup->token;
    const struct nxr_grant_record *record = &lookup->record;
    const uint32_t turn = nxr_grant_word_turn(lookup->word);

    if (turn > token->turn) {
        return nxr_grant_refuse(lookup->operation, lookup->rank, 0);
    }
    if (turn < token->turn || token->turn == 0) {
        return lookup_refuse(lookup, NIXL_E_INVALID_ARG, NO_RECORD);
    }
    if (memcmp(record->nonce, token->nonce, sizeof(record->nonce)) != 0) {
        return lookup_refuse(lookup, NIXL_E_INVALID_ARG, "it is forged: its nonce is wrong");
    }
    if (record->nbytes != token->nbytes || record->n_pieces == 0 ||
        record->n_pieces > NIXL_GRANT_PIECES_MAX) {
        return lookup_refuse(lookup, NIXL_E_INVALID_ARG, "its size is not what was lent");
    }
    return NIXL_OK;
}

/* The pieces of a record that has no room for them. */
static int read_pages(const struct lookup *lookup, struct nxr_grant_pieces *pieces)
{
    uint32_t number = lookup->record.first_page;

    for (uint32_t n_read = 0; n_read < pieces->n;) {
        uint32_t n = pieces->n - n_read;
        struct nxr_grant_page page;
        uint64_t offset = offsetof(struct nxr_grant_table, pages) + (uint64_t)number * sizeof(page);
        int status;

        n = n < NXR_GRANT_PAGE_PIECES ? n : NXR_GRANT_PAGE_PIECES;
        if (number >= NXR_GRANT_N_PAGES) {
            return nxr_grant_refuse(lookup->operation, lookup->rank, 0);
        }
        status = read_table(lookup, offset, &page,
                            offsetof(struct nxr_grant_page, pieces) + n * sizeof(page.pieces[0]));
        if (status != NIXL_OK) {
            return status;
        }
        memcpy(pieces->list + n_read, page.pieces, n * sizeof(page.pieces[0]));
        n_read += n;
        number = page.next;
    }
    return NIXL_OK;
}

static int read_pieces(const struct lookup *lookup, struct nxr_grant_opened *opened)
{
    const struct nxr_grant_record *record = &lookup->record;
    struct nxr_grant_pieces *pieces = &opened->pieces;

    *pieces = (struct nxr_grant_pieces){.first_extent = record->first_extent,
                                        .n_extents = record->n_extents,
                                        .n = record->n_pieces};
    pieces->list = pieces->n > 0 ? malloc(pieces->n * sizeof(*pieces->list)) : NULL;
    if (pieces->list == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, lookup->operation, lookup->rank, "", 0,
                        "no memory for the pieces of a grant");
    }
    if (pieces->n > NXR_GRANT_N_OWN) {
        return read_pages(lookup, pieces);
    }
    memcpy(pieces->list, record->own, pieces->n * sizeof(*pieces->list));
    return NIXL_OK;
}

/* Read the word: an access of its own, since it changes while the rest does not. */
static int read_word(struct lookup *lookup)
{
    const struct nxr_atomic fetch = {.op = NIXL_ATOMIC_FETCH,
                                     .type = NIXL_TYPE_UINT64,
                                     .offset =
                                         lookup->offset + offsetof(struct nxr_grant_record, word)};
    int status = nxr_atomic_change(lookup->table, &fetch, false, &lookup->word);

    return status == NIXL_OK ? status
                             : nxr_fail(status, lookup->operation, lookup->rank, "", 0,
                                        "cannot read the grant of %s: %s",
                                        nxr_rank_name(lookup->rank), nixl_strerror(status));
}

/* Is the grant open now, as the word that was read says? Else its pages may be another one's. */
static int lookup_check_open(const struct lookup *lookup)
{
    int state = nxr_grant_word_state(lookup->word, lookup->token->turn);

    return state == NIXL_GRANT_OPEN ? NIXL_OK
                                    : nxr_grant_refuse(lookup->operation, lookup->rank, state);
}

/* Read what the word does not say, behind it and the places. */
static int read_record(struct lookup *lookup)
{
    const size_t from = offsetof(struct nxr_grant_record, nonce);

    return read_table(lookup, lookup->offset + from, (char *)&lookup->record + from,
                      sizeof(lookup->record) - from);
}

/* Read the pieces of a grant that is open before and after. */
static int read_while_open(struct lookup *lookup, struct nxr_grant_opened *opened)
{
    int status = lookup_check_open(lookup);

    if (status == NIXL_OK) {
        status = read_pieces(lookup, opened);
    }
    if (status == NIXL_OK) {
        status = read_word(lookup);
    }
    atomic_init(&opened->word, lookup->word);
    return status == NIXL_OK ? lookup_check_open(lookup) : status;
}

/* Find the owner's table. */
static int find_tables(struct lookup *lookup)
{
    int status = nxr_token_check_maker(lookup->operation, lookup->token, lookup->rank);

    if (status == NIXL_OK) {
        status = nxr_grant_table_of(lookup->operation, lookup->rank, &lookup->table);
    }
    return status == NIXL_OK ? open_tables(lookup->operation, &lookup->tables) : status;
}

/* Read the record and the pieces. */
static int read_grant(struct lookup *lookup, struct nxr_grant_opened *opened)
{
    int status = find_tables(lookup);

    lookup->offset = (uint64_t)lookup->token->slot * sizeof(lookup->record);
    if (status == NIXL_OK) {
        status = read_word(lookup);
    }
    if (status == NIXL_OK) {
        status = read_record(lookup);
    }
    if (status == NIXL_OK) {
        status = compare_record(lookup);
    }
    if (status == NIXL_OK) {
        status = read_while_open(lookup, opened);
    }
    if (status == NIXL_OK) {
        opened->rights = lookup->record.rights;
        memcpy(opened->name, lookup->record.name, NIXL_NAME_MAX);
    }
    return status;
}

/* ---- looking up ------------------------------------------------------------------------------ */

static struct nxr_grant_opened **kept_at(const char *text)
{
    return &opened_kept[nxr_hash(text + AT_NONCE, 8) % N_KEPT];
}

static struct nxr_grant_opened *opened_find(const char *text, int rank)
{
    struct nxr_grant_opened *opened;

    pthread_mutex_lock(&opened_lock);
    opened = *kept_at(text);
    if (opened != NULL && opened->rank == rank &&
        memcmp(opened->text, text, NXR_TOKEN_NBYTES) == 0) {
        atomic_fetch_add(&opened->n_users, 1);
    } else {
        opened = NULL;
    }
    pthread_mutex_unlock(&opened_lock);
    return opened;
}

static void keep_opened(struct nxr_grant_opened *opened)
{
    struct nxr_grant_opened *former;

    atomic_fetch_add(&opened->n_users, 1);
    pthread_mutex_lock(&opened_lock);
    former = *kept_at(opened->text);
    *kept_at(opened->text) = opened;
    pthread_mutex_unlock(&opened_lock);
    if (former != NULL) {
        nxr_grant_give(former);
    }
}

void nxr_grant_give(struct nxr_grant_opened *opened)
{
    if (atomic_fetch_sub(&opened->n_users, 1) == 1) {
        free(opened->pieces.list);
        free(opened);
    }
}

/* Is it a token of a grant, made by the process that the caller names? */
static int check_token(const char *operation, const char *text, int rank, struct nxr_token *token)
{
    int maker, status = nxr_token_read(operation, text, token, &maker);

    if (status != NIXL_OK) {
        return status;
    }
    if (token->use != NXR_TOKEN_GRANT) {
        return nxr_token_refuse(operation, rank, NIXL_E_INVALID_ARG,
                                "it is not of a grant: nixl_pair_expose() has made it");
    }
    if (maker != rank) {
        return nxr_fail(NIXL_E_INVALID_ARG, operation, rank, "", 0,
                        "the token: it is of a grant of %s, and the operation is to %s",
                        nxr_rank_name(maker), nxr_rank_name(rank));
    }
    return token->slot < NXR_GRANT_N_SLOTS
               ? NIXL_OK
               : nxr_token_refuse(operation, rank, NIXL_E_INVALID_ARG, NO_RECORD);
}

int nxr_grant_open(const char *operation, const char *text, int rank,
                   struct nxr_grant_opened **opened_p)
{
    struct nxr_grant_opened *opened = NULL;
    struct nxr_token token;
    int status;

    if (text != NULL && strnlen(text, NXR_TOKEN_NBYTES) == NXR_TOKEN_NBYTES - 1) {
        *opened_p = opened_find(text, rank);
        if (*opened_p != NULL) {
            return NIXL_OK;
        }
    }
    status = check_token(operation, text, rank, &token);
    if (status != NIXL_OK) {
        return status;
    }
    opened = calloc(1, sizeof(*opened));
    if (opened == NULL) {
        return nxr_fail(NIXL_E_NO_MEMORY, operation, rank, "", 0, "no memory to use a token");
    }
    opened->n_users = 1;
    opened->token = token;
    opened->rank = rank;
    nxr_token_write(&token, opened->text);
    status =
        read_grant(&(struct lookup){.operation = operation, .rank = rank, .token = &token}, opened);
    if (status != NIXL_OK) {
        nxr_grant_give(opened);
        return status;
    }
    keep_opened(opened);
    *opened_p = opened;
    return NIXL_OK;
}

void nxr_grants_forget(void)
{
    nxr_lease_drop_spare();
    for (unsigned i = 0; i < N_KEPT; i++) {
        if (opened_kept[i] != NULL) {
            nxr_grant_give(opened_kept[i]);
            opened_kept[i] = NULL;
        }
    }
    atomic_store(&opened_tables, NULL);
}
