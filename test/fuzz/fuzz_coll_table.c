/* SPDX-License-Identifier: Apache-2.0 */
/* Files and texts of limits: what is taken is within bounds, what is refused changes nothing. */
/* sources: src/util/coll_table.c src/util/coll_table_file.c */
#include "util/coll_table.h"
#include "nixlrun.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_limits(const struct nxr_coll_table *table)
{
#define CHECK(_name, _default, _lowest, _highest, _text)                                           \
    if (table->_name > (_highest) || (table->_name < (_lowest) && (_lowest) > 0)) {                \
        abort();                                                                                   \
    }
    NXR_COLL_TABLE(CHECK)
#undef CHECK
}

static void check_refusal(int status, const char *why)
{
    if (status != NIXL_OK && (why[0] == '\0' || strchr(why, '\n') != NULL)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct nxr_coll_table table = nxr_coll_table;
    char *text = malloc(nbytes + 1), why[256] = "";
    int status;

    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    status = nxr_coll_table_read(text, nbytes, 4, &table, why, sizeof(why));
    check_refusal(status, why);
    if (status != NIXL_OK && memcmp(&table, &nxr_coll_table, sizeof(table)) != 0) {
        abort();
    }
    check_limits(&table);
    why[0] = '\0';
    check_refusal(nxr_coll_table_set("", 4, text, why, sizeof(why)), why);
    check_limits(&nxr_coll_table);
    (void)nxr_coll_table_set("", 4, "", why, sizeof(why));
    free(text);
    return 0;
}
