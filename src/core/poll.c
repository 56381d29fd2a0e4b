/* SPDX-License-Identifier: Apache-2.0 */
/* The flags and the table of poll.h. No lock. */
#include "config.h"

#include "core/poll.h"

atomic_bool nxr_net_is_open;
atomic_bool nxr_net_is_polled;
_Atomic int64_t nxr_net_expected_end;
atomic_bool nxr_atomics_are_used;
_Atomic uint32_t nxr_n_to_copy;
_Atomic uint32_t nxr_n_at_copy_thread;

struct nxr_pollers nxr_pollers;
