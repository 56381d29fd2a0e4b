/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages: the first byte is the number of descriptors, or 4 for a network, the rest is
 * the message. What is accepted is as long as it says, speaks for a rank of the job, and names
 * nothing outside of the tables that the library looks up; what is refused says why and writes
 * nothing.
 */
/* sources: src/control/wire.c src/memory/export.c */
#include "control/wire.h"
#include "core/job.h"
#include "memory/memory.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE = 4, UNTOUCHED = 0x5a };

struct nxr_job nxr_job; /* the sender of messages that are made, which none is here */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* The library's list of kinds, as it is on a host with all of them. */
const struct nxr_memory_kind nxr_memory_host;

const struct nxr_memory_kind *nxr_memory_kind(enum nixl_mem_kind kind)
{
    return kind >= NIXL_MEM_HOST && kind <= NIXL_MEM_VULKAN ? &nxr_memory_host : NULL;
}

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* What the library does with a message without looking again. */
static void check_used(const union nxr_wire_message *message)
{
    switch (message->header.type) {
    case NXR_WIRE_RESOLVE:
    case NXR_WIRE_PROBE:
        must(strlen(message->resolve.name) > 0);
        must(strlen(message->resolve.name) <= NIXL_NAME_MAX);
        must(message->resolve.extent < NIXL_EXTENTS_MAX);
        break;
    case NXR_WIRE_KEY:
        must(message->key.key.addr + message->key.key.nbytes >= message->key.key.addr);
        must(message->key.key.id < NXR_N_REGION_IDS);
        must((message->key.key.marks & NXR_KEY_EXTENTS) == 0 ||
             (message->key.key.addr > 0 && message->key.key.addr <= NIXL_EXTENTS_MAX));
        must(message->key.remote.nbytes <= sizeof(message->key.remote.bytes));
        must(memchr(message->key.remote.network, '\0', sizeof(message->key.remote.network)) !=
             NULL);
        break;
    case NXR_WIRE_CLOSED:
        must(message->closed.id < NXR_N_REGION_IDS);
        break;
    case NXR_WIRE_DEATH:
        must(message->death.dead.rank >= 0 && message->death.dead.rank < SIZE);
        must(message->death.by.rank >= 0 && message->death.by.rank < SIZE);
        break;
    case NXR_WIRE_LEAVING:
        must(message->leaving.first == 0); /* one message names all ranks of the job */
        must(message->leaving.ranks[0] < UINT64_C(1) << SIZE);
        break;
    case NXR_WIRE_PROPOSE:
    case NXR_WIRE_DECIDED:
        must(message->verdict.verdict.status <= NIXL_OK);
        must(message->verdict.verdict.member >= -1);
        must(message->verdict.verdict.status != NIXL_E_PEER_LOST ||
             message->verdict.verdict.member >= 0);
        break;
    case NXR_WIRE_REFORM:
        must(message->reform.step >= NXR_REFORM_JOIN && message->reform.step < NXR_REFORM_N_STEPS);
        must(message->reform.size > 0 && message->reform.member >= -1);
        must((message->reform.status < NIXL_OK) == (message->reform.step == NXR_REFORM_ABORT));
        break;
    case NXR_WIRE_RENEW:
        must(message->renew.lifetime_ns >= 0);
        break;
    case NXR_WIRE_GRANT:
        must(message->grant.state >= 0 && message->grant.state <= NIXL_GRANT_CLOSED);
        must(message->grant.state == 0 || message->grant.left_ns >= 0);
        break;
    case NXR_WIRE_REFER:
        must(message->refer.rank >= 0 && message->refer.number >= 0);
        must(message->refer.job_size > 0);
        must(strlen(message->refer.name) <= NIXL_PUBLISH_NAME_MAX);
        break;
    case NXR_WIRE_REFERRED:
        must(message->referred.status <= NIXL_OK && message->referred.number >= 0);
        must(strlen(message->referred.name) <= NIXL_PUBLISH_NAME_MAX);
        must(strlen(message->referred.why) < NXR_WIRE_WHY_NBYTES);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    union nxr_wire_message message;
    const char *why = NULL;
    unsigned char *bytes;
    int n_fds;

    if (nbytes == 0) {
        return 0;
    }
    /* Of exactly that size, so that a read behind the end is seen. */
    bytes = malloc(nbytes);
    must(bytes != NULL);
    memcpy(bytes, data + 1, nbytes - 1);
    n_fds = data[0] % 5 < 4 ? data[0] % 5 : NXR_WIRE_REMOTE;
    memset(&message, UNTOUCHED, sizeof(message));
    if (nxr_wire_parse(bytes, nbytes - 1, n_fds, SIZE, &message, &why) == NIXL_OK) {
        must(why == NULL && message.header.nbytes == nbytes - 1);
        must(memcmp(&message, bytes, nbytes - 1) == 0);
        must(message.header.from.rank >= 0 && message.header.from.rank < SIZE);
        check_used(&message);
    } else {
        must(why != NULL && why[0] != '\0' && strchr(why, '\n') == NULL);
        for (size_t i = 0; i < sizeof(message); i++) {
            must(((unsigned char *)&message)[i] == UNTOUCHED);
        }
    }
    free(bytes);
    return 0;
}
