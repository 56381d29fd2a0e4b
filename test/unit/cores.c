/* SPDX-License-Identifier: Apache-2.0 */
/* The cores of a process, who shares them as the cards tell, and whether they are enough. */
#include "config.h"

#include "boot/all_cards.h"
#include "boot/sharing.h"
#include "core/cores.h"
#include "core/node.h"
#include "util/meet.h"

#include "test/unit/unit.h"
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cores, .timeout = 60);

/* Let this process run on the n-th of its cores only; false: it has fewer. */
static bool choose_core(int n)
{
    cpu_set_t all, one;

    CPU_ZERO(&one);
    cr_assert(eq(int, sched_getaffinity(0, sizeof(all), &all), 0));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && n-- == 0) {
            CPU_SET(cpu, &one);
            cr_assert(eq(int, sched_setaffinity(0, sizeof(one), &one), 0));
            return true;
        }
    }
    return false;
}

Test(cores, what_a_process_may_run_on)
{
    const struct nxr_cores before = nxr_cores_read();
    struct nxr_cores one;
    cpu_set_t all;

    cr_assert(eq(int, sched_getaffinity(0, sizeof(all), &all), 0));
    cr_expect(eq(int, before.n_allowed, CPU_COUNT(&all)));
    cr_expect(ge(int, before.n_online, 1));
    cr_expect(ne(u32, before.hash, 0));
    cr_assert(choose_core(0));
    one = nxr_cores_read();
    cr_expect(eq(int, one.n_allowed, 1));
    cr_expect(eq(int, one.n_online, before.n_online));
    cr_expect(eq(u32, nxr_cores_read().hash, one.hash));
    cr_expect(eq(int, one.hash == before.hash, before.n_allowed == 1));
    cr_assert(eq(int, sched_setaffinity(0, sizeof(all), &all), 0));
    cr_expect(eq(u32, nxr_cores_read().hash, before.hash));
    if (choose_core(1)) {
        cr_expect(ne(u32, nxr_cores_read().hash, one.hash), "another core, as many of them");
    }
}

Test(cores, are_few_or_enough)
{
    static const struct {
        int n_allowed, n_online, n_local, n_sharing;
        bool are_few, have_spare;
    } cases[] = {
        {16, 16, 8, 8, false, true}, /* free on a large host */
        {8, 8, 8, 8, false, false},  /* one each */
        {8, 8, 9, 9, true, false},   /* one too many */
        {1, 16, 8, 1, false, false}, /* bound to a core each */
        {4, 8, 8, 4, false, false},  /* bound to a socket */
        {4, 16, 8, 2, false, true},  /* bound to more cores than ranks */
        {2, 16, 8, 8, true, false},  /* a container or taskset: all on the same two */
        {1, 2, 2, 2, true, false},   /* the same on a small host */
        {2, 2, 4, 1, true, false},   /* bound, but more ranks than the host has cores */
        {4, 2, 3, 1, true, false},   /* likewise: a spare core of its own is no spare core */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct nxr_cores cores = {cases[i].n_allowed, cases[i].n_online, 1};
        int n_local = cases[i].n_local, n_sharing = cases[i].n_sharing;

        cr_expect(eq(int, nxr_cores_are_few(&cores, n_local, n_sharing), cases[i].are_few),
                  "case %zu", i);
        cr_expect(eq(int, nxr_cores_have_spare(&cores, n_local, n_sharing), cases[i].have_spare),
                  "case %zu", i);
    }
}

/* ---- who shares them ------------------------------------------------------------------------- */

static struct nxr_card make_card(int rank, const char *host, uint32_t cores)
{
    struct nxr_card card = {.magic = NXR_CARD_MAGIC,
                            .version = NXR_CARD_VERSION,
                            .nbytes = sizeof(card),
                            .identity = {.job = 5, .rank = rank},
                            .cores = cores};

    strcpy(card.host, host);
    return card;
}

/* As nixlrun's answer to the meeting; a card of 0 bytes is left out: that rank has ended. */
static void keep_cards(const struct nxr_card *cards, int n)
{
    size_t nbytes = 0;
    char *answer = malloc((size_t)n * (sizeof(struct nxr_meet_head) + sizeof(cards[0])));

    cr_assert(answer != NULL);
    for (int i = 0; i < n; i++) {
        const struct nxr_meet_head head = {cards[i].identity.rank, cards[i].nbytes};

        if (head.nbytes > 0) {
            memcpy(answer + nbytes, &head, sizeof(head));
            memcpy(answer + nbytes + sizeof(head), &cards[i], head.nbytes);
            nbytes += sizeof(head) + head.nbytes;
        }
    }
    cr_assert(eq(int, nxr_all_cards_take(answer, nbytes, n), PMIX_SUCCESS));
}

static int count_sharing(const struct nxr_card *cards, int n, int self)
{
    const pmix_proc_t proc = {.nspace = "nixlrun.5", .rank = (pmix_rank_t)self};
    int n_sharing;

    keep_cards(cards, n);
    n_sharing = nxr_sharing_count(&cards[self], &proc, n, "key");
    nxr_all_cards_drop();
    return n_sharing;
}

Test(cores, are_shared_by_ranks_of_this_host_with_the_same)
{
    struct nxr_card cards[] = {
        make_card(0, "here", 7),  make_card(1, "here", 7),  make_card(2, "here", 8),
        make_card(3, "there", 7), make_card(4, "there", 8), make_card(5, "here", 7),
    };
    int n = (int)(sizeof(cards) / sizeof(cards[0]));

    nxr_nodes_set(NULL, n); /* the launcher reports no hosts */
    cr_expect(eq(int, count_sharing(cards, n, 0), 3));
    cr_expect(eq(int, count_sharing(cards, n, 5), 3));
    cr_expect(eq(int, count_sharing(cards, n, 2), 1));
    cr_expect(eq(int, count_sharing(cards, n, 3), 1));
    nxr_nodes_set(NULL, 1); /* it counts all of them to one, whatever they call it */
    cr_expect(eq(int, count_sharing(cards, n, 0), 4));
    cr_expect(eq(int, count_sharing(cards, n, 4), 2));
}

Test(cores, of_cards_that_cannot_be_read_are_nobodys)
{
    struct nxr_card cards[] = {make_card(0, "here", 7), make_card(1, "here", 7),
                               make_card(2, "here", 7), make_card(3, "here", 7),
                               make_card(4, "here", 7)};

    cards[1].nbytes = 0; /* it has ended */
    cards[2].nbytes--;
    cards[3].version++;
    cards[4].magic++;
    nxr_nodes_set(NULL, 1);
    cr_expect(eq(int, count_sharing(cards, 5, 0), 1));
}

Test(cores, the_cards_give_their_memory_back)
{
    const struct nxr_card cards[] = {make_card(0, "here", 7), make_card(1, "here", 7)};
    size_t used[40];

    nxr_nodes_set(NULL, 1);
    for (int i = 0; i < 40; i++) { /* malloc keeps what the first rounds give back */
        cr_expect(eq(int, count_sharing(cards, 2, 0), 2));
        used[i] = mallinfo2().uordblks;
    }
    cr_expect(eq(sz, used[39], used[19]));
}
