/* SPDX-License-Identifier: Apache-2.0 */
/* Cards of other ranks: what is accepted speaks for the rank, and its texts and addresses end. */
/* sources: src/core/card.c src/core/cores.c src/util/coll_table.c src/util/coll_table_file.c */
/* sources: src/util/log.c src/util/log_limit.c src/util/thread.c src/util/nearest.c */
/* sources: src/util/status.c src/core/identity.c src/util/env.c */
#include "core/card.h"
#include "nixlrun.h"
#include "util/log.h"

#include <stdlib.h>
#include <string.h>

enum { JOB = 7, RANK = 2, UNTOUCHED = 0x5a };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/*
 * The reason goes to the log, and only of a card that was refused: a line, and perhaps one that
 * says how many like it were left out.
 */
static void count_line(enum nixl_log_level level, const char *subsystem, const char *text,
                       void *n_lines)
{
    (void)level;
    (void)subsystem;
    if (text[0] == '\0' || strchr(text, '\n') != NULL) {
        abort();
    }
    ++*(int *)n_lines;
}

static void check_address(const struct nxr_full_card *card, const char *network)
{
    size_t nbytes = 0;
    const unsigned char *bytes = nxr_card_find_address(card, network, &nbytes);

    if (bytes != NULL && (bytes < card->addresses ||
                          bytes + nbytes > (const unsigned char *)card + card->head.nbytes)) {
        abort();
    }
}

static void check_accepted(const struct nxr_full_card *card, size_t nbytes)
{
    if (card->head.identity.job != JOB || card->head.identity.rank != RANK ||
        card->head.nbytes != nbytes || strlen(card->head.host) >= sizeof(card->head.host) ||
        strlen(card->head.boot_id) >= sizeof(card->head.boot_id)) {
        abort();
    }
    (void)nxr_card_may_be_local(&card->head, &card->head);
    check_address(card, "ucx");
    check_address(card, "ofi");
    check_address(card, "tcp");
    check_address(card, "none");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const struct nxr_identity owner = {.job = JOB, .rank = RANK};
    unsigned char *bytes = malloc(nbytes + 1); /* malloc(0) may be NULL */
    struct nxr_full_card card;
    int n_lines = 0;

    if (bytes == NULL) {
        abort();
    }
    nixl_log_set_fn(count_line, &n_lines);
    memcpy(bytes, data, nbytes);
    memset(&card, UNTOUCHED, sizeof(card));
    if (nxr_card_parse(bytes, nbytes, &owner, &card) == NIXL_OK) {
        check_accepted(&card, nbytes);
    } else {
        for (size_t i = 0; i < sizeof(card); i++) {
            if (((unsigned char *)&card)[i] != UNTOUCHED) {
                abort();
            }
        }
    }
    if (n_lines > 2 * (card.head.identity.rank != RANK)) {
        abort();
    }
    free(bytes);
    return 0;
}
