/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shortest useful PMIx client: init, a collecting fence, finalize. test/bench/start times it.
 */
#include <pmix.h>

#include <stdbool.h>
#include <stdio.h>

int main(void)
{
    pmix_proc_t self, all;
    pmix_info_t collect;
    bool yes = true;
    pmix_status_t status = PMIx_Init(&self, NULL, 0);

    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_Init: %s\n", PMIx_Error_string(status));
        return 1;
    }
    PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    status = PMIx_Fence(&all, 1, &collect, 1);
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_Fence: %s\n", PMIx_Error_string(status));
        return 1;
    }
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
