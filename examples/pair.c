/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair: rank 0 lends a buffer to each other rank, once, by a token. Run it as
 *
 *     nixlrun -np 3 pair
 *
 * The token is text: a server would send it in the answer to an HTTP request. Here it goes as a
 * notification. The partner knows nothing else about rank 0's memory. It gets the size from the
 * token and reads the buffer, and rank 0's request is complete. A second use is refused.
 */
#include <nixlrun.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE     4096
#define LIFETIME (60 * 1000000000ll) /* a partner must begin within a minute */

/* End the whole job if a call failed, with the library's error message. */
static void must(int status)
{
    if (status != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
}

static void lend(int rank, struct nixl_region *pages, struct nixl_req **lent)
{
    size_t offset = (size_t)rank * PAGE;
    char token[NIXL_TOKEN_MAX + 1];

    snprintf((char *)nixl_region_addr(pages) + offset, PAGE, "the page of rank %d", rank);
    if (nixl_pair_expose(rank, pages, offset, PAGE, NIXL_PAIR_READ, LIFETIME, token, sizeof(token),
                         lent) != NIXL_INPROGRESS) {
        nixl_abort(1, nixl_last_error()->text);
    }
    must(nixl_notify(rank, 0, token, strlen(token) + 1, NIXL_FOREVER));
}

static void lend_to_all(void)
{
    size_t n_ranks = (size_t)nixl_size();
    struct nixl_req **lent = calloc(n_ranks, sizeof(struct nixl_req *));
    struct nixl_region *pages;

    must(nixl_region_alloc("pages", n_ranks * PAGE, NULL, &pages));
    for (int rank = 1; lent != NULL && rank < nixl_size(); rank++) {
        lend(rank, pages, &lent[rank]);
    }
    for (size_t i = 1; lent != NULL && i < n_ranks; i++) { /* in the order in which they finish */
        size_t rank;

        must(nixl_req_wait_any(lent, n_ranks, NIXL_FOREVER, &rank));
        printf("rank %zu has read its page\n", rank);
    }
    free(lent);
}

static void borrow(void)
{
    static struct nixl_note note;
    struct nixl_pair_info info = NIXL_PAIR_INFO_INIT;
    struct nixl_req *req = NULL;
    const char *token = (const char *)note.payload;
    char *page;
    int status;

    nixl_note_init(&note);
    must(nixl_notify_recv(0, 0, UINT64_MAX, NIXL_FOREVER, &note));
    must(nixl_pair_query(token, &info));
    page = malloc(info.nbytes);
    if (page == NULL) {
        nixl_abort(1, "out of memory");
    }
    status = nixl_pair_read(token, page, info.nbytes, &req);
    must(status == NIXL_INPROGRESS ? nixl_req_wait(&req, NIXL_FOREVER) : status);
    printf("rank %d got %zu bytes of rank %d: %s\n", nixl_rank(), (size_t)info.nbytes, info.rank,
           page);
    status = nixl_pair_read(token, page, info.nbytes, &req);
    printf("rank %d tries again: %s\n", nixl_rank(),
           status == NIXL_E_STALE ? "refused" : nixl_strerror(status));
    free(page);
}

int main(void)
{
    must(nixl_init(NULL));
    if (nixl_size() < 2) {
        fprintf(stderr, "pair: 1 rank is too few; start it as nixlrun -np 3 pair\n");
        return 2;
    }
    if (nixl_rank() == 0) {
        lend_to_all();
    } else {
        borrow();
    }
    return nixl_finalize() == NIXL_OK ? 0 : 1;
}
