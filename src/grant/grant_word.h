/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The word of a grant, and those of the places of its users: what they mean and how they change. No
 * state.
 *
 *     OPEN with n uses -> OPEN with n - 1, by a user that has taken a place
 *     OPEN -> EXPIRED, REVOKED or CLOSED, by the owner
 *
 * A turn is one grant in a slot; it grows when the slot is used again, and the first word of a new
 * turn refuses all users of the former.
 */
#ifndef NXR_GRANT_GRANT_WORD_H
#define NXR_GRANT_GRANT_WORD_H

#include "nixlrun.h"

#include <stdint.h>

/* turn << 32 | uses left << 8 | enum nixl_grant_state */
#define NXR_GRANT_ANY_USES 0xffffffu
_Static_assert(NIXL_GRANT_USES_MAX == NXR_GRANT_ANY_USES - 1, "the greatest number that is one");

static inline uint64_t nxr_grant_word(uint32_t turn, uint32_t uses, enum nixl_grant_state state)
{
    return (uint64_t)turn << 32 | (uint64_t)(uses & NXR_GRANT_ANY_USES) << 8 | (uint64_t)state;
}

static inline uint32_t nxr_grant_word_turn(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline uint32_t nxr_grant_word_uses(uint64_t word)
{
    return (uint32_t)(word >> 8) & NXR_GRANT_ANY_USES;
}

/* The state of the grant of that turn; 0: the word is of another turn, or of none. */
static inline int nxr_grant_word_state(uint64_t word, uint32_t turn)
{
    int state = (int)(word & 0xff);

    if (nxr_grant_word_turn(word) != turn || state > NIXL_GRANT_CLOSED) {
        return 0;
    }
    return state == NIXL_GRANT_OPEN && nxr_grant_word_uses(word) == 0 ? NIXL_GRANT_USED : state;
}

/* The word of an open grant after one more use. */
static inline uint64_t nxr_grant_word_used(uint64_t word)
{
    uint32_t uses = nxr_grant_word_uses(word);

    return nxr_grant_word(nxr_grant_word_turn(word), uses == NXR_GRANT_ANY_USES ? uses : uses - 1,
                          NIXL_GRANT_OPEN);
}

/* The word of a grant that its owner ends. */
static inline uint64_t nxr_grant_word_ended(uint64_t word, enum nixl_grant_state state)
{
    return nxr_grant_word(nxr_grant_word_turn(word), nxr_grant_word_uses(word), state);
}

/* A place that a user has: turn << 32 | the owner's number of the user + 1. 0: it is empty. */
static inline uint64_t nxr_grant_place(uint32_t turn, int user)
{
    return (uint64_t)turn << 32 | (uint32_t)(user + 1);
}

static inline int nxr_grant_place_user(uint64_t place)
{
    return (int)((uint32_t)place - 1);
}

#endif
