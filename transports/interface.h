/* SPDX-License-Identifier: Apache-2.0 */
/* How far an interface of this host reaches, for modules that publish its address. */
#ifndef NXR_INTERFACE_H
#define NXR_INTERFACE_H

/* What it leads to, the farthest last. */
enum nxr_extent {
    NXR_EXTENT_PROCESSES, /* of this network namespace: loopback, which callers treat themselves */
    NXR_EXTENT_HOST,      /* containers and virtual machines of this host: docker0, virbr0 */
    NXR_EXTENT_HOSTS,     /* others, or unknown */
};

/*
 * A bridge that has no ports other than those of containers and virtual machines ends at this host.
 * Many hosts have such a bridge, with the same address on each, so that address reaches a different
 * machine from each host.
 */
enum nxr_extent nxr_interface_extent(const char *name);

#endif
