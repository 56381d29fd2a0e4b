/* SPDX-License-Identifier: Apache-2.0 */
/* A token of a rank on another host whose answer to the claim does not come. */
#include "net_case.h"

#include "pair/pair.h"
#include "util/clock.h"
#include "util/env.h"

#include "test/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT = 5, TURN = 7, NBYTES = 64 };

static struct nxr_pair_slot *exposed;
static char text[NXR_TOKEN_NBYTES];

/* Rank 1 exposes a buffer: this rank has the key of its table, and a token. */
static void make_token(void)
{
    struct nxr_token token = {.use = NXR_TOKEN_READ,
                              .maker = np->peer->identity,
                              .nbytes = NBYTES,
                              .slot = SLOT,
                              .turn = TURN,
                              .nonce = {1, 2, 3}};
    struct nxr_region_segment *segment;
    struct nixl_region *tables;

    cr_assert(eq(int, nxr_pair_handle_tables("test", &tables), NIXL_OK));
    pthread_mutex_lock(&nxr_job.lock);
    cr_assert(eq(int, nxr_region_want_segment(tables, 1, false, &segment), NIXL_OK));
    pthread_mutex_unlock(&nxr_job.lock);
    fake_key_coming(1, false);
    fake_round();
    exposed = calloc(1, sizeof(*exposed));
    cr_assert(not(zero(ptr, exposed)));
    exposed->word = nxr_pair_word(TURN, 0, NXR_PAIR_OPEN);
    exposed->nbytes = NBYTES;
    exposed->use = NIXL_PAIR_READ;
    exposed->rank = NIXL_ANY_RANK;
    memcpy(exposed->nonce, token.nonce, sizeof(exposed->nonce));
    nxr_token_write(&token, text);
}

/* The claim may be made when the rank goes on: what ends it must come behind. */
Test(claim, that_is_not_answered_is_ended, .init = start, .fini = stop)
{
    const struct nxr_net_atomic *end;
    struct nxr_net_got got = {.nbytes = sizeof(*exposed)};
    int place;

    make_token();
    nxr_env.op_timeout = 20 * NXR_MS;
    got.move = np->last_id + 1; /* the get of the slot, which is answered */
    fake_coming(1, NXR_NET_GOT, &got, sizeof(got), exposed, sizeof(*exposed));
    cr_expect(eq(int, nixl_pair_decline(text), NIXL_E_TIMEOUT));
    cr_expect(strstr(nixl_last_error()->text, "cannot claim the buffer") != NULL, "'%s'",
              nixl_last_error()->text);
    place = np->peer->place;
    end = fake_last(NXR_NET_ATOMIC);
    cr_assert(eq(u64, end->ask, 0), "a signal, for which no answer is awaited");
    cr_expect(eq(u64, end->what.atomic.compare, nxr_pair_word(TURN, place, NXR_PAIR_BEGUN)));
    cr_expect(eq(u64, end->what.atomic.operand,
                 nxr_pair_word(TURN, place, nxr_pair_ended(NIXL_E_CANCELED, false))));
    free(exposed);
}
