/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello: which rank is this, and where are the others? Run it as
 *
 *     nixlrun -np 4 hello
 */
#include <nixlrun.h>

#include <stdio.h>

static const char *scope_name(int scope)
{
    switch (scope) {
    case NIXL_SCOPE_SELF:
        return "myself";
    case NIXL_SCOPE_LOCAL:
        return "same host";
    case NIXL_SCOPE_REMOTE:
        return "another host";
    default:
        return nixl_strerror(scope); /* negative: the call failed */
    }
}

int main(void)
{
    int status = nixl_init(NULL);
    int rank, size;

    if (status != NIXL_OK) {
        fprintf(stderr, "hello: %s: %s\n", nixl_strerror(status), nixl_last_error()->text);
        return 1;
    }
    rank = nixl_rank();
    size = nixl_size();
    printf("rank %d of %d on %s\n", rank, size, nixl_host(rank));
    for (int peer = 0; peer < size; peer++) {
        printf("rank %d sees rank %d: %s\n", rank, peer, scope_name(nixl_scope(peer)));
    }
    return nixl_finalize() == NIXL_OK ? 0 : 1;
}
