/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to the launcher's PMIx server. */
#ifndef NXR_BOOT_PMIX_INIT_H
#define NXR_BOOT_PMIX_INIT_H

#include <pmix.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * PMIx_Init. It writes who this process is to `self`, which stays. `is_foreign`: the server is not
 * nixlrun's. After PMIX_ERR_TIMEOUT a thread may still be in the call.
 */
pmix_status_t nxr_pmix_init(pmix_proc_t *self, bool is_foreign, int64_t timeout_ns);

/* Connect once more after PMIx_Finalize; no deadline. */
void nxr_pmix_init_again(void);

#endif
