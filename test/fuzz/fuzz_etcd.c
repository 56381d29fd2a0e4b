/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What etcd answers, and what is in it: the first byte says whether the rest is a value, an answer
 * or a list, and with which HTTP status. What is accepted has texts that end, and numbers within
 * their limits; what is refused is refused in words.
 */
/* sources: src/etcd/answer.c src/etcd/value.c */
/* libs: nettle jansson */
#include "etcd/answer.h"
#include "etcd/value.h"
#include "nixlrun.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check(bool is_good)
{
    if (!is_good) {
        abort();
    }
}

/* An entry that was accepted is one that could have been written. */
static void check_entry(const struct nxr_etcd_entry *entry)
{
    struct nxr_etcd_entry again;
    char *text = nxr_etcd_value_write(entry);

    check(entry->rank >= 0 && entry->pid > 0 && entry->n_contacts > 0 &&
          entry->n_contacts <= NXR_ETCD_MAX_CONTACTS);
    check(text != NULL && nxr_etcd_value_read(text, strlen(text), &again) == NULL);
    check(memcmp(entry, &again, sizeof(again)) == 0);
    free(text);
}

static void check_found(const struct nxr_etcd_found *found)
{
    check(memchr(found->fault, '\0', sizeof(found->fault)) != NULL);
    check(found->is_entry == (found->is_there && found->fault[0] == '\0'));
    if (found->is_entry) {
        check_entry(&found->entry);
    }
}

static void take_listed(void *arg, const char *rest, const struct nxr_etcd_found *found)
{
    check(arg != NULL && found->is_there && strlen(rest) < 2048);
    check_found(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const long statuses[] = {200, 400, 401, 404, 503, 0};
    unsigned char what = nbytes > 0 ? data[0] : 0;
    long http = statuses[what / 3 % 6];
    char *bytes = malloc(nbytes + 1), why[NXR_ETCD_WHY_NBYTES] = "";
    struct nxr_etcd_answer answer;
    struct nxr_etcd_entry entry;
    int status = NIXL_OK;

    check(bytes != NULL);
    nbytes -= nbytes > 0;
    memcpy(bytes, data + 1, nbytes);
    if (what % 3 == 0) {
        if (nxr_etcd_value_read(bytes, nbytes, &entry) == NULL) {
            check_entry(&entry);
        }
    } else if (what % 3 == 1) {
        status = nxr_etcd_answer_read(http, bytes, nbytes, &answer, why);
        if (status == NIXL_OK) {
            check(memchr(answer.token, '\0', sizeof(answer.token)) != NULL);
            check_found(&answer.found);
        }
    } else {
        status = nxr_etcd_answer_list(http, bytes, nbytes, "/a/", take_listed, &answer, why);
    }
    check(status == NIXL_OK || (status < 0 && why[0] != '\0'));
    free(bytes);
    return 0;
}
