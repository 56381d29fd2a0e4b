/* SPDX-License-Identifier: Apache-2.0 */
/* What calls that use a token check first: its text, and who made it. No state, no lock. */
#include "config.h"

#include "core/token.h"
#include "core/job.h"
#include "util/status.h"

int nxr_token_refuse(const char *operation, int rank, int status, const char *why)
{
    return nxr_fail(status, operation, rank, "", 0, "the token: %s", why);
}

int nxr_token_check_room(const char *operation, size_t nbytes)
{
    return nbytes >= NXR_TOKEN_NBYTES
               ? NIXL_OK
               : nxr_fail(NIXL_E_TRUNCATED, operation, -1, "", 0,
                          "token_nbytes is %zu, and the token takes %d; NIXL_TOKEN_MAX + 1 (%d) "
                          "suffices for every version",
                          nbytes, NXR_TOKEN_NBYTES, NIXL_TOKEN_MAX + 1);
}

/* Refuse: the token was made by another process than the expected one. */
static int token_refuse_maker(const char *operation, const struct nxr_token *token, int rank,
                              int status, const struct nxr_identity *expected)
{
    char why[NXR_IDENTITY_WHY_NBYTES];

    return nxr_token_refuse(
        operation, rank, status,
        nxr_identity_explain("made by", expected, &token->maker, nxr_job.self.job, why));
}

/* The maker's number. A process of another job that is not attached has none. */
static int token_find_maker(const char *operation, const struct nxr_token *token, int *rank_p)
{
    const struct nxr_identity *maker = &token->maker;
    const struct nxr_identity here = {nxr_job.self.job, maker->rank, maker->incarnation};

    *rank_p = nxr_rank_of(maker);
    if (*rank_p >= 0) {
        return NIXL_OK;
    }
    return maker->job != here.job
               ? token_refuse_maker(operation, token, -1, NIXL_E_INVALID_ARG, &here)
               : nxr_token_refuse(operation, -1, NIXL_E_INVALID_ARG, "its rank is not in the job");
}

int nxr_token_read(const char *operation, const char *text, struct nxr_token *token_p, int *rank_p)
{
    int status = nxr_check_ready(operation);
    const char *why = "it is NULL";

    if (status != NIXL_OK) {
        return status;
    }
    if (text == NULL || nxr_token_parse(text, token_p, &why) != NIXL_OK) {
        return nxr_token_refuse(operation, -1, NIXL_E_INVALID_ARG, why);
    }
    return token_find_maker(operation, token_p, rank_p);
}

int nxr_token_check_maker(const char *operation, const struct nxr_token *token, int rank)
{
    int status;
    const struct nxr_peer *peer = nxr_peer_connected(operation, rank, &status);

    if (peer != NULL && !nxr_identity_is(&peer->identity, &token->maker)) {
        return token_refuse_maker(operation, token, rank, NIXL_E_STALE, &peer->identity);
    }
    return status;
}
