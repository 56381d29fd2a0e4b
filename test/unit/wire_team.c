/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of messages about making teams: verdicts, and steps of agreeing. */
#include "control/wire.h"

#include "test/unit/unit.h"

#define SIZE 4

static union nxr_wire_message team_message;
static const char *team_why;

static int team_parse(void)
{
    union nxr_wire_message parsed;

    return nxr_wire_parse(&team_message, team_message.header.nbytes, 0, SIZE, &parsed, &team_why);
}

static void team_refused(void)
{
    cr_expect(eq(int, team_parse(), NIXL_E_TRANSPORT));
    cr_assert(team_why != NULL);
}

TestSuite(wire_team, .timeout = 60);

Test(wire_team, a_verdict_is_an_outcome_about_a_member)
{
    static const struct nxr_verdict good[] = {
        {.status = NIXL_OK, .member = -1},
        {.status = NIXL_E_NO_MEMORY, .member = SIZE},
        {.status = NIXL_E_EXPIRED, .member = 0},
        {.status = NIXL_E_PEER_LOST, .member = 0, .has_left = 1},
        {.status = NIXL_E_INVALID_ARG, .member = 1, .cause = NXR_VERDICT_TABLES},
    };
    static const struct nxr_verdict bad[] = {
        {.status = NIXL_INPROGRESS, .member = 0},
        {.status = NIXL_E_STORAGE - 1, .member = 0},
        {.status = INT32_MIN, .member = 0},
        {.status = NIXL_OK, .member = -2},
        {.status = NIXL_E_NO_MEMORY, .member = 0, .has_left = 1},
        {.status = NIXL_E_PEER_LOST, .member = -1},
        {.status = NIXL_E_PEER_LOST, .member = 0, .has_left = 2},
        {.status = NIXL_E_INVALID_ARG, .member = -1, .cause = NXR_VERDICT_TABLES},
        {.status = NIXL_E_NO_MEMORY, .member = 1, .cause = NXR_VERDICT_TABLES},
        {.status = NIXL_E_INVALID_ARG, .member = 1, .cause = NXR_VERDICT_TABLES + 1},
    };

    for (int type = NXR_WIRE_PROPOSE; type <= NXR_WIRE_DECIDED; type++) {
        nxr_wire_init(&team_message, (enum nxr_wire_type)type);
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
            team_message.verdict.verdict = good[i];
            cr_expect(eq(int, team_parse(), NIXL_OK), "verdict %zu: %s", i, team_why);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            team_message.verdict.verdict = bad[i];
            team_refused();
        }
    }
}

Test(wire_team, a_step_to_a_team_can_be)
{
    static const struct nxr_wire_reform bad[] = {{.step = 0, .size = 2, .member = -1},
                                                 {.step = 1, .size = 2, .member = 0},
                                                 {.step = NXR_REFORM_ABORT, .size = 2}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        nxr_wire_init(&team_message, NXR_WIRE_REFORM);
        team_message.reform.step = bad[i].step, team_message.reform.size = bad[i].size;
        team_message.reform.member = bad[i].member;
        team_refused();
    }
}
