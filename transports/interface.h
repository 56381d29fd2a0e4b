/* SPDX-License-Identifier: Apache-2.0 */
/* How far an interface of this host leads, for modules that tell others its address. */
#ifndef NXR_INTERFACE_H
#define NXR_INTERFACE_H

/* To whom it leads, the farthest last. */
enum nxr_extent {
    NXR_EXTENT_PROCESSES, /* of this network namespace: loopback, which the caller knows better */
    NXR_EXTENT_HOST,      /* containers and virtual machines of this host: docker0, virbr0 */
    NXR_EXTENT_HOSTS,     /* others, or nobody knows */
};

/*
 * A bridge without any port but those of containers and virtual machines ends at this host. Many
 * hosts have one, under the same address each, behind which there is somebody else everywhere.
 */
enum nxr_extent nxr_interface_extent(const char *name);

#endif
