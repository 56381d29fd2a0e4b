/* SPDX-License-Identifier: Apache-2.0 */
/* A program that speaks German: decimal commas, and other names of days and months. */
#ifndef NXR_TEST_UNIT_LOCALE_CASE_H
#define NXR_TEST_UNIT_LOCALE_CASE_H

#include "test/unit/unit.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Switch to a locale that is made for the test, or skip it: this host cannot make locales. */
static inline void locale_case_begin(void)
{
    static char root[] = "/tmp/nixlrun-locale.XXXXXX";
    char command[200];

    cr_assert(ne(ptr, mkdtemp(root), NULL));
    snprintf(command, sizeof(command),
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1; exit 0", root);
    cr_assert(eq(int, system(command), 0));
    setenv("LOCPATH", root, 1);
    setlocale(LC_ALL, "de_DE.UTF-8");
    snprintf(command, sizeof(command), "rm -rf %s", root);
    cr_assert(eq(int, system(command), 0));
    if (strcmp(localeconv()->decimal_point, ",") != 0) {
        cr_skip_test("this host cannot make a locale");
    }
}

#endif
