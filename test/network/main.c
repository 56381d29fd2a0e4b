/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network_test NAME FOLDER [PROVIDER [DEVICES]]: hold the module NAME in FOLDER against the
 * interface of networks. NETWORK_TEST=WORDS runs only the cases whose text contains the words.
 * Prints TAP.
 */
#include "config.h"

#include "network_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct nt_case *const groups[] = {
    nt_life_cases, nt_order_cases, nt_bulk_cases, nt_rma_cases, nt_wait_cases, nt_death_cases,
};

#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

static bool is_wanted(const struct nt_case *test)
{
    const char *words = getenv("NETWORK_TEST");

    return words == NULL || strstr(test->text, words) != NULL;
}

int main(int argc, char **argv)
{
    int number = 0, n_failed = 0;

    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: %s NAME FOLDER [PROVIDER [DEVICES]]\n", argv[0]);
        return 2;
    }
    nt_use(argv[2], argv[1], argc > 3 ? argv[3] : "", argc > 4 ? argv[4] : "");
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < N_GROUPS; i++) {
        for (const struct nt_case *test = groups[i]; test->text != NULL; test++) {
            char why[1024] = "";

            if (!is_wanted(test)) {
                continue;
            }
            number++;
            if (nt_run(test, why, sizeof(why))) {
                printf("ok %d - %s\n", number, test->text);
            } else {
                printf("not ok %d - %s\n# %s\n", number, test->text, why);
                n_failed++;
            }
        }
    }
    printf("1..%d\n", number);
    return n_failed == 0 ? 0 : 1;
}
