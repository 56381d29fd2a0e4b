/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank on several hosts: joins, finds out who is on its host, sends a notification around the
 * ranks of that host and leaves. Arguments: the number of ranks on each host, as in "2 2 1".
 */
#include <nixlrun.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_S = 60 };

static int first, n_here; /* the ranks of this host */

static void fail(const char *what)
{
    nixl_abort(1, what);
}

static void find_host(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        n_here = atoi(argv[i]);
        if (nixl_rank() < first + n_here) {
            return;
        }
        first += n_here;
    }
    fail("the arguments are for fewer ranks");
}

static void check_scopes(void)
{
    for (int rank = 0; rank < nixl_size(); rank++) {
        bool is_here = rank >= first && rank < first + n_here;
        int wanted = rank == nixl_rank() ? NIXL_SCOPE_SELF
                     : is_here           ? NIXL_SCOPE_LOCAL
                                         : NIXL_SCOPE_REMOTE;
        int found = nixl_scope(rank);

        if (found != wanted) {
            fprintf(stderr, "rank %d: the scope of rank %d is %d, not %d\n", nixl_rank(), rank,
                    found, wanted);
            fail("wrong scope");
        }
    }
}

int main(int argc, char **argv)
{
    struct nixl_note note;
    int next;

    if (nixl_init(NULL) != NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
    nixl_note_init(&note);
    find_host(argc, argv);
    check_scopes();
    next = first + (nixl_rank() - first + 1) % n_here;
    if (nixl_notify(next, 7, "hello", 5, TIMEOUT_S * 1000000000LL) != NIXL_OK ||
        nixl_notify_recv(NIXL_ANY_RANK, 7, UINT64_MAX, TIMEOUT_S * 1000000000LL, &note) !=
            NIXL_OK) {
        nixl_abort(1, nixl_last_error()->text);
    }
    printf("rank %d of %d heard rank %d\n", nixl_rank(), nixl_size(), note.rank);
    return nixl_finalize();
}
