/* SPDX-License-Identifier: Apache-2.0 */
/* Introductions: what is accepted has the length of its type, and its fields are in range. */
/* sources: src/attach/introduction.c src/attach/entry.c src/attach/proof.c src/core/identity.c */
/* libs: nettle */
#include "attach/introduction.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void check_message(const union nxr_intro_message *message, size_t nbytes)
{
    if (message->head.nbytes != nbytes || message->head.from.rank < 0) {
        abort();
    }
    switch ((enum nxr_intro_type)message->head.type) {
    case NXR_INTRO_ASK:
        if (!nxr_entry_is_name(message->ask.name)) {
            abort();
        }
        break;
    case NXR_INTRO_PROVE:
        if (message->prove.schema_nbytes > sizeof(message->prove.schema)) {
            abort();
        }
        break;
    case NXR_INTRO_REFUSED:
        if (message->refused.schema_nbytes > sizeof(message->refused.schema) ||
            message->refused.refusal == 0 || message->refused.refusal >= NXR_INTRO_N_REFUSALS) {
            abort();
        }
        break;
    case NXR_INTRO_CHALLENGE:
    case NXR_INTRO_TAKEN:
        break;
    default:
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    unsigned char *bytes = malloc(nbytes + 1); /* malloc(0) may be NULL */
    union nxr_intro_message message;
    const char *why = NULL;

    if (bytes == NULL) {
        abort();
    }
    memcpy(bytes, data, nbytes);
    if (nxr_intro_parse(bytes, nbytes, &message, &why) == NIXL_OK) {
        check_message(&message, nbytes);
    } else if (why == NULL) {
        abort();
    }
    free(bytes);
    return 0;
}
