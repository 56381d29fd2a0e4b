/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cores that this process may run on, and whether they are enough for the ranks that share
 * them. Cards carry a hash of the set of cores, so that a rank can count those with the same set: a
 * launcher gives each rank cores of its own, but `taskset` or a container may give all ranks the
 * same few. No state, no lock.
 */
#ifndef NXR_CORE_CORES_H
#define NXR_CORE_CORES_H

#include <stdbool.h>
#include <stdint.h>

struct nxr_cores {
    int n_allowed; /* at least 1 */
    int n_online;  /* of the host, at least 1 */
    uint32_t hash; /* of the allowed ones; 0: not known */
};

struct nxr_cores nxr_cores_read(void);

/* Have the ranks of this host more threads that spin than there are cores for them? */
static inline bool nxr_cores_are_few(const struct nxr_cores *cores, int n_local, int n_sharing)
{
    return n_sharing > cores->n_allowed || n_local > cores->n_online;
}

/* May a second thread of this rank work beside one that spins? */
static inline bool nxr_cores_have_spare(const struct nxr_cores *cores, int n_local, int n_sharing)
{
    return n_sharing < cores->n_allowed && !nxr_cores_are_few(cores, n_local, n_sharing);
}

#endif
