/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of publications: what is accepted has the name that was looked for, and its texts end. */
/* sources: src/attach/entry.c src/attach/proof.c src/core/identity.c */
/* libs: nettle */
#include "attach/entry.h"

#include <stdlib.h>
#include <string.h>

enum { UNTOUCHED = 0x5a };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_entry(const struct nxr_entry *entry)
{
    static const unsigned char secret[NXR_PROOF_SECRET_NBYTES] = {1};

    if (strcmp(entry->name, "name") != 0 || strlen(entry->host) >= sizeof(entry->host) ||
        entry->schema_nbytes > sizeof(entry->schema) || entry->publisher.rank < 0 ||
        entry->pid <= 0 || memchr(entry->schema, '\0', entry->schema_nbytes) != NULL) {
        abort();
    }
    if (entry->n_contacts > NXR_MAX_CONTACTS) {
        abort();
    }
    for (uint32_t i = 0; i < entry->n_contacts; i++) {
        if (memchr(entry->contacts[i], '\0', sizeof(entry->contacts[i])) == NULL) {
            abort();
        }
    }
    (void)nxr_entry_is_proved(entry, secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    unsigned char *bytes = malloc(nbytes + 1); /* malloc(0) may be NULL */
    struct nxr_entry entry;
    const char *why = NULL;

    if (bytes == NULL) {
        abort();
    }
    memcpy(bytes, data, nbytes);
    memset(&entry, UNTOUCHED, sizeof(entry));
    if (nxr_entry_parse(bytes, nbytes, "name", &entry, &why) == NIXL_OK) {
        check_entry(&entry);
    } else if (why == NULL || entry.magic != 0x5a5a5a5au) {
        abort();
    }
    free(bytes);
    return 0;
}
