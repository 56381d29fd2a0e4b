/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options and of NIXLRUN_ variables: numbers, times, sizes, words, log levels. */
/* sources: launcher/values.c src/util/coll_table.c src/util/coll_table_file.c src/util/env.c */
/* sources: src/util/log.c src/util/log_limit.c src/util/thread.c src/util/nearest.c */
#include "launcher/values.h"
#include "launcher/xalloc.h"
#include "util/env.h"
#include "util/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_limits(const char *text)
{
    int64_t ns = 0;
    uint64_t size = 0;
    int count = 5;

    if (value_count(text, 3, 7, &count) == 0 && (count < 3 || count > 7)) {
        abort();
    }
    if (value_time(text, &ns) == 0 && ns < 0) {
        abort();
    }
    if (nxr_env_parse_time(text, &ns) == 0 && ns < 0) {
        abort();
    }
    (void)nxr_env_parse_bytes(text, &size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char *text = x_array(NULL, nbytes + 1, 1);
    char shown[VALUE_SHOWN_NBYTES], nearest[VALUE_WORD_NBYTES] = "", why[256] = "";

    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    check_limits(text);
    value_show(text, shown);
    if (strlen(shown) >= sizeof(shown) || strchr(shown, '\n') != NULL) {
        abort();
    }
    value_nearest(text, "none core numa socket", value_near(text), nearest);
    if (nearest[0] != '\0' && value_word(nearest, "none core numa socket") < 0) {
        abort();
    }
    if (nxr_log_configure(text, why, sizeof(why)) != 0 && why[0] == '\0') {
        abort();
    }
    free(text);
    return 0;
}
